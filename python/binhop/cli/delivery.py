"""Writes a finished result to each place that the command names, and to the console if a place fails.

A disk may be full when a long run ends. Then the result reaches the other places, and the console shows its
table, also with `--quiet`, before the command fails. If a result is incomplete because a run could not be
kept, it is not written into `--out`: the same command will write the complete result there.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

import typer

from binhop.claims import RESULT
from binhop.cli.early_end import kept_for
from binhop.errors import RequestError
from binhop.interrupts import CODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binhop.claims import Claims
    from binhop.kept_runs import KeptRuns
    from binhop.output import OutputFile, ResultDirectory


class Printable(Protocol):
    """`Printable` is a result that can be written as JSON."""

    def to_json(self) -> str:
        """Returns the result as one JSON object."""


class Delivery:
    """`Delivery` knows the places of a command's result, and hands the result to them.

    Attributes:
        kept: The place for finished runs; None if the command keeps none.
        names: The names of the files that were written into `--out`.
    """

    def __init__(
        self,
        file: OutputFile | None,
        directory: ResultDirectory | None,
        kept: KeptRuns | None,
        json_to: str | None,
        *,
        quiet: bool,
    ) -> None:
        self.kept = kept
        self.names: list[str] = []
        self._file = file
        self._directory = directory
        self._json_to = json_to
        self._quiet = quiet
        self._result: Printable | None = None
        self._put: Callable[[], object] = lambda: None

    @property
    def failed(self) -> bool:
        """Whether the command ends early because a run could not be kept."""
        return self.kept is not None and self.kept.stopped is not None

    def ready(self, result: Printable, put: Callable[[], object]) -> None:
        """Takes the result, and a function that prints its tables. From now on the result is not lost."""
        self._result, self._put = result, put

    def write(self, fill: Callable[[ResultDirectory], list[str]]) -> None:
        """Writes the result to `--out`, by `fill`, and to `--json`.

        Raises:
            RequestError: A place cannot be written, or a run could not be kept. The other place is written.
        """
        assert self._result is not None, "a result was handed over"
        errors: list[RequestError] = []
        if self._directory is not None and not self.failed:
            try:
                self.names = fill(self._directory)
            except RequestError as error:
                errors.append(error)
        if self._file is not None:
            try:
                self._file.write(self._result.to_json() + "\n")
            except RequestError as error:
                errors.append(error)
        if self.kept is not None and self.kept.stopped is not None:
            raise self.kept.stopped
        if errors:
            raise errors[0]

    def show(self) -> bool:
        """Shows the result unless `--quiet` is given. Returns whether its tables were shown."""
        if self._json_to == "-":
            self.show_anyway()
            return False
        if not self._quiet:
            self.show_anyway()
        return not self._quiet

    def show_anyway(self) -> None:
        """Shows the result, if there is one: its tables, or its JSON if `--json` names standard output."""
        if self._json_to == "-" and self._result is not None:
            sys.stdout.write(self._result.to_json() + "\n")
        else:
            self._put()


@contextmanager
def delivering(
    claims: Claims, out: str | None, json_to: str | None, *, several: bool, quiet: bool
) -> Iterator[Delivery]:
    """Claims the places of a command's result and opens them. If the block fails, the result is shown first.

    `several` is whether the command has several runs, each of which is kept when it is finished.
    """
    delivery: Delivery | None = None
    try:
        with ExitStack() as stack:
            file = stack.enter_context(claims.file(json_to, "--json", RESULT))
            # The result is moved into place before its kept runs are removed.
            kept = stack.enter_context(kept_for(out, several=several))
            directory = stack.enter_context(claims.directory(out, "--out"))
            delivery = Delivery(file, directory, kept, json_to, quiet=quiet)
            yield delivery
    except Exception:
        if delivery is not None:
            put_before_failing(delivery.show_anyway)
        raise


def put_before_failing(put: Callable[[], object]) -> None:
    """Shows a result whose command is about to fail.

    Standard output may be full, too, or its reader may be gone. Rich turns the broken pipe into SystemExit.
    """
    with suppress(OSError, SystemExit):
        put()
        sys.stdout.flush()


def end(*, early: bool) -> None:
    """Ends a command. After Ctrl-C the exit code says so."""
    if early:
        raise typer.Exit(CODE)
