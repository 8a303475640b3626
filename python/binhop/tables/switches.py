"""Makes the tables of switches: what a switch costs, by cause, process, level and cache, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import pl
from binhop.numbers import counted, grouped, percent
from binhop.switch_cost import CONFIDENCE
from binhop.switch_summary import costliest_pages, summary
from binhop.tables.form import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

KNOWN_TIMES = (
    (70.0, "work of Ultrix for a switch (MB90 §6)"),
    (7.4, "least work of a kernel (MB90 §6)"),
    (130.0, "exchange of two packets (MB90 §6)"),
)
"""Times of a DECstation 5000 that a switch is compared with, in µs."""
PROCESSES = 8
"""The most processes in a table. The rest are one row."""
CALLS = 8
"""The most system calls in a table."""
PAGES = 5
"""The most code pages in a table."""

Row = dict[str, Any]


def cost_tables(
    costs: pl.DataFrame,
    curves: pl.DataFrame,
    pages: pl.DataFrame,
    facts: Mapping[str, Any],
    confidence: float = CONFIDENCE,
) -> list[Table]:
    """Returns the tables of each workload. `facts` is the provenance of the result."""
    made = []
    for workload in costs["workload"].unique(maintain_order=True):
        of = summary(costs.filter(workload=workload), curves.filter(workload=workload), confidence)
        names = facts.get("processes", {}).get(workload, {})
        figures = _Figures(of, names, facts.get("cycle_time_ns"))
        made += [figures.whole(), figures.causes(), figures.processes(), figures.levels(), figures.caches()]
        code = costliest_pages(pages.filter(workload=workload), PAGES)
        made.append(_pages(code, names))
    return made


class _Figures:
    """`_Figures` makes tables from the summary of one workload."""

    def __init__(self, rows: pl.DataFrame, names: Mapping[str, str], cycle_time: float | None) -> None:
        self._rows = rows
        self._names = names
        self._cycle_time = cycle_time
        self._confidence = f"{100 * rows['confidence'][0]:g}% interval"

    def _group(self, group: str, *keys: str) -> dict[tuple[Any, ...], dict[str, Row]]:
        """Returns the metrics of each row of a group, in the order of the summary."""
        found: dict[tuple[Any, ...], dict[str, Row]] = {}
        for row in self._rows.filter(group=group).iter_rows(named=True):
            found.setdefault(tuple(row[key] for key in keys), {})[row["metric"]] = row
        return found

    def _time(self, cycles: float | None) -> tuple[str, ...]:
        """Returns the cell with the time of these cycles, if the machine states the time of a cycle."""
        if self._cycle_time is None:
            return ()
        return ("-" if cycles is None else short(cycles * self._cycle_time / 1000),)

    def whole(self) -> Table:
        """Returns the cost of a switch, and its share of all cycles."""
        (of,) = self._group("all").values()
        cut = of["cut"]["mean"]
        way = "MB90's way" if cut is None else f"MB90's way, to {grouped(cut)} instructions"
        lines = [
            ("a switch", "exact"),
            ("  without first segments", "returning"),
            (f"  {way}", "document"),
            (f"  mean of {counted(of['lives']['mean'], 'process', 'processes')}", "per_process"),
        ]
        rows = [
            (name, _cycles(of[metric]), _interval(of[metric], short), *self._time(of[metric]["mean"]))
            for name, metric in lines
        ]
        if self._cycle_time is not None:
            rows += [
                (name, grouped(1000 * time / self._cycle_time), "", f"{time:g}") for time, name in KNOWN_TIMES
            ]
        for name, metric in (
            ("all switches, of all cycles", "overhead"),
            ("  without first segments", "overhead_returning"),
            ("  MB90's way", "overhead_document"),
        ):
            row = of[metric]
            share = "-" if row["mean"] is None else percent(row["mean"])
            rows.append((name, share, _interval(row, percent), *(["" for _ in self._time(None)])))
        heads = ("cycles", self._confidence, *(["µs"] if self._cycle_time is not None else []))
        row = of["switches"]
        title = (
            f"{row['workload']} on {row['machine']}: {counted(row['mean'], 'switch', 'switches')}, "
            f"{counted(of['length']['mean'], 'instruction')} between two, "
            f"{counted(row['n'], 'placement')}"
        )
        return Table(title, ("", *heads), tuple(rows), right=len(heads))

    def causes(self) -> Table:
        """Returns the cost by cause, and below a cause by system call."""
        calls: dict[str, list[tuple[int, dict[str, Row]]]] = {}
        for (cause, call), of in self._group("call", "cause", "syscall").items():
            calls.setdefault(cause, []).append((call, of))
        rows = []
        for (cause,), of in self._group("cause", "cause").items():
            rows.append(self._line(cause.replace("-", " "), of))
            below = calls.get(cause, [])
            rows += [self._line(f"  number {call}", each) for call, each in below[:CALLS]]
            if len(below) > CALLS:
                rows.append(_rest(f"  {len(below) - CALLS} more", [each for _, each in below[CALLS:]]))
        return self._costs("cause", rows)

    def processes(self) -> Table:
        """Returns the cost by process: the processes with the most excess, and the rest in one row."""
        every = [*self._group("process", "asid", "life").items()]
        several = {asid for (asid, life), _ in every if life > 0}
        rows = []
        for (asid, life), of in every[:PROCESSES]:
            number = f"{asid}.{life}" if asid in several else f"{asid}"
            rows.append(self._line(process(number, self._names.get(str(asid))), of))
        if len(every) > PROCESSES:
            rows.append(_rest(f"{len(every) - PROCESSES} more", [of for _, of in every[PROCESSES:]]))
        return self._costs("process", rows)

    def _costs(self, first: str, rows: Iterable[tuple[str, ...]]) -> Table:
        heads = (first, "switches", "instructions", "cycles", self._confidence, "of excess")
        return Table("", heads, tuple(rows), right=5)

    def _line(self, name: str, of: dict[str, Row]) -> tuple[str, ...]:
        cost = of["cost"]
        return (
            name,
            grouped(of["switches"]["mean"]),
            grouped(of["length"]["mean"]),
            _cycles(cost),
            _interval(cost, short),
            _share(of["share"]),
        )

    def levels(self) -> Table:
        """Returns the cost by the level that served, for fetches and data."""
        rows = []
        for (level, kind), of in self._group("level", "level", "kind").items():
            name = f"{level}, {kind}" if kind else level.replace("-", " ")
            rows.append((name, _cycles(of["cost"]), _interval(of["cost"], short), _share(of["share"])))
        return Table("", ("waits for", "cycles", self._confidence, "of excess"), tuple(rows), right=3)

    def caches(self) -> Table:
        """Returns misses and lines of each cache, by switch."""
        rows = []
        for (name,), of in self._group("cache", "level").items():
            counts = (_cycles(of[metric]) for metric in ("extra", "replaced", "reordered", "held"))
            shares = (_share(of[metric]) for metric in ("lost", "restored"))
            rows.append((name, *counts, *shares))
        heads = ("cache", "extra misses", "replaced", "reordered", "lines held", "lost", "restored")
        return Table("", heads, tuple(rows), right=6)


def _rest(name: str, others: list[dict[str, Row]]) -> tuple[str, ...]:
    """Returns the row for what a table does not name."""
    switches = sum(of["switches"]["mean"] for of in others)
    excess = sum(of["excess"]["mean"] for of in others)
    instructions = sum(of["length"]["mean"] * of["switches"]["mean"] for of in others)
    share = sum(of["share"]["mean"] or 0.0 for of in others)
    means = (grouped(instructions / switches), short(excess / switches)) if switches else ("-", "-")
    return (name, grouped(switches), *means, "", percent(share))


def _pages(code: pl.DataFrame, names: Mapping[str, str]) -> Table:
    """Returns the code pages with the most excess soon after a switch."""
    rows = [
        (
            f"{row['page']:#x}",
            row["segment"],
            process(str(row["asid"]), names.get(str(row["asid"]))),
            row["cause"].replace("-", " "),
            grouped(row["excess"]),
            "-" if row["share"] is None else percent(row["share"]),
        )
        for row in code.filter(pl.col("excess") > 0).iter_rows(named=True)
    ]
    heads = ("code page", "segment", "process", "after", "cycles", "of all")
    title = "Code with the most excess in the first 10 000 instructions after a switch"
    instead = "no code page waits longer soon after a switch"
    return Table(title, heads, tuple(rows), right=2, instead=instead)


def process(number: str, command: str | None) -> str:
    """Returns the name of a process: its number, and how its command begins.

    >>> process("3", "sort numbers"), process("4.1", None)
    ('3 sort', '4.1')
    """
    words = (command or "").split()
    return f"{number} {words[0].rsplit('/', 1)[-1][:12]}" if words else number


def short(value: float) -> str:
    """Returns a number with three significant figures, and with its thousands apart if it is large.

    >>> short(12345.6), short(12.345), short(0.01234), short(0.0)
    ('12 346', '12.3', '0.0123', '0')
    """
    return grouped(value) if abs(value) >= 100 or value == 0 else f"{value:#.3g}".rstrip(".")


def _cycles(row: Row) -> str:
    return "-" if row["mean"] is None else short(row["mean"])


def _share(row: Row) -> str:
    return "-" if row["mean"] is None else percent(row["mean"])


def _interval(row: Row, shown: Callable[[float], str]) -> str:
    """Returns an interval; a dash for one placement; words if all placements are equal."""
    if row["low"] is None:
        return "-"
    if row["low"] == row["high"]:
        return "the same"
    between = " to " if row["low"] < 0 else "-"
    return f"{shown(row['low'])}{between}{shown(row['high'])}"


__all__ = ["KNOWN_TIMES", "cost_tables", "process", "short"]
