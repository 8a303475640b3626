"""Reads `--policy FILE.py:NAME`, a placement policy in the user's own Python file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from binhop import _binhop
from binhop.errors import BinhopError, RequestError
from binhop.policy import policies

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

OPTION = "--policy"
LIKE = "write it like --policy mine.py:MyPolicy"

Policy = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py:NAME",
        help="Place pages by a policy in Python, in place of the machine's: a function choose(request, pool) "
        "of that file, or a class with such a method.",
    ),
]


Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="FILE.py:NAME",
        help="Also compare with a placement policy in Python, which is named NAME: a function "
        "choose(request, pool) of that file, or a class with such a method. May be given several times.",
    ),
]


@dataclass(frozen=True)
class OwnPolicy:
    """`OwnPolicy` is a policy in Python: its text on the command line, its name in tables, the policy."""

    text: str
    name: str
    policy: Any


def own_policy(text: str | None) -> OwnPolicy | None:
    """Returns the checked policy of a file; None if `text` is None.

    Raises:
        RequestError: There is no such file or name, the file fails when it runs, or the named object is no
            policy.
    """
    if text is None:
        return None
    file, colon, name = text.rpartition(":")
    if not colon or not file or not name.isidentifier():
        raise RequestError(text, OPTION, "a policy is a file of Python and a name in it", LIKE)
    module = _run(Path(file), text)
    if not hasattr(module, name):
        known = [each for each, what in vars(module).items() if callable(what) and not each.startswith("_")]
        raise _binhop.unknown(name, f"{OPTION} {file}", "the file has nothing of this name", known)
    policy = getattr(module, name)
    policies(policy)
    return OwnPolicy(text, name, policy)


def _run(path: Path, text: str) -> ModuleType:
    """Runs a file as a module. As with `python FILE`, it can import files beside it. Nothing is cached."""
    try:
        source = path.read_bytes()
    except OSError as error:
        rule = f"the file cannot be read: {error.strerror}"
        raise RequestError(text, OPTION, rule, LIKE) from None
    module = ModuleType(f"binhop_policy_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(path.parent.absolute()))
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except BinhopError:
        raise
    except (Exception, SystemExit) as error:
        line = _line(error, str(path))
        rule = f"the file stops{line} with {type(error).__name__}: {error}"
        raise RequestError(text, OPTION, rule, f"mend it; python {path} shows more") from None
    return module


def _line(error: BaseException, file: str) -> str:
    """Returns the line of the file at which the error happened, as words."""
    if isinstance(error, SyntaxError):
        return f" at line {error.lineno}" if error.filename == file and error.lineno else ""
    last = None
    step: TracebackType | None = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == file:
            last = step.tb_lineno
        step = step.tb_next
    return "" if last is None else f" at line {last}"


def alone(own: OwnPolicy | None, others: Sequence[tuple[str, object]]) -> None:
    """Refuses other options that choose the placement."""
    for option, value in others:
        if own is not None and value:
            rule = f"{OPTION} says where pages go"
            raise RequestError(str(value), option, rule, "leave one of them out")
