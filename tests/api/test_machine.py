from __future__ import annotations

import pytest

import binhop


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
