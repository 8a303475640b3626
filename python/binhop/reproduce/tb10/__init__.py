"""Reproduces TB10 (Tang, Bao, Hu and Chen, DMA Cache, 2010).

`paper` holds the document's figures. `forms` says which schemes are compared in which sizes, `study` runs
them behind one front for each workload, and `data` reads the counts. `claims`, `figures` and `page` read
only what `data` returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop.kept_runs import keeping
from binhop.output import ResultDirectory
from binhop.reproduce import claims as claim_files

if TYPE_CHECKING:
    from pathlib import Path

    from binhop.pace import Watch
    from binhop.reproduce.claims import Claim, Judged


def run(
    scale: str,
    out: Path,
    *,
    threads: int | None = None,
    progress: Watch | None = None,
    judged: Judged | None = None,
) -> Path:
    """Runs the study at a scale and fills the directory `out`."""
    from binhop.reproduce.tb10 import study

    # The result is moved into place before the kept runs are removed.
    with keeping(out) as kept, ResultDirectory(out, "--out") as place:
        tables = study.run(scale, threads=threads, kept=kept, progress=progress)

        command = ["binhop", "reproduce", "tb10", "--scale", scale]
        claim_files.fill(place, tables.write, _judge, _report, judged=judged, command=command)
    return out


def _judge(directory: Path) -> list[Claim]:
    from binhop.reproduce.tb10.claims import judge
    from binhop.reproduce.tb10.data import Tb10Data

    return judge(Tb10Data.read(directory))


def report(directory: Path) -> list[Path]:
    """Makes page, tables, claims and figures from the Parquet of a directory, and returns the files."""
    return _report(directory, _judge(directory))


def _report(directory: Path, judged: list[Claim]) -> list[Path]:
    from binhop.reproduce.tb10 import figures, page
    from binhop.reproduce.tb10.data import Tb10Data

    data = Tb10Data.read(directory)
    made = [claim_files.write(judged, directory), *figures.draw(data, directory)]
    return [*made, *page.write(data, judged, directory)]
