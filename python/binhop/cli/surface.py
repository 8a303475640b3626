"""Runs `binhop surface`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from binhop import switching
from binhop.claims import Claims
from binhop.cli import completion, mixing, options, show, table_form
from binhop.cli.alternatives import alternatives_of, split
from binhop.cli.delivery import delivering
from binhop.cli.progress import progress
from binhop.cli.switches import SEEDS, Seeds
from binhop.cli.translate import named
from binhop.cost_surface import SurfaceResult, surface_of
from binhop.errors import RequestError
from binhop.mixing import quantum_of
from binhop.run_options import extended
from binhop.switch_cost import CONFIDENCE
from binhop.tables import TEXT


def surface(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE...",
            autocompletion=completion.traces,
            help="The traces that share the processor: files or built-in workloads. A file wins over a "
            "workload.",
        ),
    ],
    machine: Annotated[
        list[str],
        typer.Option(
            "--machine",
            metavar="M[,M...]",
            autocompletion=completion.machine_list,
            help="Bundled machines (binhop machines), or paths of descriptions. Each must state costs.",
        ),
    ],
    quantum: Annotated[
        str,
        typer.Option(metavar="N[,N...]", help="The lengths of a turn, in instructions, as in 100k,400k."),
    ] = mixing.QUANTUM,
    order: mixing.Order = None,
    latency: mixing.Latency = None,
    faults: mixing.Faults = None,
    fault_latency: mixing.FaultLatency = None,
    until_first: mixing.UntilFirst = False,
    repeat: mixing.Repeat = False,
    seeds: Seeds = None,
    length: options.Length = None,
    warmup: options.Warmup = "0",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE[,VALUE...]",
            autocompletion=completion.settings,
            help="Change the machines; may be given several times. A comma separates alternatives, as in "
            "cache.l2.size=256KiB,1MiB.",
        ),
    ] = None,
    form: table_form.Form = TEXT,
    json_to: options.JsonTo = None,
    out: options.Out = None,
    force: options.Force = False,
    threads: options.Threads = None,
    confidence: options.Confidence = CONFIDENCE,
    quiet: options.Quiet = False,
) -> None:
    """Measure what a switch costs for each quantum and cache size, as one surface (docs/switches.md)."""
    options.confidence_of(confidence)
    table_form.checked(form)
    machines = {
        design.name: design.machine
        for design in alternatives_of(named(machine), settings or [], traces=2, place="--machine")
    }
    for each in machines.values():
        switching.check_costs(each, "--machine")
    quanta = [_instructions(text) for text in split(quantum)]
    if len(set(quanta)) < len(quanta):
        raise RequestError(quantum, "--quantum", "a length is given twice", "give each length once")
    asked = mixing.Mixing(quantum, order, latency, faults, fault_latency, until_first, repeat)
    parts, mixed = asked.parts(traces, length)
    random = any(each.is_random for each in machines.values())
    given = extended(
        options.run_options(warmup, threads), seeds=options.seeds_of(seeds) or (SEEDS if random else 1)
    )
    claims = Claims(force=force)
    claims.reads(*traces)
    claims.reads_machines([*machines.values()], *named(machine))
    with ExitStack() as stack:
        delivery = stack.enter_context(delivering(claims, out, json_to, several=False, quiet=quiet))
        title = f"{' '.join(traces)}, surface of {len(quanta)} × {len(machines)}"
        with progress(title, quiet=quiet) as tell:
            of = extended(given, progress=tell)
            result = surface_of(machines, parts, quanta, mixing=mixed, confidence=confidence, **of)
        delivery.ready(result, lambda: print_surface(result, form))
        delivery.write(
            lambda directory: table_form.fill(directory, result, result.tables(), result.notes, form)
        )
    if delivery.show() and form == TEXT:
        show.written(out, delivery.names)


def _instructions(text: str) -> int:
    """Returns the instructions of a quantum of the surface."""
    number, unit = quantum_of(text, "--quantum")
    if unit == "cycles":
        rule = "is in cycles, which each machine counts by itself, and all machines of a surface share a mix"
        remedy = "give instructions, or measure one machine: binhop switches --mix … --quantum 400kcycles"
        raise RequestError(text, "--quantum", rule, remedy)
    return number


def print_surface(result: SurfaceResult, form: str) -> None:
    """Prints the tables, and the notes below them."""
    table_form.print_tables(result.tables(), result.notes, form)
