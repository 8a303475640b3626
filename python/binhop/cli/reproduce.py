"""Runs `binhop reproduce` and `binhop report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binhop import json_file
from binhop.claims import check_name
from binhop.cli import show, table_form
from binhop.cli.delivery import put_before_failing
from binhop.cli.early_end import reporting_kept_runs
from binhop.cli.options import positive
from binhop.cli.progress import watch
from binhop.errors import RequestError
from binhop.lazy_imports import pl
from binhop.output import MARK, make_anew, read_parquet
from binhop.reproduce import PAPERS, SCALES, paper
from binhop.run_options import KEYWORDS
from binhop.summary import points
from binhop.switch_cost import CONFIDENCE
from binhop.tables import FORMS, Table
from binhop.tables.comparison import comparison_tables
from binhop.tables.run import run_tables
from binhop.tables.surface import surface_tables
from binhop.tables.switches import cost_tables
from binhop.tables.translation import translation_tables

if TYPE_CHECKING:
    from binhop.reproduce.claims import Claim

KEYS = "; ".join(f"{one.key}: {one.title}" for one in PAPERS.values())
SWITCH_TABLES = ("costs", "curves", "pages")
NOTHING = "nothing to draw: one value each needs no figure"
SCALE_HELP = "; ".join(f"{name}: {what}" for name, what in SCALES.items())


def reproduce(
    key: Annotated[str, typer.Argument(metavar="KEY", help=f"The paper. {KEYS}.")],
    scale: Annotated[str, typer.Option(metavar="SCALE", help=f"{SCALE_HELP}.")] = "quick",
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="The directory for everything. Default: out/KEY-SCALE.")
    ] = None,
    threads: Annotated[str | None, typer.Option(help=KEYWORDS["threads"].meaning)] = None,
    recordings: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="A directory of recorded programs, in the place of built-in workloads (jm97; studies/jm97).",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no claims.")] = False,
) -> None:
    """Repeat a paper's study: its tables, figures and claims, with binhop's figures beside them."""
    chosen = paper(key)
    place = out if out is not None else str(Path("out") / f"{key}-{scale}")
    check_name(place, "--out")
    claims: list[Claim] = []
    used = positive(threads, "--threads")
    try:
        with reporting_kept_runs(place), watch(quiet=quiet) as report:
            done = chosen.run(
                scale,
                Path(place),
                threads=used,
                progress=report,
                judged=claims.extend,
                recordings=None if recordings is None else Path(recordings),
            )
    except RequestError:
        if claims:
            put_before_failing(lambda: _print_claims(claims))
        raise
    if not quiet:
        _print_claims(claims)
        show.put(f"written: {done / 'report.md'}")


def _print_claims(claims: list[Claim]) -> None:
    out = show.console()
    table = show.table("claim", "verdict", "statement")
    for claim in claims:
        table.add_row(claim.id, claim.verdict, claim.statement)
    out.print(table)
    counts = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in ("holds", "fails")}
    undecided = len(claims) - sum(counts.values())
    out.print(f"{counts['holds']} hold, {counts['fails']} fail, {undecided} are undecided")


def report(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A directory of results.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="FORM",
            help="Print the tables of run, compare, sweep, switches or translate in this form, and make "
            f"nothing: {', '.join(FORMS)}.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not name the files that were made.")
    ] = False,
) -> None:
    """Make the figures, tables and page of a result anew from its Parquet, without a run.

    A result of reproduce has a page, tables, claims and figures. A result of run, compare, paging, surface,
    switches or translate has figures, and a result of sweep summary.csv and maps. The command replaces all
    of these files or, on an error, none.
    """
    place = Path(directory)
    facts = _facts(place)
    if form is not None:
        _put_tables(place, facts, table_form.checked(form))
        return
    made = make_anew(place, lambda partial: _made(partial, facts), "report")
    if not quiet:
        show.put(f"written: {', '.join(map(str, made))}" if made else NOTHING)


def _facts(place: Path) -> dict[str, Any]:
    """Returns the provenance of a directory of results. Anybody may have written it."""
    remedy = "name what --out made"
    if not (place / MARK).is_file():
        raise RequestError(str(place), "report", f"is no directory of results (it has no {MARK})", remedy)
    try:
        facts = json_file.read(place / MARK)
    except OSError as error:
        raise RequestError(str(place), "report", f"cannot be read: {error.strerror}", remedy) from None
    except ValueError:
        facts = {}
    paper, notes = facts.get("paper", "kh90"), facts.get("notes")
    known = (
        isinstance(paper, str) and isinstance(notes, list) and all(isinstance(note, str) for note in notes)
    )
    if not known or not isinstance(facts.get("tables"), dict) or "binhop" not in facts:
        raise RequestError(str(place), "report", f"binhop did not write its {MARK}", remedy)
    return facts


def _made(directory: Path, facts: dict[str, Any]) -> list[Path]:
    """Makes what belongs to a result of this provenance."""
    if "paper" in facts:
        return paper(facts["paper"]).report(directory)
    if "study" in facts:
        from binhop.study import StudyResult

        summary = directory / "summary.csv"
        result = StudyResult.read(directory)
        result.summary().write_csv(summary)
        return [summary, *result.draw(directory)]
    from binhop.report import redraw

    return redraw(directory, facts)


def _put_tables(place: Path, facts: dict[str, Any], form: str) -> None:
    """Prints the tables and notes of a result in a form."""
    try:
        tables = _tables(place, facts)
    except (OSError, pl.exceptions.PolarsError) as error:
        remedy = "look whether its Parquet files are there and whole"
        raise RequestError(str(place), "report", f"cannot be read: {error}", remedy) from None
    notes = [str(note) for note in facts["notes"]]
    table_form.print_tables(tables, notes, form, gap=1 if "alternatives" in facts else 2)


def _tables(place: Path, facts: dict[str, Any]) -> list[Table]:
    """Returns the tables of a result with this provenance."""
    if "study" in facts and "paper" not in facts:
        from binhop.study import StudyResult

        return StudyResult.read(place).tables()
    if "alternatives" in facts:
        values, summary = (read_parquet(place / f"{name}.parquet") for name in ("results", "summary"))
        return comparison_tables(values, summary, facts)
    if facts.get("switches"):
        costs, curves, pages = (read_parquet(place / f"{name}.parquet") for name in SWITCH_TABLES)
        return cost_tables(costs, curves, pages, facts, facts.get("confidence", CONFIDENCE))
    if facts.get("surface"):
        return surface_tables(read_parquet(place / "surface.parquet"), facts)
    if facts.get("translation"):
        return translation_tables(read_parquet(place / "summary.parquet"))
    if "machine" in facts:
        return run_tables(points(read_parquet(place / "results.parquet")), 0.95)
    rule = "is no result of run, compare, surface, sweep, switches or translate: there are no tables to print"
    raise RequestError(str(place), "--table", rule, "leave --table out")
