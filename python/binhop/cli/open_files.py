"""Raises the limit of open files, for commands that read many traces at once."""

from __future__ import annotations

import resource

_OTHERS = 64
"""The number of open files beside the traces: the output, libraries, pipes."""


def allow_open_files(traces: int) -> None:
    """Raises this process's soft limit for the given number of traces, up to the hard limit.

    Where that is not enough, opening says which trace could not be opened, and what to do.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = traces + _OTHERS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


__all__ = ["allow_open_files"]
