"""Tables on standard output: plain text that fits 80 columns where it is no terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import polars as pl

WIDTH = 80


def console() -> Console:
    """Standard output; 80 columns where it is no terminal."""
    width = None if sys.stdout.isatty() else WIDTH
    return Console(width=width, highlight=False, soft_wrap=False, emoji=False, markup=False)


def table(*columns: str, right: int = 0, gap: int = 2) -> Table:
    """A table without rules, `gap` blanks between columns; the last `right` columns are numbers."""
    made = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for index, column in enumerate(columns):
        number = index >= len(columns) - right
        made.add_column(column, justify="right" if number else "left", no_wrap=number, overflow="fold")
    return made


def entries(frame: pl.DataFrame, name: str, text: str, details: dict[str, str]) -> None:
    """A list of named things: the name, what it is, and details below."""
    out = console()
    for row in frame.iter_rows(named=True):
        out.print(Text(str(row[name]), style="bold"))
        out.print(Padding(Text(str(row[text])), (0, 0, 0, 4)))
        for column, label in details.items():
            if row[column]:
                out.print(Padding(Text(f"{label}: {row[column]}"), (0, 0, 0, 4)))


def grouped(number: float) -> str:
    """A whole number with its thousands apart: 1 234 567."""
    return f"{round(number):,}".replace(",", " ")


def written(directory: str | None, names: list[str]) -> None:
    """Which files of a directory of results to look at first."""
    if directory is not None:
        first = [name for name in names if name.endswith(".png") or name == "results.parquet"]
        print(f"\nwritten: {', '.join(str(Path(directory) / name) for name in first)}")


def figure(value: float | None, unit: str) -> str:
    """A value of any metric: misses per 1000 instructions, counts whole, other ratios to four figures."""
    if value is None:
        return "-"
    if unit == "misses/instruction":
        return rate(value)
    return f"{value:#.4g}".rstrip(".") if "/" in unit else grouped(value)


def signed(value: float, unit: str) -> str:
    """A difference, in the same units: three figures, and always its sign."""
    if unit == "misses/instruction":
        value *= 1000
    if abs(value) >= 1000:
        return f"{round(value):+,}".replace(",", " ")
    return f"{value:+#.3g}".rstrip(".")


def rate(value: float | None) -> str:
    """Misses per 1000 instructions from misses per instruction: four significant figures."""
    if value is None:
        return "-"
    number = 1000 * value
    return f"{number:.1f}" if number >= 1000 else f"{number:#.4g}".rstrip(".")
