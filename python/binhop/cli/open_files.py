"""The limit of open files, for commands that read many traces at once."""

from __future__ import annotations

import resource

_OTHERS = 64
"""Files beside the traces: the output, libraries, pipes."""


def allow_open_files(traces: int) -> None:
    """Raises this process's soft limit as far as so many traces need, and as the hard limit allows.

    Where that is not enough, opening says which trace could not be opened, and what to do.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = traces + _OTHERS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


__all__ = ["allow_open_files"]
