"""Runs `binhop sweep`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binhop.claims import Claims
from binhop.cli import options, plans, show, table_form
from binhop.cli.delivery import delivering, end
from binhop.cli.early_end import report_unfinished_runs
from binhop.cli.options import positive
from binhop.cli.progress import watch
from binhop.tables import TEXT

if TYPE_CHECKING:
    from binhop.output import ResultDirectory
    from binhop.study import Amount, StudyResult


def sweep(
    document: Annotated[str, typer.Argument(metavar="STUDY", help="A study document, in TOML.")],
    explain: plans.Explain = False,
    scale: Annotated[
        str | None, typer.Option(help="The scale of the study, by its name in the document.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="The number of placements, in place of the study's.")
    ] = None,
    length: Annotated[
        str | None, typer.Option(help="The references of each workload, in place of the study's amounts.")
    ] = None,
    form: table_form.Form = TEXT,
    json_to: options.JsonTo = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write tables and provenance into this directory.")
    ] = None,
    force: options.Force = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Run a study, which a TOML document describes: workloads × machines × placements."""
    from binhop import study

    table_form.checked(form)
    plan = study.plan(
        study.load(document), scale=scale, override=_amount(seeds, length), directory=Path(document).parent
    )
    used = positive(threads, "--threads")
    if explain:
        for line in study.explain(plan, threads=used):
            show.put_wrapped(line)
        return
    claims = Claims(force=force)
    claims.reads(document)
    claims.reads(*plan.files)
    claims.reads_machines([run_cell.machine for run in plan.runs for run_cell in run.cells])
    stopped: list[str] = []
    with delivering(claims, out, json_to, several=True, quiet=quiet) as delivery:
        with watch(quiet=quiet) as report:
            result = study.run(
                plan,
                threads=used,
                kept=delivery.kept,
                watch=report,
                stopped=lambda finished: stopped.append(
                    report_unfinished_runs(plan.runs, finished, delivery.kept)
                ),
            )
        result.notes.extend(stopped)
        delivery.ready(result, lambda: print_study(result, form))
        delivery.write(lambda directory: _filled(directory, result, document, form))
    if delivery.show() and out is not None and form == TEXT:
        show.put(f"written: {Path(out) / 'results.parquet'}, {Path(out) / 'summary.csv'}")
    end(early=bool(stopped))


def _filled(place: ResultDirectory, result: StudyResult, document: str, form: str) -> list[str]:
    """Fills a directory and returns the names of its files."""

    def write(directory: Path) -> None:
        result.write(directory)
        table_form.write(directory, result.tables(), result.notes, form)
        result.draw(directory)
        result.summary().write_csv(directory / "summary.csv")
        shutil.copyfile(document, directory / "study.toml")

    return place.fill_by(write, command=["binhop", *sys.argv[1:]])


def _amount(seeds: str | None, length: str | None) -> Amount:
    from binhop.study import Amount

    return Amount.model_validate(
        {
            key: value
            for key, value in (
                ("seeds", positive(seeds, "--seeds")),
                ("length", positive(length, "--length")),
            )
            if value is not None
        }
    )


def print_study(result: StudyResult, form: str) -> None:
    """Shows the table of each part, cell by cell, then the notes."""
    table_form.print_tables(result.tables(), result.notes, form)
