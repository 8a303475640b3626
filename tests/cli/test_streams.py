"""Closed or full streams, streams of few characters, and deeply nested documents never cause a bug report."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from binhop import cli, study
from binhop.errors import RequestError
from tests.cli.test_output import STUDY
from tests.conftest import COMMAND, long

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COMMANDS = {
    "run": "run two-level s.din",
    "run --json -": "run two-level s.din --json -",
    "compare": "compare two-level s.din --set cache.l2.ways=1,2",
    "sweep": "sweep s.toml",
    "explain": "sweep s.toml --explain",
    "paging": "paging s.din",
    "reuse": "reuse s.din",
    "switches": "switches client-server --length 60k --machine zen-4k --seeds 1",
    "translate": "translate s.din --machine jm97 --seeds 1",
    "io": "io s.din --machine zen-4k --seeds 1",
    "inspect": "inspect s.din",
    "lint": "lint s.din",
    "trace head": "trace head s.din",
    "machine": "machines kh90",
    "machines": "machines",
    "policies": "policies",
    "counters": "counters",
    "help": "run --help",
    "version": "--version",
    "wrong": "run gone",
}
EVERY = ["", ">&-", "2>&-", "<&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", ">/dev/full 2>/dev/full"]
SOME = ["<&- >&- 2>&-", ">/dev/full"]
"""The streams of each command. One command gets every combination."""
ASCII = {"PYTHONIOENCODING": "ascii"}
POSIX = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "s.din").write_text("2 1000\n0 2000\n1 3000\n2 1004\n")
    document = STUDY.replace('"lin"', '"s.din"').replace('length = "20k"\n', "seeds = 1\n")
    (tmp_path / "s.toml").write_text(document)
    return tmp_path


def shell(directory: Path, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"exec {COMMAND} {line}"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_stream_that_is_closed_or_full(here: Path, name: str) -> None:
    right = 2 if name == "wrong" else 0
    for place in EVERY if name == "run" else SOME:
        done = shell(here, f"{COMMANDS[name]} {place}")
        assert "Traceback" not in done.stderr
        assert "error of binhop itself" not in done.stderr
        assert "Exception ignored" not in done.stderr
        fails = ">/dev/full" in place.replace("2>/dev/full", "") or (">&-" in place.replace("2>&-", ""))
        assert done.returncode in ({2} if fails else {right, 2} if "2>" in place else {right}), (place, done)
        if done.returncode == 2 and not right and "2>" not in place:
            assert "standard output" in done.stderr
            assert len(done.stderr.splitlines()) == 1
        if not place:
            assert done.stdout
    assert {path.name for path in here.iterdir()} == {"s.din", "s.toml"}


EXPORT = "export long.din --to din -o -"


def test_an_export_ends_quietly_when_its_reader_goes(here: Path) -> None:
    (here / "long.din").write_text("2 1000\n" * 300_000)
    line = f"{COMMAND} {EXPORT} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=here, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "2 1000\n0\n"
    assert done.stderr == ""
    assert {path.name for path in here.iterdir()} == {"s.din", "s.toml", "long.din"}


@pytest.mark.parametrize("place", [">&-", ">/dev/full"])
def test_an_export_that_cannot_be_printed_ends_with_a_word(here: Path, place: str) -> None:
    (here / "long.din").write_text("2 1000\n" * 300_000)
    done = shell(here, f"{EXPORT} {place}")
    assert done.returncode == 2
    assert "standard output" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert {path.name for path in here.iterdir()} == {"s.din", "s.toml", "long.din"}


def test_a_closed_stream_is_not_the_first_file_that_is_opened(here: Path) -> None:
    shell(here, "run two-level s.din --json x.json >&- 2>&- <&-")
    shell(here, "run two-level gone.din --json y.json >&- 2>&- <&-")
    whole = shell(here, "run two-level s.din --json -").stdout
    assert (here / "x.json").read_text() == whole
    assert not (here / "y.json").exists()


CHOSEN = ("run", "compare", "counters")
"""The commands that `make test` runs with ASCII. `make test-long` runs every command."""


@pytest.mark.parametrize(
    ("environment", "names"),
    [(ASCII, CHOSEN), long(ASCII, [*COMMANDS]), long(POSIX, [*COMMANDS])],
    ids=["ascii", "ascii, every command", "posix, every command"],
)
def test_an_encoding_that_lacks_characters(
    here: Path, environment: dict[str, str], names: Sequence[str]
) -> None:
    plain = shell(here, "run two-level s.din", PYTHONIOENCODING="utf-8").stdout
    assert "×" in plain
    done = shell(here, "run two-level s.din", **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.replace("×", "?")
    for name in names:
        done = shell(here, COMMANDS[name], **environment)
        assert "error of binhop" not in done.stderr
        assert "Traceback" not in done.stderr


DEEP = {
    "lists": "name = " + "[" * 100_000,
    "tables": "name = " + "{a=" * 100_000,
    "key": ".".join(["a"] * 200_000) + " = 1",
    "quoted": ".".join(['"a"'] * 100_000) + " = 1",
    "blanks": " . ".join(["'a'"] * 100_000) + " = 1",
    "header": "[" + ".".join(["a"] * 200_000) + "]",
    "inline": "name = { " + ".".join(["a"] * 200_000) + " = 1 }",
    "within": "[[part]]\nname = " + "[" * 300 + "]" * 300,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())
def test_a_study_that_is_nested_without_end_is_refused(text: str) -> None:
    with pytest.raises(RequestError):
        study.parse(text)


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())
def test_a_machine_that_is_nested_without_end_is_refused(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.toml").write_text(text)
    assert cli.main(["run", str(tmp_path / "m.toml"), "lin"]) == 2
    assert "error of binhop" not in capsys.readouterr().err


def test_a_key_may_have_32_parts() -> None:
    with pytest.raises(RequestError, match="no key has this name"):
        study.parse(".".join(["a"] * 32) + " = 1")
    with pytest.raises(RequestError, match=r"line 2: .* at most 32 parts"):
        study.parse('title = "a.b"\n' + ".".join(["a"] * 33) + " = 1")


class Counted(str):
    """`Counted` is a text that counts how often it is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_labels_and_parts_are_compared_in_proportion_to_their_number() -> None:
    from binhop.study import document

    steps = []
    for size in (500, 1000):
        entries = [Counted(f"{number}MiB") for number in range(size)]
        document_of = study.parse(STUDY)
        parts = [
            document_of.part[0].model_copy(update={"name": Counted(f"p{number}"), "axes": {"x": entries[:1]}})
            for number in range(size)
        ]
        parts[0] = parts[0].model_copy(update={"axes": {"x": entries}})
        Counted.compared = 0
        document._check(document_of.model_copy(update={"part": parts}), "s")
        steps.append(Counted.compared)
    assert steps[1] <= 2 * steps[0] + 10, steps


NESTED = [
    "[" * 100_000,
    '{"a":' * 100_000,
    "[]",
    "3",
    '{"study": 1}',
    '{"paper": ["x"]}',
    '{"binhop": "0", "notes": []}',
    '{"binhop": "0", "notes": [3], "tables": {}}',
    "{}",
    '{"notes": 3}',
]


@pytest.mark.parametrize("kind", ["run", "sweep"])
@pytest.mark.parametrize("text", NESTED, ids=range(len(NESTED)))
def test_a_provenance_that_is_none(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, kind: str
) -> None:
    monkeypatch.chdir(here)
    made = "run two-level s.din --out out -q" if kind == "run" else "sweep s.toml --out out -q"
    assert cli.main(made.split()) == 0
    (here / "out" / "provenance.json").write_text(text)
    code = cli.main(["report", "out"])
    printed = capsys.readouterr().err
    assert code == 2
    assert "binhop did not write its provenance.json" in printed
    assert "error of binhop" not in printed
    assert not [path for path in (here / "out").iterdir() if path.name.startswith(".")]
