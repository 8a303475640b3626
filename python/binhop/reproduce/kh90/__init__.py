"""Reproduces KH90 (Kessler and Hill, Miss Reduction in Large, Real-Indexed Caches, 1990).

`study.toml` describes the simulation, and `expected.csv` holds the paper's figures. `rates`, `spaces`,
`trend` and `worth` judge the claims by the rules of `binhop.reproduce.judge`. `tables` and `figures` make
tables and figures, `today` asks the same about present-day machines, and `page` writes the page. All of these
modules read only the tables of a run.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from binhop import study
from binhop.kept_runs import keeping
from binhop.lazy_imports import load
from binhop.output import ResultDirectory
from binhop.report.style import save
from binhop.reproduce import claims as verdicts
from binhop.reproduce.ahead import ahead
from binhop.reproduce.kh90 import claims, figures, page, spaces, tables, today
from binhop.reproduce.kh90.data import HERE, Kh90Data

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl

    from binhop.pace import Watch
    from binhop.reproduce.claims import Claim, Judged

STUDY = HERE / "study.toml"

_AHEAD: tuple[Callable[[], object], ...] = (
    partial(load, "scipy.stats"),
    *spaces.MODEL,
    partial(load, "altair"),
    partial(load, "vl_convert"),
)
"""Imports and values that judging and drawing need beside the tables of the study."""


def run(
    scale: str,
    out: Path,
    *,
    threads: int | None = None,
    progress: Watch | None = None,
    judged: Judged | None = None,
    override: study.Amount | None = None,
) -> Path:
    """Runs the study and fills `out`. `override` shortens it, for tests."""
    plan = study.plan(study.load(STUDY), scale=scale, override=override)
    with keeping(out) as kept, ResultDirectory(out, "--out") as place:
        with ahead(_AHEAD, threads=threads):
            result = study.run(plan, threads=threads, kept=kept, watch=progress)

        def write(directory: Path) -> None:
            result.write(directory, {"paper": "kh90"})
            (directory / "study.toml").write_bytes(STUDY.read_bytes())

        command = ["binhop", "reproduce", "kh90", "--scale", scale]
        verdicts.fill(place, write, _judge, _report, judged=judged, command=command)
    return out


def _judge(directory: Path) -> list[Claim]:
    return claims.judge(Kh90Data.read(directory))


def report(directory: Path) -> list[Path]:
    """Makes page, tables, claims and figures anew from the tables of a run.

    The Monte Carlo of the model (model.csv, Figures 3 and 4, K1) is no table of the run. It depends on no
    trace and no machine, its seeds are fixed, and it takes less than a second, so it is drawn here.
    """
    return _report(directory, _judge(directory))


def _report(directory: Path, judged: list[Claim]) -> list[Path]:
    data = Kh90Data.read(directory)
    made = [verdicts.write(judged, directory)]
    every = tables.all_tables(data)
    made += tables.write(every, directory)
    variation = today.variation(data)
    variation.write_csv(directory / "today.csv", float_precision=6)
    made += [*figures.draw(data, directory), *save(today.figure(data), directory, "today")]
    drawn = {path.stem for path in made if path.suffix == ".png"}
    text = page.page(data, judged, every, drawn, today.section(data, variation))
    (directory / "report.md").write_text(text, encoding="utf-8")
    (directory / "model.csv").write_text(_model(), encoding="utf-8")
    return [*made, *(directory / name for name in ("today.csv", "report.md", "model.csv"))]


def _model() -> str:
    """Returns the model's points beside those of the Monte Carlo, as CSV."""
    table: pl.DataFrame = spaces.drawn()
    return table.write_csv(float_precision=6)
