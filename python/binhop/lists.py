"""Lists machines, workloads, policies, counters and formats as tables, from the lists in the extension."""

from __future__ import annotations

from binhop import _binhop
from binhop.lazy_imports import pl


def _frame(columns: list[str], rows: list[tuple[object, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=columns, orient="row")


def machines() -> pl.DataFrame:
    """Returns the bundled machines: name, what each machine is, its description as TOML."""
    return _frame(["name", "about", "toml"], [*_binhop.machines()])


def machine_keys() -> pl.DataFrame:
    """Returns every key that a machine description may hold."""
    return _frame(["section", "key", "form", "default", "meaning"], [*_binhop.machine_keys()])


def workloads() -> pl.DataFrame:
    """Returns the built-in workloads: name, what each workload does, the program that it stands for."""
    return _frame(["name", "about", "stands_for"], [*_binhop.workloads()])


def policies() -> pl.DataFrame:
    """Returns the placement policies: name, rule, source, state and cost."""
    return _frame(["name", "rule", "source", "cost"], [*_binhop.policies()])


def counters() -> pl.DataFrame:
    """Returns every metric of a result: name (with <cache> and <kind> to be filled in), unit, meaning."""
    return _frame(["name", "unit", "meaning"], [*_binhop.counters()])


def formats() -> pl.DataFrame:
    """Returns the foreign trace formats: name, what each is, what is lost or assumed, file extensions."""
    rows = [(name, about, lost, " ".join(extensions)) for name, about, lost, extensions in _binhop.formats()]
    return _frame(["name", "about", "lost", "extensions"], [*rows])


def exporters() -> pl.DataFrame:
    """Returns the formats for export: name, what each is, what is lost, virtual or physical addresses."""
    rows = [
        (name, about, lost, "physical" if memory else "virtual")
        for name, about, lost, memory in _binhop.exporters()
    ]
    return _frame(["name", "about", "lost", "takes"], [*rows])


def events() -> pl.DataFrame:
    """Returns the events of a trace: code (the column `op`), name, meaning of the columns."""
    return _frame(["code", "name", "meaning"], [*_binhop.events()])


def lint_rules() -> pl.DataFrame:
    """Returns the rules that `binhop lint` checks: rule, severity, meaning, remedy."""
    return _frame(["rule", "severity", "meaning", "remedy"], [*_binhop.lint_rules()])
