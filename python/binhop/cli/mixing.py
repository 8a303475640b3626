"""Defines the options of the commands that mix traces, and mixes the traces that a command names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

import binhop
from binhop.cli.open_files import allow_open_files
from binhop.cli.options import length_of, opened, positive
from binhop.errors import RequestError
from binhop.mixing import FAULTS, ORDERS, one_of, quantum_of
from binhop.numbers import count

if TYPE_CHECKING:
    from binhop.mixing import Ends

QUANTUM = "400k"

Quantum = Annotated[
    str | None,
    typer.Option(
        metavar="N[instructions|cycles]",
        help="The length of a turn, in instructions, or in cycles of the simulated machine's own caches, as "
        f"in 400kcycles. Default: {QUANTUM}.",
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(ORDERS),
        help="The trace that runs next: the trace whose last turn ended longest ago (round-robin, the "
        "default), or the trace that left the processor last, because the caches may still hold its lines "
        "(recent; a trace that has been ready for 8 quanta comes first).",
    ),
]
Latency = Annotated[
    str | None,
    typer.Option(
        help="The time for which a process that waits leaves the processor, in the unit of the quantum. "
        "Default: 100k if it waits for another process, 1M if it waits for a device or a page."
    ),
]
Faults = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(FAULTS),
        help="The page faults that block, beside the faults that a trace marks: none (the default), the "
        "first reference to each page of a file (first), once for all processes, or also the return "
        "of each page that a placement has evicted (all).",
    ),
]
FaultLatency = Annotated[
    str | None,
    typer.Option(
        help="The time for which a page fault blocks, in the unit of the quantum. Default: --latency, or 1M."
    ),
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


Mix = Annotated[
    bool,
    typer.Option(
        "--mix",
        help="Mix the traces into one, as if one processor ran them: see binhop mix. --length then bounds "
        "each trace.",
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

    def opened(
        self, traces: list[str], length: str | None, *, mix: bool
    ) -> list[tuple[binhop.Trace, int | None]]:
        """Returns the traces that a command simulates, or their mix, each with the references to simulate."""
        if mix:
            return [(self.mixed(traces, length), None)]
        self._check_unused()
        bound = positive(length, "--length")
        return [(trace, length_of(bound, trace)) for trace in opened(traces)]

    def _check_unused(self) -> None:
        """Refuses options of a mix where nothing is mixed."""
        given = {
            "--quantum": self.quantum,
            "--order": self.order,
            "--latency": self.latency,
            "--faults": self.faults,
            "--fault-latency": self.fault_latency,
            "--until-first": self.until_first,
            "--repeat": self.repeat,
        }
        option = next((option for option, value in given.items() if value), None)
        if option is not None:
            rule = "says how traces are mixed, and there is no --mix"
            raise RequestError(option, "mix", rule, f"add --mix, or leave {option} out")

    def check_for_file(self) -> None:
        """Refuses a mix that no file can hold, because its order depends on the machine and the placement."""
        differs = "so the mix differs from placement to placement"
        remedy = "mix where it is simulated: binhop run MACHINE --mix TRACE…"
        if quantum_of(self.quantum or QUANTUM, "--quantum")[1] == "cycles":
            rule = f"a quantum in cycles depends on the machine's caches, {differs}, and no file holds it"
            raise RequestError(str(self.quantum), "--quantum", rule, f"give instructions, or {remedy}")
        if self.faults == "all":
            rule = (
                f"which pages return depends on what a placement has evicted, {differs}, and no file holds it"
            )
            raise RequestError("all", "--faults", rule, f"say --faults first, or {remedy}")

    def mixed(self, traces: list[str], length: str | None) -> binhop.Trace:
        """Returns the mix of traces, of each of which at most `length` references are read."""
        quantum_of(self.quantum or QUANTUM, "--quantum")
        parts, settings = self.parts(traces, length)
        return binhop.Trace.mix(parts, self.quantum or QUANTUM, **settings)

    def parts(self, traces: list[str], length: str | None) -> tuple[list[binhop.Trace], dict[str, Any]]:
        """Returns the traces of a mix, and the keywords of `binhop.Trace.mix` besides the quantum."""
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
        return parts, {
            "order": one_of(self.order or ORDERS[0], "--order", ORDERS),
            "latency": count(self.latency, "--latency"),
            "faults": one_of(self.faults or FAULTS[0], "--faults", FAULTS),
            "fault_latency": count(self.fault_latency, "--fault-latency"),
            "length": [length_of(bound, part) for part in parts],
            "ends": ends,
        }
