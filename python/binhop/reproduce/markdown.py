"""Writes what the pages of all papers share: tables of Markdown, and claims with their verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from binhop.escape import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binhop.reproduce.claims import Claim


def grid(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Returns a Markdown table, in which all but the first `left` columns are numbers."""
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    lines = [header, rule, *rows]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines) + "\n"


def cell(text: str) -> str:
    r"""Returns the text for a cell of a Markdown table, in which a bar is escaped.

    >>> print(cell("a|b\n"))
    a\|b\n
    """
    return escaped(text).replace("|", "\\|")


def claims_table(claims: Iterable[Claim]) -> str:
    """Returns a table of every claim, its measurement, and its verdict."""
    rows = [[claim.id, claim.statement, measured(claim), f"**{claim.verdict}**"] for claim in claims]
    return grid(["", "claim", "measured", "verdict"], rows, left=4)


def judged(claims: Iterable[Claim]) -> str:
    """Returns the rule of every claim, with the value of each condition."""
    return "\n".join(f"**{claim.id}** {claim.how}\n" for claim in claims)


def measured(claim: Claim) -> str:
    """Returns a measurement as the text of a table's cell.

    >>> from binhop.reproduce.claims import Claim
    >>> measured(Claim("K1", "", {"cells": 26, "worst": 0.03412, "none": None}, None, "holds", "rule"))
    'cells 26; worst 0.03412; none -'
    """
    found = claim.measured
    if isinstance(found, Mapping):
        return "; ".join(f"{name} {_number(value)}" for name, value in found.items())
    return "" if found is None else _number(found)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return str(int(value)) if float(value).is_integer() else f"{value:.4g}"
