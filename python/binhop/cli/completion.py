"""Completes arguments for the shell with names from the lists, and files.

Completion runs at every press of the Tab key, so it reads no table and no trace.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from binhop import _binhop
from binhop.errors import BinhopError
from binhop.lazy_imports import tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable

WORDS = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""The variables in which shells pass the words of the line."""


def traces(incomplete: str) -> list[str]:
    """Completes a trace: built-in workloads, and files."""
    return [*_begin((name for name, *_ in _binhop.workloads()), incomplete), *_files(incomplete)]


def machines(incomplete: str) -> list[str]:
    """Completes a machine: bundled machines, and descriptions."""
    return [*_begin((name for name, *_ in _binhop.machines()), incomplete), *_files(incomplete, ".toml")]


def machine_list(incomplete: str) -> list[str]:
    """Completes the last machine of a list with commas."""
    before, comma, begun = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in machines(begun)]


def machines_and_traces(incomplete: str) -> list[str]:
    """Completes an argument of `compare`: machines and traces."""
    return list(dict.fromkeys([*machines(incomplete), *traces(incomplete)]))


def settings(incomplete: str) -> list[str]:
    """Completes a setting: keys of a machine, each with its `=`, and policies after `placement.policy=`."""
    key, equals, begun = incomplete.partition("=")
    if equals:
        names = [name for name, *_ in _binhop.policies()] if key == "placement.policy" else []
        return [f"{key}={name}" for name in _begin(names, begun)]
    listed = _binhop.machine_keys()
    of_caches = {name for _, name, form, *_ in listed if form == "sections"}
    keys = []
    for section, name, *_ in listed:
        if section in of_caches:
            keys += [f"{section}.{cache}.{name}" for cache in _caches()]
        elif name == "LEVEL":
            keys += [f"{section}.{level}" for level in [*_caches(behind=True), "memory"]]
        elif section:
            keys.append(f"{section}.{name}")
    return [f"{key}=" for key in _begin(dict.fromkeys(keys), incomplete)]


def metrics(incomplete: str) -> list[str]:
    """Completes a metric of the machine on the command line."""
    names = []
    for pattern, *_ in _binhop.counters():
        if "<kind>" not in pattern:
            names += [pattern.replace("<cache>", cache) for cache in _caches()]
    return _begin(dict.fromkeys(names), incomplete)


def caches(incomplete: str) -> list[str]:
    """Completes a cache of the machine on the command line."""
    return _begin(_caches(), incomplete)


def formats(incomplete: str) -> list[str]:
    """Completes a format that `export` writes."""
    return _begin((name for name, *_ in _binhop.exporters()), incomplete)


def _caches(*, behind: bool = False) -> list[str]:
    """Returns the caches of the machines on the line, or of every bundled machine if the line has none.

    Args:
        behind: Leave out the caches that the processor accesses: they have no cost of their own.
    """
    bundled = {name: text for name, _, text in _binhop.machines()}
    described = []
    for word in " ".join(os.environ.get(name, "") for name in WORDS).split():
        with suppress(BinhopError):  # the file does not exist yet
            if word in bundled or (word.endswith(".toml") and Path(word).is_file()):
                described.append(_binhop.Machine.load(word).resolved())
    tables = [tomllib.loads(text) for text in described or bundled.values()]
    caches = [cache for table in tables for cache in table["cache"].items()]
    return list(dict.fromkeys(name for name, keys in caches if not (behind and "serves" in keys)))


def _begin(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _files(incomplete: str, ending: str = "") -> list[str]:
    """Returns files, and directories with a slash appended. Hidden files are left out unless asked for."""
    before, slash, begun = incomplete.rpartition("/")
    directory = Path(before + slash or ".")
    try:
        found = sorted(directory.iterdir())
    except OSError:
        return []
    names = []
    for path in found:
        if path.name.startswith(begun) and (begun or not path.name.startswith(".")):
            if path.is_dir():
                names.append(f"{before}{slash}{path.name}/")
            elif path.name.endswith(ending):
                names.append(f"{before}{slash}{path.name}")
    return names
