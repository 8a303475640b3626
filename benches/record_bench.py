"""Compares the time of `binhop record` with a native run and lackey; `make bench` prints the table.

Times are wall times of whole commands, including their start. The figures of native runs and of binhop are
medians of three runs, or of one run if it takes longer than TAKES. lackey writes a line of text for each
reference into a pipe, and `wc` counts the lines. lackey is stopped after PATIENCE. The ratio is the ratio
of wall times; if lackey was stopped, it is the ratio of references per second.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import binhop

RUNS = 3
# Both in seconds.
TAKES = 6.0
PATIENCE = 20.0

GALLERY = Path(__file__).parent.parent / "examples" / "gallery"
# The first command of each program is a small run, for which lackey needs about ten seconds.
COMMANDS = {
    "true": ["/bin/true"],
    "gzip, 0.2 MB": ["gzip", "-kf", "little text"],
    "gzip, 2 MB": ["gzip", "-kf", "text"],
    "sort, 2,500 lines": ["sort", "-o", "sorted", "few lines"],
    "sort, 20,000 lines": ["sort", "-o", "sorted", "lines"],
    "sqlite3, 400 rows": ["sqlite3", ":memory:", ".read some.sql"],
    "sqlite3, 5,100 rows": ["sqlite3", ":memory:", ".read people.sql"],
    "xz, 2 MB": ["xz", "-kf", "text"],
    "gcc, 124 lines": ["gcc", "-O2", "-c", "words.c"],
}


class Lackey(NamedTuple):
    """`Lackey` holds the result of a run under lackey."""

    seconds: float
    references: int
    ended: bool


def prepare(directory: Path) -> None:
    """Writes the files that the commands read: unsorted lines, text, the gallery's SQL script and C file."""
    lines = [f"{(number * 7919) % 20011:05d} of the lines\n" for number in range(20_000)]
    (directory / "lines").write_text("".join(lines))
    (directory / "few lines").write_text("".join(lines[:2_500]))
    words = "".join(f"word{(number * number) % 1009} " for number in range(300_000))
    (directory / "text").write_text(words[:2_000_000])
    (directory / "little text").write_text(words[:200_000])
    script = (GALLERY / "people.sql").read_text()
    (directory / "people.sql").write_text(script)
    (directory / "some.sql").write_text(script.replace("i < 5000", "i < 300"))
    shutil.copy(GALLERY / "words.c", directory)


def timed(command: list[str], directory: Path) -> float:
    """Returns the seconds that a command takes."""
    start = time.perf_counter()
    subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def median(command: list[str], directory: Path) -> float:
    """Returns the median time of RUNS runs, or the time of the first run if that takes long."""
    seconds = [timed(command, directory)]
    while len(seconds) < RUNS and seconds[0] < TAKES:
        seconds.append(timed(command, directory))
    return statistics.median(seconds)


def lackey(command: list[str], directory: Path) -> Lackey:
    """Runs a command and its children under lackey, for PATIENCE at most."""
    reading, writing = os.pipe()
    start = time.perf_counter()
    tool = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--basic-counts=no", "--trace-children=yes"]
    with (
        subprocess.Popen(["wc", "-l"], stdin=reading, stdout=subprocess.PIPE, text=True) as counter,
        subprocess.Popen(
            [*tool, f"--log-fd={writing}", *command],
            cwd=directory,
            pass_fds=[writing],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        ) as program,
    ):
        os.close(reading)
        os.close(writing)
        try:
            program.wait(PATIENCE)
            ended = True
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            ended = False
        lines = int(counter.communicate()[0])
    return Lackey(time.perf_counter() - start, lines, ended)


def measure(name: str, command: list[str], directory: Path) -> None:
    """Measures a command in all three ways and prints a row."""
    trace = directory / "trace.parquet"
    native = median(command, directory)
    ours = median(
        [sys.executable, "-m", "binhop", "record", "-q", "-o", str(trace), "--", *command], directory
    )
    references = binhop.Trace.open(trace).inspect()["totals"]["references"]
    theirs = lackey(command, directory)
    rate = references / ours
    ratio = theirs.seconds / ours if theirs.ended else rate * theirs.seconds / theirs.references
    needed = (
        f"{theirs.seconds:.1f}" if theirs.ended else f"~{references / theirs.references * theirs.seconds:.0f}"
    )
    size = trace.stat().st_size / references
    said = f"{name:19} {references / 1e6:8.1f} {native:8.3f} {ours:8.2f} {needed:>8}"
    print(f"{said} {ratio:8.1f} {rate / 1e6:8.1f} {size:8.2f}", flush=True)


def main() -> None:
    """Measures all commands and prints the table."""
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: no bench of recording", file=sys.stderr)
        return
    print("\nbinhop record, wall time of whole commands (~: lackey stopped before its end, estimated)")
    heads = ("M refs", "native s", "record s", "lackey s", "ratio", "M refs/s", "B/ref")
    print(f"{'':19} " + " ".join(f"{head:>8}" for head in heads))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        prepare(directory)
        for program, command in COMMANDS.items():
            if shutil.which(command[0]) is None:
                print(f"{program:19} is not installed")
            else:
                measure(program, command, directory)


if __name__ == "__main__":
    main()
