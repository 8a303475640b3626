"""Groups the options in the help of commands that have many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperArgument, TyperCommand

if TYPE_CHECKING:
    from collections.abc import Mapping

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


class _Grouped(TyperCommand):
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
