"""Tests that a trace which grows while it is read, or between two readings, is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import binhop
from binhop.errors import RequestError

if TYPE_CHECKING:
    from pathlib import Path

LINES = 200_000


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    path = tmp_path / "t.din"
    path.write_text("0 1000\n" * LINES, encoding="ascii")
    return path


def grow(path: Path) -> None:
    with path.open("a", encoding="ascii") as file:
        file.write("0 2000\n")


def test_growth_while_it_is_read_is_refused(growing: Path) -> None:
    batches = binhop.Trace.open(growing).batches()
    assert len(next(batches)) < LINES
    grow(growing)
    with pytest.raises(RequestError, match="the file was changed while it was read"):
        list(batches)


def test_growth_between_two_readings_is_refused(growing: Path) -> None:
    trace = binhop.Trace.open(growing)
    assert trace.inspect()["totals"]["references"] == LINES
    grow(growing)
    with pytest.raises(RequestError, match="has changed since"):
        trace.inspect()
    assert binhop.Trace.open(growing).inspect()["totals"]["references"] == LINES + 1
