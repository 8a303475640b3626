"""Reads TB10's figures."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from binhop.lazy_imports import pl

HERE = Path(__file__).parent
SPEED_UP = "percent-speed-up"


@cache
def expected() -> pl.DataFrame:
    """Returns the document's figures, one figure in each row."""
    return pl.read_csv(HERE / "expected.csv", glob=False, infer_schema_length=None)


def figure(table: str, workload: str, row: str, quantity: str) -> float | None:
    """Returns a figure of the document; None if the document does not state it.

    >>> figure("Table 1", "tpch", "dma-write", "percent-of-references")
    19.9
    >>> figure("Figure 17", "specweb", "shared-cache 2M back", "percent-of-writes-replacing-dirty")
    """
    rows = expected().filter(table=table, workload=workload, row=row, quantity=quantity)["value"]
    return None if rows.is_empty() else float(rows.item())


def rows_of(table: str, workload: str) -> list[str]:
    """Returns the rows of a table, in the document's order.

    >>> rows_of("Table 2", "file-copy")
    ['disk read', 'disk write', 'cpu-read', 'cpu-write']
    """
    found = expected().filter(table=table, workload=workload)["row"].unique(maintain_order=True)
    names: list[str] = found.to_list()
    return names


def speed_up(workload: str, row: str) -> float | None:
    """Returns the speed-up of a form in percent, from the first table or figure that states it.

    >>> speed_up("file-copy", "ddc 2M through 256K 4-way P")
    58.3
    """
    rows = expected().filter(workload=workload, row=row, quantity=SPEED_UP)["value"]
    return None if rows.is_empty() else float(rows[0])
