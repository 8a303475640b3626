"""Which pages, segments and processes cost most under one placement, beside what they cost under others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop.lazily import pl

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE, SEGMENT, PROCESS = ["asid", "page_no", "segment"], ["segment"], ["asid"]
"""What misses are summed over."""


def costliest(repeated: pl.DataFrame, seeds: Sequence[int], seed: int, by: Sequence[str]) -> pl.DataFrame:
    """Repeated misses under one placement, the most first, beside the mean over the other placements.

    What is alike in both columns is the program's doing; where one placement has far more than the others
    have on average, it is luck.

    Args:
        repeated: The table of `binhop.repeated_misses`.
        seeds: All placements it is about: one without a row had no such miss.
        seed: The placement to look at.
        by: What to sum over: PAGE, SEGMENT or PROCESS.

    Returns:
        The columns of `by`; `bin` of the placement looked at if `by` is PAGE; `misses`, and `others`: the
        mean over the other placements, null if there are none. Only what had such a miss somewhere.
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
