"""The compiled part of binhop. Users need `Machine`, `Request` and `Pool`; `binhop` covers the rest."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from binhop.errors import RequestError

__all__ = [
    "MOST_SEEDS",
    "TRIAL_SWITCHES",
    "DeviceDataOutcome",
    "LongTable",
    "Machine",
    "Outcome",
    "PagingOutcome",
    "Pool",
    "Request",
    "ReuseOutcome",
    "ServedRequests",
    "Stream",
    "Summary",
    "Table",
    "TableBatches",
    "Trial",
    "__version__",
    "calibration_targets",
    "counters",
    "device_data",
    "device_data_metrics",
    "dram_presets",
    "event_lines",
    "events",
    "explain",
    "export_memory",
    "exporters",
    "format_of_path",
    "formats",
    "inspect",
    "kinds",
    "lint",
    "lint_rules",
    "machine_keys",
    "machines",
    "made_by",
    "map_flags",
    "measure_trial",
    "mix",
    "observe",
    "packings",
    "paging",
    "path_counts",
    "policies",
    "read_text",
    "record",
    "refused_schemes",
    "reuse",
    "schemes",
    "schemes_for",
    "serve_requests",
    "simulate",
    "steering_characters",
    "stored_batches",
    "summarise",
    "tracing_refused",
    "trial_targets",
    "unknown",
    "workloads",
    "write_tables",
]

MOST_SEEDS: int
TRIAL_SWITCHES: int
__version__: str

@final
class Machine:
    """A machine: memory, placement, caches, costs. Checked when it is made; it never changes."""

    @staticmethod
    def load(name_or_path: str, settings: list[str] = ...) -> Machine:
        """A bundled machine by name, or a TOML file by its path.

        `settings` change keys, as in `["cache.l2.size=4MiB"]`.
        """
    @staticmethod
    def parse(toml: str, place: str = "machine", settings: list[str] = ...) -> Machine:
        """A machine from TOML text; `place` is what errors call the text."""
    def with_settings(self, *settings: str) -> Machine:
        """The same machine with other settings."""
    @property
    def name(self) -> str:
        """What results call it."""
    @property
    def notes(self) -> list[str]:
        """What the reader should know, such as keys that the chosen policy does not use."""
    @property
    def is_random(self) -> bool:
        """Whether the seed changes anything."""
    @property
    def caches(self) -> list[str]:
        """The caches, in the order of the description."""
    @property
    def last_level(self) -> str:
        """The last cache before memory; the largest, where several are."""
    @property
    def placement_file(self) -> str | None:
        """The file of the placement that the machine repeats; None if it repeats none."""
    def shares_front(self, other: Machine) -> bool:
        """Returns whether a scheme of the other machine can stand behind the front of this machine."""
    def resolved(self) -> str:
        """The complete description as TOML, defaults filled in."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...

@final
class Request:
    """The page to place."""

    @property
    def page(self) -> int:
        """A number that stands for this page, whatever address it has."""
    @property
    def asid(self) -> int:
        """The address space that faults: its touch brings the page in, the first time or when it returns."""
    @property
    def page_no(self) -> int:
        """Its virtual page number there."""
    @property
    def segment(self) -> int:
        """The segment it lies in: what it shares with other pages of one mapping."""
    @property
    def segments(self) -> list[int]:
        """All segments its address space can have pages in, in increasing order."""
    @property
    def ordinal(self) -> int:
        """How many pages were placed before it."""
    def draw(self, n: int, sub: int = 0) -> int:
        """A random number from 0 to n-1: the same for the same seed, ordinal and `sub`."""

@final
class Pool:
    """The frames to choose from, least recently used first. It is of use during the call only."""

    def __len__(self, /) -> int: ...
    def __getitem__(self, rank: int, /) -> int:
        """The frame of this rank; 0 is the least recently used."""
    def holds(self, rank: int) -> int | None:
        """The page that the frame of this rank still holds; None if it is free."""
    def frames(self) -> list[int]:
        """Every frame, least recently used first."""

