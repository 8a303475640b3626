"""Tests Ctrl-C while a command waits for a silent pipe or FIFO."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import IO

import pytest

from tests.conftest import COMMAND

LATEST = 60
"""The seconds after which a command counts as hanging: far more than it needs."""


def started(directory: Path, *arguments: str, stdin: int | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, *arguments],
        cwd=directory,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(true: object, process: subprocess.Popen[str]) -> None:
    """Waits until a function returns a true value."""
    deadline = time.monotonic() + LATEST
    while not true():  # type: ignore[operator]
        assert process.poll() is None, process.communicate()
        if time.monotonic() > deadline:
            process.kill()
            pytest.fail("the command never got there")
        time.sleep(0.02)


def stopped(process: subprocess.Popen[str], directory: Path, left: list[str]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=LATEST)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail("Ctrl-C was not heard")
    assert process.returncode == 130, errors
    assert errors.endswith("binhop: interrupted; unfinished work was removed\n")
    assert sorted(path.name for path in directory.iterdir()) == left


def has_opened(process: subprocess.Popen[str], path: Path) -> bool:
    def target(link: Path) -> str:
        try:
            return str(link.readlink())
        except OSError:
            return ""

    return any(target(link) == str(path) for link in Path(f"/proc/{process.pid}/fd").iterdir())


def unread(pipe: IO[bytes] | int) -> int:
    """Returns the number of bytes that wait in a pipe."""
    number: int = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))[0]
    return number


FIFO = "fifo.toml"


@pytest.mark.parametrize(
    "arguments",
    [
        ["import", FIFO, "--format", "din", "-o", "x.parquet"],
        ["run", "kh90", "lin", "--length", "10k", "--v2p", FIFO],
        ["run", "kh90", "lin", "--set", "placement.policy=recorded", "--set", f"placement.file='{FIFO}'"],
        ["run", FIFO, "lin", "--length", "10k"],
        ["sweep", FIFO, "--out", "out"],
    ],
    ids=["trace", "v2p", "placement", "machine", "study"],
)
def test_a_fifo_that_nobody_writes_to(tmp_path: Path, arguments: list[str]) -> None:
    os.mkfifo(tmp_path / FIFO)
    process = started(tmp_path, *arguments)
    until(lambda: has_opened(process, tmp_path / FIFO), process)
    stopped(process, tmp_path, [FIFO])


def test_a_standard_input_that_falls_silent(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    process = started(tmp_path, "import", "-", "--format", "din", "-o", "x.parquet", stdin=reading)
    os.write(writing, b"2 1000\n" * 20)
    until(lambda: unread(reading) == 0, process)
    os.close(reading)
    stopped(process, tmp_path, [])
    os.close(writing)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_trace_that_falls_silent_during_a_run(tmp_path: Path, threads: str) -> None:
    fifo = tmp_path / "t.din"
    os.mkfifo(fifo)
    process = started(tmp_path, "run", "two-level", "t.din", "--threads", threads)
    with fifo.open("wb", buffering=0) as writing:
        writing.write(b"2 1000\n" * 40_000)
        until(lambda: unread(writing) == 0, process)
        stopped(process, tmp_path, ["t.din"])


def test_what_comes_late_is_read(tmp_path: Path) -> None:
    fifo = tmp_path / "t.din"
    os.mkfifo(fifo)
    process = started(tmp_path, "import", "t.din", "-o", "x.parquet")
    until(lambda: has_opened(process, fifo), process)
    time.sleep(0.3)  # longer than a step of the wait
    with fifo.open("wb", buffering=0) as writing:
        writing.write(b"2 1000\n")
        until(lambda: unread(writing) == 0, process)
        time.sleep(0.3)
        writing.write(b"0 2000\n")
    _, errors = process.communicate(timeout=LATEST)
    assert process.returncode == 0, errors
    assert "2 references" in errors


@pytest.mark.parametrize("arguments", [["run", "/dev/zero", "lin"], ["sweep", "/dev/zero"]])
def test_a_text_without_end_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    process = started(tmp_path, *arguments)
    _, errors = process.communicate(timeout=LATEST)
    assert process.returncode == 2, errors
    what = "machine" if arguments[0] == "run" else "study"
    assert f"{what}: /dev/zero: is longer than 16 MiB: it is no {what}; " in errors
