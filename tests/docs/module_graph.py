"""The module graph of each crate: which module uses which, cycles, and type names that occur twice.

``python tests/docs/module_graph.py [CRATE...]`` prints it; ``test_modules.py`` keeps it free of cycles.

A module is a file. An arrow leads from the module that names an item to the module that defines it:
re-exports are followed. Two modules are compared under their nearest common ancestor: ``prepare::filter``
uses ``run::lane`` means that ``prepare`` uses ``run``. A module may use its parents and its children.
Test modules (``#[cfg(test)]``) and comments are left out.
"""

import functools
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Module = tuple[str, ...]
Graph = dict[Module, dict[Module, set[str]]]

_NOISE = re.compile(
    r"//[^\n]*|/\*.*?\*/|r#*\"(?:[^\"\\]|\\.|\"(?!#))*\"#+|b?\"(?:[^\"\\]|\\.)*\"|'(?:\\.[^']*|[^'\\])'",
    re.DOTALL,
)
_USE = re.compile(r"(?:^|(?<=[;{}\]\s]))(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
_PATH = re.compile(r"(?<![\w:$])(?:crate|super|self)(?:::\w+)+|(?<=\$)crate(?:::\w+)+")
_TYPE = re.compile(r"(?:^|(?<=[\s{}]))(pub(?:\([^)]*\))?\s+)?(?:struct|enum|trait|union|type)\s+([A-Z]\w*)")
_TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+\w+\s*\{")


def _without_block(text: str, opening: re.Pattern[str]) -> str:
    """``text`` without the blocks that ``opening`` begins, up to the brace that closes each."""
    while found := opening.search(text):
        depth, end = 1, found.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        text = text[: found.start()] + text[end:]
    return text


def _leaves(tree: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each path of a use tree, with the name it gets (``*`` for all names)."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path, _, alias = tree.partition(" as ")
        parts = tuple(part.strip() for part in path.split("::") if part.strip())
        if parts and parts[-1] == "self":
            parts = parts[:-1]
        if parts:
            yield parts, alias.strip() or parts[-1]
        return
    head = tuple(part.strip() for part in tree[:brace].split("::") if part.strip())
    depth, start, inside = 0, 0, tree[brace + 1 : tree.rindex("}")]
    for at, letter in enumerate(inside + ","):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            if inside[start:at].strip() == "self":
                yield head, head[-1]
            else:
                yield from ((head + path, name) for path, name in _leaves(inside[start:at]))
            start = at + 1


def _text(module: Module) -> str:
    return "::".join(module) or "lib"


class Crate:
    """The modules of one crate, what each defines and what each uses."""

    def __init__(self, directory: Path):
        self.name = directory.name
        self.files: dict[Module, Path] = {}
        for file in sorted((directory / "src").rglob("*.rs")):
            parts = file.relative_to(directory / "src").with_suffix("").parts
            self.files[parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts] = file
        self._texts = {
            module: _without_block(_NOISE.sub(" ", file.read_text()), _TEST_MODULE)
            for module, file in self.files.items()
            if file.stem != "tests"
        }
        self._imports: dict[Module, dict[str, tuple[str, ...]]] = defaultdict(dict)
        self._globs: dict[Module, list[tuple[str, ...]]] = defaultdict(list)
        for module, text in self._texts.items():
            for tree in _USE.findall(text):
                for path, name in _leaves(tree):
                    if path[-1] == "*":
                        self._globs[module].append(path[:-1])
                    else:
                        self._imports[module][name] = path

    @functools.cached_property
    def types(self) -> dict[str, list[tuple[Module, bool]]]:
        """Where each type, trait and alias is defined, and whether it is public."""
        found: dict[str, list[tuple[Module, bool]]] = defaultdict(list)
        for module, text in self._texts.items():
            outside = _without_block(text, re.compile(r"\b(?:impl|trait)\b[^;{}]*\{"))
            whole = {name for _, name in _TYPE.findall(text) if re.search(rf"\btrait\s+{name}\b", text)}
            for visible, name in _TYPE.findall(outside):
                found[name].append((module, visible.strip() == "pub"))
            for name in whole - {name for _, name in _TYPE.findall(outside)}:
                found[name].append((module, bool(re.search(rf"\bpub\s+trait\s+{name}\b", text))))
        return found

    def _resolve(
        self, module: Module, path: tuple[str, ...], seen: frozenset[tuple[Module, str]]
    ) -> Module | None:
        """The module that defines what ``path`` names inside ``module``; None outside this crate."""
        at = module
        for number, part in enumerate(path):
            if part == "crate":
                at = ()
            elif part == "super":
                at = at[:-1]
            elif part == "self":
                pass
            elif (*at, part) in self.files:
                at = (*at, part)
            elif part in self._imports[at] and (at, part) not in seen:
                rest = path[number + 1 :]
                return self._resolve(at, self._imports[at][part] + rest, seen | {(at, part)})
            elif number == 0:
                return None
            else:
                return at
        return at

    def graph(self) -> Graph:
        """For each module the modules it uses, each with the names that it takes."""
        arrows: Graph = {module: defaultdict(set) for module in self._texts}
        for module, text in self._texts.items():
            paths = set(self._imports[module].values()) | set(self._globs[module])
            paths |= {tuple(found.split("::")) for found in _PATH.findall(_USE.sub(";", text))}
            for path in paths:
                target = self._resolve(module, path, frozenset())
                if target is not None and target != module:
                    arrows[module][target].add(path[-1])
        return arrows


def names_shared_with(crate: Crate, below: list[Crate]) -> dict[str, set[str]]:
    """The type names that mean two types to a reader of ``crate``, with the crates that define each.

    Such a name is defined in the crate and public in a crate below it, or public in two crates below it.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for other in below:
        for name, places in other.types.items():
            if any(public for _, public in places):
                found[name].add(other.name)
    for name in crate.types:
        found[name].add(crate.name)
    return {name: owners for name, owners in found.items() if len(owners) > 1}


def siblings(graph: Graph) -> Graph:
    """The arrows between modules under one parent; what lies inside a module counts as that module."""
    lifted: Graph = defaultdict(lambda: defaultdict(set))
    for source, targets in graph.items():
        for target, names in targets.items():
            shared = next(
                (at for at, (one, other) in enumerate(zip(source, target, strict=False)) if one != other),
                None,
            )
            if shared is not None:
                what = {f"{_text(source)} uses {_text(target)}::{name}" for name in names}
                lifted[source[: shared + 1]][target[: shared + 1]] |= what
    return lifted


def cycles(graph: Graph) -> list[list[Module]]:
    """The strongly connected groups of two or more modules."""
    order: dict[Module, int] = {}
    low: dict[Module, int] = {}
    stack: list[Module] = []
    found: list[list[Module]] = []

    def visit(module: Module) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for target in sorted(graph.get(module, {})):
            if target not in order:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], order[target])
        if low[module] == order[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return found


@functools.cache
def crates() -> list[Crate]:
    """All crates of the workspace."""
    return [Crate(directory) for directory in sorted((ROOT / "crates").iterdir())]


def below(name: str) -> set[str]:
    """The names of the workspace's crates that a crate depends on, directly or through others."""
    manifest = tomllib.loads((ROOT / "crates" / name / "Cargo.toml").read_text())
    direct = {crate for crate in manifest.get("dependencies", {}) if (ROOT / "crates" / crate).is_dir()}
    return direct.union(*(below(crate) for crate in direct))


def main(names: list[str]) -> None:
    """Prints the graph of the crates named, or of all."""
    for crate in [Crate(Path(name).resolve()) for name in names] or crates():
        lifted = siblings(crate.graph())
        print(f"{crate.name}: {len(crate.files)} modules")
        for source in sorted(lifted):
            print(f"  {_text(source)} -> {', '.join(_text(target) for target in sorted(lifted[source]))}")
        for group in cycles(lifted):
            print(f"  cycle: {', '.join(_text(module) for module in group)}")
            for source in group:
                for target in set(lifted[source]) & set(group):
                    print("".join(f"    {line}\n" for line in sorted(lifted[source][target])), end="")
        for name, places in sorted(crate.types.items()):
            if len(places) > 1:
                print(f"  {name} is defined in {', '.join(_text(module) for module, _ in places)}")


if __name__ == "__main__":
    main(sys.argv[1:])
