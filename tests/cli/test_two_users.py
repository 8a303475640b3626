"""Tests another user's links in a directory that everybody may write to, such as /tmp."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from binhop.trust import user_name

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
OTHER = 65534
SHORT = ["two-level", "lin", "--length", "1k"]
WRITING = {
    "run --json": ["run", *SHORT, "--json", "PLACE"],
    "run --dump-placement": ["run", *SHORT, "--dump-placement", "PLACE"],
    "paging --json": ["paging", "lin", "--length", "1k", "--json", "PLACE"],
    "trace head": ["trace", "head", "lin", "-o", "PLACE"],
    "export": ["export", "lin", "--length", "1k", "--to", "din", "-o", "PLACE"],
    "mix": ["mix", "lin", "tree", "--length", "1k", "-o", "PLACE"],
}


def planted(link: Path, target: Path) -> None:
    """Makes a link as the other user."""
    # The directory is entered before the user changes, because directories above it may be closed to others.
    descriptor = os.open(link.parent, os.O_RDONLY)
    subprocess.run(
        ["/bin/sh", "-c", 'ln -s "$1" "$2"', "sh", str(target), link.name],
        preexec_fn=lambda: os.fchdir(descriptor),
        user=OTHER,
        group=OTHER,
        extra_groups=[],
        check=True,
    )
    os.close(descriptor)
    assert link.lstat().st_uid == OTHER


@pytest.fixture
def shared(command: Command) -> Path:
    place = command.directory / "tmp"
    place.mkdir()
    place.chmod(0o1777)
    return place


@pytest.mark.parametrize("words", WRITING.values(), ids=WRITING)
def test_nothing_is_written_through_another_users_link(
    command: Command, shared: Path, words: list[str]
) -> None:
    precious = command.directory / "precious"
    precious.write_text("years")
    planted(shared / "x.parquet", precious)
    said = command.refused(*("tmp/x.parquet" if word == "PLACE" else word for word in words), "--force")
    assert f"it is a link of another user, {user_name(OTHER)}" in said
    assert precious.read_text() == "years"


def test_no_directory_is_filled_through_another_users_link(command: Command, shared: Path) -> None:
    (command.directory / "mine").mkdir()
    planted(shared / "out", command.directory / "mine")
    said = command.refused("run", *SHORT, "--out", "tmp/out")
    assert f"it is a link of another user, {user_name(OTHER)}, where everybody may make links" in said


def test_ones_own_links_are_followed_there(command: Command, shared: Path) -> None:
    for name in ("x.json", "x.parquet"):
        (shared / name).symlink_to(command.directory / name)
    command.ok("run", *SHORT, "--json", "tmp/x.json", "--dump-placement", "tmp/x.parquet")
    assert (shared / "x.json").is_symlink()
    assert (command.directory / "x.json").is_file()
    assert (command.directory / "x.parquet").is_file()


def test_another_users_link_in_ones_own_directory_is_followed(command: Command, shared: Path) -> None:
    """The link lies in a directory that its owner let the other user write to. The system follows it, too."""
    planted(shared / "x.json", command.directory / "y.json")
    shared.chmod(0o755)
    command.ok("run", *SHORT, "--json", "tmp/x.json")
    assert (command.directory / "y.json").is_file()
