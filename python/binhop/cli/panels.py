"""Defines the kinds of commands: how their words are read, and how their help groups the options.

Typer imports Pydantic to convert a word, and imports parts of Rich that binhop's help does not use. Both take
longer than a short run, so the classes here do without them.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OUTPUT = "Output"
OTHER = "Other options"
"""The group of an option that no other group names."""

SIMULATION: Mapping[str, tuple[str, ...]] = {
    "What to simulate": (
        "--machine",
        "--schemes",
        "--dram",
        "--path",
        "--scale",
        "--set",
        "--length",
        "--warmup",
        "--interval",
        "--explain",
    ),
    "How traces are mixed": (
        "--mix",
        "--quantum",
        "--order",
        "--latency",
        "--faults",
        "--fault-latency",
        "--until-first",
        "--repeat",
    ),
    "Placements": ("--seeds", "--seed", "--until", "--metric", "--baseline", "--policy", "--v2p"),
    "A look at one placement": ("--top-conflicts", "--cache", "--dump-placement"),
    OUTPUT: ("--confidence", "--table", "--segments", "--json", "--out", "--quiet"),
}
RECORDING: Mapping[str, tuple[str, ...]] = {
    "What to record": ("--limit", "--skip", "--only", "--fetch", "--lackey"),
    "The order between processes": ("--schedule", "--seed", "--observe"),
    OUTPUT: ("--output", "--quiet"),
}


UNUSED: Mapping[str, tuple[str, Any]] = {
    "rich._emoji_codes": ("EMOJI", {}),
    "rich.markdown": ("Markdown", type("Markdown", (), {})),
    "rich.traceback": ("Traceback", type("Traceback", (), {})),
}
"""Typer's help imports these modules, and no help of binhop uses them. Each has a name that Typer takes from
it, and an object that stands for it."""


@contextmanager
def _without_unused_modules() -> Iterator[None]:
    """Puts empty modules in place of the modules of `UNUSED`."""
    replaced = [name for name in UNUSED if name not in sys.modules]
    for name in replaced:
        sys.modules[name] = ModuleType(name)
        setattr(sys.modules[name], *UNUSED[name])
    try:
        if "typer.rich_utils" not in sys.modules:
            import_module("typer.rich_utils")
        yield
    finally:
        for name in replaced:
            del sys.modules[name]


class _Words:
    """`_Words` converts the words of a parameter that takes text: they stay as they are.

    Typer converts the words of every other parameter, with Pydantic.
    """

    def __init__(self, parameter: Any) -> None:
        self._kind = parameter.type_descriptor.annotation
        self._other = parameter.get_runtime_param

    def itself(self) -> _Words:
        """Returns the converter, in place of the parameter's method that makes Typer's converter."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the value of a parameter, as Typer's converter of the same name does."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        if type(value) is self._kind:
            return value
        if several and self._kind == list[str] and all(type(word) is str for word in value):
            return [*value]
        return self._other().coerce(value, param=param, ctx=ctx)


def _fitted(parameters: list[Any]) -> list[Any]:
    """Makes the parameters convert words of text themselves, and say in the help what they take.

    Typer's help shows types of Python. Here an option that takes text shows its own name in their place, as
    in `--seeds SEEDS`. Flags and arguments show nothing.
    """
    for parameter in parameters:
        if "get_runtime_param" in vars(parameter):
            continue
        vars(parameter)["get_runtime_param"] = _Words(parameter).itself
        if isinstance(parameter, TyperArgument):
            vars(parameter)["display_type_rich"] = lambda ctx: None
            vars(parameter)["get_usage_pieces"] = partial(_in_usage, parameter)
        elif parameter.is_flag:
            vars(parameter)["display_type_rich"] = lambda ctx: None
        elif parameter.metavar is None and parameter.type_descriptor.annotation in (str, float, list[str]):
            parameter.metavar = max(parameter.opts, key=len).lstrip("-").upper()
    return parameters


def _in_usage(argument: TyperArgument, ctx: object) -> list[str]:
    """Returns how the line of usage names an argument."""
    name = argument.metavar or argument.opts[0].upper()
    return [name if argument.required else f"[{name}]"]


class PlainCommand(TyperCommand):
    """`PlainCommand` is a command whose options are not grouped in its help."""

    def get_params(self, *arguments: Any, **options: Any) -> list[Any]:
        """Returns the parameters."""
        return _fitted(super().get_params(*arguments, **options))

    def format_help(self, *arguments: Any, **options: Any) -> None:
        """Prints the help."""
        with _without_unused_modules():
            super().format_help(*arguments, **options)


class Group(TyperGroup):
    """`Group` is a command that consists of commands."""

    command_class = PlainCommand

    def get_params(self, *arguments: Any, **options: Any) -> list[Any]:
        """Returns the parameters."""
        return _fitted(super().get_params(*arguments, **options))

    def format_help(self, *arguments: Any, **options: Any) -> None:
        """Prints the help."""
        with _without_unused_modules():
            super().format_help(*arguments, **options)


class _Grouped(PlainCommand):
    """`_Grouped` is a command whose options are grouped in its help."""

    panels: Mapping[str, tuple[str, ...]]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for parameter in self.params:
            self._place(parameter)
        order = [*self.panels, OTHER]
        self.params.sort(
            key=lambda each: (
                -1 if isinstance(each, TyperArgument) else order.index(each.rich_help_panel)  # type: ignore[attr-defined]
            )
        )

    def get_help_option(self, *arguments: Any, **options: Any) -> Any:
        made = super().get_help_option(*arguments, **options)
        self._place(made)
        return made

    def _place(self, parameter: Any) -> None:
        if not isinstance(parameter, TyperArgument) and parameter is not None:
            named = (panel for panel, names in self.panels.items() if {*names} & {*parameter.opts})
            parameter.rich_help_panel = next(named, OTHER)


class SimulationCommand(_Grouped):
    """`SimulationCommand` groups the options of a command that simulates."""

    panels = SIMULATION


class RecordingCommand(_Grouped):
    """`RecordingCommand` groups the options of a command that records."""

    panels = RECORDING
