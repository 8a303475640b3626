"""Defines the line that shows a command's progress on a terminal."""

from __future__ import annotations

from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.table import Column
from rich.text import Text

from binhop.escape import escaped

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


def progress_line() -> Progress:
    """Returns the line: title, bar, rate, and time left. It disappears at the end."""
    title = _Title(table_column=Column(no_wrap=True, overflow="ellipsis"))
    return Progress(
        title, BarColumn(bar_width=BAR), _Rate(), _Left(), console=Console(stderr=True), transient=True
    )
