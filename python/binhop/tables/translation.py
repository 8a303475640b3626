"""Makes the tables of translation: what it costs on each design, by cause, and what it does to the caches."""

from __future__ import annotations

from math import floor, log10
from typing import TYPE_CHECKING, Any

from binhop.numbers import counted, grouped, percent, rate
from binhop.tables.form import Table
from binhop.tables.switches import short
from binhop.translation_figures import ALL, CACHE, CAUSE, EVENT, LEVELS, POLLUTION, SIDES, TLB

if TYPE_CHECKING:
    from collections.abc import Callable

    from binhop.lazy_imports import pl

DECIMALS = 4
"""The most decimals of a share in percent."""

Row = dict[str, Any]
Groups = dict[tuple[Any, ...], dict[str, Row]]

EXPLAINED = (
    "misses, walks: misses of the first-level TLBs and walks of the page table, per 1000 references; where "
    "software translates at cache misses, a walk is a run of its handler. "
    "entries: entries of the page table that a walk reads. CPI: cycles of translation per instruction; of "
    "time: their share of all cycles. slower: the time that translation adds, pollution included. tables: "
    "the most memory that page tables took. pollution: what the program itself waits and misses more, "
    "because entries and handlers take its lines. ±: half the width of the interval, unless all placements "
    "are equal."
)
"""The meaning of the columns."""


def translation_tables(summary: pl.DataFrame) -> list[Table]:
    """Returns the tables of each workload from the summary of the figures."""
    made = []
    for workload in summary["workload"].unique(maintain_order=True):
        of = _TranslationTables(summary.filter(workload=workload))
        tables = [of.designs(), of.causes(), of.events(), of.tlbs(), of.caches()]
        # A table without rows is left out unless it says why: no design may have a TLB, for example.
        made += [table for table in tables if table.rows or table.instead]
    return made


class _TranslationTables:
    """`_TranslationTables` makes tables from the summary of one workload."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self._rows = rows
        self._level = f"{100 * rows['confidence'][0]:g}% interval"

    def _group(self, group: str, *keys: str) -> Groups:
        """Returns the metrics of each design, and of each value of the keys, in the order of the summary."""
        found: Groups = {}
        for row in self._rows.filter(group=group).iter_rows(named=True):
            found.setdefault((row["design"], *(row[key] for key in keys)), {})[row["metric"]] = row
        return found

    def designs(self) -> Table:
        """Returns a row for each design."""
        whole = self._group(ALL)
        rows = [
            (
                design,
                _shown(of["misses"], rate),
                rate(of["walks"]["mean"]),
                _shown(of["entries"], short),
                _shown(of["overhead"], _cpi),
                _shown(of["overhead_share"], percent),
                _shown(of["slowdown"], percent),
                _shown(of["tables"], memory),
            )
            for (design,), of in whole.items()
        ]
        of = next(iter(whole.values()))
        n = max(row["n"] for row in of.values())
        title = (
            f"{of['misses']['workload']}: {counted(of['references']['mean'], 'reference')}, "
            f"{counted(of['instructions']['mean'], 'instruction')}, {counted(n, 'placement')}"
        )
        heads = ("design", "misses", "walks", "entries", "CPI", "of time", "slower", "tables")
        return Table(title, heads, tuple(rows), right=7)

    def causes(self) -> Table:
        """Returns the overhead by cause, its sum, and pollution."""
        costs = (design for (design,), of in self._group(ALL).items() if of["overhead"]["mean"] is not None)
        by_design: dict[str, list[tuple[str, ...]]] = {design: [] for design in costs}
        for (design, name), of in self._group(CAUSE, "name").items():
            if of["overhead"]["mean"]:  # a design has no cycles of a cause that it cannot have
                line = self._line(
                    design, name.replace("-", " "), of["overhead"], _shown(of["share"], percent)
                )
                by_design[design].append(line)
        for (design,), of in self._group(ALL).items():
            if design in by_design:
                if of["write_backs"]["mean"]:
                    without = of["overhead_of_accesses"]
                    by_design[design].append(self._line(design, "without write-backs", without, ""))
                by_design[design].append(self._line(design, "all overhead", of["overhead"], ""))
                if of["protection"]["mean"]:
                    by_design[design].append(
                        self._line(design, "changes of protection", of["protection"], "")
                    )
                by_design[design] += [
                    self._line(design, POLLUTION, of["pollution"], ""),
                ]
        rows = [row for of_design in by_design.values() for row in of_design]
        heads = ("design", "cause", "CPI", self._level, "of overhead")
        title = "Cycles of translation per instruction, by cause"
        return Table(
            title,
            heads,
            tuple(rows),
            right=3,
            grouped=True,
            instead="no design states costs, or the trace has no instructions",
        )

    def _line(self, design: str, name: str, row: Row, share: str) -> tuple[str, ...]:
        return (design, name, _shown(row, _cpi), interval(row, _cpi), share)

    def events(self) -> Table:
        """Returns the six events of JM97's Table 1 for fetches and for data."""
        events = self._group(EVENT, "side", "tlb", "name")
        rows = []
        for design in dict.fromkeys(key[0] for key in events):
            for side in SIDES:
                for hit in ("hit", "miss", None):
                    if (design, side, hit, LEVELS[0]) not in events:
                        continue
                    cells = [events[design, side, hit, level]["share"] for level in LEVELS]
                    shown = [cell for row in cells for cell in (_shown(row, exact_percent), half_width(row))]
                    rows.append((design, side if hit is None else f"{side}, TLB {hit}", *shown))
        heads = ("design", "accesses", *(word for level in LEVELS for word in (level.replace("-", " "), "±")))
        return Table("The level that serves an access", heads, tuple(rows), right=6, grouped=True)

    def tlbs(self) -> Table:
        """Returns the size, reach and misses of each TLB."""
        rows = [
            (
                design,
                name,
                grouped(of["entries"]["mean"]),
                memory(of["reach"]["mean"]),
                rate(of["misses"]["mean"]),
                _shown(of["miss_ratio"], exact_percent),
            )
            for (design, name), of in self._group(TLB, "name").items()
        ]
        heads = ("design", "TLB", "entries", "reach", "misses", "of its accesses")
        return Table("TLBs", heads, tuple(rows), right=4, grouped=True)

    def caches(self) -> Table:
        """Returns the program's own misses without and with translation."""
        rows = [
            (
                design,
                name,
                rate(of["off"]["mean"]),
                rate(of["on"]["mean"]),
                _shown(of["pollution"], rate),
                interval(of["pollution"], rate),
            )
            for (design, name), of in self._group(CACHE, "name").items()
        ]
        heads = ("design", "cache", "off", "on", POLLUTION, self._level)
        return Table(
            "The program's own misses per 1000 instructions, with translation off and on",
            heads,
            tuple(rows),
            right=4,
            grouped=True,
        )


