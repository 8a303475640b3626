"""Lists the commands of the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from binhop import __version__
from binhop.cli import (
    compare,
    device_data,
    doctor,
    export,
    lists,
    mix,
    paging,
    record,
    reproduce,
    reuse,
    run,
    show,
    surface,
    sweep,
    switches,
    trace,
    traces,
    translate,
)
from binhop.cli.panels import RecordingCommand, SimulationCommand

app = typer.Typer(
    name="binhop",
    help="Simulates a memory system with the operating system in the loop: miss counts as a distribution "
    "over page placements.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        show.put(f"binhop {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """The options that every command shares: none but these."""


app.command("run", cls=SimulationCommand)(run.run)
app.command("compare", cls=SimulationCommand)(compare.compare)
app.command("sweep", cls=SimulationCommand)(sweep.sweep)
app.command("paging", cls=SimulationCommand)(paging.paging)
app.command("reuse", cls=SimulationCommand)(reuse.reuse)
app.command("switches", cls=SimulationCommand)(switches.switches)
app.command("surface", cls=SimulationCommand)(surface.surface)
app.command("translate", cls=SimulationCommand)(translate.translate)
app.command("io", cls=SimulationCommand)(device_data.io)
app.command("reproduce")(reproduce.reproduce)
app.command("report")(reproduce.report)
app.command("record", cls=RecordingCommand, context_settings={"allow_interspersed_args": False})(
    record.record
)
app.command("import")(traces.import_)
app.command("export")(export.export)
app.add_typer(trace.app)
app.command("mix")(mix.mix)
app.command("inspect")(traces.inspect)
app.command("lint")(traces.lint)
app.command("doctor")(doctor.doctor)
app.command("machines")(lists.machines)
app.command("workloads")(lists.workloads)
app.command("policies")(lists.policies)
app.command("counters")(lists.counters)
app.command("formats")(lists.formats)
