"""Runs a study workload by workload, keeps finished runs, and joins the tables at the end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import binhop
from binhop.comparison.result import UNUSED
from binhop.kept_runs import KeptRuns, NotKeptError, is_known, machine_facts
from binhop.lazy_imports import pl
from binhop.long_tables import PiecewiseTable, TableDirectory, frame_of, pieces
from binhop.numbers import counted
from binhop.pace import Passes, references_of
from binhop.run import explained
from binhop.study.device_data import simulate_schemes
from binhop.study.document import MACHINE
from binhop.study.result import Finished, StudyResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from binhop.long_tables import AnyTable
    from binhop.pace import Tell, Watch
    from binhop.results import Result
    from binhop.study.cells import Place, Plan, StudyRun

LONG = ("series", "processes")
"""The tables that may be longer than memory holds."""


def run(
    plan: Plan,
    *,
    threads: int | None = None,
    kept: Path | KeptRuns | None = None,
    watch: Watch | None = None,
    stopped: Callable[[int], object] | None = None,
) -> StudyResult:
    """Runs every cell of a plan.

    Args:
        plan: The plan that `binhop.study.plan` made of a document.
        threads: The number of threads; default: all there are. No result depends on it.
        kept: A directory for the tables of finished runs. Runs of an earlier attempt at the same cells, by
            the same binhop, are not simulated again. The caller removes the directory.
        watch: A function that is called with the title of the present work, the references done in all runs,
            and the references to do, if they are known.
        stopped: Called with the number of finished runs when the study ends early, after some of its runs.
            The result then has the cells of these runs. The study ends early after Ctrl-C if none of the runs
            is kept, and if a run cannot be kept. Without `stopped` the error is raised.

    Returns:
        The tables of all cells. Series and processes are read from `kept` when they are asked for or written.
    """
    finished: list[Finished] = []
    notes: list[tuple[str, str]] = []
    store = KeptRuns(kept) if isinstance(kept, Path) else kept
    room = TableDirectory()
    title = ""
    passes = None
    if watch is not None:
        lengths = [references_of(plan.traces[one.workload], one.end.length) for one in plan.runs]
        passes = Passes(lambda done, of: watch(title, done, of), lengths)
    try:
        for number, one in enumerate(plan.runs):
            tell = None if passes is None else passes.next()
            trace = plan.traces[one.workload].provenance() if store is not None else {}
            known = store if is_known(trace) else None
            if known is not None:
                known.check()
            facts = _facts(one, plan, trace) if known is not None else {}
            tables: Mapping[str, AnyTable]
            if known is not None and (found := known.find(one.workload, facts)) is not None:
                tables, said = found[0], [(cell, note) for cell, note in found[1]["notes"]]
            else:
                title = f"{one.title} ({number + 1} of {len(plan.runs)})"
                tables, said = _simulate(one, plan, threads, tell)
                if known is not None:
                    tables = known.keep_if_possible(one.workload, facts, tables, {"notes": said})
            # Counts that the engine still holds would take memory for each cell of each run.
            long = {name: room.stored(tables[name], f"{name}-{number}") for name in LONG if name in tables}
            finished.append(Finished(frame_of(tables["results"]), long))
            notes += said
    except (KeyboardInterrupt, NotKeptError) as error:
        resumed = isinstance(error, KeyboardInterrupt) and store is not None and len(store)
        if stopped is None or not finished or resumed:
            raise
        stopped(len(finished))
        plan = _first_runs(plan, len(finished))
    return StudyResult.assemble(plan, finished, once(notes, _names(plan)), room)


def _first_runs(plan: Plan, count: int) -> Plan:
    """Returns the plan with its first runs only, and with the cells and traces of these runs."""
    runs = plan.runs[:count]
    cells = {cell for run in runs for cell in run.cells}
    traces = {run.workload: plan.traces[run.workload] for run in runs}
    places = [place for place in plan.places if place.cell in cells]
    return replace(plan, runs=runs, places=places, traces=traces)


MOST_NAMED = 3
"""The most cells that a note names."""


def once(notes: list[tuple[str, str]], cells: Mapping[str, tuple[str, str, str]]) -> list[str]:
    """Returns each note once, with the cells to which it applies, unless it applies to all cells.

    Args:
        notes: The cell and the text of each note.
        cells: The workload, the machine and the name of each cell.

    >>> cells = {"1": ("lin", "kh90", "x"), "2": ("lin", "zen-4k", "y"), "3": ("tree", "kh90", "z")}
    >>> once([("1", "a"), ("1", "b"), ("1", "c"), ("2", "a"), ("2", "b"), ("3", "a")], cells)
    ['a', 'lin: b', 'x: c']
    """
    said: dict[str, dict[str, None]] = {}
    for cell, note in notes:
        said.setdefault(UNUSED.sub(r"the policy does not use \1", note), {})[cell] = None
    return [f"{_of(of, cells)}{note}" for note, of in said.items()]


def _of(of: Mapping[str, None], cells: Mapping[str, tuple[str, str, str]]) -> str:
    """Returns the words before a note that applies to these cells."""
    if len(of) == len(cells):
        return ""
    for column in range(2):
        of_column = dict.fromkeys(cells[cell][column] for cell in of)
        if all(cell in of for cell, words in cells.items() if words[column] in of_column):
            return f"{', '.join(of_column)}: "
    return f"{_some([cells[cell][2] for cell in of])}: "


def _some(names: list[str]) -> str:
    """Returns the first of these cells' names, without duplicates, and the number of further names."""
    names = [*dict.fromkeys(names)]
    more = f"; and {counted(len(names) - MOST_NAMED, 'further cell')}" if len(names) > MOST_NAMED else ""
    return f"{'; '.join(names[:MOST_NAMED])}{more}"


