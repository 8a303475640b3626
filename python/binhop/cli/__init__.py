"""Runs the command line, a thin layer over the Python interface.

Exit codes: 0 done, 1 the run failed, 2 the request was wrong, 130 interrupted. No traceback reaches a user.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from typer.exceptions import Abort, TyperException

from binhop import collector, interrupts
from binhop.cli import show, streams
from binhop.cli.app import COMMANDS, app, overview
from binhop.cli.exit_codes import ProgramsOwn
from binhop.errors import BinhopError, RequestError
from binhop.file_names import decodable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typer import Typer
    from typer.core import TyperGroup

COMPLETE = "_BINHOP_COMPLETE"
"""The variable that the shell sets when it asks for completions of a line."""
ALONE = ("-h", "--help", "--version")
"""The options of `binhop` itself after which no command runs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    streams.prepare()
    interrupts.begin()
    failed: OSError | None
    try:
        if arguments is None:
            interrupts.now()
        code = _run(arguments)
        failed = streams.flush()
        if arguments is None:
            interrupts.after()
    except KeyboardInterrupt:  # between two lines of binhop's own code
        return _interrupted()
    except BrokenPipeError as error:
        code, failed = 0, streams.flush() or error
    if isinstance(failed, BrokenPipeError):
        return code  # the reader has closed the pipe
    if failed is not None and code in (0, interrupts.CODE):
        code = _tell(_of_the_system(failed))
        streams.flush()
    if arguments is None and interrupts.is_command() and threading.active_count() == 1:
        _end(code)
    return code


def _end(code: int) -> NoReturn:
    """Ends the process without freeing its objects one by one, which takes a tenth of a short run."""
    atexit._run_exitfuncs()  # removes temporary directories, as at every end
    streams.flush()
    os._exit(code & 0xFF)


def _run(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] != ["record"]:  # the words after `record` may belong to another program
            for word in words:
                decodable(word, "")
        command_line = _command_line(words)
        collector.resume()
        code = command_line(words, prog_name="binhop", standalone_mode=False)
    except BinhopError as error:
        return _tell(error)
    except (KeyboardInterrupt, Abort):
        return _interrupted()
    except TyperException as error:
        return _usage(error)
    except BrokenPipeError:
        raise
    except SystemExit as error:
        return _left(error, words)
    except (MemoryError, OSError, UnicodeEncodeError) as error:
        return _tell(_of_the_system(error))
    except BaseException as error:  # the extension's PanicException is no Exception
        return _bug(error)
    if isinstance(code, ProgramsOwn):
        return int(code)
    return _interrupted() if code == interrupts.CODE else int(code or 0)


def _command_line(words: Sequence[str]) -> Typer | TyperGroup:
    """Returns the commands that these words need: to import all of them takes longer than a short run."""
    if COMPLETE not in os.environ:
        if words and words[0] in COMMANDS:
            return app(words[:1])
        if not words or words[0] in ALONE:
            return overview()
    return app()


def _left(error: SystemExit, words: Sequence[str]) -> int:
    """Returns the exit code of a completion. Any other SystemExit is what typer makes of a broken pipe."""
    if COMPLETE in os.environ or {"--install-completion", "--show-completion"} & {*words}:
        return int(error.code or 0)
    raise BrokenPipeError from error


def _of_the_system(error: MemoryError | OSError | UnicodeEncodeError) -> RequestError:
    """Turns an error of the system into a refused request."""
    if isinstance(error, MemoryError):
        return RequestError("memory", "", "is not enough for this command", "run fewer seeds at once")
    if isinstance(error, UnicodeEncodeError):
        remedy = "rename the file, or give another name"
        return RequestError(error.object[:60], "", "is no text in UTF-8", remedy)
    if error.filename is None:
        return RequestError(
            "standard output", "", f"cannot be written: {error.strerror}", "open it, or make room"
        )
    why = error.strerror or str(error)
    return RequestError(str(error.filename), "", why, "look at the file and its directory")


def _tell(error: BinhopError) -> int:
    _say(f"binhop: {error}")
    return error.exit_code


def _say(text: str) -> None:
    with suppress(OSError):  # there is no other stream to report to
        show.say(text)


def _interrupted() -> int:
    for place in interrupts.moved():
        _say(f"binhop: {place} is complete")
    _say(interrupts.INTERRUPTED)
    return interrupts.CODE


def _usage(error: TyperException) -> int:
    """Reports a wrong command line as every error is reported: value, place, rule, remedy."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "binhop"
    if type(error).__name__ == "NoArgsIsHelpError":
        return 2  # the help was printed when the error was made
    text = message.rstrip(".").replace("\n", " ")
    _say(f"{command}: {text}; see {command} --help")
    return 2


def _bug(error: BaseException) -> int:
    """Reports a bug of binhop. The traceback is shown only if BINHOP_TRACEBACK is set."""
    if os.environ.get("BINHOP_TRACEBACK"):
        raise error
    _say(
        f"binhop: {type(error).__name__}: {error}: this is an error of binhop itself; please report it, "
        "with the command and what BINHOP_TRACEBACK=1 adds to this message"
    )
    return 1