def memory(size: float) -> str:
    """Returns a size in the largest binary unit of which it has one or more, with three figures.

    >>> memory(4096), memory(1.5 * 2**20), memory(12)
    ('4 KiB', '1.5 MiB', '12 B')
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while size >= 1024 and power + 1 < len(units):
        size, power = size / 1024, power + 1
    return f"{size:.4g} {units[power]}" if size >= 1000 else f"{size:.3g} {units[power]}"


def exact_percent(value: float) -> str:
    """Returns a share in percent. Small shares keep two figures, up to four decimals.

    >>> exact_percent(0.958), exact_percent(0.0009), exact_percent(0.0000012), exact_percent(0.0)
    ('95.80%', '0.090%', '0.0001%', '0')
    >>> exact_percent(1e-9)
    '<0.0001%'
    """
    number = 100 * value
    if number == 0:
        return "0"
    least = 10.0**-DECIMALS
    if abs(number) < least / 2:
        return f"<{least:.{DECIMALS}f}%"
    decimals = min(max(2, 1 - floor(log10(abs(number)))), DECIMALS)
    return f"{number:.{decimals}f}%"


def half_width(row: Row) -> str:
    """Returns half the width of a share's interval; nothing if there is no interval, or no width."""
    if row["low"] is None or row["low"] == row["high"]:
        return ""
    return exact_percent((row["high"] - row["low"]) / 2)


def interval(row: Row, shown: Callable[[float], str]) -> str:
    """Returns an interval; a dash for one placement; words if all placements are equal."""
    if row["low"] is None:
        return "-"
    if row["low"] == row["high"]:
        return "the same"
    between = " to " if row["low"] < 0 else "-"
    return f"{shown(row['low'])}{between}{shown(row['high'])}"


def _cpi(value: float) -> str:
    """Returns cycles per instruction with four decimals, or with two figures if there are fewer.

    >>> _cpi(0.01236), _cpi(0.00031), _cpi(0.0)
    ('0.0124', '0.00031', '0')
    """
    if value == 0:
        return "0"
    return f"{value:.4f}" if abs(value) >= 0.001 else f"{value:.2g}"


def _shown(row: Row, form: Callable[[float], str]) -> str:
    return "-" if row["mean"] is None else form(row["mean"])


__all__ = ["EXPLAINED", "exact_percent", "half_width", "interval", "memory", "translation_tables"]
