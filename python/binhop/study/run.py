"""A study is run, workload by workload; what is finished is kept, and the tables are joined at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import binhop
from binhop.comparison.result import UNUSED
from binhop.kept import Kept, is_known, machine_facts
from binhop.lazily import pl
from binhop.numbers import several
from binhop.pace import Passes, references_of
from binhop.study.result import StudyResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from binhop.results import Result
    from binhop.study.cells import Plan, Run

    Tell = Callable[[int, int | None], object]
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
        watch: Told what is being simulated, the references done in all runs, and how many there are to do, if
            known.

    Returns:
        The tables of all cells.
    """
    finished: list[dict[str, pl.DataFrame]] = []
    notes: list[tuple[str, str]] = []
    store = None if kept is None else Kept(kept)
    title = ""
    passes = None
    if watch is not None:
        lengths = [references_of(plan.traces[one.workload], one.end.length) for one in plan.runs]
        passes = Passes(lambda done, of: watch(title, done, of), lengths)
    for number, one in enumerate(plan.runs):
        tell = None if passes is None else passes.next()
        trace = plan.traces[one.workload].provenance() if store is not None else {}
        known = store if is_known(trace) else None
        facts = _facts(one, trace) if known is not None else {}
        if known is not None and (found := known.find(one.workload, facts)) is not None:
            tables, said = found[0], found[1]["notes"]
        else:
            title = f"{one.title} ({number + 1} of {len(plan.runs)})"
            tables, said = _simulate(one, plan, threads, tell)
            if known is not None:
                known.keep(one.workload, facts, tables, {"notes": said})
        finished.append(tables)
        notes += [(one.workload, note) for note in said]
    tables = {name: pl.concat([each[name] for each in finished]) for name in TABLES}
    return StudyResult.assemble(plan, tables, once(notes, {one.workload for one in plan.runs}))


def once(notes: list[tuple[str, str]], workloads: Collection[str]) -> list[str]:
    """Returns each note of a workload once, with its workloads unless all workloads have the note.

    >>> once([("lin", "a"), ("lin", "b"), ("tree", "a"), ("tree", "a")], {"lin", "tree"})
    ['a', 'lin: b']
    """
    said: dict[str, dict[str, None]] = {}
    for workload, note in notes:
        said.setdefault(UNUSED.sub(r"the policy does not use \1", note), {})[workload] = None
    return [note if len(of) == len(workloads) else f"{', '.join(of)}: {note}" for note, of in said.items()]


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
    run: Run, plan: Plan, threads: int | None, tell: Tell | None
) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """One pass over one workload, for all of the run's cells."""
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
    notes = [note for result in results for note in result.own_notes]
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


def _facts(run: Run, trace: dict[str, Any]) -> dict[str, Any]:
    """What the tables of a run depend on: nothing else may change them."""
    return {
        "trace": trace,
        "machines": machine_facts(cell.machine for cell in run.cells),
        "seeds": run.seeds,
        "end": vars(run.end),
    }
