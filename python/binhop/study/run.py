"""A study is run, workload by workload; what is finished is kept, and the tables are joined at the end."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import binhop
from binhop import _binhop
from binhop.lazily import pl
from binhop.numbers import several
from binhop.output import write_parquet
from binhop.study.result import StudyResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binhop.results import Result
    from binhop.study.cells import Plan, Run

    Watch = Callable[[str, int, int | None], object]

TABLES = ("results", "series", "processes")


def run(
    plan: Plan,
    *,
    threads: int | None = None,
    kept: Path | None = None,
    watch: Watch | None = None,
) -> StudyResult:
    """Runs every cell of a plan.

    Args:
        plan: What `binhop.study.plan` made of a document.
        threads: How many threads; default: all there are. No result depends on it.
        kept: A directory for the tables of finished runs. What it holds of an earlier attempt at the same
            cells, by the same binhop, is taken instead of being simulated again. The caller removes it.
        watch: Told what is being simulated, the references done, and how many there are to do, if known.

    Returns:
        The tables of all cells.
    """
    finished: list[dict[str, pl.DataFrame]] = []
    notes: list[str] = []
    for number, one in enumerate(plan.runs):
        place = None if kept is None else kept / _key(one, plan)
        if place is not None and place.is_dir():
            tables, said = _read(place)
        else:
            title = f"{one.title} ({number + 1} of {len(plan.runs)})"
            tables, said = _simulate(one, plan, threads, None if watch is None else (title, watch))
            if place is not None:
                _keep(tables, said, place)
        finished.append(tables)
        notes += [f"{one.workload}: {note}" for note in said]
    tables = {name: pl.concat([each[name] for each in finished]) for name in TABLES}
    return StudyResult.assemble(plan, tables, list(dict.fromkeys(notes)))


def explain(plan: Plan) -> list[str]:
    """The plan in words: the cells, the runs, and what each run shares and what not, and why."""
    merged = sum(len(run.cells) for run in plan.runs)
    lines = [
        f"{plan.study.name}: {several(len(plan.places), 'cell')} in {several(len(plan.study.part), 'part')}; "
        f"{merged} {'are' if merged != 1 else 'is'} different, in {several(len(plan.runs), 'run')}"
    ]
    said: dict[tuple[str, ...], int] = {}
    for number, run in enumerate(plan.runs):
        end = run.end
        amount = f"{end.length:,} references" if end.length else "the whole trace"
        amount = f"{end.instructions:,} instructions" if end.instructions else amount
        size = f"{several(len(run.cells), 'cell')} × {several(len(run.seeds), 'placement')}"
        lines.append(f"run {number + 1}: {run.workload}, {amount}: {size}")
        shared = tuple(_shared(run))
        if not shared:
            continue
        first = said.setdefault(shared, number + 1)
        lines += [f"  {line}" for line in shared] if first == number + 1 else [f"  as in run {first}"]
    return lines


def _shared(run: Run) -> list[str]:
    """What the planner says of the run's machines."""
    machines = [cell.machine for cell in run.cells]
    return binhop.explain(machines, seeds=run.seeds)


def _simulate(
    run: Run, plan: Plan, threads: int | None, watch: tuple[str, Watch] | None
) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """One pass over one workload, for all of the run's cells."""
    tell = None
    if watch is not None:
        title, told = watch

        def tell(done: int, of: int | None) -> None:
            told(title, done, of)

    end = run.end
    results = binhop.simulate_all(
        [cell.machine for cell in run.cells],
        plan.traces[run.workload],
        seeds=run.seeds,
        threads=threads,
        length=end.length,
        instructions=end.instructions,
        warmup=end.warmup,
        interval=end.interval,
        progress=tell,
    )
    notes = [note for result in results for note in result.notes]
    return _tables(run, results), list(dict.fromkeys(notes))


def _tables(run: Run, results: list[Result]) -> dict[str, pl.DataFrame]:
    """The tables of a run, its cells named."""
    made = {}
    for name in TABLES:
        frames = [
            getattr(result, name).with_columns(cell=pl.lit(cell.id))
            for cell, result in zip(run.cells, results, strict=True)
        ]
        made[name] = pl.concat(frames)
    return made


def _key(run: Run, plan: Plan) -> str:
    """What the tables of a run depend on: nothing else may change them."""
    facts = {
        "trace": plan.traces[run.workload].provenance(),
        "machines": [cell.machine.resolved() for cell in run.cells],
        "seeds": run.seeds,
        "end": vars(run.end),
        "binhop": this_binhop(),
    }
    text = json.dumps(facts, sort_keys=True)
    return f"{run.workload}-{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"


@contextmanager
def keeping(out: str | os.PathLike[str]) -> Iterator[Path]:
    """The place beside `out` for finished runs: it goes when all is finished, and stays when not."""
    kept = kept_beside(out)
    yield kept
    shutil.rmtree(kept, ignore_errors=True)


def kept_beside(out: str | os.PathLike[str]) -> Path:
    """Where finished runs are kept while `out` is not complete."""
    path = Path(out).resolve()
    return path.parent / f".{path.name}.finished"


@cache
def this_binhop() -> str:
    """This very binhop: its version, and its extension's bytes."""
    with Path(str(_binhop.__file__)).open("rb") as file:
        return f"{_binhop.__version__} {hashlib.file_digest(file, 'blake2b').hexdigest()}"


def _keep(tables: dict[str, pl.DataFrame], notes: list[str], place: Path) -> None:
    """Keeps the tables of a finished run; they appear complete or not at all."""
    partial = place.with_name(f".{place.name}.partial-{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        for name, frame in tables.items():
            write_parquet(frame, partial / f"{name}.parquet")
        (partial / "notes.json").write_text(json.dumps(notes), encoding="utf-8")
        partial.rename(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _read(place: Path) -> tuple[dict[str, pl.DataFrame], list[str]]:
    tables = {name: pl.read_parquet(place / f"{name}.parquet") for name in TABLES}
    return tables, json.loads((place / "notes.json").read_text(encoding="utf-8"))
