"""Lists the commands of the command line.

A command's module is imported only where the command runs, or where all commands are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binhop import __version__
from binhop.cli import show
from binhop.cli.panels import RecordingCommand, SimulationCommand

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from typer.core import TyperCommand


@dataclass(frozen=True)
class Entry:
    """`Entry` is a command: its module in `binhop.cli`, and its function, or its group of commands.

    `kind` groups the options in its help, and `settings` say how its words are read.
    """

    module: str
    function: str
    kind: type[TyperCommand] | None = None
    settings: Mapping[str, Any] | None = None


COMMANDS: Mapping[str, Entry] = {
    "run": Entry("run", "run", SimulationCommand),
    "compare": Entry("compare", "compare", SimulationCommand),
    "sweep": Entry("sweep", "sweep", SimulationCommand),
    "paging": Entry("paging", "paging", SimulationCommand),
    "reuse": Entry("reuse", "reuse", SimulationCommand),
    "switches": Entry("switches", "switches", SimulationCommand),
    "surface": Entry("surface", "surface", SimulationCommand),
    "translate": Entry("translate", "translate", SimulationCommand),
    "io": Entry("device_data", "io", SimulationCommand),
    "reproduce": Entry("reproduce", "reproduce"),
    "report": Entry("reproduce", "report"),
    "record": Entry("record", "record", RecordingCommand, {"allow_interspersed_args": False}),
    "import": Entry("traces", "import_"),
    "export": Entry("export", "export"),
    "trace": Entry("trace", "app"),
    "mix": Entry("mix", "mix"),
    "inspect": Entry("traces", "inspect"),
    "lint": Entry("traces", "lint"),
    "doctor": Entry("doctor", "doctor"),
    "machines": Entry("lists", "machines"),
    "workloads": Entry("lists", "workloads"),
    "policies": Entry("lists", "policies"),
    "counters": Entry("lists", "counters"),
    "formats": Entry("lists", "formats"),
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
    made = typer.Typer(
        name="binhop",
        help="Simulates a memory system with the operating system in the loop: miss counts as a distribution "
        "over page placements.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_root)
    for name in names:
        entry = COMMANDS[name]
        what = getattr(import_module(f"binhop.cli.{entry.module}"), entry.function)
        if isinstance(what, typer.Typer):
            made.add_typer(what)
        else:
            settings = None if entry.settings is None else {**entry.settings}
            made.command(name, cls=entry.kind, context_settings=settings)(what)
    return made
