"""The JSON of commands matches the schema in the package and in the documentation."""

from __future__ import annotations

import inspect
import json
import tracemalloc
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from binhop.cli.options import written_as_json
from binhop.escape import json_text
from binhop.schema import OUTPUTS, provenance, reports, results, rows
from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.conftest import Command

SCHEMA = json.loads((files("binhop") / "result.schema.json").read_text(encoding="utf-8"))
SOURCE = "2 1000\n0 2000\n1 3000\n2 1004\n" + "".join(f"0 {4096 * n:x}\n2 {n:x}\n" for n in range(64))
STUDY = """
name = "s"
title = "t"
seeds = 2
length = "2k"
[[part]]
name = "a"
workloads = ["lin"]
machine = "kh90"
axes = { "cache.l2.size" = ["64KiB", "128KiB"] }
[[part]]
name = "b"
workloads = ["lin"]
machine = "kh90"
"""
COMMANDS: list[tuple[str, ...]] = [
    ("run", "kh90", "lin", "--length", "20k", "--seeds", "2"),
    ("run", "kh90", "a.din", "--top-conflicts", "2", "--seeds", "2", "--warmup", "10", "--interval", "10"),
    ("run", "kh90", "lin", "a.din", "--length", "20k", "--until", "50%", "--seeds", "8"),
    ("run", "two-level", "trace.parquet"),
    ("compare", "kh90", "a.din", "lin", "--length", "2k", "--set", "placement.policy=random,first"),
    ("compare", "kh90", "lin", "--length", "2k", "--set", "cache.l2.ways=1,2", "--until", "50%"),
    ("compare", "two-level", "lin", "--length", "2k", "--set", "cache.l2.ways=1,2"),
    ("sweep", "s.toml"),
    ("reuse", "a.din", "trace.parquet", "--simulate", "4KiB"),
    ("paging", "a.din", "trace.parquet", "--sizes", "1MiB,2MiB", "--colors", "1,4,64"),
    ("switches", "two.parquet", "--machine", "zen-4k", "--seeds", "2"),
    (
        "surface",
        "lin",
        "tree",
        "--machine",
        "zen-4k",
        "--quantum",
        "5k,9k",
        "--length",
        "30k",
        "--seeds",
        "2",
    ),
    ("translate", "lin", "--machine", "zen-4k,jm97", "--length", "20k", "--seeds", "2"),
    ("io", "lin", "--machine", "zen-4k", "--length", "20k", "--seeds", "2"),
    ("inspect", "a.din"),
    ("inspect", "trace.parquet"),
    ("inspect", "mult1", "--length", "20k"),
    ("lint", "bad.events"),
    ("lint", "a.din"),
    ("doctor",),
    ("machines",),
    ("machines", "kh90"),
    ("workloads",),
    ("policies",),
    ("counters",),
    ("formats",),
]


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**SCHEMA, "anyOf": [{"$ref": f"#/$defs/{name}"}]})


def leaves(errors: Iterable[jsonschema.ValidationError]) -> Iterator[jsonschema.ValidationError]:
    """Yields the errors from which the others follow."""
    for error in errors:
        if error.context:
            yield from leaves(error.context)
        else:
            yield error


def place_of(error: jsonschema.ValidationError) -> str:
    """Returns the file, line and name of the class whose object is wrong."""
    name = error.schema.get("title", "")
    modules = (provenance, reports, results, rows)
    found = next((getattr(module, name) for module in modules if hasattr(module, name)), None)
    if found is None:
        return f"python/binhop/schema at {error.json_path}"
    file = Path(inspect.getsourcefile(found)).relative_to(ROOT)
    return f"{file}:{inspect.getsourcelines(found)[1]}: {name}"


@pytest.fixture
def place(command: Command, lin: Path) -> Command:
    (command.directory / "a.din").write_text(SOURCE)
    (command.directory / "s.toml").write_text(STUDY)
    (command.directory / "bad.events").write_text("switch asid=1 cause=9\nkernel-leave\nload 0x1000 size=8\n")
    (command.directory / "trace.parquet").symlink_to(lin)
    command.ok("mix", "lin", "tree", "--length", "30k", "--quantum", "5k", "-o", "two.parquet", "--quiet")
    return command


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_the_output_is_what_the_schema_declares(arguments: tuple[str, ...], place: Command) -> None:
    done = place(*arguments, "--json", "-")
    assert done.returncode == (2 if "bad.events" in arguments else 0), done.stderr
    written = json.loads(done.stdout)
    undeclared = [
        f"{place_of(error)}: {error.message}; declare each key with its meaning, and run docs/generate.py"
        for error in leaves(validator(arguments[0]).iter_errors(written))
    ]
    assert not undeclared, "\n".join(dict.fromkeys(undeclared))
    jsonschema.Draft202012Validator(SCHEMA).validate(written)


@pytest.mark.parametrize("name", ["machines", "workloads", "policies", "counters", "formats", "lint a.din"])
def test_a_list_is_written_to_a_file_and_nothing_is_printed(name: str, place: Command) -> None:
    assert place.ok(*name.split(), "--json", "x.json").stdout == ""
    written = json.loads((place.directory / "x.json").read_text())
    assert written == json.loads(place.ok(*name.split(), "--json", "-").stdout)


def test_every_output_is_tried() -> None:
    assert {arguments[0] for arguments in COMMANDS} == set(OUTPUTS)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda made: made.update(more=1), "more"),
        (lambda made: made.pop("rows"), "rows"),
        (lambda made: made["rows"][0].update(value="12"), "value"),
        (lambda made: made["rows"][0].update(phase="later"), "phase"),
        (lambda made: made["provenance"].update(seeds=0), "seeds"),
        (lambda made: made.update(schema=2), "schema"),
    ],
)
def test_the_schema_refuses_what_is_no_result(change: Any, says: str, place: Command) -> None:
    made = json.loads(place.ok("run", "two-level", "a.din", "--json", "-").stdout)
    assert validator("run").is_valid(made)
    change(made)
    notes = [
        f"{each.json_path} {each.message}"
        for error in validator("run").iter_errors(made)
        for each in error.context or [error]
    ]
    assert any(says in words for words in notes), notes


def test_a_measurement_is_no_list(command: Command) -> None:
    assert "--calibrate" in command.refused("workloads", "--calibrate", "--json", "-")


def test_writing_takes_no_memory_that_grows_with_what_is_written(command: Command) -> None:
    target = command.directory / "x.json"

    def most(rows: int) -> int:
        value = [{"asid": row, "command": "\x7f", "work": [row, 2 * row]} for row in range(rows)]
        tracemalloc.start()
        assert written_as_json(value, str(target), force=True)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert target.read_text() == json_text(value, indent=2) + "\n"
        return peak

    most(10)
    assert most(8000) < most(4000) + 100_000
