"""One machine or several, one trace, many placements."""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop._binhop import Machine
from binhop.arguments import seed_numbers, thread_count, whole_number
from binhop.differences import distinct_names
from binhop.errors import RequestError
from binhop.lazily import pl
from binhop.numbers import several
from binhop.policy import policies
from binhop.results import Result
from binhop.traces import ArrowStream, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from binhop._binhop import Outcome


def simulate(
    machine: Machine | str | os.PathLike[str],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    *,
    seeds: int | Iterable[int] | None = None,
    threads: int | None = None,
    length: int | str | None = None,
    instructions: int | str | None = None,
    warmup: int | str = 0,
    interval: int | str | None = None,
    policy: Any = None,
    progress: Callable[[int, int | None], object] | None = None,
) -> Result:
    """Simulates a trace on a machine, under one page placement for each seed.

    Args:
        machine: A machine, the name of a bundled one, or the path of a description.
        trace: A trace, a file, the name of a built-in workload, or an Arrow table.
        seeds: How many placements (numbered from 0), or their numbers. Default: 32, and 1 when nothing is
            random.
        threads: How many threads; default: all there are. No result depends on it.
        length: References to simulate, as a number or as "50M"; default: the whole trace. A built-in workload
            needs a length, or instructions.
        instructions: Instructions to simulate; with a length too, what ends first.
        warmup: References at the start that are simulated but reported apart.
        interval: Instructions in an interval of the series; default: no series.
        policy: A placement policy in Python, in place of the machine's: a class with a method
            `choose(request, pool)` that returns a frame of the pool, made anew for each placement; a function
            without arguments that returns such an object anew at each call; or a plain function
            `choose(request, pool)` without memory. An instance and a bound method are refused: what they
            learn in one placement would change the next one. It is called only when a page is placed.
        progress: Called some times a second with the references done and, if known, to do.

    Returns:
        The result: tables, notes, provenance.

    Raises:
        RequestError: The request is wrong; the message says what and how to mend it.
        RunError: An invariant of the simulated physics broke: an error of binhop.

    >>> simulate("two-level", "lin", length=100_000).seeds
    [0]
    """
    return simulate_all(
        [machine],
        trace,
        seeds=seeds,
        threads=threads,
        length=length,
        instructions=instructions,
        warmup=warmup,
        interval=interval,
        policy=policy,
        progress=progress,
    )[0]


def simulate_all(
    machines: Sequence[Machine | str | os.PathLike[str]],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    *,
    seeds: int | Iterable[int] | None = None,
    threads: int | None = None,
    length: int | str | None = None,
    instructions: int | str | None = None,
    warmup: int | str = 0,
    interval: int | str | None = None,
    policy: Any = None,
    progress: Callable[[int, int | None], object] | None = None,
) -> list[Result]:
    """Simulates a trace on several machines, each under one page placement for each seed.

    Machines that agree up to a stage share it: the trace is decoded once, each placement is made once, each
    front is simulated once. `explain` says what is shared, what is not and why.

    Args:
        machines: What `simulate` takes for one machine, several times.
        trace: As for `simulate`.
        seeds: As for `simulate`; the same placements are numbered for every machine.
        threads: As for `simulate`.
        length: As for `simulate`.
        instructions: As for `simulate`.
        warmup: As for `simulate`.
        interval: As for `simulate`.
        policy: As for `simulate`; it takes the place of every machine's policy.
        progress: As for `simulate`.

    Returns:
        One result for each machine, in order: to the last bit what `simulate` gives for it alone.

    Raises:
        RequestError: The request is wrong; the message says what and how to mend it.
        RunError: An invariant of the simulated physics broke: an error of binhop.

    >>> [result.seeds for result in simulate_all(["two-level", "kh90"], "lin", seeds=2, length=50_000)]
    [[0, 1], [0, 1]]
    """
    runs = run_all(
        machines,
        trace,
        seeds=seeds,
        threads=threads,
        length=length,
        instructions=instructions,
        warmup=warmup,
        interval=interval,
        policy=policy,
        progress=progress,
    )
    return [result for result, _ in runs]


def run_all(
    machines: Sequence[Machine | str | os.PathLike[str]],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    *,
    seeds: int | Iterable[int] | None = None,
    threads: int | None = None,
    length: int | str | None = None,
    instructions: int | str | None = None,
    warmup: int | str = 0,
    interval: int | str | None = None,
    policy: Any = None,
    progress: Callable[[int, int | None], object] | None = None,
    log: bool = False,
    watch: str | None = None,
) -> list[tuple[Result, Outcome]]:
    """What `simulate_all` does, with the outcomes from which details are read.

    `log` keeps every placement; `watch` names the cache whose repeated misses are counted by page.
    """
    checked = _machines(machines)
    trace = Trace.of(trace)
    if trace.endless and length is None and instructions is None:
        rule = "a built-in workload never ends"
        raise RequestError(trace.name, "length", rule, "say how many references, as in length=50_000_000")
    given = None if seeds is None else seed_numbers(seeds, random=True)
    plan: dict[str, Any] = {
        "warmup": whole_number(warmup, "warmup"),
        "interval": whole_number(interval, "interval"),
    }
    end: dict[str, Any] = {
        "length": whole_number(length, "length"),
        "instructions": whole_number(instructions, "instructions"),
    }
    own = policies(policy)
    runs: dict[int, tuple[Result, Outcome]] = {}
    for numbers, cells in _by_seeds(checked, given, own_policy=own is not None):
        outcomes = _binhop.simulate(
            [checked[cell] for cell in cells],
            trace.stream(),
            workload=trace.name,
            seeds=numbers,
            threads=thread_count(threads),
            log=log,
            watch=watch,
            policy=None if own is None else (own.name, own.make),
            progress=progress,
            again=None if trace.once else trace.stream,
            **end,
            **plan,
        )
        if own is not None:
            own.check()
        for cell, outcome in zip(cells, outcomes, strict=True):
            provenance = {
                "binhop": _binhop.__version__,
                "machine": checked[cell].name,
                "seeds": numbers,
                **plan,
                "policy": None if own is None else own.name,
                "traces": [{**trace.provenance(), **end}],
            }
            results = pl.DataFrame(outcome.results)
            notes = outcome.notes
            if results.filter(metric="references")["value"].sum() == 0:
                notes = [without_references(trace, **end), *notes]
            result = Result(
                results=results,
                series=outcome.series,
                processes=outcome.processes,
                notes=notes,
                machine=outcome.machine,
                provenance=provenance,
            )
            runs[cell] = (result, outcome)
    return [runs[cell] for cell in range(len(checked))]


