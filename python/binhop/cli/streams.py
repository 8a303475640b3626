"""Handles standard streams that are closed, are full, or have an encoding that lacks characters."""

from __future__ import annotations

import io
import os
import sys
from typing import IO

_CLOSED = {"stdin": os.O_WRONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
"""The mode in which /dev/null replaces a closed stream: reading and writing fail, messages are dropped."""


def prepare() -> None:
    """Makes the standard streams usable.

    The first file that is opened would get a closed stream's number, and messages would go into this file. A
    character that the encoding lacks is printed as a question mark.
    """
    for number, (name, flags) in enumerate(_CLOSED.items()):
        if getattr(sys, name) is None:
            setattr(sys, name, _stand_in(number, flags, "r" if name == "stdin" else "w"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _stand_in(number: int, flags: int, mode: str) -> IO[str]:
    opened = os.open(os.devnull, flags)
    try:
        os.fstat(number)
    except OSError:
        os.dup2(opened, number)
        os.close(opened)
        opened = number
    return open(opened, mode, closefd=False, errors="replace")


def silence(stream: IO[str]) -> None:
    """Sends the text that Python would still write to this stream to /dev/null."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def flush() -> OSError | None:
    """Flushes standard output and standard error. Returns the first error; a failed stream is silenced."""
    failed = None
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            silence(stream)
            failed = failed or error
    return failed
