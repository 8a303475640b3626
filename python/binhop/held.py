"""Tables that may be longer than memory holds. They are written and joined without being made in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop._binhop import LongTable, write_table
from binhop.lazily import pl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Held = pl.DataFrame | LongTable
    """A table in memory, or one whose rows are made as they are read."""


def frame_of(table: Held) -> pl.DataFrame:
    """Returns the table in memory."""
    return pl.DataFrame(table) if isinstance(table, LongTable) else table


def write_held(table: Held, path: Path) -> None:
    """Writes the table as Parquet: the same bytes for the same rows, wherever they are."""
    if isinstance(table, LongTable):
        table.write_parquet(path)
    else:
        write_table(table, path)


def joined(tables: Sequence[Held]) -> Held:
    """Puts the tables one below the other: in memory if one of them is."""
    long = [table for table in tables if isinstance(table, LongTable)]
    if len(long) == len(tables) > 0:
        return LongTable.join(long[0], long[1:])
    return pl.concat([frame_of(table) for table in tables])
