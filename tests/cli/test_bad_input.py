"""Tests wrong requests: exit code 2, one line with value, place, rule and remedy, nothing half-written."""

from __future__ import annotations

import random
import re
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import FETCH, LOAD, SWITCH, events

if TYPE_CHECKING:
    from tests.conftest import Command

DATA = Path(__file__).parent.parent / "data"

CACHE = {"serves": '"all"', "size": '"32KiB"', "line": '"32B"', "next": '"memory"'}


def test_a_missing_file(command: Command) -> None:
    message = command.refused("run", "kh90", "gone.parquet")
    assert "gone.parquet" in message
    assert "no such file" in message.lower() or "does not exist" in message


def test_an_empty_file(command: Command) -> None:
    (command.directory / "empty.parquet").touch()
    message = command.refused("run", "kh90", "empty.parquet")
    assert "empty.parquet" in message
    assert "empty" in message.removeprefix("binhop: empty.parquet")


def test_not_parquet(command: Command) -> None:
    (command.directory / "text.parquet").write_text("This is a letter, not a trace. " * 40)
    message = command.refused("run", "kh90", "text.parquet")
    assert "text.parquet" in message
    assert "Parquet" in message


def test_a_directory(command: Command) -> None:
    (command.directory / "here.parquet").mkdir()
    assert "directory" in command.refused("run", "kh90", "here.parquet")


def test_a_wrong_schema_version(command: Command) -> None:
    message = command.refused("run", "kh90", str(DATA / "schema-99.parquet"))
    assert "99" in message
    assert "version" in message


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["policy=page-coloring-equal", "bins=100"], ["100", "power of two", "take 64 or 128"]),
        (["policy=hierarchical", "bins=0"], ["0", "at least one bin"]),
        (["policy=sequential", "tuned-for=l3"], ["l3", "l1i, l1d, l2", "name one of them"]),
        (["policy=colored-lists", "colors=9000"], ["9000", "memory has 8192", "8192 colors or fewer"]),
        (["policy=bin-hopping", "pool=0MiB"], ["0B", "at least one", "memory.page"]),
        (["policy=buddy", "fragmentation=101"], ["101", "between 0 and 100"]),
        (["policy=hierarchical", "sharing=pid"], ["pid", "segment, space"]),
    ],
    ids=lambda value: value[-1] if isinstance(value[0], str) and "=" in value[0] else "",
)
def test_a_placement_that_cannot_be(
    command: Command, lin: Path, settings: list[str], says: list[str]
) -> None:
    given = [part for setting in settings for part in ("--set", f"placement.{setting}")]
    message = command.refused("run", "kh90", str(lin), *given)
    for part in [f"--set placement.{settings[-1]}", *says]:
        assert part in message, message


@pytest.mark.parametrize("kept", [0.999, 0.9, 0.5, 0.01])
def test_a_truncated_file(command: Command, lin: Path, kept: float) -> None:
    whole = lin.read_bytes()
    (command.directory / "cut.parquet").write_bytes(whole[: int(kept * len(whole))])
    assert "cut.parquet" in command.refused("run", "two-level", "cut.parquet")


