"""Reproduces MB90 (Mogul and Borg, The Effect of Context Switches on Cache Performance, 1990).

`paper` holds the paper's figures, and repeats the arithmetic of its Table 4. `study` runs the trials, and
`data` reads their tables. `claims`, `figures` and `page` read only what `data` returns.
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
    from binhop.reproduce.mb90 import study

    # The result is moved into place before the kept trials are removed.
    with keeping(out) as kept, ResultDirectory(out, "--out") as place:
        tables = study.run(scale, threads=threads, kept=kept, progress=progress)

        command = ["binhop", "reproduce", "mb90", "--scale", scale]
        claim_files.fill(place, tables.write, _judge, _report, judged=judged, command=command)
    return out


def _judge(directory: Path) -> list[Claim]:
    from binhop.reproduce.mb90.claims import judge
    from binhop.reproduce.mb90.data import Mb90Data

    return judge(Mb90Data.read(directory))


def report(directory: Path) -> list[Path]:
    """Makes page, tables, claims and figures from the Parquet of a directory, and returns the files."""
    return _report(directory, _judge(directory))


def _report(directory: Path, judged: list[Claim]) -> list[Path]:
    from binhop.reproduce.mb90 import figures, page
    from binhop.reproduce.mb90.data import Mb90Data

    data = Mb90Data.read(directory)
    made = [claim_files.write(judged, directory), *figures.draw(data, directory)]
    return [*made, *page.write(data, judged, directory)]
