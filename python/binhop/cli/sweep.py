"""The command that runs a study."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binhop.cli import options, show
from binhop.cli.options import positive
from binhop.cli.progress import watch
from binhop.numbers import several
from binhop.output import OutputFile, ResultDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    json_to: options.JsonTo = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write tables and provenance into this directory.")
    ] = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Run a study: workloads × machines × placements, as a TOML document says (docs/studies.md)."""
    from binhop import study

    plan = study.plan(
        study.load(document), scale=scale, override=_amount(seeds, length), directory=Path(document).parent
    )
    if explain:
        for line in study.explain(plan):
            print(line)
        return
    used = positive(threads, "--threads")
    with OutputFile(json_to, "--json") if json_to not in (None, "-") else _nothing() as file:
        if out is None:
            with watch(quiet=quiet) as told:
                result = study.run(plan, threads=used, watch=told)
        else:
            # The result is moved into place before what was kept of its runs goes.
            with telling(out), study.keeping(out) as kept, ResultDirectory(out, "--out") as place:
                with watch(quiet=quiet) as told:
                    result = study.run(plan, threads=used, kept=kept, watch=told)
                place.fill_by(lambda directory: _fill(result, directory, document), command=_command())
        if file is not None:
            file.write(result.to_json() + "\n")
    if json_to == "-":
        sys.stdout.write(result.to_json() + "\n")
    elif not quiet:
        print_study(result)
        if out is not None:
            print(f"written: {Path(out) / 'results.parquet'}, {Path(out) / 'summary.csv'}")


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def _command() -> list[str]:
    return ["binhop", *sys.argv[1:]]


def _fill(result: StudyResult, directory: Path, document: str) -> None:
    result.write(directory)
    result.summary().write_csv(directory / "summary.csv")
    shutil.copyfile(document, directory / "study.toml")


@contextmanager
def telling(out: str) -> Iterator[None]:
    """Says, when a study ends early, what of it was kept and how to go on."""
    from binhop.study.run import kept_beside

    try:
        yield
    except BaseException:
        kept = kept_beside(out)
        if kept.is_dir():
            finished = len([one for one in kept.iterdir() if not one.name.startswith(".")])
            runs = f"{several(finished, 'finished run')} {'are' if finished != 1 else 'is'}"
            print(f"binhop: {runs} kept in {kept}; the same command goes on from there", file=sys.stderr)
        raise


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


def print_study(result: StudyResult) -> None:
    """For each part: misses per 1000 instructions of the last cache, cell by cell."""
    out = show.console()
    rates = result.summary()
    rates = rates.filter(rates["metric"].str.ends_with(".mpi"))
    for (part,), of in rates.group_by("part", maintain_order=True):
        cache = of["metric"].to_list()[-1].removesuffix(".mpi")
        axes = [axis for axis in result.axes if of[axis].null_count() < of.height]
        level = f"{100 * result.provenance['confidence']:g}% interval"
        table = show.table("workload", *axes, "MPI×1000", level, right=2)
        for row in of.filter(metric=f"{cache}.mpi").iter_rows(named=True):
            low = "-" if row["low"] is None else f"{show.rate(row['low'])}-{show.rate(row['high'])}"
            table.add_row(row["workload"], *(row[axis] or "" for axis in axes), show.rate(row["mean"]), low)
        out.print(f"{part}: {cache}, {several(of['n'].to_list()[0], 'placement')}")
        out.print(table)
        out.print()
    for note in result.notes:
        out.print(f"note: {note}")
