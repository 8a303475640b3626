"""The command line: a thin layer over the Python interface.

Exit codes: 0 done, 1 the run failed, 2 the request was wrong, 130 interrupted. No traceback reaches a user.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from typer.exceptions import Abort, TyperException

from binhop.cli.app import app
from binhop.cli.record import ProgramsOwn
from binhop.errors import BinhopError, RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; the exit code."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has seen enough. What Python would still flush at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _tell(RequestError("standard output", "", f"cannot be written: {error.strerror}", "make room"))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = app(
            list(arguments) if arguments is not None else None, prog_name="binhop", standalone_mode=False
        )
    except BinhopError as error:
        return _tell(error)
    except (KeyboardInterrupt, Abort):
        return _interrupted()
    except TyperException as error:
        return _usage(error)
    except BrokenPipeError:
        raise
    except SystemExit as error:  # what typer makes of a broken pipe
        raise BrokenPipeError from error
    except MemoryError:
        return _tell(RequestError("memory", "", "there is not enough of it", "run fewer seeds at once"))
    except OSError as error:
        what = error.filename or "standard output"
        return _tell(
            RequestError(str(what), "", error.strerror or str(error), "look at the file and its directory")
        )
    except BaseException as error:  # the extension's PanicException is no Exception
        return _bug(error)
    if isinstance(code, ProgramsOwn):
        return int(code)
    return _interrupted() if code == 130 else int(code or 0)


def _tell(error: BinhopError) -> int:
    print(f"binhop: {error}", file=sys.stderr)
    return error.exit_code


def _interrupted() -> int:
    print("binhop: interrupted; nothing unfinished was kept", file=sys.stderr)
    return 130


def _usage(error: TyperException) -> int:
    """A wrong command line in the house's own form: value, place, rule, remedy."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "binhop"
    if type(error).__name__ == "NoArgsIsHelpError":
        return 2  # making it has printed the help
    text = message.rstrip(".").replace("\n", " ")
    print(f"{command}: {text}; see {command} --help", file=sys.stderr)
    return 2


def _bug(error: BaseException) -> int:
    """An error of our own. The traceback is for us: it is shown when BINHOP_TRACEBACK is set."""
    if os.environ.get("BINHOP_TRACEBACK"):
        raise error
    print(
        f"binhop: {type(error).__name__}: {error}: this is an error of binhop itself; please report it, "
        "with the command and what BINHOP_TRACEBACK=1 adds to this message",
        file=sys.stderr,
    )
    return 1
