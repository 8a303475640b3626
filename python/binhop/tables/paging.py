"""Makes the tables of page faults: for each workload, the rates by memory size and number of colors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop.tables.form import Table

if TYPE_CHECKING:
    from binhop.lazy_imports import pl


def paging_tables(faults: pl.DataFrame, utilization: pl.DataFrame) -> list[Table]:
    """Returns a table for each workload: faults per million references, and the utilization of memory."""
    made = []
    for workload in faults["workload"].unique(maintain_order=True):
        cells, used = faults.filter(workload=workload), utilization.filter(workload=workload)
        colors = used["colors"].to_list()
        rows = []
        for (size,), of in cells.group_by("size", maintain_order=True):
            rates = dict(of.select("colors", "fault_rate").iter_rows())
            shown = ("-" if rates[color] is None else f"{1e6 * rates[color]:.2f}" for color in colors)
            rows.append((f"{size / 2**20:g} MiB", *shown))
        shares = ("-" if share is None else f"{share:.3f}" for share in used["utilization"])
        rows.append(("utilization", *shares))
        title = f"{workload}: page faults per million references, by number of colors"
        made.append(Table(title, ("memory", *map(str, colors)), tuple(rows), right=len(colors)))
    return made


__all__ = ["paging_tables"]
