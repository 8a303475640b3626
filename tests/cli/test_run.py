from __future__ import annotations

import csv
import json
import os
import threading
import tomllib
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from tests.conftest import COMMAND, long

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

TABLES = ["results.parquet", "series.parquet", "processes.parquet", "results.csv"]


def test_it_prints_each_cache_in_80_plain_columns(command: Command, lin: Path) -> None:
    out = command.ok("run", "kh90", str(lin), "--seeds", "4").stdout
    assert "lin on kh90: 100 000 references" in out or "lin on kh90: 99 99" in out
    assert "4 placements" in out
    for cache in ("l1i", "l1d", "l2"):
        assert any(line.startswith(cache) for line in out.splitlines())
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out


def test_the_table_shows_what_the_api_computes(command: Command, lin: Path) -> None:
    small = "cache.l2.size=32KiB"
    out = command.ok("run", "kh90", str(lin), "--seeds", "4", "--confidence", "0.9", "--set", small).stdout
    machine = binhop.Machine.load("kh90", [small])
    row = binhop.simulate(machine, lin, seeds=4).summary(0.9).filter(metric="l2.mpi").row(0, named=True)
    line = next(line for line in out.splitlines() if line.startswith("l2"))
    assert f"{1000 * row['mean']:#.4g}".rstrip(".") in line
    assert f"({row['best_seed']})" in line
    assert f"({row['worst_seed']})" in line
    assert "90% interval" in out


def test_memory_and_cpi_stand_below_the_caches(command: Command, lin: Path) -> None:
    out = command.ok("run", "skylake", str(lin), "--seeds", "3", "--set", "cache.l3.size=64KiB").stdout
    assert max(map(len, out.splitlines())) <= 80
    machine = binhop.Machine.load("skylake", ["cache.l3.size=64KiB"])
    result = binhop.simulate(machine, lin, seeds=3)
    cells = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    misses = [
        sum(int(result.value(f"memory.{kind}.accesses", seed) or 0) for kind in ("fetch", "load", "store"))
        for seed in range(3)
    ]
    assert cells["memory"][1] == f"{round(sum(misses) / 3)}"
    rate = result.summary().filter(metric="memory.mpi")["mean"][0]
    assert cells["memory"][2] == f"{1000 * rate:#.4g}"
    cycles = [int(result.value("cycles", seed) or 0) for seed in range(3)]
    assert "".join(cells["time"][1:3]) == f"{round(sum(cycles) / 3)}"
    assert cells["time"][3] == f"{sum(cycles) / 3 / result.value('instructions'):#.4g}"
    assert "time" not in command.ok("run", "kh90", str(lin), "--seeds", "2").stdout


@pytest.mark.parametrize(
    ("machine", "costs"),
    [
        ("skylake", {"l2": 8, "l3": 38, "memory": 242}),
        ("zen-4k", {"l2": 10, "l3": 51, "memory": 414}),
        ("apple-m1", {"l2": 11, "memory": 300}),
    ],
)
def test_cycles_of_a_bundled_machine_are_its_stated_latencies(
    lin: Path, machine: str, costs: dict[str, int]
) -> None:
    sizes = {"l1i": "1KiB", "l1d": "1KiB", "l2": "2KiB", "l3": "4KiB"}
    levels = [level for level in ("l1i", "l1d", *costs) if level != "memory"]
    settings = [
        setting
        for level in levels
        for setting in (f"cache.{level}.size={sizes[level]}", f"cache.{level}.ways=1")
    ]
    small = binhop.Machine.load(machine, settings)
    assert tomllib.loads(small.resolved())["cost"] == {"mode": "total", "level-1": 0, **costs}
    result = binhop.simulate(small, lin, seeds=2)
    for seed in (0, 1):

        def demand(level: str, what: str, seed: int = seed) -> int:
            return sum(
                int(result.value(f"{level}.{kind}.{what}", seed) or 0) for kind in ("fetch", "load", "store")
            )

        cycles = int(result.value("instructions") or 0) + costs["memory"] * demand("memory", "accesses")
        for level in costs:
            if level != "memory":
                cycles += costs[level] * (demand(level, "accesses") - demand(level, "misses"))
        assert result.value("cycles", seed) == cycles
        assert demand("memory", "accesses") > 100
        assert all(
            demand(level, "accesses") > demand(level, "misses") for level in costs if level != "memory"
        )


