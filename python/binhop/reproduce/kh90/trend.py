"""Judges whether a process misses more when more of its pages are in conflict: Figure 13 and K9.

This module computes two slopes of misses per 1000 instructions over conflicts C. The paper's slope (Figure
13) is that of the least-squares line through the processes of one mapping. This slope does not separate the
effect of a process's conflicts from that of its size and its program: between 32 and 64 pages both C and
misses grow with U, whether or not conflicts cost misses. The slope within processes separates them, because a
process is the same under every placement and only its conflicts differ. From each process's C and misses
their means over its placements are subtracted, and one line is fitted through all of these points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binhop.lazy_imports import pl, stats
from binhop.reproduce.claims import Claim
from binhop.reproduce.judge import Measure, positive, verdict, with_conditions

if TYPE_CHECKING:
    from binhop.reproduce.kh90.data import Kh90Data

FIRST, LAST = 32, 64
"""The numbers of pages, of 16 KiB, in processes of 0.5 to 1 MiB (§4.2.2)."""
FEWEST = 20
"""The fewest processes from which a conclusion is drawn. The paper has 58."""


@dataclass(frozen=True)
class Line:
    """`Line` is a least-squares line: its slope, with an interval over n samples, and its start."""

    slope: Measure
    start: float


def chosen(data: Kh90Data) -> pl.DataFrame:
    """Returns the processes of 0.5 to 1 MiB under random placement, one row for each placement."""
    return data.processes("conflicts").filter(
        pl.col("heuristic").eq("random")
        & pl.col("pages").is_between(FIRST, LAST)
        & pl.col("mpi").is_not_null()
    )


def plain(table: pl.DataFrame, confidence: float) -> Line | None:
    """Returns the paper's line, through the processes of placement 0, with the regression's interval.

    Returns None if there is no line: with fewer than three processes, or if all processes have equally many
    conflicts.
    """
    one = table.filter(seed=0)
    x, y = one["conflicts"].to_numpy(), one["mpi"].to_numpy()
    if len(x) < 3 or np.ptp(x) == 0:
        return None
    found = stats.linregress(x, y)
    half = float(stats.t.ppf((1 + confidence) / 2, len(x) - 2) * found.stderr)
    slope = float(found.slope)
    return Line(Measure(slope, slope - half, slope + half, len(x)), float(found.intercept))


def within_processes(table: pl.DataFrame, confidence: float) -> Measure | None:
    """Returns the slope within processes. Its interval takes processes, not points, as independent.

    The variance is the usual one for clusters: the sum over processes of (sum of x · residual)², times
    G / (G − 1), over (sum of x²)², with Student's t on G − 1 degrees of freedom for G processes. None where
    no process has placements that differ in conflicts.
    """
    own = pl.col("conflicts", "mpi") - pl.col("conflicts", "mpi").mean().over("asid")
    left = table.select("asid", own)
    squares = float((left["conflicts"] ** 2).sum())
    processes = left.filter(pl.col("conflicts") != 0)["asid"].n_unique()
    if processes < 2 or squares == 0:
        return None
    slope = float((left["conflicts"] * left["mpi"]).sum()) / squares
    score = pl.col("conflicts") * (pl.col("mpi") - slope * pl.col("conflicts"))
    scores = left.group_by("asid", maintain_order=True).agg(score.sum())["conflicts"].to_numpy()
    error = float(np.sqrt(processes / (processes - 1) * (scores**2).sum())) / squares
    half = float(stats.t.ppf((1 + confidence) / 2, processes - 1)) * error
    return Measure(slope, slope - half, slope + half, processes)


def k9(data: Kh90Data) -> Claim:
    """Judges misses over conflicts."""
    table = chosen(data)
    drawn, found = plain(table, data.confidence), within_processes(table, data.confidence)
    statement = (
        "mult2.2: MPI rises with conflicts: slope > 0 with its interval (the paper: a slight trend, large "
        "variability)."
    )
    rule = (
        "Processes of 0.5 to 1 MiB, random placement, 1 MiB direct-mapped; misses per 1000 instructions over "
        "conflicts C. Judged is the least-squares slope within processes, each process's C and misses less "
        "their means over its placements: between processes both rise with U, whether or not conflicts cost "
        "anything. Its interval takes processes as independent (clusters). The line of Figure 13, through "
        "the processes of placement 0, is given beside it and decides nothing."
    )
    processes = table["asid"].n_unique()
    if drawn is None or found is None or found.n < FEWEST:
        how = f"{rule} There are {processes} such processes: the prefix is too short for a verdict."
        return Claim("K9", statement, None, None, "undecided", how)
    conditions = [positive(f"slope within {found.n} processes, {table['seed'].n_unique()} placements", found)]
    shown = {"within processes": found, "Figure 13's line, placement 0": drawn.slope}
    return Claim(
        "K9",
        statement,
        {name: value.mean for name, value in shown.items()},
        {name: value.interval for name, value in shown.items()},
        verdict(conditions),
        with_conditions(rule, conditions),
    )


ALL = (k9,)
