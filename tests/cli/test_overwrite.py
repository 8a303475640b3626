"""No command writes to its input, or replaces a file that it did not write, unless it is told to."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import binhop
from binhop import cli
from tests.cli.test_output import STUDY
from tests.conftest import Command


class Here:
    """Runs commands in this process, which is faster, in a directory with all their inputs."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys

    def ok(self, *words: str) -> str:
        code = cli.main(words)
        printed = self._capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    def refused(self, *words: str) -> str:
        before = self._files()
        assert cli.main(words) == 2
        printed = self._capsys.readouterr()
        assert printed.out == ""
        assert len(printed.err.splitlines()) == 1
        assert self._files() == before
        return printed.err

    def _files(self) -> dict[Path, float | None]:
        """Returns when each file was changed. A directory's time also reveals files that came and went."""
        every = self.directory.rglob("*")
        return {path: None if path.is_dir() else path.lstat().st_mtime_ns for path in every}


DIN = "2 1000\n0 2000\n1 3000\n2 1004\n"
QUICK = ["run", "m.toml", "s.parquet", "--seeds", "1", "-q"]

COSTS = ["--set", "cost.l2=10", "--set", "cost.memory=100"]
LINES = ["--set", "cache.l1i.line=128B", "--set", "cache.l1d.line=128B"]
SWITCHES = ["switches", "two.parquet", "--machine", "m.toml", *COSTS, "--seeds", "1", "-q"]

# The command without its output, and the files that it reads.
WRITES: dict[str, tuple[list[str], list[str]]] = {
    "import": (["import", "s.din", "-q", "-o"], ["s.din"]),
    "export": (["export", "s.parquet", "--to", "din", "-q", "-o"], ["s.parquet"]),
    "export memory": (
        ["export", "s.parquet", "--to", "ramulator2", "--machine", "m.toml", "-q", "-o"],
        ["s.parquet", "m.toml"],
    ),
    "head": (["trace", "head", "s.parquet", "-q", "-o"], ["s.parquet"]),
    "cat": (["trace", "cat", "s.parquet", "s.din", "-q", "-o"], ["s.parquet", "s.din"]),
    "slice": (["trace", "slice", "s.parquet", "0", "-q", "-o"], ["s.parquet"]),
    "filter": (["trace", "filter", "s.parquet", "--kind", "load", "-q", "-o"], ["s.parquet"]),
    "sample": (["trace", "sample", "s.parquet", "--every", "2", "--window", "1", "-q", "-o"], ["s.parquet"]),
    "mix": (["mix", "s.parquet", "s.din", "-q", "-o"], ["s.parquet", "s.din"]),
    "run --json": ([*QUICK, "--json"], ["s.parquet", "m.toml"]),
    "run --dump-placement": ([*QUICK, "--dump-placement"], ["s.parquet", "m.toml"]),
    "compare --json": (
        ["compare", "m.toml", "s.din", "--set", "cache.l2.ways=1,2", "-q", "--json"],
        ["s.din", "m.toml"],
    ),
    "paging --json": (["paging", "s.parquet", "-q", "--json"], ["s.parquet"]),
    "switches --json": ([*SWITCHES, "--json"], ["two.parquet", "m.toml"]),
    "switches --segments": ([*SWITCHES, "--segments"], ["two.parquet", "m.toml"]),
    "translate --json": (
        ["translate", "s.parquet", "--machine", "m.toml", "--seeds", "1", "-q", "--json"],
        ["s.parquet", "m.toml"],
    ),
    "io --json": (
        ["io", "s.parquet", "--machine", "m.toml", *LINES, "--seeds", "1", "-q", "--json"],
        ["s.parquet", "m.toml"],
    ),
    "sweep --json": (["sweep", "s.toml", "-q", "--json"], ["s.toml", "m.toml", "s.din"]),
    "inspect --json": (["inspect", "s.parquet", "-q", "--json"], ["s.parquet"]),
    "lint --json": (["lint", "s.din", "-q", "--json"], ["s.din"]),
    "record": (["record", "-q", "-o", "OUTPUT", "--", "./prog"], ["prog"]),
}
TRACES = {"head", "cat", "slice", "filter", "sample", "mix", "import"}
MARKED = {name for name in WRITES if name.endswith("json") or name in TRACES} - {
    "inspect --json",
    "lint --json",
}
MARKED |= {"run --dump-placement", "switches --segments"}


