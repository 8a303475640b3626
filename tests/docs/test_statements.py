"""Tests statements that the documents make in words."""

from __future__ import annotations

import re
import runpy
import tomllib
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop import _binhop, study
from tests.conftest import ROOT, events

if TYPE_CHECKING:
    from pathlib import Path

STORES = [(2, 4096 * (7 * n % 64), 8, 1) for n in range(2000)]
SMALL = ["memory.size=128KiB", "memory.page=4KiB", "placement.pool=64KiB", "cache.l2.size=64KiB"]


def test_dirty_lines_of_a_frame_that_changes_hands_go_to_memory_as_kind_system() -> None:
    result = binhop.simulate(
        binhop.Machine.load("kh90", SMALL), binhop.Trace.from_arrow(events(STORES)), seeds=1
    )
    metrics = result.results["metric"].to_list()
    caches = ("l1i", "l1d", "l2")
    sent = [result.value(f"{cache}.system.sent") for cache in caches]
    assert sent == [result.value(f"{cache}.purged.dirty") for cache in caches]
    assert sum(sent) == result.value("memory.system.accesses") > 0
    assert not [
        name for name in metrics if re.search(r"system\.(accesses|misses)", name) and "memory" not in name
    ]


def test_the_kinds_of_access_are_those_of_the_metrics() -> None:
    known = {name for name, *_ in _binhop.kinds()}
    found = set()
    for machine in binhop.machines()["name"]:
        result = binhop.simulate(machine, "lin", length=2000, seeds=1)
        for metric in result.results["metric"].unique():
            if metric.endswith((".accesses", ".sent", ".misses", ".compulsory")):
                found.add(metric.split(".")[-2])
    assert found <= known
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert all(f"| `{name}` | {'yes' if demand else 'no'} |" in page for name, demand, _ in _binhop.kinds())


@pytest.mark.parametrize("name", binhop.workloads()["name"])
def test_every_workload_is_described(name: str) -> None:
    """The list in policies-and-workloads.md is generated; the description is written by hand."""
    page = ROOT / "docs" / "workloads.md"
    assert f"`{name}`" in page.read_text(), f"{page} describes no `{name}`: add a row to its first table"


@pytest.mark.parametrize("name", binhop.policies()["name"])
def test_every_policy_is_explained(name: str) -> None:
    """The list in policies-and-workloads.md is generated; the explanation is written by hand."""
    page = ROOT / "docs" / "placement.md"
    text = page.read_text()
    assert f"**{name}**" in text or f"`{name}`" in text, (
        f"{page} explains no **{name}**: add it to its policies"
    )


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["line=8B"], None),
        (["line=4B"], "at least 8"),
        (["line=48B"], "power of two"),
        (["line=16KiB"], None),
        (["line=32KiB"], "no larger than a page"),
        (["size=96KiB", "ways=3"], None),
        (["size=96KiB", "ways=2"], "power of two"),
        (["size=96KiB", "ways=3", "replacement=plru"], "power of two"),
        (["size=96KiB", 'ways="full"'], None),
        (["size=100B", 'ways="full"'], "whole number of lines"),
    ],
)
def test_sizes_of_a_cache(settings: list[str], says: str | None) -> None:
    """The machine has pages of 16 KiB and one cache, which is its last."""
    machine = """
        memory = { size = "1MiB", page = "16KiB" }
        [cache.a]
        serves = "all"
        size = "64KiB"
        line = "32B"
        next = "memory"
    """
    given = [f"cache.a.{setting}" for setting in settings]
    if says is None:
        binhop.Machine.parse(machine, "machine", given)
        return
    with pytest.raises(binhop.RequestError, match=says):
        binhop.Machine.parse(machine, "machine", given)


def test_flags_are_a_sum_or_letters(tmp_path: Path) -> None:
    forms = {"r--": 1, "-w-": 2, "--x": 4, "r-x": 5, "rw-s": 11, "rw-g": 19, "rwxsg": 31, "---": 0}
    lines = [f"map {n << 16:#x} pages=1 flags={form}" for n, form in enumerate(forms)]
    lines += [f"map {n << 20:#x} pages=1 flags={flags}" for n, flags in ((1, "11"), (2, "0x1f"), (3, "64"))]
    (tmp_path / "a.events").write_text("\n".join([*lines, "load 0x0 size=8"]) + "\n")
    trace = binhop.Trace.open(tmp_path / "a.events")
    sizes = pl.concat(trace.batches())["size"].to_list()
    assert sizes[:-1] == [*forms.values(), 11, 31, 64]
    assert {letter: flag for letter, flag, _ in _binhop.map_flags()} == {
        "r": 1,
        "w": 2,
        "x": 4,
        "s": 8,
        "g": 16,
    }


