"""Keeps docstrings under `python -OO`, which drops them, for the modules that read their own docstrings.

Altair cannot be imported without docstrings, and the command line makes its help texts from docstrings. Under
`-OO` the modules of both are compiled as `python -O` would compile them, without the cache of compiled files.
This compilation takes some seconds.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

READ_THEIR_OWN = ("altair", "binhop.cli")


def keep() -> None:
    """Makes Python compile these modules with their docstrings from now on."""
    if sys.flags.optimize > 1:
        sys.meta_path.insert(0, _finder())


def _finder() -> Any:
    """Returns the finder of these modules. Its libraries are imported only where it is needed."""
    from importlib.abc import MetaPathFinder
    from importlib.machinery import PathFinder, SourceFileLoader

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

    return _Finder()
