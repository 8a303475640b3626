"""Reads the study's counts for claims, tables and figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from binhop import json_file
from binhop.device_data_figures import CLASSES
from binhop.lazy_imports import pl
from binhop.output import MARK, read_parquet
from binhop.reproduce.judge import Measure, measure
from binhop.reproduce.tb10.forms import BASELINE, Form
from binhop.reproduce.tb10.study import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

Counts = dict[str, int]
DRAM_CYCLES = "dram.cycles"


@dataclass(frozen=True)
class Tb10Data:
    """`Tb10Data` holds the tables of a run.

    Attributes:
        counts: workload, kind (of the job), form (null for what the front lets through), seed, metric, value.
        sizes: The requests by size, of each workload and kind.
        distances: The references by reuse distance, of each workload and kind.
        provenance: Versions, machines, traces.
    """

    counts: pl.DataFrame
    sizes: pl.DataFrame
    distances: pl.DataFrame
    provenance: dict[str, Any]

    @classmethod
    def read(cls, directory: Path) -> Tb10Data:
        """Reads the tables from the Parquet of a directory."""
        tables = {name: read_parquet(directory / f"{name}.parquet") for name in TABLES}
        return cls(**tables, provenance=json_file.read(directory / MARK))

    @property
    def scale(self) -> str:
        """The scale of the run."""
        return str(self.provenance["scale"])

    @property
    def confidence(self) -> float:
        """The confidence of every interval."""
        return float(self.provenance["confidence"])

    @cached_property
    def _cells(self) -> dict[tuple[str, str, str | None], list[Counts]]:
        found: dict[tuple[tuple[str, str, str | None], int], Counts] = {}
        columns = self.counts.select("workload", "kind", "form", "seed", "metric", "value")
        for workload, kind, form, seed, metric, value in columns.iter_rows():
            found.setdefault(((workload, kind, form), seed), {})[metric] = value
        cells: dict[tuple[str, str, str | None], list[Counts]] = {}
        for cell, seed in sorted(found, key=lambda key: key[1]):
            cells.setdefault(cell, []).append(found[cell, seed])
        return cells

    def runs(self, workload: str, form: Form | None, kind: str = "forms") -> list[Counts]:
        """Returns the counts of a form, or of what the front lets through (None), of each placement."""
        return self._cells[workload, kind, None if form is None else form.name]

    def samples(
        self, workload: str, form: Form | None, value: Callable[[Counts], float], kind: str = "forms"
    ) -> NDArray[np.float64]:
        """Returns a figure of a form, one number for each placement."""
        return np.array([value(counts) for counts in self.runs(workload, form, kind)], np.float64)

    def cycles(self, workload: str, form: Form, kind: str = "forms") -> NDArray[np.float64]:
        """Returns the cycles of the memory's clock, or of the references where memory has a fixed latency."""
        return self.samples(workload, form, lambda counts: counts.get(DRAM_CYCLES, counts["cycles"]), kind)

    def speed_ups(self, workload: str, form: Form, kind: str = "forms") -> NDArray[np.float64]:
        """Returns the speed-up in percent, one number for each placement."""
        base = self.cycles(workload, form.baseline, kind)
        made: NDArray[np.float64] = 100 * (base / self.cycles(workload, form, kind) - 1)
        return made

    def speed_up(self, workload: str, form: Form, kind: str = "forms") -> Measure:
        """Returns the speed-up in percent with its interval over placements."""
        return measure(self.speed_ups(workload, form, kind), self.confidence)

    def hit_rates(self, workload: str, form: Form) -> NDArray[np.float64]:
        """Returns the share of references to I/O data that a cache served, in percent, of each placement."""
        return self.samples(workload, form, lambda counts: percent(counts["io.hits"], counts["io.accesses"]))

    def hit_rate(self, workload: str, form: Form) -> Measure:
        """Returns the share of references to I/O data that a cache served, in percent (Figure 14)."""
        return measure(self.hit_rates(workload, form), self.confidence)

    def replacing_dirty(self, workload: str, form: Form) -> Measure:
        """Returns the share of writes of devices that replaced a dirty line, in percent (Figure 17)."""
        parts = ("dma-write.replaced-dirty", "dma-write.references")
        share = self.samples(workload, form, lambda counts: percent(counts[parts[0]], counts[parts[1]]))
        return measure(share, self.confidence)

    def share(self, workload: str, name: str, kind: str = "forms") -> Measure:
        """Returns the share of a class of references in percent (Table 1)."""

        def of(counts: Counts) -> float:
            every = [counts[f"front.{one}.references"] for one in CLASSES]
            return percent(counts[f"front.{name}.references"], sum(every))

        return measure(self.samples(workload, None, of, kind), self.confidence)

    def request_share(self, workload: str, row: str, kind: str = "forms") -> Measure:
        """Returns the share of a kind of requests in the references of devices, in percent (Table 2)."""
        device, direction = row.split()

        def of(counts: Counts) -> float:
            own = sum(counts.get(f"{name}.{direction}.references", 0) for name in (device, f"{device}-ring"))
            every = counts["front.dma-read.references"] + counts["front.dma-write.references"]
            return percent(own, every)

        return measure(self.samples(workload, None, of, kind), self.confidence)

    def request_size(self, workload: str, row: str, kind: str = "forms") -> Measure:
        """Returns the mean size of the requests for data of a kind, in KB of 1,000 bytes (Table 2)."""
        name = row.replace(" ", ".")

        def of(counts: Counts) -> float:
            requests = counts.get(f"{name}.requests", 0)
            return counts[f"{name}.bytes"] / requests / 1_000 if requests else 0.0

        return measure(self.samples(workload, None, of, kind), self.confidence)

    def sequential(self, workload: str, row: str, kind: str = "forms") -> Measure:
        """Returns the share of sequential references in percent: of a class, or of a kind of requests.

        References to descriptors belong to their device. Their order is counted apart from that of the data.
        """
        names = [f"front.{row}"]
        if " " in row:
            device, direction = row.split()
            names = [f"{device}.{direction}", f"{device}-ring.{direction}"]

        def of(counts: Counts) -> float:
            sequential = sum(counts.get(f"{name}.sequential", 0) for name in names)
            return percent(sequential, sum(counts.get(f"{name}.references", 0) for name in names))

        return measure(self.samples(workload, None, of, kind), self.confidence)

    def within(
        self, workload: str, flow: str, device: str, distance: int, stream: str = "together"
    ) -> NDArray[np.float64] | None:
        """Returns the share of a flow's references with a distance below a number of lines, in percent.

        There is one share for each placement. The number of lines is a power of two. First references to a
        line count as far away. None: some placement has no such flow.
        """
        rows = self.distances.filter(workload=workload, kind="forms", flow=flow, stream=stream, device=device)
        near = pl.col("references").filter(pl.col("distance") < distance).sum()
        shares = (
            rows.group_by("seed").agg((100 * near / pl.col("references").sum()).alias("share")).sort("seed")
        )
        placements = len(self.runs(workload, None))
        return shares["share"].to_numpy() if len(shares) == placements else None

    def references(self, workload: str) -> float:
        """Returns the references below the front, as the mean over placements."""
        every = [f"front.{name}.references" for name in CLASSES]
        return float(self.samples(workload, None, lambda counts: sum(counts[name] for name in every)).mean())

    def cpu_lines_evicted(self, workload: str, form: Form) -> int:
        """Returns the lines of either side that left a cache for the other's, over all placements (T7)."""
        names = ("cpu-lines.evicted-by-device", "device-lines.evicted-by-cpu")
        return int(self.samples(workload, form, lambda counts: sum(counts[name] for name in names)).sum())

    def conflicts(self, workload: str, form: Form = BASELINE) -> dict[str, float]:
        """Returns the row conflicts of each class of references, in percent of all lines in DRAM."""
        every = self.runs(workload, form)
        outcomes = ("row-hits", "row-misses", "row-conflicts")
        whole = sum(counts[f"dram.{of}.{name}"] for counts in every for of in CLASSES for name in outcomes)
        return {
            of: percent(sum(counts[f"dram.{of}.row-conflicts"] for counts in every), whole) for of in CLASSES
        }


def percent(part: float, whole: float) -> float:
    """Returns a share in percent; 0 of nothing is 0."""
    return 100 * part / whole if whole else 0.0
