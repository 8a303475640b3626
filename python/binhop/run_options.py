"""States each keyword of the functions that simulate once.

A keyword is one line of a class below: its name and type, its meaning, its default and its check. From these
derive the signature and the docstring of each function that takes the keyword (`takes`), the value that the
engine gets (`checked`), the provenance, and the facts that identify a kept run. The options of the command
line stand in `binhop.cli.options`; a test compares them with the keywords.
"""

import difflib
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict, TypeVar, Unpack, get_args, get_type_hints

from binhop.arguments import seed_numbers, thread_count, whole_number
from binhop.policy import policies

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Keyword:
    """`Keyword` describes a keyword.

    Attributes:
        meaning: The text for docstrings and help.
        check: Takes the given value and the keyword's name; returns the value for the engine.
        default: The value of a keyword that is not given.
        counts: Whether counts depend on the keyword.
    """

    meaning: str
    check: Callable[[Any, str], Any]
    default: Any = None
    counts: bool = True


def _as_it_is(value: Any, _: str) -> Any:
    return value


def _seeds(seeds: Any, _: str) -> list[int] | None:
    """Checks seeds. None stays None, because the default depends on the machine."""
    return None if seeds is None else seed_numbers(seeds, random=True)


class PassOptions(TypedDict, total=False):
    """`PassOptions` are the keywords of every function that simulates. `compare` takes these."""

    length: Annotated[
        int | str | None,
        Keyword(
            'The references to simulate, as a number or as "50M"; default: the whole trace. A built-in '
            "workload needs a length, or instructions.",
            whole_number,
        ),
    ]
    instructions: Annotated[
        int | str | None,
        Keyword(
            "The instructions to simulate: the run ends before the row that would exceed them. With a length "
            "too, the run ends at whichever limit comes first.",
            whole_number,
        ),
    ]
    warmup: Annotated[
        int | str,
        Keyword("References at the start that are simulated but reported apart.", whole_number, default=0),
    ]
    threads: Annotated[
        int | None,
        Keyword(
            "The number of threads; default: all there are. No result depends on it.",
            thread_count,
            counts=False,
        ),
    ]
    progress: Annotated[
        Callable[[int, int | None], object] | None,
        Keyword(
            "A function that is called some times a second with the references done and, if known, to do.",
            _as_it_is,
            counts=False,
        ),
    ]


class PlacementOptions(PassOptions, total=False):
    """`PlacementOptions` add the policy, for functions on one machine. `placements` takes these."""

    policy: Annotated[
        Any,
        Keyword(
            "A placement policy in Python, in place of the machine's: a class with a method "
            "`choose(request, pool)` that returns a frame of the pool, made anew for each placement; a "
            "function without arguments that returns such an object anew at each call; or a plain function "
            "`choose(request, pool)` without memory. An instance and a bound method are refused: what they "
            "learn in one placement would change the next one. The policy is called only when a page is "
            "placed.",
            lambda policy, _: policies(policy),
        ),
    ]


class UntilOptions(PlacementOptions, total=False):
    """`UntilOptions` add the series, for functions that choose the seeds. `simulate_until` takes these."""

    interval: Annotated[
        int | str | None,
        Keyword("The instructions in an interval of the series; default: no series.", whole_number),
    ]


class SeedOptions(TypedDict, total=False):
    """`SeedOptions` is the keyword for the placements."""

    seeds: Annotated[
        int | Iterable[int] | None,
        Keyword(
            "The number of placements (numbered from 0), or their numbers. Default: 32, and 1 if nothing is "
            "random.",
            _seeds,
        ),
    ]


class RunOptions(SeedOptions, UntilOptions, total=False):
    """`RunOptions` are all keywords. `simulate`, `simulate_all` and `explain` take these."""


@functools.cache
def keywords(options: type) -> Mapping[str, tuple[Any, Keyword]]:
    """Returns the type and the description of each keyword of a class.

    >>> [*keywords(PlacementOptions)]
    ['length', 'instructions', 'warmup', 'threads', 'progress', 'policy']
    """
    hints = get_type_hints(options, include_extras=True)
    return {name: get_args(hint) for name, hint in hints.items()}


KEYWORDS = {name: keyword for name, (_, keyword) in keywords(RunOptions).items()}


def checked(options: RunOptions) -> dict[str, Any]:
    """Returns the value of every keyword for the engine: what is given is checked, the rest has its default.

    `seeds` may stay None, because its default depends on the machine.

    Raises:
        RequestError: A value is wrong.

    >>> checked({"length": "2k", "threads": 3})["length"], checked({})["warmup"]
    (2000, 0)
    """
    return {
        name: keyword.check(options.get(name, keyword.default), name) for name, keyword in KEYWORDS.items()
    }


def extended(options: PassOptions, **more: Unpack[RunOptions]) -> RunOptions:
    """Returns the options with other values for some keywords.

    >>> extended({"warmup": 10}, seeds=[3])
    {'warmup': 10, 'seeds': [3]}
    """
    return {**options, **more}


def takes(options: type) -> Callable[[F], F]:
    """Makes a function with `**options: Unpack[…]` look as if its signature named each keyword.

    `inspect.signature` and completion show the keywords. In the docstring, the line of `**options` is
    replaced by a description of each keyword. An unknown keyword is refused, as Python refuses it.
    """

    def give(function: F) -> F:
        known = keywords(options)
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=keyword.default, annotation=kind)
            for name, (kind, keyword) in known.items()
        ]
        shown = signature.replace(parameters=[*own, *added])

        @functools.wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            for name in given:
                if name not in shown.parameters:
                    near = difflib.get_close_matches(name, shown.parameters, n=1)
                    hint = f". Did you mean {near[0]!r}?" if near else ""
                    raise TypeError(
                        f"{function.__name__}() got an unexpected keyword argument {name!r}{hint}"
                    )
            return function(*args, **given)

        called.__signature__ = shown  # type: ignore[attr-defined]
        called.__doc__ = _described(function.__doc__, {name: keyword for name, (_, keyword) in known.items()})
        return called  # type: ignore[return-value]

    return give


def _described(text: str | None, known: dict[str, Keyword]) -> str | None:
    """Returns a docstring with the meaning of each keyword in place of the line of `**options`."""
    if text is None:  # python -OO drops docstrings
        return None
    line = next(line for line in text.splitlines() if line.lstrip().startswith("**options:"))
    indent = line[: len(line) - len(line.lstrip())]
    meanings = (_paragraph(f"{name}: {keyword.meaning}", indent) for name, keyword in known.items())
    return text.replace(line, "\n".join(meanings))


@functools.cache
def _paragraph(text: str, indent: str) -> str:
    return textwrap.fill(text, 110, initial_indent=indent, subsequent_indent=f"{indent}    ")


__all__ = ["KEYWORDS", "Keyword", "PassOptions", "PlacementOptions", "RunOptions", "UntilOptions", "checked"]
__all__ += ["extended", "keywords", "takes"]
