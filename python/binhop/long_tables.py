"""Writes and joins tables that may be longer than memory holds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING
from weakref import finalize

from binhop._binhop import LongTable, Table, stored_batches, write_tables
from binhop.lazy_imports import pl
from binhop.output import read_parquet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass(frozen=True)
class StoredTable:
    """`StoredTable` is a table in a Parquet file. The file stays there as long as the table is used."""

    path: Path


@dataclass(frozen=True)
class PiecewiseTable:
    """`PiecewiseTable` is a table that is made piece by piece, each time that it is read.

    Attributes:
        make: Begins with the first row. There is at least one piece, which may be empty.
    """

    make: Callable[[], Iterator[Piece]]


class TableDirectory:
    """`TableDirectory` is a temporary directory for tables, made when needed and removed with the object."""

    def __init__(self) -> None:
        self._directory: Path | None = None

    def stored(self, table: AnyTable, name: str) -> AnyTable:
        """Returns the table in a file of the directory; in memory if the file cannot be written."""
        if isinstance(table, StoredTable):
            return table
        try:
            if self._directory is None:
                self._directory = Path(mkdtemp(prefix="binhop-"))
                finalize(self, rmtree, self._directory, ignore_errors=True)
            store_table(table, self._directory / f"{name}.parquet")
        except OSError:
            return table
        return StoredTable(self._directory / f"{name}.parquet")


if TYPE_CHECKING:
    Piece = pl.DataFrame | Table
    """Rows that memory holds."""
    AnyTable = pl.DataFrame | Table | LongTable | StoredTable | PiecewiseTable
    """A table in memory, or one whose rows are made, or read, as they are needed."""


def pieces(table: AnyTable) -> Iterator[Piece]:
    """Yields the rows in pieces: at least one, which may be empty."""
    if isinstance(table, StoredTable):
        yield from stored_batches(table.path)
    elif isinstance(table, PiecewiseTable):
        yield from table.make()
    elif isinstance(table, LongTable):
        yield from table.batches()
    else:
        yield table


def frame_of(table: AnyTable) -> pl.DataFrame:
    """Returns the table in memory. Ctrl-C ends the work between two pieces of the table."""
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, StoredTable):
        return read_parquet(table.path)
    return pl.concat(
        [pl.DataFrame(piece) for piece in pieces(table)], rechunk=isinstance(table, PiecewiseTable)
    )


def store_table(table: AnyTable, path: Path) -> None:
    """Writes the table as Parquet: the same bytes for the same rows, wherever they are.

    Ctrl-C ends the work. The file that it leaves is incomplete; its directory is a `Partial`, which is never
    taken for a result.
    """
    if isinstance(table, LongTable):
        table.write_parquet(path)
    else:
        write_tables(pieces(table), path)


def joined(tables: Sequence[AnyTable]) -> AnyTable:
    """Concatenates the tables: in memory if all of them are in memory."""
    long = [table for table in tables if isinstance(table, LongTable)]
    if len(long) == len(tables) > 0:
        return LongTable.join(long[0], long[1:])
    short = [table for table in tables if isinstance(table, Table)]
    if len(short) == len(tables) > 0:
        return Table.join(short[0], short[1:])
    if all(isinstance(table, pl.DataFrame | Table) for table in tables):
        return pl.concat([frame_of(table) for table in tables])
    return PiecewiseTable(lambda: chain.from_iterable(map(pieces, tables)))