@final
class Table:
    """`Table` is a table that anything which reads Arrow takes without a copy."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the table as an Arrow C stream."""

    @staticmethod
    def join(first: Table, others: list[Table]) -> Table:
        """Joins tables of one kind, one below the other, without a copy of their rows.

        Raises:
            TypeError: A table has other columns.
        """

    def columns(self) -> dict[str, list[Any]]:
        """Returns the columns by name. Only the types of a table of results are taken: texts, `u64`, `f64`.

        Raises:
            TypeError: A column has another type.
        """

@final
class Summary:
    """`Summary` holds the statistics of some values."""

    n: int
    """The number of values that are defined."""
    mean: float | None
    """The mean; None without values."""
    deviation: float | None
    """The standard deviation of a sample; None for fewer than two values."""
    min: float | None
    """The least value."""
    max: float | None
    """The greatest value."""
    least: int
    """The place of the first of the least values. It is 0 if no value is defined."""
    greatest: int
    """The place of the first of the greatest values. It is 0 if no value is defined."""
    quantiles: list[float | None]
    """The quantiles of the shares that were asked for."""

def summarise(values: Sequence[float | None], shares: Sequence[float]) -> Summary:
    """Summarises the values, with the quantiles of these shares. Undefined values do not count."""

def write_tables(tables: Iterable[object], path: str | os.PathLike[str]) -> None:
    """Writes tables that speak Arrow, one below the other, to a Parquet file.

    The bytes are those of a `LongTable` of the same rows, the columns those of the first table. Each table
    is taken when the one before it is written. The interpreter is free meanwhile, and a signal ends the work.

    Raises:
        OSError: The file cannot be written.
    """

def stored_batches(path: str | os.PathLike[str]) -> TableBatches:
    """Returns the pieces of a table in a Parquet file that `write_tables` or a `LongTable` wrote.

    Raises:
        RequestError: The file cannot be read.
    """

@final
class TableBatches:
    """`TableBatches` yields a table that may be longer than memory holds, some thousands of rows at a time.

    There is at least one piece, which may be empty.
    """

    def __iter__(self) -> TableBatches: ...
    def __next__(self) -> Table: ...

@final
class LongTable:
    """`LongTable` is a table whose rows are made as they are read, by whatever reads Arrow streams.

    It takes little memory however long it is, and as much disk as it needs in the directory for temporary
    files.
    """

    @staticmethod
    def join(first: LongTable, others: list[LongTable]) -> LongTable:
        """Joins tables of one kind, one below the other."""
    def batches(self) -> TableBatches:
        """Returns the table in pieces, in order."""
    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes the table to a Parquet file, some thousands of rows at a time.

        The interpreter is free meanwhile, and a signal ends the work.

        Raises:
            OSError: The file cannot be written.
        """
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the table as an Arrow C stream."""

