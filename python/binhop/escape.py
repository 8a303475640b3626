"""Escapes text from traces, file names and descriptions, so that a terminal can show it safely.

The list of characters that steer a terminal or reorder a line is in crates/binhop-base/src/escape.rs.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from binhop import _binhop
from binhop.lazy_imports import json

if TYPE_CHECKING:
    from collections.abc import Iterator

_SURROGATES = (0xD800, 0xDFFF)
# os.fsdecode replaces a byte that is no UTF-8 by one of these characters.
_UNDECODABLE = range(0xDC80, 0xDD00)
_RANGES = "".join(
    f"{chr(first)}-{chr(last)}" for first, last in [*_binhop.steering_characters(), _SURROGATES]
)
STEERING = re.compile(f"[{_RANGES}]")
"""Matches a character that steers a terminal or reorders a line, or that UTF-8 cannot encode."""

_TOGETHER = 1 << 12
"""The number of parts of JSON that are written at once: a part is a number, a name or a bracket."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escaped(text: str) -> str:
    r"""Returns the text with each steering character (`STEERING`) as its escape.

    >>> print(escaped("a\x1b]0;title\x07\u202e"), escaped("[red] stays"))
    a\x1b]0;title\x07\u202e [red] stays
    """
    return STEERING.sub(_escape, text)


def json_text(value: object, indent: int | None = None) -> str:
    r"""Returns the value as JSON in which no character steers a terminal.

    >>> print(json_text({"name": "\x1b\x7fä"}))
    {"name":"\u001b\u007f\u00e4"}
    """
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, allow_nan=False, separators=separators)
    return text.replace("\x7f", "\\u007f")  # JSON escapes every other steering character


def json_pieces(value: object, indent: int) -> Iterator[str]:
    """Yields the text of `json_text` piece by piece: memory holds the value and one piece."""
    parts = json.JSONEncoder(indent=indent, allow_nan=False).iterencode(value)
    while piece := "".join(itertools.islice(parts, _TOGETHER)):
        yield piece.replace("\x7f", "\\u007f")


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if code in _UNDECODABLE:
        code -= 0xDC00
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"
