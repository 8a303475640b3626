"""Tests the order between processes: observed natively, kept in a file, and followed.

Tests of native runs are skipped where the kernel does not permit tracing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from binhop import _binhop
from tests.cli.test_record import meta, pytestmark, record, sound  # noqa: F401  # skipped without a recorder
from tests.conftest import COMMAND, Command

_REFUSED = _binhop.tracing_refused()
traced = pytest.mark.skipif(_REFUSED is not None, reason=f"no tracing here: {_REFUSED}")

LINE = "echo run >> runs; sort f | gzip > /dev/null; exit 3"


@pytest.fixture
def lines(command: Command) -> None:
    (command.directory / "f").write_text("\n".join(str(n * 7919 % 3001) for n in range(3000)))


def runs(command: Command) -> int:
    """Returns how often the line ran."""
    return len((command.directory / "runs").read_text().splitlines())


@traced
@pytest.mark.usefixtures("lines")
def test_the_native_order_takes_two_runs(command: Command) -> None:
    done = record(command, "--schedule", "native", "--", "sh", "-c", LINE)
    assert (done.returncode, runs(command)) == (3, 2)
    sound(command)
    about = meta(command.directory / "t.parquet")
    assert about["schedule"] == "native"
    assert [process["command"] for process in about["processes"].values()] == ["sh", "sort", "gzip"]


@traced
@pytest.mark.usefixtures("lines")
def test_an_observed_order_is_followed_later(command: Command) -> None:
    done = command("record", "--observe", "order.txt", "--", "sh", "-c", LINE)
    assert (done.returncode, done.stdout, done.stderr, runs(command)) == (3, "", "", 1)
    assert [path.name for path in command.directory.glob("*.parquet")] == []
    for _ in range(2):
        assert record(command, "--schedule", "order.txt", "--", "sh", "-c", LINE).returncode == 3
        sound(command)
        assert meta(command.directory / "t.parquet")["schedule"] == "native"
    assert runs(command) == 3


@traced
@pytest.mark.parametrize("how", [["--observe", "order.txt"], ["-o", "t.parquet", "--schedule", "native"]])
def test_a_request_to_end_reaches_the_observed_program(command: Command, how: list[str]) -> None:
    # It ends as a server does, with exit code 0.
    line = "trap 'echo asked > asked; exit 0' TERM; echo up >> up; while [ ! -e late ]; do :; done"
    process = subprocess.Popen([COMMAND, "record", *how, "--", "sh", "-c", line], cwd=command.directory)
    try:
        deadline = time.monotonic() + 60
        while not (command.directory / "up").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGTERM)
        # The observed run ended the program; the recording does not run it again.
        assert process.wait(30) == (0 if how[0] == "--observe" else 2)
    finally:
        (command.directory / "late").touch()
        process.kill()
    assert (command.directory / "asked").exists()
    assert (command.directory / "up").read_text() == "up\n"
    assert (command.directory / "order.txt").exists() == (how[0] == "--observe")


@pytest.mark.skipif(_REFUSED is None, reason="tracing is permitted here")
@pytest.mark.parametrize("how", [["--observe", "order.txt"], ["-o", "t.parquet", "--schedule", "native"]])
def test_without_permission_it_is_said_what_to_do(command: Command, how: list[str]) -> None:
    assert "be root, with tracefs mounted" in command.refused("record", *how, "--", "true")


def test_an_order_that_is_none_is_refused(command: Command) -> None:
    (command.directory / "order.txt").write_text("first come, first served\n")
    message = command.refused("record", "-o", "t.parquet", "--schedule", "order.txt", "--", "true")
    assert "order.txt" in message


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["-o", "t.parquet"], "-o t.parquet"),
        (["--limit", "5"], "--limit 5"),
        (["--skip", "5"], "--skip 5"),
        (["--only", "sh"], "--only sh"),
        (["--fetch", "instruction"], "--fetch instruction"),
        (["--schedule", "native"], "--schedule native"),
        (["--seed", "5"], "--seed 5"),
        (["--lackey"], "--lackey"),
    ],
)
def test_what_an_observed_run_would_ignore_is_refused(command: Command, words: list[str], given: str) -> None:
    message = command.refused("record", "--observe", "order.txt", *words, "--", "true")
    assert message.startswith(f"binhop: --observe: {given}: no trace is made where a command is observed; ")
