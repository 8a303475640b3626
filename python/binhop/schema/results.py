"""The JSON of simulations: the output of commands that simulate, and the objects in it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from binhop.schema.json_object import JsonObject


class Value(JsonObject):
    """One metric under one placement."""

    workload: str
    """The trace's name."""
    machine: str
    """The machine's name."""
    phase: Literal["measured", "warm-up"]
    """The phase of the run: after the warm-up, or during it."""
    seed: int
    """The number of the placement."""
    metric: str
    """The name of the metric: see `binhop counters`."""
    unit: str
    """A ratio's unit has a `/` in it."""
    value: int | float | None
    """An integer for a count, a number for a ratio, null where undefined."""


class ComparedValue(Value):
    """One metric of one alternative under one placement."""

    alternative: str
    """The alternative's name."""


class StudyValue(Value):
    """One metric of one cell under one placement. Each axis is a key: its value as text, or null."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str | None] = Field(init=False)

    study: str
    """The study's name."""
    part: str
    """The part's name."""
    cell: str
    """The identifier of the cell's machine, workload and amount."""


class PagingValue(JsonObject):
    """One metric of one memory size and number of colors."""

    workload: str
    """The trace's name."""
    size: int | None
    """Bytes of memory; null where the metric does not depend on it."""
    colors: int
    """The number of colors."""
    metric: str
    """The name of the metric: see docs/paging.md."""
    unit: str
    """A ratio's unit has a `/` in it."""
    value: int | float | None
    """An integer for a count, a number for a ratio, null where undefined."""


class ReuseValue(JsonObject):
    """One metric of one cache size."""

    workload: str
    """The trace's name."""
    size: int
    """The bytes of the cache."""
    ways: int | None
    """The ways of a simulated cache; null for a fully associative cache."""
    metric: str
    """The name of the metric: see docs/reuse.md."""
    unit: str
    """A ratio's unit has a `/` in it."""
    value: int | float | None
    """An integer for a count, a number for a ratio, null where undefined."""


class ReuseClass(JsonObject):
    """The accesses of a process or segment at distances of one class."""

    workload: str
    """The trace's name."""
    group: Literal["process", "segment"]
    """The kind of the group."""
    name: str
    """The address space number, or the segment's name."""
    kind: Literal["fetch", "load", "store"]
    """The kind of the accesses."""
    distance: int | None
    """The least distance of the class; the class of d > 0 ends before 2d. Null for first accesses."""
    accesses: int
    """The number of accesses."""


class IoValue(JsonObject):
    """One count of a scheme for device data, or of what the front lets through, under one placement."""

    workload: str
    """The trace's name."""
    machine: str
    """The machine's name."""
    scheme: str | None
    """The scheme; null for what the front lets through."""
    seed: int
    """The number of the placement."""
    metric: str
    """The name of the metric: see docs/io.md."""
    unit: str
    """The unit of the count."""
    value: int
    """The count."""


class IoFigure(JsonObject):
    """One figure of device data, with its interval over placements."""

    workload: str
    """The trace's name."""
    machine: str
    """The machine's name."""
    scheme: str | None
    """The scheme; null for what the front lets through."""
    figure: str
    """The name of the figure: see docs/io.md."""
    of: str | None
    """The class, request kind or fate that the figure is of; null for the whole."""
    unit: str
    """A ratio's unit has a `/` in it."""
    n: int
    """The number of placements with a value."""
    mean: float | None
    """The mean over placements; this and the following are null where undefined."""
    low: float | None
    """The lower end of the interval of the mean; null for a single placement."""
    high: float | None
    """The upper end of the interval of the mean."""
    confidence: float
    """The confidence of the interval."""
    min: float | None
    """The smallest value."""
    q05: float | None
    """The quantile 0.05."""
    q25: float | None
    """The quantile 0.25."""
    median: float | None
    """The median."""
    q75: float | None
    """The quantile 0.75."""
    q95: float | None
    """The quantile 0.95."""
    max: float | None
    """The largest value."""
    best_seed: int | None
    """The placement with the smallest value."""
    worst_seed: int | None
    """The placement with the largest value."""


class IoSize(JsonObject):
    """The requests of a device in one direction, of one class of sizes."""

    workload: str
    """The trace's name."""
    seed: int
    """The number of the placement."""
    device: str
    """The device's name."""
    direction: Literal["read", "write"]
    """The direction: the device reads or writes memory."""
    size: int
    """The least bytes of the class; the class of n ends before 2n."""
    requests: int
    """The number of requests."""


