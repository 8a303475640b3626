"""Prints tables on standard output: plain text that fits 80 columns unless it is a terminal.

A command shows all text through this module. Names and metadata of traces, file names and descriptions may
hold anything. So every text is escaped, a very long text is cut, and no word in brackets is markup.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from binhop import tables
from binhop.escape import escaped
from binhop.numbers import counted, figure, grouped, rate, signed

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderResult

WIDTH = 80
SHORT = 16
"""The most characters of a word that is not folded in the first column of a table."""
LONGEST = 4096
"""The most characters of a text in a paragraph or a cell. A trace may hold a command of any length."""


class _Console(Console):
    """`_Console` prints each text escaped, as one paragraph."""

    def print(self, *objects: Any, **how: Any) -> None:
        super().print(*map(_shown, objects), crop=False, **how)


class _Table(Table):
    """`_Table` is a table that holds each cell escaped.

    A table that is too wide is first wrapped between words, then gets narrower gaps, and then exceeds the
    width. No number is cut, and no short word of the first column is folded.
    """

    def add_row(self, *cells: Any, **how: Any) -> None:
        super().add_row(*map(_shown, cells), **how)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for place, column in enumerate(self.columns):
            texts = [text.plain for text in (column.header, *column.cells) if isinstance(text, Text)]
            if column.no_wrap:
                column.min_width = max(map(cell_len, texts), default=0)
            elif place == 0:
                words = [cell_len(word) for text in texts for word in text.split()]
                column.min_width = min(max(words, default=0), SHORT)
        _, gap, _, _ = self.padding
        least = sum(column.min_width or 1 for column in self.columns) + gap * (len(self.columns) - 1)
        if least > options.max_width:
            self.padding = (0, 1, 0, 0)
        yield from super().__rich_console__(console, options)


def _shown(what: Any) -> Any:
    return Text(escaped(_cut(what))) if isinstance(what, str) else what


def _cut(text: str) -> str:
    """Returns the text, cut at the greatest length that anybody reads. Wrapping 20 MB takes a minute."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}… ({grouped(len(text))} characters)"


def console() -> Console:
    """Returns the console of the standard output, which has 80 columns where it is no terminal."""
    width = None if sys.stdout.isatty() else WIDTH
    return _Console(width=width, highlight=False, soft_wrap=False, emoji=False, markup=False)


def put(text: str = "") -> None:
    """Prints a line on standard output, of any length."""
    print(escaped(text))  # noqa: T201


def put_wrapped(text: str) -> None:
    """Prints a line on standard output, wrapped between words. Further lines have two more blanks."""
    indent = " " * (len(text) - len(text.lstrip()))
    wrapped = textwrap.wrap(
        escaped(_cut(text.lstrip())),
        console().width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    print("\n".join(wrapped))  # noqa: T201


def say(text: str) -> None:
    """Prints a line on standard error, of any length."""
    print(escaped(text), file=sys.stderr)  # noqa: T201


def table(*columns: str, right: int = 0, gap: int = 2) -> Table:
    """Returns a table without rules. `gap` blanks separate columns; the last `right` columns are numbers."""
    made = _Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for index, column in enumerate(columns):
        number = index >= len(columns) - right
        justify: Literal["left", "right"] = "right" if number else "left"
        made.add_column(_shown(column), justify=justify, no_wrap=number, overflow="fold")
    return made


def print_table(made: tables.Table, gap: int = 2) -> None:
    """Prints a table below its title, with a line for each group of its rows."""
    out = console()
    if made.title:
        out.print(made.title)
        out.print()
    if not made.rows:
        out.print(made.instead)
        out.print()
        return
    if not made.grouped and (pieces := _pieces(made, out.width, gap)) is not None:
        for piece in pieces:
            print_table(piece, gap=1)
        return
    first = int(made.grouped)
    heads = made.columns[first:]
    shown = table(*(("", *heads[1:]) if made.grouped else heads), right=made.right, gap=gap)
    before = None
    for row in made.rows:
        if made.grouped and row[0] != before:
            shown.add_section()
            shown.add_row(row[0])
        before = row[0]
        shown.add_row(f"  {row[1]}", *row[2:]) if made.grouped else shown.add_row(*row)
    out.print(shown)
    out.print()


def _pieces(made: tables.Table, width: int, gap: int) -> list[tables.Table] | None:
    """Returns the parts of a table whose columns of numbers leave no room for the columns of words.

    Each part has the columns of words, and as many columns of numbers as fit. It has no title. None if the
    table fits.
    """
    columns = [[head, *(row[at] for row in made.rows)] for at, head in enumerate(made.columns)]
    wide = [max(map(cell_len, column)) + gap for column in columns]
    folded = [
        max(cell_len(word) for text in column for word in ["", *text.split()]) + 1 for column in columns
    ]
    if sum(folded[: made.left]) + sum(wide[made.left :]) - gap <= width or made.left == 0:
        return None
    wide = [each - gap + 1 for each in wide]
    room = max(width - sum(wide[: made.left]), width // 2)
    # An interval stays beside its value.
    values: list[list[int]] = []
    for at in range(made.left, len(columns)):
        if values and made.columns[at].endswith("interval"):
            values[-1].append(at)
        else:
            values.append([at])
    groups: list[list[int]] = [[]]
    for value in values:
        if groups[-1] and sum(wide[at] for at in groups[-1] + value) - 1 > room:
            groups.append([])
        groups[-1] += value
    if len(groups) == 1:
        return None
    words = [*range(made.left)]
    return [
        tables.Table(
            "",
            tuple(made.columns[at] for at in words + group),
            tuple(tuple(row[at] for at in words + group) for row in made.rows),
            right=len(group),
        )
        for group in groups
    ]


def entry(name: str, text: str, details: dict[str, str]) -> None:
    """Prints a named entry: its name, its description, and details below."""
    out = console()
    out.print(Text(escaped(_cut(name)), style="bold"))
    for line in (text, *(f"{label}: {detail}" for label, detail in details.items())):
        out.print(Padding(_shown(line), (0, 0, 0, 4)))


def written(directory: str | None, names: list[str]) -> None:
    """Prints which files of a directory of results to look at first."""
    if directory is not None:
        first = [name for name in names if name.endswith(".png") or name == "results.parquet"]
        put()
        put(f"written: {', '.join(str(Path(directory) / name) for name in first)}")


__all__ = [
    "LONGEST",
    "WIDTH",
    "console",
    "counted",
    "entry",
    "figure",
    "grouped",
    "print_table",
    "put",
    "rate",
    "say",
    "signed",
    "table",
    "written",
]
