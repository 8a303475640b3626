"""Shows a command's progress on a terminal, and nothing in a pipe."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from binhop.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binhop.pace import Tell, Watch


@contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Tell | None]:
    """Yields a callback that shows references done, rate and time left; None where nobody watches."""
    with watch(quiet=quiet) as report:
        yield None if report is None else lambda done, of: report(what, done, of)


@contextmanager
def watch(*, quiet: bool) -> Iterator[Watch | None]:
    """Yields a callback that also takes the title. All titles share one progress."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from binhop.cli.progress_line import progress_line  # where nobody watches, it is not imported

    with progress_line() as bar:
        pace = Pace()
        task = bar.add_task("", total=None, pace=pace)

        def report(title: str, done: int, of: int | None) -> None:
            pace.note(done)
            bar.update(task, description=title, completed=done, total=of)

        yield report
