"""Recording programs: `binhop.record`, and what stands behind `binhop record`."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop import _binhop, recorder
from binhop.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    # pid, references, live processes, whether the command has ended, images that still run → whether to stop
    Tell = Callable[[int, int, int, bool, int], bool]

FETCH = ("run", "instruction")
SHELL_BUILTINS = frozenset({"cd", "export", "source", "alias", "ulimit", "eval"})


@dataclass(frozen=True)
class Recording:
    """What a recording came to.

    Attributes:
        path: The trace file.
        exit_code: The command's own; 128 and the signal's number if one ended it.
        totals: References, instructions, rows by event.
        bytes: Size of the file.
        notes: What Valgrind complained of, and what was left out.
    """

    path: Path
    exit_code: int
    totals: dict[str, Any]
    bytes: int
    notes: list[str] = field(default_factory=list)


def record(
    command: Sequence[str],
    path: str | os.PathLike[str],
    *,
    only: str | None = None,
    fetch: str = "run",
    skip: int = 0,
    limit: int | None = None,
    seed: int = 0,
    rate: int = 1000,
    threads: int | None = None,
    tell: Tell | None = None,
) -> Recording:
    """Runs a command under the recorder and writes the trace of all its processes.

    Args:
        command: The program and its arguments.
        path: The trace file to make.
        only: Record references of programs of this name alone.
        fetch: "run": instructions in sequence are one row; "instruction": one row for each.
        skip: References to pass over at the start.
        limit: References after which the trace ends; the program runs on.
        seed: For the order between processes.
        rate: Instructions in a microsecond, for the order between processes.
        threads: Threads that encode the file; default: the processors there are.
        tell: Called ten times a second; the recording stops when it returns True.

    Raises:
        RequestError: There is no such program, no Valgrind, the recorder cannot be built, or the file cannot be
            written.
    """
    check(command)
    if fetch not in FETCH:
        raise _binhop.unknown(fetch, "fetch", "a fetch row is a run or an instruction", list(FETCH))
    installed = recorder.valgrind()
    if installed is None:
        rule = "is not installed, and programs are recorded with it"
        raise RequestError("valgrind", "binhop record", rule, recorder.GET_VALGRIND)
    tool = recorder.built(installed)
    directory = Path(tempfile.mkdtemp(prefix="binhop-")) / "recording"
    try:
        code, summary, notes = _binhop.record(
            [os.fspath(word) for word in command],
            os.fspath(path),
            valgrind=os.fspath(installed.command),
            recorder=os.fspath(tool),
            directory=os.fspath(directory),
            only=only,
            fetch=fetch,
            seed=seed,
            rate=rate,
            skip=skip,
            limit=limit,
            threads=threads or os.cpu_count() or 1,
            tell=tell or (lambda *_: False),
        )
    finally:
        shutil.rmtree(directory.parent, ignore_errors=True)
    told = json.loads(summary)
    return Recording(Path(path), code, told["totals"], told["bytes"], notes)


def check(command: Sequence[str]) -> None:
    """Refuses what cannot be run, before anything is started."""
    place = "binhop record"
    if not command:
        raise RequestError("no command", place, "needs one", "say binhop record -- CMD ARGUMENT…")
    name = os.fspath(command[0])
    if shutil.which(name) is None:
        if name in SHELL_BUILTINS:
            raise RequestError(name, place, "is the shell's own command", f"say sh -c '{name} …; CMD'")
        rule = "there is no such program, or it may not be executed"
        raise RequestError(
            name, place, rule, "check the name and PATH; a shell's line is run by sh -c 'LINE'"
        )
