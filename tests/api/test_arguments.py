"""Tests that public functions take numbers in the command line's forms, or refuse them in its words."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import pytest

import binhop
from binhop.models import conflicts
from binhop.models import paging as paging_models
from tests.conftest import LOAD, events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRACE = binhop.Trace.from_arrow(events([(LOAD, 4096 * page, 8, 1) for page in range(3000)]), "few")
RESULT = binhop.simulate("two-level", TRACE, seeds=1)
COMPARISON = binhop.compare(
    {"one": "kh90", "other": binhop.Machine.load("kh90", ["cache.l2.ways=2"])}, TRACE, seeds=2
)
TURNS = binhop.Trace.mix(["lin", "tree"], 500, length=5_000)
SWITCHES = binhop.switches("zen-4k", TURNS, seeds=1)
TRANSLATION = binhop.translate("jm97", TRACE, seeds=1)
DEVICE_DATA = binhop.device_data("zen-4k", TRACE, schemes=["ddio"], seeds=1)
CACHE = conflicts.Cache(frames=64, bins=8, ways=1)

SOUND: dict[Callable[..., Any], dict[str, Any]] = {
    binhop.simulate: {"machine": "two-level", "trace": TRACE},
    binhop.simulate_all: {"machines": ["two-level"], "trace": TRACE},
    binhop.simulate_until: {
        "machine": "kh90",
        "trace": TRACE,
        "until": 0.5,
        "seeds": 2,
        "metric": "os.faults",
    },
    binhop.compare: {
        "machines": {"one": "kh90", "other": "zen-4k"},
        "trace": TRACE,
        "seeds": 2,
        "metric": "l2.mpi",
    },
    binhop.explain: {"machines": ["kh90"]},
    binhop.paging: {"trace": TRACE, "sizes": ["1MiB"], "colors": [1]},
    binhop.reuse: {"trace": TRACE, "sizes": ["1MiB"]},
    binhop.placements: {"machine": "two-level", "trace": TRACE},
    binhop.repeated_misses: {"machine": "two-level", "trace": TRACE},
    binhop.switches: {"machine": "zen-4k", "trace": TURNS, "seeds": 1},
    binhop.translate: {"machines": ["jm97"], "trace": TRACE, "seeds": 1},
    binhop.device_data: {"machine": "zen-4k", "trace": TRACE, "schemes": ["ddio"], "seeds": 1},
    binhop.DeviceDataResult.summary: {"self": DEVICE_DATA},
    binhop.switch_surface: {
        "machines": ["zen-4k"],
        "traces": ["lin", "tree"],
        "quanta": [500],
        "each": 5_000,
        "seeds": 1,
    },
    binhop.dram: {"memory": "ddr4-2400", "requests": [(0, 0, False)]},
    binhop.export_memory: {"machine": "two-level", "trace": TRACE, "path": "x.trace", "to": "ramulator2"},
    binhop.record: {"command": ["there-is-no-such-program"], "path": "x.parquet"},
    binhop.Trace.workload: {"name": "lin"},
    binhop.Trace.mix: {"traces": [TRACE, TRACE]},
    binhop.Trace.first_rows: {"self": TRACE, "rows": 10},
    binhop.Trace.first_references: {"self": TRACE, "references": 10},
    binhop.Trace.slice: {"self": TRACE, "start": 1},
    binhop.Trace.sample: {"self": TRACE, "every": 5000, "window": 10},
    binhop.Trace.filter: {"self": TRACE},
    binhop.Trace.export: {"self": TRACE, "path": "x.din", "to": "din"},
    binhop.Trace.head: {"self": TRACE},
    binhop.Trace.inspect: {"self": TRACE},
    binhop.Trace.lint: {"self": TRACE},
    binhop.Trace.write: {"self": TRACE, "path": "x.parquet"},
    binhop.Result.summary: {"self": RESULT},
    binhop.Result.tables: {"self": RESULT},
    binhop.TranslationResult.summary: {"self": TRANSLATION},
    binhop.SwitchResult.summary: {"self": SWITCHES},
    binhop.SwitchResult.tables: {"self": SWITCHES},
    binhop.SwitchResult.to_json: {"self": SWITCHES},
    binhop.Comparison.each: {"self": COMPARISON},
    conflicts.Cache: {"frames": 64, "bins": 8, "ways": 1},
    conflicts.probability: {"pages": 8, "cache": CACHE},
    conflicts.minimum: {"pages": 8, "cache": CACHE},
    conflicts.maximum: {"pages": 8, "cache": CACHE},
    conflicts.monte_carlo: {"pages": 8, "cache": CACHE, "samples": 2},
    paging_models.allocations: {"colors": 2, "frames": 2},
    paging_models.monte_carlo: {"colors": 2, "frames": 2, "runs": 2},
}
"""The public functions that take numbers, with arguments under which each of them runs."""


def is_number(annotation: str) -> bool:
    return bool(re.search(r"\b(int|float)\b", annotation)) and "Callable" not in annotation


def numbers_of(function: Callable[..., Any]) -> list[str]:
    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if is_number(str(parameter.annotation))
    ]


def public() -> list[Callable[..., Any]]:
    found: list[Callable[..., Any]] = []
    for name in binhop.__all__:
        thing = getattr(binhop, name)
        if inspect.isfunction(thing):
            found.append(thing)
        elif (
            inspect.isclass(thing)
            and thing.__module__.startswith("binhop.")
            and "_binhop" not in thing.__module__
        ):
            found += [
                getattr(thing, own)
                for own, kept in vars(thing).items()
                if not own.startswith("_") and isinstance(kept, type(is_number) | classmethod)
            ]
    return [function for function in found if numbers_of(function)]


LOOKUPS = {binhop.Result.value}
"""The functions whose numbers only name a row."""


def test_every_public_function_that_takes_a_number_stands_in_the_list() -> None:
    key = {getattr(function, "__func__", function) for function in SOUND}
    assert [f.__qualname__ for f in public() if getattr(f, "__func__", f) not in key | LOOKUPS] == []


CASES = [(function, name) for function in SOUND for name in numbers_of(function)]
NONSENSE = [
    "x",
    "",
    "2.5",
    "1e3",
    "-1",
    1.5,
    -1,
    True,
    2**70,
    "9" * 40,
    [],
    {},
    b"2",
    object(),
    [None],
    ["x"],
    [-1.5],
]


@pytest.mark.parametrize(("function", "name"), CASES, ids=lambda value: getattr(value, "__qualname__", value))
def test_a_number_that_is_none_is_refused_in_words(
    function: Callable[..., Any], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = 0
    for value in NONSENSE:
        try:
            function(**SOUND[function] | {name: value})
        except binhop.RequestError:
            refused += 1
    assert refused > len(NONSENSE) / 2


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (function, name)
        for function, name in CASES
        if "str" in str(inspect.signature(function).parameters[name].annotation)
        and function is not binhop.dram
        and name not in ("until", "baseline", "sizes", "colors", "page", "quanta", "unit", "simulated")
    ],
    ids=lambda value: getattr(value, "__qualname__", value),
)
def test_a_count_is_a_number_or_a_text(
    function: Callable[..., Any], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if function is binhop.record:
        with pytest.raises(binhop.RequestError, match="no such program"):
            function(**SOUND[function] | {name: "2k"})
        return
    made = [function(**SOUND[function] | {name: value}) for value in (2000, "2k", "2_000")]
    shown = [each if isinstance(each, dict) else getattr(each, "results", each) for each in made]
    if isinstance(shown[0], binhop.Trace):
        shown = [each.inspect(length=100) for each in shown]
    assert str(shown[0]) == str(shown[1]) == str(shown[2])


def test_a_length_in_text_is_that_many_references() -> None:
    result = binhop.simulate("two-level", TRACE, seeds=1, length="2k")
    assert result.value("references") == 2000
    assert result.provenance["traces"][0]["length"] == 2000
