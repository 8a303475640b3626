"""Records programs: `binhop.record`, which `binhop record` also calls."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop import _binhop, recorder
from binhop.arguments import seed_number, thread_count, whole_number
from binhop.errors import RequestError
from binhop.output import OutputFile
from binhop.partial import Partial
from binhop.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    # It takes the pid (0 between a native run and the recording), the references, the live processes,
    # whether the command has ended, and the images that still run. It returns whether to stop.
    TellRecording = Callable[[int, int, int, bool, int], bool]

FETCH = ("run", "instruction")
BUILT_IN, NATIVE = "built-in", "native"
FALLBACK_LOSES = (
    "speed (some 20 to 100 times slower), mappings made before the first instruction, the memory of calls "
    "with vectors, whose reference is whose while several processes run"
)
# Polars reads settings of its allocator from the environment.
_SET_BY_LIBRARIES = ("_RJEM_MALLOC_CONF",)
# The first option turns off default options from .valgrindrc and from VALGRIND_OPTS.
_LACKEY = (
    "--command-line-only=yes",
    "--trace-mem=yes",
    "--basic-counts=no",
    "--trace-syscalls=yes",
    "--trace-sched=yes",
)
SHELL_BUILTINS = frozenset({"cd", "export", "source", "alias", "ulimit", "eval"})


@dataclass(frozen=True)
class Recording:
    """`Recording` describes a finished recording.

    Attributes:
        path: The trace file.
        exit_code: The command's exit code, or 128 plus the signal's number if a signal ended the command.
        totals: References, instructions, rows by event.
        bytes: Size of the file.
        notes: The complaints of Valgrind, and what was left out.
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
    skip: int | str = 0,
    limit: int | str | None = None,
    schedule: str | os.PathLike[str] = BUILT_IN,
    seed: int = 0,
    rate: int | str = 1000,
    threads: int | None = None,
    tell: TellRecording | None = None,
) -> Recording:
    """Runs a command under the recorder and writes the trace of all its processes.

    Args:
        command: The program and its arguments.
        path: The trace file to make.
        only: Record references of programs of this name alone.
        fetch: "run": instructions in sequence are one row; "instruction": one row for each.
        skip: The number of references to skip at the start.
        limit: The number of references after which the trace ends; the program runs on.
        schedule: The source of the order between processes: "built-in" draws it from a distribution; "native"
            runs the command natively first, which needs root; any other text is a file that `observe` wrote.
        seed: For the built-in order between processes.
        rate: Instructions in a microsecond, for the built-in order.
        threads: The number of threads that encode the file; default: the number of processors.
        tell: Called ten times a second; the recording stops when it returns True.

    Raises:
        RequestError: There is no such program, no Valgrind, the recorder cannot be built, or the file cannot
            be written.
    """
    check(command)
    skip, rate = whole_number(skip, "skip"), whole_number(rate, "rate", least=1)
    limit, seed = whole_number(limit, "limit", least=1), seed_number(seed)
    if fetch not in FETCH:
        raise _binhop.unknown(fetch, "fetch", "a fetch row is a run or an instruction", list(FETCH))
    installed = recorder.valgrind()
    if installed is None:
        rule = "is not installed, and programs are recorded with it"
        raise RequestError("valgrind", "record", rule, recorder.GET_VALGRIND)
    tool = recorder.built(installed)
    _check_place(path)
    tell = tell or (lambda *_: False)
    observed = _observed(command, schedule, tell)
    scratch = _scratch()
    try:
        with _environment(tool):
            code, summary, notes = _binhop.record(
                [os.fspath(word) for word in command],
                os.fspath(path),
                valgrind=os.fspath(installed.command),
                directory=os.fspath(scratch.path / "recording"),
                only=only,
                fetch=fetch,
                schedule=observed,
                seed=seed,
                rate=rate,
                skip=skip,
                limit=limit,
                threads=thread_count(threads),
                tell=tell,
            )
    finally:
        scratch.remove()
    facts = json.loads(summary)
    return Recording(Path(path), code, facts["totals"], facts["bytes"], notes)


def observe(
    command: Sequence[str], path: str | os.PathLike[str], *, started: Callable[[int], None] | None = None
) -> int:
    """Runs a command natively, once, and writes the order between its processes, for `record(schedule=path)`.

    Args:
        command: The program and its arguments.
        path: The file to make.
        started: A function that is called with the command's process id once it runs.

    Returns:
        The command's exit code.

    Raises:
        RequestError: The kernel's tracing is not permitted: it needs root.
    """
    check(command)
    with OutputFile(os.fspath(path), "--observe") as file:
        text, code = _binhop.observe([os.fspath(word) for word in command], started or (lambda _: None))
        file.write(text)
    return code


