"""Runs a comparison: machines or policies on each trace, or traces on one machine."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop.arguments import MOST, integer, seed_numbers, whole_number
from binhop.comparison.alternatives import Alternative, alternatives, by_trace, only, trace_names
from binhop.comparison.result import Comparison
from binhop.errors import RequestError
from binhop.kept_runs import NotKeptError
from binhop.metrics import HUGE_PAGES, MEMORY, cache_metrics, caches, known_metric
from binhop.pace import Passes, references_of
from binhop.resumable import simulated
from binhop.run import metrics_of
from binhop.run_options import PassOptions, extended, takes
from binhop.summary import check_confidence
from binhop.traces import ArrowStream, Trace, distinct
from binhop.until import in_rounds, most_seeds, reached_width, readable_again, relative, share

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence
    from typing import Unpack

    import polars as pl

    from binhop._binhop import Machine
    from binhop.kept_runs import KeptRuns
    from binhop.results import Result


@takes(PassOptions)
def compare(
    machines: Machine | str | Sequence[Any] | Mapping[str, Any],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame | Sequence[Any] | Mapping[str, Any],
    *,
    seeds: int | Iterable[int] | None = None,
    metric: str | Sequence[str] | None = None,
    baseline: int | str = 0,
    confidence: float = 0.95,
    until: float | str | None = None,
    **options: Unpack[PassOptions],
) -> Comparison:
    """Compares machines or policies on a trace, or traces on one machine, under the same random draws.

    The warm-up is not compared. The progress is that of all traces, rounds and runs together.

    Args:
        machines: Two or more machines, each as `binhop.simulate` takes it, or a mapping that names them. A
            pair `("kh90", MyPolicy)` is a machine with a policy in Python. With one machine and several
            traces, the traces are compared with each other.
        trace: A trace, or several. With several machines, each trace is a comparison of its own. A mapping
            names traces that are compared with each other.
        seeds: How many placements (numbered from 0), or their numbers. Default: 32, and 1 when nothing is
            random. With `until`, the greatest number; default: 1024.
        metric: The metric to compare, or several metrics, the most important first. Default: misses per
            instruction of each cache, last level first, and CPI if the machines have costs. Machines whose
            levels differ are compared first by the misses that reach memory, and by CPI. Traces, which may
            differ in instructions, are also compared in cycles and in counts of misses.
        baseline: The place or the name of the alternative that the others are compared with.

        confidence: The confidence of all intervals.
        until: The goal, as 0.02 or "2%". Placements are added until half the width of the interval of the
            difference is at most this share of the baseline's mean, in the first metric, for all
            alternatives and all traces.
        **options: The keywords of `binhop.run_options.PassOptions`.

    Returns:
        The comparison: tables, notes, provenance.

    Raises:
        RequestError: The request is wrong; the message says what and how to mend it.
        RunError: An invariant of the simulated physics broke: an error of binhop.

    >>> from binhop import Machine
    >>> small = Machine.load("kh90", ["cache.l2.size=64KiB"])
    >>> comparison = compare(["kh90", small], "lin", length=100_000, seeds=8)
    >>> comparison.alternatives, comparison.summary["n"][0]
    (['l2 4MiB', 'l2 64KiB'], 8)
    >>> traces = compare("skylake", ["lin", "tree"], length=100_000, seeds=2)
    >>> traces.alternatives, traces.metrics[:2]
    (['lin', 'tree'], ['cycles', 'cpi'])
    """
    given, names = _given(trace)
    one = only(machines) if len(given) > 1 else None
    if names is not None and one is None:
        rule = "a mapping names several traces that are compared with each other on one machine"
        remedy = "give one machine and two traces or more, or a list of traces"
        raise RequestError(", ".join(names) or "nothing", "trace", rule, remedy)
    traces = [Trace.of(each) for each in given]
    if one is not None and names is None:
        names = trace_names(traces, [str(each) for each in given])
    return compare_chosen(
        alternatives(machines) if one is None else [one],
        [(each, options) for each in traces],
        names=names,
        seeds=seeds,
        metrics=[metric] if isinstance(metric, str) else metric,
        baseline=baseline,
        confidence=confidence,
        until=until,
    )


def compare_chosen(
    chosen: Sequence[Alternative],
    jobs: Sequence[tuple[Trace, PassOptions]],
    *,
    seeds: int | Iterable[int] | None,
    metrics: Sequence[str] | None,
    baseline: int | str,
    confidence: float,
    until: float | str | None,
    names: Sequence[str] | None = None,
    kept: KeptRuns | None = None,
    stopped: Callable[[int], object] | None = None,
) -> Comparison:
    """Compares as `compare` does, for named alternatives and for traces with options each.

    If `names` names the traces, the only alternative runs on each trace, and the traces are compared.
    Finished runs are kept in `kept`, and taken from there. With `stopped`, the comparison ends early with the
    traces that are compared, if there are any, and `stopped` receives their number. The comparison ends early
    after Ctrl-C if nothing is kept, and after a run that could not be kept. A comparison of traces never ends
    early, because its traces are useful only together.
    """
    check_confidence(confidence)
    if names is not None:
        chosen = by_trace(chosen[0], names)
    base = _baseline(chosen, baseline)
    wanted = _metrics(chosen, base, metrics) if names is None else _trace_metrics(chosen[0], metrics)
    limit = None if until is None else share(until)
    varied = not all(each.constant for each in chosen)
    most = most_seeds(seeds) if limit is not None and varied else 0
    if names is None:
        distinct([trace for trace, _ in jobs])
        _readable(chosen, [trace for trace, _ in jobs], rounds=limit is not None and varied)
    elif limit is not None and varied:
        readable_again([trace for trace, _ in jobs])

    warmup = whole_number(jobs[0][1].get("warmup", 0), "warmup")
    tell = jobs[0][1].get("progress")
    passes = None if tell is None else Passes(tell)

    def run(numbers: list[int], *, first: bool, early: bool = False) -> list[Result | None]:
        sides = [chosen] * len(jobs) if names is None else [[own] for own in chosen]
        if passes is not None:
            passes.expect(
                references_of(trace, options.get("length"))
                for own, (trace, options) in zip(sides, jobs, strict=True)
                for places in _groups(own)
                if first or not own[places[0]].constant
            )
        made: list[list[Result | None]] = []
        try:
            for own, job in zip(sides, jobs, strict=True):
                made.append(_simulate(kept, own, *job, numbers, passes, first=first))
        except (KeyboardInterrupt, NotKeptError) as error:
            resumed = isinstance(error, KeyboardInterrupt) and kept is not None and len(kept)
            if stopped is None or not made or not early or resumed:
                raise
            stopped(len(made))
        return [result for results in made for result in (results if names is None else results[:1])]

    def compared(whole: Sequence[Result]) -> Comparison:
        return _compared(chosen, warmup, whole, base, wanted, confidence, by_trace=names is not None)

    if limit is None or not varied:
        numbers = seed_numbers(seeds, random=varied)
        early = names is None
        return compared([result for result in run(numbers, first=True, early=early) if result is not None])
    whole, reached = in_rounds(
        lambda numbers: run(numbers, first=numbers[0] == 0),
        lambda so_far: _width(compared(so_far)),
        limit,
        most,
    )
    comparison = compared(whole)
    metric = comparison.metrics[0]
    of = f"the difference in {metric}"
    comparison.notes.append(reached_width(len(comparison.seeds), most, reached, limit, of, f"{base}'s mean"))
    facts = {"share": limit, "metric": metric, "confidence": confidence, "most": most}
    comparison.provenance["until"] = {**facts, "reached": reached <= limit}
    return comparison


def _simulate(
    kept: KeptRuns | None,
    chosen: Sequence[Alternative],
    trace: Trace,
    options: PassOptions,
    seeds: list[int],
    passes: Passes | None,
    *,
    first: bool,
) -> list[Result | None]:
    """Returns a result for each alternative. One run simulates the alternatives of one policy."""
    results: list[Result | None] = [None] * len(chosen)
    for places in _groups(chosen):
        constant = chosen[places[0]].constant
        if constant and not first:
            continue
        machines = [chosen[place].machine for place in places]
        own = extended(
            options,
            seeds=seeds[:1] if constant else seeds,
            policy=chosen[places[0]].policy,
            progress=None if passes is None else passes.next(),
        )
        made = simulated(kept, machines, trace, own)
        for place, result in zip(places, made, strict=True):
            results[place] = result
    return results


def _groups(chosen: Sequence[Alternative]) -> list[list[int]]:
    """Returns groups of alternatives that one run simulates, as their places. A run reads the trace once."""
    groups: list[tuple[Any, bool, list[int]]] = []
    for place, each in enumerate(chosen):
        for policy, constant, places in groups:
            if policy is each.policy and constant == each.constant:
                places.append(place)
                break
        else:
            groups.append((each.policy, each.constant, [place]))
    return [places for _, _, places in groups]


def _readable(chosen: Sequence[Alternative], traces: Sequence[Trace], *, rounds: bool) -> None:
    """Refuses a pipe where the trace is read more than once."""
    if rounds:
        readable_again(traces)
    if len(_groups(chosen)) > 1:
        for trace in traces:
            if trace.once:
                rule = "a pipe is read once, but policies in Python and machines without chance are run apart"
                raise RequestError(trace.name, "TRACE", rule, "write it to a file first (binhop import)")


def _compared(
    chosen: Sequence[Alternative],
    warmup: int,
    whole: Sequence[Result],
    base: str,
    metrics: Sequence[str],
    confidence: float,
    *,
    by_trace: bool,
) -> Comparison:
    """Compares results, which come trace by trace, and for each trace alternative by alternative."""
    results = {each.name: whole[place :: len(chosen)] for place, each in enumerate(chosen)}
    seeds = max((result.seeds for result in whole), key=len)
    ran = whole if by_trace else results[base]
    traces = [trace for result in ran for trace in result.provenance["traces"]]
    provenance = {
        "binhop": _binhop.__version__,
        "alternatives": [
            {
                "name": each.name,
                "machine": each.machine.name,
                "policy": results[each.name][0].provenance["policy"],
                "constant": each.constant,
            }
            for each in chosen
        ],
        "compared": "traces" if by_trace else "machines",
        "baseline": base,
        "metrics": metrics,
        "confidence": confidence,
        "seeds": seeds,
        "warmup": warmup,
        "traces": traces,
    }
    return Comparison(chosen, results, base, metrics, confidence, provenance)


def _given(trace: object) -> tuple[list[Any], list[str] | None]:
    """Returns the traces, and their names if names are given."""
    if isinstance(trace, Mapping):
        return [*trace.values()], [str(name) for name in trace]
    return [*trace] if isinstance(trace, list | tuple) else [trace], None


def _baseline(chosen: Sequence[Alternative], baseline: int | str) -> str:
    names = [each.name for each in chosen]
    if not isinstance(baseline, str):
        baseline = integer(baseline, "baseline", least=-MOST)
        if not 0 <= baseline < len(names):
            rule = f"there are {len(names)} alternatives, numbered from 0"
            raise RequestError(str(baseline), "baseline", rule, f"give one of them: {', '.join(names)}")
        return names[baseline]
    if baseline not in names:
        raise _binhop.unknown(baseline, "baseline", "no alternative has this name", names)
    return baseline


def _metrics(chosen: Sequence[Alternative], base: str, wanted: Sequence[str] | None) -> list[str]:
    """Returns the metrics asked for; by default misses and CPI that the baseline and another have.

    Machines with different caches are compared by the misses that reach memory and by CPI first. A cache that
    is the last level of some machines only is left out, because its misses mean something else in each
    machine. Alternatives with huge pages are also compared by what huge pages change.
    """
    have = {each.name: metrics_of(each.machine) for each in chosen}
    others = {metric for name, of in have.items() if name != base for metric in of}
    if wanted is None:
        names = [name for name in cache_metrics(have[base]) if name in others]
        if any(HUGE_PAGES[-1] in of for of in have.values()):
            names += [name for name in HUGE_PAGES if name in have[base] and name in others]
        if len({tuple(sorted(caches(of))) for of in have.values()}) == 1:
            return names
        last = {f"{each.machine.last_level}.mpi" for each in chosen}
        unlike = last if len(last) > 1 else set()
        first = [MEMORY, *(name for name in names if name == "cpi")]
        return first + [name for name in names if name not in unlike and name not in first]
    for name in wanted:
        _check_comparable(name, have, base)
    return [*dict.fromkeys(wanted)]


def _trace_metrics(one: Alternative, wanted: Sequence[str] | None) -> list[str]:
    """Returns the metrics asked for; by default time, and the misses of each cache as counts and rates."""
    have = metrics_of(one.machine)
    levels = [*reversed(caches(have))]
    if wanted is None:
        both = [name for level in levels for name in (f"{level}.misses", f"{level}.mpi")]
        return [*(name for name in ("cycles", "cpi") if name in have), *both, "instructions"]
    known = [*have, *(f"{level}.misses" for level in [*levels, "memory"])]
    return [*dict.fromkeys(known_metric(name, known) for name in wanted)]


def _check_comparable(metric: str, have: Mapping[str, Sequence[str]], base: str) -> None:
    """Refuses a metric that the baseline or all the others lack."""
    having = [name for name, of in have.items() if metric in of]
    if not having:
        known_metric(metric, have[base])
    if len(having) == 1:
        rule = f"only {having[0]} has this metric, so there is nothing to compare it with"
        raise RequestError(metric, "metric", rule, "choose a metric of two or more (binhop counters)")
    if base not in having:
        rule = f"the baseline, {base}, does not have this metric"
        remedy = f"compare with an alternative that has it, as in --baseline {shlex.quote(having[0])}"
        raise RequestError(metric, "metric", rule, remedy)


def _width(comparison: Comparison) -> float:
    """Returns the greatest half-width of an interval of the difference, as a share of the baseline's mean."""
    rows = comparison.summary.filter(metric=comparison.metrics[0])
    if rows.is_empty():
        rule = "is undefined here, so its interval has no width"
        raise RequestError(comparison.metrics[0], "until", rule, "choose another metric, or leave until out")
    return max(
        relative((row["high"] - row["low"]) / 2, row["baseline_mean"]) for row in rows.iter_rows(named=True)
    )


__all__ = ["compare", "compare_chosen"]
