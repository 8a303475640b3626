"""Reads the study's measurements and the paper's figures for claims, tables and figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import pl
from binhop.reproduce.judge import Measure, measure
from binhop.study import StudyResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WORKLOADS = ("mult1", "mult1.2", "mult2", "mult2.2", "tv", "sor", "tree", "lin")
MAIN = "mult2.2"
"""The workload that the paper examines in detail."""
SIZES = ("1MiB", "4MiB", "16MiB")
WAYS = (1, 2, 4)
HEURISTICS = (
    *("random", "page-coloring-equal", "page-coloring-pid-hash"),
    *("bin-hopping", "sequential", "hierarchical"),
)
LARGE, SMALL = "4MiB", "256KiB"
"""The pools of Table 3."""
SAMPLES = 4
"""The paper's number of placements. Tables use so many placements, the first; claims use all."""
HERE = Path(__file__).parent

_RATES = ("careful", "heuristics", "pools")
_NAMES = {
    "cache.l2.size": "size",
    "cache.l2.ways": "ways",
    "placement.pool": "pool",
    "placement.sharing": "sharing",
}


@dataclass(frozen=True)
class Kh90Data:
    """`Kh90Data` holds the tables of a run of the study."""

    result: StudyResult

    @classmethod
    def read(cls, directory: Path) -> Kh90Data:
        """Reads the tables from the Parquet of a directory."""
        return cls(StudyResult.read(directory))

    @property
    def scale(self) -> str:
        """The scale of the run."""
        return str(self.result.provenance["scale"])

    @property
    def confidence(self) -> float:
        """The confidence of every interval: the paper's 90%."""
        return float(self.result.provenance["confidence"])

    def frame(self, table: str, part: str) -> pl.DataFrame:
        """Returns the rows of a part, with short names for its parameters."""
        frame: pl.DataFrame = getattr(self.result, table)
        rows = frame.filter(part=part)
        if "phase" in rows.columns:
            rows = rows.filter(phase="measured")
        return rows.rename({old: new for old, new in _NAMES.items() if old in rows.columns})

    @cached_property
    def _rates(self) -> dict[tuple[str, str, str, str, str], NDArray[np.float64]]:
        """Returns the misses per 1000 instructions of each cell, by placement."""
        found: dict[tuple[str, str, str, str, str], NDArray[np.float64]] = {}
        for part in _RATES:
            rows = _complete(self.frame("results", part).filter(metric="l2.mpi"))
            keys = ["workload", "heuristic", "size", "ways", "pool"]
            for key, of in rows.sort("seed").group_by(keys, maintain_order=True):
                values = 1000 * of["value"].to_numpy()
                cell: Any = tuple(map(str, key))
                if len(values) > len(found.get(cell, ())):
                    found[cell] = values
        return found

    def samples(
        self, workload: str, heuristic: str, size: str, ways: int, pool: str = LARGE
    ) -> NDArray[np.float64]:
        """Returns the misses of level 2 per 1000 instructions, one number for each placement."""
        return self._rates[workload, heuristic, size, str(ways), pool]

    def table(
        self, workload: str, heuristic: str, size: str, ways: int, pool: str = LARGE
    ) -> NDArray[np.float64]:
        """Returns the same study with the paper's number of placements."""
        return self.samples(workload, heuristic, size, ways, pool)[:SAMPLES]

    def measure(self, workload: str, heuristic: str, size: str, ways: int, pool: str = LARGE) -> Measure:
        """Returns mean and interval over all placements."""
        return measure(self.samples(workload, heuristic, size, ways, pool), self.confidence)

    def processes(self, part: str) -> pl.DataFrame:
        """Returns a row for each process and placement of a part: pages, shared pages, conflicts, misses.

        Columns: heuristic, sharing or null, seed, asid, pages (U), shared, conflicts (C),
        least (C_min), excess (C − C_min), mpi (misses of level 2 per 1000 instructions or null).
        """
        wanted = {
            "os.pages": "pages",
            "os.pages.shared": "shared",
            "l2.conflicts": "conflicts",
            "l2.conflicts.minimum": "least",
            "l2.mpi": "mpi",
        }
        rows = self.frame("processes", part).filter(pl.col("metric").is_in(list(wanted)) & ~pl.col("kernel"))
        keys = ["heuristic", "sharing", "seed", "asid"]
        wide = rows.pivot("metric", index=keys, values="value", maintain_order=True)
        missing = [name for name in wanted if name not in wide.columns]
        assert not missing or wide.is_empty(), f"the table of processes lacks {missing}"
        wide = wide.with_columns(pl.lit(None, pl.Float64).alias(name) for name in missing)
        return (
            wide.rename(wanted)
            .with_columns(excess=pl.col("conflicts") - pl.col("least"), mpi=1000 * pl.col("mpi"))
            .select(*keys, *wanted.values(), "excess")
            .drop_nulls("conflicts")
            .sort(keys)
        )

    @cached_property
    def instructions(self) -> dict[str, int]:
        """Returns the instructions that each workload of the paper's tables executed."""
        rows = self.frame("results", "careful").filter(metric="instructions", seed=0)
        return {row["workload"]: int(row["value"]) for row in rows.iter_rows(named=True)}


def _complete(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows with the machine's own value where a parameter does not vary."""
    own = {"size": "4MiB", "ways": "1", "pool": LARGE}
    return rows.with_columns(
        pl.col(name).fill_null(value) if name in rows.columns else pl.lit(value).alias(name)
        for name, value in own.items()
    )


def expected() -> pl.DataFrame:
    """Returns the paper's figures, one figure in each row, with a note where the scan is garbled."""
    text = ["table", "section", "workload", "size", "heuristic", "pool", "quantity", "note"]
    schema: dict[str, Any] = dict.fromkeys(text, pl.String) | {"ways": pl.Int64, "value": pl.Float64}
    return pl.read_csv(HERE / "expected.csv", glob=False, schema_overrides=schema)


class Kh90Paper:
    """`Kh90Paper` holds the paper's figures, by table, workload, heuristic and machine."""

    def __init__(self) -> None:
        rows = expected().select(
            "table", "workload", "heuristic", "size", "ways", "pool", "quantity", "value"
        )
        self._values = {row[:-1]: row[-1] for row in rows.iter_rows()}

    def __call__(
        self,
        table: str,
        workload: str,
        heuristic: str,
        size: str,
        ways: int,
        quantity: str,
        pool: str = LARGE,
    ) -> float | None:
        """Returns a figure of a table; None where the table has none."""
        found: float | None = self._values.get((table, workload, heuristic, size, ways, pool, quantity))
        return found

    def cell(self, workload: str, heuristic: str, size: str, ways: int, quantity: str) -> float:
        """Returns a figure of Table 1 or Appendix A."""
        table = "Table 1" if workload == MAIN else "Appendix A"
        found = self(table, workload, heuristic, size, ways, quantity)
        assert found is not None, (workload, heuristic, size, ways, quantity)
        return found
