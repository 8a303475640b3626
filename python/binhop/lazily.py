"""Libraries that are read when they are first used.

Polars takes longer to import than a short program takes to record. Modules say `from binhop.lazily import pl`
where they would say `import polars as pl`; half of the commands never make a table.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def load(name: str) -> Any:
    """The module of this name, imported now if it is not yet. Ctrl-C waits until it is there whole."""
    if name in sys.modules:
        return importlib.import_module(name)
    with _undisturbed():
        return importlib.import_module(name)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C counts at the end of it: imports of extension modules swallow it, or make an error of it."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    heard: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *event: heard.append(event))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        before(*heard[0])


if TYPE_CHECKING:
    import polars as pl
else:

    class _Lazily:
        """Stands for a module until an attribute of it is asked for."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(load(self._name), name)

    pl = _Lazily("polars")

__all__ = ["load", "pl"]