@final
class Stream:
    """`Stream` is a stream of events, which one reader reads once."""

    @staticmethod
    def file(path: str) -> Stream:
        """Opens a trace file of binhop's own schema."""
    @staticmethod
    def foreign(path: str, format: str | None = None) -> Stream:
        """Opens a foreign trace. Without a format, the name tells it; "-" is the standard input."""
    @staticmethod
    def workload(name: str, seed: int) -> Stream:
        """Starts a built-in workload, which never ends."""
    @staticmethod
    def arrow(object: object, name: str) -> Stream:
        """Takes any object with `__arrow_c_stream__`."""
    @property
    def name(self) -> str:
        """The name in errors."""
    def meta(self) -> str:
        """Returns the metadata of the whole as JSON, which is empty once the stream is given away."""
    @property
    def identity(self) -> str | None:
        """Returns the identity shared by streams of equal events; None for a pipe, a workload, a table."""
    @property
    def content_hash(self) -> str | None:
        """The hash over the decoded columns that the file carries; None if it carries none."""
    @property
    def references(self) -> int | None:
        """The references that the file says it holds; None if nothing says so."""
    def next_batch(self) -> Table | None:
        """Returns the next events, or None at the end."""
    def write(
        self,
        path: str,
        length: int | None = None,
        threads: int = 1,
        progress: Callable[[int, int | None], object] | None = None,
        placement: str | None = None,
        made_by: str | None = None,
    ) -> tuple[str, list[str]]:
        """Writes the events (at most `length` references) into a trace file, complete or not at all."""
    def first_rows(self, rows: int) -> Stream:
        """Returns a stream of the first rows, of any kind."""
    def first_references(self, references: int) -> Stream:
        """Returns a stream of the first references, as a length keeps them."""
    def slice(self, start: int, stop: int | None = None) -> Stream:
        """Returns a stream of the references from `start` up to `stop` (None: the end), and their state."""
    def sample(self, every: int, window: int, seed: int | None = None) -> Stream:
        """Returns a stream of one window in every span of references, and the state that it finds."""
    def select(self, selection: str) -> Stream:
        """Returns a stream of the rows that pass a selection, which is JSON, and the state that they find."""
    @staticmethod
    def joined(streams: Sequence[Stream]) -> Stream:
        """Joins streams one after the other."""
    def print(self, json: bool, meta: bool) -> None:
        """Writes the events to the standard output, a line each: text, or JSON."""
    def export(
        self,
        path: str,
        to: str,
        length: int | None = None,
        progress: Callable[[int, int | None], object] | None = None,
    ) -> str:
        """Exports events (at most `length` references); returns the counts of the export as JSON."""

def read_text(path: str, what: str, remedy: str) -> str:
    """Reads a text that a person wrote, of bounded length. A signal ends the wait for it."""

def mix(
    inputs: list[tuple[str, Callable[[], Stream], int | None]],
    *,
    quantum: tuple[int, str],
    order: str,
    latency: int | None,
    faults: str,
    fault_latency: int | None,
    ends: str,
) -> Stream:
    """Mixes streams. An input is its name, what opens it, and the references to read of it."""

@final
class Outcome:
    """`Outcome` holds the tables of a run."""

    @property
    def results(self) -> Table:
        """The tidy table."""
    @property
    def series(self) -> LongTable:
        """The table per interval."""
    @property
    def processes(self) -> LongTable:
        """The table per process."""
    @property
    def placements(self) -> Table | None:
        """Every placement, if it was asked for."""
    @property
    def pages(self) -> Table | None:
        """The repeated misses by page, if they were asked for."""
    @property
    def switch_costs(self) -> Table | None:
        """What switches cost, by life and cause, if it was asked for."""
    @property
    def switch_curves(self) -> Table | None:
        """The cycles by interval since the switch, if they were asked for."""
    @property
    def switch_pages(self) -> Table | None:
        """The cycles by page of code after switches, if they were asked for."""
    @property
    def switch_commands(self) -> dict[int, str]:
        """The command of each address space, if the costs of switches were asked for."""
    @property
    def segments(self) -> LongTable | None:
        """Every interval after every switch, if they were asked for."""
    @property
    def notes(self) -> list[str]:
        """The notes for the reader."""
    @property
    def machine(self) -> str:
        """The machine, resolved, as TOML."""

def explain(
    machines: list[Machine],
    *,
    names: list[str],
    seeds: list[int],
    threads: int,
    length: int | None,
    instructions: int | None,
    warmup: int,
    interval: int | None,
    switches: bool = False,
    policy: str | None = None,
    steered: bool = False,
    cycles_of_quantum: int | None = None,
) -> list[str]:
    """Returns the plan of a run that `simulate` makes of the same arguments: a line for each fact.

    `names`: the machines' names for the reader. `policy`: the name of a policy in Python.

    Raises:
        RequestError: The request is wrong, as for `simulate`.
    """