def _scratch() -> Partial:
    """Makes a directory for pipes and spools, and removes what killed recordings left there."""
    place = Path(tempfile.gettempdir()) / "binhop-recording"
    try:
        made = Partial.directory(place)
        made.path.chmod(0o700)
    except OSError as error:
        rule = f"a recording's pipes and spools cannot be made there ({error.strerror})"
        raise RequestError(str(place.parent), "TMPDIR", rule, "set TMPDIR to a directory of yours") from None
    return made


@contextmanager
def _environment(tool: Path) -> Iterator[None]:
    """Gives the program the environment that binhop was started with, and what Valgrind needs.

    binhop's libraries set variables, and Python ignores SIGXFSZ. Programs look at both (sort does).
    """
    started_with = Path("/proc/self/environ").read_bytes().split(b"\0")
    before = {name: os.environ.get(name) for name in ("VALGRIND_LIB", *_SET_BY_LIBRARIES)}
    for name in _SET_BY_LIBRARIES:
        if not any(variable.startswith(f"{name}=".encode()) for variable in started_with):
            os.environ.pop(name, None)
    os.environ["VALGRIND_LIB"] = str(tool)
    ours = threading.current_thread() is threading.main_thread()
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_DFL) if ours else None
    try:
        yield
    finally:
        if ignored is not None:
            signal.signal(signal.SIGXFSZ, ignored)
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _observed(
    command: Sequence[str], schedule: str | os.PathLike[str], tell: TellRecording
) -> tuple[str, str] | None:
    """Returns the text of an observed order and its source; None for the built-in order."""
    if schedule == BUILT_IN:
        return None
    if schedule == NATIVE:
        text, code = _binhop.observe(
            [os.fspath(word) for word in command], lambda pid: tell(pid, 0, 1, False, 0)
        )
        # No program runs now. A user who asked for an end, in the native run or since, does not want a second
        # run.
        if tell(0, 0, 0, False, 0):
            rule = "an end was asked for, so the command was not run again for the recording"
            raise RequestError(
                f"the native run (exit code {code})", "--schedule native", rule, "record it anew"
            )
        return text, "the native run"
    path = Path(schedule)
    if not path.is_file():
        rule = f"an order is {BUILT_IN}, {NATIVE}, or a file that holds one"
        raise RequestError(
            str(schedule), "--schedule", rule, "binhop record --observe FILE -- CMD writes one"
        )
    return path.read_text(encoding="utf-8", errors="replace"), str(path)


def with_lackey(
    command: Sequence[str],
    path: str | os.PathLike[str],
    *,
    limit: int | None = None,
    started: Callable[[int], None] | None = None,
) -> Recording:
    """Records with Valgrind's own lackey if the recorder cannot be built: slower, and the trace holds less.

    Raises:
        RequestError: There is no such program, no Valgrind, or the file cannot be written.
    """
    check(command)
    installed = recorder.valgrind()
    if installed is None:
        rule = "is not installed, and programs are recorded with it"
        raise RequestError("valgrind", "record", rule, recorder.GET_VALGRIND)
    _check_place(path)
    reading, writing = os.pipe()
    words = [str(installed.command), *_LACKEY, "--tool=lackey", f"--log-fd={writing}", "--trace-children=yes"]
    with subprocess.Popen([*words, "--", *map(os.fspath, command)], pass_fds=[writing]) as child:
        os.close(writing)
        if started is not None:
            started(child.pid)
        try:
            trace = Trace.open(f"/dev/fd/{reading}", "lackey")
            summary, notes = trace.write(path, limit, made_by="record")
        finally:
            # The rest must still be read, or the program would wait for ever.
            while os.read(reading, 1 << 20):
                pass
            os.close(reading)
    code = child.returncode if child.returncode >= 0 else 128 - child.returncode
    return Recording(Path(path), code, summary["totals"], summary["bytes"], notes)


def _check_place(path: str | os.PathLike[str]) -> None:
    """Refuses a place where no file can be made, before the program runs."""
    with OutputFile(path, "-o"):
        pass


def check(command: Sequence[str]) -> None:
    """Refuses what cannot be run, before anything is started."""
    place = "record"
    if not command:
        raise RequestError(
            "no command", place, "a command must be given", "say binhop record -- CMD ARGUMENT…"
        )
    name = os.fspath(command[0])
    if shutil.which(name) is None:
        if name in SHELL_BUILTINS:
            raise RequestError(name, place, "is the shell's own command", f"say sh -c '{name} …; CMD'")
        rule = "there is no such program, or it may not be executed"
        raise RequestError(
            name, place, rule, "check the name and PATH; a shell's line is run by sh -c 'LINE'"
        )
