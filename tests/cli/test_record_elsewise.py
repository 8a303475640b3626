"""Tests `binhop record` with lackey, and with a recorder whose stream breaks off."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from binhop import _binhop, recorder
from binhop.errors import RunError
from binhop.recording import FALLBACK_LOSES
from tests.cli.test_record import sound, totals
from tests.conftest import COMMAND, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

valgrind = pytest.mark.skipif(recorder.valgrind() is None, reason="Valgrind is not installed")


@valgrind
def test_lackey_records_where_it_is_asked_for(command: Command) -> None:
    line = ["sh", "-c", "echo out; exit 3"]
    done = command("record", "-q", "-o", "t.parquet", "--lackey", "--limit", "50k", "--", *line)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "")
    # A trace ends with a whole run, so the last run, of at most 1024 instructions, may be left out.
    assert 50_000 - 1024 < totals(command.directory / "t.parquet")["references"] <= 50_000
    command.ok("inspect", "t.parquet")


@valgrind
def test_without_headers_lackey_records_and_it_is_said_what_is_lost(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = shutil.which("valgrind")
    place = tmp_path / "elsewhere" / "bin"
    place.mkdir(parents=True)
    # A link would be followed to the directory of the headers.
    (place / "valgrind").write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    (place / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    done = command("record", "-q", "-o", "t.parquet", "--", "true")
    assert done.returncode == 0
    (printed,) = done.stderr.splitlines()
    why = "Valgrind's development headers (pub_tool_basics.h) are not installed"
    assert printed.startswith(f"binhop: the recorder cannot be built ({why}), so lackey records; lost: ")
    assert FALLBACK_LOSES in printed
    assert "`binhop doctor`" in printed
    assert totals(command.directory / "t.parquet")["references"] > 100_000


BROKEN = """
import os, struct, sys
runs = int(sys.argv[-1])
(directory,) = [word.removeprefix("--to=") for word in sys.argv if word.startswith("--to=")]
RUN, RECORD, HELLO, VERSION = 0xA1, 0xA2, 0xA4, WIRE_VERSION
def record(kind, *words):
    return [RECORD << 56 | kind << 48 | len(words), *words]
load = 1 << 63 | 1 << 32 | 8
words = record(1, os.getpid(), 1, 1, 4, int.from_bytes(b"fake", "little"))
words += record(7, 0x10000, 4096, 3, 0, 0, 0)
words += record(2, 0, 0x10000 | 4 << 48, load)
for time in range(runs // 100):
    words += [RUN << 56, 0x10080] * 100 + record(14, time)
words += [0x7777]
os.mkfifo(f"{directory}/{os.getpid()}.0")
with open(f"{directory}/control", "wb", buffering=0) as control:
    control.write(struct.pack("<6Q", HELLO << 56 | VERSION, os.getpid(), 0, 1, 0xFFFFFFFF, 0))
with open(f"{directory}/{os.getpid()}.0", "wb") as pipe:
    pipe.write(struct.pack(f"<{len(words)}Q", *words))
sys.exit(5)
""".replace("WIRE_VERSION", re.search(r"WIRE_VERSION (\d+)", (ROOT / "recorder" / "wire.h").read_text())[1])


@pytest.mark.parametrize("runs", [0, 5000])
def test_a_stream_that_breaks_keeps_the_trace_up_to_there(command: Command, runs: int) -> None:
    """The program in place of Valgrind writes valid runs, and then what no recorder writes."""
    directory = command.directory
    fake = directory / "fake"
    fake.write_text(f"#!{sys.executable} -SI\n{BROKEN}")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(RunError) as caught:
        _binhop.record(
            ["true", str(runs)],
            str(directory / "t.parquet"),
            valgrind=str(fake),
            directory=str(directory / "pipes"),
            only=None,
            fetch="instruction",
            schedule=None,
            seed=0,
            rate=1000,
            skip=0,
            limit=None,
            threads=1,
            tell=lambda *_: False,
        )
    error = caught.value
    assert "0x0000000000007777 starts neither a run nor a record" in error.value
    assert error.place.startswith("recorder's pipe of process ")
    assert not (directory / "pipes").exists()
    if runs == 0:
        assert error.rule == "the recorder does not write this"
        assert not (directory / "t.parquet").exists()
        return
    held = totals(directory / "t.parquet")["references"]
    assert f"holds the first {held} references" in error.rule
    # A thousand words are decoded at a time, so the words just before the break are lost.
    assert 2 * runs - 1300 <= held < 2 * runs
    sound(command)


@valgrind
def test_what_lackey_cannot_do_is_refused(command: Command) -> None:
    message = command.refused("record", "--lackey", "-o", "t.parquet", "--seed", "5", "--", "true")
    assert message.startswith("binhop: --seed: 5: lackey cannot do this; ")


@valgrind
def test_what_is_no_program_leaves_no_trace_and_says_so(command: Command) -> None:
    program = command.directory / "program"
    program.write_bytes(b"\xff" * 64)
    program.chmod(0o755)
    done = command("record", "-q", "-o", "t.parquet", "--", "./program")
    assert done.returncode == 2
    printed = done.stderr.splitlines()[-1]
    rule = "the program ended before anything of it was recorded, so there is no trace"
    assert printed.startswith(f"binhop: ./program: exit status: 126: {rule}; see what Valgrind said")
    assert not (command.directory / "t.parquet").exists()


@valgrind
def test_a_request_to_end_is_never_lost(command: Command) -> None:
    """The request comes before Valgrind runs, while it starts, or later."""
    for wait in range(0, 1000, 125):
        words = [COMMAND, "record", "-q", "-o", "t.parquet", "--", "sleep", "60"]
        process = subprocess.Popen(words, cwd=command.directory, stderr=subprocess.PIPE)
        time.sleep(wait / 1000)
        process.terminate()
        printed = process.communicate(timeout=50)[1].decode()
        # An early signal ends binhop itself. A later signal ends the program, with a trace or without.
        assert process.returncode in (-15, 143) or (process.returncode == 2 and "before anything" in printed)