def simulate(
    machines: list[Machine],
    stream: Stream,
    *,
    workload: str,
    seeds: list[int],
    threads: int,
    length: int | None,
    instructions: int | None,
    warmup: int,
    interval: int | None,
    log: bool = False,
    watch: str | None = None,
    switches: bool = False,
    segments: bool = False,
    kernel: bool = False,
    policy: tuple[str, Callable[[], Any]] | None = None,
    progress: Callable[[int, int | None], object] | None = None,
    again: Callable[[], Stream] | None = None,
) -> list[Outcome]:
    """Simulates a trace on several machines, one placement for each seed.

    Stages in which machines agree are done once. The interpreter is free meanwhile. `again` opens the stream
    anew, where seeds that do not fit into memory at once are done in rounds; None: it can be read only once.
    `switches` makes the tables of switches; `segments` keeps every interval after every switch, too.
    `kernel` lets the kernel reference what the machines say.
    `policy` is the name of a policy in Python, and what makes the `choose` of one placement.
    """

def export_memory(
    machine: Machine,
    stream: Stream,
    path: str,
    to: str,
    *,
    seed: int,
    threads: int,
    scheme: str | None = None,
    length: int | None = None,
    progress: Callable[[int, int | None], object] | None = None,
) -> str:
    """Simulates a stream under one placement and exports what reaches memory; counts and notes as JSON.

    With `scheme`, what reaches memory are the requests to the machine's memory with a controller behind this
    scheme for device data.
    """

@final
class PagingOutcome:
    """`PagingOutcome` holds the page faults that a pass over a trace counts."""

    @property
    def references(self) -> int:
        """The references read."""
    @property
    def instructions(self) -> int:
        """The instructions fetched."""
    @property
    def faults(self) -> Table:
        """The faults: size (bytes), colors, frames_per_color, faults."""
    @property
    def utilization(self) -> Table:
        """The utilization: colors, frames_per_color, pages allocated when one color is full."""
    @property
    def first_touches(self) -> Table:
        """The pages in order of first touch: page (virtual number), asid."""
    @property
    def notes(self) -> list[str]:
        """The notes for the reader."""

def paging(
    stream: Stream,
    *,
    page: str,
    sizes: list[str],
    colors: list[int],
    length: int | None,
    pid_hash: bool,
    ahead: bool,
    progress: Callable[[int, int | None], object] | None = None,
) -> PagingOutcome:
    """Reads a trace once and counts the page faults of every memory size with every color count."""

@final
class ReuseOutcome:
    """`ReuseOutcome` holds the reuse distances of a trace."""

    @property
    def references(self) -> int:
        """The references read."""
    @property
    def instructions(self) -> int:
        """The instructions fetched."""
    @property
    def accesses(self) -> int:
        """The accesses measured."""
    @property
    def units(self) -> int:
        """The lines or pages accessed."""
    @property
    def distances(self) -> Table:
        """The accesses: group, name, kind, distance (null for first accesses), accesses."""
    @property
    def curve(self) -> Table:
        """The misses of fully associative LRU caches: units, misses."""
    @property
    def notes(self) -> list[str]:
        """The notes for the reader."""

def reuse(
    stream: Stream,
    *,
    unit: str,
    kinds: str,
    capacities: list[int] | None,
    length: int | None,
    ahead: bool,
    progress: Callable[[int, int | None], object] | None = None,
) -> ReuseOutcome:
    """Reads a trace once and measures the reuse distance of every access."""

@final
class DeviceDataOutcome:
    """`DeviceDataOutcome` holds what passes below a front, and what each scheme makes of it."""

    @property
    def figures(self) -> Table:
        """The counts: seed, scheme (null for the front), metric, unit, value."""

    @property
    def sizes(self) -> Table:
        """The requests by size: seed, device, direction, size, requests."""

    @property
    def distances(self) -> Table:
        """The references by reuse distance: seed, stream, flow, device, distance, references."""

    @property
    def front(self) -> Table:
        """The tidy table of the front."""

    @property
    def path(self) -> list[tuple[str, int]]:
        """The counts of the path of device data, by name. Empty without a path."""

    @property
    def notes(self) -> list[str]:
        """The notes for the reader."""

    @property
    def machine(self) -> str:
        """The resolved machine, as TOML."""

