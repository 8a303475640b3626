"""Ctrl-C before there is anything to interrupt, and after everything is done: at the command line only.

While the command's modules are imported nothing has begun, so the process ends at once. Python would print a
traceback, since nothing of binhop runs yet that could catch the interruption.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = "binhop: interrupted; nothing unfinished was kept"
CODE = 130


def _is_command() -> bool:
    """Whether this process is the command `binhop`, or `python -m binhop`."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119, pathlib takes a while
    return name == "binhop" or sys.orig_argv[1:3] == ["-m", "binhop"]


def _leave(number: int, frame: object) -> None:
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(CODE)


def _before() -> None:
    """Until `now` is called, Ctrl-C ends the process at once."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def now() -> None:
    """From here it is an exception."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def after() -> None:
    """All is done: a process that ends is not to be interrupted."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


_before()  # when `binhop` is imported: what it imports after this takes a while
