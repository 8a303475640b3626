"""What the tests share: the command, small traces, and the places of data that may be absent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parent.parent
COMMAND = Path(sys.executable).parent / "binhop"
FETCH, LOAD, STORE, MODIFY = 0, 1, 2, 3


def long(*values: object) -> object:
    """A parameter set of a test that `make test-long` runs: `make test` runs a like one."""
    return pytest.param(*values, marks=pytest.mark.long)


def pairs(firsts: Iterable[object], seconds: Iterable[object]) -> list[object]:
    """Every pair as a parameter set. In `make test` each first value meets one second value."""
    seconds = [*seconds]
    return [
        (first, second) if place == turn % len(seconds) else long(first, second)
        for turn, first in enumerate(firsts)
        for place, second in enumerate(seconds)
    ]


def events(rows: list[tuple[int, int, int, int]]) -> pl.DataFrame:
    """A trace from (op, addr, size, count) rows."""
    schema = {"op": pl.UInt8, "addr": pl.UInt64, "size": pl.UInt32, "count": pl.UInt32}
    return pl.DataFrame(rows, schema=schema, orient="row")


class Command:
    """Runs the command as a user does, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(
        self, *arguments: str, stdin: str = "", **options: object
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "COLUMNS": "80"}
        return subprocess.run(
            [COMMAND, *map(str, arguments)],
            cwd=self.directory,
            input=stdin,
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
            check=False,
            **options,
        )

    def ok(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = self(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done

    def refused(self, *arguments: str, stdin: str = "", **options: object) -> str:
        """The message of a request that was wrong; nothing else was printed, and no file was made."""
        before = self._files()
        done = self(*arguments, stdin=stdin, **options)
        assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        assert self._files() == before, "something half-written was left"
        lines = done.stderr.splitlines()
        assert len(lines) == 1, done.stderr
        assert not lines[0].startswith("binhop: binhop"), "the place repeats the program's name"
        return lines[0]

    def _files(self) -> set[Path]:
        return set(self.directory.rglob("*"))


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.fixture(scope="session")
def lin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace file of 100,000 references."""
    path = tmp_path_factory.mktemp("traces") / "lin.parquet"
    binhop.Trace.workload("lin").write(path, length=100_000)
    return path


@pytest.fixture(scope="session")
def cc1() -> Path:
    path = ROOT.parent / "shared" / "data" / "cc1.din"
    if not path.exists():
        pytest.skip("../shared/data/cc1.din is not here: the comparison on a real compiler is left out")
    return path
