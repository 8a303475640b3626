"""Shows a command's progress on a terminal, and nothing in a pipe."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.table import Column
from rich.text import Text

from binhop.escape import escaped
from binhop.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binhop.pace import Tell, Watch


BAR = 16
"""The width of the bar. The title has what is left of the line, and is cut there."""


class _Title(ProgressColumn):
    """`_Title` shows the title of the present work. Names in the title may hold any character."""

    def render(self, task: Task) -> Text:
        return Text(escaped(task.description))


class _Rate(ProgressColumn):
    """`_Rate` shows references a second, in millions."""

    def render(self, task: Task) -> Text:
        rate = task.fields["pace"].rate() or 0
        return Text(f"{rate / 1e6:6.1f} M references/s")


class _Left(ProgressColumn):
    """`_Left` shows the time that is left, if it is known."""

    def render(self, task: Task) -> Text:
        left = task.fields["pace"].left(task.total)
        return Text("-:--:--" if left is None else str(timedelta(seconds=round(left))))


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
    title = Column(no_wrap=True, overflow="ellipsis")
    columns = (_Title(table_column=title), BarColumn(bar_width=BAR), _Rate(), _Left())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        pace = Pace()
        task = bar.add_task("", total=None, pace=pace)

        def report(title: str, done: int, of: int | None) -> None:
            pace.note(done)
            bar.update(task, description=title, completed=done, total=of)

        yield report
