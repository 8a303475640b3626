"""Decides whether a file may be executed that lies where other users might have put it.

A file is trusted if the file, every directory above it, and the targets of its links belong to this user or
to root, and nobody else may write to them. A directory that everybody may write to is trusted only with its
sticky bit, as /tmp has it: there nobody can replace another user's files.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path


def distrusted(path: Path) -> str | None:
    """Returns the reason to distrust a file or directory; None if it is trusted, or does not exist."""
    whole = path.absolute()  # links are looked at, too
    for place in (*reversed(whole.parents), whole):
        if (why := _distrusted_itself(place)) is not None:
            return f"{place} {why}"
    if (real := Path(os.path.realpath(whole))) != whole:
        return distrusted(real)
    return None


def _distrusted_itself(path: Path) -> str | None:
    try:
        about = path.lstat()
    except FileNotFoundError:
        return None
    if about.st_uid not in (0, os.geteuid()):
        return f"belongs to another user, {_user(about.st_uid)}"
    if stat.S_ISLNK(about.st_mode):
        return None
    if about.st_mode & stat.S_IWOTH and not about.st_mode & stat.S_ISVTX:
        return "may be written by everybody"
    if about.st_mode & stat.S_IWGRP and not about.st_mode & stat.S_ISVTX and not _is_private(about.st_gid):
        return "may be written by its whole group"
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


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"number {number}"


__all__ = ["distrusted"]
