"""Commands that list what there is."""

from __future__ import annotations

from typing import Annotated

import typer

import binhop
from binhop.cli import show
from binhop.cli.calibrate import calibrate
from binhop.cli.options import positive
from binhop.lazily import pl


def machines(
    name: Annotated[
        str | None, typer.Argument(help="Print this machine's description, complete, as TOML.")
    ] = None,
) -> None:
    """List the bundled machines, or print one."""
    if name is not None:
        print(binhop.Machine.load(name).resolved(), end="")
        return
    show.entries(binhop.machines(), "name", "about", {})


def workloads(
    do_calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Measure each workload beside what it should be (takes minutes)."),
    ] = False,
    length: Annotated[str, typer.Option(help="References to measure with --calibrate.")] = "100M",
) -> None:
    """List the built-in workloads."""
    if do_calibrate:
        calibrate(positive(length, "--length") or 0)
        return
    show.entries(binhop.workloads(), "name", "about", {"stands_for": "stands for"})


def policies() -> None:
    """List the placement policies."""
    show.entries(binhop.policies(), "name", "rule", {"source": "source", "cost": "cost"})


def counters() -> None:
    """List the metrics of a result."""
    show.entries(
        binhop.counters().with_columns(title=pl.format("{} ({})", "name", "unit")), "title", "meaning", {}
    )
