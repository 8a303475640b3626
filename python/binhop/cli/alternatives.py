"""Makes the alternatives of a comparison from names of machines and settings on a command line."""

from __future__ import annotations

import tomllib
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import binhop
from binhop.cli.options import RECORDED
from binhop.comparison.alternatives import MOST, Alternative, checked, label
from binhop.errors import RequestError
from binhop.escape import json_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binhop.cli.own_policy import OwnPolicy

OWN = ""
"""The word that stands for the machine's own policy."""
OPENING, CLOSING, QUOTES = "[{(", "]})", "\"'"


def sorted_apart(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the machines and the traces among the names of a command line.

    A name is a machine if a bundled machine has it or if it ends in .toml.
    """
    bundled = {name for name, *_ in binhop._binhop.machines()}
    machines = [name for name in names if name in bundled or name.endswith(".toml")]
    traces = [name for name in names if name not in machines]
    workloads = [name for name, *_ in binhop._binhop.workloads()]
    for name in traces:
        if name not in workloads and not Path(name).exists() and "." not in name and "/" not in name:
            rule = "no bundled machine, no file and no built-in workload has this name"
            raise binhop._binhop.unknown(name, "compare", rule, [*sorted(bundled), *workloads])
    if not machines:
        rule = "none of the names is a machine: a bundled machine, or a file that ends in .toml"
        raise RequestError(" ".join(names), "compare", rule, "begin with a machine, as in kh90")
    if not traces:
        rule = "none of the names is a trace: all of them are machines"
        raise RequestError(" ".join(names), "compare", rule, "end with a file or a built-in workload")
    return machines, traces


def alternatives_of(
    machines: Sequence[str],
    settings: Sequence[str],
    v2p: str | None = None,
    own: Sequence[OwnPolicy] = (),
    *,
    traces: int = 1,
    place: str = "compare",
) -> list[Alternative]:
    """Returns every machine with every combination of the settings' values, named by what differs.

    With a map of addresses, the placement that it records is one more policy; each policy in Python is one
    more, too. A single alternative is accepted only if there are several traces, which are then compared with
    each other. Errors name `place`.
    """
    for name in machines:
        if machines.count(name) > 1:
            rule = "this machine is given twice"
            raise RequestError(name, place, rule, "name it once; --set gives it alternatives")
    choices = _choices(settings)
    if v2p is not None:
        choices = _with_map(choices, v2p)
    python = {one.text: one for one in own}
    if python:
        choices = _with_own(choices, [*python])
    combinations = len(machines)
    for _, values in choices:
        combinations *= len(values)
    if combinations > MOST:
        rule = f"a comparison takes at most {MOST} alternatives"
        remedy = "make several comparisons, or a study"
        raise RequestError(f"{combinations} combinations", place, rule, remedy)
    made = []
    for machine in machines:
        for picked in product(*(several for _, several in choices)):
            chosen = list(zip(choices, picked, strict=True))
            given = [f"{key}={value}" for (key, _), value in chosen if value not in (OWN, *python)]
            policy = next((python[value] for value in picked if value in python), None)
            loaded = binhop.Machine.load(machine, given)
            named = [
                (key, tomllib.loads(loaded.resolved())["placement"]["policy"] if value == OWN else value)
                for (key, all_of), value in chosen
                if len(all_of) > 1
            ]
            words = [
                python[value].name if value in python else label(key, value.strip(QUOTES))
                for key, value in named
            ]
            made.append((machine, " ".join(words), loaded, policy))
    _all_differ(made, place)
    called = _called({machine: loaded.name for machine, _, loaded, _ in reversed(made)})
    alternatives = [
        Alternative(f"{called[machine]} {words}".strip() or loaded.name, loaded, policy and policy.policy)
        for machine, words, loaded, policy in made
    ]
    return alternatives if len(alternatives) == 1 and traces > 1 else checked(alternatives)


def split(text: str) -> list[str]:
    """Splits a value at its commas into alternatives. Commas in quotes or brackets do not separate.

    >>> split("random,hierarchical"), split('{ policy = "first", pool = "1MiB" }')
    (['random', 'hierarchical'], ['{ policy = "first", pool = "1MiB" }'])
    """
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in QUOTES:
            quote = letter
        elif letter in OPENING:
            depth += 1
        elif letter in CLOSING:
            depth -= 1
        if letter == "," and not quote and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _choices(settings: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Returns each key with its alternatives: the parts of one --set, or the values of several --set."""
    given: dict[str, list[str]] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            rule = "a setting is KEY=VALUE, or KEY=VALUE,VALUE for alternatives"
            raise RequestError(setting, "--set", rule, "write it like --set cache.l2.size=1MiB,4MiB")
        given.setdefault(key.strip(), []).append(value)
    choices = []
    for key, values in given.items():
        several = split(values[0]) if len(values) == 1 else [value.strip() for value in values]
        place = f"--set {key}={','.join(values)}"
        for value in several:
            if not value:
                rule = "an alternative is empty"
                raise RequestError("nothing", place, rule, "leave the comma out, or write a value beside it")
            if several.count(value) > 1:
                raise RequestError(value, place, "this alternative is given twice", "leave one of them out")
        choices.append((key, several))
    return choices


def _with_map(choices: list[tuple[str, list[str]]], v2p: str) -> list[tuple[str, list[str]]]:
    """Returns the choices, with the placement of a map added to those of `placement.policy`."""
    policy, file = "placement.policy", "placement.file"
    given = dict(choices)
    if file in given:
        rule = "is the placement.file of the recorded placement, and --set names another"
        raise RequestError(v2p, "--v2p", rule, "leave one of them out")
    policies = given.get(policy, [OWN])
    if RECORDED in policies:
        rule = "makes the policy recorded an alternative, and --set names it already"
        raise RequestError(v2p, "--v2p", rule, f"leave {RECORDED} out of --set {policy}")
    others = [(key, values) for key, values in choices if key != policy]
    return [*others, (policy, [*policies, RECORDED]), (file, [json_text(v2p)])]


def _with_own(choices: list[tuple[str, list[str]]], own: list[str]) -> list[tuple[str, list[str]]]:
    """Returns the choices, with the policies in Python added to those of `placement.policy`."""
    policy = "placement.policy"
    others = [(key, values) for key, values in choices if key != policy]
    return [*others, (policy, [*dict(choices).get(policy, [OWN]), *own])]


def _called(names: dict[str, str]) -> dict[str, str]:
    """Returns a label for each machine: empty for a single machine, the path for equal names, or the name."""
    if len(names) == 1:
        return dict.fromkeys(names, "")
    given = list(names.values())
    return {path: name if given.count(name) == 1 else path for path, name in names.items()}


def _all_differ(made: Sequence[tuple[str, str, binhop.Machine, OwnPolicy | None]], where: str) -> None:
    """Refuses settings that change nothing: a reader would take their difference, 0, for a finding."""
    for place, (machine, words, loaded, policy) in enumerate(made):
        for second, others, other, theirs in made[:place]:
            if loaded == other and policy is theirs:
                rule = f"is the same machine as {f'{second} {others}'.strip()}"
                remedy = "leave one of them out"
                raise RequestError(f"{machine} {words}".strip(), where, rule, remedy)
