"""Tests the options of `run` about single placements: `--top-conflicts` and `--dump-placement`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop.costly import PAGE, PROCESS, SEGMENT, costliest
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

SORT = ROOT / "examples" / "traces" / "sort.parquet"
SMALL = ["--set", "cache.l2.size=64KiB"]


def table(rows: list[tuple[int, int, int, str, int, int]]) -> pl.DataFrame:
    columns = ["seed", "asid", "page_no", "segment", "bin", "misses"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def test_costs_by_hand() -> None:
    conflicts = table(
        [
            (0, 1, 10, "text", 3, 100),
            (0, 1, 20, "heap", 3, 90),
            (1, 1, 10, "text", 5, 20),
            (1, 2, 10, "heap", 5, 30),
            (2, 2, 10, "heap", 6, 10),
        ]
    )
    seeds = [0, 1, 2, 3]  # nothing missed again under seed 3
    assert costliest(conflicts, seeds, 0, PAGE).rows() == [
        (1, 10, "text", 3, 100, pytest.approx(20 / 3)),
        (1, 20, "heap", 3, 90, 0.0),
        (2, 10, "heap", None, 0, pytest.approx(40 / 3)),
    ]
    assert costliest(conflicts, seeds, 1, SEGMENT).rows() == [
        ("heap", 30, pytest.approx(100 / 3)),
        ("text", 20, pytest.approx(100 / 3)),
    ]
    assert costliest(conflicts, seeds, 0, PROCESS).rows() == [
        (1, 190, pytest.approx(20 / 3)),
        (2, 0, pytest.approx(40 / 3)),
    ]
    assert costliest(conflicts.filter(seed=0), [0], 0, SEGMENT)["others"].to_list() == [None, None]


def test_the_sums_are_the_misses_beyond_the_first_touch(command: Command) -> None:
    command.ok("run", "kh90", str(SORT), "--seeds", "4", "--top-conflicts", "3", "--out", "out")
    place = command.directory / "out"
    conflicts = pl.read_parquet(place / "conflicts.parquet")
    results = pl.read_parquet(place / "results.parquet")
    assert conflicts["workload"].unique().to_list() == ["sort"]
    for seed in range(4):
        of = dict(results.filter(seed=seed).select("metric", "value").iter_rows())
        beyond = sum(
            of[f"l2.{kind}.misses"] - of[f"l2.{kind}.compulsory"] for kind in ("fetch", "load", "store")
        )
        assert conflicts.filter(seed=seed)["misses"].sum() == beyond


def test_it_names_the_pages_that_fight(command: Command) -> None:
    done = command.ok("run", "kh90", str(SORT), "--seeds", "8", "--top-conflicts", "2")
    assert max(map(len, done.stdout.splitlines())) <= 80
    flat = " ".join(done.stdout.split())
    assert "sort, seed 0, the worst of 8: 6 309 misses in l2 beyond the first touch" in flat
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("0x")]
    assert len(lines) == 2
    assert lines[0][0] == "0x4868000"
    bins = [line[line.index("numbers") + 1] for line in lines]
    assert bins == ["119", "119"], "the two pages lie in one bin"
    assert "0 sort numbers" in done.stdout


@pytest.mark.parametrize(("word", "column"), [("best", "best_seed"), ("worst", "worst_seed")])
def test_best_and_worst_are_those_of_this_run(command: Command, lin: Path, word: str, column: str) -> None:
    machine = binhop.Machine.load("kh90", SMALL[1:])
    row = binhop.simulate(machine, lin, seeds=6).summary().filter(metric="l2.mpi").row(0, named=True)
    arguments = ["run", "kh90", str(lin), *SMALL, "--seeds", "6", "--seed", word]
    out = command.ok(*arguments, "--top-conflicts", "3", "--dump-placement", "one.parquet").stdout
    assert f"lin, seed {row[column]}, the {word} of 6: " in out
    dumped = pl.read_parquet(command.directory / "one.parquet")
    assert dumped.equals(binhop.placements(machine, lin, row[column]))
    facts = pl.read_parquet_metadata(command.directory / "one.parquet")
    assert (facts["machine"], facts["trace"], facts["seed"]) == ("kh90", "lin", str(row[column]))


def test_where_all_placements_are_equal_none_is_the_worst(command: Command) -> None:
    out = command.ok(
        "run", "skylake", str(SORT), "--seeds", "3", "--top-conflicts", "1", "--cache", "l1d"
    ).stdout
    flat = " ".join(out.split())
    assert "sort, seed 0, one of 3 placements that are equal in l1d: " in flat
    assert "the worst" not in flat


def test_one_number_is_run_alone_unless_others_are_asked_for(command: Command, lin: Path) -> None:
    arguments = ["run", "kh90", str(lin), *SMALL, "--seed", "17", "--dump-placement", "a.parquet"]
    assert "1 placement\n" in command.ok(*arguments).stdout
    done = command.ok(*arguments[:-1], "b.parquet", "--seeds", "20", "--json", "-")
    seeds = json.loads(done.stdout)["provenance"]["seeds"]
    assert seeds == list(range(20))
    for name in ("a", "b"):
        assert pl.read_parquet(command.directory / f"{name}.parquet")["seed"].unique().to_list() == [17]
    done = command.ok("run", "kh90", str(lin), *SMALL, "--seed", "3", "--top-conflicts", "2", "--json", "-")
    whole = json.loads(done.stdout)
    assert len(whole["provenance"]["seeds"]) == 32
    assert {row["seed"] for row in whole["conflicts"]} <= set(range(32))


def test_another_cache_is_looked_at_by_name(command: Command, lin: Path) -> None:
    machine = binhop.Machine.load("kh90", SMALL[1:])
    summary = binhop.simulate(machine, lin, seeds=6).summary()
    for cache in machine.caches:
        arguments = ["--seeds", "6", "--top-conflicts", "3", "--cache", cache, "--json", "x.json"]
        out = command.ok("run", "kh90", str(lin), *SMALL, *arguments).stdout
        row = summary.filter(metric=f"{cache}.mpi").row(0, named=True)
        equal = row["min"] == row["max"]
        which = f"one of 6 placements that are equal in {cache}" if equal else "the worst of 6"
        assert f"lin, seed {row['worst_seed']}, {which}: " in out
        assert f"in {cache} " in " ".join(out.split())
        rows = json.loads((command.directory / "x.json").read_text())["conflicts"]
        table = binhop.repeated_misses(machine, lin, cache=cache, seeds=6)
        assert [row["misses"] for row in rows] == table["misses"].to_list()
        (command.directory / "x.json").unlink()


def test_segments_are_named_by_what_they_are(command: Command) -> None:
    lines = [
        '# meta {"segments": {"1": {"file": "/usr/bin/app", "kind": "file"}, "2": {"kind": "heap"}}}',
        "map 0x400000 flags=r-x pages=2 segment=1",
        "map 0x402000 flags=rw- pages=2 segment=1 offset=0x2000",
        "map 0x404000 flags=rw- pages=2",
        "map 0x600000 flags=rw- pages=2 segment=2",
        "map 0x7f0000 flags=rw-g pages=2",
    ]
    pages = [
        ("load", 0x400000),
        ("store", 0x402000),
        ("store", 0x404000),
        ("store", 0x600000),
        ("store", 0x7F0000),
    ]
    for _ in range(3):
        lines += [f"{kind} {page + line * 64:#x} size=8" for line in range(64) for kind, page in pages]
    (command.directory / "app.events").write_text("\n".join(lines) + "\n")
    machine = ["--set", "cache.l1d.size=4KiB", "--set", "memory.page=4KiB"]
    options = ["--seeds", "2", "--top-conflicts", "9", "--cache", "l1d", "--json", "-"]
    done = command.ok("run", "kh90", "app.events", *machine, *options)
    named = {row["page_no"]: row["segment"] for row in json.loads(done.stdout)["conflicts"]}
    assert named == {
        0x400: "app",
        0x402: ".data of app",
        0x404: ".bss of app",
        0x600: "heap",
        0x7F0: "stack",
    }


def test_where_nothing_missed_again_that_is_said(command: Command, lin: Path) -> None:
    out = command.ok("run", "zen-4k", str(lin), "--seeds", "2", "--top-conflicts", "5").stdout
    assert "no line missed in l3 but at its first touch" in " ".join(out.split())


def test_several_traces_are_looked_at_one_by_one(command: Command, lin: Path) -> None:
    more = ["tree", "--length", "90k", "--seeds", "3", "--top-conflicts", "1", "--json", "x.json"]
    out = command.ok("run", "kh90", str(lin), *SMALL, *more).stdout
    assert "lin, seed " in out
    assert "tree, seed " in out
    whole = json.loads((command.directory / "x.json").read_text())
    assert {row["workload"] for row in whole["conflicts"]} == {"lin", "tree"}


def test_it_goes_with_until(command: Command, lin: Path) -> None:
    out = command.ok("run", "kh90", str(lin), *SMALL, "--until", "90%", "--top-conflicts", "1").stdout
    assert "the worst of 32" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seed", "worst"], ["worst", "--top-conflicts"]),
        (["--seed", "best", "--until", "2%"], ["best", "--dump-placement"]),
        (["--seed", "3", "--seed", "4", "--top-conflicts", "3"], ["3 4", "one placement"]),
        (["--seed", "worse", "--top-conflicts", "3"], ["worse", "best or worst"]),
        (["--seed", "-3", "--top-conflicts", "3"], ["-3", "best or worst"]),
        (["--seed", "40", "--top-conflicts", "3"], ["40", "32 placements", "--seeds 41"]),
        (["--seeds", "4", "--seed", "4", "--dump-placement", "x"], ["4 placements", "--seeds 5"]),
        (["--top-conflicts", "0"], ["--top-conflicts", "at least 1"]),
        (["--top-conflicts", "many"], ["many", "--top-conflicts 20"]),
        (["--top-conflicts", "3", "--cache", "l9"], ["l9", "kh90 has no such cache", "l1i, l1d, l2"]),
        (["--cache", "l2"], ["--cache", "--top-conflicts"]),
        (["--dump-placement", "-"], ["standard output", "worst.parquet"]),
        (["--dump-placement", "no/where.parquet"], ["no/where.parquet", "No such file"]),
        (["--dump-placement", "."], ["is a directory"]),
        (["tree", "--length", "9k", "--dump-placement", "x"], ["one file", "lin tree"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_look(command: Command, lin: Path, arguments: list[str], says: list[str]) -> None:
    message = command.refused("run", "kh90", str(lin), *arguments)
    for word in says:
        assert word in message, message


def test_a_pipe_cannot_be_looked_at(command: Command) -> None:
    os.mkfifo(command.directory / "pipe.din")
    for option in (["--top-conflicts", "3"], ["--dump-placement", "x.parquet"]):
        assert "is read once" in command.refused("run", "kh90", "pipe.din", *option)


def test_a_full_disk_leaves_no_placement(command: Command, lin: Path) -> None:
    done = command("run", "two-level", str(lin), "--dump-placement", "/dev/full")
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert not [*command.directory.iterdir()]


# ---- replay

EVICTING = ["--set", "memory.page=4KiB", "--set", "memory.size=32KiB", "--set", "placement.pool=16KiB"]
L2_RANDOM = ["--set", "cache.l2.size=64KiB", "--set", "cache.l2.ways=4"]


@pytest.mark.parametrize(
    ("machine", "settings"),
    [
        ("kh90", SMALL),
        ("kh90", [*SMALL, *EVICTING]),
        ("kh90", [*L2_RANDOM, "--set", "placement.policy=bin-hopping", "--set", "placement.tuned-for=l2"]),
        ("kh90", [*SMALL, "--set", "placement.policy=hierarchical", "--warmup", "20k"]),
        ("zen-4k", ["--set", "cache.l2.size=32KiB", "--set", "cache.l3.size=64KiB"]),
        ("two-level", []),
    ],
    ids=lambda value: " ".join(value).replace("--set ", "") if isinstance(value, list) else value,
)
def test_a_replay_counts_the_same_to_the_last_integer(
    command: Command, lin: Path, machine: str, settings: list[str]
) -> None:
    plain = ["run", machine, str(lin), *settings]
    seed = "0" if machine == "two-level" else "5"
    dumped = command.ok(*plain, "--seed", seed, "--dump-placement", "p.parquet", "--json", "-")
    memory = ["--set", "memory.size=4GiB"] if machine == "two-level" else []
    replay = ["--set", "placement.policy=recorded", "--set", "placement.file=p.parquet", *memory]
    replayed = command.ok(*plain, *replay, "--seed", seed, "--json", "-")
    ours, theirs = (
        {
            (row["phase"], row["metric"]): row["value"]
            for row in json.loads(done.stdout)["rows"]
            if not (machine == "two-level" and row["metric"].startswith("os."))
        }
        for done in (dumped, replayed)
    )
    assert {key: value for key, value in theirs.items() if key in ours} == ours
    assert ours["measured", "l2.mpi"] > 0
    if EVICTING[3] in settings:
        assert ours["measured", "os.evictions"] > 0


@pytest.mark.parametrize(
    ("trace", "file", "says"),
    [
        ("lin", None, ["placement.file", "--dump-placement"]),
        ("lin", "gone.parquet", ["gone.parquet", "No such file"]),
        ("lin", "TRACE", ["no column"]),
        ("lin", "text", ["text", "Parquet"]),
    ],
)
def test_a_wrong_replay(command: Command, lin: Path, trace: str, file: str | None, says: list[str]) -> None:
    (command.directory / "text").write_text("no Parquet at all " * 99)
    command.ok("run", "kh90", str(lin), "--seed", "3", "--dump-placement", "p.parquet", "--quiet")
    target = [] if file is None else ["--set", f"placement.file={lin if file == 'TRACE' else file}"]
    arguments = ["run", "kh90", trace, "--length", "90k", "--set", "placement.policy=recorded", *target]
    message = command.refused(*arguments)
    for word in says:
        assert word in message, message


def test_a_replay_of_another_trace_says_so_and_leaves_nothing(command: Command, lin: Path) -> None:
    command.ok("run", "kh90", str(lin), "--seed", "3", "--dump-placement", "p.parquet", "--quiet")
    replay = ["--set", "placement.policy=recorded", "--set", "placement.file=p.parquet"]
    message = command.refused("run", "kh90", "tree", "--length", "90k", *replay, "--out", "out")
    assert "placement policy recorded, fault " in message
    assert "replay the trace that the recording was made on" in message
    assert [file.name for file in command.directory.iterdir()] == ["p.parquet"]
