"""Simulates one machine or several on one trace, under many placements."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from binhop import _binhop
from binhop._binhop import Machine
from binhop.arguments import seed_numbers
from binhop.differences import distinct_names
from binhop.errors import RequestError
from binhop.lazy_imports import pl, tomllib
from binhop.numbers import counted, grouped
from binhop.results import Result
from binhop.run_options import KEYWORDS, RunOptions, checked, takes
from binhop.traces import ArrowStream, Trace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from binhop._binhop import Outcome

_OF_TRACE = ("length", "instructions")
"""The keywords whose values stand beside the trace in the provenance."""


@takes(RunOptions)
def simulate(
    machine: Machine | str | os.PathLike[str],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    **options: Unpack[RunOptions],
) -> Result:
    """Simulates a trace on a machine, under one page placement for each seed.

    Args:
        machine: A machine, the name of a bundled one, or the path of a description.
        trace: A trace, a file, the name of a built-in workload, or an Arrow table.
        **options: The keywords of `binhop.run_options.RunOptions`.

    Returns:
        The result: tables, notes, provenance.

    Raises:
        RequestError: The request is wrong; the message says what and how to mend it.
        RunError: An invariant of the simulated physics broke: an error of binhop.

    >>> simulate("two-level", "lin", length=100_000).seeds
    [0]
    """
    return simulate_all([machine], trace, **options)[0]


@takes(RunOptions)
def simulate_all(
    machines: Sequence[Machine | str | os.PathLike[str]],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    **options: Unpack[RunOptions],
) -> list[Result]:
    """Simulates a trace on several machines, each under one page placement for each seed.

    Machines that agree up to a stage share it: the trace is decoded once, each placement is made once, each
    front is simulated once. `explain` says what is shared, what is not and why.

    Args:
        machines: Several machines, each as `simulate` takes it. All run under the same placements.
        trace: A trace, a file, the name of a built-in workload, or an Arrow table.
        **options: The keywords of `binhop.run_options.RunOptions`. A policy replaces every machine's policy.

    Returns:
        One result for each machine, in order. Each result equals that of `simulate` for this machine alone,
        to the last bit.

    Raises:
        RequestError: The request is wrong; the message says what and how to mend it.
        RunError: An invariant of the simulated physics broke: an error of binhop.

    >>> [result.seeds for result in simulate_all(["two-level", "kh90"], "lin", seeds=2, length=50_000)]
    [[0, 1], [0, 1]]
    """
    return [result for result, _ in run_all(machines, trace, options)]


def run_all(
    machines: Sequence[Machine | str | os.PathLike[str]],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    options: RunOptions,
    *,
    log: bool = False,
    watch: str | None = None,
    switches: bool = False,
    segments: bool = False,
    kernel: bool = False,
) -> list[tuple[Result, Outcome]]:
    """Does what `simulate_all` does, and also returns the outcomes, from which details are read.

    `log` keeps every placement; `watch` names the cache whose repeated misses are counted by page.
    `switches` makes the tables of switches; `segments` also keeps every interval after every switch.
    `kernel` lets the kernel reference what the machines' sections `[kernel.OCCASION]` say.
    """
    loaded = _machines(machines)
    trace = Trace.of(trace)
    if trace.endless and options.get("length") is None and options.get("instructions") is None:
        rule = "a built-in workload never ends"
        raise RequestError(trace.name, "length", rule, "say how many references, as in length=50_000_000")
    given = checked(options)
    end = {name: given[name] for name in _OF_TRACE}
    facts = {name: value for name, value in given.items() if KEYWORDS[name].counts and name not in end}
    seeds, own = given.pop("seeds"), given.pop("policy")
    runs: dict[int, tuple[Result, Outcome]] = {}
    for numbers, cells in _by_seeds(loaded, seeds, own_policy=own is not None):
        outcomes = _binhop.simulate(
            [loaded[cell] for cell in cells],
            trace.stream(),
            workload=trace.name,
            seeds=numbers,
            log=log,
            watch=watch,
            switches=switches,
            segments=segments,
            kernel=kernel,
            policy=None if own is None else (own.name, own.make),
            again=None if trace.once else trace.stream,
            **given,
        )
        if own is not None:
            own.check()
        for cell, outcome in zip(cells, outcomes, strict=True):
            provenance = {
                "binhop": _binhop.__version__,
                "machine": loaded[cell].name,
                **facts,
                "seeds": numbers,
                "policy": None if own is None else own.name,
                "traces": [{**trace.provenance(), **end}],
            }
            result = Result(
                results=outcome.results,
                series=outcome.series,
                processes=outcome.processes,
                notes=outcome.notes,
                machine=outcome.machine,
                provenance=provenance,
            )
            references = (of.values for of in result.points() if of.metric == "references")
            if not any(map(any, references)):
                result.own_notes = [without_references(trace, **end), *outcome.notes]
            runs[cell] = (result, outcome)
    return [runs[cell] for cell in range(len(loaded))]


def without_references(trace: Trace, length: int | None, instructions: int | None = None) -> str:
    """Returns the note on a run without references, whose trace has none or whose limits are too low."""
    limits = []
    if length is not None:
        limits.append(f"the length of {grouped(length)}")
    if instructions is not None:
        limits.append(counted(instructions, "instruction"))
    none = "the trace has no references"
    longer = f"the first run of instructions exceeds {' or '.join(limits)}, and a run is not cut"
    promised = trace.references
    if not limits or promised == 0:
        return f"nothing was simulated: {none}"
    return f"nothing was simulated: {longer if promised is not None else f'{none}, or {longer}'}"


@takes(RunOptions)
def explain(
    machines: Sequence[Machine | str | os.PathLike[str]],
    trace: Trace | None = None,
    *,
    switches: bool = False,
    **options: Unpack[RunOptions],
) -> list[str]:
    """Returns the plan that `simulate_all` makes of the same options: what machines share, what not, and why.

    Nothing is simulated. The memory that a run takes, and so the number of its rounds, depends on all
    options but `progress`, which is not called.

    Args:
        machines: As for `simulate_all`.
        trace: The trace, if it is a mix whose order depends on the machine: with a quantum in cycles, or with
            `faults="all"`. Other traces do not matter to the plan.
        switches: If true, the plan is that of `switches_all`, where each process has private caches, too.
        **options: The keywords of `binhop.run_options.RunOptions`.

    Returns:
        A line for each fact. Machines with the same name are distinguished by the settings in which they
        differ.

    Raises:
        RequestError: The request is wrong, as for `simulate_all`.

    >>> print(explain(["kh90", Machine.load("kh90", ["cache.l2.size=1MiB"])], seeds=4)[0])
    2 machines × 4 seeds: the trace is decoded once and prepared once
    """
    loaded = _machines(machines)
    return explained(loaded, distinct_names(loaded), options, trace, switches=switches)


def explained(
    machines: Sequence[Machine],
    names: Sequence[str],
    options: RunOptions,
    trace: Trace | None = None,
    *,
    switches: bool = False,
) -> list[str]:
    """Returns the lines of `explain`, with these names for the machines."""
    given = checked(options)
    seeds, own = given.pop("seeds"), given.pop("policy")
    del given["progress"]
    return [
        line
        for numbers, cells in _by_seeds([*machines], seeds, own_policy=own is not None)
        for line in _binhop.explain(
            [machines[cell] for cell in cells],
            names=[names[cell] for cell in cells],
            seeds=numbers,
            switches=switches,
            policy=None if own is None else own.name,
            steered=trace is not None and trace.steered,
            cycles_of_quantum=None if trace is None else trace.cycles_of_quantum,
            **given,
        )
    ]


def _machines(machines: Sequence[Machine | str | os.PathLike[str]]) -> list[Machine]:
    return [
        machine if isinstance(machine, Machine) else Machine.load(os.fspath(machine)) for machine in machines
    ]


def _by_seeds(
    machines: list[Machine], seeds: list[int] | None, *, own_policy: bool
) -> list[tuple[list[int], list[int]]]:
    """Returns groups of machines with equal seeds: the seeds, and the places of the machines."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, machine in enumerate(machines):
        numbers = seed_numbers(seeds, random=machine.is_random or own_policy)
        groups.setdefault(tuple(numbers), []).append(place)
    return [(list(numbers), places) for numbers, places in groups.items()] or [
        (seed_numbers(seeds, random=True), [])
    ]


def metrics_of(machine: Machine) -> list[str]:
    """Returns the metrics that a run on this machine counts, in the order of its tables.

    >>> metrics_of(Machine.load("two-level"))[:3]
    ['instructions', 'references', 'l1i.mpi']
    """
    recorded = tomllib.loads(machine.resolved())["placement"]["policy"] == "recorded"
    # A recording knows the pages of its own trace alone, and `first` takes pages of any trace.
    plain = machine.with_settings("placement.policy=first") if recorded else machine
    result = simulate(plain, Trace.workload("lin"), length=1, seeds=1, threads=1)
    return [of.metric for of in result.points()]