class IoDistance(JsonObject):
    """The references of a flow of data at distances of one class."""

    workload: str
    """The trace's name."""
    seed: int
    """The number of the placement."""
    stream: Literal["together", "separated"]
    """The stream of references in which distances are counted."""
    flow: Literal["dpcc", "cpdc", "cpu", "device"]
    """The producer and the consumer of the data."""
    device: str | None
    """The device that produced or consumed the data; null for the processor's own data."""
    distance: int | None
    """The least distance of the class; the class of d > 0 ends before 2d. Null for first references."""
    references: int
    """The number of references."""


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


class SurfaceFigure(JsonObject):
    """A `SurfaceFigure` says what a switch costs for a quantum on a machine, as a mean over placements."""

    quantum: int
    """The quantum, in instructions."""
    machine: str
    """The machine's name, with the settings in which it differs."""
    switches: int
    """The switches."""
    metric: Literal["exact", "returning", "document", "overhead", "overhead_returning", "overhead_document"]
    """The figure: see docs/switches.md."""
    n: int
    """The number of placements in which the figure is defined."""
    mean: float | None
    """The mean."""
    low: float | None
    """The lower end of its interval (Student's t); null for one placement."""
    high: float | None
    """The upper end."""


class TranslationFigure(JsonObject):
    """One figure of translation, as a mean over placements."""

    workload: str
    """The trace's name."""
    design: str
    """The design's name."""
    group: Literal["all", "tlb", "cause", "event", "cache"]
    """The kind of the row: the whole design, or one TLB, cause of overhead, event or cache."""
    name: str | None
    """The TLB, the cause, the level that serves the event's accesses, or the cache."""
    side: Literal["fetch", "data"] | None
    """The side of an event."""
    tlb: Literal["hit", "miss"] | None
    """Whether the accesses of an event walk the page table: `miss`."""
    metric: str
    """The name of the figure: see docs/translation.md."""
    unit: str
    """A ratio's unit has a `/` in it."""
    n: int
    """The number of placements in which the figure is defined."""
    mean: float | None
    """The mean."""
    low: float | None
    """The lower end of its interval (Student's t); null for one placement."""
    high: float | None
    """The upper end."""
    confidence: float
    """The confidence of the interval."""
    min: float | None
    """The smallest value."""
    max: float | None
    """The largest value."""


class SwitchFigure(JsonObject):
    """One figure of switches, as a mean over placements."""

    workload: str
    """The trace's name."""
    machine: str
    """The machine's name."""
    group: Literal["all", "cause", "call", "process", "level", "cache"]
    """The kind of the row: all switches, or one cause, system call, process, level or cache."""
    cause: str | None
    """The reason why the process had left the processor before."""
    syscall: int | None
    """The number of the system call."""
    asid: int | None
    """The address space."""
    life: int | None
    """The life of the address space's number."""
    level: str | None
    """The cache, `memory`, `write-buffer` or `kernel`."""
    kind: Literal["fetch", "data"] | None
    """The kind of accesses that the level served."""
    metric: str
    """The name of the figure: see docs/switches.md."""
    unit: str
    """A ratio's unit has a `/` in it."""
    n: int
    """The number of placements in which the figure is defined."""
    mean: float | None
    """The mean."""
    low: float | None
    """The lower end of its interval (Student's t); null for one placement."""
    high: float | None
    """The upper end."""
    confidence: float
    """The confidence of the interval."""


class SwitchCurvePoint(JsonObject):
    """The mean of the segments that have an interval after a switch."""

    workload: str
    """The trace's name."""
    machine: str
    """The machine's name."""
    cause: str | None
    """The cause of the segments; null for all of them."""
    since: int
    """The instructions from the switch to the end of the interval."""
    alive: float | None
    """The share of the segments that are alive at the end of the interval."""
    cpi_shared: float | None
    """Cycles per instruction in the shared caches."""
    cpi_private: float | None
    """Cycles per instruction in the private caches."""
    excess: float | None
    """The difference of both."""
    cumulative: float | None
    """The excess cycles from the switch to the end of the interval."""
    low: float | None
    """The lower end of the interval of the excess."""
    high: float | None
    """The upper end."""


class SwitchPage(JsonObject):
    """The excess of one page of code in the first 10,000 instructions after a switch."""

    workload: str
    """The trace's name."""
    machine: str
    """The machine's name."""
    segment: str
    """The segment in memory that the page belongs to."""
    asid: int | None
    """An address space that maps the page."""
    page: int
    """The virtual address of the page."""
    cause: str
    """The cause of the segments that executed the page."""
    fetches: float
    """The lines fetched from the page: the mean over placements."""
    excess: float
    """The excess cycles while the page executed: the mean over placements."""
    share: float | None
    """The share of the excess of all pages."""


