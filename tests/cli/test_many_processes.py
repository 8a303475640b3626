"""Tests many processes: a mix of as many files, and a recording."""

from __future__ import annotations

import resource
import subprocess
from typing import TYPE_CHECKING

import pytest

import binhop
from binhop import recorder
from tests.conftest import COMMAND, LOAD, Command, events

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def thousand(command: Command) -> list[str]:
    names = [f"t{number:04}.parquet" for number in range(1000)]
    for number, name in enumerate(names):
        rows = [(LOAD, 4096 * number + 64 * row, 8, 1) for row in range(10)]
        binhop.Trace.from_arrow(events(rows)).write(command.directory / name, threads=1)
    return names


def limit(soft: int, hard: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_traces_are_mixed_whatever_the_soft_limit_of_files(
    command: Command, thousand: list[str]
) -> None:
    done = command("mix", *thousand, "-o", "m.parquet", preexec_fn=lambda: limit(256, 4096))
    assert done.returncode == 0, done.stderr
    mixed = binhop.Trace.open(command.directory / "m.parquet")
    assert mixed.references == 10_000
    assert mixed.inspect()["totals"]["events"]["switch"] == 999
    done = command("trace", "cat", *thousand, "-o", "c.parquet", preexec_fn=lambda: limit(256, 4096))
    assert done.returncode == 0, done.stderr
    assert binhop.Trace.open(command.directory / "c.parquet").references == 10_000
    said = command.refused("mix", *thousand, "-o", "n.parquet", preexec_fn=lambda: limit(256, 256))
    assert "Too many open files" in said
    assert "raise the limit of open files: `ulimit -n" in said


def recorded(place: Command, processes: int) -> None:
    installed = recorder.valgrind()
    if installed is None or installed.missing() is not None:
        pytest.skip("the recorder cannot be built here")
    loop = f"i=0; while [ $i -lt {processes} ]; do /bin/true; i=$((i+1)); done"
    words = ["record", "-q", "-o", "r.parquet", "--", "sh", "-c", loop]
    subprocess.run([COMMAND, *words], cwd=place.directory, check=True)
    path: Path = place.directory / "r.parquet"
    assert len(binhop.Trace.open(path).meta["processes"]) == processes + 1


def test_thirty_processes_are_recorded(command: Command) -> None:
    recorded(command, 30)
    assert {path.name for path in command.directory.iterdir()} == {"r.parquet"}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_thousand_processes_are_recorded(command: Command) -> None:
    recorded(command, 1000)
