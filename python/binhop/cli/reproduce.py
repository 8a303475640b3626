"""Commands about documents: reproduce one; and make anew what was made from a result's Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from binhop.cli import show
from binhop.cli.options import positive
from binhop.cli.progress import watch
from binhop.cli.sweep import telling
from binhop.errors import RequestError
from binhop.output import MARK, make_anew
from binhop.reproduce import DOCUMENTS, SCALES, document
from binhop.reproduce import claims as verdicts

KEYS = "; ".join(f"{one.key}: {one.title}" for one in DOCUMENTS.values())
NOTHING = "nothing to draw: one value each needs no figure"
SCALE_HELP = "; ".join(f"{name}: {what}" for name, what in SCALES.items())


def reproduce(
    key: Annotated[str, typer.Argument(metavar="KEY", help=f"The document. {KEYS}.")],
    scale: Annotated[str, typer.Option(metavar="SCALE", help=f"{SCALE_HELP}.")] = "quick",
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where all of it goes. Default: out/KEY-SCALE.")
    ] = None,
    threads: Annotated[str | None, typer.Option(help="How many threads. Default: all there are.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no claims.")] = False,
) -> None:
    """Repeat a document's study: its tables, figures and claims, its own figures beside ours."""
    chosen = document(key)
    place = out if out is not None else str(Path("out") / f"{key}-{scale}")
    with telling(place), watch(quiet=quiet) as told:
        done = chosen.run(scale, Path(place), threads=positive(threads, "--threads"), progress=told)
    if not quiet:
        _print_claims(done)
        print(f"written: {done / 'report.md'}")


def _print_claims(directory: Path) -> None:
    out = show.console()
    claims = verdicts.read(directory)
    table = show.table("claim", "verdict", "statement")
    for claim in claims:
        table.add_row(claim.id, claim.verdict, claim.statement)
    out.print(table)
    counts = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in ("holds", "fails")}
    undecided = len(claims) - sum(counts.values())
    out.print(f"{counts['holds']} hold, {counts['fails']} fail, {undecided} are undecided")


def report(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A directory of results.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not name the files made.")] = False,
) -> None:
    """Make the figures, tables and page of a result anew from its Parquet, without a run.

    Of reproduce: page, tables, claims, figures. Of run, compare, paging: figures.
    Of sweep: summary.csv. All of it is replaced or, on an error, nothing.
    """
    place = Path(directory)
    try:
        facts: dict[str, Any] = json.loads((place / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        rule = f"is no directory of results (it has no {MARK})"
        raise RequestError(directory, "report", rule, "name what --out made") from None
    made = make_anew(place, lambda partial: _made(partial, facts), "report")
    if not quiet:
        print(f"written: {', '.join(map(str, made))}" if made else NOTHING)


def _made(directory: Path, facts: dict[str, Any]) -> list[Path]:
    """Makes what belongs to a result of this provenance."""
    if "document" in facts:
        return document(facts["document"]).report(directory)
    if "study" in facts:
        from binhop.study import StudyResult

        summary = directory / "summary.csv"
        StudyResult.read(directory).summary().write_csv(summary)
        return [summary]
    from binhop.report import redraw

    return redraw(directory, facts)
