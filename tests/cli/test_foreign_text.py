"""Text in a trace, a file name or a description steers no terminal and names no file elsewhere."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from tests.conftest import COMMAND, Command, events

if TYPE_CHECKING:
    from pathlib import Path

# The text has an operating system command, both forms of CSI, DEL, ends of lines, and bidirectional controls.
STEERS = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\t\r\n\x85\u2028\u2029\u202e\u2066\u200f\u061c[red]"
HOSTILE = f"../../x{STEERS}a|b<script>alert(1)</script>"
IN_A_FILE_NAME = HOSTILE.replace("/", "-")
STEERING = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

MACHINE = f"""
name = {json.dumps(HOSTILE.replace(chr(0x7F), ""))}
memory = {{ size = "1MiB", page = "4KiB" }}
placement = {{ policy = "random", pool = "1MiB" }}
[cache.l2]
serves = "all"
size = "64KiB"
line = "32B"
ways = 1
next = "memory"
[tlb.tlb]
serves = "all"
entries = 4
[translation]
table = "radix"
"""
TWO_LEVELS = (
    MACHINE.replace('serves = "all"\nsize', "size")
    + """
[cache.l1]
serves = "all"
size = "1KiB"
line = "32B"
next = "l2"
"""
)
"""The same machine with a level before its last level."""
STUDY = """
name = "s\\u001b[2J\\u009b"
title = "t\\u001b]0;x\\u0007"
seeds = 2
length = "3k"
[[part]]
name = ".."
workloads = ["lin"]
machine = "kh90"
[part.axes]
"cache.l2.size" = [{ label = "l\\u001b[2J[red]", value = "64KiB" }, "128KiB"]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Makes a trace, its text, a machine and a study in which every name is hostile."""
    tmp_path = tmp_path / "a" / "b" / "c"
    tmp_path.mkdir(parents=True)
    names = {
        "page_size": 4096,
        "recorder": HOSTILE,
        "command": HOSTILE,
        "schedule": HOSTILE,
        "sizes": "exact",
        "processes": {"0": {"pid": 7, "command": HOSTILE}, "1": {"pid": 8, "command": HOSTILE}},
        "segments": {"5": {"file": HOSTILE, "kind": HOSTILE}, "6": {"file": None, "kind": HOSTILE}},
        "files": {"1": HOSTILE},
    }
    lines = [
        f"# meta {json.dumps(names)}",
        "fork asid=1 parent=0",
        "map 0x100000 pages=64 flags=rw- segment=5",
    ]
    lines += ["map 0x800000 pages=64 flags=rw- segment=6", "unmap 0x9900000 pages=1"]
    lines += [f"load {0x100000 + 4096 * (7 * n % 12):#x} size=8" for n in range(400)]
    lines += ["switch asid=1 cause=9", "load 0x7000 size=8", "fetch 0x8000 size=400 count=100"]
    (tmp_path / "names.events").write_text("\n".join(lines) + "\n", encoding="utf-8")
    trace = binhop.Trace.open(tmp_path / "names.events", "text")
    trace.write(tmp_path / f"{IN_A_FILE_NAME}.parquet")
    (tmp_path / f"{IN_A_FILE_NAME}.din").write_text("0 0\n1 40\n")
    (tmp_path / f"{IN_A_FILE_NAME}.bad.din").write_text(f"0 {STEERS}\n")
    (tmp_path / "m.toml").write_text(MACHINE, encoding="utf-8")
    (tmp_path / "two.toml").write_text(TWO_LEVELS, encoding="utf-8")
    (tmp_path / "s.toml").write_text(STUDY, encoding="utf-8")
    program = tmp_path / f"{IN_A_FILE_NAME}.sh"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    return tmp_path


TRACE, DIN, BAD = (f"{IN_A_FILE_NAME}{ending}" for ending in (".parquet", ".din", ".bad.din"))
COSTS = ("--set", "cost.memory=100")
DONE = [
    ("trace", "filter", TRACE, "--process", HOSTILE),
    ("inspect", TRACE),
    ("inspect", TRACE, "--json", "-"),
    ("inspect", DIN),
    ("lint", TRACE),
    ("lint", TRACE, "--json", "-"),
    ("trace", "head", TRACE),
    ("trace", "cat", TRACE, TRACE),
    ("trace", "head", TRACE, "--json-lines"),
    ("trace", "head", TRACE, "-o", f"{STEERS}.parquet"),
    ("import", DIN, "-o", f"{STEERS}.parquet"),
    ("export", TRACE, "--to", "din", "-o", f"{STEERS}.din"),
    ("mix", TRACE, DIN, "-o", f"{STEERS}.parquet"),
    ("run", "m.toml", TRACE, "--seeds", "4", "--top-conflicts", "3", "--out", "out"),
    ("run", "m.toml", TRACE, "--seeds", "4", "--dump-placement", f"{STEERS}.parquet", "--interval", "100"),
    ("run", "m.toml", TRACE, "--seeds", "2", "--top-conflicts", "3", "--json", "-"),
    ("compare", "m.toml", "kh90", TRACE, "--seeds", "4", "--out", "out"),
    ("compare", "m.toml", TRACE, "--set", "placement.policy=random,first", "--seeds", "4", "--out", "out"),
    ("compare", "m.toml", TRACE, "--set", "placement.policy=random,first", "--json", "-"),
    ("paging", TRACE, "--sizes", "1MiB,2MiB", "--out", "out"),
    ("paging", TRACE, "--json", "-"),
    ("switches", TRACE, "--machine", "m.toml", *COSTS, "--seeds", "2", "--out", "out"),
    ("switches", TRACE, "--machine", "m.toml", *COSTS, "--seeds", "2", "--json", "-"),
    ("surface", TRACE, TRACE, "--machine", "m.toml", *COSTS, "--seeds", "1", "--out", "out"),
    ("translate", TRACE, "--machine", "m.toml,zen-4k", *COSTS, "--seeds", "2", "--out", "out"),
    ("translate", TRACE, "--machine", "m.toml", "--seeds", "2", "--json", "-"),
    ("io", TRACE, "--machine", "two.toml", "--seeds", "2", "--out", "out"),
    ("io", TRACE, "--machine", "two.toml", "--seeds", "2", "--json", "-"),
    ("sweep", "s.toml", "--out", "out"),
    ("sweep", "s.toml", "--explain"),
    ("sweep", "s.toml", "--json", "-"),
    ("machines", "m.toml"),
]
REFUSED = [
    ("lint", BAD),
    ("trace", "filter", TRACE, "--kind", HOSTILE),
    ("trace", "slice", TRACE, HOSTILE),
    ("import", BAD, "-o", "x.parquet"),
    ("import", DIN, "-o", "x.parquet", "--format", HOSTILE),
    ("export", TRACE, "--to", HOSTILE, "-o", "x.din"),
    ("run", "m.toml", HOSTILE),
    ("run", HOSTILE, "lin"),
    ("run", "kh90", "lin", "--set", f"cache.l2.size={STEERS}"),
    ("run", "kh90", "lin", "--set", f"{STEERS}=1"),
    ("run", "kh90", "lin", f"--{STEERS}"),
    ("run", "kh90", "lin", "--metric", STEERS, "--until", "2%"),
    ("compare", "kh90", "two-level", "lin", "--baseline", HOSTILE),
    ("sweep", "s.toml", "--scale", HOSTILE),
    ("machines", HOSTILE),
    ("report", HOSTILE),
    ("record", "-o", f"{STEERS}.parquet", "--", HOSTILE),
    (HOSTILE,),
]
SILENT = [("lint", TRACE), ("lint", TRACE, "--json", "-"), ("trace", "head", TRACE, "--json-lines")]
"""The commands that show rows and no names."""


def run(place: Path, *arguments: str, code: int = 0) -> str:
    done = Command(place)(*arguments)
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert "an error of binhop itself" not in said
    return said


@pytest.mark.parametrize(
    ("arguments", "code"),
    [*((words, 0) for words in DONE), *((words, 2) for words in REFUSED)],
    ids=lambda value: " ".join(value)[:40].encode("unicode_escape") if isinstance(value, tuple) else "",
)
def test_nothing_foreign_steers_a_terminal_or_names_a_file_elsewhere(
    place: Path, arguments: tuple[str, ...], code: int
) -> None:
    above = place.parent.parent.parent
    before = {path for path in above.rglob("*") if place / "out" not in path.parents}
    said = run(place, *arguments, code=code)
    assert not STEERING.search(said), STEERING.findall(said)
    assert arguments in SILENT or "\\x1b" in said or "\\u001b" in said, said
    made = {path for path in above.rglob("*") if place / "out" not in path.parents} - before
    named = {place / "out", place / "x.parquet", *(place / f"{STEERS}{end}" for end in (".parquet", ".din"))}
    assert made <= named, made
    for svg in place.glob("out/*.svg"):
        ET.parse(svg)
        assert not STEERING.search(svg.read_text(encoding="utf-8"))


def test_a_picture_of_hostile_names_is_made_in_its_directory(place: Path) -> None:
    run(place, "run", "m.toml", TRACE, "--seeds", "4", "--out", "out")
    pictures = sorted((place / "out").glob("*.png"))
    assert len(pictures) == 1
    assert pictures[0].read_bytes().startswith(b"\x89PNG")
    said = run(place, "report", "out")
    assert not STEERING.search(said)
    assert sorted((place / "out").glob("*.png")) == pictures


def test_text_lines_of_hostile_metadata_read_back_to_the_same_trace(place: Path) -> None:
    text = subprocess.run(
        [COMMAND, "trace", "cat", TRACE], cwd=place, capture_output=True, check=True
    ).stdout.decode()
    assert not STEERING.search(text)
    (place / "again.events").write_text(text, encoding="utf-8")
    binhop.Trace.open(place / "again.events").write(place / "again.parquet")
    first, again = binhop.Trace.open(place / TRACE), binhop.Trace.open(place / "again.parquet")
    assert again.meta == first.meta
    assert again.meta["command"] == HOSTILE
    assert pl.concat(again.batches()).equals(pl.concat(first.batches()))


def test_a_machine_of_a_hostile_name_is_read_back_from_its_own_description(place: Path) -> None:
    machine = binhop.Machine.load(str(place / "m.toml"))
    again = binhop.Machine.parse(machine.resolved())
    assert again == machine
    assert again.name == machine.name
    assert not STEERING.search(machine.resolved())


def test_a_terminal_is_shown_what_a_pipe_is(place: Path) -> None:
    """A terminal also gets rich's own styling and the titles of progress. No word in brackets is markup."""
    for arguments in (("inspect", TRACE), ("run", "m.toml", TRACE, "--seeds", "256", "--interval", "100")):
        master, slave = pty.openpty()
        with subprocess.Popen(
            [COMMAND, *arguments], cwd=place, stdout=slave, stderr=slave, stdin=slave
        ) as child:
            os.close(slave)
            said = b""
            while True:
                try:
                    part = os.read(master, 1 << 16)
                except OSError:
                    break
                if not part:
                    break
                said += part
            assert child.wait() == 0, said
        os.close(master)
        shown = said.decode()
        assert "\x1b]" not in shown
        assert not re.search("[\x07\x7f-\x9f\u2028-\u202e\u2066-\u2069]", shown)
        assert "\x1b[2J" not in shown
        assert "[red]" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|[\r\n]|\s", "", shown)


