"""The JSON that commands write, declared once: `result.schema.json` and docs/json.md are made from it.

A key that is not declared here is an error in the tests, which validate what every command writes.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class _Object(BaseModel):
    """An object with these keys and no others."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)


class Value(_Object):
    """One metric under one placement."""

    workload: str
    """The trace's name."""
    machine: str
    """The machine's name."""
    phase: Literal["measured", "warm-up"]
    """Whether it was counted after the warm-up or during it."""
    seed: int
    """The number of the placement."""
    metric: str
    """What was counted: see `binhop counters`."""
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
    """What identifies the cell's machine, workload and amount."""


class PagingValue(_Object):
    """One metric of one memory size and number of colors."""

    workload: str
    """The trace's name."""
    size: int | None
    """Bytes of memory; null where the metric does not depend on it."""
    colors: int
    """The number of colors."""
    metric: str
    """What was counted: see docs/paging.md."""
    unit: str
    """A ratio's unit has a `/` in it."""
    value: int | float | None
    """An integer for a count, a number for a ratio, null where undefined."""


class TraceFacts(_Object):
    """What identifies a trace and how much of it was read. A mix or a part of a trace has keys more."""

    model_config = ConfigDict(extra="allow")

    name: str
    """What results call it."""
    content_hash: str | None
    """Of a trace file: the hash of its events."""
    file: str | None = None
    """The name of the file."""
    sha256: str | None = None
    """Of a foreign file: the hash of its bytes."""
    workload: str | None = None
    """The built-in workload."""
    length: int | None = None
    """References that were asked for; null: all."""
    instructions: int | None = None
    """Instructions that were asked for; null: all. Of paging: those that were read."""


class Provenance(_Object):
    """What it takes to run it again."""

    binhop: str
    """The version of binhop."""
    traces: list[TraceFacts]
    """The traces, in order."""
    notes: list[str]
    """What the reader should know."""


class RunProvenance(Provenance):
    """What it takes to repeat a run."""

    machine: str
    """The machine's name."""
    seeds: list[int]
    """The placements."""
    warmup: int
    """References at the start that were reported apart."""
    interval: int | None
    """Instructions in an interval of the series."""
    policy: str | None
    """The name of a placement policy in Python, in place of the machine's."""
    until: dict[str, Any] | None = None
    """Of `--until`: the goal, and what was reached."""
    description: str
    """The machine, resolved, as TOML."""


class Alternative(_Object):
    """What is compared."""

    name: str
    """What the comparison calls it."""
    machine: str
    """The machine's name."""
    policy: str | None
    """The name of a placement policy in Python, in place of the machine's."""
    constant: bool
    """Nothing is random in it: one value stands for every placement."""


class CompareProvenance(Provenance):
    """What it takes to repeat a comparison."""

    alternatives: list[Alternative]
    """What is compared, in order."""
    compared: Literal["machines", "traces"]
    """Whether the alternatives are machines, or traces on one machine."""
    baseline: str
    """The alternative that the others are compared with."""
    metrics: list[str]
    """What is compared, the most important first."""
    confidence: float
    """Of the intervals."""
    seeds: list[int]
    """The placements that are paired."""
    warmup: int
    """References at the start that were reported apart."""
    until: dict[str, Any] | None = None
    """Of `--until`: the goal, and what was reached."""
    descriptions: dict[str, str]
    """Each alternative's machine, resolved, as TOML; of traces the one machine, by its name."""


class StudyProvenance(Provenance):
    """What it takes to repeat a study."""

    study: str
    """The study's name."""
    title: str
    """The study's title."""
    scale: str | None
    """The scale, if one was chosen."""
    confidence: float
    """Of the intervals."""
    axes: list[str]
    """The parameters that vary, which are keys of every row."""
    show: dict[str, list[str]] | None = None
    """The metrics that the table of each part shows, where the study says so."""


class PagingProvenance(Provenance):
    """What it takes to repeat a pass over traces."""

    page: str
    """The page size."""
    sizes: list[str]
    """Memory sizes."""
    colors: list[int]
    """Numbers of colors."""
    pid_hash: bool
    """Whether a page's color depends on its address space."""


class Difference(_Object):
    """What the pairs of one metric and alternative say together: see docs/compare.md."""

    workload: str
    """The trace's name; `traces` where traces are compared."""
    metric: str
    """What is compared."""
    unit: str
    """The metric's unit."""
    alternative: str
    """The alternative."""
    baseline: str
    """What it is compared with."""
    n: int
    """Pairs."""
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
    """The same with the other sign."""
    reduction_low: float | None
    """The lower end of its interval."""
    reduction_high: float | None
    """The upper end."""
    chance: float | None
    """The share of pairs in which the alternative has less, a tie as half."""
    chance_low: float | None
    """The lower end of its interval (Wilson)."""
    chance_high: float | None
    """The upper end."""
    wins: int
    """Pairs in which the alternative has less."""
    ties: int
    """Pairs in which both have the same."""
    losses: int
    """Pairs in which the alternative has more."""
    confidence: float
    """Of the intervals."""


class Conflict(_Object):
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
    """The frame it had."""
    bin: int | None
    """The bin of that frame."""
    misses: int
    """Demand misses on lines that had been in the cache before."""


