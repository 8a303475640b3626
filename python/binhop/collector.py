"""Stops Python's garbage collector while libraries are imported.

An import makes some hundred thousand objects that stay. The collector would look at all of them several
times and find no garbage, which takes an eighth of the time of a short run.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

from binhop.interrupts import is_command

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def paused() -> Iterator[None]:
    """Stops the collector until the end of the block."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _pause() -> None:
    """Stops the collector, if this process is the command, until `resume` is called."""
    if is_command():
        gc.disable()


def resume() -> None:
    """Starts the collector, if this process is the command. It never looks at what was imported by now."""
    if not is_command():
        return
    gc.freeze()
    gc.enable()


_pause()  # runs when `binhop` is imported, before imports that take a while
