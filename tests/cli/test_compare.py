"""Tests `binhop compare`, and `--until` of runs and comparisons."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop.cli.alternatives import split
from binhop.numbers import signed
from tests.conftest import COMMAND

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

SIZES = ["--set", "cache.l2.size=64KiB,128KiB"]


CELL = re.compile(r"the same|\S+ to \S+|\S+ \(\S+\)|\S+")
"""What stands in one column of the table."""


def rows(out: str) -> dict[tuple[str, str], list[str]]:
    """Returns the printed table: (metric, alternative) and the rest of the line."""
    found: dict[tuple[str, str], list[str]] = {}
    metric = ""
    for line in out.splitlines():
        if line.startswith("   ") and line.split()[0] == "mean":
            continue  # the head
        if line.startswith("  ") and metric:
            name, rest = re.split(r" {2,}", line.strip(), maxsplit=1)
            found[metric, name] = CELL.findall(rest)
        elif line.strip():
            metric = line.strip()
    return found


def test_the_table_shows_what_the_api_computes(command: Command, lin: Path) -> None:
    out = command.ok("compare", "kh90", str(lin), *SIZES, "--seeds", "8", "--confidence", "0.9").stdout
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    machines = [binhop.Machine.load("kh90", [f"cache.l2.size={size}"]) for size in ("64KiB", "128KiB")]
    expected = binhop.compare(machines, lin, seeds=8, confidence=0.9).summary
    row = expected.filter(metric="l2.mpi").row(0, named=True)
    table = rows(out)
    assert table["l2 MPI×1000", "l2 64KiB"] == [f"{1000 * row['baseline_mean']:#.4g}", "baseline"]
    mean, difference, interval, reduction, chance = table["l2 MPI×1000", "l2 128KiB"]
    assert mean == f"{1000 * row['mean']:#.4g}"
    assert difference == f"{1000 * row['difference']:+#.3g}"
    assert interval == f"{1000 * row['low']:+#.3g} to {1000 * row['high']:+#.3g}"
    assert reduction == f"{100 * row['reduction']:.1f}%"
    bounds = [round(100 * row[name]) for name in ("chance", "chance_low", "chance_high")]
    assert chance == "{}% ({}-{})".format(*bounds)
    assert table["l1d MPI×1000", "l2 128KiB"][1:] == ["the same", "-", "-", "-"]
    assert next(metric for metric, name in table if name == "l2 64KiB") == "l2 MPI×1000", "last level first"
    assert "90% interval" in out
    assert "under the same seed" in out
    assert "a tie as half" in " ".join(out.split())


def test_the_form_of_the_handbook(command: Command, lin: Path) -> None:
    out = command.ok("compare", "zen-4k", "--set", "placement.policy=random,first", str(lin), "--seeds", "4")
    assert {name for _, name in rows(out.stdout)} == {"random", "first"}
    assert out.stderr == ""


def test_several_settings_make_every_combination(command: Command, lin: Path) -> None:
    more = ["--set", "cache.l2.ways=1,2", "--set", "memory.size=64MiB", "--baseline", "l2 128KiB l2 ways 2"]
    done = command.ok("compare", "kh90", str(lin), *SIZES, *more, "--seeds", "2", "--json", "-")
    provenance = json.loads(done.stdout)["provenance"]
    assert [each["name"] for each in provenance["alternatives"]] == [
        "l2 64KiB l2 ways 1",
        "l2 64KiB l2 ways 2",
        "l2 128KiB l2 ways 1",
        "l2 128KiB l2 ways 2",
    ]
    assert provenance["baseline"] == "l2 128KiB l2 ways 2"
    assert all('size = "64MiB"' in text for text in provenance["descriptions"].values())


def test_machines_are_told_by_name_or_ending_and_combined_with_settings(command: Command, lin: Path) -> None:
    (command.directory / "mine.toml").write_text(binhop.Machine.load("kh90").resolved())
    done = command.ok("compare", "kh90", "zen-4k", str(lin), *SIZES, "--seeds", "2", "--json", "-")
    names = [each["name"] for each in json.loads(done.stdout)["provenance"]["alternatives"]]
    assert names == ["kh90 l2 64KiB", "kh90 l2 128KiB", "zen-4k l2 64KiB", "zen-4k l2 128KiB"]
    args = ["compare", "kh90", "mine.toml", str(lin), "--seeds", "2", "--json", "-"]
    assert "is the same machine as kh90" in command.refused(*args)
    text = binhop.Machine.load("kh90", ["cache.l1d.ways=2"]).resolved()
    (command.directory / "mine.toml").write_text(text)
    names = [each["name"] for each in json.loads(command.ok(*args).stdout)["provenance"]["alternatives"]]
    assert names == ["kh90", "mine.toml"], "both say that their name is kh90"


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("a,b,c", ["a", "b", "c"]),
        (" a , b", ["a", "b"]),
        ('"a,b",c', ['"a,b"', "c"]),
        ("[1,2],[3]", ["[1,2]", "[3]"]),
        ("{ x = 'p,q', y = 1 }", ["{ x = 'p,q', y = 1 }"]),
        ("a,", ["a", ""]),
    ],
)
def test_commas_make_alternatives_but_not_in_quotes_or_brackets(value: str, parts: list[str]) -> None:
    assert split(value) == parts


def test_a_key_given_several_times_has_those_alternatives_whole(command: Command, lin: Path) -> None:
    more = ["--set", "name=one, two", "--set", "name=three", "--set", "cache.l2.ways=2"]
    done = command.ok("compare", "kh90", str(lin), *more, "--seeds", "2", "--json", "-")
    names = [each["name"] for each in json.loads(done.stdout)["provenance"]["alternatives"]]
    assert names == ["one, two", "three"]


def test_a_constant_is_said_to_be_one(command: Command, lin: Path) -> None:
    out = command.ok("compare", "kh90", "two-level", str(lin), "--seeds", "4").stdout
    assert "two-level: nothing is random there" in " ".join(out.split())
    out = command.ok("compare", "two-level", str(lin), *SIZES).stdout
    assert "1 placement\n" in out
    assert "nothing is random in any of them" in " ".join(out.split())
    assert "Wilson" not in out


def test_other_metrics_can_be_compared(command: Command, lin: Path) -> None:
    more = ["--metric", "memory.load.accesses", "--metric", "os.faults", "--seeds", "3"]
    out = command.ok("compare", "kh90", str(lin), *SIZES, *more).stdout
    assert "os.faults, pages" in out
    assert "memory.load.accesses," in out
    assert "l1d" not in out


def test_huge_pages_are_compared_by_what_they_change(command: Command) -> None:
    trace = ("--length", "50k", "--seeds", "1", "--json", "-")
    settings = ("translation=on", "placement.policy=buddy", "translation.huge-pages=4KiB,2MiB")
    chosen = [part for setting in settings for part in ("--set", setting)]
    whole = json.loads(command.ok("compare", "zen-4k", "tree", *trace, *chosen).stdout)
    metrics = {row["metric"] for row in whole["summary"]}
    huge = {"translation.misses", "translation.walks", "os.faults", "translation.huge-pages.lost"}
    assert huge <= metrics
    assert "l3.mpi" in metrics


def test_a_directory_and_a_json_file(command: Command, lin: Path) -> None:
    target = ["--out", "deep/out", "--json", "x.json", "--seeds", "3"]
    done = command.ok("compare", "kh90", str(lin), "tree", "--length", "50k", *SIZES, *target)
    place = command.directory / "deep" / "out"
    assert {"lin-l2.png", "tree-l2.svg", "summary.csv", "machines"} <= {file.name for file in place.iterdir()}
    assert "deep/out/lin-l2.png" in done.stdout
    whole = json.loads((command.directory / "x.json").read_text())
    assert [row["workload"] for row in whole["summary"]] == ["lin"] * 3 + ["tree"] * 3
    assert pl.read_parquet(place / "summary.parquet").to_dicts() == whole["summary"]
    run = json.loads((place / "run.json").read_text())
    assert run["command"][1] == "compare"
    assert [file.name for file in place.parent.iterdir()] == ["out"]
    command.ok("run", "two-level", str(lin), "--out", "deep/out")  # a result replaces a result
    assert not (place / "machines").exists()


def test_equal_seeds_give_equal_bytes_whatever_the_threads(command: Command, lin: Path) -> None:
    for name, threads in [("a", "1"), ("b", "2")]:
        command.ok("compare", "kh90", str(lin), *SIZES, "--seeds", "3", "--threads", threads, "--out", name)
    for file in (command.directory / "a").rglob("*"):
        if file.is_file() and file.name != "run.json" and file.suffix not in (".png", ".svg"):
            other = command.directory / "b" / file.relative_to(command.directory / "a")
            assert file.read_bytes() == other.read_bytes(), file


def test_quiet_is_quiet(command: Command, lin: Path) -> None:
    done = command.ok("compare", "kh90", str(lin), *SIZES, "--seeds", "2", "--quiet")
    assert (done.stdout, done.stderr) == ("", "")


def test_a_terminal_sees_progress_and_a_pipe_does_not(command: Command, lin: Path) -> None:
    ours, theirs = pty.openpty()
    long = command.directory / f"{'long' * 20}.parquet"
    long.symlink_to(lin)
    arguments = ["compare", "kh90", "lin", long, *SIZES, "--length", "5M", "--seeds", "8"]
    done = subprocess.run(
        [COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=theirs,
        timeout=60,
        check=True,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    assert b"references/s" in seen
    assert seen.count(b"\n") == 1, "the progress has one line, whatever the length of its title"
    assert "\x1b" not in done.stdout


# ---- traces


@pytest.fixture
def two(command: Command) -> list[str]:
    """Makes two traces of one name, in two directories."""
    for place, workload, length in [("old", "lin", 60_000), ("new", "tree", 50_000)]:
        (command.directory / place).mkdir()
        binhop.Trace.workload(workload).write(command.directory / place / "app.parquet", length=length)
    return ["old/app.parquet", "new/app.parquet"]


def test_two_traces_on_one_machine_are_compared_with_each_other(command: Command, two: list[str]) -> None:
    out = command.ok("compare", "skylake", *two, "--seeds", "4").stdout
    assert max(map(len, out.splitlines())) <= 80
    assert out.startswith("old/app.parquet, new/app.parquet on skylake: 4 placements\n")
    paths = [command.directory / name for name in two]
    of = binhop.compare("skylake", dict(zip(two, paths, strict=True)), seeds=4)
    lines = [line.strip() for line in out.splitlines()]
    for metric, title in [("cycles", "cycles"), ("l3.misses", "l3 misses"), ("instructions", "instructions")]:
        row = of.summary.filter(metric=metric).row(0, named=True)
        mean, baseline = (f"{round(row[name]):,}".replace(",", " ") for name in ("mean", "baseline_mean"))
        difference = signed(row["difference"], row["unit"])
        head = lines.index(title)
        first, second = (" ".join(line.split()) for line in lines[head + 1 : head + 3])
        assert first == f"old/app.parquet {baseline} baseline"
        assert second.startswith(f"new/app.parquet {mean} {difference} "), second
    assert "every seed" in second, "instructions do not depend on the placement"
    row = of.summary.filter(metric="cpi").row(0, named=True)
    assert lines[lines.index("CPI") + 2].split()[1] == f"{row['mean']:#.4g}"


def test_a_policy_still_makes_each_trace_a_workload(command: Command, two: list[str]) -> None:
    assert "have this name" in command.refused("compare", "kh90", *two, *SIZES)
    done = command.ok(
        "compare", "kh90", two[0], "tree", "--length", "9k", *SIZES, "--seeds", "2", "--json", "-"
    )
    assert json.loads(done.stdout)["provenance"]["compared"] == "machines"


def test_traces_and_their_baseline_in_json(command: Command, two: list[str]) -> None:
    more = ["--set", "cache.l2.size=64KiB", "--seeds", "2", "--baseline", two[1], "--json", "-"]
    whole = json.loads(command.ok("compare", "kh90", *two, *more).stdout)
    assert whole["provenance"]["baseline"] == two[1]
    assert {row["alternative"] for row in whole["summary"]} == {two[0]}
    assert {row["workload"] for row in whole["rows"]} == {"app"}
    assert "lin" in command.refused("compare", "kh90", "lin", two[0], "--baseline", "lim")
    assert "the same trace is given twice" in command.refused("compare", "kh90", two[0], two[0])


# ---- until


def test_run_goes_on_until_the_interval_is_narrow(command: Command, lin: Path) -> None:
    small = ["--set", "cache.l2.size=64KiB"]
    machine = binhop.Machine.load("kh90", ["cache.l2.size=64KiB"])
    row = binhop.simulate(machine, lin, seeds=64).summary().filter(metric="l2.mpi").row(0, named=True)
    goal = f"{100 * (row['high'] - row['low']) / 2 / row['mean'] + 0.01:.2f}%"
    command.ok("run", "kh90", str(lin), *small, "--until", goal, "--out", "until", "--interval", "20k")
    command.ok("run", "kh90", str(lin), *small, "--seeds", "64", "--out", "at-once", "--interval", "20k")
    for name in ("results.parquet", "series.parquet", "processes.parquet", "results.csv"):
        one, other = ((command.directory / place / name).read_bytes() for place in ("until", "at-once"))
        assert one == other, name
    provenance = json.loads((command.directory / "until" / "provenance.json").read_text())
    assert provenance["seeds"] == list(range(64))
    assert provenance["until"]["reached"] is True
    assert provenance["until"]["metric"] == "l2.mpi"


def test_the_limit_is_said_plainly(command: Command, lin: Path) -> None:
    small = ["--set", "cache.l2.size=64KiB", "--until", "0.01%", "--seeds", "40"]
    out = " ".join(command.ok("run", "kh90", str(lin), *small).stdout.split())
    assert "the limit of 40 placements came first" in out
    assert "40 placements" in out
    out = " ".join(command.ok("compare", "kh90", str(lin), *SIZES, *small[2:]).stdout.split())
    assert "the limit of 40 placements came first: the interval of the difference in l2.mpi is ±" in out


def test_several_traces_go_on_together(command: Command, lin: Path) -> None:
    out = command.ok("run", "kh90", str(lin), "tree", "--length", "50k", "--until", "50%").stdout
    assert out.count("32 placements\n") == 2
    assert "32 placements were enough" in " ".join(out.split())


# ---- wrong requests


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["kh90"], ["kh90", "none of the names is a trace"]),
        (["TRACE"], ["none of the names is a machine", "kh90"]),
        (["kh90", "TRACE"], ["two alternatives or more", "--set"]),
        (["kh09", "TRACE", *SIZES], ["kh09", "kh90"]),
        (["kh90", "kh90", "TRACE"], ["this machine is given twice"]),
        (["kh90", "gone.toml", "TRACE"], ["gone.toml", "cannot be read"]),
        (["kh90", "gone.parquet", *SIZES], ["gone.parquet", "No such file"]),
        (["kh90", "two-level", "TRACE", "lin", "--length", "9k"], ["have this name"]),
        (["kh90", "TRACE", "--set", "cache.l2.size"], ["--set", "KEY=VALUE"]),
        (["kh90", "TRACE", "--set", "=1,2"], ["--set", "KEY=VALUE"]),
        (["kh90", "TRACE", "--set", "cache.l2.size=1MiB,"], ["1MiB,", "empty"]),
        (["kh90", "TRACE", "--set", "cache.l2.size=1MiB,1MiB"], ["1MiB", "twice"]),
        (["kh90", "TRACE", "--set", "cache.l2.size=1MiB,1024KiB"], ["1024KiB", "is the same machine as"]),
        (["kh90", "TRACE", "--set", "cache.l2.size=1MiB,3MiB"], ["3MiB", "power of two"]),
        (["kh90", "TRACE", "--set", "cache.l2.sise=1MiB,2MiB"], ["sise", "size"]),
        (["kh90", "TRACE", "--set", "placement.policy=random,randon"], ["randon", "random"]),
        (["kh90", "TRACE", "--set", f"cache.l2.ways={','.join(str(n) for n in range(65))}"], ["65", "64"]),
        (["kh90", "TRACE", *SIZES, "--baseline", "l2 64kib"], ["--baseline", "l2 64KiB"]),
        (["kh90", "TRACE", *SIZES, "--metric", "l3.mpi"], ["l3.mpi", "l2.mpi"]),
        (["zen-4k", "kh90", "TRACE", "--metric", "l3.mpi"], ["l3.mpi", "only zen-4k has this metric"]),
        (["kh90", "TRACE", *SIZES, "--seeds", "0"], ["--seeds", "at least 1"]),
        (["kh90", "TRACE", *SIZES, "--seeds", "5000"], ["5000", "4096"]),
        (["kh90", "TRACE", *SIZES, "--seed", "3"], ["--seed", "--seeds"]),
        (["kh90", "TRACE", *SIZES, "--confidence", "95"], ["--confidence", "0.95"]),
        (["kh90", "TRACE", *SIZES, "--warmup", "900M"], ["nothing is left to measure"]),
        (["kh90", "TRACE", *SIZES, "--until", "2"], ["--until 2%"]),
        (["kh90", "TRACE", *SIZES, "--until", "two"], ["--until", "two"]),
        (["kh90", "TRACE", *SIZES, "--until", "0%"], ["--until", "0%"]),
        (["kh90", "TRACE", *SIZES, "--until", "2%", "--seeds", "1"], ["--seeds", "two placements"]),
        (["kh90", "TRACE", *SIZES, "--until", "2%", "--seeds", "9k"], ["9000", "4096"]),
        (["kh90", "TRACE", *SIZES, "--json", "no/such/x.json"], ["no/such"]),
        (["kh90", "TRACE", *SIZES, "--out", "/proc/here"], ["/proc/here"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_comparison(command: Command, lin: Path, arguments: list[str], says: list[str]) -> None:
    message = command.refused("compare", *(str(lin) if word == "TRACE" else word for word in arguments))
    for word in says:
        assert word in message, message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--until", "2"], "--until 2%"),
        (["--until", "-1%"], "-1%"),
        (["--until", "100%"], "below 100%"),
        (["--until", "2%", "--seed", "3"], "--until 2% --seed 3"),
        (["--until", "2%", "--seeds", "1"], "two placements"),
        (["--until", "2%", "--metric", "l2.mpj"], "l2.mpi"),
        (["--metric", "l2.mpi"], "--until"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_goal(command: Command, lin: Path, arguments: list[str], says: str) -> None:
    assert says in command.refused("run", "kh90", str(lin), *arguments)


def test_a_pipe_cannot_be_read_round_after_round(command: Command) -> None:
    os.mkfifo(command.directory / "pipe.din")
    for arguments in (["run", "kh90"], ["compare", "kh90", *SIZES]):
        message = command.refused(*arguments, "pipe.din", "--until", "2%")
        assert "is read once" in message
    message = command.refused("compare", "kh90", "two-level", "pipe.din")
    assert "is read once" in message
