"""`Partial` is a file or directory beside its target, which is moved there when it is complete.

Its name is `.NAME.partial-` and 16 hexadecimal digits that nobody can foresee. It is created exclusively, so
no existing file is written to and no link is followed. The writer holds a lock on it, and the lock ends with
the writer's process. So a partial without a lock was left by a dead process, even if another process has that
process's number now. The next writer to the same target removes it. Rust writes its files in the same way
(`disk/temporary.rs`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from binhop.trust import user_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIDECAR = "run.json"
"""The last file written into a directory of results. A partial directory that has it is complete."""

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EINVAL})
"""The errors of file systems without locks."""

_SHARED = stat.S_ISVTX | stat.S_IWOTH
"""The mode of a directory in which everybody may make files, and nobody may remove another user's files."""
_MOST_LINKS = 40
"""The most links that are followed, one after the other. Linux has the same limit."""


@dataclass(frozen=True)
class TemporaryNames:
    """`TemporaryNames` makes and finds the hidden names of one kind beside a target."""

    kind: str

    def new(self, target: Path) -> Path:
        """Returns a name that nobody can foresee."""
        return target.with_name(f".{target.name}.{self.kind}-{os.urandom(8).hex()}")

    def dead(self, target: Path) -> Iterator[Path]:
        """Yields this user's paths of such names that no living process holds, each locked meanwhile."""
        form = re.compile(rf"\.{re.escape(target.name)}\.{self.kind}-[0-9a-f]{{16}}")
        paths: list[Path] = []
        with suppress(OSError):
            paths = [*target.parent.iterdir()]
        for path in paths:
            if form.fullmatch(path.name):
                yield from _dead(path)


PARTIAL = TemporaryNames("partial")


class Partial:
    """`Partial` is locked until it is moved, or removed."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self.handle = handle

    @classmethod
    def file(cls, target: Path) -> Self:
        """Makes an empty file, open for writing."""
        return cls._make(target, lambda path: os.open(path, _NEW_FILE, 0o666))

    @classmethod
    def directory(cls, target: Path) -> Self:
        """Makes an empty directory."""

        def make(path: Path) -> int:
            path.mkdir()
            return os.open(path, DIRECTORY)

        return cls._make(target, make)

    @classmethod
    def _make(cls, target: Path, make: Callable[[Path], int]) -> Self:
        remove_dead(target)
        while True:
            path = PARTIAL.new(target)
            try:
                handle = make(path)
            except FileExistsError:
                continue
            # Another process may have removed the path as a leftover before it was locked.
            if lock(handle) is not False and _is(path, handle):
                return cls(path, handle)
            os.close(handle)

    def move(self, target: Path) -> None:
        """Moves the partial to its target, and ends the lock."""
        self.path.rename(target)
        self.close()
        sync_directory(target.parent)

    def remove(self) -> None:
        """Removes the partial, if it was not moved."""
        if self.handle >= 0:
            _remove(self.path)
        self.close()

    def close(self) -> None:
        """Ends the lock. A partial that was not moved stays."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def resolved(path: str | os.PathLike[str]) -> Path:
    """Returns the path behind all links, whether a file exists there or not.

    A pipe or a device keeps its name: /dev/stdout leads to an object without a name of its own.
    """
    with suppress(OSError):
        if stat.S_IFMT(Path(path).stat().st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            return Path(path)
    _refuse_planted(Path(path))
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


def _refuse_planted(path: Path) -> None:
    """Refuses a link that another user may have put into a directory that everybody may write to.

    Such a link would make this user write to a file of the other user's choice. This is the rule of Linux
    (`protected_symlinks`, proc(5)), which does not see links that are followed here.
    """
    for _ in range(_MOST_LINKS):
        if not path.is_symlink():
            return
        about, directory = path.lstat(), path.parent.stat()
        shared = directory.st_mode & _SHARED == _SHARED
        if shared and about.st_uid not in (directory.st_uid, os.geteuid()):
            rule = (
                f"it is a link of another user, {user_name(about.st_uid)}, where everybody may make "
                "links: not followed"
            )
            raise OSError(errno.EACCES, rule, str(path))
        path = path.parent / path.readlink()


def remove_dead(target: Path) -> None:
    """Removes the unfinished partials of dead processes beside this target. A complete partial stays."""
    for path in PARTIAL.dead(target):
        if not (path / SIDECAR).is_file():
            with suppress(OSError):
                _remove(path)


def sync_directory(directory: Path) -> None:
    """Waits until the names in a directory are on the disk."""
    with suppress(OSError):  # some file systems cannot
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sync(directory: Path) -> None:
    """Waits until everything below a directory is on the disk."""
    for place, _, files in os.walk(directory):
        for name in files:
            handle = os.open(Path(place, name), os.O_RDONLY | os.O_NOFOLLOW)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_directory(Path(place))


def lock(handle: int) -> bool | None:
    """Returns whether the lock was taken; None if the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return None if error.errno in _NO_LOCKS else False
    return True


def _dead(path: Path) -> Iterator[Path]:
    """Yields the path, locked, if it belongs to this user and no living process holds it."""
    handle = -1
    with suppress(OSError):
        about = path.lstat()
        known = stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)
        if known and about.st_uid == os.geteuid():
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if handle >= 0:
        try:
            if lock(handle) is True and _is(path, handle):
                yield path
        finally:
            os.close(handle)


def _is(path: Path, handle: int) -> bool:
    """Returns whether the open file still has this name."""
    try:
        there, held = path.lstat(), os.fstat(handle)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
