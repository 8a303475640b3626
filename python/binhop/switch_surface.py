"""Measures the cost of a switch over quanta and machines, in one pass for each quantum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop._binhop import Machine
from binhop.arguments import counts
from binhop.differences import distinct_names
from binhop.errors import RequestError
from binhop.lazy_imports import pl
from binhop.run_options import RunOptions, takes
from binhop.switch_cost import CONFIDENCE, estimates
from binhop.switching import switches_all
from binhop.traces import ArrowStream, Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from typing import Unpack

FIGURES = ("exact", "document", "overhead", "overhead_document")
"""The figures of a surface: see `binhop.switch_cost.overheads`."""


@takes(RunOptions)
def switch_surface(
    machines: Sequence[Machine | str | os.PathLike[str]],
    traces: Sequence[Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame],
    quanta: Iterable[int | str],
    *,
    each: int | str | None = None,
    mixing: dict[str, Any] | None = None,
    confidence: float = CONFIDENCE,
    **options: Unpack[RunOptions],
) -> pl.DataFrame:
    """Measures what a switch costs for each quantum on each machine.

    For each quantum the traces are mixed anew, and read once for all machines.

    Args:
        machines: The machines, as for `simulate_all`: for example one machine with several sizes of a cache.
        traces: The traces that share the processor.
        quanta: The quanta, in instructions.
        each: The greatest number of references to read of each trace. A built-in workload needs it.
        mixing: Further keywords of `Trace.mix`.
        confidence: The confidence of the intervals.
        **options: The keywords of `binhop.run_options.RunOptions`.

    Returns:
        One row for each quantum, machine and figure: quantum, machine (its name, with the settings in which
        it differs), switches, metric, n, mean, low and high. The metrics are `exact` and `document` (cycles
        per switch), `overhead` and `overhead_document` (shares of all cycles).

    >>> sizes = [Machine.load("zen-4k", [f"cache.l2.size={size}"]) for size in ("256KiB", "1MiB")]
    >>> found = switch_surface(sizes, ["lin", "tree"], [10_000, 40_000], each=100_000, seeds=1)
    >>> found.filter(metric="overhead").select("quantum", "machine").rows()[:2]
    [(10000, 'zen-4k, cache.l2.size=256KiB'), (10000, 'zen-4k, cache.l2.size=1MiB')]
    """
    loaded = [one if isinstance(one, Machine) else Machine.load(str(one)) for one in machines]
    names = distinct_names(loaded)
    numbers = counts(quanta, "quanta", least=1)
    if not numbers:
        raise RequestError("[]", "quanta", "a surface needs a quantum", "write it like quanta=[100_000]")
    parts = []
    for quantum in numbers:
        trace = Trace.mix(traces, quantum, length=each, **(mixing or {}))
        for name, result in zip(names, switches_all(loaded, trace, **options), strict=True):
            rows = result.overheads()
            found = estimates(rows, FIGURES, confidence=confidence)
            parts.append(
                found.select(
                    pl.lit(quantum, pl.Int64).alias("quantum"),
                    pl.lit(name).alias("machine"),
                    pl.lit(rows["switches"][0], pl.Int64).alias("switches"),
                    "metric",
                    "n",
                    "mean",
                    "low",
                    "high",
                )
            )
    return pl.concat(parts)


__all__ = ["FIGURES", "switch_surface"]