def test_one_flipped_bit_anywhere(command: Command, lin: Path) -> None:
    whole = lin.read_bytes()
    draw = random.Random(1)
    places = [0, 4, len(whole) // 3, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(6))]
    for place in places:
        broken = bytearray(whole)
        broken[place] ^= 1 << draw.randrange(8)
        (command.directory / "bit.parquet").write_bytes(broken)
        for verb in (["run", "two-level"], ["inspect"]):
            message = command.refused(*verb, "bit.parquet")
            assert "bit.parquet" in message
            if place == len(whole) // 3:
                assert re.search(r"row group \d", message), message


@pytest.mark.parametrize("bad", ["2 zzz", "fetch 1000", "2", "7 1000"])
def test_a_line_that_is_no_din_line(command: Command, bad: str) -> None:
    (command.directory / "bad.din").write_text(f"2 1000\n0 2000\n{bad}\n2 1004\n")
    message = command.refused("import", "bad.din", "-o", "bad.parquet")
    assert re.search(r"bad\.din.*line 3|line 3.*bad\.din|bad\.din:3", message), message
    assert bad in message


@pytest.mark.parametrize(
    ("arguments", "value", "place", "remedy"),
    [
        (["run", "kh09", "TRACE"], "kh09", "machine", "kh90"),
        (["run", "kh90", "TRACE", "--set", "cache.l2.sise=1MiB"], "sise", "cache.l2", "size"),
        (
            ["run", "kh90", "TRACE", "--set", "placement.policy=randon"],
            "randon",
            "placement.policy",
            "random",
        ),
        (["run", "kh90", "mult2.3"], "mult2.3", "trace", "mult2.2"),
        (["run", "kh90", "sro"], "sro", "trace", "sor"),
        (["machines", "zen-4m"], "zen-4m", "machine", "zen-4k"),
        (["import", "x.din", "-o", "y.parquet", "--format", "dinn"], "dinn", "--format", "din"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_unknown_name_gets_the_nearest_known_one(
    command: Command, lin: Path, arguments: list[str], value: str, place: str, remedy: str
) -> None:
    message = command.refused(*(str(lin) if word == "TRACE" else word for word in arguments))
    assert value in message
    assert place in message
    assert re.search(rf"\b{re.escape(remedy)}\b", message.split(value, 1)[1]), message


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("cache.l2.size=3MiB", "power of two"),
        ("cache.l2.line=48B", "power of two"),
        ("memory.page=10KiB", "power of two"),
        ("cache.l2.line=32KiB", "page"),
        ("cache.l1d.ways=2048", "ways"),
        ("placement.pool=256MiB", "memory"),
        ("memory.size=1KiB", "memory"),
        ("cache.l2.next=l1d", "l1d"),
        ("cache.l2.next=l2", "l2"),
        ("cache.l2.ways=0", "ways"),
        ("cache.l2.size=-4", "size"),
        ("cache.l2.size=much", "size"),
        ("cache.l2.size", "="),
        ("memory.size=4096", "unit"),
    ],
)
def test_a_machine_that_cannot_be(command: Command, lin: Path, setting: str, says: str) -> None:
    message = command.refused("run", "kh90", str(lin), "--set", setting)
    key, _, value = setting.partition("=")
    assert key.split(".")[0] in message
    assert says in message
    if says != "ways":  # then the cache's size is named, and what the ways would need
        assert value in message


def machine(command: Command, text: str) -> str:
    (command.directory / "mine.toml").write_text(text)
    return "./mine.toml"


def cache(name: str, **keys: str) -> str:
    lines = [f"{key} = {value}" for key, value in {**CACHE, **keys}.items() if value]
    return f"[cache.{name}]\n" + "\n".join(lines) + "\n"


BASE = 'memory = { size = "1MiB", page = "4KiB" }\nplacement = { policy = "random", pool = "64KiB" }\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BASE + cache("a", next='"b"') + cache("b", serves="", next='"a"'), ["a", "b"]),
        (BASE + cache("a") + cache("b", serves=""), ["b", "serves"]),
        (BASE + cache("a", serves='"data"'), ["fetch"]),
        (BASE, ["cache"]),
        (BASE + cache("a", colour='"red"'), ["colour"]),
        (BASE + cache("a", next='"l7"'), ["l7"]),
        (BASE + cache("a", line='"64B"', next='"b"') + cache("b", serves="", line='"32B"'), ["line"]),
        (BASE + "[cache.a\n", ["mine.toml"]),
        (BASE.replace("1MiB", "4KiB") + cache("a"), ["memory.size", "too small", "16KiB"]),
        (BASE.replace("1MiB", "32KiB") + cache("a"), ["placement.pool", "no larger than memory"]),
    ],
)
def test_a_description_that_cannot_be(command: Command, lin: Path, text: str, says: list[str]) -> None:
    message = command.refused("run", machine(command, text), str(lin))
    assert "mine.toml" in message
    for word in says:
        assert word in message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seeds", "0"], "--seeds"),
        (["--seeds", "-3"], "--seeds: -3: must be a whole number, 1 or more, "),
        (["--seeds", "many"], "--seeds 64"),
        (["--seeds", "1G"], "at most 4096"),
        (["--threads", "0"], "--threads 2"),
        (["--warmup", "900M"], "nothing is left to measure"),
        (["--seeds", "2", "--seed", "3"], "--seed"),
        (["--seed", "-1"], "--seed: -1: must be a whole number, 0 or more, "),
        (["--set", "translation=maybe"], "write it like --set translation=on"),
        (["--length", "0"], "--length"),
        (["--length", "50MB"], "50MB"),
        (["--length", "0.5"], "0.5"),
        (["--length", "1e6"], "1e6"),
        (["--warmup", "soon"], "--warmup"),
        (["--interval", "0"], "--interval"),
        (["--threads", "0"], "--threads"),
        (["--threads", "two"], "two"),
        (["--confidence", "95"], "--confidence"),
        (["--sedes", "3"], "--sedes"),
        (["--json", "no/such/directory/x.json"], "no/such/directory"),
        (["--json", "."], "directory"),
        (["--out", "/proc/here"], "/proc/here"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_option(command: Command, lin: Path, arguments: list[str], says: str) -> None:
    assert says in command.refused("run", "kh90", str(lin), *arguments)


@pytest.mark.parametrize(
    "arguments", [["frobnicate"], ["run"], ["run", "kh90"], ["import", "x.unknown", "-o", "y"]]
)
def test_a_wrong_command_line(command: Command, arguments: list[str]) -> None:
    assert command.refused(*arguments).startswith("binhop")


def test_an_option_that_is_misspelt_gets_the_nearest_one(command: Command, lin: Path) -> None:
    assert "--seeds" in command.refused("run", "kh90", str(lin), "--sedes", "3")


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "kh90", "TRACE", "--seeds", "4", "--json", "x.json"],
        ["run", "kh90", "TRACE", "--seeds", "4", "--interval", "10k", "--out", "out"],
        ["compare", "kh90", "two-level", "TRACE", "--seeds", "4", "--json", "x.json"],
        ["compare", "kh90", "two-level", "TRACE", "--seeds", "4", "--out", "out"],
        ["run", "kh90", "TRACE", "--seeds", "4", "--top-conflicts", "3", "--out", "out"],
        ["import", "big.din", "-o", "big.parquet"],
    ],
    ids=["json", "out", "compare json", "compare out", "conflicts", "import"],
)
def test_no_room_on_the_disk(command: Command, lin: Path, arguments: list[str]) -> None:
    lines = [
        f"{op} {address:x}" for address in random.Random(2).sample(range(1 << 30), 5000) for op in (2, 0)
    ]
    (command.directory / "big.din").write_text("\n".join(lines) + "\n")
    words = [str(lin) if word == "TRACE" else word for word in arguments]
    before = set(command.directory.rglob("*"))
    done = command(*words, preexec_fn=_small_files)
    assert done.returncode == 2
    assert bool(done.stdout) == (words[0] != "import"), "a result that was simulated is shown"
    (message,) = done.stderr.splitlines()
    assert words[-1] in message
    assert "too large" in message.lower()
    assert set(command.directory.rglob("*")) == before


