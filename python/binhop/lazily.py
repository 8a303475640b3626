"""Polars, read when it is first used: it takes longer to import than a short program takes to record.

Modules say `from binhop.lazily import pl` where they would say `import polars as pl`; half of the commands
never make a table.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
else:

    class _Lazily:
        """Stands for a module until an attribute of it is asked for."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module(self._name), name)

    pl = _Lazily("polars")

__all__ = ["pl"]
