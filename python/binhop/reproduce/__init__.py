"""Repeats the studies of papers, and shows the papers' figures beside binhop's in tables, figures and claims.

A paper is a module of this package with two functions. The first function is

    run(scale: str, out: Path, *, threads: int | None, progress: Watch | None, judged: Judged | None) -> Path

It runs the study at one of `SCALES`, fills the directory `out` (Parquet, Markdown, CSV, PNG, SVG,
claims.json; complete or not at all) and returns its path. `judged` takes the claims, even if `out` cannot be
written. The second function is

    report(directory: Path) -> list[Path]

which makes page, tables, claims and figures anew from the Parquet of such a directory alone. Both functions
raise `RequestError` for a wrong request. `PAPERS` lists the papers: command line, help and tests derive from
this list. Modules are imported when they are used, so that a command starts at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop.errors import RequestError

if TYPE_CHECKING:
    from pathlib import Path

    from binhop.pace import Watch
    from binhop.reproduce.claims import Judged

SCALES = {
    "smoke": "20 M references a workload, 100 switches a trial (mb90), 1 M references (jm97), "
    "0.2 M (tb10): only to see that it runs",
    "quick": "1 G references a workload, 2,000 switches a trial (mb90), 200 M references (jm97), "
    "2.5 to 8.5 M references to memory (tb10): figures describe a prefix",
    "paper": "3 G instructions a workload (kh90), the paper's own 1.2 to 1.5 G references (lf91), "
    "25 trials of 5,000 switches (mb90), 200 M references a program and 1 G for Figure 8 (jm97), "
    "30 to 42 M references to memory (tb10)",
}
"""The scales, and how much each of them simulates."""


@dataclass(frozen=True)
class Paper:
    """`Paper` is a paper that can be reproduced: its key, its title, and the module that reproduces it.

    `published` is the scale of the run that `studies/KEY` keeps. `records` says whether the study also runs
    on recordings of a directory.
    """

    key: str
    title: str
    module: str
    published: str = "paper"
    records: bool = False

    def run(
        self,
        scale: str,
        out: Path,
        *,
        threads: int | None = None,
        progress: Watch | None = None,
        judged: Judged | None = None,
        recordings: Path | None = None,
    ) -> Path:
        """Runs the study and fills the directory. `judged` takes the claims, even if that fails.

        `recordings` is a directory of recorded programs, for a paper that takes them.
        """
        if scale not in SCALES:
            raise _binhop.unknown(scale, "scale", "no scale has this name", [*SCALES])
        options: dict[str, Any] = {"threads": threads, "progress": progress, "judged": judged}
        if recordings is not None:
            if not self.records:
                rule = f"the study of {self.key} runs on built-in workloads alone"
                raise RequestError(str(recordings), "--recordings", rule, "leave --recordings out")
            options["recordings"] = recordings
        done: Path = self._module().run(scale, out, **options)
        return done

    def report(self, directory: Path) -> list[Path]:
        """Makes page, claims and figures anew from the directory's tables."""
        made: list[Path] = self._module().report(directory)
        return made

    def _module(self) -> Any:
        return import_module(self.module)


PAPERS: dict[str, Paper] = {
    one.key: one
    for one in (
        Paper("kh90", "careful page mapping into large real-indexed caches (1990)", "binhop.reproduce.kh90"),
        Paper("lf91", "paging performance with page coloring (1991)", "binhop.reproduce.lf91"),
        Paper(
            "mb90",
            "the effect of context switches on cache performance (1990)",
            "binhop.reproduce.mb90",
        ),
        Paper(
            "jm97",
            "software-managed address translation (1997)",
            "binhop.reproduce.jm97",
            published="quick",
            records=True,
        ),
        Paper("tb10", "caches for device data (2010)", "binhop.reproduce.tb10"),
    )
}
"""Every paper that can be reproduced, by key."""


def paper(key: str) -> Paper:
    """Returns the paper with this key."""
    if key not in PAPERS:
        raise _binhop.unknown(key, "reproduce", "no paper has this key", [*PAPERS])
    return PAPERS[key]