def _names(plan: Plan) -> dict[str, tuple[str, str, str]]:
    """Returns the workload, the machine and the name of each cell."""
    parts = len(plan.study.part) > 1
    names: dict[int, tuple[str, tuple[str, str, str]]] = {}
    for place in plan.places:
        words = [place.part] * parts + [place.cell.workload, *_varies(place)]
        if id(place.cell) not in names:
            names[id(place.cell)] = (
                place.cell.id,
                (place.cell.workload, place.machine, ", ".join(words)),
            )
    return dict(names.values())


def _varies(place: Place) -> list[str]:
    """Returns the machine of a place, and the parameters that vary."""
    return [
        place.machine,
        *(f"{axis}={value}" for axis, value in place.parameters.items() if axis != MACHINE),
    ]


def explain(plan: Plan, *, threads: int | None = None) -> list[str]:
    """Returns the plan in words: the cells, the runs, what each run shares, what not, and why.

    Args:
        plan: The plan that `binhop.study.plan` made of a document.
        threads: As for `run`. The memory that a run takes depends on it.
    """
    merged = sum(len(run.cells) for run in plan.runs)
    once = f"; equal cells are simulated once, which leaves {counted(merged, 'cell')}"
    lines = [
        f"{plan.study.name}: {counted(len(plan.places), 'cell')} in {counted(len(plan.study.part), 'part')}"
        f"{once if merged < len(plan.places) else ', simulated'} in {counted(len(plan.runs), 'run')}"
    ]
    parts = len(plan.study.part) > 1
    names = {id(place.cell): ", ".join([place.part] * parts + _varies(place)) for place in plan.places}
    said: dict[tuple[str, ...], int] = {}
    for number, run in enumerate(plan.runs):
        end = run.end
        amount = counted(end.length, "reference") if end.length else "the whole trace"
        amount = counted(end.instructions, "instruction") if end.instructions else amount
        size = f"{counted(len(run.cells), 'cell')} × {counted(len(run.seeds), 'seed')}"
        lines.append(f"run {number + 1}: {run.workload}, {amount}: {size}")
        word = "cells" if len(run.cells) != 1 else "cell"
        lines.append(f"  {word}: {_some([names[id(cell)] for cell in run.cells])}")
        shared = tuple(_shared(run, names, threads))
        if not shared:
            continue
        first = said.setdefault(shared, number + 1)
        lines += [f"  {line}" for line in shared] if first == number + 1 else [f"  as in run {first}"]
    return lines


def _shared(run: StudyRun, names: Mapping[int, str], threads: int | None) -> list[str]:
    """Returns the plan of the run in words."""
    if run.of_devices:
        return [f"one front for each placement; {counted(len(run.cells), 'scheme')} behind it"]
    return explained(
        [cell.machine for cell in run.cells],
        [names[id(cell)] for cell in run.cells],
        run.options(threads=threads),
    )


def _simulate(
    run: StudyRun, plan: Plan, threads: int | None, tell: Tell | None
) -> tuple[dict[str, AnyTable], list[tuple[str, str]]]:
    """Makes one pass over one workload, for all of the run's cells; returns tables and notes."""
    if run.of_devices:
        cells = {cell.id: (str(cell.scheme), cell.machine) for cell in run.cells}
        found, said = simulate_schemes(
            cells,
            plan.traces[run.workload],
            seeds=run.seeds,
            length=run.end.length,
            threads=threads,
            progress=tell,
        )
        return {"results": found}, [(cell, note) for cell in cells for note in said]
    machines = [cell.machine for cell in run.cells]
    options = run.options(threads=threads, progress=tell)
    results = binhop.simulate_all(machines, plan.traces[run.workload], **options)
    pairs = zip(run.cells, results, strict=True)
    return _tables(run, plan, results), [
        (cell.id, note) for cell, result in pairs for note in result.own_notes
    ]


def _tables(run: StudyRun, plan: Plan, results: list[Result]) -> dict[str, AnyTable]:
    """Returns the tables of a run, with the name of each cell. Long tables have the rows that parts keep."""
    of = [(cell.id, result) for cell, result in zip(run.cells, results, strict=True)]
    keep = _keep(run, plan)
    tables: dict[str, AnyTable] = {
        name: PiecewiseTable(partial(_named, of, name, keep[name])) for name in LONG
    }
    tables["results"] = pl.concat([result.results.with_columns(cell=pl.lit(cell)) for cell, result in of])
    return tables


def _named(of: list[tuple[str, Result]], table: str, keep: list[str]) -> Iterator[pl.DataFrame]:
    """Yields the columns of a table, and then its rows of the cells in `keep`, with the cell's name."""
    for number, (cell, result) in enumerate(of):
        if cell not in keep and number > 0:
            continue
        for piece in pieces(result.held(table)):
            frame = pl.DataFrame(piece).with_columns(cell=pl.lit(cell))
            if cell not in keep:
                yield frame.clear()
                break
            yield frame


def _keep(run: StudyRun, plan: Plan) -> dict[str, list[str]]:
    """Returns for each long table the cells of a run whose rows some part asks for."""
    keep = {(place.cell, name) for place in plan.places for name in place.keep}
    return {name: [cell.id for cell in run.cells if (cell, name) in keep] for name in LONG}


def _facts(run: StudyRun, plan: Plan, trace: dict[str, Any]) -> dict[str, Any]:
    """Returns everything that the tables of a run depend on."""
    return {
        "keep": _keep(run, plan),
        "trace": trace,
        "machines": machine_facts(cell.machine for cell in run.cells),
        "seeds": run.seeds,
        "end": vars(run.end),
        **({"schemes": [cell.scheme for cell in run.cells]} if run.of_devices else {}),
    }
