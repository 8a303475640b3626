"""Adds placements until an interval is narrow.

The decision is made at fixed numbers of placements (32, 64, 128, …, the greatest allowed), so it depends on
the counts alone. A placement depends on its seed alone, so the result is that of one run of so many
placements. Because the interval is looked at several times, it covers the mean slightly less often than its
confidence states.
"""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING

from binhop import _binhop
from binhop._binhop import Machine
from binhop.arguments import MOST_PLACEMENTS, SEEDS, shown, whole_number
from binhop.errors import RequestError
from binhop.kept_runs import NotKeptError
from binhop.long_tables import joined
from binhop.metrics import known_metric
from binhop.numbers import counted
from binhop.pace import Passes, references_of
from binhop.results import Result
from binhop.resumable import simulated
from binhop.run import metrics_of
from binhop.run_options import UntilOptions, extended, takes
from binhop.summary import check_confidence, summary_of
from binhop.traces import ArrowStream, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Unpack

    from binhop.kept_runs import KeptRuns
    from binhop.lazy_imports import pl
    from binhop.summary import Points

_SHARE = r"(\d+(?:\.\d+)?|\.\d+)\s*(%?)"


def rounds(most: int) -> Iterator[range]:
    """Yields the seeds of each round: 32 first, then as many again as there are.

    >>> [*rounds(100)]
    [range(0, 32), range(32, 64), range(64, 100)]
    """
    done = 0
    while done < most:
        end = min(max(2 * done, SEEDS), most)
        yield range(done, end)
        done = end


def share(until: float | str, place: str = "until") -> float:
    """Reads a share of a mean, as 0.02 or 2%.

    >>> share("2%"), share(0.02)
    (0.02, 0.02)
    """
    if isinstance(until, str):
        found = re.fullmatch(_SHARE, until.strip())
        number = float(found[1]) / (100 if found[2] else 1) if found else math.nan
    else:
        plain = isinstance(until, int | float) and not isinstance(until, bool)
        number = float(until) if plain else math.nan
    if not 0 < number < 1:
        rule = "must be a share of the mean, above 0 and below 100%"
        example = f"{place} 2%" if place.startswith("-") else "until=0.02"
        raise RequestError(str(until), place, rule, f"write it like {example}")
    return number


def most_seeds(seeds: object, place: str = "seeds") -> int:
    """Returns the greatest number of placements of a run that goes on until its interval is narrow."""
    if seeds is None:
        return MOST_PLACEMENTS
    if not isinstance(seeds, int | str) or isinstance(seeds, bool):
        rule = "with until, seeds is the greatest number of placements, which are numbered from 0"
        raise RequestError(
            shown(seeds), place, rule, f"give a number, as in seeds={MOST_PLACEMENTS}, or leave until out"
        )
    seeds = whole_number(seeds, place)
    if seeds < 2:
        raise RequestError(str(seeds), place, "an interval needs two placements", f"allow {MOST_PLACEMENTS}")
    if seeds > _binhop.MOST_SEEDS:
        rule = f"one run makes at most {_binhop.MOST_SEEDS} placements"
        raise RequestError(str(seeds), place, rule, f"allow {_binhop.MOST_SEEDS} or fewer")
    return seeds


def readable_again(traces: Sequence[Trace], why: str = "each round of --until reads the trace anew") -> None:
    """Refuses a pipe where a trace is read several times."""
    for trace in traces:
        if trace.once:
            rule = f"a pipe or a reader of batches is read once, and {why}"
            raise RequestError(trace.name, "TRACE", rule, "write it to a file first (binhop import)")


def in_rounds(
    run: Callable[[list[int]], list[Result | None]],
    width: Callable[[list[Result]], float],
    until: float,
    most: int,
) -> tuple[list[Result], float]:
    """Runs rounds until the width is at most `until`, or no seeds are left. Returns the last width.

    `run` simulates the seeds of one round. It returns the same number of results in each round, in the same
    order; a result is None if the first round already gave everything. If a run cannot be kept, the rounds
    end with the last complete round.
    """
    whole: list[Result] = []
    reached = math.inf
    for numbers in rounds(most):
        try:
            parts = run(list(numbers))
        except NotKeptError:
            if not whole:
                raise
            break
        if whole:
            whole = [old if new is None else extend(old, new) for old, new in zip(whole, parts, strict=True)]
        else:
            whole = [part for part in parts if part is not None]
        reached = width(whole)
        if reached <= until:
            break
    return whole, reached


def extend(result: Result, more: Result) -> Result:
    """Joins the results of two sets of seeds, as if one run had made them."""
    return Result(
        results=joined([result.held("results"), more.held("results")]),
        series=joined([result.held("series"), more.held("series")]),
        processes=joined([result.held("processes"), more.held("processes")]),
        notes=[*result.own_notes, *(note for note in more.own_notes if note not in result.own_notes)],
        machine=result.machine,
        provenance={**result.provenance, "seeds": [*result.seeds, *more.seeds]},
    )


