"""Lists the commands of the command line.

A command's module is imported only where the command runs. `binhop --help` shows the summaries of this list
and imports no command.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from binhop import __version__
from binhop.cli import show
from binhop.cli.panels import Group, PlainCommand, RecordingCommand, SimulationCommand

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typer.core import TyperCommand


@dataclass(frozen=True)
class Entry:
    """`Entry` is a command: its module in `binhop.cli`, and its function, or its group of commands.

    `summary` is the first paragraph of the command's help, which a test compares with the docstring. `kind`
    groups the options in its help, and `settings` say how its words are read.
    """

    module: str
    function: str
    summary: str
    kind: type[TyperCommand] = PlainCommand
    settings: Mapping[str, Any] | None = None


COMMANDS: Mapping[str, Entry] = {
    "run": Entry(
        "run", "run", "Simulate traces on a machine, under many page placements.", SimulationCommand
    ),
    "compare": Entry(
        "compare",
        "compare",
        "Compare machines or policies, or traces on one machine, under the same random draws.",
        SimulationCommand,
    ),
    "sweep": Entry(
        "sweep",
        "sweep",
        "Run a study, which a TOML document describes: workloads × machines × placements.",
        SimulationCommand,
    ),
    "paging": Entry(
        "paging",
        "paging",
        "Count page faults over memory sizes and colors, in one pass (LF91; docs/paging.md).",
        SimulationCommand,
    ),
    "reuse": Entry(
        "reuse",
        "reuse",
        "Measure reuse distances, and the miss ratio for every cache size (docs/reuse.md).",
        SimulationCommand,
    ),
    "switches": Entry(
        "switches",
        "switches",
        "Measure what context switches cost, by cause, process and level (MB90; docs/switches.md).",
        SimulationCommand,
    ),
    "surface": Entry(
        "surface",
        "surface",
        "Measure what a switch costs for each quantum and cache size, as one surface (docs/switches.md).",
        SimulationCommand,
    ),
    "translate": Entry(
        "translate",
        "translate",
        "Measure what TLBs, walks and page tables cost, by cause and design (docs/translation.md).",
        SimulationCommand,
    ),
    "io": Entry(
        "device_data",
        "io",
        "Measure how device data flow and die, and what each scheme would change (docs/io.md).",
        SimulationCommand,
    ),
    "reproduce": Entry(
        "reproduce",
        "reproduce",
        "Repeat a paper's study: its tables, figures and claims, with binhop's figures beside them.",
    ),
    "report": Entry(
        "reproduce",
        "report",
        "Make the figures, tables and page of a result anew from its Parquet, without a run.",
    ),
    "record": Entry(
        "record",
        "record",
        "Record a program and all its children into a trace. The exit code is the program's.",
        RecordingCommand,
        {"allow_interspersed_args": False},
    ),
    "import": Entry("traces", "import_", "Make a trace file from a foreign trace, compressed or not."),
    "export": Entry("export", "export", "Write a trace for another simulator."),
    "trace": Entry(
        "trace", "app", "Show parts of a trace as lines of text, or write them as a trace of their own (-o)."
    ),
    "mix": Entry(
        "mix",
        "mix",
        "Mix traces of separate runs: they take turns, and a process that waits gives up its turn.",
    ),
    "inspect": Entry("traces", "inspect", "Report what a trace holds, and what is missing."),
    "lint": Entry(
        "traces",
        "lint",
        "Check a trace, apart from any simulation. The exit code is 2 if the trace has errors.",
    ),
    "doctor": Entry(
        "doctor", "doctor", "Report what is installed, what works, and what to install for the rest."
    ),
    "machines": Entry("lists", "machines", "List the bundled machines, or print one."),
    "workloads": Entry("lists", "workloads", "List the built-in workloads."),
    "policies": Entry("lists", "policies", "List the placement policies."),
    "counters": Entry("lists", "counters", "List the metrics of a result."),
    "formats": Entry(
        "lists", "formats", "List the foreign formats that import reads, and the formats that export writes."
    ),
}
"""Every command, in the order of the help."""


def _version(wanted: bool) -> None:
    if wanted:
        show.put(f"binhop {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """The options that every command shares: none but these."""


def app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Returns the command line with these commands."""
    made = _empty()
    for name in names:
        entry = COMMANDS[name]
        what = getattr(import_module(f"binhop.cli.{entry.module}"), entry.function)
        if isinstance(what, typer.Typer):
            made.add_typer(what, cls=Group)
        else:
            settings = None if entry.settings is None else {**entry.settings}
            made.command(name, cls=entry.kind, context_settings=settings)(what)
    return made


def overview() -> TyperGroup:
    """Returns the command line for `binhop --help`: the name and the summary of each command, and no more.

    Typer would inspect a function for each command, and none of these commands runs.
    """
    made = get_command(_empty())
    assert isinstance(made, TyperGroup), "an app with a callback is a group"
    for name, entry in COMMANDS.items():
        made.commands[name] = PlainCommand(name, help=entry.summary)
    return made


def _empty() -> typer.Typer:
    """Returns the command line without commands."""
    made = typer.Typer(
        name="binhop",
        cls=Group,
        help="Simulates a memory system with the operating system in the loop: miss counts as a distribution "
        "over page placements.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_root)
    return made
