r"""`Table` is a table of words that is printed in several forms.

*text* is for a terminal (`binhop.cli.show`). *md* is Markdown with pipes, as GitHub and Pandoc read
it. *latex* is a `tabular` with the rules of the package booktabs in a `table`: the document needs
`\usepackage{booktabs}` and nothing else. Characters that a form would read as markup are escaped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binhop import _binhop
from binhop.escape import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TEXT = "text"


@dataclass(frozen=True)
class Table:
    """`Table` holds rows of words under a title.

    Attributes:
        title: The table's title; empty for a table that continues the table before.
        columns: The heads, as many as a row has cells.
        rows: The cells.
        right: The number of columns that hold numbers. These are the last columns.
        instead: The text shown if there are no rows.
        grouped: Whether the first column names groups of rows: in text it becomes a line above each group.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: int
    grouped: bool = False
    instead: str = ""

    @property
    def left(self) -> int:
        """Returns how many columns hold words. These are the first columns."""
        return len(self.columns) - self.right


def form_of(name: str, place: str = "form") -> str:
    """Returns the name of the form, if it is known.

    >>> form_of("md")
    'md'
    """
    if name not in FORMS:
        raise _binhop.unknown(name, place, "a table has no form of this name", [*FORMS])
    return name


def rendered(tables: Sequence[Table], notes: Sequence[str], form: str) -> str:
    """Returns tables and the notes below them as one text in Markdown or LaTeX."""
    table, note = _MADE[form]
    parts = [table(each) for each in tables]
    if notes:
        parts.append(note(notes))
    return "\n".join(parts)


# ---- Markdown

_MARKDOWN = r"([\\|*_`<\[\]~$])"
"""The characters that Markdown, or one of its common extensions, reads as markup within a line."""


def markdown(table: Table) -> str:
    r"""Returns a table with pipes under its title.

    >>> print(markdown(Table("a_b", ("name", "n"), (("x|y", "1"),), right=1)), end="")
    **a\_b**
    <BLANKLINE>
    | name | n |
    |---|---:|
    | x\|y | 1 |
    """
    lines = [f"**{_marked(table.title)}**", ""] if table.title else []
    if not table.rows:
        return "\n".join([*lines, _marked(table.instead)]) + "\n"
    lines.append(_piped(table.columns))
    lines.append("|" + "---|" * table.left + "---:|" * table.right)
    lines += [_piped(row) for row in table.rows]
    return "\n".join(lines) + "\n"


def _piped(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_marked(cell) for cell in cells) + " |"


def _marked(text: str) -> str:
    return re.sub(_MARKDOWN, r"\\\1", " ".join(escaped(text).split()))


def _markdown_notes(notes: Sequence[str]) -> str:
    return "".join(f"- {_marked(note)}\n" for note in notes)


# ---- LaTeX

_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "×": r"$\times$",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "µ": r"$\mu$",
    "…": r"\ldots{}",
}
_GROUPED = r"(?<=\d) (?=\d{3}(?!\d))"
"""The blank between thousands."""
_MINUS = r"(?<![\w.)-])-(?=\d)"
_TO = r"(?<=\d)-(?=\d)"
"""The stroke between the ends of an interval."""


def latex(table: Table) -> str:
    r"""Returns a `tabular` in a `table` with the title as caption.

    >>> print(latex(Table("", ("a", "b"), (("50%", "-1"),), right=1)), end="")
    \begin{table}
    \centering
    \begin{tabular}{lr}
    \toprule
    a & b \\
    \midrule
    50\% & $-$1 \\
    \bottomrule
    \end{tabular}
    \end{table}
    """
    if not table.rows:
        return "".join(f"{_worded(text)}\n" for text in (table.title, table.instead) if text)
    lines = [r"\begin{table}", r"\centering"]
    if table.title:
        lines.append(rf"\caption{{{_worded(table.title)}}}")
    lines += [rf"\begin{{tabular}}{{{'l' * table.left}{'r' * table.right}}}", r"\toprule"]
    lines += [_line([_worded(cell) for cell in table.columns]), r"\midrule"]
    before = None
    for row in table.rows:
        if table.grouped and before not in (None, row[0]):
            lines.append(r"\midrule")
        same = table.grouped and before == row[0]
        before = row[0]
        words = ["" if same and not place else _worded(cell) for place, cell in enumerate(row[: table.left])]
        lines.append(_line([*words, *(_number(cell) for cell in row[table.left :])]))
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _worded(text: str) -> str:
    r"""Returns words for LaTeX: special characters are escaped, and thousands are kept together.

    >>> _worded("50% of a_b, 1 234 567")
    '50\\% of a\\_b, 1\\,234\\,567'
    """
    parts = re.split(_GROUPED, " ".join(escaped(text).split()))
    return r"\,".join("".join(_LATEX.get(letter, letter) for letter in part) for part in parts)


def _number(cell: str) -> str:
    """Returns a cell of numbers for LaTeX, with a minus sign, and a dash in intervals."""
    return re.sub(_TO, "--", re.sub(_MINUS, "$-$", _worded(cell)))


def _latex_notes(notes: Sequence[str]) -> str:
    items = "".join(rf"\item {_worded(note)}" + "\n" for note in notes)
    return "\\begin{itemize}\n" + items + "\\end{itemize}\n"


_MADE: dict[str, tuple[Callable[[Table], str], Callable[[Sequence[str]], str]]] = {
    "md": (markdown, _markdown_notes),
    "latex": (latex, _latex_notes),
}
FORMS = (TEXT, *_MADE)
"""The forms, by name."""
SUFFIXES = {"md": ".md", "latex": ".tex"}
"""The ending of file names in each form."""

__all__ = ["FORMS", "SUFFIXES", "TEXT", "Table", "form_of", "latex", "markdown", "rendered"]
