"""The rows of results as JSON: values of metrics, figures, differences and repeated misses."""

from __future__ import annotations

from typing import Literal

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
    """`miss` if the accesses of an event walk the page table, otherwise `hit`."""
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
    """The lower end of its interval (Student's t); null for one placement, and for a share of the excess."""
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
    """The demand misses on lines for which the cache was asked before: those that are not compulsory."""
