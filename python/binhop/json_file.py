"""Reads and writes the JSON files of results. A file that is read may have been altered."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from binhop.escape import json_text
from binhop.lazy_imports import json

if TYPE_CHECKING:
    from pathlib import Path

MOST = 1 << 26
"""The most bytes of a file that are read. The provenance of a study of 10,000 cells has some 10 MB."""


def read(path: Path) -> dict[str, Any]:
    """Returns the object that a file holds.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file holds no JSON object, or an object that is larger or nested deeper than any
            result's.
    """
    # Opening a pipe must not wait for a writer.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        content = file.read(MOST + 1)
    if len(content) > MOST:
        raise ValueError(f"{path.name} has more than {MOST} bytes")
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} holds no JSON object")
    return value


def text(value: dict[str, Any]) -> str:
    """Returns an object as the text of a file. Equal objects give equal texts."""
    return json_text(value, indent=2) + "\n"


def write(path: Path, value: dict[str, Any]) -> None:
    """Writes an object to a file."""
    path.write_text(text(value), encoding="utf-8")
