"""The command that runs a study."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binhop.claims import RESULT, Claims
from binhop.cli import options, show, table_form
from binhop.cli.finished import telling, told_runs
from binhop.cli.options import positive
from binhop.cli.progress import watch
from binhop.tables import TEXT

if TYPE_CHECKING:
    from binhop.study import Amount, StudyResult


def sweep(
    document: Annotated[str, typer.Argument(metavar="STUDY", help="A study document, in TOML.")],
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the plan, what is shared and what not; run nothing.")
    ] = False,
    scale: Annotated[str | None, typer.Option(help="A scale of the study, as its document names it.")] = None,
    seeds: Annotated[str | None, typer.Option(help="How many placements, in place of the study's.")] = None,
    length: Annotated[
        str | None, typer.Option(help="References of each workload, in place of the study's amounts.")
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
    """Run a study: workloads × machines × placements, as a TOML document says (docs/studies.md)."""
    from binhop import study

    table_form.checked(form)
    plan = study.plan(
        study.load(document), scale=scale, override=_amount(seeds, length), directory=Path(document).parent
    )
    if explain:
        for line in study.explain(plan):
            show.put(line)
        return
    used = positive(threads, "--threads")
    stopped: list[str] = []

    def stop(finished: int) -> None:
        stopped.append(told_runs(plan.runs, finished))

    claims = Claims(force=force)
    claims.reads(document)
    claims.reads(*plan.files)
    claims.reads_machines([run_cell.machine for run in plan.runs for run_cell in run.cells])
    with claims.file(json_to, "--json", RESULT) as file:
        if out is None:
            with watch(quiet=quiet) as told:
                result = study.run(plan, threads=used, watch=told, stopped=stop)
            result.notes.extend(stopped)
        else:
            # The result is moved into place before what was kept of its runs goes.
            with telling(out), study.keeping(out) as kept, claims.directory(out, "--out") as place:
                assert place is not None, "a place was given"
                with watch(quiet=quiet) as told:
                    result = study.run(plan, threads=used, kept=kept, watch=told, stopped=stop)
                result.notes.extend(stopped)
                place.fill_by(lambda directory: _fill(result, directory, document, form), command=_command())
        if file is not None:
            file.write(result.to_json() + "\n")
    if json_to == "-":
        sys.stdout.write(result.to_json() + "\n")
    elif not quiet:
        print_study(result, form)
        if out is not None and form == TEXT:
            show.put(f"written: {Path(out) / 'results.parquet'}, {Path(out) / 'summary.csv'}")
    if stopped:
        raise typer.Exit(130)


def _command() -> list[str]:
    return ["binhop", *sys.argv[1:]]


def _fill(result: StudyResult, directory: Path, document: str, form: str) -> None:
    result.write(directory)
    table_form.write(directory, result.tables(), result.notes, form)
    result.summary().write_csv(directory / "summary.csv")
    shutil.copyfile(document, directory / "study.toml")


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
    if form != TEXT:
        table_form.put(result.tables(), result.notes, form)
        return
    out = show.console()
    for table in result.tables():
        show.print_table(table)
    for note in result.notes:
        out.print(f"note: {note}")
