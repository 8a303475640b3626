"""Tests recordings with other users' files, leftovers of earlier processes and settings of other programs."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from binhop import recorder
from binhop.errors import RequestError
from binhop.trust import distrusted
from tests.conftest import COMMAND, Command

if TYPE_CHECKING:
    from pathlib import Path

installed = recorder.valgrind()
pytestmark = pytest.mark.skipif(
    installed is None or installed.missing() is not None, reason="the recorder cannot be built here"
)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's files")
OTHER = 12345


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a cache with the recorder, for this test alone."""
    assert installed is not None
    ready = recorder.built(installed)
    place = tmp_path / "cache" / "binhop" / "recorder" / ready.name
    place.parent.mkdir(parents=True)
    shutil.copytree(ready, place, symlinks=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return place


@pytest.fixture
def wherever(tmp_path: Path) -> Command:
    (tmp_path / "work").mkdir()
    return Command(tmp_path / "work")


def record(wherever: Command) -> None:
    wherever.ok("record", "-o", "t.parquet", "--", "true")


def replaced(tool: Path) -> str:
    """Puts a tool into the cache that no recording survives. Returns what tells it from the real tool."""
    tool.unlink()
    tool.write_text("#!/bin/false\n")
    tool.chmod(0o755)
    return tool.read_text()


def test_a_recorder_that_is_whole_and_ours_is_used_as_it_is(cache: Path, wherever: Command) -> None:
    before = (cache / recorder.TOOL).stat().st_ino
    record(wherever)
    assert (cache / recorder.TOOL).stat().st_ino == before


@as_root
@pytest.mark.parametrize("whose", ["tool", "directory", "cache", "above"])
def test_a_recorder_of_another_user_is_not_run(cache: Path, wherever: Command, whose: str) -> None:
    replaced(cache / recorder.TOOL)
    place = {
        "tool": cache / recorder.TOOL,
        "directory": cache,
        "cache": cache.parent,
        "above": cache.parents[2],
    }[whose]
    os.chown(place, OTHER, OTHER)
    said = wherever.refused("record", "-o", "t.parquet", "--", "true")
    assert f"{place} belongs to another user, number {OTHER}" in said
    assert said.endswith("; set XDG_CACHE_HOME to a directory of yours")


@as_root
def test_a_link_to_another_users_recorder_is_not_followed(
    cache: Path, wherever: Command, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    cache.rename(theirs)
    fake = replaced(theirs / recorder.TOOL)
    os.chown(theirs, OTHER, OTHER)
    cache.symlink_to(theirs)
    record(wherever)
    assert not cache.is_symlink()
    assert (theirs / recorder.TOOL).read_text() == fake


@pytest.mark.parametrize("what", ["tool", "directory"])
def test_a_recorder_that_others_could_write_to_is_built_anew(
    cache: Path, wherever: Command, what: str
) -> None:
    fake = replaced(cache / recorder.TOOL)
    place = cache if what == "directory" else cache / recorder.TOOL
    place.chmod(0o777)
    record(wherever)
    assert (cache / recorder.TOOL).read_bytes()[:4] == b"\x7fELF" != fake.encode()[:4]
    assert cache.stat().st_mode & 0o022 == 0
    assert [*cache.parent.iterdir()] == [cache]


def test_a_cache_that_everybody_may_write_to_is_refused(cache: Path, wherever: Command) -> None:
    cache.parent.chmod(0o777)
    said = wherever.refused("record", "-o", "t.parquet", "--", "true")
    assert said.endswith(f"{cache.parent} may be written by everybody; run `chmod go-w {cache.parent}`")


@as_root
def test_a_cache_that_a_group_may_write_to_is_refused_with_the_command_that_mends_it(
    cache: Path, wherever: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "of us"
    cache.parents[2].rename(home)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    os.chown(home, 0, OTHER)
    home.chmod(0o775)
    said = wherever.refused("record", "-o", "t.parquet", "--", "true")
    remedy = f"chmod go-w '{home}'"
    assert said.endswith(f"{home} may be written by its whole group; run `{remedy}`")
    subprocess.run(["sh", "-c", remedy], check=True)
    record(wherever)


def test_a_sticky_directory_is_no_danger(tmp_path: Path) -> None:
    (tmp_path / "shared" / "mine").mkdir(parents=True)
    (tmp_path / "shared").chmod(0o777)
    found = distrusted(tmp_path / "shared" / "mine")
    assert str(found) == f"{tmp_path / 'shared'} may be written by everybody"
    (tmp_path / "shared").chmod(0o1777)
    assert distrusted(tmp_path / "shared" / "mine") is None


@pytest.mark.parametrize("lost", [recorder.TOOL, "default.supp"])
def test_an_entry_without_its_files_is_built_anew(cache: Path, wherever: Command, lost: str) -> None:
    (cache / lost).unlink()
    record(wherever)
    assert (cache / lost).is_file()


def leftover(cache: Path, digits: str) -> Path:
    """Makes what a build that was killed leaves beside the entry."""
    left = cache.with_name(f".{cache.name}.partial-{digits * 16}")
    left.mkdir()
    (left / recorder.TOOL).write_text("#!/bin/false\n")
    return left


@as_root
def test_another_users_leftover_of_a_build_stays_and_ones_own_goes(cache: Path, wherever: Command) -> None:
    mine, theirs = leftover(cache, "1"), leftover(cache, "2")
    os.chown(theirs, OTHER, OTHER)
    (cache / recorder.TOOL).unlink()
    record(wherever)
    assert (cache / recorder.TOOL).read_bytes()[:4] == b"\x7fELF"
    assert {path.name for path in cache.parent.iterdir()} == {cache.name, theirs.name}
    assert (theirs / recorder.TOOL).read_text() == "#!/bin/false\n"
    assert not mine.exists()


@as_root
def test_another_users_incomplete_entry_is_not_completed_but_built_anew(
    cache: Path, wherever: Command
) -> None:
    (cache / recorder.TOOL).unlink()
    os.chown(cache, OTHER, OTHER)
    (cache / "theirs").touch()
    record(wherever)
    assert not (cache / "theirs").exists()
    assert {path.lstat().st_uid for path in (cache, *cache.iterdir())} == {0}


def test_an_entry_that_cannot_be_removed_is_refused_with_another_place(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's directory with files in it cannot be removed, even from one's own directory."""

    def denied(path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    (cache / recorder.TOOL).unlink()
    monkeypatch.setattr(recorder.shutil, "rmtree", denied)
    with pytest.raises(RequestError) as refused:
        recorder.built(installed)
    assert refused.value.value == str(cache.parent)
    assert refused.value.rule == "the recorder cannot be kept there (Permission denied)"
    assert refused.value.remedy == "set XDG_CACHE_HOME to a directory of yours"
    assert not (cache / recorder.TOOL).exists()


def test_a_link_in_the_place_of_an_entry_is_replaced_and_what_it_leads_to_stays(
    cache: Path, wherever: Command, tmp_path: Path
) -> None:
    shutil.rmtree(cache)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "kept").touch()
    cache.symlink_to(tmp_path / "precious")
    record(wherever)
    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["kept"]


@pytest.mark.parametrize("name", ["100%p", "%q{HOME}", "a%%b%", "%n"])
def test_a_percent_sign_in_tmpdir_is_a_percent_sign(
    wherever: Command, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / name))
    record(wherever)
    assert [*(tmp_path / name).iterdir()] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "work"])


@pytest.mark.parametrize(
    ("setting", "where", "lackey"),
    [
        ("--bogus-option", "here", False),
        ("--tool=none", "home", False),
        ("--error-exitcode=9", "VALGRIND_OPTS", False),
        ("--log-file=stray.log", "here", False),
        ("--bogus-option", "here", True),
        ("--trace-mem=no", "VALGRIND_OPTS", True),
    ],
)
def test_valgrinds_own_settings_change_no_recording(
    wherever: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, where: str, lackey: bool
) -> None:
    if where == "VALGRIND_OPTS":
        monkeypatch.setenv("VALGRIND_OPTS", setting)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", str(recorder.cache().parents[1]))
        home = wherever.directory if where == "here" else tmp_path / "home"
        home.mkdir(exist_ok=True)
        (home / ".valgrindrc").write_text(f"{setting}\n")
        monkeypatch.setenv("HOME", str(home))
    wherever.ok("record", "-o", "t.parquet", *(["--lackey"] if lackey else []), "--", "sh", "-c", "/bin/true")
    names = {path.name for path in wherever.directory.iterdir()}
    assert names - {".valgrindrc"} == {"t.parquet"}


def scratches(directory: Path) -> list[Path]:
    return sorted(directory.glob(".binhop-recording.partial-*"))


def started(wherever: Command, name: str, tmp: Path) -> tuple[subprocess.Popen[bytes], Path]:
    """Starts a recording. Returns its process and its scratch directory."""
    before = scratches(tmp)
    process = subprocess.Popen(
        [COMMAND, "record", "-o", f"{name}.parquet", "--quiet", "--", "sleep", "60"],
        cwd=wherever.directory,
        env={**os.environ, "TMPDIR": str(tmp)},
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while True:
        new = [path for path in scratches(tmp) if path not in before]
        # The program's own pipe exists, so the program runs.
        if new and any(path.suffix == ".0" for path in (new[0] / "recording").glob("*")):
            return process, new[0]
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_a_killed_recording_left_goes_at_the_next_start_and_a_living_ones_stays(
    wherever: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    dead, left = started(wherever, "dead", tmp)
    living, held = started(wherever, "living", tmp)
    try:
        assert held.stat().st_mode & 0o077 == 0
        dead.kill()
        dead.wait()
        assert left.is_dir()
        # These paths look like leftovers and are none: a name of another form, and a link.
        (tmp / "binhop-recording").mkdir()
        (tmp / ".binhop-recording.partial-0123456789abcdef").symlink_to(wherever.directory)
        monkeypatch.setenv("TMPDIR", str(tmp))
        record(wherever)
        assert not left.exists()
        assert held.is_dir()
        assert (tmp / "binhop-recording").is_dir()
        assert (tmp / ".binhop-recording.partial-0123456789abcdef").is_symlink()
    finally:
        for process in (dead, living):
            os.killpg(process.pid, signal.SIGKILL)
        living.wait()
