"""Defines the options of the commands that mix traces, and mixes the traces that a command names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

import binhop
from binhop.cli.open_files import allow_open_files
from binhop.cli.options import length_of, positive
from binhop.errors import RequestError
from binhop.mixing import FAULTS, ORDERS, one_of, quantum_of
from binhop.numbers import count

if TYPE_CHECKING:
    from binhop.mixing import Ends

QUANTUM = "400k"

Quantum = Annotated[
    str | None,
    typer.Option(help=f"The length of a turn, in instructions. Default: {QUANTUM}."),
]
Order = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(ORDERS),
        help="Who is next: the trace whose last turn is longest ago (round-robin, the default), or the trace "
        "that left the processor last, because the caches may still hold its lines (recent; a trace that has "
        "been ready for 8 quanta comes first).",
    ),
]
Latency = Annotated[
    str | None,
    typer.Option(
        help="The instructions for which a process that waits leaves the processor. Default: 100k if it "
        "waits for another process, 1M if it waits for a device or a page."
    ),
]
Faults = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(FAULTS),
        help="Which page faults block, beside those that a trace marks: none (the default), or the first "
        "reference to each page of a file (first), once for all processes.",
    ),
]
FaultLatency = Annotated[
    str | None,
    typer.Option(help="The instructions for which a page fault blocks. Default: --latency, or 1M."),
]
UntilFirst = Annotated[
    bool,
    typer.Option(
        "--until-first", help="End when the first trace ends. Default: end when the last trace ends."
    ),
]
Repeat = Annotated[
    bool,
    typer.Option(
        "--repeat", help="Begin a trace that ends again, as new processes, until each trace has ended once."
    ),
]


@dataclass(frozen=True)
class Mixing:
    """`Mixing` holds the options of a mix as the user gave them."""

    quantum: str | None
    order: str | None
    latency: str | None
    faults: str | None
    fault_latency: str | None
    until_first: bool
    repeat: bool

    def mixed(self, traces: list[str], length: str | None) -> binhop.Trace:
        """Returns the mix of traces, of each of which at most `length` references are read."""
        if self.until_first and self.repeat:
            rule = (
                "the first ends the mix with the first trace, and the second goes on until each trace has "
                "ended"
            )
            raise RequestError("--until-first --repeat", "mix", rule, "leave one of them out")
        ends: Ends = "first" if self.until_first else "repeat" if self.repeat else "all"
        allow_open_files(len(traces))
        parts = [binhop.Trace.of(trace) for trace in traces]
        bound = positive(length, "--length")
        return binhop.Trace.mix(
            parts,
            quantum_of(self.quantum or QUANTUM, "--quantum"),
            order=one_of(self.order or ORDERS[0], "--order", ORDERS),  # type: ignore[arg-type]
            latency=count(self.latency, "--latency"),
            faults=one_of(self.faults or FAULTS[0], "--faults", FAULTS),  # type: ignore[arg-type]
            fault_latency=count(self.fault_latency, "--fault-latency"),
            length=[length_of(bound, part) for part in parts],
            ends=ends,
        )
