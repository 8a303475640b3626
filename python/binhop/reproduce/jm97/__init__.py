"""Reproduces JM97 (Jacob and Mudge, Software-Managed Address Translation, 1997).

`paper` holds the document's figures, and repeats its arithmetic exactly. `programs` and `designs` say what
runs, `study` runs it, and `data` reads the counts. `claims`, `figures` and `page` read only what `data`
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
    recordings: Path | None = None,
) -> Path:
    """Runs the study at a scale and fills the directory `out`.

    `recordings` is a directory of recorded programs. Built-in ones stand for those that it lacks.
    """
    from binhop.reproduce.jm97 import study

    # The result is moved into place before the kept runs are removed.
    with keeping(out) as kept, ResultDirectory(out, "--out") as place:
        tables = study.run(scale, threads=threads, kept=kept, progress=progress, recordings=recordings)

        command = ["binhop", "reproduce", "jm97", "--scale", scale]
        if recordings is not None:
            command += ["--recordings", str(recordings)]
        claim_files.fill(place, tables.write, _judge, _report, judged=judged, command=command)
    return out


def _judge(directory: Path) -> list[Claim]:
    from binhop.reproduce.jm97.claims import judge
    from binhop.reproduce.jm97.data import Jm97Data

    return judge(Jm97Data.read(directory))


def report(directory: Path) -> list[Path]:
    """Makes page, tables, claims and figures from the Parquet of a directory, and returns the files."""
    return _report(directory, _judge(directory))


def _report(directory: Path, judged: list[Claim]) -> list[Path]:
    from binhop.reproduce.jm97 import figures, page
    from binhop.reproduce.jm97.data import Jm97Data

    data = Jm97Data.read(directory)
    made = [claim_files.write(judged, directory), *figures.draw(data, directory)]
    return [*made, *page.write(data, judged, directory)]
