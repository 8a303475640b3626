"""Tests that Valgrind's cachegrind has the same nine counts of real programs, to the last digit.

Both runs must see one environment: its variables lie on the program's stack and move it, the loader reads
them one by one, and Valgrind puts the path of its own directory among them. So the recorder is kept in a
directory of this test, and cachegrind runs from the same directory.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import binhop
from binhop import recorder
from tests.conftest import COMMAND, FETCH, LOAD, MODIFY, STORE, events

pytestmark = pytest.mark.skipif(shutil.which("valgrind") is None, reason="Valgrind is not installed")

NINE = [
    f"{cache}.{kind}.{what}"
    for first, kind in (("l1i", "fetch"), ("l1d", "load"), ("l1d", "store"))
    for cache, what in ((first, "accesses"), (first, "misses"), ("ll", "misses"))
]
GEOMETRY = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64"]
OTHER = ["--I1=8192,2,64", "--D1=16384,4,64", "--LL=131072,4,128"]
OTHER_SETTINGS = [
    *("cache.l1i.size=8KiB", "cache.l1i.ways=2", "cache.l1d.size=16KiB", "cache.l1d.ways=4"),
    *("cache.ll.size=128KiB", "cache.ll.ways=4", "cache.ll.line=128B"),
]


def nine(trace: Path | binhop.Trace, settings: list[str] | None = None) -> list[int | float | None]:
    """Returns the nine counts of a simulation."""
    result = binhop.simulate(binhop.Machine.load("cachegrind-like", settings or []), trace)
    return [result.value(metric) for metric in NINE]


def cachegrind(
    program: list[str], environment: dict[str, str], place: Path, geometry: list[str] = GEOMETRY
) -> list[int]:
    """Returns the nine counts that cachegrind prints."""
    out = place / "cachegrind.out"
    options = ["--tool=cachegrind", *geometry, f"--cachegrind-out-file={out}", f"--log-file={place / 'log'}"]
    run(["valgrind", *options, *program], environment, place)
    text = out.read_text()
    assert re.search(r"^events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw ?$", text, re.MULTILINE), text[:400]
    summary = re.search(r"^summary: (.*)$", text, re.MULTILINE)
    assert summary is not None
    return [int(count) for count in summary[1].split()]


def run(program: list[str], environment: dict[str, str], place: Path) -> None:
    nowhere = subprocess.DEVNULL
    subprocess.run(
        program, env=environment, cwd=place, stdin=nowhere, stdout=nowhere, check=True, timeout=300
    )


def by_lackey(program: list[str], environment: dict[str, str], place: Path) -> binhop.Trace:
    """Returns lackey's references with a row for each instruction."""
    log = place / "lackey"
    run(["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={log}", *program], environment, place)
    kinds = {"I  ": FETCH, " L ": LOAD, " S ": STORE, " M ": MODIFY}
    lines = [line for line in log.read_text().splitlines() if line[:3] in kinds]
    split = [(kinds[line[:3]], *line[3:].split(",")) for line in lines]
    return binhop.Trace.from_arrow(events([(op, int(addr, 16), int(size), 1) for op, addr, size in split]))


@pytest.fixture
def environment() -> dict[str, str]:
    return {"LC_ALL": "C", "PATH": os.environ["PATH"]}


@pytest.mark.parametrize(("geometry", "settings"), [(GEOMETRY, []), (OTHER, OTHER_SETTINGS)])
def test_what_lackey_saw_counts_as_cachegrind_counts_it(
    environment: dict[str, str], tmp_path: Path, geometry: list[str], settings: list[str]
) -> None:
    program = ["/bin/true"]
    trace = by_lackey(program, environment, tmp_path)
    assert nine(trace, settings) == cachegrind(program, environment, tmp_path, geometry)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the directory that holds the recorder."""
    return tmp_path_factory.mktemp("cache")


def by_recorder(
    program: list[str], environment: dict[str, str], place: Path, fetch: str
) -> tuple[Path, dict[str, str]]:
    """Returns a recording, and the environment that the program saw in it."""
    trace = place / f"{fetch}.parquet"
    run([str(COMMAND), "record", "--fetch", fetch, "-o", str(trace), "--", *program], environment, place)
    (recorder,) = (Path(environment["XDG_CACHE_HOME"]) / "binhop" / "recorder").iterdir()
    tool = "cachegrind-amd64-linux"
    if not (recorder / tool).exists():
        (recorder / tool).symlink_to((recorder / "default.supp").resolve().parent / tool)
    return trace, {**environment, "VALGRIND_LIB": str(recorder)}


# Each program runs twice. Without -S, sort asks how much memory is free, and the number of its instructions
# depends on the answer.
PROGRAMS = [["/bin/true"], ["/bin/gzip", "-c", "bytes"], ["/usr/bin/sort", "-S", "4M", "lines"]]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: Path(program[0]).name)
def test_a_recording_counts_as_cachegrind_counts_the_program(
    environment: dict[str, str], cache: Path, tmp_path: Path, program: list[str]
) -> None:
    installed = recorder.valgrind()
    why = "Valgrind is not installed" if installed is None else installed.missing()
    if why is not None:
        pytest.skip(f"the recorder cannot be built: {why}")
    if shutil.which(program[0]) is None:
        pytest.skip(f"there is no {program[0]}")
    draw = random.Random(4)
    (tmp_path / "bytes").write_bytes(bytes(draw.choices(b"abcdefgh \n", k=20_000)))
    (tmp_path / "lines").write_text("".join(f"{draw.random():.12f}\n" for _ in range(20_000)))
    environment = {**environment, "XDG_CACHE_HOME": str(cache)}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    trace, environment = by_recorder(program, environment, tmp_path, "instruction")
    assert nine(trace) == cachegrind(program, environment, tmp_path)
