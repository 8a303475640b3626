"""Runs that do not fit into memory at once are refused with a size that fits, or simulated in rounds."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import binhop

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are read from Linux")

SMALL = "200MiB"
"""The memory is enough for one seed of zen-4k, and not for 32."""

TABLES = ["results", "series", "processes"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINHOP_MEMORY", SMALL)


def limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


@pytest.mark.usefixtures("small")
def test_a_cache_too_large_is_refused_with_one_that_fits(command: Command, lin: Path) -> None:
    message = command.refused("run", "two-level", str(lin), "--set", "cache.l2.size=64GiB")
    assert "4." in message
    assert "GiB of memory" in message
    assert f"(BINHOP_MEMORY={SMALL})" in message
    assert "cache.l2.size=2GiB would fit" in message
    command.ok("run", "two-level", str(lin), "--set", "cache.l2.size=2GiB", "--length", "100")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "two-level", "kh90", "TRACE", "--seeds", "2", "--set", "cache.l2.size=64GiB"],
        ["export", "TRACE", "--to", "ramulator2", "--machine", "two-level", "--set", "cache.l2.size=64GiB"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_refuses_it(command: Command, lin: Path, arguments: list[str]) -> None:
    words = [str(lin) if word == "TRACE" else word for word in arguments]
    more = ["-o", "x"] if words[0] == "export" else []
    assert "would fit" in command.refused(*words, *more)


def test_the_limit_of_address_space_is_known(command: Command, lin: Path) -> None:
    arguments = ["run", "two-level", str(lin), "--set", "cache.l2.size=512GiB"]
    message = command.refused(*arguments, preexec_fn=lambda: limit(4_000_000 << 10))
    assert "left of the limit of address space, ulimit -v" in message


def test_a_wrong_figure_is_refused(command: Command, lin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINHOP_MEMORY", "lots")
    assert "BINHOP_MEMORY: lots" in command.refused("run", "two-level", str(lin))


def same(one: binhop.Result, other: binhop.Result) -> None:
    for table in TABLES:
        assert getattr(one, table).equals(getattr(other, table)), table
    assert one.notes == other.notes
    assert one.provenance == other.provenance
    assert one.machine == other.machine


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The traces that are read, in order: a name for each reading."""
    names: list[str] = []
    real = binhop.Trace.stream

    def stream(self: binhop.Trace) -> object:
        names.append(self.name)
        return real(self)

    monkeypatch.setattr(binhop.Trace, "stream", stream)
    return names


def taken(readings: list[str]) -> int:
    """Returns how often traces were read since the last call."""
    count = len(readings)
    readings.clear()
    return count


def planned(explained: str) -> int:
    """Returns the number of rounds that `explain` says a run takes."""
    found = re.search(r"memory: .* done in (\d+) rounds of the trace", " ".join(explained.split()))
    assert found is not None, explained
    rounds = int(found[1])
    assert rounds > 1
    return rounds


def test_rounds_give_what_one_run_gives(
    lin: Path, monkeypatch: pytest.MonkeyPatch, readings: list[str]
) -> None:
    machines = ["zen-4k", binhop.Machine.load("zen-4k", ["placement.policy=hierarchical"]), "kh90"]
    plan = {"seeds": 32, "warmup": 1000, "interval": 20_000, "length": 60_000}
    whole = binhop.simulate_all(machines, lin, **plan)
    once = taken(readings)
    monkeypatch.setenv("BINHOP_MEMORY", SMALL)
    rounds = planned(" ".join(binhop.explain(machines, **plan)))
    reports: list[int] = []
    in_rounds = binhop.simulate_all(machines, lin, **plan, progress=lambda done, _: reports.append(done))
    assert taken(readings) == once + rounds - 1
    for one, other in zip(whole, in_rounds, strict=True):
        same(one, other)
    assert reports == sorted(reports)
    assert reports[-1] <= 60_000


def test_a_policy_and_until_in_rounds(
    lin: Path, monkeypatch: pytest.MonkeyPatch, readings: list[str]
) -> None:
    def middle(_request: object, pool: binhop.Pool) -> int:
        return pool.frames()[len(pool) // 2]

    counts: list[int] = []

    def run() -> list[binhop.Result]:
        policy = binhop.simulate("zen-4k", lin, seeds=40, length=20_000, policy=middle)
        counts.append(taken(readings))
        until = binhop.simulate_until("zen-4k", lin, until="1%", seeds=40, length=20_000)
        counts.append(taken(readings))
        return [policy, until]

    whole = run()
    monkeypatch.setenv("BINHOP_MEMORY", SMALL)
    for one, other in zip(whole, run(), strict=True):
        same(one, other)
    plans = [{"seeds": 40, "policy": middle}, {"seeds": 32}]
    rounds = [planned(" ".join(binhop.explain(["zen-4k"], length=20_000, **plan))) for plan in plans]
    assert len(whole[1].seeds) == 32, "one round of --until, which takes several rounds of the trace"
    assert counts[2:] == [count + more - 1 for count, more in zip(counts, rounds, strict=False)]


def test_commands_in_rounds_write_the_same(
    command: Command, lin: Path, monkeypatch: pytest.MonkeyPatch, readings: list[str]
) -> None:
    (command.directory / "s.toml").write_text(
        f'''name = "s"
title = "Two policies"
seeds = 32
length = "20k"
[[part]]
name = "one"
machine = "zen-4k"
workloads = ["{lin}"]
axes = {{ "placement.policy" = ["random", "hierarchical"] }}
'''
    )
    counts: list[int] = []
    for out in ("one", "rounds"):
        if out == "rounds":
            monkeypatch.setenv("BINHOP_MEMORY", SMALL)
            planned(command.ok("sweep", "s.toml", "--explain").stdout)
        taken(readings)
        command.ok("sweep", "s.toml", "--out", f"sweep-{out}")
        counts.append(taken(readings))
        command.ok("compare", "zen-4k", "kh90", str(lin), "--seeds", "32", "--json", f"compare-{out}.json")
        counts.append(taken(readings))
    for name in ("results.parquet", "summary.csv"):
        one, other = (command.directory / f"sweep-{out}" / name for out in ("one", "rounds"))
        assert one.read_bytes() == other.read_bytes()
    one, other = (
        json.loads((command.directory / f"compare-{out}.json").read_text()) for out in ("one", "rounds")
    )
    assert one == other
    assert counts[2] > counts[0], "the study was not done in rounds"
    assert counts[3] > counts[1], "the comparison was not done in rounds"


@pytest.mark.usefixtures("small")
def test_what_is_read_once_is_refused_with_the_number_of_seeds_that_fits(command: Command) -> None:
    fifo = command.directory / "t.din"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=["0 0\n0 80\n"])
    writer.start()
    done = command("run", "zen-4k", str(fifo), "--seeds", "64")
    writer.join()
    assert done.returncode == 2, done.stderr
    assert "64 seeds" in done.stderr
    assert "can be read only once" in done.stderr
    assert "seeds or fewer" in done.stderr


@pytest.mark.usefixtures("small")
def test_a_reader_of_batches_is_read_once() -> None:
    schema = pa.schema(
        [("op", pa.uint8()), ("addr", pa.uint64()), ("size", pa.uint32()), ("count", pa.uint32())]
    )
    table = pa.Table.from_pylist(
        [{"op": 1, "addr": 64 * row, "size": 8, "count": 1} for row in range(100)], schema
    )
    with pytest.raises(binhop.RequestError, match="can be read only once") as refused:
        binhop.simulate("zen-4k", pa.RecordBatchReader.from_batches(schema, table.to_batches()), seeds=64)
    fits = int(refused.value.remedy.split()[2])
    assert 1 <= fits < 64
    reader = pa.RecordBatchReader.from_batches(schema, table.to_batches())
    assert len(binhop.simulate("zen-4k", reader, seeds=fits).seeds) == fits
    assert len(binhop.simulate("zen-4k", table, seeds=64).seeds) == 64


def peak(seeds: int) -> int:
    """Returns the most memory that a run of this many seeds holds, in bytes."""
    program = f"""
import resource, binhop
binhop.simulate("zen-4k", "lin", length=2000, seeds={seeds}, threads=1)
print(int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_many_seeds_hold_no_more_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, 512 seeds of zen-4k would take 2.7 GB."""
    monkeypatch.setenv("BINHOP_MEMORY", "768MiB")
    assert peak(512) - peak(1) <= 768 << 20


@pytest.mark.long
def test_a_great_many_seeds_need_no_more_than_the_system_leaves(command: Command) -> None:
    """At once, 4,096 seeds of zen-4k would take 22 GB."""
    arguments = ["run", "zen-4k", "lin", "--length", "2000", "--seeds", "4096", "--quiet"]
    done = command(*arguments, preexec_fn=lambda: limit(4_000_000 << 10))
    assert done.returncode == 0, done.stderr


def test_a_part_of_results_in_a_frame(lin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of rounds are concatenated in the order of the seeds that were asked for."""
    monkeypatch.setenv("BINHOP_MEMORY", SMALL)
    seeds = [40, 3, *range(100, 130)]
    result = binhop.simulate("zen-4k", lin, seeds=seeds, length=5000)
    assert result.results["seed"].unique(maintain_order=True).to_list() == seeds
