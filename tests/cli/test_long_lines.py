"""Long lines in foreign text are read in bounded memory up to 16 MiB, and refused beyond."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import binhop
from binhop import recorder
from tests.conftest import COMMAND

if TYPE_CHECKING:
    from tests.conftest import Command

FORMATS = {
    "din": b"0 1000\n",
    "xdin": b"r 1000 4\n",
    "lackey": b" L 1000,8\n",
    "text": b"load 0x1000 size=8\n",
}
RECORDS = {"drmemtrace", "champsim", "champsim-cloudsuite"}
"""The formats of records, which have no lines."""
PIECES = [b"7", b" ", b"\0", b"#", b'# meta {"command":"']
LONGEST = 16 << 20
PIECE = 1 << 20
HELD = 64 << 20
"""The bound on peak bytes: a line of 16 MiB, twice while its buffer grows, and the allocator's reserve."""


def imported(directory: Path, name: str, piece: bytes, length: int) -> tuple[int, str, int]:
    """Imports a good line and a long one through a pipe. Returns exit code, messages and peak bytes."""
    process = subprocess.Popen(
        [COMMAND, "import", "--format", name, "-", "-o", "o.parquet", "--quiet"],
        cwd=directory,
        bufsize=0,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        process.stdin.write(FORMATS[name])
        process.stdin.write(piece)
        for _ in range(length // PIECE):
            process.stdin.write(piece[:1] * PIECE)
        process.stdin.write(b"\n")
    except BrokenPipeError:
        pass  # it is refused before it has ended
    process.stdin.close()
    said = process.stderr.read().decode()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert [*directory.iterdir()] == []
    return process.returncode, said, usage.ru_maxrss << 10


def check(directory: Path, name: str, length: int, pieces: list[bytes]) -> None:
    short = imported(directory, name, b"nonsense", 0)
    assert short[0] == 2
    for piece in pieces:
        code, said, peak = imported(directory, name, piece, length)
        assert code == 2
        assert len(said.splitlines()) == 1
        assert said.startswith('binhop: standard input: line 2: "')
        assert f'…": is longer than {LONGEST - 1} bytes; this is no such trace: a line of this' in said
        assert peak - short[2] <= HELD, (piece, peak, short[2])


def test_every_format_of_lines_is_tried() -> None:
    line = Path(__file__).read_text().splitlines().index("FORMATS = {") + 1
    for name in binhop.formats()["name"]:
        assert name in {*FORMATS, *RECORDS}, (
            f"tests/cli/test_long_lines.py:{line}: add a line of {name} to FORMATS, or, if it has no lines, "
            "its name to RECORDS"
        )
    assert {*FORMATS, *RECORDS} == {*binhop.formats()["name"]}, "FORMATS and RECORDS name no other format"


@pytest.mark.parametrize("name", FORMATS)
def test_a_line_of_64_megabytes_is_refused(tmp_path: Path, name: str) -> None:
    check(tmp_path, name, 64 << 20, PIECES[:1])


@pytest.mark.long
@pytest.mark.parametrize("name", FORMATS)
def test_a_line_of_a_gigabyte_is_refused(tmp_path: Path, name: str) -> None:
    check(tmp_path, name, 1 << 30, PIECES)


def test_the_command_of_a_recording_may_be_long(command: Command) -> None:
    """A line of `binhop trace` may hold some megabytes of arguments."""
    long = " ".join(map(str, range(200_000)))
    assert len(long) > 1 << 20
    text = f'# meta {{"command":"{long}"}}\nload 0x1000 size=8\n# {long}\nload 0x2000 size=8\nnonsense\n'
    assert '"nonsense": ' in command.refused("import", "--format", "text", "-", "-o", "o.parquet", stdin=text)
    done = command("import", "--format", "text", "-", "-o", "o.parquet", stdin=text.replace("nonsense\n", ""))
    assert done.returncode == 0, done.stderr
    trace = binhop.Trace.open(command.directory / "o.parquet")
    assert trace.meta["command"] == long
    assert trace.references == 2
    again = command.ok(
        "import",
        "--format",
        "text",
        "-",
        "-o",
        "p.parquet",
        stdin=command.ok("trace", "cat", "o.parquet").stdout,
    )
    assert again.returncode == 0
    assert binhop.Trace.open(command.directory / "p.parquet").meta["command"] == long


@pytest.mark.parametrize("lines", [1, 3, 50_000])
def test_lines_behind_a_long_one_are_all_read(command: Command, lines: int) -> None:
    """Lines behind a long line are counted, too, where they and the long line fill several blocks."""
    text = "".join(f"# {'x' * 300_000}\n" + "load 0x1000 size=8\n" * lines for _ in range(3))
    done = command("import", "--format", "text", "-", "-o", "o.parquet", stdin=text)
    assert done.returncode == 0, done.stderr
    assert binhop.Trace.open(command.directory / "o.parquet").references == 3 * lines
    wrong = command.refused("import", "--format", "text", "-", "-o", "n.parquet", stdin=f"{text}nonsense\n")
    assert f"line {3 * lines + 4}: " in wrong


def test_lackey_records_a_command_with_many_arguments(command: Command) -> None:
    installed = recorder.valgrind()
    if installed is None:
        pytest.skip("Valgrind is not here")
    words = [str(number) for number in range(60_000)]
    command.ok("record", "--lackey", "--limit", "1000", "-o", "o.parquet", "--", "true", *words)
    assert binhop.Trace.open(command.directory / "o.parquet").references
