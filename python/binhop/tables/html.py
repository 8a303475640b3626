"""Shows tables in a notebook as HTML in which every text is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from binhop.escape import escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binhop.tables.form import Table


def html(tables: Sequence[Table], notes: Sequence[str]) -> str:
    """Returns tables, and the notes below them, as HTML for a notebook.

    >>> from binhop.tables.form import Table
    >>> html([Table("a<b", ("name", "n"), (("x", "1"),), right=1)], ["it's"])[:43]
    '<div><p><b>a&lt;b</b></p><table><thead><tr>'
    """
    parts = [_table(table) for table in tables]
    if notes:
        parts.append(f"<ul>{''.join(f'<li>{_safe(note)}</li>' for note in notes)}</ul>")
    return f"<div>{''.join(parts)}</div>"


def _table(table: Table) -> str:
    title = f"<p><b>{_safe(table.title)}</b></p>" if table.title else ""
    if not table.rows:
        return f"{title}<p>{_safe(table.instead)}</p>"
    head = _row(table.columns, "th", table.left)
    body = "".join(_row(row, "td", table.left) for row in table.rows)
    return f"{title}<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _row(cells: Sequence[str], tag: str, left: int) -> str:
    made = []
    for number, cell in enumerate(cells):
        side = "left" if number < left else "right"
        made.append(f'<{tag} style="text-align:{side}">{_safe(cell)}</{tag}>')
    return f"<tr>{''.join(made)}</tr>"


def _safe(text: str) -> str:
    return escape(escaped(text))


__all__ = ["html"]
