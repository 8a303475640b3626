"""How far a command is: a line on a terminal, silence in a pipe."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Tell = Callable[[int, int | None], None]
    Watch = Callable[[str, int, int | None], None]


class _Rate(ProgressColumn):
    """References a second, in millions."""

    def render(self, task: Task) -> Text:
        return Text(f"{(task.finished_speed or task.speed or 0) / 1e6:6.1f} M references/s")


@contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Tell | None]:
    """A callback that shows references done, rate and time left; None where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def tell(done: int, of: int | None) -> None:
            bar.update(task, completed=done, total=of)

        yield tell


@contextmanager
def watch(*, quiet: bool) -> Iterator[Watch | None]:
    """The same for several things one after the other, each with a title."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown: dict[str, TaskID] = {}

        def told(title: str, done: int, of: int | None) -> None:
            if title not in shown:
                for task in shown.values():
                    bar.update(task, visible=False)
                shown[title] = bar.add_task(title, total=of)
            bar.update(shown[title], completed=done, total=of)

        yield told
