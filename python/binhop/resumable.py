"""Simulates trace by trace, and keeps each finished trace for the next attempt.

Each function imports the pass that it needs: a command needs one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.kept_runs import KeptRuns, is_known, machine_facts
from binhop.long_tables import frame_of
from binhop.results import Result
from binhop.run import simulate_all
from binhop.run_options import KEYWORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binhop._binhop import Machine
    from binhop.faults import PagingResult
    from binhop.long_tables import AnyTable, StoredTable
    from binhop.reuse_distances import ReuseResult
    from binhop.run_options import RunOptions
    from binhop.switching import SwitchResult
    from binhop.traces import Trace

RESULT = ("results", "series", "processes")
PAGING = ("faults", "utilization", "first_touches")
REUSE = ("distances", "curve", "simulated")
SWITCHES = ("results", "costs", "curves", "pages")


def simulated(
    kept: KeptRuns | None, machines: Sequence[Machine], trace: Trace, options: RunOptions
) -> list[Result]:
    """Returns the result of `binhop.simulate_all` for these options, kept or new.

    A policy in Python, and a trace that nothing identifies, are always simulated.

    Raises:
        NotKeptError: An earlier run could not be kept, so this run does not begin.
    """
    provenance = trace.provenance() if kept is not None else {}
    if kept is None or options.get("policy") is not None or not is_known(provenance):
        return simulate_all(machines, trace, **options)
    facts = ["simulate", provenance, machine_facts(machines), _counted(options)]
    kept.check()
    if (found := kept.find(trace.name, facts)) is not None:
        held, rest = found
        return [
            Result(
                results=frame_of(held[f"{number}.results"]),
                series=held[f"{number}.series"],
                processes=held[f"{number}.processes"],
                **one,
            )
            for number, one in enumerate(rest["results"])
        ]
    results = simulate_all(machines, trace, **options)
    tables: dict[str, AnyTable] = {
        f"{number}.{name}": result.results if name == "results" else result.held(name)
        for number, result in enumerate(results)
        for name in RESULT
    }
    each = [
        {"notes": result.own_notes, "machine": result.machine, "provenance": result.provenance}
        for result in results
    ]
    kept.keep_if_possible(trace.name, facts, tables, {"results": each})
    return results


def paged(kept: KeptRuns | None, trace: Trace, **options: Any) -> PagingResult:
    """Returns the result of `binhop.paging` for these options, kept or new.

    Raises:
        NotKeptError: An earlier pass could not be kept, so this pass does not begin.
    """
    from binhop.faults import paging

    provenance = trace.provenance() if kept is not None else {}
    if kept is None or not is_known(provenance):
        return paging(trace, **options)
    facts = ["paging", provenance, _counted(options)]
    kept.check()
    if (found := kept.find(trace.name, facts)) is None:
        result = paging(trace, **options)
        kept.keep_if_possible(trace.name, facts, *_parts(result))
        return result
    return paging_of(found)


def keep_paging(kept: KeptRuns, name: str, facts: Any, result: PagingResult) -> None:
    """Keeps the page faults of a trace. If that fails, `kept.check` raises the error."""
    kept.keep_if_possible(name, facts, *_parts(result))


def reused(kept: KeptRuns | None, trace: Trace, **options: Any) -> ReuseResult:
    """Returns the result of `binhop.reuse` for these options, kept or new.

    Raises:
        NotKeptError: An earlier pass could not be kept, so this pass does not begin.
    """
    from binhop.reuse_distances import ReuseResult, reuse

    provenance = trace.provenance() if kept is not None else {}
    if kept is None or not is_known(provenance):
        return reuse(trace, **options)
    facts = ["reuse", provenance, _counted(options)]
    kept.check()
    if (found := kept.find(trace.name, facts)) is None:
        result = reuse(trace, **options)
        held = {table: getattr(result, table) for table in REUSE}
        others = {"notes": result.notes, "provenance": result.provenance}
        kept.keep_if_possible(trace.name, facts, held, others)
        return result
    tables, rest = found
    return ReuseResult(
        distances=frame_of(tables["distances"]),
        curve=frame_of(tables["curve"]),
        simulated=frame_of(tables["simulated"]),
        notes=rest["notes"],
        provenance=rest["provenance"],
    )


def switched(
    kept: KeptRuns | None,
    machine: Machine,
    trace: Trace,
    options: RunOptions,
    *,
    segments: bool = False,
    kernel: bool = False,
) -> SwitchResult:
    """Returns the result of `binhop.switches` for these options, kept or new. A run with segments is new.

    Raises:
        NotKeptError: An earlier run could not be kept, so this run does not begin.
    """
    from binhop.switching import SwitchResult, SwitchTables, switches

    provenance = trace.provenance() if kept is not None else {}
    if kept is None or segments or not is_known(provenance):
        return switches(machine, trace, segments=segments, kernel=kernel, **options)
    facts = [
        "switches with a kernel" if kernel else "switches",
        provenance,
        machine_facts([machine]),
        _counted(options),
    ]
    kept.check()
    if (found := kept.find(trace.name, facts)) is None:
        result = switches(machine, trace, kernel=kernel, **options)
        tables: dict[str, AnyTable] = {name: getattr(result, name) for name in SWITCHES}
        about = {"notes": result.own_notes, "machine": result.machine, "provenance": result.provenance}
        kept.keep_if_possible(trace.name, facts, tables, about)
        return result
    held, rest = found
    results, *tables_of = (frame_of(held[name]) for name in SWITCHES)
    return SwitchResult(results=results, tables=SwitchTables(*tables_of), **rest)


def _counted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options on which counts depend."""
    return {name: value for name, value in options.items() if name not in KEYWORDS or KEYWORDS[name].counts}


def _parts(result: PagingResult) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the tables of page faults, and the other data of the result."""
    rest = {"notes": result.notes, "provenance": result.provenance}
    return {table: getattr(result, table) for table in PAGING}, rest


def paging_of(found: tuple[dict[str, StoredTable], dict[str, Any]]) -> PagingResult:
    """Returns the page faults of a kept trace."""
    from binhop.faults import PagingResult

    tables, rest = found
    return PagingResult(
        **{table: frame_of(tables[table]) for table in PAGING},
        notes=rest["notes"],
        provenance=rest["provenance"],
    )
