"""Reads the names and values of metrics: the caches they belong to, and which metrics a table shows first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop import _binhop

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MEMORY = "memory.mpi"
"""The metric of the misses that reach memory, per instruction."""

HUGE_PAGES = ("translation.misses", "translation.walks", "os.faults", "translation.huge-pages.lost")
"""The metrics that huge pages change. A machine that states no size of huge pages lacks the last metric."""


def exact(value: float | None, unit: str) -> int | float | None:
    """Returns a count as an integer, a ratio as it is, and None for an undefined value."""
    if value is None or "/" in unit:
        return value
    return int(value)


def cache_metrics(names: Sequence[str]) -> list[str]:
    """Returns the misses per instruction of each cache, last level first, then CPI, if the metrics have them.

    >>> cache_metrics(["instructions", "l1d.mpi", "l1d.fills", "l2.mpi", "cpi"])
    ['l2.mpi', 'l1d.mpi', 'cpi']
    """
    return [f"{cache}.mpi" for cache in reversed(caches(names))] + ["cpi"] * ("cpi" in names)


def caches(names: Iterable[str]) -> list[str]:
    """Returns the caches that the metrics belong to, in the machine's order.

    >>> caches(["instructions", "l1d.mpi", "l1d.fills", "l2.mpi", "memory.mpi"])
    ['l1d', 'l2']
    """
    return [name.removesuffix(".mpi") for name in names if name.endswith(".mpi") and name != MEMORY]


def known_metric(metric: str | None, names: Sequence[str], place: str = "metric") -> str:
    """Returns the metric of this name; by default the misses per instruction of the last level."""
    if metric is None:
        return cache_metrics(names)[0]
    if metric not in names:
        raise _binhop.unknown(metric, place, "no metric of this machine has this name", [*names])
    return metric
