"""Defines the exit code that is not binhop's own."""

from __future__ import annotations


class ProgramsOwn(int):
    """`ProgramsOwn` is the exit code of the recorded program. binhop gives it no meaning."""