def test_a_name_that_is_no_utf8_is_refused_in_a_line(command: Command) -> None:
    name = os.fsdecode(b"\xff\x9b.din")
    (command.directory / name).write_text("0 0\n")
    message = command.refused("run", "kh90", name)
    assert message.startswith("binhop: \\xff\\x9b.din: ")
    assert "UTF-8" in message
    with pytest.raises(binhop.RequestError, match="UTF-8"):
        binhop.Trace.open(command.directory / name)


def test_what_python_shows_is_escaped(tmp_path: Path) -> None:
    error = binhop.RequestError(HOSTILE, "a\nb", STEERS, "\udcff")
    assert not re.search(f"{STEERING.pattern}|\n", str(error))
    trace = binhop.Trace.from_arrow(events([(1, 0x1000 * n, 4, 1) for n in range(64)]), HOSTILE)
    result = binhop.simulate("kh90", trace, seeds=2)
    compared = binhop.compare({HOSTILE: "kh90", "b": "two-level"}, trace, seeds=2)
    for shown in (trace, result, compared, binhop.paging(trace)):
        assert not STEERING.search(repr(shown))
    result.write(tmp_path / "up" / "out")
    compared.write(tmp_path / "up" / "more")
    assert {path.name for path in tmp_path.iterdir()} == {"up"}
    assert {path.name for path in (tmp_path / "up").iterdir()} == {"out", "more"}


