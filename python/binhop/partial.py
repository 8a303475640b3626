"""What grows beside its place: a file or a directory that is moved there when it is complete.

It has a name that nobody can foresee, `.NAME.partial-` and 16 hexadecimal digits, and is made exclusively:
nothing that is there already is written to, and no link is followed. Whoever writes it holds a lock on it. A
lock ends with its process, however that ends, so a partial file without one is of the dead, whatever process
numbers return; the next that writes to the same place removes it. Rust writes its files in the same way
(`write/temporary.rs`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIDECAR = "run.json"
"""Written last into a directory of results: a partial directory that has it is complete, and stays."""

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF, errno.EINVAL})
"""What file systems say that have no locks."""

_SHARED = stat.S_ISVTX | stat.S_IWOTH
"""The mode of a directory in which everybody may make files, and nobody remove another's."""
_MOST_LINKS = 40
"""Links that are followed, one after the other: what Linux follows."""


@dataclass(frozen=True)
class Beside:
    """A kind of names beside a target."""

    kind: str

    def new(self, target: Path) -> Path:
        """A name that is not foreseeable."""
        return target.with_name(f".{target.name}.{self.kind}-{secrets.token_hex(8)}")

    def dead(self, target: Path) -> Iterator[Path]:
        """What has such a name, is this user's, and is held by no living process; held until the next."""
        form = re.compile(rf"\.{re.escape(target.name)}\.{self.kind}-[0-9a-f]{{16}}")
        paths: list[Path] = []
        with suppress(OSError):
            paths = [*target.parent.iterdir()]
        for path in paths:
            if form.fullmatch(path.name):
                yield from _dead(path)


PARTIAL = Beside("partial")


class Partial:
    """A file or directory beside its target, held by a lock until it is moved, or removed."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self.handle = handle

    @classmethod
    def file(cls, target: Path) -> Self:
        """An empty file, open for writing."""
        return cls._make(target, lambda path: os.open(path, _NEW_FILE, 0o666))

    @classmethod
    def directory(cls, target: Path) -> Self:
        """An empty directory."""

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
            # Whoever removes the dead may have taken it for one of them before it was locked.
            if lock(handle) is not False and _is(path, handle):
                return cls(path, handle)
            os.close(handle)

    def move(self, target: Path) -> None:
        """Puts it at its place; the lock ends."""
        self.path.rename(target)
        self.close()
        sync_directory(target.parent)

    def remove(self) -> None:
        """Removes it, if it was not moved."""
        if self.handle >= 0:
            _remove(self.path)
        self.close()

    def close(self) -> None:
        """Ends the lock: what was not moved stays."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def resolved(path: str | os.PathLike[str]) -> Path:
    """Where a path leads to in the end, whether something is there or not.

    A pipe or a device keeps its name: /dev/stdout leads to what has no name of its own.
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

    It would make this user write to a file of that user's choice. This is the rule of Linux
    (`protected_symlinks`, proc(5)), which does not see links that are followed here.
    """
    for _ in range(_MOST_LINKS):
        if not path.is_symlink():
            return
        about, directory = path.lstat(), path.parent.stat()
        shared = directory.st_mode & _SHARED == _SHARED
        if shared and about.st_uid not in (directory.st_uid, os.geteuid()):
            rule = (
                f"it is a link of another user, number {about.st_uid}, where everybody may make links: "
                "not followed"
            )
            raise OSError(errno.EACCES, rule, str(path))
        path = path.parent / path.readlink()


def remove_dead(target: Path) -> None:
    """Removes what processes that are no more left unfinished beside this target; what is complete stays."""
    for path in PARTIAL.dead(target):
        if not (path / SIDECAR).is_file():
            with suppress(OSError):
                _remove(path)


def sync_directory(directory: Path) -> None:
    """Waits until the disk has the names in a directory."""
    with suppress(OSError):  # some file systems cannot
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sync(directory: Path) -> None:
    """Waits until the disk has all that lies in a directory."""
    for place, _, files in os.walk(directory):
        for name in files:
            handle = os.open(Path(place, name), os.O_RDONLY | os.O_NOFOLLOW)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_directory(Path(place))


def lock(handle: int) -> bool | None:
    """Whether the lock could be had; None where the file system has none."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return None if error.errno in _NO_LOCKS else False
    return True


def _dead(path: Path) -> Iterator[Path]:
    """The path, if it is this user's and no living process holds it; held meanwhile."""
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
    """Whether what is open still bears this name."""
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