def without_references(trace: Trace, length: int | None, instructions: int | None = None) -> str:
    """Returns the note on a run without references, whose trace has none or whose limits are too low."""
    limits = []
    if length is not None:
        limits.append(f"the length of {length:,}")
    if instructions is not None:
        limits.append(several(instructions, "instruction"))
    none = "the trace has no references"
    longer = f"the first run of instructions exceeds {' or '.join(limits)}, and a run is not cut"
    promised = trace.references
    if not limits or promised == 0:
        return f"nothing was simulated: {none}"
    return f"nothing was simulated: {longer if promised is not None else f'{none}, or {longer}'}"


def explain(
    machines: Sequence[Machine | str | os.PathLike[str]],
    *,
    seeds: int | Iterable[int] | None = None,
    threads: int | None = None,
    length: int | str | None = None,
    instructions: int | str | None = None,
    warmup: int | str = 0,
    interval: int | str | None = None,
    policy: Any = None,
) -> list[str]:
    """The plan that `simulate_all` makes of the same arguments: what machines share, what not, and why.

    Args:
        machines: As for `simulate_all`.
        seeds: As for `simulate_all`.
        threads: As for `simulate_all`. The memory that a run takes, and so the number of its rounds, depends
            on it, as on the arguments that follow.
        length: As for `simulate_all`.
        instructions: As for `simulate_all`.
        warmup: As for `simulate_all`.
        interval: As for `simulate_all`.
        policy: As for `simulate_all`.

    Returns:
        A line for each fact. Machines of one name are told apart by the settings in which they differ.

    Raises:
        RequestError: The request is wrong, as for `simulate_all`.

    >>> print(explain(["kh90", Machine.load("kh90", ["cache.l2.size=1MiB"])], seeds=4)[0])
    2 machines × 4 seeds: the trace is decoded once and prepared once
    """
    checked = _machines(machines)
    return explained(
        checked,
        distinct_names(checked),
        seeds=seeds,
        threads=threads,
        length=length,
        instructions=instructions,
        warmup=warmup,
        interval=interval,
        policy=policy,
    )


def explained(
    machines: Sequence[Machine],
    names: Sequence[str],
    *,
    seeds: int | Iterable[int] | None,
    threads: int | None,
    length: int | str | None,
    instructions: int | str | None,
    warmup: int | str,
    interval: int | str | None,
    policy: Any = None,
) -> list[str]:
    """Returns the lines of `explain`, with these names for the machines."""
    given = None if seeds is None else seed_numbers(seeds, random=True)
    own = policies(policy)
    return [
        line
        for numbers, cells in _by_seeds([*machines], given, own_policy=own is not None)
        for line in _binhop.explain(
            [machines[cell] for cell in cells],
            names=[names[cell] for cell in cells],
            seeds=numbers,
            threads=thread_count(threads),
            length=whole_number(length, "length"),
            instructions=whole_number(instructions, "instructions"),
            warmup=whole_number(warmup, "warmup"),
            interval=whole_number(interval, "interval"),
            policy=None if own is None else own.name,
        )
    ]


def _machines(machines: Sequence[Machine | str | os.PathLike[str]]) -> list[Machine]:
    return [
        machine if isinstance(machine, Machine) else Machine.load(os.fspath(machine)) for machine in machines
    ]


def _by_seeds(
    machines: list[Machine], seeds: list[int] | None, *, own_policy: bool
) -> list[tuple[list[int], list[int]]]:
    """Seeds, and the places of the machines that run under them: groups, where each has its default."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, machine in enumerate(machines):
        numbers = seed_numbers(seeds, random=machine.is_random or own_policy)
        groups.setdefault(tuple(numbers), []).append(place)
    return [(list(numbers), places) for numbers, places in groups.items()] or [
        (seed_numbers(seeds, random=True), [])
    ]


def metrics_of(machine: Machine) -> list[str]:
    """The metrics that a run on this machine counts, in the order of its tables: known before a long run.

    >>> metrics_of(Machine.load("two-level"))[:3]
    ['instructions', 'references', 'l1i.mpi']
    """
    row = {"op": [0], "addr": [0], "size": [4], "count": [1]}
    schema = {"op": pl.UInt8, "addr": pl.UInt64, "size": pl.UInt32, "count": pl.UInt32}
    fixed = tomllib.loads(machine.resolved())["placement"]["policy"] == "identity"
    plain = machine if fixed else machine.with_settings("placement.policy=first")  # takes any page
    results = simulate(plain, pl.DataFrame(row, schema=schema), seeds=1, threads=1).results
    return results["metric"].unique(maintain_order=True).to_list()
