"""Makes the tables of device data: what passes below the front, and what each scheme makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.device_data_figures import CLASSES, FATES
from binhop.lazy_imports import pl
from binhop.numbers import counted, grouped, percent
from binhop.tables.form import Table
from binhop.tables.switches import short

if TYPE_CHECKING:
    from collections.abc import Callable

WITHIN = (512, 4096, 32768, 131072)
"""The distances within which shares of references are shown (TB10 §2.2)."""
NAMES = {
    "read-dma-cache": "DMA",
    "read-last-level": "last",
    "read-memory": "memory",
    "read-after-eviction": "late",
    "overwritten-by-device": "again",
    "overwritten-by-cpu": "by CPU",
    "unread": "unread",
}
"""The heads of the fates."""

EXPLAINED = (
    "Fates: where the processor first read a line that a device wrote (DMA cache, last level, memory, or "
    "late: memory, after the line had left the caches unread), or whether a device (again) or the processor "
    "(by CPU) wrote the line first; left: lines that left the caches unread, whatever came later. cycles: of "
    "the processor's and the devices' references; speed-up: against the first scheme. I/O hits: references "
    "to device data that a cache served. dirty: writes of devices that replaced a dirty line. ±: half the "
    "width of the interval, unless all placements are equal."
)
"""The meaning of the columns."""

Row = dict[str, Any]


def device_data_tables(summary: pl.DataFrame, distances: pl.DataFrame) -> list[Table]:
    """Returns the tables of each workload from the summary of the figures and the reuse distances."""
    made = []
    for workload in summary["workload"].unique(maintain_order=True):
        of = _DeviceDataTables(workload, summary.filter(workload=workload))
        made += [
            of.classes(),
            *of.requests(),
            *_distances(distances.filter(workload=workload)),
            of.fates(),
            of.schemes(),
            *of.rows(),
        ]
    return made


class _DeviceDataTables:
    """`_DeviceDataTables` makes tables from the summary of one workload."""

    def __init__(self, workload: str, rows: pl.DataFrame) -> None:
        self._workload = workload
        self._rows = {(row["scheme"], row["figure"], row["of"]): row for row in rows.iter_rows(named=True)}
        self._schemes = rows["scheme"].drop_nulls().unique(maintain_order=True).to_list()

    def _cell(self, scheme: str | None, figure: str, of: str | None, show: Callable[[float], str]) -> str:
        row = self._rows.get((scheme, figure, of))
        return "-" if row is None else _shown(row, show)

    def classes(self) -> Table:
        """Returns a row for each class of references below the front."""
        n = max(row["n"] for row in self._rows.values())
        rows = [
            (
                name,
                self._cell(None, "share", name, percent),
                self._cell(None, "sequential", name, percent),
            )
            for name in CLASSES
        ]
        title = f"{self._workload}: references below the front, {counted(n, 'placement')}"
        return Table(title, ("class", "share", "sequential"), tuple(rows), right=2)

    def requests(self) -> list[Table]:
        """Returns a table with a row for each device and direction, if there are requests."""
        kinds = [of for scheme, figure, of in self._rows if scheme is None and figure == "size"]
        rows = [
            (
                kind.replace(".", " "),
                self._cell(None, "request-share", kind, percent),
                self._cell(None, "size", kind, _bytes),
                self._cell(None, "sequential", kind, percent),
            )
            for kind in kinds
        ]
        if not rows:
            return []
        heads = ("requests", "of device references", "mean size", "sequential")
        return [Table("Requests of devices", heads, tuple(rows), right=3)]

    def fates(self) -> Table:
        """Returns the fates of the lines that devices wrote, a row for each scheme."""
        rows = [
            (
                scheme,
                *(self._mean(scheme, "fate", percent, fate) for fate in FATES),
                self._mean(scheme, "evicted-unread", percent),
            )
            for scheme in self._schemes
        ]
        title = "Lines that devices wrote, by their fate (mean)"
        heads = ("scheme", *(NAMES[fate] for fate in FATES), "left")
        return Table(title, heads, tuple(rows), right=len(heads) - 1)

    def _mean(self, scheme: str, figure: str, show: Callable[[float], str], of: str | None = None) -> str:
        mean = self._rows[scheme, figure, of]["mean"]
        return "-" if mean is None else show(mean)

    def schemes(self) -> Table:
        """Returns what each scheme costs."""
        rows = [
            (
                scheme,
                self._cell(scheme, "speed-up", None, percent),
                self._mean(scheme, "cycles", compact),
                self._mean(scheme, "memory-reads", compact),
                self._mean(scheme, "memory-writes", compact),
                self._cell(scheme, "io-hits", None, percent),
                self._cell(scheme, "replaced-dirty", None, percent),
            )
            for scheme in self._schemes
        ]
        heads = ("scheme", "speed-up", "cycles", "reads", "writes", "I/O hits", "dirty")
        title = "What each scheme costs: cycles, lines read from and written to memory"
        return Table(title, heads, tuple(rows), right=len(heads) - 1)

    def rows(self) -> list[Table]:
        """Returns ends, and row hits and conflicts by class, if memory has a controller."""
        if not any(figure == "row-hits" for _, figure, _ in self._rows):
            return []
        rows = [
            (
                scheme,
                *(self._mean(scheme, "row-hits", percent, name) for name in CLASSES),
                *(self._mean(scheme, "row-conflicts", percent, name) for name in CLASSES),
            )
            for scheme in self._schemes
        ]
        short_names = [name.replace("-read", " R").replace("-write", " W") for name in CLASSES]
        heads = ("scheme", *short_names, *short_names)
        title = "DRAM: row hits of each class of references, then row conflicts (shares of its lines)"
        ends = [
            (
                scheme,
                self._mean(scheme, "cycles", compact),
                self._mean(scheme, "reference-cycles", compact),
                self._cell(scheme, "reference-speed-up", None, percent),
            )
            for scheme in self._schemes
        ]
        return [
            Table(
                "DRAM: memory cycles until the last data on the bus, and until the last reference",
                ("scheme", "last data", "last reference", "its speed-up"),
                tuple(ends),
                right=3,
            ),
            Table(title, heads, tuple(rows), right=len(heads) - 1),
        ]


def _shown(row: Row, show: Callable[[float], str]) -> str:
    """Returns a mean, with half the width of its interval if placements differ."""
    mean = row["mean"]
    if mean is None:
        return "-"
    if row["n"] < 2 or row["min"] == row["max"]:
        return show(mean)
    return f"{show(mean)} ±{show(row['high'] - mean)}"


def compact(value: float) -> str:
    """Returns a count with three significant figures and a suffix.

    >>> compact(278_822_804), compact(1500), compact(12)
    ('279M', '1.5k', '12')
    """
    for suffix, unit in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= unit:
            return f"{value / unit:.3g}{suffix}" if value < 999.5 * unit else f"{value / unit:.0f}{suffix}"
    return f"{value:.0f}"


def _bytes(value: float) -> str:
    """Returns bytes in the unit that fits.

    >>> _bytes(300), _bytes(402_432)
    ('300 B', '393 KiB')
    """
    return f"{value:.0f} B" if value < 1024 else f"{short(value / 1024)} KiB"


def _distances(distances: pl.DataFrame) -> list[Table]:
    """Returns the shares of references within some distances, for each flow and device."""
    keys = ["flow", "stream", "device"]
    rows = []
    ends = pl.when(pl.col("distance") == 0).then(1).otherwise(2 * pl.col("distance"))
    for (flow, stream, device), of in distances.filter(pl.col("flow") != "device").group_by(
        keys, maintain_order=True
    ):
        whole = int(of["references"].sum())
        again = of.filter(pl.col("distance").is_not_null()).with_columns(end=ends)
        shares = [int(again.filter(pl.col("end") <= within)["references"].sum()) / whole for within in WITHIN]
        name = f"{str(flow).upper()}{f' {device}' if device else ''}"
        rows.append((name, str(stream), grouped(whole), *map(percent, shares)))
    if not rows:
        return []
    order = {name: number for number, name in enumerate(("DPCC", "CPDC", "CPU"))}
    rows.sort(key=lambda row: (order[row[0].split()[0]], row[0], row[1] != "together"))
    heads = ("flow", "stream", "references", *(f"< {within:,}".replace(",", " ") for within in WITHIN))
    return [
        Table(
            "References by reuse distance in lines, all placements", heads, tuple(rows), right=len(heads) - 2
        )
    ]


__all__ = ["EXPLAINED", "device_data_tables"]
