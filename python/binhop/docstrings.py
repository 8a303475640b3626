"""Modules that read their own docstrings, under `python -OO`, which drops them.

Altair stops with an error when it is imported so, and the command line makes its help of docstrings. Their
modules are compiled here as `python -O` would compile them, without the cache of compiled files; that takes
some seconds, and only under `-OO`.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

READ_THEIR_OWN = ("altair", "binhop.cli")


class _WithDocstrings(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return compile(self.get_data(path), path, "exec", dont_inherit=True, optimize=1)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not f"{fullname}.".startswith(tuple(f"{name}." for name in READ_THEIR_OWN)):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _WithDocstrings(fullname, spec.loader.get_filename(fullname))
        return spec


def keep() -> None:
    """Compiles such modules with their docstrings from now on, where Python would drop them."""
    if sys.flags.optimize > 1:
        sys.meta_path.insert(0, _Finder())
