"""Reads the study's measurements and the paper's figures for claims, tables and figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from binhop import json_file
from binhop.lazy_imports import pl
from binhop.output import MARK, read_parquet

HERE = Path(__file__).parent
MIB = 1 << 20
SIZES = tuple(MIB << log2 for log2 in range(7))
REASONABLE = SIZES[3:]
"""The memory sizes of 8 MiB and more. The paper calls smaller sizes unreasonable for its programs (§4.2)."""
COLORS = (1, 2, 4, 8, 16, 32, 64)
MOST = COLORS[-1]
WORKLOADS = ("sor", "tree", "tv", "lin", "mult")
HASHED = "mult+hash"
"""The mix with the pid hash."""
TABLES = dict(zip(WORKLOADS, range(2, 7), strict=True))
"""The number of the paper's table of each program's fault rates. Their figure has the next number."""


def mib(size: int) -> str:
    """Returns a memory size in the paper's form.

    >>> mib(8 << 20)
    '8 MB'
    """
    return f"{size // MIB} MB"


@dataclass(frozen=True)
class Lf91Data:
    """`Lf91Data` holds the tables of a run.

    Attributes:
        faults, utilization, model: As `study.Tables` wrote them.
        scale: How much was run.
        provenance: Versions and traces.
    """

    faults: pl.DataFrame
    utilization: pl.DataFrame
    model: pl.DataFrame
    scale: str
    provenance: dict[str, Any]

    @classmethod
    def read(cls, directory: Path) -> Lf91Data:
        """Reads the tables from the Parquet of a directory."""
        tables = {
            name: read_parquet(directory / f"{name}.parquet") for name in ("faults", "utilization", "model")
        }
        provenance = json_file.read(directory / MARK)
        return cls(**tables, scale=provenance["scale"], provenance=provenance)

    @cached_property
    def _rates(self) -> dict[tuple[str, int, int], float]:
        rows = self.faults.select("workload", "size", "colors", "fault_rate").rows()
        return {(workload, size, colors): rate for workload, size, colors, rate in rows}

    def rate(self, workload: str, size: int, colors: int) -> float:
        """Returns the page faults per million references."""
        return 1e6 * self._rates[workload, size, colors]

    def ratio(self, workload: str, size: int, colors: int = MOST) -> float:
        """Returns the faults relative to the faults with one color."""
        return self._rates[workload, size, colors] / self._rates[workload, size, 1]

    @cached_property
    def _used(self) -> dict[tuple[str, int], tuple[float | None, float | None]]:
        rows = self.utilization.select("workload", "colors", "utilization", "model").rows()
        return {(workload, colors): (used, model) for workload, colors, used, model in rows}

    def used(self, workload: str, colors: int) -> float | None:
        """Returns the simulated memory utilization; None where there are fewer pages than colors."""
        return self._used[workload, colors][0]

    def modelled(self, workload: str, colors: int) -> float | None:
        """Returns the model's utilization, for memory of the program's own size."""
        return self._used[workload, colors][1]

    def pages(self, workload: str) -> int:
        """Returns the number of unique pages."""
        return int(self.utilization.filter(workload=workload)["pages"][0])

    def references(self, workload: str) -> int:
        """Returns the number of references read."""
        return int(self.faults.filter(workload=workload)["references"][0])


class Lf91Paper:
    """`Lf91Paper` holds the paper's figures."""

    def __init__(self) -> None:
        self._values = {
            (row["workload"], row["size"], row["colors"], row["quantity"]): row["value"]
            for row in expected().iter_rows(named=True)
        }

    def rate(self, workload: str, size: int, colors: int) -> float:
        """Returns the page faults per million references (Tables 2 to 6)."""
        return float(self._values[workload, f"{size // MIB}MiB", colors, "fault-rate-1e-6"])

    def ratio(self, workload: str, size: int, colors: int = MOST) -> float:
        """Returns the faults relative to the faults with one color."""
        return self.rate(workload, size, colors) / self.rate(workload, size, 1)

    def pages(self, workload: str) -> int:
        """Returns the number of unique pages (Table 1)."""
        return int(self._values[workload, None, None, "pages"])

    def references(self, workload: str) -> float:
        """Returns unique pages over the fault rate at 64 MiB, where every fault is a first touch."""
        return 1e6 * self.pages(workload) / self.rate(workload, SIZES[-1], 1)


def expected() -> pl.DataFrame:
    """Returns the paper's figures, one figure in each row."""
    schema: dict[str, Any] = {"colors": pl.Int64, "value": pl.Float64}
    return pl.read_csv(HERE / "expected.csv", glob=False, schema_overrides=schema)
