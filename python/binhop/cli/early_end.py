"""Keeps the finished parts of a command's work when the command ends early, or reports them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from binhop.cli import show
from binhop.kept_runs import KeptRuns, NotKeptError, keeping, kept_beside
from binhop.numbers import counted, grouped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binhop.study.cells import StudyRun
    from binhop.traces import Trace


@contextmanager
def reporting_kept_runs(out: str) -> Iterator[None]:
    """Reports, when a command ends early, how many runs were kept and how to go on."""
    try:
        yield
    except BaseException:
        kept = KeptRuns(kept_beside(out))
        if len(kept):
            runs = f"{counted(len(kept), 'finished run')} {'are' if len(kept) != 1 else 'is'}"
            place = kept.directory
            show.say(f"binhop: {runs} kept in {place}; the same command goes on from there")
        raise


@contextmanager
def ending_early(results: Sequence[object], kept: KeptRuns | None) -> Iterator[None]:
    """Ends the block without an error if `results` has results that would be lost.

    After Ctrl-C, kept results are not lost. A run that could not be kept would be lost.
    """
    try:
        yield
    except KeyboardInterrupt:
        if not results or (kept is not None and len(kept)):
            raise
    except NotKeptError:
        if not results:
            raise


@contextmanager
def kept_for(out: str | None, *, several: bool) -> Iterator[KeptRuns | None]:
    """Yields the place for a command's finished runs; None if the command keeps none."""
    if out is None or not several:
        yield None
        return
    with reporting_kept_runs(out), keeping(out) as directory:
        yield KeptRuns(directory)


def report_unfinished(traces: Sequence[Trace], finished: int, kept: KeptRuns | None) -> str:
    """Reports the finished traces of a command that ends early. Returns a note for the result."""
    return _report_unfinished(
        finished, counted(len(traces), "trace"), [trace.name for trace in traces[finished:]], kept
    )


def report_unfinished_runs(runs: Sequence[StudyRun], finished: int, kept: KeptRuns | None) -> str:
    """Reports the finished runs of a study that ends early. Returns a note for the result."""
    cells: dict[str, int] = {}
    for run in runs[finished:]:
        cells[run.workload] = cells.get(run.workload, 0) + len(run.cells)
    left = [f"{workload} ({counted(number, 'cell')})" for workload, number in cells.items()]
    return _report_unfinished(finished, counted(len(runs), "run"), left, kept)


def _report_unfinished(finished: int, of: str, left: Sequence[str], kept: KeptRuns | None) -> str:
    are = "are" if finished != 1 else "is"
    missing = f"not finished: {', '.join(left)}"
    show.say(f"binhop: {grouped(finished)} of {of} {are} finished; {missing}")
    why = "interrupted" if kept is None or kept.stopped is None else "ended early"
    return f"{why}; {missing}"