def words(name: str, output: str) -> list[str]:
    command = WRITES[name][0]
    if "OUTPUT" in command:
        return [output if word == "OUTPUT" else word for word in command]
    return [*command, output]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.chdir(tmp_path)
    return Here(tmp_path, capsys)


@pytest.fixture
def here(command: Here) -> Path:
    place = command.directory
    (place / "s.din").write_text(DIN)
    binhop.Trace.open(place / "s.din").write(place / "s.parquet")
    binhop.Trace.mix([place / "s.parquet"] * 2, 1).write(place / "two.parquet")
    (place / "m.toml").write_text(command.ok("machines", "kh90"))
    study = STUDY.replace('"lin"', '"s.din"').replace('"two-level"', '"m.toml"')
    (place / "s.toml").write_text(study.replace('length = "20k"\n', "seeds = 1\n"))
    shutil.copy("/bin/true", place / "prog")
    return place


@pytest.mark.parametrize("name", WRITES)
def test_what_is_read_is_never_written(command: Here, here: Path, name: str) -> None:
    (here / "deep").mkdir()
    for number, read in enumerate(WRITES[name][1]):
        before = (here / read).read_bytes()
        ending = ".parquet" if name in TRACES else Path(read).suffix
        linked, hard = (here / "deep" / f"{kind}{number}{ending}" for kind in ("linked", "hard"))
        linked.symlink_to(f"../{read}")
        os.link(here / read, hard)
        places = [f"deep/{linked.name}", f"deep/{hard.name}"]
        if ending == Path(read).suffix:
            places += [read, f"deep/../{read}"]
        for place in places:
            for force in ([], ["--force"]):
                # The recorded program's words come last.
                given = [name.split()[0], *force] if name == "record" else []
                command_words = words(name, place)
                given = [*given, *command_words[1:]] if given else [*command_words, *force]
                message = command.refused(*given)
                assert "what the command reads" in message, message
        assert (here / read).read_bytes() == before


@pytest.mark.parametrize("name", [name for name in WRITES if name != "record"])
def test_a_file_of_another_s_takes_force(command: Here, here: Path, name: str) -> None:
    output = "x.parquet" if name in TRACES else "x"
    command.ok(*words(name, output))
    made = (here / output).read_bytes()
    if name in MARKED:
        command.ok(*words(name, output))
    else:
        message = command.refused(*words(name, output))
        assert "does not say that this command wrote it" in message, "nor does the message say who wrote it"
        assert "--force" in message
    (here / output).write_bytes(b"")
    command.ok(*words(name, output))
    foreign = [b"years of work", (here / "s.parquet").read_bytes(), b'{"rows":[]}', b"{" * 300]
    for content in foreign:
        (here / output).write_bytes(content)
        message = command.refused(*words(name, output))
        assert "does not say that this command wrote it" in message
        assert (here / output).read_bytes() == content
    command.ok(*words(name, output), "--force")
    assert (here / output).read_bytes() == made


def test_a_trace_of_another_command_takes_force(command: Here, here: Path) -> None:
    command.ok("import", "s.din", "-o", "a.parquet", "-q")
    command.ok("trace", "head", "s.din", "-o", "b.parquet", "-q")
    assert "--force" in command.refused("trace", "head", "s.din", "-o", "a.parquet")
    assert "--force" in command.refused("trace", "slice", "s.din", "0", "-o", "b.parquet")
    assert "--force" in command.refused("import", "s.din", "-o", "b.parquet")
    assert (here / "a.parquet").exists()


