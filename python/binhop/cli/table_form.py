"""Defines the option for the form of a command's tables, and writes tables in this form."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from binhop.cli import show
from binhop.tables import FORMS, SUFFIXES, TEXT, form_of, rendered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binhop.output import ResultDirectory, Writable
    from binhop.tables import Table

Form = Annotated[
    str,
    typer.Option(
        "--table",
        metavar="FORM",
        help=f"The form of the tables: {', '.join(FORMS)}. Tables in a form other than text are also "
        f"written into --out, as table{' or table'.join(SUFFIXES.values())}.",
    ),
]


def checked(form: str) -> str:
    """Returns the form, if it is known."""
    return form_of(form, "--table")


def print_tables(tables: Sequence[Table], notes: Sequence[str], form: str, gap: int = 2) -> None:
    """Prints tables and notes in a form. In text, `gap` blanks separate the columns."""
    if form != TEXT:
        put(tables, notes, form)
        return
    for table in tables:
        show.print_table(table, gap=gap)
    for note in notes:
        show.console().print(f"note: {note}")


def put(tables: Sequence[Table], notes: Sequence[str], form: str) -> None:
    """Writes tables and notes to standard output, in a form other than text."""
    sys.stdout.write(rendered(tables, notes, form))


def write(directory: Path, tables: Sequence[Table], notes: Sequence[str], form: str) -> None:
    """Writes tables and notes into a directory, in a form other than text. For text it writes nothing."""
    if form != TEXT:
        path = directory / f"table{SUFFIXES[form]}"
        path.write_text(rendered(tables, notes, form), encoding="utf-8")


def fill(
    place: ResultDirectory, what: Writable, tables: Sequence[Table], notes: Sequence[str], form: str
) -> list[str]:
    """Fills a directory with a result and its tables in this form; returns the names of the files."""

    def made(directory: Path) -> None:
        what.write_tables(directory)
        what.draw(directory)
        write(directory, tables, notes, form)

    return place.fill_by(made, command=["binhop", *sys.argv[1:]])