def reached_width(seeds: int, most: int, width: float, until: float, of: str, mean: str) -> str:
    """Returns a sentence on the width that was reached: half the interval of something, over some mean.

    `most` is the limit of the seeds. If there are fewer seeds and the interval is wider than asked for, the
    run ended early.
    """
    state = f"the interval of {of} is ±{100 * width:.3g}% of {mean}"
    if math.isinf(width):
        state = f"the interval of {of} has no relative width, as {mean} is 0"
    placements = counted(seeds, "placement")
    if width <= until:
        enough = f"{placements} {'was' if seeds == 1 else 'were'} enough"
        return f"{enough}: {state} (asked for: ±{100 * until:g}%)"
    if seeds < most:
        return f"ended early after {placements}: {state}, not the ±{100 * until:g}% asked for"
    return (
        f"the limit of {placements} came first: {state}, not the ±{100 * until:g}% asked for; "
        "allow more seeds, or ask for less"
    )


@takes(UntilOptions)
def simulate_until(
    machine: Machine | str | os.PathLike[str],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    *,
    until: float | str,
    seeds: int | None = None,
    metric: str | None = None,
    confidence: float = 0.95,
    **options: Unpack[UntilOptions],
) -> Result:
    """Simulates more and more placements, until the mean is known well enough.

    Args:
        machine: As in `binhop.simulate`.
        trace: As in `binhop.simulate`.
        until: The goal: half the width of the mean's interval, as a share of the mean, as 0.02 or "2%".
        seeds: The greatest number of placements, which are numbered from 0; default: 1024.
        metric: The metric of the mean; default: misses per instruction at the last level.
        confidence: The confidence of the interval.
        **options: The keywords of `binhop.run_options.UntilOptions`.

    Returns:
        The result of `binhop.simulate` for the seeds that were needed. A note says how many they are, or that
        the limit came first, and `provenance["until"]` holds the figures.

    >>> result = simulate_until("kh90", "lin", length=100_000, until="5%", seeds=64)
    >>> len(result.seeds), result.provenance["until"]["reached"]
    (32, True)
    """
    traces = [Trace.of(trace)]
    return traces_until(machine, traces, until, most_seeds(seeds), metric, confidence, [options])[0]


def traces_until(
    machine: Machine | str | os.PathLike[str],
    traces: Sequence[Trace],
    until: float | str,
    most: int,
    metric: str | None,
    confidence: float,
    options: Sequence[UntilOptions],
    kept: KeptRuns | None = None,
) -> list[Result]:
    """Simulates several traces, each with its options, as `simulate_until` does, until the last one is known.

    Each round of each trace is kept in `kept`, and taken from there.
    """
    until = share(until)
    check_confidence(confidence)
    machine = machine if isinstance(machine, Machine) else Machine.load(os.fspath(machine))
    chosen = known_metric(metric, metrics_of(machine))
    fixed = not machine.is_random and all(each.get("policy") is None for each in options)
    jobs = [*zip(traces, options, strict=True)]

    tell = options[0].get("progress")
    passes = None if tell is None else Passes(tell)

    def run(numbers: list[int]) -> list[Result | None]:
        if passes is not None:  # further rounds are not known to come
            passes.expect(references_of(trace, each.get("length")) for trace, each in jobs)
        return [
            simulated(
                kept,
                [machine],
                trace,
                extended(each, seeds=numbers, progress=None if passes is None else passes.next()),
            )[0]
            for trace, each in jobs
        ]

    def width(whole: list[Result]) -> float:
        return max(_width(result.points(), chosen, confidence) for result in whole)

    if fixed:
        whole = [result for result in run([0]) if result is not None]
        note = "nothing is random here: one placement is enough, whatever the interval asked for"
        reached = 0.0
    else:
        readable_again(traces)
        whole, reached = in_rounds(run, width, until, most)
        note = reached_width(len(whole[0].seeds), most, reached, until, f"{chosen}'s mean", "it")
    facts = {"share": until, "metric": chosen, "confidence": confidence, "most": most}
    for result in whole:
        result.provenance["until"] = {**facts, "reached": reached <= until}
    whole[-1].own_notes.append(note)
    return whole


def _width(results: Sequence[Points], metric: str, confidence: float) -> float:
    """Returns half the width of the interval over the mean."""
    of = next(of for of in results if of.metric == metric and of.phase == "measured")
    row = summary_of(of.seeds, of.values, confidence)
    if row["mean"] is None:
        rule = "is undefined here, so its interval has no width"
        raise RequestError(metric, "until", rule, "choose another metric, or leave until out")
    half = (row["high"] - row["low"]) / 2 if row["low"] is not None else math.inf
    return relative(half, row["mean"])


def relative(half: float, mean: float) -> float:
    """Returns a half-width as a share of a mean. A width of 0 is narrow whatever the mean."""
    if half == 0:
        return 0.0
    return half / abs(mean) if mean else math.inf


__all__ = ["extend", "in_rounds", "most_seeds", "readable_again", "relative", "rounds", "share"]
__all__ += ["reached_width", "simulate_until", "traces_until"]
