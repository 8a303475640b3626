"""The crates are layered: no two modules use each other, and a type name is defined once."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT
from tests.docs.module_graph import Crate, below, crates, cycles, names_shared_with, siblings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("crate", crates(), ids=lambda crate: crate.name)
def test_no_two_modules_use_each_other(crate: Crate) -> None:
    lifted = siblings(crate.graph())
    found = [
        sorted(use for source in group for target in group for use in lifted[source].get(target, ()))
        for group in cycles(lifted)
    ]
    assert not found, "move what one module needs of the other into a module below both"


@pytest.mark.parametrize("crate", crates(), ids=lambda crate: crate.name)
def test_a_type_name_is_defined_once(crate: Crate) -> None:
    twice = {name: places for name, places in crate.types.items() if len(places) > 1}
    assert not twice, "a reader of the crate looks for one type of a name"


@pytest.mark.parametrize("crate", crates(), ids=lambda crate: crate.name)
def test_a_type_name_stands_for_one_type_in_the_crates_that_a_crate_uses(crate: Crate) -> None:
    used = below(crate.name)
    shared = names_shared_with(crate, [other for other in crates() if other.name in used])
    assert not shared, "give the type of the crate above a name of its own"


@pytest.mark.parametrize("crate", crates(), ids=lambda crate: crate.name)
def test_every_file_of_rust_tests_is_compiled(crate: Crate) -> None:
    """Some crates list their test programs, and `integration.rs` lists its modules."""
    tests = ROOT / "crates" / crate.name / "tests"
    manifest = tomllib.loads((ROOT / "crates" / crate.name / "Cargo.toml").read_text())
    if manifest["package"].get("autotests", True):
        return
    compiled = {program["name"] for program in manifest["test"]}
    modules = re.findall(r"^mod (\w+);", (tests / "integration.rs").read_text(), re.MULTILINE)
    # proptest writes a file of failed cases beside a program whose property failed.
    files = [path for path in tests.iterdir() if path.suffix != ".proptest-regressions"]
    present = {path.stem if path.suffix == ".rs" else path.name for path in files}
    missing = present - compiled - {*modules}
    assert not missing, f"list these in {tests / 'integration.rs'} (as modules) or Cargo.toml (as programs)"


def test_a_cycle_and_a_second_definition_are_found(tmp_path: Path) -> None:
    source = tmp_path / "made-up" / "src"
    (source / "b").mkdir(parents=True)
    (source / "lib.rs").write_text("mod a;\nmod b;\n")
    (source / "a.rs").write_text(
        "use crate::b::inner::{self, Deep};\n/// crate::c::X\npub struct One(Deep);\n"
    )
    (source / "b" / "mod.rs").write_text("mod inner;\npub use inner::Deep;\n")
    (source / "b" / "inner.rs").write_text(
        "use super::super::a::One as Other;\npub struct Deep;\nstruct One;\n"
    )
    crate = Crate(source.parent)
    assert cycles(siblings(crate.graph())) == [[("a",), ("b",)]]
    assert [name for name, places in crate.types.items() if len(places) > 1] == ["One"]


def test_a_name_that_two_crates_give_their_types_is_found(tmp_path: Path) -> None:
    def crate(name: str, text: str) -> Crate:
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "src" / "lib.rs").write_text(text)
        return Crate(tmp_path / name)

    low = crate("low", "pub struct Page;\nstruct Hidden;\npub enum Kind { A }\n")
    beside = crate("beside", "pub type Kind = u8;\n")
    top = crate("top", "struct Page;\nstruct Hidden;\n")
    assert names_shared_with(top, [low, beside]) == {"Page": {"low", "top"}, "Kind": {"low", "beside"}}
    assert names_shared_with(low, []) == {}
