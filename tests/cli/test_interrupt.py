"""Ctrl-C: promptly, exit code 130, complete files or none."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from binhop import cli, lazily
from tests.conftest import COMMAND


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
    assert errors == "binhop: interrupted; nothing unfinished was kept\n"
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
    assert errors == "binhop: interrupted; nothing unfinished was kept\n"
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
        lazily.load("taken_by_surprise")
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
        "binhop: interrupted; nothing unfinished was kept\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.finished", "study"]
    assert sorted(path.name for path in next(kept.iterdir()).iterdir()) == [
        "notes.json",
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
    assert "cannot be written: No space left on device" in errors
    assert len([*(tmp_path / ".out.finished").iterdir()]) == 2
    assert {file: file.read_bytes() for file in (tmp_path / "out").glob("*")} == old
    monkeypatch.undo()
    assert cli.main(sweep) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "s.toml"]