def test_no_room_for_standard_output(command: Command, lin: Path) -> None:
    import subprocess

    from tests.conftest import COMMAND

    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [COMMAND, "run", "two-level", lin],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_scale_of_a_study_that_has_none(command: Command) -> None:
    part = '[[part]]\nname = "p"\nworkloads = ["lin"]\nmachine = "kh90"\nlength = "9k"\n'
    (command.directory / "s.toml").write_text('name = "s"\ntitle = "t"\n' + part)
    message = command.refused("sweep", "s.toml", "--scale", "y")
    assert message == "binhop: scale: y: the study s has no scales; leave --scale out"


@pytest.mark.parametrize(
    "line",
    [
        "run kh90 t.parquet",
        "paging t.parquet",
        "reuse t.parquet",
        "inspect t.parquet",
        "switches t.parquet --machine mb90-1a",
        "translate t.parquet --machine zen-4k",
        "io t.parquet --machine zen-4k",
    ],
)
def test_a_fetch_of_no_instruction_is_refused_with_its_row(command: Command, line: str) -> None:
    rows = [(FETCH, 0x1000, 4, 1), (SWITCH, 0, 0, 0), (LOAD, 0x2000, 8, 1), (FETCH, 0x1004, 4, 0)]
    events(rows).write_parquet(command.directory / "t.parquet")
    message = command.refused(*line.split())
    assert "t.parquet: row 3: fetch with count 0: a fetch has at least one instruction" in message
