"""The provenance of results as JSON: the inputs from which a command can be repeated."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict

from binhop.schema.json_object import JsonObject


class TraceFacts(JsonObject):
    """The identity of a trace, and how much of it was read. A mix or a part of a trace has more keys."""

    model_config = ConfigDict(extra="allow")

    name: str
    """The trace's name in results."""
    content_hash: str | None
    """The hash of the events of a trace file."""
    file: str | None = None
    """The name of the file."""
    sha256: str | None = None
    """The hash of the bytes of a foreign file."""
    workload: str | None = None
    """The built-in workload."""
    length: int | None = None
    """The number of references asked for; null for all."""
    instructions: int | None = None
    """The number of instructions asked for; null for all. For paging, the number of instructions read."""


class Provenance(JsonObject):
    """The inputs from which the command can be repeated."""

    binhop: str
    """The version of binhop."""
    traces: list[TraceFacts]
    """The traces, in order."""
    notes: list[str]
    """Notes for the reader."""


class RunProvenance(Provenance):
    """The inputs of a run."""

    machine: str
    """The machine's name."""
    seeds: list[int]
    """The numbers of the placements."""
    warmup: int
    """The references at the start that are reported apart."""
    interval: int | None
    """The instructions in an interval of the series."""
    policy: str | None
    """The name of a placement policy in Python, in place of the machine's."""
    until: dict[str, Any] | None = None
    """The goal of `--until`, and whether it was reached."""
    description: str
    """The machine, resolved, as TOML."""


class AlternativeFacts(JsonObject):
    """One alternative of a comparison."""

    name: str
    """The alternative's name in the comparison."""
    machine: str
    """The machine's name."""
    policy: str | None
    """The name of a placement policy in Python, in place of the machine's."""
    constant: bool
    """True if nothing is random in the alternative. Its one value stands for every placement."""


class CompareProvenance(Provenance):
    """The inputs of a comparison."""

    alternatives: list[AlternativeFacts]
    """The alternatives, in order."""
    compared: Literal["machines", "traces"]
    """The kind of the alternatives: machines, or traces on one machine."""
    baseline: str
    """The alternative that the others are compared with."""
    metrics: list[str]
    """The compared metrics, the most important first."""
    confidence: float
    """The confidence of the intervals."""
    seeds: list[int]
    """The numbers of the paired placements."""
    warmup: int
    """The references at the start that are reported apart."""
    until: dict[str, Any] | None = None
    """The goal of `--until`, and whether it was reached."""
    descriptions: dict[str, str]
    """Each alternative's machine, resolved, as TOML. For traces, the one machine by its name."""


class StudyProvenance(Provenance):
    """The inputs of a study."""

    study: str
    """The study's name."""
    title: str
    """The study's title."""
    scale: str | None
    """The scale, if one was chosen."""
    confidence: float
    """The confidence of the intervals."""
    axes: list[str]
    """The parameters that vary. They are keys of every row."""
    show: dict[str, list[str]] | None = None
    """The metrics that the table of each part shows, if the study names them."""
    maps: dict[str, dict[str, Any]] | None = None
    """The map of each part that has one: the parameters `x`, `y`, `panels`, `rows`; the metrics `show`."""


class PagingProvenance(Provenance):
    """The inputs of a pass over traces."""

    page: str
    """The page size."""
    sizes: list[str]
    """The memory sizes."""
    colors: list[int]
    """The numbers of colors."""
    pid_hash: bool
    """True if a page's color depends on its address space."""


class ReuseProvenance(Provenance):
    """The inputs of a measurement of reuse distances."""

    unit: str
    """The size of a line or a page."""
    kinds: Literal["all", "fetch", "data"]
    """The accesses that form the stream."""
    sizes: list[str] | None
    """The cache sizes of the curve; null for powers of two."""
    simulated: list[str]
    """The sizes of the simulated caches."""
    ways: int
    """The ways of the simulated caches."""
    seeds: list[int]
    """The placements of the simulated caches."""


class IoProvenance(Provenance):
    """The inputs of a comparison of schemes for device data."""

    device_data: Literal[True]
    """Marks a comparison of schemes."""
    machine: str
    """The machine's name."""
    schemes: list[str]
    """The schemes, the baseline first."""
    path: dict[str, int] | None
    """The counts of the path of device data, by the names that metrics.md explains; null without a path."""
    seeds: list[int]
    """The numbers of the placements."""
    confidence: float
    """The confidence of the intervals."""
    description: str
    """The machine, resolved, as TOML."""


class SwitchesProvenance(RunProvenance):
    """The inputs of a measurement of switches."""

    switches: Literal[True]
    """Marks a measurement of switches."""
    kernel: bool
    """True if the kernel referenced what the machine states."""
    confidence: float
    """The confidence of the intervals."""
    cycle_time_ns: float | None
    """The nanoseconds of a cycle, if the machine states them."""
    processes: dict[str, dict[str, str]]
    """The commands of each workload's address spaces, where the trace names them."""


class TranslateProvenance(Provenance):
    """The inputs of a measurement of translation."""

    translation: Literal[True]
    """Marks a measurement of translation."""
    designs: dict[str, str]
    """The machine of each design, in order."""
    confidence: float
    """The confidence of the intervals."""
    seeds: list[int]
    """The numbers of the placements."""
    warmup: int
    """The references at the start that are reported apart."""
    interval: int | None
    """The instructions in an interval of the series."""
    policy: str | None
    """The name of a placement policy in Python, in place of the machines'."""
    descriptions: dict[str, str]
    """Each design's machine, resolved, as TOML."""


class SurfaceProvenance(Provenance):
    """The inputs of a surface."""

    surface: Literal[True]
    """Marks a surface."""
    workload: str
    """The name of the mix."""
    quanta: list[int]
    """The quanta, in instructions."""
    confidence: float
    """The confidence of the intervals."""
    seeds: list[int]
    """The numbers of the placements."""
    warmup: int
    """The references at the start that are reported apart."""
    interval: int | None
    """The instructions in an interval of the series."""
    policy: str | None
    """The name of a placement policy in Python, in place of the machines'."""
    descriptions: dict[str, str]
    """Each machine, resolved, as TOML."""
