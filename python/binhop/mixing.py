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
"""The trace that runs next: the trace whose last turn ended longest ago, or the trace that ran last."""
FAULTS = ("none", "first", "all")
"""The page faults that block, beside the faults that a trace marks itself: none, the first touch of each page
of a file, or also the return of each page that a placement has evicted."""
UNITS = ("instructions", "cycles")
"""The units of a quantum."""

Ends = Literal["all", "first", "repeat"]
Order = Literal["round-robin", "recent"]
Faults = Literal["none", "first", "all"]

_RULES = {
    ENDS: "a mix has no such end",
    ORDERS: "a mix has no such order",
    FAULTS: "no page faults of this name block",
}


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
    >>> settings("400k cycles", **given)["quantum"]
    (400000, 'cycles')
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


def quantum_of(quantum: int | str, name: str) -> tuple[int, str]:
    """Returns the length of a quantum and its unit: a number, or a number of instructions or cycles.

    >>> quantum_of("400k", "quantum"), quantum_of("5000cycles", "quantum")
    ((400000, 'instructions'), (5000, 'cycles'))
    """
    unit = UNITS[0]
    if isinstance(quantum, str):
        unit = next((unit for unit in UNITS if quantum.strip().endswith(unit)), unit)
        quantum = quantum.strip().removesuffix(unit).rstrip()
    length = whole_number(quantum, name)
    if length == 0:
        raise RequestError(str(quantum), name, f"a turn lasts at least one {unit[:-1]}", like(name))
    return length, unit


def needs_machine(mixing: dict[str, Any]) -> bool:
    """Returns whether the order of a mix depends on the machine and the placement that simulate it."""
    return bool(mixing["quantum"][1] == "cycles" or mixing["faults"] == "all")


def one_of(value: str, name: str, known: tuple[str, ...]) -> str:
    """Returns the value, if it is known."""
    if value not in known:
        raise _binhop.unknown(value, name, _RULES[known], [*known])
    return value
