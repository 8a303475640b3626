"""Reads the paper's figures, and repeats the arithmetic of its Table 4."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import pl

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
DESIGNS = ("1a", "1b", "2a", "2b")
"""The designs of Table 3."""
WORKLOADS = ("timesharing", "compute-bound", "client-server")
"""The benchmark sets of Table 2. The built-in workloads have the same names."""
SWITCHES = 5_000
"""The context switches of each trial (§3)."""


@dataclass(frozen=True)
class Trial:
    """`Trial` is a row of Table 4.

    Attributes:
        name: A, A1, …
        design, workload: As in `DESIGNS` and `WORKLOADS`.
        instructions, references, cycles: In millions.
        cost: The average cost of a switch, in cycles.
        ratio: The overhead ratio in percent, as it is printed.
    """

    name: str
    design: str
    workload: str
    instructions: int
    references: int
    cost: int
    cycles: int
    ratio: str

    @property
    def exact(self) -> Fraction:
        """The overhead ratio in percent (§5.4): average cost × 5000 switches / total cycles."""
        return 100 * Fraction(self.cost * SWITCHES, self.cycles * 10**6)

    @property
    def recomputed(self) -> str:
        """The same with as many digits as the paper prints; a half is rounded up."""
        return rounded(self.exact, len(self.ratio.partition(".")[2]))


def rounded(value: Fraction, digits: int) -> str:
    """Returns a number with so many digits behind the point; a half is rounded up.

    >>> rounded(Fraction(325, 100), 1), rounded(Fraction(1, 3), 2)
    ('3.3', '0.33')
    """
    # Fractions have no rounding of their own; 40 digits tell a half from its neighbours here.
    decimal = Decimal(value.numerator) / Decimal(value.denominator)
    return str(decimal.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP))


def expected() -> pl.DataFrame:
    """Returns the paper's figures, one figure in each row, as the paper prints them."""
    return pl.read_csv(HERE / "expected.csv", glob=False, infer_schema=False)


def trials() -> Iterator[Trial]:
    """Yields the rows of Table 4."""
    rows = expected().filter(table="Table 4")
    for (name,), of in rows.group_by("trial", maintain_order=True):
        cells: dict[str, Any] = dict(of.select("quantity", "value").iter_rows())
        yield Trial(
            str(name),
            of["design"][0],
            of["workload"][0],
            instructions=int(cells["instructions-1e6"]),
            references=int(cells["data-references-1e6"]),
            cost=int(cells["average-cost-cycles"]),
            cycles=int(cells["total-cycles-1e6"]),
            ratio=cells["overhead-percent"],
        )


class Mb90Paper:
    """`Mb90Paper` holds the trials of Table 4 by design and workload."""

    def __init__(self) -> None:
        self.trials = [*trials()]

    def of(self, design: str, workload: str) -> list[Trial]:
        """Returns the trials of a cell, in the order of the table."""
        return [one for one in self.trials if (one.design, one.workload) == (design, workload)]

    def overhead(self, design: str, workload: str) -> float:
        """Returns the mean of the printed overhead ratios of a cell, as a share."""
        ratios = [float(one.ratio) for one in self.of(design, workload)]
        return sum(ratios) / len(ratios) / 100

    def cost(self, design: str, workload: str) -> float:
        """Returns the mean of the average costs of a cell, in cycles."""
        costs = [one.cost for one in self.of(design, workload)]
        return sum(costs) / len(costs)


def figure(quantity: str, workload: str | None = None, design: str | None = None) -> float:
    """Returns a figure of the paper that is in no table of trials.

    >>> figure("kernel-switch-us"), figure("size-1e6-bytes", "timesharing")
    (70.0, 75.0)
    """
    rows = expected().filter(pl.col("table") != "Table 4", quantity=quantity)
    for column, value in (("workload", workload), ("design", design)):
        if value is not None:
            rows = rows.filter(pl.col(column) == value)
    return float(rows["value"].item())
