"""Tests `--policy FILE.py:NAME`: a policy of the user's own, and every error in naming or running it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop

if TYPE_CHECKING:
    from tests.conftest import Command

MINE = '''
"""Policies."""
from dataclasses import dataclass
from beside import PLACE

NUMBER = 3

def first(request, pool):
    return pool[0]

@dataclass
class Nth:
    asked: int = 0

    def choose(self, request, pool):
        self.asked += 1
        return pool[self.asked * PLACE % len(pool)]

def made():
    return Nth(1)

KEPT = Nth()

def one(request):
    return 0
'''
SMALL = ["--set", "memory.size=512KiB", "--set", "placement.pool=256KiB", "--set", "cache.l2.size=128KiB"]
RUN = ["kh90", "lin", "--length", "20k", "--seeds", "3", *SMALL]


@pytest.fixture
def mine(command: Command) -> Command:
    (command.directory / "mine.py").write_text(MINE)
    (command.directory / "beside.py").write_text("PLACE = 7\n")
    return command


def values(command: Command, *arguments: str) -> pl.DataFrame:
    whole = json.loads(command.ok("run", *arguments, "--json", "-").stdout)
    return pl.DataFrame(whole["rows"], schema_overrides={"value": pl.Float64})


def test_a_function_a_class_and_a_factory_place_pages(mine: Command) -> None:
    """The file's policy `first` equals the machine's policy `first`. Each has a frame for every seed."""
    assert values(mine, *RUN, "--policy", "mine.py:first").equals(
        values(mine, *RUN, "--set", "placement.policy=first")
    )
    nth = values(mine, *RUN, "--policy", "mine.py:Nth")
    assert nth["seed"].unique().to_list() == [0, 1, 2]
    assert values(mine, *RUN, "--policy", "./mine.py:made").height == nth.height
    alone = values(mine, *RUN[:4], *SMALL, "--seed", "2", "--policy", "mine.py:Nth")
    assert alone.equals(nth.filter(seed=2))
    facts = json.loads(mine.ok("run", *RUN, "--policy", "mine.py:Nth", "--json", "-").stdout)["provenance"]
    assert facts["policy"] == "Nth"


def test_a_closer_look_takes_the_same_policy(mine: Command) -> None:
    shown = mine.ok(
        "run", *RUN, "--policy", "mine.py:first", "--top-conflicts", "2", "--dump-placement", "p.parquet"
    )
    assert "pages placed" in shown.stdout
    machine = binhop.Machine.load("kh90", [*SMALL[1::2], "placement.policy=first"])
    placed = binhop.placements(machine, "lin", 0, length=20_000)
    assert pl.read_parquet(mine.directory / "p.parquet")["frame"].equals(placed["frame"])
    mine.ok("run", *RUN, "--policy", "mine.py:Nth", "--dump-placement", "nth.parquet")
    assert not pl.read_parquet(mine.directory / "nth.parquet")["frame"].equals(placed["frame"])
    mine.ok("run", *RUN, "--policy", "mine.py:Nth", "--until", "90%")


def test_nothing_is_left_beside_the_file(mine: Command) -> None:
    mine.ok("run", *RUN, "--policy", "mine.py:first", "--quiet")
    assert {path.name for path in mine.directory.iterdir()} <= {"mine.py", "beside.py", "__pycache__"}
    assert not list(mine.directory.rglob("mine*.pyc"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("gone.py:first", ["gone.py", "No such file", "mine.py:MyPolicy"]),
        (".:first", ["Is a directory"]),
        ("mine.py", ["a file of Python and a name in it"]),
        (":first", ["a file of Python and a name in it"]),
        ("mine.py:", ["a file of Python and a name in it"]),
        ("mine.py:first()", ["a file of Python and a name in it"]),
        ("mine.py:frist", ["frist", "did you mean first?"]),
        ("mine.py:NUMBER", ["3", "a function choose(request, pool)"]),
        ("mine.py:KEPT", ["one Nth", "a placement would depend on earlier placements"]),
        ("mine.py:one", ["one(request)", "these two parameters"]),
        ("raises.py:x", ["line 2", "ZeroDivisionError: division by zero", "python raises.py"]),
        ("syntax.py:x", ["line 1", "SyntaxError"]),
        ("leaves.py:x", ["line 1", "SystemExit"]),
        ("absent.py:x", ["line 1", "ModuleNotFoundError", "no_such_module"]),
        ("bytes.py:x", ["SyntaxError"]),
    ],
)
def test_what_is_no_policy_is_refused_in_a_line(given: str, says: list[str], mine: Command) -> None:
    files = {
        "raises.py": "import json\nvalue = 1 / 0\n",
        "syntax.py": "def x(:\n",
        "leaves.py": "raise SystemExit(0)\n",
        "absent.py": "import no_such_module\n",
        "beside.pyc": "",
    }
    for name, text in files.items():
        (mine.directory / name).write_text(text)
    (mine.directory / "bytes.py").write_bytes(b"\xff\x00\n")
    done = mine("run", *RUN, "--policy", given)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "error of binhop itself" not in done.stderr
    for words in says:
        assert words in done.stderr


def test_a_policy_and_a_recorded_placement_contradict_each_other(mine: Command) -> None:
    message = mine.refused("run", *RUN, "--policy", "mine.py:first", "--v2p", "map.txt")
    assert "--policy says where pages go" in message


def test_a_policy_that_fails_in_a_run_is_told_without_a_traceback(mine: Command) -> None:
    (mine.directory / "fails.py").write_text("def x(request, pool):\n    return {}['no']\n")
    done = mine("run", *RUN, "--policy", "fails.py:x")
    assert done.returncode == 2
    assert "KeyError" in done.stderr
    assert "Traceback" not in done.stderr


def test_policies_of_ones_own_are_compared_beside_the_machines(mine: Command) -> None:
    given = ["--policy", "mine.py:first", "--policy", "mine.py:Nth", "--json", "-"]
    whole = json.loads(mine.ok("compare", *RUN, *given).stdout)
    facts = [(each["name"], each["policy"]) for each in whole["provenance"]["alternatives"]]
    assert facts == [("random", None), ("first", "first"), ("Nth", "Nth")]
    rows = pl.DataFrame(whole["rows"], schema_overrides={"value": pl.Float64})
    columns = ["seed", "metric", "value"]
    for name in ("first", "Nth"):
        alone = values(mine, *RUN, "--policy", f"mine.py:{name}").select(columns)
        assert rows.filter(alternative=name).select(columns).equals(alone)


def test_policies_of_ones_own_stand_beside_every_alternative(mine: Command) -> None:
    given = [
        "--set",
        "placement.policy=random,hierarchical",
        "--set",
        "cache.l2.ways=1,2",
        "--policy",
        "mine.py:Nth",
    ]
    whole = json.loads(mine.ok("compare", *RUN, *given, "--json", "-").stdout)
    names = [each["name"] for each in whole["provenance"]["alternatives"]]
    assert names == [
        f"l2 ways {ways} {name}" for ways in (1, 2) for name in ("random", "hierarchical", "Nth")
    ]


def test_one_policy_twice_is_refused(mine: Command) -> None:
    done = mine("compare", *RUN, "--policy", "mine.py:first", "--set", "placement.policy=random,first")
    assert done.returncode == 2
    assert "two alternatives have this name" in done.stderr
