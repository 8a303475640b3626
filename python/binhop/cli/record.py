"""Runs `binhop record`, which passes on the program's output, exit code and signals."""

from __future__ import annotations

import glob
import os
import shutil
import signal
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

import binhop
from binhop import recorder
from binhop.claims import ORDER, Claims, made_by
from binhop.cli import show
from binhop.cli.exit_codes import ProgramsOwn
from binhop.cli.options import Force, positive
from binhop.cli.traces import Quiet  # noqa: TC001  # typer reads it
from binhop.errors import RequestError
from binhop.numbers import count
from binhop.recording import BUILT_IN, FALLBACK_LOSES, FETCH, check, with_lackey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from binhop.recording import TellRecording

# The seconds for which a line on a terminal stays before it changes again.
_EVERY = 0.2
# The seconds after which processes that the command left behind are reported.
_PATIENCE = 5


def record(
    command: Annotated[list[str], typer.Argument(metavar="-- CMD…", help="The program and its arguments.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="The trace. Default: CMD.parquet.")
    ] = None,
    limit: Annotated[
        str | None, typer.Option(help="End the trace after this number of references; the program runs on.")
    ] = None,
    skip: Annotated[str | None, typer.Option(help="Skip this number of references first.")] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="COMM", help="Record only the references of programs with this name."),
    ] = None,
    fetch: Annotated[
        str, typer.Option(help="What a row of fetches holds: a run of instructions, or one instruction.")
    ] = FETCH[0],
    schedule: Annotated[
        str,
        typer.Option(
            help="The order between processes: built-in, native (first runs CMD unrecorded) or a FILE."
        ),
    ] = BUILT_IN,
    observe: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Run CMD without the recorder, and write the order of its processes to FILE."
        ),
    ] = None,
    seed: Annotated[str, typer.Option(help="The seed of the built-in order between processes.")] = "0",
    lackey: Annotated[bool, typer.Option("--lackey", help="Record with Valgrind's lackey instead.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> int:
    """Record a program and all its children into a trace. The exit code is the program's."""
    check(command)
    path = output or f"{Path(command[0]).name}.parquet"
    own = {
        "--skip": skip,
        "--only": only,
        "--fetch": _unless(FETCH[0], fetch),
        "--schedule": _unless(BUILT_IN, schedule),
        "--seed": _unless("0", seed),
    }
    claims = Claims(force=force)
    claims.reads(shutil.which(command[0]), schedule)
    if observe is not None:
        claims.writes(observe, "--observe", ORDER)
        _refuse_to_observe({"-o": output, "--limit": limit, **own, "--lackey": "" if lackey else None})
        with _signals() as ends:
            return ProgramsOwn(binhop.recording.observe(command, observe, started=ends.follow))
    claims.writes(path, "-o", made_by("record"))
    started = time.monotonic()
    at_most = positive(limit, "--limit")
    first, number = count(skip, "--skip") or 0, count(seed, "--seed") or 0
    with _signals() as ends, _progress(path, quiet=quiet, ends=ends) as tell:
        try:
            with_recorder = _is_ready(ends, lackey=lackey)
            if ends.asked:  # no program runs yet that could receive it
                return _interrupted(ends)
            if with_recorder:
                done = binhop.record(
                    command,
                    path,
                    only=only,
                    fetch=fetch,
                    schedule=schedule,
                    seed=number,
                    limit=at_most,
                    skip=first,
                    tell=tell,
                )
            else:
                _refuse_with_lackey(own)
                done = with_lackey(command, path, limit=at_most, started=ends.follow)
        except RequestError as error:
            if not ends.asked or not error.value.startswith("signal: "):
                raise
            # The user asked for an end, and a program obeyed before anything of CMD was recorded.
            return _interrupted(ends)
    if not quiet:
        references = done.totals["references"]
        seconds = time.monotonic() - started
        instructions = show.counted(done.totals["instructions"], "instruction")
        said = (
            f"{path}: {show.counted(references, 'reference')}, {instructions}, "
            f"{show.counted(done.bytes, 'byte')}, {references / 1e6 / seconds:.1f} M references/s"
        )
        show.say(said)
        if references == 0:
            show.say("note: no reference was recorded: look at --only and --skip")
        for note in done.notes:
            show.say(f"note: {note}")
    return ProgramsOwn(done.exit_code)


def _interrupted(ends: _Ends) -> int:
    """Reports that the user asked for an end before anything was recorded. Returns the exit code."""
    show.say("binhop: interrupted; nothing was recorded")
    return ProgramsOwn(128 + ends.number)


def _is_ready(ends: _Ends, *, lackey: bool) -> bool:
    """Makes the recorder ready, unless lackey is asked for, and says what is lost if that fails."""
    installed = recorder.valgrind()
    why = None if installed is None else installed.missing()
    if lackey or ends.asked:
        return False
    if why is not None:
        show.say(
            f"binhop: the recorder cannot be built ({why}), so lackey records; lost: {FALLBACK_LOSES}; "
            "`binhop doctor` says what to install"
        )
    elif installed is not None:
        recorder.built(installed)
    return why is None


def _unless(default: str, value: str) -> str | None:
    """Returns the value of an option, or None if the value is the default."""
    return None if value == default else value


def _refuse_with_lackey(given: dict[str, str | None]) -> None:
    """Refuses what lackey cannot do."""
    for option, value in given.items():
        if value is not None:
            remedy = "leave it out (binhop trace slices and filters), or see what binhop doctor says"
            raise RequestError(value, option, "lackey cannot do this", remedy)


def _refuse_to_observe(given: dict[str, str | None]) -> None:
    """Refuses options about a trace where no trace is made."""
    for option, value in given.items():
        if value is not None:
            rule = "no trace is made where a command is observed"
            remedy = "leave it out here, and give it to the recording, beside --schedule FILE"
            raise RequestError(f"{option} {value}".strip(), "--observe", rule, remedy)


class _Ends:
    """`_Ends` counts the user's requests to end, and knows the last request's signal and target."""

    def __init__(self) -> None:
        self.asked = 0
        self.number = 0
        self.pid = 0
        # The request came before the process was known.
        self._early: list[int] = []

    def follow(self, pid: int) -> None:
        """Passes requests to end on to this process from now on; 0 stands for the next process."""
        self.pid = pid
        while pid and self._early:
            self._pass_on(self._early.pop(0))

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Takes a request to end. The terminal sends Ctrl-C to the program as well."""
        self.asked += 1
        self.number = number
        if number in (signal.SIGINT, signal.SIGQUIT):
            return
        if self.pid:
            self._pass_on(number)
        else:
            self._early.append(number)

    def _pass_on(self, number: int) -> None:
        with suppress(ProcessLookupError):  # the process may have ended since the check
            os.kill(self.pid, number)


@contextmanager
def _signals() -> Iterator[_Ends]:
    """Leaves Ctrl-C to the program, to which the terminal also sends it, and passes other requests to end on.

    A signal that was ignored when binhop started stays ignored, so that the program ignores it as well.
    """
    ends = _Ends()
    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, ends.hear)
    try:
        yield ends
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress(path: str, *, quiet: bool, ends: _Ends) -> Iterator[TellRecording]:
    """Shows references, rate, file size and processes on a terminal, and nothing in a pipe."""
    shown = not quiet and sys.stderr.isatty()
    state = {"at": time.monotonic(), "references": 0, "asked": 0, "over": False}
    line = Text("")

    def tell(pid: int, references: int, processes: int, over: bool, writing: int) -> bool:
        ends.follow(0 if over else pid)
        if over and not state["over"]:
            state["over"], state["asked"], state["at"] = True, ends.asked, time.monotonic()
        if over and writing and not shown and not quiet and time.monotonic() - state["at"] >= _PATIENCE:
            state["at"] = float("inf")
            show.say(
                f"binhop: the command has ended, but {_running(writing)}: binhop records until the end of "
                "the last process, or until Ctrl-C"
            )
        now = time.monotonic()
        if shown and now - state["at"] >= _EVERY:
            rate = (references - state["references"]) / (now - state["at"]) / 1e6
            state["at"], state["references"] = now, references
            far = f"{show.counted(references, 'reference')}, {rate:.1f} M/s, {_size(path)}"
            said = f"recording: {far}, {show.counted(processes, 'process', 'processes')}"
            if over and writing:
                said = f"the command has ended, but {_running(writing)} (Ctrl-C stops): {far}"
            live.update(Text(said, overflow="ellipsis", no_wrap=True))
        # When the command or its native run has ended, Ctrl-C ends binhop.
        return (over or not pid) and ends.asked > state["asked"]

    live = Live(line, console=Console(stderr=True), transient=True, auto_refresh=shown, refresh_per_second=5)
    if not shown:
        yield tell
        return
    with live:
        yield tell


def _running(processes: int) -> str:
    """Returns how many processes of a command run on after its end.

    >>> _running(1), _running(2)
    ('1 of its processes runs on', '2 of its processes run on')
    """
    return show.counted(processes, "of its processes runs on", "of its processes run on")


def _size(path: str) -> str:
    """Returns the size of the file so far. The file grows under a temporary name."""
    target = Path(path)
    growing = list(target.parent.glob(f".{glob.escape(target.name)}.partial-*"))
    size = max((file.stat().st_size for file in growing if file.exists()), default=0)
    return f"{size / 2**20:.1f} MiB"
