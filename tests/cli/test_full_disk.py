"""A full disk loses no result: the console shows it, and it reaches every place that has room."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
import vl_convert

from binhop import kept_runs, output
from binhop.reproduce import kh90
from binhop.reproduce.lf91 import study as lf91
from tests.cli.test_interrupt import SEVERAL, THREE
from tests.cli.test_output import COMMANDS, STUDY
from tests.conftest import COMMAND, long

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from tests.conftest import Command


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def here(command: Command) -> Path:
    """Returns the command's directory, with a study of one cell and a study of three runs in it."""
    (command.directory / "s.toml").write_text(STUDY)
    (command.directory / "three.toml").write_text(THREE)
    return command.directory


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a disk without room for a result's last file, which is the list of its files."""
    monkeypatch.setattr("binhop.output.sync", full)


FULL = "cannot be written: No space left on device; give another place, or make room"


@pytest.mark.usefixtures("no_room")
@pytest.mark.parametrize("quiet", [[], ["-q"]], ids=["", "quiet"])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_is_shown_where_the_directory_cannot_be_written(
    command: Command, here: Path, name: str, quiet: list[str]
) -> None:
    arguments = COMMANDS[name]
    shown = command.ok(*arguments[:-2]).stdout
    done = command(*arguments, "--json", "x.json", *quiet)
    assert done.returncode == 2
    assert done.stdout == shown
    lines = done.stderr.splitlines()
    if name == "sweep":
        kept_there = f"1 finished run is kept in {here / '.out.finished'}"
        assert lines.pop(0) == f"binhop: {kept_there}; the same command goes on from there"
    assert lines == [f"binhop: --out: out: {FULL}"]
    assert json.loads((here / "x.json").read_text())["schema"] == 1
    left = {"s.toml", "three.toml", "x.json"} | ({".out.finished"} if name == "sweep" else set())
    assert {path.name for path in here.iterdir()} == left


@pytest.mark.usefixtures("no_room", "here")
@pytest.mark.parametrize("name", COMMANDS)
def test_the_json_goes_to_standard_output_where_the_directory_cannot_be_written(
    command: Command, name: str
) -> None:
    shown = command.ok(*COMMANDS[name][:-2], "--json", "-").stdout
    done = command(*COMMANDS[name], "--json", "-")
    assert done.returncode == 2
    assert done.stdout == shown


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_is_shown_where_the_json_cannot_be_written(command: Command, name: str) -> None:
    arguments = COMMANDS[name][:-2]
    done = command(*arguments, "--json", "/dev/full", "-q")
    assert done.returncode == 2
    assert done.stdout == command.ok(*arguments).stdout
    assert done.stderr == f"binhop: --json: /dev/full: {FULL}\n"


def test_the_table_is_shown_where_the_placement_cannot_be_written(command: Command) -> None:
    run = ["run", "two-level", "lin", "--length", "20k"]
    done = command(*run, "--dump-placement", "/dev/full")
    assert done.returncode == 2
    assert done.stdout == command.ok(*run).stdout
    assert done.stderr == f"binhop: --dump-placement: /dev/full: {FULL}\n"


THREE_RUNS = {**SEVERAL, "sweep": ["sweep", "three.toml"]}


