"""What there is, as tables. Each list is kept where the thing is; documents and help are made from these."""

from __future__ import annotations

from binhop import _binhop
from binhop.lazily import pl


def _frame(columns: list[str], rows: list[tuple[object, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=columns, orient="row")


def machines() -> pl.DataFrame:
    """The bundled machines: name, what each is, its description as TOML."""
    return _frame(["name", "about", "toml"], [*_binhop.machines()])


def machine_keys() -> pl.DataFrame:
    """Every key that a machine description may hold."""
    return _frame(["section", "key", "form", "default", "meaning"], [*_binhop.machine_keys()])


def workloads() -> pl.DataFrame:
    """The built-in workloads: name, what each does, what it stands for."""
    return _frame(["name", "about", "stands_for"], [*_binhop.workloads()])


def policies() -> pl.DataFrame:
    """The placement policies: name, rule, where it comes from, what it remembers and costs."""
    return _frame(["name", "rule", "source", "cost"], [*_binhop.policies()])


def counters() -> pl.DataFrame:
    """Every metric of a result: name (with <cache> and <kind> to be filled in), unit, meaning."""
    return _frame(["name", "unit", "meaning"], [*_binhop.counters()])


def formats() -> pl.DataFrame:
    """The foreign trace formats: name, what each is, what is lost or assumed, file name extensions."""
    rows = [(name, about, lost, " ".join(extensions)) for name, about, lost, extensions in _binhop.formats()]
    return _frame(["name", "about", "lost", "extensions"], [*rows])


def exporters() -> pl.DataFrame:
    """The formats for export: name, what each is, what is lost, whether it takes virtual or physical."""
    rows = [
        (name, about, lost, "physical" if memory else "virtual")
        for name, about, lost, memory in _binhop.exporters()
    ]
    return _frame(["name", "about", "lost", "takes"], [*rows])


def events() -> pl.DataFrame:
    """The events of a trace: code (the column `op`), name, meaning of the columns."""
    return _frame(["code", "name", "meaning"], [*_binhop.events()])


def lint_rules() -> pl.DataFrame:
    """What `binhop lint` checks: rule, severity, meaning, remedy."""
    return _frame(["rule", "severity", "meaning", "remedy"], [*_binhop.lint_rules()])
