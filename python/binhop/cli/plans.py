"""Defines the option --explain, and prints the plans of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import binhop
from binhop.cli import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binhop.run_options import RunOptions

Explain = Annotated[
    bool,
    typer.Option("--explain", help="Print the plan (which stages are shared, and why), and run nothing."),
]
"""The option that prints plans."""


def print_plans(
    machine: binhop.Machine, jobs: Sequence[tuple[binhop.Trace, RunOptions]], *, switches: bool = False
) -> None:
    """Prints the plan of each trace's run on a machine. `switches` says that the run measures switches."""
    for trace, options in jobs:
        for line in binhop.explain([machine], trace, switches=switches, **options):
            show.put_wrapped(line if len(jobs) == 1 else f"{trace.name}: {line}")
