"""The Python modules have no import cycles, and no two classes have one name."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter

from tests.conftest import ROOT

PACKAGE = ROOT / "python" / "binhop"
EXTENSION = "binhop._binhop"
"""The extension raises the errors of `binhop.errors`, which escape their text by the extension's list."""


def name_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


MODULES = {
    name_of(path.relative_to(ROOT / "python").as_posix()): ast.parse(path.read_text())
    for path in PACKAGE.rglob("*.py")
}


def imported(tree: ast.Module) -> set[str]:
    """Returns the modules that a module imports anywhere: in functions, and for type checking, too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{each.name}" for each in node.names]
            found |= {name if name in {*MODULES, EXTENSION} else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found & {*MODULES}


def test_no_module_imports_itself_through_others() -> None:
    graph = {
        name: [
            other for other in imported(tree) if not f"{name}.".startswith(f"{other}.") and other != "binhop"
        ]
        for name, tree in MODULES.items()
        if name != "binhop"
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"a cycle of imports: {' → '.join(reversed(error.args[1]))}") from None


def test_a_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{name}:{node.lineno}")
    assert {name: of for name, of in places.items() if len(of) > 1} == {}
