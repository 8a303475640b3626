"""Imports libraries when they are first used.

Polars takes longer to import than a short program takes to record, and Altair takes longer still. Modules say
`from binhop.lazy_imports import pl` where they would say `import polars as pl`: a run that only shows its
tables in the terminal makes no frame. A result whose placements are all equal has no figure to draw. Python's
own modules in the list take some milliseconds each, and most commands need few of them.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from binhop.collector import paused
from binhop.interrupts import undisturbed


def load(name: str) -> Any:
    """Returns the module of this name, and imports it if it is not imported yet.

    Ctrl-C waits until the import is complete: an extension module that is interrupted while it is imported
    loses the interruption, or fails.
    """
    if name in sys.modules:
        return importlib.import_module(name)
    with undisturbed(), paused():
        return importlib.import_module(name)


if TYPE_CHECKING:
    import hashlib
    import json
    import sysconfig
    import tomllib

    import altair as alt
    import polars as pl
    import vl_convert
    from scipy import stats
else:

    class _Lazily:
        """`_Lazily` stands for a module, which it imports when one of its attributes is first used."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(load(self._name), name)

    hashlib = _Lazily("hashlib")
    json = _Lazily("json")
    sysconfig = _Lazily("sysconfig")
    tomllib = _Lazily("tomllib")
    pl = _Lazily("polars")
    alt = _Lazily("altair")
    stats = _Lazily("scipy.stats")
    vl_convert = _Lazily("vl_convert")

__all__ = ["alt", "hashlib", "json", "load", "pl", "stats", "sysconfig", "tomllib", "vl_convert"]
