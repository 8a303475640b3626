"""Names the alternatives of a comparison: machines, or traces on one machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from binhop._binhop import Machine
from binhop.differences import differences
from binhop.errors import RequestError
from binhop.policy import name_of, policies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binhop.traces import Trace

MOST = 64
"""The most alternatives of a comparison. A study takes more."""
_SECTIONS = ("cache", "placement", "tlb", "translation")
"""The sections that the name of an alternative leaves out."""


@dataclass(frozen=True)
class Alternative:
    """`Alternative` is one side of a comparison.

    Attributes:
        name: Its name in tables and figures.
        machine: The machine.
        policy: A placement policy in Python, in place of the machine's.
    """

    name: str
    machine: Machine
    policy: Any = None

    @property
    def constant(self) -> bool:
        """True if the seed changes nothing. One value then stands for all placements."""
        return self.policy is None and not self.machine.is_random


def alternatives(machines: object) -> list[Alternative]:
    """Returns the machines that `binhop.compare` is given, each with a name.

    Each alternative is a machine, the name of a bundled machine, the path of a description, or one of these
    with a policy in Python: `("kh90", my_policy)`. A mapping gives the names. Without a mapping, an
    alternative is named after its machine, after its policy in Python, or, where machines have the same name,
    after the settings that differ.

    >>> larger = Machine.load("kh90", ["cache.l2.size=8MiB"])
    >>> [each.name for each in alternatives(["kh90", larger])]
    ['l2 4MiB', 'l2 8MiB']
    """
    if isinstance(machines, Mapping):
        made = [Alternative(str(name), *_machine(what)) for name, what in machines.items()]
        return checked(made)
    if isinstance(machines, str | os.PathLike | Machine) or not isinstance(machines, Iterable):
        rule = "a comparison takes several machines, or one machine and several traces"
        raise RequestError(str(machines), "machines", rule, 'give a list, as in ["kh90", "zen-4k"]')
    given = [_machine(what) for what in machines]
    if len(given) > 1 and all(one == given[0] for one in given):
        rule = "every alternative is the same machine"
        raise RequestError(given[0][0].name, "machines", rule, "change something: machine.with_settings(…)")
    return checked(
        [
            Alternative(name, machine, policy)
            for name, (machine, policy) in zip(_names(given), given, strict=True)
        ]
    )


def only(machines: object) -> Alternative | None:
    """Returns the machine, if there is only one: alone, in a list, or with a name or a policy in Python.

    >>> only("kh90").machine == only(["kh90"]).machine, only(["kh90", "zen-4k"])
    (True, None)
    """
    if isinstance(machines, Mapping):
        machines = [*machines.values()]
    if isinstance(machines, list | tuple) and len(machines) == 1:
        machines = machines[0]
    pair = isinstance(machines, tuple) and len(machines) == 2 and callable(machines[1])
    if not (pair or isinstance(machines, str | os.PathLike | Machine)):
        return None
    machine, policy = _machine(machines)
    return Alternative(machine.name, machine, policy)


def by_trace(one: Alternative, names: Sequence[str]) -> list[Alternative]:
    """Returns the machine once for each trace, named after the trace."""
    return checked([replace(one, name=name) for name in names])


def trace_names(traces: Sequence[Trace], written: Sequence[str]) -> list[str]:
    """Returns the names of compared traces: their own names, or the text as written where names are equal.

    >>> trace_names([], [])
    []
    """
    names = [trace.name for trace in traces]
    called = [name if names.count(name) == 1 else text for name, text in zip(names, written, strict=True)]
    for name in called:
        if called.count(name) > 1:
            rule = "the same trace is given twice, and its difference from itself is 0"
            raise RequestError(name, "TRACE", rule, "leave one of them out, or give them names")
    return called


def checked(made: list[Alternative]) -> list[Alternative]:
    """Returns the same alternatives. Fewer than two, too many, and equal names are refused."""
    if len(made) < 2:
        what = made[0].name if made else "nothing"
        remedy = "add a machine, give alternatives of a key (--set placement.policy=random,hierarchical), or "
        remedy += "add a trace: several traces on one machine are compared with each other"
        raise RequestError(what, "alternatives", "a comparison needs two alternatives or more", remedy)
    if len(made) > MOST:
        rule = f"a comparison takes at most {MOST} alternatives"
        raise RequestError(str(len(made)), "alternatives", rule, "make several comparisons, or a study")
    names = [each.name for each in made]
    for name in names:
        if names.count(name) > 1:
            rule = "two alternatives have this name, and rows are told apart by it"
            raise RequestError(name, "alternatives", rule, "leave one of them out, or give them names")
    return made


def label(key: str, value: str) -> str:
    """Returns a setting in a few words, for the name of an alternative.

    >>> label("placement.policy", "hierarchical"), label("cache.l2.size", "4MiB"), label("cache.l2.ways", "2")
    ('hierarchical', 'l2 4MiB', 'l2 ways 2')
    >>> label("translation.levels", "5"), label("tlb.stlb.entries", "1024")
    ('levels 5', 'stlb entries 1024')
    """
    words = key.split(".")
    if words[-1] in ("policy", "size", "name"):
        words.pop()
    if words and (words[0] in _SECTIONS or words[0] == "memory" != words[-1]):
        words.pop(0)
    return " ".join([*words, value])


def _machine(what: object) -> tuple[Machine, Any]:
    if isinstance(what, tuple):
        if len(what) != 2:
            rule = "a machine with a policy is a pair"
            raise RequestError(repr(what), "machines", rule, 'write it like ("kh90", my_policy)')
        machine, policy = what
    else:
        machine, policy = what, None
    policies(policy)  # a wrong policy is refused before anything is simulated
    if isinstance(machine, Machine):
        return machine, policy
    if isinstance(machine, str | os.PathLike):
        return Machine.load(os.fspath(machine)), policy
    rule = "a machine is a binhop.Machine, the name of a bundled machine, or the path of a description"
    raise RequestError(repr(machine), "machines", rule, "see binhop.machines()")


def _names(given: Sequence[tuple[Machine, Any]]) -> list[str]:
    """Returns names: the machine if there are several, the policy in Python, and the settings that differ."""
    several = len({machine.name for machine, _ in given}) > 1
    names = []
    for machine, policy in given:
        words = [machine.name] if several else []
        if policy is not None:
            words.append(name_of(policy))
        else:
            namesakes = [other for other, own in given if own is None and other.name == machine.name]
            words += [label(key, value) for key, value in differences(machine, namesakes).items()]
        names.append(" ".join(words) or machine.name)
    return names


__all__ = ["MOST", "Alternative", "alternatives", "by_trace", "checked", "label", "only", "trace_names"]
