"""Tests Ctrl-C: commands end promptly with exit code 130 and leave complete files or none."""

from __future__ import annotations

import errno
import json
import pkgutil
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import binhop
from binhop import cli, interrupts, lazy_imports, long_tables, results
from tests.conftest import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable


def interrupted(directory: Path, *arguments: str, stdin: int | None = None) -> tuple[int, str, float]:
    process = subprocess.Popen(
        [COMMAND, *arguments],
        cwd=directory,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not any(directory.iterdir()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing was begun"
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors, time.monotonic() - sent


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("target", [["--out", "out"], ["--json", "x.json"]], ids=["out", "json"])
def test_a_run_stops_and_leaves_nothing(tmp_path: Path, target: list[str], threads: str) -> None:
    arguments = ["run", "kh90", "lin", "--length", "1T", "--seeds", "4", "--threads", threads, *target]
    code, errors, seconds = interrupted(tmp_path, *arguments)
    assert code == 130
    assert errors == "binhop: interrupted; unfinished work was removed\n"
    assert seconds < 5
    assert list(tmp_path.iterdir()) == []


def test_an_import_stops_and_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(["yes", "2 1000"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        code, errors, seconds = interrupted(
            tmp_path, "import", "--format", "din", "-", "-o", "x.parquet", stdin=endless.stdout.fileno()
        )
        endless.kill()
    assert code == 130, errors
    assert "interrupted" in errors
    assert seconds < 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "kh90", "lin", "--set", "cache.l2.ways=1,2", "--length", "1T", "--out", "out"],
        ["compare", "kh90", "lin", "--set", "cache.l2.ways=1,2", "--length", "1T", "--json", "x.json"],
        ["run", "kh90", "lin", "--length", "1T", "--until", "1%", "--out", "out"],
        ["run", "kh90", "lin", "--length", "1T", "--seed", "3", "--dump-placement", "x.parquet"],
    ],
    ids=["compare --out", "compare --json", "until", "dump"],
)
def test_what_takes_long_stops_and_leaves_nothing(tmp_path: Path, arguments: list[str]) -> None:
    code, errors, seconds = interrupted(tmp_path, *arguments)
    assert code == 130
    assert errors == "binhop: interrupted; unfinished work was removed\n"
    assert seconds < 5
    assert list(tmp_path.iterdir()) == []


def test_a_search_for_a_narrow_interval_stops_between_rounds_too(tmp_path: Path) -> None:
    # Short rounds: the signal meets Python as well as the simulation.
    arguments = ["compare", "kh90", "lin", "--set", "cache.l2.ways=1,2", "--length", "300k"]
    code, _, seconds = interrupted(
        tmp_path, *arguments, "--until", "0.0001%", "--seeds", "4096", "--json", "x.json"
    )
    assert code == 130
    assert seconds < 5
    assert list(tmp_path.iterdir()) == []


def test_a_library_is_not_torn_out_of_its_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(99):\n    whole = True\n"
    (tmp_path / "taken_by_surprise.py").write_text(lines)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        lazy_imports.load("taken_by_surprise")
    assert sys.modules.pop("taken_by_surprise").whole


STUDY = """
name = "s"
title = "One workload that ends and one that does not"
[[part]]
name = "short"
workloads = ["lin"]
machine = "kh90"
length = "10k"
seeds = 2
[[part]]
name = "long"
workloads = ["tree"]
machine = "kh90"
length = "1T"
seeds = 2
"""


def test_a_study_stops_and_keeps_what_is_finished(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "s.toml").write_text(STUDY)
    process = subprocess.Popen(
        [COMMAND, "sweep", "s.toml", "--out", "../out"],
        cwd=tmp_path / "study",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    kept = tmp_path / ".out.finished"
    while not (kept.is_dir() and any(not path.name.startswith(".") for path in kept.iterdir())):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "nothing was finished"
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == (
        f"binhop: 1 finished run is kept in {kept}; the same command goes on from there\n"
        "binhop: interrupted; unfinished work was removed\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.finished", "study"]
    assert sorted(path.name for path in next(kept.iterdir()).iterdir()) == [
        "kept.json",
        "processes.parquet",
        "results.parquet",
        "series.parquet",
    ]


@pytest.mark.parametrize("before", [False, True], ids=["a new place", "an earlier result"])
def test_a_result_that_cannot_be_put_in_place_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], before: bool
) -> None:
    (tmp_path / "s.toml").write_text(STUDY.replace("1T", "10k"))
    sweep = ["sweep", str(tmp_path / "s.toml"), "--quiet", "--out", str(tmp_path / "out")]
    if before:
        assert cli.main(sweep) == 0
    old = {file: file.read_bytes() for file in (tmp_path / "out").glob("*")}
    rename = Path.rename

    def full(self: Path, target: Path) -> Path:
        if self.name.startswith(".out.partial"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    assert cli.main(sweep) == 2
    errors = capsys.readouterr().err
    assert "2 finished runs are kept" in errors
    assert "cannot be put there: No space left on device" in errors
    (complete,) = tmp_path.glob(".out.partial-*")
    assert f"what was written is complete in {complete}" in errors
    assert {"results.parquet", "run.json"} < {file.name for file in complete.iterdir()}
    assert len([*(tmp_path / ".out.finished").iterdir()]) == 2
    assert {file: file.read_bytes() for file in (tmp_path / "out").glob("*")} == old
    monkeypatch.undo()
    assert cli.main(sweep) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [complete.name, "out", "s.toml"]


class Stopped:
    """Sends Ctrl-C when this trace is started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.name: str | None = name
        self.begun: list[str] = []
        for function in (
            "binhop.resumable.simulate_all",
            "binhop.simulate_all",
            "binhop.faults.paging",
            "binhop.reuse_distances.reuse",
        ):
            monkeypatch.setattr(function, self._watched(pkgutil.resolve_name(function)))

    def _watched(self, real: Callable[..., object]) -> Callable[..., object]:
        def watched(*given: object, **options: object) -> object:
            trace = next(each for each in (*given, options.get("trace")) if isinstance(each, binhop.Trace))
            self.begun.append(trace.name)
            if trace.name == self.name:
                raise KeyboardInterrupt
            return real(*given, **options)

        return watched


SEVERAL = {
    "run": ["run", "two-level", "lin", "tree", "sor", "--length", "20k"],
    "compare": [
        "compare",
        "two-level",
        "lin",
        "tree",
        "sor",
        "--length",
        "20k",
        "--set",
        "cache.l2.ways=1,2",
    ],
    "paging": ["paging", "lin", "tree", "sor", "--length", "20k"],
    "reuse": ["reuse", "lin", "tree", "sor", "--length", "20k"],
}


@pytest.mark.parametrize("name", SEVERAL)
def test_traces_that_are_finished_are_kept_and_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [*SEVERAL[name], "--json", "x.json"]
    assert cli.main([*command, "--out", "whole"]) == 0
    stop = Stopped(monkeypatch, "sor")
    assert cli.main([*command, "--out", "out"]) == 130
    printed = capsys.readouterr().err
    kept = tmp_path / ".out.finished"
    assert f"2 finished runs are kept in {kept}; the same command goes on from there" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.finished", "whole", "x.json"]
    stop.name, stop.begun = None, []
    assert cli.main([*command, "--out", "out"]) == 0
    assert stop.begun == ["sor"]
    for file in (tmp_path / "whole").rglob("*"):
        if file.is_file() and file.name != "run.json":
            assert (tmp_path / "out" / file.relative_to(tmp_path / "whole")).read_bytes() == file.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whole", "x.json"]


@pytest.mark.parametrize("name", SEVERAL)
def test_traces_that_are_finished_are_shown_where_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    stop = Stopped(monkeypatch, "sor")
    assert cli.main([*SEVERAL[name], "--json", "x.json"]) == 130
    shown = capsys.readouterr()
    assert shown.err == (
        "binhop: 2 of 3 traces are finished; not finished: sor\n"
        "binhop: interrupted; unfinished work was removed\n"
    )
    assert re.search("^lin.*^tree", shown.out, re.MULTILINE | re.DOTALL)
    assert "note: interrupted; not finished: sor" in shown.out
    written = json.loads((tmp_path / "x.json").read_text())
    assert [trace["name"] for trace in written["provenance"]["traces"]] == ["lin", "tree"]
    assert "interrupted; not finished: sor" in written["provenance"]["notes"]
    stop.name = "lin"
    assert cli.main(SEVERAL[name]) == 130
    assert capsys.readouterr().out == ""


THREE = """
name = "s"
title = "Three workloads, two machines"
seeds = 2
length = "20k"
[[part]]
name = "sizes"
workloads = ["lin", "sor", "tree"]
machine = "kh90"
[part.axes]
"cache.l2.size" = ["1MiB", "4MiB"]
[[part]]
name = "ways"
workloads = ["sor"]
machine = "kh90"
length = "10k"
[part.axes]
"cache.l2.ways" = [1, 2]
"""


def test_the_finished_runs_of_a_study_are_shown_where_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(THREE)
    assert cli.main(["sweep", "s.toml", "--json", "whole.json"]) == 0
    whole = capsys.readouterr().out
    stop = Stopped(monkeypatch, "sor")
    assert cli.main(["sweep", "s.toml", "--json", "x.json"]) == 130
    shown = capsys.readouterr()
    missing = "not finished: sor (4 cells), tree (2 cells)"
    assert shown.err == (
        f"binhop: 1 of 4 runs is finished; {missing}\nbinhop: interrupted; unfinished work was removed\n"
    )
    assert f"note: interrupted; {missing}" in shown.out
    assert "sizes: 2 placements" in shown.out
    assert "ways" not in shown.out
    lines = [line for line in whole.splitlines() if line.startswith("lin ")]
    assert [line for line in shown.out.splitlines() if line.startswith("lin ")] == lines
    assert len(lines) == 2
    written = json.loads(Path("x.json").read_text())
    assert [trace["workload"] for trace in written["provenance"]["traces"]] == ["lin"]
    assert f"interrupted; {missing}" in written["provenance"]["notes"]
    rows = json.loads(Path("whole.json").read_text())["rows"]
    assert written["rows"] == [row for row in rows if row["workload"] == "lin"]
    stop.name = "lin"
    assert cli.main(["sweep", "s.toml"]) == 130
    assert capsys.readouterr().out == ""


def test_rounds_that_are_finished_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    until = ["run", "kh90", "lin", "tree", "--length", "200k", "--until", "0.0001%", "--seeds", "40", "-q"]
    assert cli.main([*until, "--json", "whole.json"]) == 0
    stop = Stopped(monkeypatch, "tree")
    assert cli.main([*until, "--out", "out"]) == 130
    stop.name, stop.begun = None, []
    assert cli.main([*until, "--out", "out", "--json", "again.json"]) == 0
    assert stop.begun == ["tree", "lin", "tree"]
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


@pytest.mark.parametrize("earlier", [False, True], ids=["new", "replaced"])
def test_a_result_that_is_moved_to_its_place_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], earlier: bool
) -> None:
    """Ctrl-C between the steps of the move takes effect after the last step, and the result is complete."""
    arguments = [
        "run",
        "kh90",
        "lin",
        "--length",
        "10k",
        "--seeds",
        "2",
        "-q",
        "--out",
        str(tmp_path / "out"),
    ]
    if earlier:
        assert cli.main(arguments) == 0
        (tmp_path / "out" / "mine.txt").write_text("kept")
    rename = Path.rename

    def disturbed(path: Path, target: Path) -> Path:
        signal.raise_signal(signal.SIGINT)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", disturbed)
    capsys.readouterr()
    assert cli.main(arguments) == 130
    monkeypatch.undo()
    out = tmp_path / "out"
    assert capsys.readouterr().err == f"binhop: {out} is complete\n{interrupts.INTERRUPTED}\n"
    listed = set(json.loads((out / "run.json").read_text())["files"])
    assert {path.name for path in out.iterdir()} == listed | ({"mine.txt"} if earlier else set())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("earlier", [False, True], ids=["new", "replaced"])
def test_an_interrupted_write_leaves_the_finished_runs_and_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], earlier: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [*SEVERAL["run"], "--interval", "100", "-q", "--out", "out"]
    if earlier:
        assert cli.main([*SEVERAL["run"], "-q", "--out", "out"]) == 0
    whole = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    real = results.store_table

    def disturbed(table: long_tables.AnyTable, path: Path) -> None:
        real(table, path)
        assert path.exists()
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as while_writing:
        while_writing.setattr(results, "store_table", disturbed)
        assert cli.main(command) == 130
    printed = capsys.readouterr().err
    assert f"3 finished runs are kept in {tmp_path / '.out.finished'}" in printed
    assert {path.name for path in tmp_path.iterdir()} == {".out.finished"} | ({"out"} if earlier else set())
    assert all(path.read_bytes() == content for path, content in whole.items())
    stop = Stopped(monkeypatch, "")
    assert cli.main(command) == 0
    assert stop.begun == []
    assert pl.read_parquet(tmp_path / "out" / "series.parquet")["workload"].n_unique() == 3
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("earlier", [False, True], ids=["new", "replaced"])
def test_a_trace_that_was_moved_to_its_place_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], earlier: bool
) -> None:
    """Ctrl-C between the move of a trace and the command's end: the trace is there, and the user is told."""
    text, made = tmp_path / "a.din", tmp_path / "a.parquet"
    text.write_text("2 400000\n0 500000\n")
    arguments = ["import", str(text), "-o", str(made)]
    if earlier:
        assert cli.main(arguments) == 0
    write = binhop.Trace.write

    def disturbed(trace: binhop.Trace, *given: Any, **named: Any) -> Any:
        write(trace, *given, **named)
        raise KeyboardInterrupt

    def refused(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(binhop.Trace, "write", disturbed)
    capsys.readouterr()
    assert cli.main(arguments) == 130
    assert f"binhop: {made} is complete\n{interrupts.INTERRUPTED}\n" in capsys.readouterr().err
    assert binhop.Trace.open(made).references == 2
    monkeypatch.setattr(binhop.Trace, "write", refused)
    assert cli.main(arguments) == 130
    assert "is complete" not in capsys.readouterr().err, "this command wrote nothing"
