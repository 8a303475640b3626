"""Keeps the list of a directory's files that binhop wrote. A later result replaces these files only.

Any other file in the directory (notes, a trace) is the user's, and stays when the result is replaced. The
list is `files` in `run.json`. A name in the list counts only if such a file lies in the directory.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from binhop import json_file
from binhop.partial import DIRECTORY, SIDECAR, TemporaryNames, lock, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from binhop.partial import Partial

OLD = TemporaryNames("old")
"""The names of an earlier result while the new result takes its place."""


def all_files(directory: Path) -> list[str]:
    """Returns every file below a directory, by its path from there."""
    return sorted(
        Path(place, name).relative_to(directory).as_posix()
        for place, _, names in os.walk(directory)
        for name in names
    )


def own_files(directory: Path) -> frozenset[str] | None:
    """Returns the files that the directory's own list names and that exist; None if it has no list."""
    try:
        listed = json_file.read(directory / SIDECAR).get("files")
    except (OSError, ValueError):
        return None
    if not isinstance(listed, list):
        return None
    names = {name for name in listed if isinstance(name, str)}
    return frozenset(name for name in all_files(directory) if name in names)


def foreign_files(directory: Path, own: Set[str]) -> list[str]:
    """Returns the other files of a directory, and directories that hold no files of binhop."""
    parents = {str(parent) for name in own for parent in PurePosixPath(name).parents}
    return sorted(_foreign(directory, "", own, parents))


def _foreign(directory: Path, before: str, own: Set[str], parents: set[str]) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            name = before + entry.name
            if name in parents and entry.is_dir(follow_symlinks=False):
                yield from _foreign(Path(entry.path), f"{name}/", own, parents)
            elif name not in own or entry.is_dir(follow_symlinks=False):
                yield name


def replace(complete: Partial, target: Path) -> None:
    """Moves a complete directory to the place of an earlier result, and moves foreign files into it.

    If the move fails, the earlier result stays in its place.

    Raises:
        OSError: The directory cannot be moved, or the new result has a file with the name of a foreign file.
    """
    for name in foreign_files(target, own_files(target) or frozenset()):
        if os.path.lexists(complete.path / name):
            raise FileExistsError(None, f"the result would replace {name}, which binhop did not write")
    old = OLD.new(target)
    handle = os.open(target, DIRECTORY)
    try:
        lock(handle)  # no other process takes the directory for a leftover
        target.rename(old)
        try:
            complete.path.rename(target)
        except OSError:
            old.rename(target)
            raise
        complete.close()
        _empty(old, target)
        sync_directory(target.parent)
    finally:
        os.close(handle)


def recover(target: Path) -> None:
    """Restores the files that a process moved away before it was killed in `replace`."""
    for old in OLD.dead(target):
        if target.exists():
            _empty(old, target)
        else:
            old.rename(target)


def _empty(old: Path, target: Path) -> None:
    """Moves the foreign files of an earlier result to the new result, and removes the other files."""
    own = own_files(old) or frozenset()
    for name in foreign_files(old, own):
        if not os.path.lexists(target / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (old / name).rename(target / name)
    # The list of files is removed last, so that `recover` can finish the work of a killed process.
    for name in sorted(own, key=lambda name: name == SIDECAR):
        (old / name).unlink(missing_ok=True)
    for place, _, _ in os.walk(old, topdown=False):
        with suppress(OSError):  # the directory still holds a file whose name was taken
            Path(place).rmdir()
