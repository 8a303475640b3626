"""Handles Ctrl-C at times when an exception at any line would do harm.

While the command's modules are imported nothing has begun, so Ctrl-C ends the process at once. No code of
binhop could catch the exception yet, and Python would print a traceback. While a result is moved to its
place, or a library is imported, the interruption waits until that is done. A command that is interrupted
after its result was moved reports that the result is complete. The extension moves traces and exports to
their places by itself: a file that differs from the file before the command is such a result.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERRUPTED = "binhop: interrupted; unfinished work was removed"
CODE = 130

complete: list[str] = []
"""The directories of results that this command has moved to their places; `moved` adds files to them."""

_State = tuple[int, int, int]
_outputs: dict[str, tuple[str, _State | None]] = {}
"""The files that this command may write, under the names that the user gave.

Each file has the path behind all links, and the state before the command, which is None if no file was there.
"""


def begin() -> None:
    """Forgets the results of an earlier command."""
    complete.clear()
    _outputs.clear()


def watch(given: str, target: str) -> None:
    """Notes a file that the command may move to its place. `target` is the path behind all links."""
    _outputs[given] = target, _state(target)


def moved() -> list[str]:
    """Returns directories and files that this command has moved to their places, as the user named them."""
    files = [given for given, (target, before) in _outputs.items() if _state(target) not in (None, before)]
    return [*complete, *files]


def _state(path: str) -> _State | None:
    try:
        about = os.stat(path)  # noqa: PTH116, pathlib takes a while
    except OSError:
        return None
    return (about.st_dev, about.st_ino, about.st_mtime_ns) if stat.S_ISREG(about.st_mode) else None


@contextmanager
def undisturbed() -> Iterator[None]:
    """Delays Ctrl-C until the end of the block."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    heard: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *event: heard.append(event))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if heard:
            before(*heard[0])


def is_command() -> bool:
    """Returns whether this process is the command `binhop`, or `python -m binhop`."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119, pathlib takes a while
    return name == "binhop" or sys.orig_argv[1:3] == ["-m", "binhop"]


def _leave(number: int, frame: object) -> None:
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(CODE)


def _before() -> None:
    """Makes Ctrl-C end the process at once, until `now` is called."""
    if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def now() -> None:
    """Makes Ctrl-C raise KeyboardInterrupt from now on."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def after() -> None:
    """Ignores Ctrl-C from now on, because the command is done and the process ends."""
    if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


_before()  # runs when `binhop` is imported, before imports that take a while