class Run(_Object):
    """What `binhop run --json` writes."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[Value]
    """Every metric under every placement."""
    provenance: RunProvenance
    """What it takes to run it again."""
    conflicts: list[Conflict] | None = None
    """With `--top-conflicts`."""


class Compare(_Object):
    """What `binhop compare --json` writes."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[ComparedValue]
    """Every metric of every alternative under every placement."""
    summary: list[Difference]
    """The differences, metric by metric and alternative by alternative."""
    provenance: CompareProvenance
    """What it takes to run it again."""


class Sweep(_Object):
    """What `binhop sweep --json` writes."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[StudyValue]
    """Every metric of every cell under every placement."""
    provenance: StudyProvenance
    """What it takes to run it again."""


class Paging(_Object):
    """What `binhop paging --json` writes."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[PagingValue]
    """Every metric of every memory size and number of colors."""
    provenance: PagingProvenance
    """What it takes to run it again."""


class Totals(_Object):
    """How much there is of everything."""

    references: int
    """Instructions fetched plus loads, stores and modifies."""
    instructions: int
    """Instructions executed."""
    events: dict[str, int]
    """Rows of each event."""


class Work(_Object):
    """What somebody did."""

    references: int
    """Instructions fetched plus loads, stores and modifies."""
    instructions: int
    """Instructions executed."""
    pages: int
    """Distinct pages touched."""
    footprint_bytes: int
    """The same in bytes."""


class Process(Work):
    """What one address space did."""

    asid: int
    """Its number in the trace."""
    pid: int | None
    """Process id when it was recorded."""
    command: str | None
    """Its command."""


class Missing(_Object):
    """What a trace does not hold."""

    what: str
    """What."""
    consequence: str
    """What follows for a simulation."""


class Inspect(_Object):
    """What `binhop inspect --json` writes."""

    name: str
    """What the trace calls itself."""
    file: dict[str, Any] | None
    """The file's path, bytes, rows, row groups, maker, and what it promises of its content."""
    totals: Totals
    """How much there is of everything."""
    content_hash: str
    """The hash of the events."""
    content: str
    """Whether the content is what the file promises."""
    page_size: int
    """Bytes of a page, as pages are counted here."""
    page_size_assumed: bool
    """The trace does not say its page size."""
    pages: int
    """Distinct pages touched, summed over address spaces and the kernel."""
    footprint_bytes: int
    """The same in bytes."""
    processes: list[Process]
    """Each address space."""
    kernel: Work
    """What the kernel did."""
    switches: dict[str, int]
    """Switches, by why the outgoing thread left."""
    meta: dict[str, Any]
    """What the file says of itself: page size, recorder, command, processes, segments, files."""
    missing: list[Missing]
    """What a simulation cannot get from this trace."""


class Example(_Object):
    """An event that breaks a rule."""

    row: int | None
    """Its row, from 0; null where the whole trace is meant."""
    detail: str
    """What is wrong there."""


class Broken(_Object):
    """A rule that a trace breaks."""

    name: str
    """The rule's name."""
    severity: Literal["error", "warning"]
    """How bad it is."""
    meaning: str
    """What the rule asks."""
    remedy: str
    """What to do."""
    count: int
    """How many events break it."""
    examples: list[Example]
    """The first of them."""


class Finding(_Object):
    """One thing that binhop may need."""

    what: str
    """What it is."""
    works: bool
    """Whether it is there and works."""
    found: str
    """What was found."""
    remedy: str
    """What to do where it does not work; empty where it does."""


class Machine(_Object):
    """A machine."""

    name: str
    """Its name."""
    about: str | None
    """What it is; null for a description of the user's own."""
    toml: str
    """Its description."""


class Workload(_Object):
    """A built-in workload."""

    name: str
    """Its name."""
    about: str
    """What it does."""
    stands_for: str
    """What it stands for."""


class Policy(_Object):
    """A placement policy."""

    name: str
    """Its name."""
    rule: str
    """How it chooses."""
    source: str
    """Where it comes from."""
    cost: str
    """What it remembers and costs."""


class Counter(_Object):
    """A metric of a result."""

    name: str
    """Its name, with `<cache>` and `<kind>` to be filled in."""
    unit: str
    """Its unit."""
    meaning: str
    """What it counts."""


class Format(_Object):
    """A format that import reads or export writes."""

    name: str
    """Its name."""
    command: Literal["import", "export"]
    """What it is for."""
    about: str
    """What it is."""
    lost: str
    """What is lost or assumed."""
    extensions: str | None
    """Of import: endings of file names."""
    takes: Literal["virtual", "physical"] | None
    """Of export: whose addresses it takes."""


OUTPUTS: dict[str, Any] = {
    "run": Run,
    "compare": Compare,
    "sweep": Sweep,
    "paging": Paging,
    "inspect": Inspect,
    "lint": list[Broken],
    "doctor": list[Finding],
    "machines": list[Machine],
    "workloads": list[Workload],
    "policies": list[Policy],
    "counters": list[Counter],
    "formats": list[Format],
}
"""What each command writes with `--json`."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of all outputs: `#/$defs/run` is what `binhop run --json` writes, and so on.

    >>> sorted(json_schema()["$defs"]["run"])
    ['$ref']
    """
    adapters = [(name, TypeAdapter(made)) for name, made in OUTPUTS.items()]
    schemas, shared = TypeAdapter.json_schemas(
        [(name, "validation", adapter) for name, adapter in adapters], ref_template="#/$defs/{model}"
    )
    of = {name: schemas[(name, "validation")] for name, _ in adapters}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What binhop writes with --json",
        "description": "The output of a command is described by the definition of the command's name.",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in of],
        "$defs": {**of, **shared["$defs"]},
    }
