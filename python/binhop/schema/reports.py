"""The JSON of reports and lists: the output of inspect, lint and doctor, and of the commands that list."""

from __future__ import annotations

from typing import Any, Literal

from binhop.schema.json_object import JsonObject


class Totals(JsonObject):
    """The totals of a trace."""

    references: int
    """Instructions fetched plus loads, stores and modifies."""
    instructions: int
    """Instructions executed."""
    events: dict[str, int]
    """The rows of each event."""


class Work(JsonObject):
    """The counts of an address space, or of the kernel."""

    references: int
    """Instructions fetched plus loads, stores and modifies."""
    instructions: int
    """Instructions executed."""
    pages: int
    """Distinct pages touched."""
    footprint_bytes: int
    """The bytes of these pages."""


class Process(Work):
    """The counts of one address space."""

    asid: int
    """The address space's number in the trace."""
    pid: int | None
    """The process id when the trace was recorded."""
    command: str | None
    """The process's command."""


class Missing(JsonObject):
    """A fact that a trace does not hold."""

    what: str
    """The name of the fact."""
    consequence: str
    """The consequence for a simulation."""


class InspectOutput(JsonObject):
    """The output of `binhop inspect --json`."""

    name: str
    """The trace's name."""
    file: dict[str, Any] | None
    """The file's path, bytes, rows, row groups, maker, and checksums of its content."""
    totals: Totals
    """The totals of a trace."""
    content_hash: str
    """The hash of the events."""
    content: str
    """The result of comparing the content with the file's checksums."""
    page_size: int
    """The bytes of a page, as pages are counted here."""
    page_size_assumed: bool
    """True if the trace does not state its page size."""
    pages: int
    """Distinct pages touched, summed over address spaces and the kernel."""
    footprint_bytes: int
    """The bytes of these pages."""
    processes: list[Process]
    """The address spaces."""
    kernel: Work
    """The counts of the kernel."""
    switches: dict[str, int]
    """The switches, by the reason why the outgoing thread left."""
    meta: dict[str, Any]
    """The file's metadata: page size, recorder, command, processes, segments, files."""
    missing: list[Missing]
    """The facts that a simulation cannot get from this trace."""


class Example(JsonObject):
    """An event that breaks a rule."""

    row: int | None
    """The event's row, from 0; null if the whole trace is meant."""
    detail: str
    """The error at this row."""


class BrokenRule(JsonObject):
    """A rule that a trace breaks."""

    name: str
    """The rule's name."""
    severity: Literal["error", "warning"]
    """The severity of the rule."""
    meaning: str
    """The rule's requirement."""
    remedy: str
    """The remedy."""
    count: int
    """The number of events that break the rule."""
    examples: list[Example]
    """The first of these events."""


class DoctorFinding(JsonObject):
    """One finding about a requirement of binhop."""

    what: str
    """The name of the requirement."""
    works: bool
    """True if the requirement is there and works."""
    found: str
    """The state that was found."""
    remedy: str
    """The remedy; empty if the requirement works."""


class MachineRow(JsonObject):
    """A machine."""

    name: str
    """The machine's name."""
    about: str | None
    """A sentence about the machine; null for the user's own description."""
    toml: str
    """The machine's description."""


class WorkloadRow(JsonObject):
    """A built-in workload."""

    name: str
    """The workload's name."""
    about: str
    """A description of the program."""
    stands_for: str
    """The real program that the workload represents."""


class PolicyRow(JsonObject):
    """A placement policy."""

    name: str
    """The policy's name."""
    rule: str
    """The rule by which the policy chooses."""
    source: str
    """The policy's source."""
    cost: str
    """The policy's state and cost."""


class CounterRow(JsonObject):
    """A metric of a result."""

    name: str
    """The metric's name, with `<cache>` and `<kind>` to be filled in."""
    unit: str
    """The metric's unit."""
    meaning: str
    """The meaning of the metric."""


class FormatRow(JsonObject):
    """A format that import reads or export writes."""

    name: str
    """The format's name."""
    command: Literal["import", "export"]
    """The command that uses the format."""
    about: str
    """A description of the format."""
    lost: str
    """The facts that are lost or assumed."""
    extensions: str | None
    """The endings of file names, for import."""
    takes: Literal["virtual", "physical"] | None
    """The kind of addresses, for export."""
