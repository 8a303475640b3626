"""Sends Ctrl-C to long commands at random moments: exit code 130, nothing half-written, a rerun succeeds.

A signal *lands* if the command was running and the signal ended it. Moments are drawn from a seed, within the
time that an undisturbed command takes from its import of binhop.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import binhop
from binhop import recorder
from tests.conftest import COMMAND

installed = recorder.valgrind()
can_record = installed is not None and installed.missing() is None

STUDY = """
name = "s"
title = "Three workloads"
[[part]]
name = "all"
workloads = ["lin", "tree", "sor"]
machine = "kh90"
length = "3M"
seeds = 4
axes = { "cache.l2.ways" = [1, 2] }
"""

COMMANDS = {
    "import": ["import", "--format", "din", "t.din", "-o", "out.parquet"],
    "run": ["run", "kh90", "t.parquet", "lin", "--length", "5M", "--seeds", "8", "--out", "out"],
    "compare": ["compare", "kh90", "lin", "--set", "cache.l2.ways=1,2", "--length", "8M", "--out", "out"],
    "sweep": ["sweep", "s.toml", "--out", "out"],
    "reproduce": ["reproduce", "lf91", "--scale", "smoke", "--out", "out"],
    "record": ["record", "-o", "out.parquet", "--", "sort", "few.din"],
}
SHORTER = {**COMMANDS, "run": [argument.replace("5M", "500k") for argument in COMMANDS["run"]]}
"""The commands of the short tests."""
KEPT = {".out.finished"}
"""The names that may stay for the next attempt."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("signals")
    lin = binhop.Trace.workload("lin")
    lin.write(directory / "t.parquet", length=1_000_000)
    lin.export(directory / "t.din", "din", length=400_000)
    lin.export(directory / "few.din", "din", length=3_000)
    (directory / "s.toml").write_text(STUDY)
    return directory


def has_begun(process: subprocess.Popen[str]) -> bool:
    """Returns whether the process imports binhop."""
    try:
        return "_binhop.abi3" in Path(f"/proc/{process.pid}/maps").read_text()
    except OSError:
        return False


def started(arguments: list[str], directory: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [COMMAND, *arguments],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and not has_begun(process):
        time.sleep(0.001)
    return process


def listing(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} - KEPT


def landed(arguments: list[str], directory: Path, delay: float) -> bool:
    """Sends Ctrl-C after a delay. Returns False if the command had ended before."""
    before = listing(directory)
    process = started(arguments, directory)
    name = arguments[0]
    time.sleep(delay)
    if process.poll() is None:
        # A terminal sends the signal to the command and to the programs that the command runs.
        os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    lines = errors.splitlines()
    if process.returncode == 0:
        # The command had ended before, or so nearly that its result is complete.
        remove(directory)
        return False
    assert process.returncode == 130, (delay, errors)
    assert "Traceback" not in errors, (delay, errors)
    if name != "record":  # there the signal is the program's, which says nothing
        assert lines[-1] == "binhop: interrupted; unfinished work was removed", (delay, errors)
        assert all("kept in" in line or "is complete" in line for line in lines[:-1]), (delay, errors)
    left = listing(directory) - before
    for line in lines:
        if line.endswith(" is complete"):
            place = line.removeprefix("binhop: ").removesuffix(" is complete")
            assert_complete(directory / place)
            left.remove(place)
            remove(directory)
    if name == "record" and "out.parquet" in left:  # the trace up to there
        assert binhop.Trace.open(directory / "out.parquet").references
        left.remove("out.parquet")
        (directory / "out.parquet").unlink()
    assert left == set(), (delay, left)
    return True


def assert_complete(result: Path) -> None:
    """Asserts that a trace is whole, or that a directory holds every file that it lists."""
    if result.suffix == ".parquet":
        assert not [found for found in binhop.Trace.open(result).lint() if found["severity"] == "error"]
        return
    listed = json.loads((result / "run.json").read_text())["files"]
    assert {path.relative_to(result).as_posix() for path in result.rglob("*") if path.is_file()} == set(
        listed
    )


def remove(directory: Path) -> None:
    for name in ("out", "out.parquet"):
        path = directory / name
        if path.is_dir():
            subprocess.run(["rm", "-r", path], check=True)
        path.unlink(missing_ok=True)


def disturbed(arguments: list[str], directory: Path, times: int) -> int:
    """Returns how many signals were sent until enough had landed, after a last run to the end."""
    begin = time.monotonic()
    process = started(arguments, directory)
    begun = time.monotonic()
    process.communicate(timeout=300)
    assert process.returncode == 0
    lasts = time.monotonic() - begun
    assert begun - begin < 60
    remove(directory)
    draw = random.Random(f"signals to {arguments[0]}")
    sent = hits = 0
    while hits < times:
        sent += 1
        hits += landed(arguments, directory, draw.uniform(0, lasts))
        assert sent < 10 * times + 10, "nearly none lands"
    again = started(arguments, directory)
    _, errors = again.communicate(timeout=300)
    assert again.returncode == 0, errors
    assert listing(directory) >= {"t.din"} | ({"out"} if "out" in arguments else {"out.parquet"})
    remove(directory)
    return sent


def skip_where_it_cannot_be(name: str) -> None:
    if name == "record" and not can_record:
        pytest.skip("the recorder cannot be built here")


def _short_first() -> list[Any]:
    """Returns the commands to disturb once: `run` and `record` always, the others in the long tests."""
    always = ("run", "record")
    names = [name for name in COMMANDS if name != "reproduce"]
    return [name if name in always else pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.mark.parametrize("name", _short_first())
def test_ctrl_c_at_random_moments(name: str, inputs: Path) -> None:
    skip_where_it_cannot_be(name)
    disturbed(SHORTER[name], inputs, 1)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_at_200_random_moments(name: str, inputs: Path) -> None:
    skip_where_it_cannot_be(name)
    sent = disturbed(COMMANDS[name], inputs, 34)  # 6 commands
    print(f"{name}: {sent} signals sent, 34 landed and held")
