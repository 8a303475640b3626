"""Checks the settings of a mix: the quantum, the order, the latencies, the page faults, and the end."""

from __future__ import annotations

from typing import Any, Literal

from binhop import _binhop
from binhop.arguments import whole_number
from binhop.errors import RequestError
from binhop.numbers import like

ENDS = ("all", "first", "repeat")
"""The ways in which a mix may end."""
ORDERS = ("round-robin", "recent")
"""Who is next: the trace whose last turn is longest ago, or the trace that left the processor last."""
FAULTS = ("none", "first")
"""The page faults that block, beside those that a trace marks itself: none, or the first touch of each
page of a file."""

Ends = Literal["all", "first", "repeat"]
Order = Literal["round-robin", "recent"]
Faults = Literal["none", "first"]

_RULES = {
    ENDS: "a mix has no such end",
    ORDERS: "a mix has no such order",
    FAULTS: "no page faults of this name block",
}
_UNIT = "instructions"


def settings(
    quantum: int | str,
    *,
    order: str,
    latency: int | str | None,
    faults: str,
    fault_latency: int | str | None,
    ends: str,
) -> dict[str, Any]:
    """Returns the settings for the engine, after each was checked.

    >>> given = {"order": "recent", "latency": None, "faults": "none", "fault_latency": None, "ends": "all"}
    >>> settings("400k", **given)["quantum"]
    400000
    """
    one_of(order, "order", ORDERS)
    one_of(faults, "faults", FAULTS)
    one_of(ends, "ends", ENDS)
    return {
        "quantum": quantum_of(quantum, "quantum"),
        "order": order,
        "latency": whole_number(latency, "latency"),
        "faults": faults,
        "fault_latency": whole_number(fault_latency, "fault_latency"),
        "ends": ends,
    }


def quantum_of(quantum: int | str, name: str) -> int:
    """Returns the instructions of a quantum: a number, or a number of instructions.

    >>> quantum_of("400k", "quantum"), quantum_of("5000 instructions", "quantum")
    (400000, 5000)
    """
    if isinstance(quantum, str):
        quantum = quantum.strip().removesuffix(_UNIT).rstrip()
    length = whole_number(quantum, name)
    if length == 0:
        raise RequestError(str(quantum), name, "a turn lasts at least one instruction", like(name))
    return length


def one_of(value: str, name: str, known: tuple[str, ...]) -> str:
    """Returns the value, if it is known."""
    if value not in known:
        raise _binhop.unknown(value, name, _RULES[known], [*known])
    return value
