"""Results replace only binhop's own files, links stay links, and dead processes' files block nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binhop import cli
from binhop.errors import RequestError
from binhop.output import ResultDirectory
from binhop.partial import Partial, remove_dead
from tests.conftest import COMMAND, pairs

if TYPE_CHECKING:
    from tests.conftest import Command

SHORT = ["two-level", "lin", "--length", "20k"]
RUN = ["run", *SHORT, "--out", "out"]
COMMANDS = {
    "run": RUN,
    "compare": ["compare", *SHORT, "--set", "cache.l2.ways=1,2", "--out", "out"],
    "paging": ["paging", "lin", "--length", "20k", "--out", "out"],
    "reuse": ["reuse", "lin", "--length", "20k", "--out", "out"],
    "switches": ["switches", "client-server", "--length", "60k", "--machine", "zen-4k", "--out", "out"],
    "translate": ["translate", "lin", "--length", "20k", "--machine", "jm97", "--out", "out"],
    "io": ["io", "lin", "--length", "20k", "--machine", "zen-4k", "--seeds", "1", "--out", "out"],
    "sweep": ["sweep", "s.toml", "--out", "out"],
}
STUDY = """
name = "s"
title = "One cell"
[[part]]
name = "one"
workloads = ["lin"]
machine = "two-level"
length = "20k"
"""


@pytest.fixture
def study(command: Command) -> Path:
    path = command.directory / "s.toml"
    path.write_text(STUDY)
    return path


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize("name", COMMANDS)
def test_what_binhop_did_not_write_stays(command: Command, name: str) -> None:
    out = command.directory / "out"
    command.ok(*COMMANDS[name])
    own = contents(out)
    assert set(json.loads(own["run.json"])["files"]) == set(own)
    foreign = {"notes.md": b"years", "t.parquet": b"a trace", "machines/mine.toml": b"m", "deep/er/x": b"y"}
    for file, content in foreign.items():
        (out / file).parent.mkdir(parents=True, exist_ok=True)
        (out / file).write_bytes(content)
    (out / "link").symlink_to("/nowhere")
    (out / "empty").mkdir()
    (out / "results.parquet").write_bytes(b"older")
    command.ok(*COMMANDS[name])
    again = contents(out)
    assert {file: again.pop(file) for file in foreign} == foreign
    assert (out / "link").is_symlink()
    assert (out / "empty").is_dir()
    assert {**again, "run.json": b""} == {**own, "run.json": b""}
    assert set(json.loads(again["run.json"])["files"]) == set(own)
    assert {path.name for path in command.directory.iterdir()} == {"out", "s.toml"}


def test_a_file_that_a_new_result_would_replace_is_kept(command: Command) -> None:
    command.ok("paging", "lin", "--length", "20k", "--out", "out")
    (command.directory / "out" / "machine.toml").write_text("mine")
    before = contents(command.directory / "out")
    done = command(*RUN)
    assert done.returncode == 2
    assert "would replace machine.toml, which binhop did not write" in done.stderr
    assert contents(command.directory / "out") == before
    complete = next(command.directory.glob(".out.partial-*"))
    assert str(complete) in done.stderr
    assert "results.parquet" in contents(complete)


def test_a_directory_that_does_not_list_its_files_is_refused(command: Command) -> None:
    command.ok(*RUN)
    place = command.directory / "out" / "run.json"
    facts = json.loads(place.read_text())
    for text in ("", "[]", '{"files": 3}', json.dumps({**facts, "files": None}), "[" * 100_000):
        place.write_text(text)
        with pytest.raises(RequestError, match="does not say which of its files binhop wrote"):
            ResultDirectory(place.parent).__enter__()
    assert "does not say which of its files binhop wrote" in command.refused(*RUN)
    place.write_text(json.dumps({**facts, "files": ["../../s", "/etc/passwd", *facts["files"]]}))
    command.ok(*RUN)


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize(("name", "place"), pairs(COMMANDS, ["c[ab]", "star*", "what?", "a=1"]))
def test_a_place_is_a_name_and_no_pattern(command: Command, name: str, place: str) -> None:
    directory = command.directory / place
    directory.mkdir()
    arguments = [*COMMANDS[name][:-1], f"{place}/out"]
    command.ok(*arguments, "--json", f"{place}/x.json")
    made = contents(directory)
    assert {"out/results.parquet", "x.json"} <= set(made)
    command.ok("report", f"{place}/out")
    assert contents(directory).keys() == made.keys()


def test_a_machine_and_a_trace_are_names_and_no_patterns(command: Command, lin: Path) -> None:
    place = command.directory / "a[bc]*"
    place.mkdir()
    (place / "l[i]n.parquet").write_bytes(lin.read_bytes())
    resolved = command.ok("machines", "two-level").stdout
    (place / "m[1].toml").write_text(resolved)
    command.ok("run", "a[bc]*/m[1].toml", "a[bc]*/l[i]n.parquet", "--out", "a[bc]*/out", "--seeds", "1")
    document = STUDY.replace('"lin"', '"l[i]n.parquet"').replace('"two-level"', '"m[1].toml"')
    (place / "s[t].toml").write_text(document)
    command.ok("sweep", "a[bc]*/s[t].toml", "--out", "a[bc]*/study")


def test_a_link_is_written_through(command: Command) -> None:
    for name in ("there", "gone"):
        (command.directory / f"{name}-out").symlink_to(f"deep/{name}-out")
        (command.directory / f"{name}.json").symlink_to(f"deep/{name}.json")
    deep = command.directory / "deep"
    (deep / "there-out").mkdir(parents=True)
    (deep / "there.json").write_text('{"schema":1,"rows":[]}')
    (deep / "there.json").chmod(0o600)
    for name in ("there", "gone"):
        for _ in range(2):
            command.ok("run", *SHORT, "--out", f"{name}-out", "--json", f"{name}.json")
        assert (command.directory / f"{name}-out").is_symlink()
        assert (command.directory / f"{name}.json").is_symlink()
        assert (deep / f"{name}-out" / "results.parquet").is_file()
        assert json.loads((deep / f"{name}.json").read_text())["schema"] == 1
    assert (deep / "there.json").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in deep.iterdir()} == {"there-out", "there.json", "gone-out", "gone.json"}


def test_a_link_to_itself_is_refused(command: Command) -> None:
    (command.directory / "loop").symlink_to("loop")
    for option in ("--out", "--json"):
        assert "loop" in command.refused("run", *SHORT, option, "loop")


HOLDER = """
import sys, time
from pathlib import Path
from binhop.partial import Partial
for make in (Partial.file, Partial.directory):
    print(make(Path(sys.argv[1])).path.name, flush=True)