def test_a_study_has_a_name_without_blanks_and_any_title() -> None:
    rest = '[[part]]\nname = "p"\nworkloads = ["lin"]\nmachine = "kh90"\n'
    title = "Do ways | help? <b>"
    assert study.parse(f'name = "s"\ntitle = "{title}"\n{rest}').title == title
    for text, place in (
        ('name = "s"\n', "title"),
        ('title = "t"\n', "name"),
        ('name = "a b"\ntitle = "t"\n', "name"),
    ):
        with pytest.raises(binhop.RequestError) as refused:
            study.parse(text + rest)
        assert place in refused.value.place


TERMS = {
    term: sentence
    for section in tomllib.loads((ROOT / "docs" / "glossary.toml").read_text()).values()
    for term, sentence in section.items()
}


def test_each_term_has_one_sentence() -> None:
    for term, sentence in TERMS.items():
        assert re.fullmatch(r"[A-Z][^.]*(\.[a-z][^.]*)*\.", sentence), term


def test_terms_that_the_architecture_introduces_are_in_the_glossary() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    introduced = {name.lower() for name in re.findall(r"(?<!\*)\*([A-Za-z ]+)\*(?!\*)", text)} - {"every"}
    verbs = {"skipped": "skip", "passed": "pass"}
    introduced = {verbs.get(name) or re.sub("(?<!s)s$", "", name) for name in introduced}
    assert {"agent", "occasion", "unit", "stepper", "fast path"} <= introduced
    assert introduced <= set(TERMS)


def test_the_words_of_a_plan_are_in_the_glossary() -> None:
    machines = [binhop.Machine.load("kh90", [f"cache.l2.ways={ways}"]) for ways in (1, 2)]
    lines = binhop.explain([*machines, "zen-4k"], seeds=4)
    found = set()
    for line in lines:
        head = re.sub(r" \(.*", "", line.split(":")[0]).strip()
        numbered = re.findall(r"\d+ ([a-z]+?)s?\b|([a-z]+) \d+", head)
        if ":" in line:
            head = re.sub(r"^(fast path) [a-z-]+ is not taken$", r"\1", head)
            found |= {one or other for one, other in numbered} or {head.removesuffix("s")}
    assert found == {"machine", "seed", "preparation", "front", "lane", "placement", "back", "fast path"}
    assert found | {"study", "part", "cell", "run", "lane", "LRU stack", "round"} <= set(TERMS)
    code_list = runpy.run_path(str(ROOT / "docs" / "generate.py"))["code_list"]
    paths = [name for name, *_ in code_list("binhop-hw/src/fast/mod.rs", "paths")]
    assert [name for name in paths if name not in " ".join(lines)] == []


def test_files_and_functions_that_the_architecture_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    sources = {
        path: path.read_text() for path in (ROOT / "crates").glob("*/**/*.rs") if "target" not in path.parts
    }
    files = [f"/{path.as_posix()}".replace("/binhop-", "/") for path in sources]
    named = re.findall(r"`([a-z_/-]+\.rs)`", text)
    assert len(named) > 20
    assert [name for name in named if not any(file.endswith(f"/{name}") for file in files)] == []
    names = set(re.findall(r"`([A-Z]\w+)::([a-z_]+)", text))
    assert len(names) > 20
    code = "\n".join(sources.values())
    functions = set(re.findall(r"\bfn (\w+)", code))
    types = set(re.findall(r"\b(?:struct|enum|trait) (\w+)", code))
    assert [pair for pair in sorted(names) if pair[0] not in types or pair[1] not in functions] == []


def test_the_architecture_lists_every_fast_path() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    code_list = runpy.run_path(str(ROOT / "docs" / "generate.py"))["code_list"]
    listed = re.findall(r"^- \*\*`([a-z-]+)`\*\* \(`fast/\w+(?:\.rs|/)`\)", text, re.MULTILINE)
    assert listed == [name for name, *_ in code_list("binhop-hw/src/fast/mod.rs", "paths")]