def device_data(
    machine: Machine,
    stream: Stream,
    *,
    workload: str,
    seeds: list[int],
    schemes: list[tuple[str, str, Machine]],
    path: bool,
    threads: int,
    length: int | None,
    progress: Callable[[int, int | None], object] | None = None,
) -> DeviceDataOutcome:
    """Simulates the front of a machine under each seed, and the schemes behind it.

    Each scheme has its name in results, its kind, and the machine whose last level and settings it has.
    """

def schemes() -> list[tuple[str, str]]:
    """Returns (name, meaning) of each scheme for device data."""

def schemes_for(machine: Machine) -> list[str]:
    """Returns the name of each scheme that is for the tags of a machine's caches."""

def device_data_metrics() -> list[tuple[str, str, str]]:
    """Returns (name pattern, unit, meaning) of each metric of device data."""

def path_counts() -> list[tuple[str, str, str]]:
    """Returns (name, unit, meaning) of each count of the path of device data."""

def refused_schemes(machine: Machine) -> list[tuple[str, str]]:
    """Returns (name, reason) of each scheme that cannot stand behind the front of a machine."""

@final
class ServedRequests:
    """`ServedRequests` holds what a memory made of a list of requests."""

    @property
    def requests(self) -> Table:
        """The requests, in order: arrival, address, write, entered, done, row."""

    @property
    def commands(self) -> Table | None:
        """The commands, in the order of their cycles; None if they were not asked for."""

    @property
    def counts(self) -> list[tuple[str, str, str, int]]:
        """(name, unit, meaning, value) of each count."""

    @property
    def memory(self) -> list[tuple[str, str]]:
        """(key, value) of the memory: its mapping, queue, marks and pages, its parts and its timing."""

    @property
    def cycle_ps(self) -> int:
        """The picoseconds of a cycle."""

def serve_requests(
    keys: list[tuple[str, str]], requests: Any, picoseconds: bool, commands: bool
) -> ServedRequests:
    """Serves requests by a memory. `keys` are those of `[dram]` with their values.

    `requests` is a table with the columns arrival, address (64-bit unsigned integers) and write (Boolean).
    With `picoseconds`, an arrival is a time, and the request arrives at the first cycle that does not begin
    before it.
    """

def dram_presets() -> list[tuple[str, str, list[tuple[str, int]]]]:
    """Returns (name, part of the datasheet, bytes, parts and timing by name) of each memory with a name."""

def inspect(
    stream: Stream, length: int | None = None, progress: Callable[[int, int | None], object] | None = None
) -> str:
    """Reads a stream and reports what is in it and what is missing, as JSON."""

def lint(
    stream: Stream, length: int | None = None, progress: Callable[[int, int | None], object] | None = None
) -> str:
    """Reads a stream and checks it; the findings, as JSON."""

def unknown(value: str, place: str, rule: str, known: list[str]) -> RequestError:
    """Returns the error of an unknown name, with the nearest known name."""

def format_of_path(path: str) -> str | None:
    """Returns the name of the importer that reads such a path; None if there is none."""

def made_by(path: str) -> str | None:
    """Returns the command that wrote a Parquet file; None if the file does not name it, or cannot be read."""

def machines() -> list[tuple[str, str, str]]:
    """Returns (name, about, TOML) of each bundled machine."""

def machine_keys() -> list[tuple[str, str, str, str, str]]:
    """Returns (section, name, form, default, meaning) of each key of a machine description."""

def workloads() -> list[tuple[str, str, str]]:
    """Returns (name, what it is, what it stands for) of each built-in workload."""

def policies() -> list[tuple[str, str, str, str]]:
    """Returns (name, rule, source, state and cost) of each placement policy."""