def test_a_run_says_nothing_on_stderr_in_a_pipe_and_nothing_at_all_when_quiet(
    command: Command, lin: Path
) -> None:
    assert command.ok("run", "kh90", str(lin), "--seeds", "2").stderr == ""
    quiet = command.ok("run", "kh90", str(lin), "--seeds", "2", "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("", "")


def test_a_workload_has_a_length_of_its_own_choosing(command: Command) -> None:
    done = command.ok("run", "two-level", "lin", "--length", "1.5M", "--json", "-")
    rows = {row["metric"]: row["value"] for row in json.loads(done.stdout)["rows"]}
    assert 1_499_000 < rows["references"] <= 1_500_000  # whole rows


def test_json_on_standard_output_is_one_object_and_nothing_else(command: Command, lin: Path) -> None:
    done = command.ok("run", "kh90", str(lin), "--seed", "17", "--seed", "3", "--json", "-")
    whole = json.loads(done.stdout)
    assert list(whole) == ["schema", "rows", "provenance"]
    assert whole["schema"] == 1
    keys = {"workload", "machine", "phase", "seed", "metric", "unit", "value"}
    assert all(set(row) == keys for row in whole["rows"])
    assert [row["seed"] for row in whole["rows"] if row["metric"] == "l2.mpi"] == [17, 3]
    assert all(isinstance(row["value"], int) for row in whole["rows"] if "/" not in row["unit"])
    provenance = whole["provenance"]
    assert provenance["traces"][0]["content_hash"] == binhop.Trace.open(lin).inspect()["content_hash"]


def test_json_to_a_file_is_written_whole(command: Command, lin: Path) -> None:
    target = command.directory / "out.json"
    target.write_text("old")
    target.chmod(0o644)
    command.ok("run", "kh90", str(lin), "--seeds", "2", "--json", "out.json", "--force")
    assert json.loads(target.read_text())["schema"] == 1
    assert [file.name for file in command.directory.iterdir()] == ["out.json"]


def test_json_to_a_pipe_goes_into_it(command: Command, lin: Path) -> None:
    pipe = command.directory / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    command.ok("run", "kh90", str(lin), "--seeds", "2", "--json", "pipe")
    reader.join(timeout=20)
    assert pipe.is_fifo(), "the pipe was replaced by a file"
    assert json.loads(read[0])["schema"] == 1


def test_json_to_a_device_leaves_the_device(command: Command, lin: Path) -> None:
    command.ok("run", "two-level", str(lin), "--json", "/dev/null")
    assert os.path.exists("/dev/null")  # noqa: PTH110 - a device, no file
    assert not os.path.isfile("/dev/null")  # noqa: PTH113


def test_a_directory_of_results_holds_all_it_takes_to_run_again(command: Command, lin: Path) -> None:
    done = command.ok("run", "kh90", str(lin), "--seeds", "4", "--interval", "10k", "--out", "deep/out")
    place = command.directory / "deep" / "out"
    names = {file.name for file in place.iterdir()}
    assert names == {*TABLES, "machine.toml", "provenance.json", "run.json", "lin-l2.png", "lin-l2.svg"}
    assert "deep/out/lin-l2.png" in done.stdout.replace("\n", "")
    assert [file.name for file in place.parent.iterdir()] == ["out"]

    provenance = json.loads((place / "provenance.json").read_text())
    machine = binhop.Machine.load(str(place / "machine.toml"))
    again = binhop.simulate(machine, lin, seeds=provenance["seeds"], interval=provenance["interval"])
    for name in ("results", "series", "processes"):
        assert pl.read_parquet(place / f"{name}.parquet").equals(getattr(again, name)), name

    table = pl.read_parquet(place / "results.parquet")
    with (place / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == table.height
    for row, value in zip(rows, table["value"], strict=True):
        assert "." not in row["value"] or "/" in row["unit"]
        assert float(row["value"]) == value
    assert (place / "lin-l2.png").read_bytes().startswith(b"\x89PNG")
    assert (place / "lin-l2.svg").read_text().startswith("<svg")


def test_tables_hold_no_command_line_no_thread_count_no_time(command: Command, lin: Path) -> None:
    command.ok("run", "kh90", str(lin), "--seeds", "2", "--threads", "2", "--out", "out")
    place = command.directory / "out"
    assert "--threads" in json.loads((place / "run.json").read_text())["command"]
    for name in [*TABLES, "provenance.json", "machine.toml"]:
        assert b"--threads" not in (place / name).read_bytes()
        assert b"threads" not in (place / name).read_bytes()


def test_an_earlier_result_is_replaced_and_any_other_directory_is_not(command: Command, lin: Path) -> None:
    out = command.directory / "out"
    arguments = ["run", "two-level", str(lin), "--out", "out"]
    command.ok(*arguments)
    (out / "stray").write_text("left over")
    command.ok(*arguments)
    assert (out / "stray").read_text() == "left over"
    (command.directory / "mine").mkdir()
    (command.directory / "mine" / "thesis.tex").write_text("years of work")
    message = command.refused("run", "two-level", str(lin), "--out", "mine")
    assert "mine" in message
    assert "no result" in message
    (command.directory / "empty").mkdir()
    command.ok("run", "two-level", str(lin), "--out", "empty")


@pytest.mark.parametrize("machine", ["zen-4k", long("kh90"), long("two-level")])
def test_equal_seeds_give_equal_bytes_whatever_the_threads(command: Command, lin: Path, machine: str) -> None:
    for name, threads in [("a", "1"), ("b", "2"), ("c", "1"), ("d", "2")]:
        arguments = [
            "--seeds",
            "5",
            "--interval",
            "7k",
            "--warmup",
            "9k",
            "--threads",
            threads,
            "--out",
            name,
        ]
        command.ok("run", machine, str(lin), *arguments)
    for file in [*TABLES, "machine.toml", "provenance.json"]:
        contents = {(command.directory / name / file).read_bytes() for name in "abcd"}
        assert len(contents) == 1, file


def test_each_trace_says_how_much_of_it_was_read(command: Command, lin: Path) -> None:
    for words in (["run", "two-level"], ["paging"]):
        done = command.ok(*words, str(lin), "tree", "--json", "-")
        provenance = json.loads(done.stdout)["provenance"]
        assert [trace["length"] for trace in provenance["traces"]] == [None, 50_000_000]
        assert "length" not in provenance


def test_several_traces_make_one_table(command: Command, lin: Path) -> None:
    done = command.ok("run", "kh90", str(lin), "tree", "--length", "50k", "--seeds", "2", "--json", "-")
    whole = json.loads(done.stdout)
    assert {row["workload"] for row in whole["rows"]} == {"lin", "tree"}
    assert [trace["name"] for trace in whole["provenance"]["traces"]] == ["lin", "tree"]
    message = command.refused("run", "kh90", str(lin), "lin", "--length", "50k")
    assert "have this name" in message


def test_a_note_of_all_traces_is_said_once(command: Command, lin: Path) -> None:
    level_1 = (
        "level 1 is indexed by physical address bits above the page offset: it is simulated for each seed"
    )
    once = json.loads(command.ok("run", "kh90", str(lin), "tree", "--length", "50k", "--json", "-").stdout)
    assert once["provenance"]["notes"].count(level_1) == 1
    assert not any(note.endswith(f": {level_1}") for note in once["provenance"]["notes"])
    (command.directory / "a.din").write_text("2 1000\n0 2000\n")
    (command.directory / "b.din").write_text("2 1000\n0 3000\n")
    assumed = "access sizes are assumed, not recorded"
    whole = json.loads(command.ok("run", "kh90", "a.din", "b.din", str(lin), "--json", "-").stdout)
    assert [note for note in whole["provenance"]["notes"] if note.endswith(assumed)] == [f"a, b: {assumed}"]


def test_a_setting_changes_the_machine(command: Command, lin: Path) -> None:
    one, two = (
        json.loads(command.ok("run", "kh90", str(lin), "--seed", "1", *more, "--json", "-").stdout)["rows"]
        for more in ([], ["--set", "cache.l2.size=8KiB", "--set", "cache.l2.ways=2"])
    )
    l2 = [{row["metric"]: row["value"] for row in rows}["l2.mpi"] for rows in (one, two)]
    assert l2[1] > l2[0]


def test_a_foreign_trace_can_be_run_as_it_is(command: Command) -> None:
    (command.directory / "tiny.din").write_text("2 1000\n0 2000\n1 3000\n2 1004\n")
    done = command.ok("run", "two-level", "tiny.din", "--json", "-")
    whole = json.loads(done.stdout)
    assert {row["metric"]: row["value"] for row in whole["rows"]}["references"] == 4
    assert len(whole["provenance"]["traces"][0]["sha256"]) == 64


def test_the_reader_of_a_pipe_may_leave(command: Command, lin: Path) -> None:
    import subprocess

    for end, expected in [("--json - | head -c 10", '{"schema":'), ("| true", ""), ("--json - | true", "")]:
        script = f"set -o pipefail; {COMMAND} run kh90 {lin} --seeds 32 {end}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == expected
        assert done.stderr == ""


def test_a_named_pipe_is_opened_once(command: Command, lin: Path) -> None:
    text = command.ok("trace", "head", str(lin), "--rows", "20000").stdout
    pipe = command.directory / "lin.events"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=[text])
    writer.start()
    done = command.apart("run", "two-level", str(pipe))
    writer.join()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("lin on two-level")