def test_a_command_of_any_length_is_cut_where_it_is_shown(command: Command) -> None:
    said = "Q" * 300_000
    meta = {"page_size": 4096, "command": said, "processes": {"0": {"pid": 7, "command": said}}}
    row = {"op": [1], "addr": [4096], "size": [8], "count": [1]}
    types = {"op": pl.UInt8, "addr": pl.UInt64, "size": pl.UInt32, "count": pl.UInt32}
    path = command.directory / "t.parquet"
    pl.DataFrame(row, schema=types).write_parquet(path, metadata={"binhop.meta": json.dumps(meta)})
    shown = command.ok("inspect", "t.parquet").stdout
    assert "Q…(300000characters)" in "".join(shown.split())
    # The text has the command, then the first 32 characters of the process's command.
    assert shown.count("Q") == 4096 + 32
    report = json.loads(command.ok("inspect", "t.parquet", "--json", "-").stdout)
    assert report["meta"]["command"] == report["processes"][0]["command"] == said


def test_inspect_shows_as_many_address_spaces_as_anybody_reads(command: Command) -> None:
    spaces = 1003
    lines = [line for asid in range(spaces) for line in (f"switch asid={asid} cause=2", "load 0x1000 size=8")]
    (command.directory / "t.events").write_text("\n".join(lines) + "\n")
    shown = command.ok("inspect", "t.events").stdout
    assert len(re.findall(r"^\d+ +- +- ", shown, re.MULTILINE)) == 1000
    assert "3 more address spaces: --json lists all" in shown
    report = json.loads(command.ok("inspect", "t.events", "--json", "-").stdout)
    assert [process["asid"] for process in report["processes"]] == list(range(spaces))
