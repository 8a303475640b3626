"""Reads the study's measurements for claims, tables and figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from binhop import json_file
from binhop.lazy_imports import pl
from binhop.output import MARK, read_parquet
from binhop.reproduce.judge import Measure, measure
from binhop.reproduce.mb90.paper import DESIGNS, WORKLOADS
from binhop.switch_cost import CUT, intervals

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

TABLES = ("overheads", "causes", "levels", "caches", "curves")
DOCUMENT, EXACT = "overhead_document", "overhead"
"""The columns of the two overhead ratios. Claims are about the paper's ratio, which is the document's."""


@dataclass(frozen=True)
class Mb90Data:
    """`Mb90Data` holds the tables of a run.

    Attributes:
        overheads: One row for each design, workload, trial, placement and drain: see `switch_cost.overheads`.
        causes, levels, caches: The same by cause, by level and kind, and by cache.
        curves: Sums over the intervals after a switch, by cause (null: all).
        provenance: Versions, jobs, machines.
        with_kernel: `overheads` of the runs with the kernel's references. All other tables are without.
    """

    overheads: pl.DataFrame
    causes: pl.DataFrame
    levels: pl.DataFrame
    caches: pl.DataFrame
    curves: pl.DataFrame
    provenance: dict[str, Any]
    with_kernel: pl.DataFrame | None = None

    @classmethod
    def read(cls, directory: Path) -> Mb90Data:
        """Reads the tables from the Parquet of a directory."""
        tables = {name: read_parquet(directory / f"{name}.parquet") for name in TABLES}
        plain = {name: table.filter(~pl.col("kernel")) for name, table in tables.items()}
        kernel = tables["overheads"].filter("kernel")
        return cls(**plain, provenance=json_file.read(directory / MARK), with_kernel=kernel)

    @property
    def scale(self) -> str:
        """The scale of the run."""
        return str(self.provenance["scale"])

    @property
    def confidence(self) -> float:
        """The confidence of every interval."""
        return float(self.provenance["confidence"])

    def cycle_time(self, design: str) -> float | None:
        """Returns the nanoseconds of a design's cycle."""
        found: float | None = self.provenance["cycle_time_ns"][design]
        return found

    @cached_property
    def trials(self) -> dict[tuple[str, str], list[int]]:
        """The numbers of the trials, by design and workload."""
        rows = self.overheads.filter(drain=1)
        return {
            (design, workload): rows.filter(design=design, workload=workload)["trial"]
            .unique()
            .sort()
            .to_list()
            for design in DESIGNS
            for workload in WORKLOADS
        }

    @cached_property
    def drains(self) -> list[int]:
        """The factors by which write buffers drain more slowly."""
        return self.overheads["drain"].unique().sort().to_list()

    def of_trial(
        self, design: str, workload: str, trial: int, column: str = DOCUMENT, drain: int = 1
    ) -> NDArray[np.float64]:
        """Returns a column of `overheads`, one number for each placement. An undefined excess is 0."""
        rows = self.overheads.filter(design=design, workload=workload, trial=trial, drain=drain).sort("seed")
        return rows[column].cast(pl.Float64).fill_null(0.0).to_numpy()

    def samples(self, design: str, workload: str, column: str = DOCUMENT) -> NDArray[np.float64]:
        """Returns the mean over trials, one number for each placement."""
        every = [self.of_trial(design, workload, trial, column) for trial in self.trials[design, workload]]
        made: NDArray[np.float64] = np.mean(every, axis=0)
        return made

    def measure(self, design: str, workload: str, column: str = DOCUMENT) -> Measure:
        """Returns the mean over trials, with the interval over placements within trials."""
        return measure(self.samples(design, workload, column), self.confidence)

    def between(self, design: str, workload: str, column: str = DOCUMENT) -> Measure:
        """Returns the mean over trials, with the interval between trials."""
        every = [self.of_trial(design, workload, trial, column) for trial in self.trials[design, workload]]
        return measure([values.mean() for values in every], self.confidence)

    @cached_property
    def _intervals(self) -> pl.DataFrame:
        none = pl.lit(None, pl.UInt32)
        keys = ["workload", "machine", "seed", "design", "trial", "drain"]
        parts = [
            intervals(of.with_columns(none.alias("asid"), none.alias("life")))
            for _, of in self.curves.group_by(keys[3:], maintain_order=True)
        ]
        return pl.concat(parts).drop("asid", "life")

    def curve(self, design: str, workload: str, trial: int, cause: str | None = None) -> pl.DataFrame:
        """Returns the intervals of each placement, for a cause or for all (None): see `intervals`."""
        rows = self._intervals.filter(design=design, workload=workload, trial=trial, drain=1)
        same = pl.col("cause").is_null() if cause is None else pl.col("cause") == cause
        return rows.filter(same).sort("seed", "number")

    def mean_curves(self, design: str, workload: str, trial: int) -> pl.DataFrame:
        """Returns the curves of all causes (null: all switches) as means over placements, up to the cut."""
        rows = self._intervals.filter(design=design, workload=workload, trial=trial, drain=1)
        columns = ("alive", "cpi_shared", "cpi_private", "excess", "cumulative")
        return (
            rows.group_by("cause", "since", maintain_order=True)
            .agg(*(pl.col(name).mean() for name in columns), segments=pl.col("segments").first())
            .sort("cause", "since", nulls_last=False)
            .with_columns(counted=pl.col("alive") >= CUT)
        )

    def excess_between(
        self, design: str, workload: str, start: int, stop: int | None, trial: int = 0
    ) -> NDArray[np.float64]:
        """Returns the cumulative excess cycles from one number of instructions to another, by placement."""
        rows = self.curve(design, workload, trial).filter(
            pl.col("since") > start, pl.col("alive") >= CUT if stop is None else pl.col("since") <= stop
        )
        cycles = rows.group_by("seed", maintain_order=True).agg(
            (pl.col("excess") * pl.col("interval")).sum().alias("cycles")
        )
        seeds = self.overheads.filter(design=design, workload=workload, trial=trial, drain=1)["seed"].sort()
        found = dict(cycles.iter_rows())
        return np.array([found.get(seed, 0.0) for seed in seeds])