def counters() -> list[tuple[str, str, str]]:
    """Returns (name pattern, unit, meaning) of each metric."""

def formats() -> list[tuple[str, str, str, list[str]]]:
    """Returns (name, what it is, what is lost or assumed, extensions) of each foreign trace format."""

def packings() -> list[tuple[str, str]]:
    """Returns (name, extension) of each way a foreign trace may be packed."""

def kinds() -> list[tuple[str, bool, str]]:
    """Returns (name, whether a miss counts in MPI, meaning) of each kind of access that is counted."""

def map_flags() -> list[tuple[str, int, str]]:
    """Returns (letter, flag, name) of each flag of a mapping, in the order of the letters."""

def steering_characters() -> list[tuple[int, int]]:
    """Returns (first, last) code of each range of characters that steer a terminal or reorder a line."""

def exporters() -> list[tuple[str, str, str, bool]]:
    """Returns (name, about, what is lost, whether it takes what reaches memory) of each export format."""

def events() -> list[tuple[int, str, str]]:
    """Returns (code, name, meaning of its columns) of each event."""

def event_lines() -> list[tuple[str, str]]:
    """Returns (name, what its line of text looks like) of each event."""

def lint_rules() -> list[tuple[str, str, str, str]]:
    """Returns (name, severity, meaning, remedy) of each rule that `lint` checks."""

def calibration_targets() -> list[tuple[str, int | None, list[list[float]]]]:
    """Returns (workload, instructions between switches, misses per 1000 instructions) of the documents."""

def trial_targets() -> list[
    tuple[
        str,
        list[tuple[str, float]],
        float,
        int | None,
        tuple[float, float],
        float,
        tuple[float, float],
    ]
]:
    """MB90's figures for each benchmark set.

    Each row has the workload, (program, megabytes) of its programs, their megabytes together, processes, the
    least and most million instructions, data references per instruction, the least and greatest share of
    involuntary switches.
    """

@final
class Trial:
    """What a stream did until its last switch."""

    @property
    def instructions(self) -> int:
        """Instructions executed."""
    @property
    def data(self) -> int:
        """Loads and stores."""
    @property
    def processes(self) -> int:
        """The processes that ran."""
    @property
    def bytes(self) -> int:
        """The size of all processes, in bytes."""
    @property
    def touched(self) -> int:
        """The bytes that all processes touched, in whole pages."""
    @property
    def programs(self) -> list[tuple[str, int, int, int]]:
        """(name, processes, largest size in bytes, most bytes touched) of each program."""
    @property
    def switches(self) -> list[tuple[str, int | None, int]]:
        """(cause, number of the system call, switches)."""
    @property
    def mean_segment(self) -> float:
        """The mean instructions of a segment."""
    @property
    def median_segment(self) -> int | None:
        """The instructions of the segment in the middle."""

def measure_trial(
    stream: Stream,
    switches: int,
    length: int | None = None,
    progress: Callable[[int, int | None], object] | None = None,
) -> Trial:
    """Measures a stream up to its `switches`-th switch, but at most `length` references."""

def record(
    command: list[str],
    output: str,
    *,
    valgrind: str,
    directory: str,
    only: str | None,
    fetch: str,
    schedule: tuple[str, str] | None,
    seed: int,
    rate: int,
    skip: int,
    limit: int | None,
    threads: int,
    tell: Any,
) -> tuple[int, str, list[str]]:
    """Records a command into a trace file: its exit code, the totals as JSON, notes.

    `tell(pid, references, processes, over, writing)` is called ten times a second; what it returns ends the
    recording if true. `schedule`: the text of an observed order, and where it is from.
    """

def tracing_refused() -> str | None:
    """Returns why the kernel's scheduling may not be observed here; None if it may be observed."""

def observe(command: list[str], started: Callable[[int], object]) -> tuple[str, int]:
    """Runs a command natively. Returns the order between its processes as text, and its exit code.

    `started(pid)` is called once it runs.
    """