@pytest.mark.parametrize("name", THREE_RUNS)
def test_a_run_that_cannot_be_kept_is_shown_and_no_other_is_begun(
    command: Command, here: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    command.ok(*THREE_RUNS[name], "--json", "whole.json")
    room = [1]
    real = kept_runs.Partial.directory

    def directory(target: Path) -> kept_runs.Partial:
        if target.parent.name == ".out.finished":
            room[0] -= 1
            if room[0] < 0:
                full()
        return real(target)

    monkeypatch.setattr(kept_runs.Partial, "directory", directory)
    done = command(*THREE_RUNS[name], "--out", "out", "--json", "x.json", "-q")
    assert done.returncode == 2
    of, missing = ("4 runs", "tree (2 cells)") if name == "sweep" else ("3 traces", "sor")
    missing = "sor (2 cells), tree (2 cells)" if name == "sweep" else missing
    finished = here / ".out.finished"
    assert done.stderr.splitlines() == [
        f"binhop: 2 of {of} are finished; not finished: {missing}",
        f"binhop: 1 finished run is kept in {finished}; the same command goes on from there",
        f"binhop: finished runs: {finished}: {FULL}",
    ]
    assert f"note: ended early; not finished: {missing}" in done.stdout
    assert not (here / "out").exists()
    written = json.loads((here / "x.json").read_text())
    names = [trace.get("workload", trace.get("name")) for trace in written["provenance"]["traces"]]
    assert names == (["lin", "sor"] if name == "sweep" else ["lin", "tree"])
    monkeypatch.undo()
    command.ok(*THREE_RUNS[name], "--out", "out", "--json", "x.json")
    assert (here / "x.json").read_bytes() == (here / "whole.json").read_bytes()


def test_the_rounds_before_one_that_cannot_be_kept_are_shown(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_runs, "store_table", full)
    until = ["--until", "0.0001%", "--seeds", "40", "--out", "out"]
    for words in (["run", "kh90"], ["compare", "kh90", "--set", "cache.l2.ways=1,2"]):
        done = command(*words, "lin", "--length", "200k", *until)
        assert done.returncode == 2
        assert "note: ended early after 32 placements" in done.stdout.replace("\n", " ")
        assert done.stderr == f"binhop: finished runs: {command.directory / '.out.finished'}: {FULL}\n"
        assert not (command.directory / "out").exists()


@pytest.mark.usefixtures("no_room")
def test_two_places_without_room_are_one_error(command: Command) -> None:
    done = command(*COMMANDS["run"], "--json", "/dev/full")
    assert done.returncode == 2
    assert "l1d" in done.stdout
    assert done.stderr == f"binhop: --out: out: {FULL}\n"


def test_a_reader_that_has_gone_hides_no_error(command: Command) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [COMMAND, *COMMANDS["run"][:-2], "--json", "/dev/full"],
        cwd=command.directory,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 2
    assert done.stderr == f"binhop: --json: /dev/full: {FULL}\n"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Makes the reproduction of papers take seconds, with empty pictures. Other tests draw them."""
    monkeypatch.setitem(lf91.LENGTHS, "smoke", dict.fromkeys(lf91.REFERENCES, 20_000))
    monkeypatch.setattr(vl_convert, "svg_to_png", lambda *_, **__: b"")
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", lambda *_, **__: "")
    text = re.sub(r'^length = ".*"$', 'length = "20k"', kh90.STUDY.read_text(), flags=re.MULTILINE)
    (tmp_path / "kh90.toml").write_text(re.sub(r"^seeds = \d+", "seeds = 3", text, flags=re.MULTILINE))
    monkeypatch.setattr(kh90, "STUDY", tmp_path / "kh90.toml")


FIRST = {"lf91": "binhop.reproduce.lf91.study.write_parquet", "kh90": "binhop.study.result.write_parquet"}
"""The functions that write the first table of each paper's study."""


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("paper", "quiet"), [("lf91", []), long("lf91", ["-q"]), long("kh90", ["-q"])])
def test_the_claims_are_shown_where_a_reproduction_cannot_be_written(
    command: Command, monkeypatch: pytest.MonkeyPatch, paper: str, quiet: list[str]
) -> None:
    reproduce = ["reproduce", paper, "--scale", "smoke"]
    shown = command.ok(*reproduce, "--out", "whole").stdout
    claims = shown[: shown.index("written:")]
    assert "undecided" in claims
    real = output.write_parquet

    def no_room_in_the_result(frame: pl.DataFrame, to: Path, *more: dict[str, str]) -> None:
        if ".out.partial-" in str(to):
            full()
        real(frame, to, *more)

    for at, function in ((FIRST[paper], no_room_in_the_result), ("binhop.output.sync", full)):
        with monkeypatch.context() as disk:
            disk.setattr(at, function)
            done = command(*reproduce, "--out", "out", *quiet)
        assert done.returncode == 2
        assert done.stdout == claims
        assert done.stderr.splitlines()[-1] == f"binhop: --out: out: {FULL}"
        left = {path.name for path in command.directory.iterdir()}
        assert left == {".out.finished", "whole", "kh90.toml"}
    command.ok(*reproduce, "--out", "out")


@pytest.mark.usefixtures("short")
def test_a_pass_that_cannot_be_kept_is_not_lost_to_the_claims(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduce = ["reproduce", "lf91", "--scale", "smoke", "--threads", "6"]
    shown = command.ok(*reproduce, "--out", "whole").stdout
    begun = threading.Barrier(6)
    real_find = kept_runs.KeptRuns.find
    monkeypatch.setattr(
        kept_runs.KeptRuns, "find", lambda *arguments: (begun.wait(), real_find(*arguments))[1]
    )
    monkeypatch.setattr(kept_runs, "store_table", full)
    assert command.ok(*reproduce, "--out", "out").stdout == shown.replace("whole", "out")
