"""Names and values of metrics: which caches they belong to, and which of them a table shows first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop import _binhop

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MEMORY = "memory.mpi"
"""Misses that reach memory, per instruction."""


def exact(value: float | None, unit: str) -> int | float | None:
    """A count as the integer it is; a ratio as it is; None where undefined."""
    if value is None or "/" in unit:
        return value
    return int(value)


def cache_metrics(names: Sequence[str]) -> list[str]:
    """Of a result's metrics the misses per instruction of each cache, last level first, and CPI if it is one.

    >>> cache_metrics(["instructions", "l1d.mpi", "l1d.fills", "l2.mpi", "cpi"])
    ['l2.mpi', 'l1d.mpi', 'cpi']
    """
    return [f"{cache}.mpi" for cache in reversed(caches(names))] + ["cpi"] * ("cpi" in names)


def caches(names: Iterable[str]) -> list[str]:
    """The caches that a result's metrics are of, in the machine's order.

    >>> caches(["instructions", "l1d.mpi", "l1d.fills", "l2.mpi", "memory.mpi"])
    ['l1d', 'l2']
    """
    return [name.removesuffix(".mpi") for name in names if name.endswith(".mpi") and name != MEMORY]


def known_metric(metric: str | None, names: Sequence[str], place: str = "metric") -> str:
    """The metric, if there is one of this name; the last level's misses per instruction if none is named."""
    if metric is None:
        return cache_metrics(names)[0]
    if metric not in names:
        raise _binhop.unknown(metric, place, "no metric of this machine has this name", [*names])
    return metric
