from __future__ import annotations

import tomllib

import pytest

import binhop

FRAMELESS = ("two-level", "cachegrind-like")
"""The bundled machines whose placement is identity."""


def test_a_machine_is_checked_when_it_is_made_and_never_changes() -> None:
    machine = binhop.Machine.load("kh90")
    assert machine.name == "kh90"
    assert sorted(machine.caches) == ["l1d", "l1i", "l2"]
    assert machine.is_random
    with pytest.raises(AttributeError):
        machine.name = "other"  # type: ignore[misc]
    larger = machine.with_settings("cache.l2.size=16MiB")
    assert "16MiB" in larger.resolved()
    assert "16MiB" not in machine.resolved()
    assert machine != larger
    assert "kh90" in repr(machine)


@pytest.mark.parametrize("name", binhop.machines()["name"])
def test_what_is_resolved_parses_back_to_the_same_machine(name: str) -> None:
    machine = binhop.Machine.load(name)
    again = binhop.Machine.parse(machine.resolved(), name)
    assert again == machine
    assert hash(again) == hash(machine)


@pytest.mark.parametrize("name", binhop.machines()["name"])
def test_a_bundled_machine_states_how_it_translates_and_leaves_it_out_unless_asked(name: str) -> None:
    described = tomllib.loads(binhop.Machine.load(name).resolved())
    at_misses = described["translation"]["refill"] == "cache-miss"
    assert ("tlb" in described) != at_misses
    assert described["translation"]["active"] is False


@pytest.mark.parametrize("name", [name for name in binhop.machines()["name"] if name not in FRAMELESS])
def test_a_bundled_machine_with_frames_translates(name: str) -> None:
    machine = binhop.Machine.load(name, ["translation=on"])
    result = binhop.simulate(machine, "lin", length=20_000, seeds=2)
    if name == "softvm":
        assert result.value("translation.fetch.cache-misses") > 0
        return
    assert result.value("translation.fetch.walks") > 0
    first = next(tlb for tlb in tomllib.loads(machine.resolved())["tlb"])
    assert result.value(f"{first}.fetch.misses") >= result.value("translation.fetch.walks")


def test_a_tlb_that_is_fully_associative_stays_so_when_it_grows() -> None:
    machine = binhop.Machine.load("jm97")
    larger = machine.with_settings("tlb.tlb.entries=128")
    assert larger == binhop.Machine.load("jm97", ["tlb.tlb.entries=128"])
    assert tomllib.loads(larger.resolved())["tlb"]["tlb"]["ways"] == "full"


def test_a_wrong_machine_names_value_place_rule_and_remedy() -> None:
    with pytest.raises(binhop.RequestError) as caught:
        binhop.Machine.load("kh90", ["cache.l2.size=3MiB"])
    error = caught.value
    assert error.value == "3MiB"
    assert "cache.l2.size" in error.place
    assert error.rule
    assert error.remedy
    assert str(error) == f"{error.place}: {error.value}: {error.rule}; {error.remedy}"
    assert isinstance(error, binhop.BinhopError)