def test_two_outputs_are_two_files(command: Here, here: Path) -> None:
    (here / "link").symlink_to("x")
    for other in ("x", "./x", "link"):
        message = command.refused(*QUICK, "--json", "x", "--dump-placement", other)
        assert "the same file as that of --json x" in message
    (here / "out").mkdir()
    message = command.refused(*QUICK, "--json", "out/x", "--out", "out")
    assert "lies in the directory of --out out" in message


def test_a_file_of_a_result_is_not_read_into_it(command: Here, here: Path) -> None:
    command.ok(*QUICK, "--out", "out")
    again = ["run", "out/machine.toml", "s.parquet", "--seeds", "1", "-q", "--out", "out"]
    assert "what the command reads (out/machine.toml)" in command.refused(*again)
    shutil.move(here / "s.parquet", here / "out")
    command.ok("run", "m.toml", "out/s.parquet", "--seeds", "1", "-q", "--out", "out")
    assert (here / "out" / "s.parquet").exists()
    command.ok("sweep", "s.toml", "--out", "study", "-q")
    shutil.copy(here / "m.toml", here / "study")
    shutil.copy(here / "s.din", here / "study")
    assert "what the command reads" in command.refused("sweep", "study/study.toml", "--out", "study")


def test_the_placement_that_a_machine_repeats_is_read(command: Here, here: Path) -> None:
    command.ok(*QUICK, "--dump-placement", "p.parquet")
    before = (here / "p.parquet").read_bytes()
    replay = [*QUICK, "--set", "placement.policy=recorded", "--set", "placement.file=p.parquet"]
    for given in (replay, [*QUICK, "--v2p", "p.parquet"]):
        for output in ("--json", "--dump-placement"):
            assert "what the command reads" in command.refused(*given, output, "p.parquet", "--force")
    assert (here / "p.parquet").read_bytes() == before


def test_a_device_takes_what_comes(lin: Path, tmp_path: Path) -> None:
    outside = Command(tmp_path)
    for place in ("/dev/stdout", "/dev/fd/1", "/dev/null"):
        done = outside.apart("run", "two-level", str(lin), "-q", "--json", place)
        assert done.returncode == 0, done.stderr
        said = done.stdout
        assert place == "/dev/null" or json.loads(said)["schema"] == 1


STANDARD_OUTPUT = [
    ["mix", "lin", "--length", "10k", "-o", "-"],
    ["import", "a.din", "-o", "-"],
    ["import", "a.din", "-"],
    ["import", "a.din", "x.parquet", "--placement", "-"],
    ["trace", "head", "lin", "-o", "-"],
    ["trace", "cat", "a.din", "-o", "-"],
    ["record", "-o", "-", "--", "true"],
    ["record", "--observe", "-", "--", "true"],
    ["run", "two-level", "a.din", "--dump-placement", "-"],
    ["run", "two-level", "a.din", "--out", "-"],
    ["compare", "two-level", "a.din", "--set", "cache.l2.ways=1,2", "--out", "-"],
    ["paging", "a.din", "--out", "-"],
    ["sweep", "s.toml", "--out", "-"],
    ["reproduce", "lf91", "--scale", "smoke", "--out", "-"],
]


@pytest.mark.parametrize("arguments", STANDARD_OUTPUT, ids=" ".join)
def test_what_is_no_text_is_not_written_to_standard_output(command: Here, arguments: list[str]) -> None:
    (command.directory / "a.din").write_text("2 1000\n")
    (command.directory / "s.toml").write_text(STUDY)
    message = command.refused(*arguments)
    assert "standard output" in message
    assert "name" in message


def test_text_is_written_to_standard_output(command: Here) -> None:
    (command.directory / "a.din").write_text("2 1000\n")
    command.ok("export", "a.din", "--to", "din", "-o", "-")
    assert command.ok("run", "two-level", "a.din", "--json", "-").startswith("{")
    assert {path.name for path in command.directory.iterdir()} == {"a.din"}
