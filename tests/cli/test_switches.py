"""Tests `binhop switches`: the tables, the files, and refused requests."""

from __future__ import annotations

import json
import os
import re
import threading
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop.reproduce.mb90.study import SWITCH_ALONE
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

MACHINE = ("--machine", "zen-4k")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a mix of three traces that take turns of 20,000 instructions."""
    path = tmp_path_factory.mktemp("switches") / "mixed.parquet"
    binhop.Trace.mix(["lin", "tree", "mult1"], 20_000, length=400_000).write(path)
    return path


def test_the_tables_fit_and_add_up(command: Command, mixed: Path) -> None:
    printed = command.ok("switches", str(mixed), *MACHINE, "--seeds", "3").stdout
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 80
    switches = int(re.match(r"mixed on zen-4k: ([\d ]+) switches", lines[0])[1].replace(" ", ""))
    heads = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    for head in ("cause", "process", "waits", "cache", "code"):
        assert head in heads
    start = next(number for number, line in enumerate(lines) if line.startswith("cause"))
    causes = [line for line in lines[start + 1 : lines.index("", start)] if not line.startswith(" ")]
    counts = [int(re.search(r"  +(\d[\d ]*?)  ", line)[1].replace(" ", "")) for line in causes]
    assert sum(counts) == switches
    assert "MB90's way" in printed
    assert "µs" not in printed, "the machine states no cycle time"


def test_json_and_files_say_the_same(command: Command, mixed: Path) -> None:
    arguments = ("switches", str(mixed), *MACHINE, "--seeds", "2")
    told = json.loads(
        command.ok(*arguments, "--json", "-", "--out", "out", "--confidence", "0.9", "--table", "md").stdout
    )
    assert told["provenance"]["confidence"] == 0.9
    assert {row["confidence"] for row in told["rows"]} == {0.9}
    assert told["schema"] == 1
    place = command.directory / "out"
    names = {path.name for path in place.iterdir()}
    assert names == {
        *("costs.parquet", "curves.parquet", "pages.parquet", "results.parquet", "summary.csv"),
        *("machine.toml", "provenance.json", "run.json", "mixed-switches.png", "mixed-switches.svg"),
        "table.md",
    }
    assert "| 90% interval |" in (place / "table.md").read_text()
    costs = pl.read_parquet(place / "costs.parquet").filter(pl.col("cause") != "none")
    row = next(row for row in told["rows"] if row["group"] == "all" and row["metric"] == "excess")
    assert row["mean"] == (costs["cycles.shared"].sum() - costs["cycles.private"].sum()) / 2
    assert [page["excess"] for page in told["pages"]] == sorted(
        (page["excess"] for page in told["pages"]), reverse=True
    )
    assert command.ok("switches", str(mixed), *MACHINE, "--seeds", "1", "--quiet").stdout == ""


def test_every_level_and_cause_adds_up_to_the_excess(mixed: Path) -> None:
    found = binhop.switches("zen-4k", mixed, seeds=2)
    rows = found.summary()
    whole = rows.filter(group="all", metric="excess")["mean"].item()
    for group in ("cause", "process", "level"):
        assert rows.filter(group=group, metric="excess")["mean"].sum() == pytest.approx(whole)


def test_the_shared_caches_are_those_of_a_run(mixed: Path) -> None:
    found = binhop.switches("zen-4k", mixed, seeds=2)
    plain = binhop.simulate("zen-4k", mixed, seeds=2)
    assert found.results.equals(plain.results)
    cycles = found.overheads()["cycles"].to_list()
    assert cycles == plain.results.filter(metric="cycles", phase="measured")["value"].to_list()


def test_the_picture_and_the_tables_are_made_anew(command: Command, mixed: Path) -> None:
    arguments = ("switches", str(mixed), *MACHINE, "--seeds", "2", "--confidence", "0.8")
    first = command.ok(*arguments, "--out", "out").stdout
    assert "80% interval" in first
    png = command.directory / "out" / "mixed-switches.png"
    before = png.read_bytes()
    png.unlink()
    command.ok("report", "out")
    assert png.read_bytes() == before
    tables = command.ok("report", "out", "--table", "text").stdout
    assert first.startswith(tables.split("note:")[0].rstrip())
    assert "| cause |" in command.ok("report", "out", "--table", "md").stdout


def test_segments_are_written_piece_by_piece(command: Command, mixed: Path) -> None:
    arguments = ("switches", str(mixed), *MACHINE, "--seeds", "2", "--segments", "s.parquet", "--out", "out")
    command.ok(*arguments)
    pieces = pl.read_parquet(command.directory / "s.parquet")
    curves = pl.read_parquet(command.directory / "out" / "curves.parquet")
    keys = ["seed", "interval"]
    whole = curves.filter(pl.col("asid").is_null(), pl.col("cause").is_null())
    columns = ["instructions", "cycles_shared", "cycles_private"]
    sums = [frame.group_by(keys).agg(pl.col(columns).sum()).sort(keys) for frame in (pieces, whole)]
    assert sums[0].equals(sums[1])
    command.ok(*arguments)  # a file of its own is replaced
    (command.directory / "s.parquet").write_bytes(mixed.read_bytes())
    assert "--force" in command.refused("switches", str(mixed), *MACHINE, "--segments", "s.parquet")


def test_several_traces_make_one_result(command: Command, mixed: Path) -> None:
    (command.directory / "again.parquet").symlink_to(mixed)
    printed = command.ok(
        "switches", str(mixed), "again.parquet", *MACHINE, "--seeds", "1", "--out", "o"
    ).stdout
    assert [line.split()[0] for line in printed.splitlines() if " on zen-4k: " in line] == ["mixed", "again"]
    assert (command.directory / "o" / "again-switches.png").exists()


def test_a_pipe_is_read(command: Command, mixed: Path) -> None:
    text = command.ok("trace", "cat", str(mixed)).stdout
    pipe = command.directory / "mixed.events"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=[text])
    writer.start()
    printed = command("switches", str(pipe), *MACHINE, "--seeds", "1")
    writer.join()
    assert printed.returncode == 0, printed.stderr
    whole = command.ok("switches", str(mixed), *MACHINE, "--seeds", "1").stdout
    assert printed.stdout.splitlines()[2:12] == whole.splitlines()[2:12]


@pytest.mark.parametrize("quantum", [20_000, "20_000cycles"])
def test_a_mix_made_on_the_way_names_its_processes(mixed: Path, quantum: int | str) -> None:
    of_file = binhop.switches("zen-4k", str(mixed), seeds=1).provenance["processes"]["mixed"]
    mix = binhop.Trace.mix(["lin", "tree", "mult1"], quantum, length=400_000)
    made = binhop.switches("zen-4k", mix, seeds=1)
    assert [*made.provenance["processes"].values()] == [of_file]
    assert [*of_file.values()][:2] == ["lin", "tree"]
    assert {"sh", "make"} <= {*of_file.values()}, "mult1 names its processes, too"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_workload_that_is_read_in_part_names_its_processes(threads: int) -> None:
    made = binhop.switches("zen-4k", "mult1", seeds=2, length=1_000_000, threads=threads)
    names = made.provenance["processes"]["mult1"]
    assert {str(asid) for asid in made.costs["asid"]} <= {*names}
    assert "sh" in names.values()


def test_the_time_stands_beside_mb90s_constants(command: Command, mixed: Path) -> None:
    machine = (ROOT / "machines" / "zen-4k.toml").read_text()
    (command.directory / "timed.toml").write_text(f'cycle-time = "0.5ns"\n{machine}')
    printed = command.ok("switches", str(mixed), "--machine", "timed.toml", "--seeds", "2").stdout
    assert max(map(len, printed.splitlines())) <= 80
    assert re.search(r"exchange of two packets \(MB90 §6\) +260 000 +130", printed)


def test_what_is_wrong_is_refused_with_its_remedy(command: Command, mixed: Path) -> None:
    said = command.refused("switches", "lin", *MACHINE, "--length", "100k")
    assert "no switch" in said
    assert "binhop mix" in said
    assert "--quantum" in said
    said = command.refused("switches", str(mixed), "--machine", "kh90")
    assert "[cost]" in said
    assert "--set cost.l2=10 --set cost.memory=100" in said
    costs = ("--set", "cost.l2=10", "--set", "cost.memory=100")
    command.ok("switches", str(mixed), "--machine", "kh90", *costs, "--seeds", "1", "--length", "50k")
    assert "--seeds" in command.refused("switches", str(mixed), *MACHINE, "--seeds", "0")
    assert "one trace" in command.refused("switches", str(mixed), "lin", *MACHINE, "--segments", "x")
    assert "zen-4k" in command.refused("switches", str(mixed), "--machine", "zen-4m")
    assert "--confidence" in command.refused("switches", str(mixed), *MACHINE, "--confidence", "95")
    assert "--table" in command.refused("switches", str(mixed), *MACHINE, "--table", "htm")
    assert "--machine" in command("switches", str(mixed)).stderr


def test_one_process_that_runs_nearly_always_is_reported(command: Command) -> None:
    rows = ["fetch 0x400000 count=1000 size=4"] * 4000
    rows.insert(2000, "switch asid=1 cause=involuntary\nfetch 0x500000 count=1 size=4\nswitch asid=0")
    (command.directory / "alone.events").write_text("switch asid=0\n" + "\n".join(rows) + "\n")
    printed = command.ok("switches", "alone.events", *MACHINE, "--seeds", "1").stdout
    assert "asid 0 runs 100% of all instructions" in " ".join(printed.split())
    assert "short of 1 000 instructions" in " ".join(printed.split())


FORK = "fork asid=7 parent=0"
RUN = "fetch 0x400000 count=5000 size=4"
TO_CHILD = "switch asid=7 cause=involuntary"


@pytest.mark.parametrize(
    ("between", "note", "mended"),
    [
        (
            ["switch asid=0 cause=involuntary", FORK],
            "1 fork gives a child the number of an address space that is alive (first: asid 7)",
            ["exit asid=7", "switch asid=0 cause=exit", FORK],
        ),
        (
            ["exit asid=7", "switch asid=0 cause=exit", RUN],
            "1 switch leads to a process that has exited (first: asid 7)",
            ["exit asid=7", "switch asid=0 cause=exit", RUN, FORK],
        ),
    ],
    ids=["fork onto a living number", "switch to a process that has exited"],
)
def test_a_number_that_is_used_wrongly_is_reported(
    command: Command, between: list[str], note: str, mended: list[str]
) -> None:
    def write(rows_between: list[str]) -> None:
        rows = ["switch asid=0", RUN, FORK, TO_CHILD, RUN, *rows_between, TO_CHILD, RUN]
        (command.directory / "numbers.events").write_text("\n".join(rows) + "\n")

    write(between)
    for asked in (("switches", "numbers.events", *MACHINE), ("run", "zen-4k", "numbers.events")):
        printed = " ".join(command.ok(*asked, "--seeds", "1").stdout.split())
        assert note in printed
        assert "binhop lint" in printed
    write(mended)
    printed = " ".join(command.ok("switches", "numbers.events", *MACHINE, "--seeds", "1").stdout.split())
    assert "binhop lint" not in printed


def test_the_plan_of_switches_is_printed_and_nothing_runs(command: Command) -> None:
    done = command.ok("switches", "timesharing", *MACHINE, "--seeds", "2", "--explain")
    printed = " ".join(done.stdout.split())
    assert "private caches of each process follow every access beside the shared caches" in printed
    machine = MACHINE[1]
    lines = binhop.explain([machine], binhop.Trace.workload("timesharing"), switches=True, seeds=2)
    assert printed == " ".join(" ".join(lines).split())
    mixed = ("--mix", "lin", "lin", "--length", "60k", "--quantum", "9kcycles", "--seeds", "2", "--explain")
    steered = " ".join(command.ok("switches", *mixed, *MACHINE).stdout.split())
    assert "nothing is shared. The trace is mixed, prepared and simulated 2 times" in steered


def test_the_kernel_references_what_the_machine_states() -> None:
    """A switch of mb90-1a fetches 740 bytes of code: 47 lines; and loads and stores 8 lines."""
    options = {"length": 2_000_000, "seeds": 1, "threads": 1}
    machine = binhop.Machine.load("mb90-1a", SWITCH_ALONE)
    plain = binhop.switches(machine, "client-server", **options)
    kernel = binhop.switches(machine, "client-server", kernel=True, **options)
    value = {row["metric"]: row["value"] for row in kernel.results.iter_rows(named=True)}
    events = kernel.costs["segments"].sum()
    assert value["l1i.kernel.fetch.accesses"] == 47 * events
    assert value["l1d.kernel.store.accesses"] == value["l1d.kernel.load.accesses"] == 8 * events
    assert "kernel.cycles.shared" not in plain.costs.columns
    assert kernel.costs["kernel.cycles.shared"].sum() > 0
    assert kernel.provenance["kernel"]
    assert not plain.provenance["kernel"]


def test_a_flush_is_counted_and_reported(mixed: Path) -> None:
    machine = binhop.Machine.load("zen-4k", ["kernel.switch.flush=l1i, l1d"])
    found = binhop.switches(machine, mixed, kernel=True, seeds=1, length=100_000)
    purged = found.results.filter(metric="l1d.purged", phase="measured")["value"].item()
    assert purged > 0
    assert any("flushes l1i, l1d (switch)" in note for note in found.notes)
    lost = found.summary().filter(group="cache", level="l1d", metric="lost")["mean"].item()
    assert lost == 1, "a flushed line is lost"


def test_a_machine_without_a_kernel_is_refused_with_a_remedy() -> None:
    machine = re.sub(r"\[kernel\.\w+\][^\[]*", "", binhop.Machine.load("mb90-1a").resolved())
    with pytest.raises(binhop.RequestError, match=r"kernel\.switch\.code=1KiB"):
        binhop.switches(binhop.Machine.parse(machine), "client-server", kernel=True, length=100_000, seeds=1)
