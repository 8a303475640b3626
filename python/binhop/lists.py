"""Lists machines, workloads, policies, counters and formats as tables, from the lists in the extension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop.lazy_imports import pl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def _formats() -> list[tuple[str, ...]]:
    return [(name, about, lost, " ".join(extensions)) for name, about, lost, extensions in _binhop.formats()]


def _exporters() -> list[tuple[str, ...]]:
    return [
        (name, about, lost, "physical" if memory else "virtual")
        for name, about, lost, memory in _binhop.exporters()
    ]


_LISTS: dict[str, tuple[Sequence[str], Callable[[], Iterable[tuple[Any, ...]]]]] = {
    "machines": (("name", "about", "toml"), _binhop.machines),
    "machine_keys": (("section", "key", "form", "default", "meaning"), _binhop.machine_keys),
    "workloads": (("name", "about", "stands_for"), _binhop.workloads),
    "policies": (("name", "rule", "source", "cost"), _binhop.policies),
    "counters": (("name", "unit", "meaning"), _binhop.counters),
    "formats": (("name", "about", "lost", "extensions"), _formats),
    "exporters": (("name", "about", "lost", "takes"), _exporters),
    "events": (("code", "name", "meaning"), _binhop.events),
    "lint_rules": (("rule", "severity", "meaning", "remedy"), _binhop.lint_rules),
}
"""The columns and the rows of each list."""


def records(name: str) -> list[dict[str, Any]]:
    """Returns the rows of a list, for a command that shows them: a frame would take longer to make.

    >>> records("workloads")[0]["name"]
    'mult1'
    """
    columns, rows = _LISTS[name]
    return [dict(zip(columns, row, strict=True)) for row in rows()]


def _frame(name: str) -> pl.DataFrame:
    columns, rows = _LISTS[name]
    return pl.DataFrame([*rows()], schema=columns, orient="row")


def machines() -> pl.DataFrame:
    """Returns the bundled machines: name, what each machine is, its description as TOML."""
    return _frame("machines")


def machine_keys() -> pl.DataFrame:
    """Returns every key that a machine description may hold."""
    return _frame("machine_keys")


def workloads() -> pl.DataFrame:
    """Returns the built-in workloads: name, what each workload does, the program that it stands for."""
    return _frame("workloads")


def policies() -> pl.DataFrame:
    """Returns the placement policies: name, rule, source, state and cost."""
    return _frame("policies")


def counters() -> pl.DataFrame:
    """Returns every metric of a result: name (with <cache> and <kind> to be filled in), unit, meaning."""
    return _frame("counters")


def formats() -> pl.DataFrame:
    """Returns the foreign trace formats: name, what each is, what is lost or assumed, file extensions."""
    return _frame("formats")


def exporters() -> pl.DataFrame:
    """Returns the formats for export: name, what each is, what is lost, virtual or physical addresses."""
    return _frame("exporters")


def events() -> pl.DataFrame:
    """Returns the events of a trace: code (the column `op`), name, meaning of the columns."""
    return _frame("events")


def lint_rules() -> pl.DataFrame:
    """Returns the rules that `binhop lint` checks: rule, severity, meaning, remedy."""
    return _frame("lint_rules")
