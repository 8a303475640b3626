"""Tests that the names of the package are stated alike, and that each is imported when it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import binhop

PACKAGE = Path(binhop.__file__).parent


def imported_for_types() -> dict[str, str]:
    """Returns the module of each name that `__init__` imports for type checkers alone."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = (
        node for node in tree.body if isinstance(node, ast.If) and not isinstance(node.test, ast.UnaryOp)
    )
    return {name.name: node.module for node in block.body for name in node.names}


def test_the_homes_of_names_are_those_that_type_checkers_see() -> None:
    assert imported_for_types() == binhop._HOME_OF
    assert set(binhop._HOME_OF) <= set(binhop.__all__) <= set(dir(binhop))


@pytest.mark.parametrize("name", binhop.__all__)
def test_a_name_is_no_module_and_can_be_used(name: str) -> None:
    assert not (PACKAGE / f"{name}.py").exists(), "the module would take the place of the name"
    assert not (PACKAGE / name).exists(), "the package would take the place of the name"
    assert getattr(binhop, name) is getattr(binhop, name)


def test_an_unknown_name_is_refused_and_a_module_is_found() -> None:
    with pytest.raises(AttributeError, match="simulated"):
        binhop.simulated  # noqa: B018, the attribute is what is tested
    assert binhop.study.__name__ == "binhop.study"


def test_an_import_loads_no_table_library() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, binhop; print('polars' in sys.modules, 'binhop.run' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "False"]
