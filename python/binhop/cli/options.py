"""Defines the options that several commands share, and reads their values."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Annotated

import typer

import binhop
from binhop.arguments import MOST_PLACEMENTS
from binhop.claims import RESULT, Claims
from binhop.cli import completion, show
from binhop.escape import json_pieces, json_text
from binhop.numbers import count
from binhop.run_options import KEYWORDS
from binhop.summary import check_confidence
from binhop.traces import distinct

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from binhop.output import OutputFile
    from binhop.run_options import PassOptions

ENDLESS = "50M"
"""The default length of a built-in workload, which never ends."""

RECORDED = "recorded"
"""The placement policy that takes its frames from a file."""

Seeds = Annotated[
    str | None,
    typer.Option(
        help="The number of placements. Default: 32, and 1 if nothing is random. With --until, the greatest "
        f"number; default: {MOST_PLACEMENTS}."
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="Add placements until half the width of the interval is at most this share of the mean, as in "
        "2%.",
    ),
]
Length = Annotated[
    str | None,
    typer.Option(
        help="The greatest number of references to read, as in 50M. A run of instructions that would exceed "
        f"it is left out. Default: all of a file, {ENDLESS} of a built-in workload."
    ),
]
Warmup = Annotated[str, typer.Option(help=KEYWORDS["warmup"].meaning)]
Interval = Annotated[str | None, typer.Option(help=KEYWORDS["interval"].meaning)]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        autocompletion=completion.settings,
        help="Change the machine, as in cache.l2.size=1MiB; may be given several times.",
    ),
]
V2p = Annotated[
    str | None,
    typer.Option(
        "--v2p",
        metavar="FILE",
        help="Place pages as a real machine did: a map of virtual to physical addresses (v2p.textproto, the "
        "output of page-types, a raw pagemap with its maps beside it, lines of addresses, or Parquet).",
    ),
]
JsonTo = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE|-",
        help="Write one JSON object with every row. - writes it to the standard output, in place of the "
        "table.",
    ),
]
Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE|-", help="Write JSON; - is the standard output.")
]
Out = Annotated[
    str | None, typer.Option(metavar="DIR", help="Write tables, provenance and figures into this directory.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace a file that this command did not write before.")
]
Threads = Annotated[str | None, typer.Option(help=KEYWORDS["threads"].meaning)]
Confidence = Annotated[float, typer.Option(help="The confidence of the intervals.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no table.")]


def confidence_of(confidence: float) -> float:
    """Returns the confidence. A number that is no confidence is refused."""
    check_confidence(confidence, "--confidence")
    return confidence


def seeds_of(seeds: str | None) -> int | None:
    """Returns the number of placements. Zero is refused."""
    return count(seeds, "--seeds", least=1)


def positive(text: str | None, option: str) -> int | None:
    """Returns the number. Zero is refused."""
    return count(text, option, least=1)


def length_of(length: int | None, trace: binhop.Trace) -> int | None:
    """Returns the length that was given, or the default length of a trace that never ends."""
    return count(ENDLESS, "--length") if length is None and trace.endless else length


def opened(names: list[str], *, apart: bool = True) -> list[binhop.Trace]:
    """Opens the traces. With `apart`, traces of one name are refused."""
    traces = [binhop.Trace.of(name) for name in names]
    if apart:
        distinct(traces)
    workloads = {name for name, *_ in binhop._binhop.workloads()}
    for name, trace in zip(names, traces, strict=True):
        if not trace.endless and name in workloads:
            show.say(f"note: {name} is a file here; it wins over the built-in workload")
    return traces


def run_options(warmup: str, threads: str | None) -> PassOptions:
    """Returns the options that are the same for every trace of a command."""
    return {"warmup": count(warmup, "--warmup") or 0, "threads": positive(threads, "--threads")}


def recorded(v2p: str | None) -> list[str]:
    """Returns the settings that --v2p stands for."""
    if v2p is None:
        return []
    return [f"placement.policy={RECORDED}", f"placement.file={json_text(v2p)}"]


def json_file(target: str | None, *read: str, force: bool) -> AbstractContextManager[OutputFile | None]:
    """Claims the file for JSON before the given files are read."""
    claims = Claims(force=force)
    claims.reads(*read)
    return claims.file(target, "--json", RESULT)


def written_as_json(
    value: object, target: str | None, file: OutputFile | None = None, *, force: bool = False
) -> bool:
    """Writes a value as JSON if `target` is given, to `file` if it is open. Returns whether it wrote."""
    if target is None:
        return False
    pieces = itertools.chain(json_pieces(value, indent=2), "\n")
    if target == "-":
        sys.stdout.writelines(pieces)
    elif file is not None:
        file.write_pieces(piece.encode() for piece in pieces)
    else:
        with json_file(target, force=force) as made:
            assert made is not None, "it is a file"
            made.write_pieces(piece.encode() for piece in pieces)
    return True
