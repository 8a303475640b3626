"""Runs the commands that list machines, workloads, policies, counters and formats."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

import binhop
from binhop.cli import completion, show
from binhop.cli.calibrate import calibrate
from binhop.cli.options import Force, Json, positive, written_as_json
from binhop.errors import RequestError
from binhop.lists import records

if TYPE_CHECKING:
    from collections.abc import Mapping


def machines(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.machines,
            help="Print this machine's description, complete, as TOML.",
        ),
    ] = None,
    json_to: Json = None,
    force: Force = False,
) -> None:
    """List the bundled machines, or print one."""
    if name is None:
        _list(records("machines"), json_to, force)
        return
    machine = binhop.Machine.load(name)
    about = {row["name"]: row["about"] for row in records("machines")}.get(name)
    if not written_as_json(
        [{"name": machine.name, "about": about, "toml": machine.resolved()}], json_to, force=force
    ):
        sys.stdout.write(machine.resolved())


def workloads(
    do_calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Measure each workload and show the paper's measurements beside it (takes minutes).",
        ),
    ] = False,
    length: Annotated[str, typer.Option(help="References to measure with --calibrate.")] = "100M",
    json_to: Json = None,
    force: Force = False,
) -> None:
    """List the built-in workloads."""
    if do_calibrate:
        if json_to is not None:
            rule = "prints a table of measurements, and --json writes only the list"
            raise RequestError("--calibrate", "--json", rule, "leave one of them out")
        calibrate(positive(length, "--length") or 0)
        return
    _list(records("workloads"), json_to, force, details={"stands_for": "stands for"})


def policies(json_to: Json = None, force: Force = False) -> None:
    """List the placement policies."""
    _list(records("policies"), json_to, force, text="rule", details={"source": "source", "cost": "cost"})


def counters(json_to: Json = None, force: Force = False) -> None:
    """List the metrics of a result."""
    _list(records("counters"), json_to, force, title="{name} ({unit})", text="meaning")


def formats(json_to: Json = None, force: Force = False) -> None:
    """List the foreign formats that import reads, and the formats that export writes."""
    columns = ("name", "command", "about", "lost", "extensions", "takes")
    commands = {"import": records("formats"), "export": records("exporters")}
    _list(
        [
            {column: {**row, "command": command}.get(column) for column in columns}
            for command, rows in commands.items()
            for row in rows
        ],
        json_to,
        force,
        title="{name} ({command})",
        details={"lost": "lost or assumed", "extensions": "endings", "takes": "addresses"},
    )


def _list(
    rows: list[dict[str, Any]],
    json_to: str | None,
    force: bool,
    *,
    title: str = "{name}",
    text: str = "about",
    details: Mapping[str, str] | None = None,
) -> None:
    """Shows a list as text, or writes its rows as JSON."""
    if written_as_json(rows, json_to, force=force):
        return
    for row in rows:
        more = {label: row[column] for column, label in (details or {}).items() if row[column]}
        show.entry(title.format(**row), row[text], more)
