"""The files of a directory that binhop wrote: each result lists its own, and a later one replaces these.

What else lies in the directory (notes, a trace) is the user's: it stays when the result is replaced. The list
is `files` in `run.json`. It leads nowhere: of what it names only what really lies in the directory counts.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from binhop import json_file
from binhop.partial import DIRECTORY, SIDECAR, Beside, lock, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from binhop.partial import Partial

OLD = Beside("old")
"""What an earlier result is called while the new one takes its place."""


def all_files(directory: Path) -> list[str]:
    """Every file below a directory, by its path from there."""
    return sorted(
        Path(place, name).relative_to(directory).as_posix()
        for place, _, names in os.walk(directory)
        for name in names
    )


def own_files(directory: Path) -> frozenset[str] | None:
    """What binhop wrote into a directory, by the directory's own list; None if it has none."""
    try:
        listed = json_file.read(directory / SIDECAR).get("files")
    except (OSError, ValueError):
        return None
    if not isinstance(listed, list):
        return None
    names = {name for name in listed if isinstance(name, str)}
    return frozenset(name for name in all_files(directory) if name in names)


def foreign_files(directory: Path, own: Set[str]) -> list[str]:
    """What else lies there: files, and directories that hold nothing of binhop's."""
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
    """Puts a complete directory in the place of an earlier result, whose foreign files move into it.

    If that fails, what was there before is still there.

    Raises:
        OSError: It cannot be moved, or the new result has a file of the name of a foreign one.
    """
    for name in foreign_files(target, own_files(target) or frozenset()):
        if os.path.lexists(complete.path / name):
            raise FileExistsError(None, f"the result would replace {name}, which binhop did not write")
    old = OLD.new(target)
    handle = os.open(target, DIRECTORY)
    try:
        lock(handle)  # so that nobody takes it for what the dead left
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
    """Brings back what a process that was killed in `replace` had moved away."""
    for old in OLD.dead(target):
        if target.exists():
            _empty(old, target)
        else:
            old.rename(target)


def _empty(old: Path, target: Path) -> None:
    """Moves what is foreign in an earlier result to the new one, and removes the rest."""
    own = own_files(old) or frozenset()
    for name in foreign_files(old, own):
        if not os.path.lexists(target / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (old / name).rename(target / name)
    # The list of the files is the last to go: until then, whoever is killed can be followed.
    for name in sorted(own, key=lambda name: name == SIDECAR):
        (old / name).unlink(missing_ok=True)
    for place, _, _ in os.walk(old, topdown=False):
        with suppress(OSError):  # it still holds what found its name taken
            Path(place).rmdir()
