"""Runs `binhop io`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

import binhop
from binhop.claims import Claims
from binhop.cli import completion, options, show, table_form
from binhop.cli.delivery import delivering
from binhop.cli.passes import parts
from binhop.cli.progress import progress
from binhop.device_traffic import SEEDS, device_data
from binhop.tables import TEXT
from binhop.tables.device_data import EXPLAINED

if TYPE_CHECKING:
    from binhop.device_traffic import DeviceDataResult


def io(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            autocompletion=completion.traces,
            help="A trace file, a built-in workload or a pipe. A file wins over a workload.",
        ),
    ],
    machine: Annotated[
        str,
        typer.Option(
            metavar="M",
            autocompletion=completion.machines,
            help="A bundled machine (binhop machines), or the path of a description. Schemes stand in "
            "place of its last level.",
        ),
    ],
    schemes: Annotated[
        str | None,
        typer.Option(
            metavar="S[,S...]",
            help="The schemes, separated by commas, beside the baseline snooping-cache. Default: all that "
            "the last level can have. Caches with virtual tags have the scheme flush alone.",
        ),
    ] = None,
    dram: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET",
            help="Put a memory with a controller behind the schemes: ddr2-666, ddr4-2400, ddr4-3200 or "
            "ddr5-4800. The option stands for --set dram.preset=PRESET. Default: what the machine says, or a "
            "fixed latency.",
        ),
    ] = None,
    path: Annotated[
        bool,
        typer.Option(
            "--path/--no-path",
            help="Let the system calls of the trace make kernel and devices move data. With --no-path only "
            "the transfers in the trace itself count.",
        ),
    ] = True,
    seeds: Annotated[
        str | None,
        typer.Option(help=f"The number of placements. Default: {SEEDS}, and 1 if nothing is random."),
    ] = None,
    length: options.Length = None,
    settings: options.Settings = None,
    form: table_form.Form = TEXT,
    json_to: options.JsonTo = None,
    out: options.Out = None,
    force: options.Force = False,
    threads: options.Threads = None,
    confidence: options.Confidence = 0.95,
    quiet: options.Quiet = False,
) -> None:
    """Measure how device data flow and die, and what each scheme would change (docs/io.md)."""
    options.confidence_of(confidence)
    table_form.checked(form)
    memory = [] if dram is None else [f"dram.preset={dram}"]
    chosen = binhop.Machine.load(machine, [*(settings or []), *memory])
    (opened,) = options.opened([trace])
    bound = options.length_of(options.positive(length, "--length"), opened)
    numbers = options.seeds_of(seeds)
    workers = options.positive(threads, "--threads")
    claims = Claims(force=force)
    claims.reads(trace)
    claims.reads_machines([chosen], machine)
    with ExitStack() as stack:
        delivery = stack.enter_context(delivering(claims, out, json_to, several=False, quiet=quiet))
        with progress(f"{opened.name}, device data on {chosen.name}", quiet=quiet) as tell:
            result = device_data(
                chosen,
                opened,
                schemes=None if schemes is None else parts(schemes),
                path=path,
                seeds=numbers,
                length=bound,
                confidence=confidence,
                threads=workers,
                progress=tell,
            )
        delivery.ready(result, lambda: print_device_data(result, form))
        delivery.write(
            lambda directory: table_form.fill(directory, result, result.tables(), result.notes, form)
        )
    if delivery.show() and form == TEXT:
        show.written(out, delivery.names)


def print_device_data(result: DeviceDataResult, form: str) -> None:
    """Prints the tables, what the columns mean, and the notes."""
    if form != TEXT:
        table_form.put(result.tables(), result.notes, form)
        return
    table_form.print_tables(result.tables(), [], form, gap=1)
    out = show.console()
    out.print(EXPLAINED)
    for note in result.notes:
        out.print(f"note: {note}")
