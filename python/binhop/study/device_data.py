"""Simulates the cells of a study that have schemes for device data: one front, and every scheme behind it.

The metrics of such a cell are the counts and figures of `binhop.device_data`: those of its scheme, and the
counts of the front. A figure of a class of references has the name of the class behind its own, as in
`row-hits.cpu-read`. Figures that compare two schemes are left out: a study has a cell for each scheme.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop.device_traffic import device_data
from binhop.lazy_imports import pl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from binhop._binhop import Machine
    from binhop.traces import Trace

COMPARED = ("speed-up", "saved", "reference-speed-up")
"""The figures that compare a scheme with the baseline."""
COUNTED = ("class-cycles", "cycles", "reference-cycles")
"""The figures that are counts under another name."""


def simulate_schemes(
    cells: Mapping[str, tuple[str, Machine]],
    trace: Trace,
    *,
    seeds: Sequence[int],
    length: int | None,
    threads: int | None,
    progress: Callable[[int, int | None], object] | None,
) -> tuple[pl.DataFrame, list[str]]:
    """Makes one pass over a trace.

    Args:
        cells: The scheme and the machine of each cell. All machines have the same front.
        trace: The trace.
        seeds: The placements.
        length: The references after which the run ends; None: the whole trace.
        threads: As for `binhop.device_data`.
        progress: As for `binhop.device_data`.

    Returns:
        The results of each cell, in the columns of a study's runs, and the notes.
    """
    found = device_data(
        next(machine for _, machine in cells.values()),
        trace,
        schemes=cells,
        seeds=seeds,
        length=length,
        threads=threads,
        progress=progress,
    )
    named = pl.DataFrame({"cell": [*cells]})
    front = found.results.filter(pl.col("scheme").is_null()).drop("scheme").join(named, how="cross")
    baseline = found.schemes[0]
    counts = found.results.filter(pl.col("scheme") != baseline).rename({"scheme": "cell"})
    name = pl.when(pl.col("figure") == "fate").then(pl.lit("fate-share")).otherwise("figure")
    made = (
        found.figures.filter(pl.col("scheme") != baseline, ~pl.col("figure").is_in([*COMPARED, *COUNTED]))
        .rename({"scheme": "cell"})
        .with_columns(metric=pl.concat_str([name, "of"], separator=".", ignore_nulls=True))
    )
    columns = ["workload", "machine", "phase", "seed", "metric", "unit", "value", "cell"]
    parts = [
        of.with_columns(pl.lit("measured").alias("phase"), pl.col("value").cast(pl.Float64)).select(columns)
        for of in (front, counts, made)
    ]
    rows = pl.concat(parts)
    order = pl.col("cell").replace_strict({cell: at for at, cell in enumerate(cells)}, return_dtype=pl.Int64)
    return rows.sort(order, "seed", maintain_order=True), found.notes


def metrics_of_scheme(machine: Machine, scheme: str) -> list[str]:
    """Returns the metrics of a cell with this machine and scheme.

    >>> from binhop import Machine
    >>> metrics_of_scheme(Machine.load("zen-4k"), "ddio")[0]
    'front.cpu-read.references'
    """
    from binhop.traces import Trace

    row = {"op": [1], "addr": [0], "size": [4], "count": [1]}
    schema = {"op": pl.UInt8, "addr": pl.UInt64, "size": pl.UInt32, "count": pl.UInt32}
    trace = Trace.from_arrow(pl.DataFrame(row, schema=schema), "one load")
    found, _ = simulate_schemes(
        {"one": (scheme, machine)}, trace, seeds=[0], length=None, threads=1, progress=None
    )
    return found["metric"].unique(maintain_order=True).to_list()


__all__ = ["metrics_of_scheme", "simulate_schemes"]
