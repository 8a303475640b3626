"""Reproduces LF91 (Lynch and Flynn, 1991), paging with page coloring.

`study` runs the passes and `data` reads their tables. `claims`, `figures` and `page` read only what `data`
returns.
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
    from binhop.reproduce.lf91 import study

    # The result is moved into place before the kept passes are removed.
    with keeping(out) as kept, ResultDirectory(out, "--out") as place:
        tables = study.run(scale, threads=threads, kept=kept, progress=progress)

        command = ["binhop", "reproduce", "lf91", "--scale", scale]
        claim_files.fill(place, tables.write, _judge, _report, judged=judged, command=command)
    return out


def _judge(directory: Path) -> list[Claim]:
    from binhop.reproduce.lf91.claims import judge
    from binhop.reproduce.lf91.data import Lf91Data

    return judge(Lf91Data.read(directory))


def report(directory: Path) -> list[Path]:
    """Makes page, comparison, claims and figures from the Parquet of a directory, and returns the files."""
    return _report(directory, _judge(directory))


def _report(directory: Path, judged: list[Claim]) -> list[Path]:
    from binhop.reproduce.lf91 import figures, page
    from binhop.reproduce.lf91.data import Lf91Data

    data = Lf91Data.read(directory)
    made = [claim_files.write(judged, directory), *figures.draw(data, directory)]
    return [*made, *page.write(data, judged, directory)]
