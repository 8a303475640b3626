"""Every command reports a place where no file may be made in one line, before it does any work."""

from __future__ import annotations

import ctypes
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

import binhop
from binhop import recorder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Command

RUN = ["kh90", "lin", "--length", "1T"]
STUDY = """
name = "s"
title = "Endless"
[[part]]
name = "one"
workloads = ["lin"]
machine = "two-level"
length = "1T"
"""
TO = ("--machine", "zen-4k", "--length", "1T")
WRITING = {
    "import": ["import", "t.din", "-o", "ro/x.parquet"],
    "import --placement": ["import", "t.din", "-o", "x.parquet", "--placement", "ro/p.parquet"],
    "export": ["export", "lin", "--length", "1T", "--to", "din", "-o", "ro/x.din"],
    "mix": ["mix", "lin", "tree", "--length", "1T", "-o", "ro/x.parquet"],
    "run --out": ["run", *RUN, "--out", "ro/out"],
    "run --json": ["run", *RUN, "--json", "ro/x.json"],
    "run --dump-placement": ["run", *RUN, "--dump-placement", "ro/p.parquet"],
    "compare --out": ["compare", *RUN, "--set", "cache.l2.ways=1,2", "--out", "ro/out"],
    "compare --json": ["compare", *RUN, "--set", "cache.l2.ways=1,2", "--json", "ro/x.json"],
    "paging --out": ["paging", "lin", "--length", "1T", "--out", "ro/out"],
    "paging --json": ["paging", "lin", "--length", "1T", "--json", "ro/x.json"],
    "switches --out": ["switches", "timesharing", *TO, "--out", "ro/out"],
    "switches --json": ["switches", "timesharing", *TO, "--json", "ro/x.json"],
    "switches --segments": ["switches", "timesharing", *TO, "--segments", "ro/x.parquet"],
    "translate --out": ["translate", "lin", *TO, "--out", "ro/out"],
    "translate --json": ["translate", "lin", *TO, "--json", "ro/x.json"],
    "io --out": ["io", "lin", *TO, "--out", "ro/out"],
    "io --json": ["io", "lin", *TO, "--json", "ro/x.json"],
    "sweep --out": ["sweep", "s.toml", "--out", "ro/out"],
    "sweep --json": ["sweep", "s.toml", "--json", "ro/x.json"],
    "reproduce": ["reproduce", "lf91", "--scale", "smoke", "--out", "ro/out"],
    "trace cat": ["trace", "cat", "t.parquet", "-o", "ro/x.parquet"],
    "inspect": ["inspect", "t.parquet", "--json", "ro/x.json"],
    "lint": ["lint", "t.parquet", "--json", "ro/x.json"],
}
RECORDING = {
    "record": ["record", "-o", "ro/x.parquet"],
    "record --lackey": ["record", "--lackey", "-o", "ro/x.parquet"],
    "record --schedule native": ["record", "--schedule", "native", "-o", "ro/x.parquet"],
    "record --observe": ["record", "--observe", "ro/x"],
}
PR_CAPBSET_DROP = 24


def powerless() -> None:
    """Drops root's powers for the commands that follow, so that permissions bind them, too."""
    prctl = ctypes.CDLL(None).prctl
    capability = 0
    while prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1


@pytest.fixture
def place(command: Command) -> Iterator[Path]:
    lin = binhop.Trace.workload("lin")
    lin.write(command.directory / "t.parquet", length=1000)
    lin.export(command.directory / "t.din", "din", length=1000)
    (command.directory / "s.toml").write_text(STUDY)
    closed = command.directory / "ro"
    closed.mkdir()
    closed.chmod(0o555)
    probe = subprocess.run(["/bin/sh", "-c", "echo > ro/probe"], cwd=command.directory, **options())
    if probe.returncode == 0:
        pytest.skip("nothing here keeps this user from writing")
    yield closed
    closed.chmod(0o755)


def options() -> dict[str, object]:
    return {"preexec_fn": powerless, "stderr": subprocess.DEVNULL} if os.geteuid() == 0 else {}


def refused(command: Command, words: list[str]) -> str:
    return command.refused(*words, **({"preexec_fn": powerless} if os.geteuid() == 0 else {}))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("words", WRITING.values(), ids=WRITING)
def test_a_directory_that_may_not_be_written_is_named_before_the_run(
    command: Command, words: list[str]
) -> None:
    """The runs would take hours if they began."""
    said = refused(command, words)
    assert "ro/" in said
    assert "Permission denied" in said


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("words", RECORDING.values(), ids=RECORDING)
def test_no_program_is_run_whose_trace_may_not_be_written(command: Command, words: list[str]) -> None:
    installed = recorder.valgrind()
    if installed is None or installed.missing() is not None:
        pytest.skip("the recorder cannot be built here")
    said = refused(command, [*words, "--", "touch", "ran"])
    assert "ro/x" in said
    assert "Permission denied" in said
    assert not (command.directory / "ran").exists()
