"""Decides whether a file may be executed that lies where other users might have put it.

A file is trusted if the file, every directory above it, and the targets of its links belong to this user or
to root, and nobody else may write to them. A directory that everybody may write to is trusted only with its
sticky bit, as /tmp has it: there nobody can replace another user's files.
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Distrusted:
    """`Distrusted` is a place that another user owns or may write to.

    Attributes:
        place: The file or directory.
        why: The reason, which follows the place in a sentence.
        remedy: How this user mends the place's mode; None where only its owner could.
    """

    place: Path
    why: str
    remedy: str | None

    def __str__(self) -> str:
        return f"{self.place} {self.why}"


def distrusted(path: Path) -> Distrusted | None:
    """Returns the place because of which a file is distrusted; None if it is trusted, or does not exist."""
    whole = path.absolute()  # links are looked at, too
    for place in (*reversed(whole.parents), whole):
        if (found := _distrusted_itself(place)) is not None:
            return found
    if (real := Path(os.path.realpath(whole))) != whole:
        return distrusted(real)
    return None


def user_name(number: int) -> str:
    """Returns the name of a user; "number" and the number if no user has it."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"number {number}"


def _distrusted_itself(path: Path) -> Distrusted | None:
    try:
        about = path.lstat()
    except FileNotFoundError:
        return None
    if about.st_uid not in (0, os.geteuid()):
        return Distrusted(path, f"belongs to another user, {user_name(about.st_uid)}", None)
    if stat.S_ISLNK(about.st_mode):
        return None
    remedy = f"run `chmod go-w {shlex.quote(str(path))}`" if about.st_uid == os.geteuid() else None
    if about.st_mode & stat.S_IWOTH and not about.st_mode & stat.S_ISVTX:
        return Distrusted(path, "may be written by everybody", remedy)
    if about.st_mode & stat.S_IWGRP and not about.st_mode & stat.S_ISVTX and not _is_private(about.st_gid):
        return Distrusted(path, "may be written by its whole group", remedy)
    return None


def _is_private(group: int) -> bool:
    """Returns whether the group is root's, or has this user's name and no other member."""
    if group == 0:
        return True
    try:
        about, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return about.gr_name == user and {*about.gr_mem} <= {user}


__all__ = ["Distrusted", "distrusted", "user_name"]
