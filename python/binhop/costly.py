"""Ranks pages, segments and processes by their misses under one placement, beside other placements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop.lazy_imports import pl

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE, SEGMENT, PROCESS = ["asid", "page_no", "segment"], ["segment"], ["asid"]
"""The columns over which misses are summed."""


def costliest(repeated: pl.DataFrame, seeds: Sequence[int], seed: int, by: Sequence[str]) -> pl.DataFrame:
    """Returns repeated misses under one placement, largest first, beside the mean over the other placements.

    Misses that are similar in both columns are due to the program. Where one placement has far more misses
    than the mean of the others, they are due to the placement.

    Args:
        repeated: The table of `binhop.repeated_misses`.
        seeds: The placements of the table. A placement without a row had no repeated miss.
        seed: The placement to look at.
        by: The columns to sum over: PAGE, SEGMENT or PROCESS.

    Returns:
        The columns of `by`; `bin` under `seed` if `by` is PAGE; `misses`; and `others`, the mean over the
        other placements, which is null if there are none. A page without repeated misses has no row.
    """
    own = pl.col("seed") == seed
    others = len(seeds) - 1
    mean = pl.col("misses").filter(~own).sum() / others if others else pl.lit(None, dtype=pl.Float64)
    bins = {"bin": pl.col("bin").filter(own).first()} if "page_no" in by else {}
    return (
        repeated.group_by(by, maintain_order=True)
        .agg(**bins, misses=pl.col("misses").filter(own).sum(), others=mean)
        .sort("misses", "others", descending=True, nulls_last=True, maintain_order=True)
    )


__all__ = ["PAGE", "PROCESS", "SEGMENT", "costliest"]
