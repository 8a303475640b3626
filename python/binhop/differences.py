"""Finds the settings that distinguish machines of the same name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import tomllib
from binhop.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binhop._binhop import Machine

MOST_NAMED = 3
"""The most settings in a name."""


def differences(machine: Machine, others: Sequence[Machine]) -> dict[str, str]:
    """Returns the settings of a machine that are not those of every other machine, by key."""
    own = _flat(tomllib.loads(machine.resolved()))
    rest = [_flat(tomllib.loads(other.resolved())) for other in others]
    return {key: value for key, value in own.items() if any(other.get(key) != value for other in rest)}


def distinct_names(machines: Sequence[Machine]) -> list[str]:
    """Returns a name for each machine: its own name, and the settings in which its namesakes differ.

    >>> from binhop import Machine
    >>> kh90 = Machine.load("kh90")
    >>> distinct_names([kh90, kh90.with_settings("cache.l2.ways=2"), Machine.load("zen-4k")])
    ['kh90, cache.l2.ways=1', 'kh90, cache.l2.ways=2', 'zen-4k']
    """
    flat = [_flat(tomllib.loads(machine.resolved())) for machine in machines]
    values: dict[tuple[str, str], set[str | None]] = {}
    for name in {machine.name for machine in machines}:
        of = [one for machine, one in zip(machines, flat, strict=True) if machine.name == name]
        values |= {(name, key): {one.get(key) for one in of} for key in {key for one in of for key in one}}
    names = []
    for machine, one in zip(machines, flat, strict=True):
        words = [f"{key}={value}" for key, value in one.items() if len(values[machine.name, key]) > 1]
        more = [counted(len(words) - MOST_NAMED, "further setting")] if len(words) > MOST_NAMED else []
        names.append(", ".join([machine.name, *words[:MOST_NAMED], *more]))
    often = Counter(names)
    return [
        name if often[name] == 1 else f"{name}, machine {number + 1}" for number, name in enumerate(names)
    ]


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Returns every key of a description with its section, and its value as text."""
    flat: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat
