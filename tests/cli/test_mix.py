"""Tests `binhop mix`, which joins separate traces as if they shared one processor."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import binhop
from binhop.cli import show

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

FETCH, SWITCH, EXIT = 0, 4, 12
COLUMNS = {"op": pl.UInt8, "addr": pl.UInt64, "size": pl.UInt32, "count": pl.UInt32}
ARGS = {"arg0": pl.UInt64, "arg1": pl.UInt64}


def program(path: Path, instructions: int, addr: int, *, waits_every: int = 0) -> str:
    """Writes a trace of instructions in a row, with a read that waits after every `waits_every`."""
    rows: list[tuple[int | None, ...]] = []
    for n in range(instructions):
        rows.append((FETCH, addr + 4 * n, 4, 1, None, None))
        if waits_every and (n + 1) % waits_every == 0:
            rows.append((SWITCH, 0, 0, 0, 0, 0))
    pl.DataFrame(rows, schema={**COLUMNS, **ARGS}, orient="row").write_parquet(path)
    return str(path)


def inspected(command: Command, path: Path) -> dict[str, Any]:
    done = command.ok("inspect", str(path), "--json", "-")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_mix_is_a_sound_trace_of_all(command: Command, tmp_path: Path) -> None:
    a = program(tmp_path / "a.parquet", 1000, 0x1000)
    b = program(tmp_path / "b.parquet", 300, 0x9000, waits_every=100)
    out = tmp_path / "mix.parquet"
    done = command.ok("mix", a, b, "--quantum", "250", "--latency", "10", "-o", str(out))
    # a 250, b 100 and waits, a 250, b 100 and waits, a 250, b 100 and waits; a 250 and ends; b ends.
    n = show.grouped(1300)
    told, *notes = done.stderr.splitlines()[-3:]
    assert told.startswith(f"{out}: {n} references, {n} instructions, 7 switches")
    assert notes == [
        "note: a ended after 1300 instructions of the mix",
        "note: b ended after 1300 instructions of the mix",
    ]
    report = inspected(command, out)
    assert report["switches"] == {
        "system-call": 3,
        "page-fault": 0,
        "involuntary": 3,
        "exit": 1,
        "unknown": 0,
    }
    assert [process["instructions"] for process in report["processes"]] == [1000, 300]
    assert report["meta"]["schedule"] == "round-robin, quantum 250"
    assert "round-robin, quantum 250" in command.ok("inspect", str(out)).stdout
    assert "nothing to complain about" in command.ok("lint", str(out)).stdout


def test_a_trace_may_be_mixed_with_itself_and_with_workloads(command: Command, tmp_path: Path) -> None:
    a = program(tmp_path / "a.parquet", 100, 0x1000)
    out = tmp_path / "mix.parquet"
    command.ok("mix", a, a, "lin", "--length", "1k", "--quantum", "30", "-o", str(out), "--quiet")
    processes = inspected(command, out)["processes"]
    assert [process["asid"] for process in processes] == [0, 1, 2]
    assert [process["instructions"] for process in processes][:2] == [100, 100]


@pytest.mark.parametrize(
    ("option", "instructions", "exits"), [([], 400, 2), (["--until-first"], 100, 1), (["--repeat"], 600, 4)]
)
def test_when_a_mix_ends(
    option: list[str], instructions: int, exits: int, command: Command, tmp_path: Path
) -> None:
    a = program(tmp_path / "a.parquet", 100, 0x1000)
    b = program(tmp_path / "b.parquet", 300, 0x9000)
    out = tmp_path / "mix.parquet"
    command.ok("mix", a, b, "--quantum", "100", *option, "-o", str(out))
    report = inspected(command, out)
    assert report["totals"]["instructions"] == instructions
    assert report["totals"]["events"]["exit"] == exits


def test_a_mix_says_how_often_a_trace_began_again(command: Command, tmp_path: Path) -> None:
    a = program(tmp_path / "a.parquet", 100, 0x1000)
    b = program(tmp_path / "b.parquet", 300, 0x9000)
    out = tmp_path / "mix.parquet"
    done = command.ok("mix", a, b, "--quantum", "100", "--repeat", "-o", str(out))
    first, second = done.stderr.splitlines()[-2:]
    assert first == "note: a ended after 100 instructions of the mix and began again 3 times"
    assert second == "note: b ended after 600 instructions of the mix"
    assert inspected(command, out)["meta"]["mixed"] == [
        {"name": "a", "begun": 4, "ended": 3, "first_end": 100},
        {"name": "b", "begun": 1, "ended": 1, "first_end": 600},
    ]


def test_first_touches_block_and_a_recent_process_goes_on(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "mix.parquet"

    def switches(*options: str) -> dict[str, int]:
        mix = ("lin", "mult1", "--length", "100k", "--quantum", "5k", "-o", str(out), "--quiet")
        command.ok("mix", *mix, *options)
        found: dict[str, int] = inspected(command, out)["switches"]
        return found

    plain = switches()
    blocked = switches("--faults", "first", "--fault-latency", "100")
    assert (plain["page-fault"], blocked["page-fault"] > 5) == (0, True)
    # A process whose quantum ended goes on, until the other has been ready for 8 quanta.
    recent = switches("--order", "recent")
    assert 0 < recent["involuntary"] < plain["involuntary"] / 4
    assert inspected(command, out)["meta"]["schedule"] == "recent, quantum 5000"


def test_a_quantum_may_name_its_unit() -> None:
    mixed = [binhop.Trace.mix(["lin", "lin"], q, length=20_000) for q in (5000, "5k", "5k instructions")]
    hashes = {trace.inspect()["content_hash"] for trace in mixed}
    assert len(hashes) == 1


def test_the_same_mix_has_the_same_content_whoever_makes_it(command: Command, tmp_path: Path) -> None:
    a = program(tmp_path / "a.parquet", 500, 0x1000, waits_every=70)
    out = tmp_path / "mix.parquet"
    command.ok("mix", a, "lin", "--length", "2k", "--quantum", "64", "-o", str(out))
    mixed = binhop.Trace.mix([a, "lin"], 64, length=2000)
    assert mixed.name == "a+lin"
    assert mixed.inspect()["content_hash"] == inspected(command, out)["content_hash"]
    rows = pl.read_parquet(out).filter(pl.col("op") == EXIT)["addr"].to_list()
    assert sorted(rows) == [0, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from /proc")
def test_many_traces_take_the_memory_of_a_few(tmp_path: Path) -> None:
    """A decoded row group of a trace takes 14 MB here, and 100 of them took 1.4 GB."""
    trace = tmp_path / "tree.parquet"
    binhop.Trace.workload("tree").write(trace, length=4_000_000)
    code = """
        import re, sys
        import binhop
        binhop.Trace.mix([sys.argv[1]] * 100, 10_000, length=30_000).write(sys.argv[2])
        print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
    """
    arguments = [sys.executable, "-c", textwrap.dedent(code), str(trace), str(tmp_path / "mix.parquet")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 800_000, "kB"


def test_a_mix_is_simulated_as_it_is() -> None:
    mixed = binhop.Trace.mix(["lin", "lin"], 5000, length=40_000)
    result = binhop.simulate("kh90", mixed, seeds=2)
    # A run of instructions that would pass the length is left out: one reference of each.
    assert result.summary().filter(metric="references")["mean"].to_list() == [79_998.0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.parquet", "-o", "x.parquet", "--quantum", "0"], "write it like --quantum 400k"),
        (["a.parquet", "-o", "x.parquet", "--latency", "soon"], "write it like --latency 100k"),
        (["a.parquet", "-o", "x.parquet", "--until-first", "--repeat"], "leave one of them out"),
        (["a.parquet", "-o", "x.parquet", "--fault-latency", "soon"], "write it like --fault-latency 1M"),
        (["a.parquet", "-o", "x.parquet", "--faults", "frist"], "did you mean first?"),
        (["a.parquet", "-o", "x.parquet", "--order", "fifo"], "known: round-robin, recent"),
        (
            ["a.parquet", "-o", "x.parquet", "--quantum", "0cycles"],
            "0: a turn lasts at least one cycle",
        ),
        (["a.parquet", "-o", "x.parquet", "--quantum", "9 miles"], "write it like --quantum 400k"),
        (["a.parquet", "-o", "x.parquet", "--quantum", "400kcycles"], "no file holds it; give instructions"),
        (["a.parquet", "-o", "x.parquet", "--faults", "all"], "say --faults first, or mix where"),
        (["a.parquet", "nowhere.parquet", "-o", "x.parquet"], "nowhere.parquet"),
        (["a.parquet", "-o", "nowhere/x.parquet"], "nowhere/x.parquet"),
    ],
)
def test_wrong_requests_say_what_is_wrong(
    arguments: list[str], said: str, command: Command, tmp_path: Path
) -> None:
    program(tmp_path / "a.parquet", 10, 0)
    assert said in command.refused("mix", *arguments)


def run_mix(command: Command, *arguments: str) -> dict[str, list[float]]:
    """Returns the values of each metric, in order of the seeds, of a run of a mix of two workloads."""
    mixed = ("--mix", "lin", "mult1", "--length", "60k", "--seeds", "2")
    done = command.ok("run", *arguments, *mixed, "--json", "-")
    values: dict[str, list[float]] = {}
    for row in json.loads(done.stdout)["rows"]:
        values.setdefault(row["metric"], []).append(row["value"])
    return values


def test_run_mixes_traces_as_mix_does(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "mix.parquet"
    options = ("--quantum", "5k", "--faults", "first", "--order", "recent")
    command.ok("mix", "lin", "mult1", "--length", "60k", *options, "-o", str(out), "--quiet")
    done = command.ok("run", "kh90", str(out), "--seeds", "2", "--json", "-")
    rows = json.loads(done.stdout)["rows"]
    mixed = run_mix(command, "kh90", *options)
    for metric in ("instructions", "l2.fetch.misses", "os.faults"):
        assert mixed[metric] == [row["value"] for row in rows if row["metric"] == metric]


def test_a_quantum_in_cycles_differs_from_placement_to_placement(command: Command) -> None:
    options = ("--quantum", "2kcycles", "--latency", "3k")
    both = run_mix(command, "mb90-2a", *options)
    assert both["references"][0] == both["references"][1]
    explained = command.ok(
        "run", "mb90-2a", *options, "--mix", "lin", "mult1", "--seeds", "2", "--explain"
    ).stdout
    said = " ".join(explained.split())
    assert "nothing is shared. The trace is mixed, prepared and simulated 2 times" in said
    assert "a quantum is 2000 cycles of the machine's own shared caches" in said
    # A quantum in cycles holds fewer instructions, so processes switch more often.
    mixes = [
        binhop.Trace.mix(["lin", "mult1"], quantum, latency=3000, length=60_000)
        for quantum in ("2kcycles", 2000)
    ]
    cycles, instructions = (binhop.simulate("mb90-2a", mix, seeds=1) for mix in mixes)
    note = "a quantum is 2000 cycles of the machine's own caches: each placement had a stream of its own"
    assert note in cycles.notes
    assert note not in instructions.notes
    one = cycles.results.filter(metric="cycles")["value"].to_list()
    assert one != instructions.results.filter(metric="cycles")["value"].to_list()


def test_every_fault_blocks_where_a_mix_is_simulated(command: Command) -> None:
    changes = ("memory.size=256KiB", "memory.page=4KiB", "placement.pool=128KiB", "cache.l2.size=64KiB")
    small = ("kh90", "--quantum", "2k", *(part for change in changes for part in ("--set", change)))
    blocked = run_mix(command, *small, "--faults", "all", "--fault-latency", "50k")
    free = run_mix(command, *small)
    assert blocked["references"] == free["references"]
    assert min(blocked["os.evictions"]) > 0
    assert blocked["l2.fetch.misses"] != free["l2.fetch.misses"]
    trace = binhop.Trace.mix(["lin", "mult1"], faults="all", length=1000)
    with pytest.raises(binhop.RequestError, match="no file holds it"):
        trace.inspect()
    assert "every page fault blocks" in " ".join(binhop.explain(["kh90"], trace, seeds=1))


def test_switches_of_a_mix_are_measured_under_quanta_in_cycles(command: Command) -> None:
    mixed = ("--mix", "lin", "lin", "--length", "60k", "--quantum", "9kcycles", "--seeds", "2")
    done = command.ok("switches", *mixed, "--machine", "mb90-2a")
    assert "a quantum is 9000 cycles" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kh90", "--mix", "lin", "--quantum", "400kcycles"], "has no [cost]"),
        (["kh90", "lin", "--quantum", "400k"], "add --mix, or leave --quantum out"),
        (["kh90", "--mix", "lin", "--quantum", "0"], "write it like --quantum 400k"),
        (["kh90", "--mix", "lin", "--until-first", "--repeat"], "leave one of them out"),
    ],
)
def test_wrong_mixes_of_a_run_say_what_is_wrong(arguments: list[str], said: str, command: Command) -> None:
    assert said in command.refused("run", *arguments, "--length", "10k")


def test_an_end_that_is_none_is_refused() -> None:
    with pytest.raises(binhop.RequestError, match="a mix has no such end"):
        binhop.Trace.mix(["lin"], ends="never", length=10)  # type: ignore[arg-type]
