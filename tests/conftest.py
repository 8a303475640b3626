"""Fixtures and helpers of all tests: the command, small traces, and the paths of optional data."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop import cli

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).parent.parent
COMMAND = Path(sys.executable).parent / "binhop"
FETCH, LOAD, STORE, MODIFY, SWITCH = 0, 1, 2, 3, 4


def long(*values: object) -> object:
    """Returns a parameter set that only `make test-long` runs; `make test` runs a similar set."""
    return pytest.param(*values, marks=pytest.mark.long)


def pairs(firsts: Iterable[object], seconds: Iterable[object]) -> list[object]:
    """Returns every pair as a parameter set. `make test` runs one pair for each first value."""
    seconds = [*seconds]
    return [
        (first, second) if place == turn % len(seconds) else long(first, second)
        for turn, first in enumerate(firsts)
        for place, second in enumerate(seconds)
    ]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the studies first: their fixtures take longest, and would leave a processor idle at the end."""
    items.sort(key=lambda item: "studies" not in item.path.parts)


def events(rows: list[tuple[int, int, int, int]]) -> pl.DataFrame:
    """Returns a trace with the given (op, addr, size, count) rows."""
    schema = {"op": pl.UInt8, "addr": pl.UInt64, "size": pl.UInt32, "count": pl.UInt32}
    return pl.DataFrame(rows, schema=schema, orient="row")


class Command:
    """`Command` runs the `binhop` command as a user does, in a directory of its own.

    The command runs within the process of the tests, which has imported everything already, because starting
    Python takes longer than most commands. A recording runs in a process of its own, and so does a command
    with options of `subprocess.run`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(
        self, *arguments: str, stdin: str = "", **options: object
    ) -> subprocess.CompletedProcess[str]:
        if options or arguments[:1] == ("record",):
            return self.apart(*arguments, stdin=stdin, **options)
        return self._within(arguments, stdin)

    def apart(self, *arguments: str, stdin: str = "", **options: object) -> subprocess.CompletedProcess[str]:
        """Runs the command in a process of its own, with pipes as its streams."""
        return subprocess.run(
            [COMMAND, *map(str, arguments)],
            cwd=self.directory,
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "80"},
            timeout=120,
            check=False,
            **options,
        )

    def _within(self, arguments: Sequence[str], stdin: str) -> subprocess.CompletedProcess[str]:
        words = [str(COMMAND), *map(str, arguments)]
        with ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(stdin.encode())
            files[0].seek(0)
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.chdir(self.directory)
            patch.setattr(sys, "argv", words)
            patch.setattr(tempfile, "tempdir", None)  # it would keep the first TMPDIR
            patch.setenv("COLUMNS", "80")
            for number, (name, file) in enumerate(zip(("stdin", "stdout", "stderr"), files, strict=True)):
                stack.callback(os.close, before := os.dup(number))
                stack.callback(os.dup2, before, number)
                os.dup2(file.fileno(), number)
                mode = "r" if name == "stdin" else "w"
                stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
                stack.callback(stream.close)
                patch.setattr(sys, name, stream)
            code = cli.main(words[1:])
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for file in files[1:]:
                file.seek(0)
            texts = [file.read().decode(errors="surrogateescape") for file in files[1:]]
            return subprocess.CompletedProcess(words, code, *texts)

    def ok(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = self(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done

    def refused(self, *arguments: str, stdin: str = "", **options: object) -> str:
        """Returns the message of a refused command, which printed nothing else and made no file."""
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
    """Returns a trace file of 100,000 references."""
    path = tmp_path_factory.mktemp("traces") / "lin.parquet"
    binhop.Trace.workload("lin").write(path, length=100_000)
    return path


@pytest.fixture(scope="session")
def cc1() -> Path:
    path = ROOT.parent / "shared" / "data" / "cc1.din"
    if not path.exists():
        pytest.skip("../shared/data/cc1.din is not here: the comparison on a real compiler is left out")
    return path
