"""Tests many processes: a mix of as many files, and a recording."""

from __future__ import annotations

import resource
import subprocess
from typing import TYPE_CHECKING

import pytest

import binhop
from binhop import recorder
from tests.conftest import COMMAND, LOAD, Command, events, long

if TYPE_CHECKING:
    from pathlib import Path


def limit(soft: int, hard: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("traces", "soft"), [(160, 128), long(1000, 256)])
def test_many_traces_are_mixed_whatever_the_soft_limit_of_files(
    command: Command, traces: int, soft: int
) -> None:
    names = [f"t{number:04}.parquet" for number in range(traces)]
    for number, name in enumerate(names):
        rows = [(LOAD, 4096 * number + 64 * row, 8, 1) for row in range(10)]
        binhop.Trace.from_arrow(events(rows)).write(command.directory / name, threads=1)
    done = command("mix", *names, "-o", "m.parquet", preexec_fn=lambda: limit(soft, 4096))
    assert done.returncode == 0, done.stderr
    mixed = binhop.Trace.open(command.directory / "m.parquet")
    assert mixed.references == 10 * traces
    assert mixed.inspect()["totals"]["events"]["switch"] == traces - 1
    done = command("trace", "cat", *names, "-o", "c.parquet", preexec_fn=lambda: limit(soft, 4096))
    assert done.returncode == 0, done.stderr
    assert binhop.Trace.open(command.directory / "c.parquet").references == 10 * traces
    said = command.refused("mix", *names, "-o", "n.parquet", preexec_fn=lambda: limit(soft, soft))
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


@pytest.mark.parametrize("processes", [6, long(30)])
def test_processes_are_recorded(command: Command, processes: int) -> None:
    recorded(command, processes)
    assert {path.name for path in command.directory.iterdir()} == {"r.parquet"}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_thousand_processes_are_recorded(command: Command) -> None:
    recorded(command, 1000)
