"""Runs `binhop translate`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from binhop.claims import Claims
from binhop.cli import completion, options, show
from binhop.cli.alternatives import alternatives_of, split
from binhop.cli.delivery import delivering
from binhop.cli.progress import progress
from binhop.errors import RequestError
from binhop.run_options import extended
from binhop.tables.translation import EXPLAINED
from binhop.translation import SEEDS, check_translation, translate_chosen

if TYPE_CHECKING:
    from binhop.comparison.alternatives import Alternative
    from binhop.translation import TranslationResult

PLACE = "--machine"


def translate(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            autocompletion=completion.traces,
            help="A trace file, a built-in workload or a pipe. A file wins over a workload.",
        ),
    ],
    machine: Annotated[
        list[str],
        typer.Option(
            PLACE,
            metavar="M[,M...]",
            autocompletion=completion.machine_list,
            help="The designs: bundled machines (binhop machines), or paths of descriptions. Each must "
            "have a section \\[translation].",
        ),
    ],
    seeds: Annotated[
        str | None,
        typer.Option(help=f"The number of placements. Default: {SEEDS}, and 1 if nothing is random."),
    ] = None,
    length: options.Length = None,
    warmup: options.Warmup = "0",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE[,VALUE...]",
            autocompletion=completion.settings,
            help="Change the machines; may be given several times. A comma separates alternatives, as in "
            "translation.levels=4,5.",
        ),
    ] = None,
    json_to: options.JsonTo = None,
    out: options.Out = None,
    force: options.Force = False,
    threads: options.Threads = None,
    confidence: options.Confidence = 0.95,
    quiet: options.Quiet = False,
) -> None:
    """Measure what TLBs, walks and page tables cost, by cause and design (docs/translation.md)."""
    options.confidence_of(confidence)
    chosen = designs(machine, settings or [])
    (opened,) = options.opened([trace])
    bound = options.length_of(options.positive(length, "--length"), opened)
    numbers = options.seeds_of(seeds)
    given = extended(options.run_options(warmup, threads), length=bound, seeds=numbers)
    claims = Claims(force=force)
    claims.reads(trace)
    claims.reads_machines([each.machine for each in chosen], *named(machine))
    with ExitStack() as stack:
        delivery = stack.enter_context(delivering(claims, out, json_to, several=False, quiet=quiet))
        with progress(f"{opened.name}, translation on {', '.join(named(machine))}", quiet=quiet) as tell:
            result = translate_chosen(
                chosen, opened, confidence=confidence, place=PLACE, **extended(given, progress=tell)
            )
        delivery.ready(result, lambda: print_translation(result))
        delivery.write(lambda directory: directory.fill(result, command=["binhop", *sys.argv[1:]]))
    if delivery.show():
        show.written(out, delivery.names)


def named(machine: list[str]) -> list[str]:
    """Returns the machines that the options name.

    >>> named(["zen-4k,jm97", "kh90"])
    ['zen-4k', 'jm97', 'kh90']
    """
    names = [name for text in machine for name in split(text)]
    if "" in names:
        rule = "the list of machines has an empty place"
        raise RequestError(",".join(names), PLACE, rule, f"write it like {PLACE} zen-4k,jm97")
    return names


def designs(machine: list[str], settings: list[str]) -> list[Alternative]:
    """Returns the designs: every machine with every combination of the settings' values."""
    for setting in settings:
        if setting.partition("=")[0].strip() in ("translation", "translation.active"):
            rule = "every design is simulated with translation on, and again with translation off"
            raise RequestError(setting, "--set", rule, "leave it out")
    found = alternatives_of(named(machine), settings, traces=2, place=PLACE)
    for design in found:
        check_translation(design, PLACE)
    return found


def print_translation(result: TranslationResult) -> None:
    """Prints the tables, what the columns mean, and the notes."""
    for table in result.tables():
        show.print_table(table)
    out = show.console()
    out.print(EXPLAINED)
    for note in result.notes:
        out.print(f"note: {note}")