time.sleep(600)
"""


def test_the_living_are_let_be_and_the_dead_removed(tmp_path: Path) -> None:
    target = tmp_path / "x[1].json"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, target], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        names = {holder.stdout.readline().strip() for _ in "ab"}
        remove_dead(target)
        assert {path.name for path in tmp_path.iterdir()} == names
        holder.kill()
    own = Partial.file(target)
    assert {path.name for path in tmp_path.iterdir()} == {own.path.name}
    own.remove()
    assert [*tmp_path.iterdir()] == []


def test_what_the_dead_left_is_removed_but_not_what_is_complete_or_another_s(command: Command) -> None:
    here = command.directory
    unfinished = [here / f".{name}.partial-0123456789abcdef" for name in ("out", "x.json")]
    unfinished[0].mkdir()
    unfinished[1].write_text("half")
    (unfinished[0] / "results.parquet").write_text("half")
    stay = [here / ".out.partial-4711", here / ".out.partial-00112233445566778", here / ".y.partial-4711"]
    for path in stay:
        path.mkdir()
    complete = here / ".out.partial-1111111111111111"
    complete.mkdir()
    (complete / "run.json").write_text("{}")
    link = here / ".x.json.partial-2222222222222222"
    link.symlink_to(stay[0])
    command.ok(*RUN, "--json", "x.json")
    assert set(here.iterdir()) == {here / "out", here / "x.json", complete, link, *stay}


def test_a_killed_run_hinders_none(command: Command) -> None:
    arguments = ["run", "kh90", "lin", "--length", "1T", "--out", "out", "--json", "x.json"]

    with subprocess.Popen([COMMAND, *arguments], cwd=command.directory) as process:
        deadline = time.monotonic() + 60
        while len([*command.directory.iterdir()]) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
    left = {path.name for path in command.directory.iterdir()}
    assert len(left) == 2
    command.ok(*RUN, "--json", "x.json")
    assert {path.name for path in command.directory.iterdir()} == {"out", "x.json"}


def test_a_replacement_that_was_killed_is_finished_by_the_next(command: Command) -> None:
    command.ok(*RUN)
    here = command.directory
    (here / "out" / "notes").write_text("mine")
    old = here / ".out.old-0123456789abcdef"
    shutil.copytree(here / "out", old)
    (here / "out" / "notes").unlink()
    command.ok(*RUN)  # the killed process had put the new result in place
    assert (here / "out" / "notes").read_text() == "mine"
    (here / "out").rename(old)
    command.ok(*RUN)  # the killed process had not put it there yet
    assert (here / "out" / "notes").read_text() == "mine"
    assert {path.name for path in here.iterdir()} == {"out"}


def test_a_file_that_cannot_be_put_in_place_stays_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def busy(self: Path, target: Path) -> Path:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(Path, "rename", busy)
    assert cli.main(["run", *SHORT, "--json", str(tmp_path / "x.json"), "-q"]) == 2
    printed = capsys.readouterr().err
    (stays,) = tmp_path.iterdir()
    assert str(stays) in printed
    assert json.loads(stays.read_text())["schema"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's files are made by root alone")
def test_another_user_s_files_are_let_be(command: Command) -> None:
    path = command.directory / ".x.json.partial-0123456789abcdef"
    path.write_text("theirs")
    os.chown(path, 65534, 65534)
    command.ok("run", *SHORT, "--json", "x.json")
    assert path.read_text() == "theirs"


def test_what_stands_in_the_way_is_named_before_the_run(command: Command) -> None:
    here = command.directory
    (here / "file").write_text("")
    for option, place in [("--out", "file"), ("--out", "file/out"), ("--json", "file/x.json")]:
        assert "file" in command.refused("run", *SHORT, option, place)
    long = "n" * 250
    for option in ("--out", "--json"):
        assert "name too long" in command.refused("run", *SHORT, option, long).lower()
    assert "No such file" in command.refused("run", *SHORT, "--json", "gone/x.json")


@pytest.mark.parametrize("name", ["run", "compare", "paging"])
def test_a_complete_directory_stays_where_the_json_fails(command: Command, name: str) -> None:
    done = command(*COMMANDS[name], "--json", "/dev/full")
    assert done.returncode == 2
    assert (command.directory / "out" / "run.json").is_file()
    assert not list(command.directory.glob(".out.partial-*"))


def test_one_place_for_two_outputs_is_refused_before_the_run(command: Command) -> None:
    assert "same place" in command.refused(*RUN, "--json", "out")


def test_a_mount_point_is_refused_before_the_run(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    (command.directory / "out").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "out")
    assert "mount point" in command.refused(*RUN)