class Difference(JsonObject):
    """The differences of one metric and alternative over all pairs: see docs/compare.md."""

    workload: str
    """The trace's name; `traces` if traces are compared."""
    metric: str
    """The compared metric."""
    unit: str
    """The metric's unit."""
    alternative: str
    """The alternative."""
    baseline: str
    """The alternative that it is compared with."""
    n: int
    """The number of pairs."""
    mean: float | None
    """The alternative's mean."""
    baseline_mean: float | None
    """The baseline's mean."""
    difference: float | None
    """The mean of the differences, seed by seed."""
    low: float | None
    """The lower end of its interval (Student's t)."""
    high: float | None
    """The upper end."""
    median: float | None
    """The median of the differences."""
    relative: float | None
    """The difference over the baseline's mean."""
    reduction: float | None
    """The relative difference with the opposite sign."""
    reduction_low: float | None
    """The lower end of its interval."""
    reduction_high: float | None
    """The upper end."""
    chance: float | None
    """The share of pairs in which the alternative has less. A tie counts as half."""
    chance_low: float | None
    """The lower end of its interval (Wilson)."""
    chance_high: float | None
    """The upper end."""
    wins: int
    """The number of pairs in which the alternative has less."""
    ties: int
    """The number of pairs in which both have the same."""
    losses: int
    """The number of pairs in which the alternative has more."""
    confidence: float
    """The confidence of the intervals."""


class Conflict(JsonObject):
    """Repeated misses on the lines of one page under one placement (`--top-conflicts`)."""

    workload: str
    """The trace's name."""
    seed: int
    """The number of the placement."""
    page: int
    """The page, numbered by its first placement."""
    asid: int
    """The address space."""
    page_no: int
    """The virtual page number."""
    segment: str
    """The segment."""
    frame: int | None
    """The page's frame."""
    bin: int | None
    """The frame's bin."""
    misses: int
    """The demand misses on lines that had been in the cache before."""


class RunOutput(JsonObject):
    """The output of `binhop run --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[Value]
    """Every metric under every placement."""
    provenance: RunProvenance
    """The inputs from which the command can be repeated."""
    conflicts: list[Conflict] | None = None
    """The pages with most conflicts, with `--top-conflicts`."""


class CompareOutput(JsonObject):
    """The output of `binhop compare --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[ComparedValue]
    """Every metric of every alternative under every placement."""
    summary: list[Difference]
    """The differences, metric by metric and alternative by alternative."""
    provenance: CompareProvenance
    """The inputs from which the command can be repeated."""


class SweepOutput(JsonObject):
    """The output of `binhop sweep --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[StudyValue]
    """Every metric of every cell under every placement."""
    provenance: StudyProvenance
    """The inputs from which the command can be repeated."""


class SwitchesOutput(JsonObject):
    """The output of `binhop switches --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[SwitchFigure]
    """Every figure, with its interval."""
    curves: list[SwitchCurvePoint]
    """The curves after a switch, by cause and over all causes."""
    pages: list[SwitchPage]
    """The pages of code with the most excess."""
    provenance: SwitchesProvenance
    """The inputs from which the command can be repeated."""


class SurfaceOutput(JsonObject):
    """The output of `binhop surface --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[SurfaceFigure]
    """Every figure, with its interval."""
    provenance: SurfaceProvenance
    """The inputs from which the command can be repeated."""


class TranslateOutput(JsonObject):
    """The output of `binhop translate --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[TranslationFigure]
    """Every figure, with its interval."""
    provenance: TranslateProvenance
    """The inputs from which the command can be repeated."""


class ReuseOutput(JsonObject):
    """The output of `binhop reuse --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[ReuseValue]
    """Every metric of every cache size."""
    distances: list[ReuseClass]
    """The accesses of processes and segments by distance."""
    provenance: ReuseProvenance
    """The inputs from which the command can be repeated."""


class IoOutput(JsonObject):
    """The output of `binhop io --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[IoValue]
    """Every count of every scheme."""
    figures: list[IoFigure]
    """Every figure, with its interval."""
    sizes: list[IoSize]
    """The requests by size."""
    distances: list[IoDistance]
    """The references by reuse distance."""
    provenance: IoProvenance
    """The inputs from which the command can be repeated."""


class PagingOutput(JsonObject):
    """The output of `binhop paging --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[PagingValue]
    """Every metric of every memory size and number of colors."""
    provenance: PagingProvenance
    """The inputs from which the command can be repeated."""
