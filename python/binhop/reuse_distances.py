"""Measures the reuse distances of traces, and the miss ratio that they imply for a cache of every size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop._binhop import Machine
from binhop.arguments import integer, listed, seed_numbers, thread_count, whole_number
from binhop.errors import RequestError
from binhop.escape import escaped, json_text
from binhop.lazy_imports import pl
from binhop.metrics import exact
from binhop.numbers import counted, size_in_bytes
from binhop.output import ResultDirectory, write_parquet, write_provenance
from binhop.results import SCHEMA, notes_once
from binhop.run import simulate_all, without_references
from binhop.traces import ArrowStream, Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from binhop.tables import Table

UNIT = "64B"
KINDS = ("all", "fetch", "data")
LARGEST_UNIT = 1 << 30
LARGEST_SIZE = 1 << 60
WAYS = 8
ROOMY = 4
"""The memory of the simulated machine, in sizes of all pages that the trace may touch."""
LEAST_MEMORY = 64 << 20
MOST_MEMORY = 4 << 30
PAGE = "4KiB"

METRICS = {
    "reuse.misses": "misses",
    "reuse.miss-ratio": "misses/access",
    "reuse.simulated-miss-ratio": "misses/access",
}
"""The metrics of the tidy table, and their units."""


@dataclass(frozen=True)
class ReuseResult:
    """`ReuseResult` holds the reuse distances of traces.

    Attributes:
        distances: One row for each workload, group ("process" or "segment"), name in the group, kind (fetch,
            load, store) and class of distances that has accesses. `distance` is the least distance of the
            class; the class of d > 0 ends before 2d. It is null for first accesses.
        curve: One row for each workload and size (bytes): units, misses of a fully associative LRU cache of
            this size, accesses, and their quotient, the miss ratio.
        simulated: One row for each workload and simulated size: ways, placements, and the mean, least and
            largest miss ratio of a set-associative LRU cache under random placement.
        notes: Notes for the reader.
        provenance: Versions, traces and parameters, from which the measurement can be repeated.
    """

    distances: pl.DataFrame
    curve: pl.DataFrame
    simulated: pl.DataFrame
    notes: list[str]
    provenance: dict[str, Any]

    @property
    def workloads(self) -> list[str]:
        """The traces, in order."""
        return self.curve["workload"].unique(maintain_order=True).to_list()

    @property
    def results(self) -> pl.DataFrame:
        """The tidy table: workload, size, ways (null where fully associative), metric, unit, value."""
        full = pl.lit(None, pl.UInt64).alias("ways")
        parts = [
            _long(self.curve.with_columns(full), "reuse.misses", "misses"),
            _long(self.curve.with_columns(full), "reuse.miss-ratio", "miss_ratio"),
            _long(self.simulated, "reuse.simulated-miss-ratio", "mean"),
        ]
        return pl.concat(parts)

    def to_json(self) -> str:
        """Returns the JSON that `binhop reuse --json` prints. Counts are integers; undefined values null."""
        rows = self.results.to_dicts()
        for row in rows:
            row["value"] = exact(row["value"], row["unit"])
        whole = {
            "schema": SCHEMA,
            "rows": rows,
            "distances": self.distances.to_dicts(),
            "provenance": {**self.provenance, "notes": self.notes},
        }
        return json_text(whole)

    def write(self, directory: str | os.PathLike[str], *, figures: bool = True) -> list[str]:
        """Writes tables, provenance and figures into a directory, which appears complete or not at all.

        An earlier result is replaced; files in it that binhop did not write stay. Any other directory that is
        not empty is refused.

        Returns:
            The names of the files.
        """
        with ResultDirectory(directory) as place:
            return place.fill(self, figures=figures)

    def write_tables(self, directory: Path) -> None:
        """Writes tables and provenance into a directory that is there."""
        for name in ("results", "distances", "curve", "simulated"):
            write_parquet(getattr(self, name), directory / f"{name}.parquet")
        self.distances.write_csv(directory / "distances.csv")
        self.curve.write_csv(directory / "curve.csv")
        write_provenance(directory, self.provenance, self.notes)

    def draw(self, directory: Path) -> list[Path]:
        """Draws the figures from the tables in a directory, and returns the files."""
        from binhop.report import draw_reuse  # a command without figures needs no module that draws

        return draw_reuse(directory)

    def tables(self) -> list[Table]:
        """Returns the tables of each workload: miss ratios by size, of processes and segments, too."""
        from binhop.tables.reuse import reuse_tables

        return reuse_tables(self.distances, self.curve, self.simulated, self.provenance["unit"])

    def chart(self, workload: str | None = None) -> Any:
        """Returns the figure of a workload as an Altair chart, for a notebook.

        If `workload` is None, the figure is that of the first workload.
        """
        from binhop.report import chart_of  # a command without figures needs no module that draws
        from binhop.report.reuse import reuse_charts

        charts = reuse_charts(self.distances, self.curve, self.simulated)
        words = dict.fromkeys(self.workloads, "The trace has no access of the kinds that were measured.")
        return chart_of(charts, workload, words)

    def _repr_html_(self) -> str:
        from binhop.tables.html import html

        return html(self.tables(), self.notes)

    def __repr__(self) -> str:
        return f"<ReuseResult {escaped(', '.join(self.workloads))}: {counted(self.curve.height, 'size')}>"


def reuse(
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    *,
    unit: str | int = UNIT,
    kinds: str = "all",
    sizes: Sequence[str | int] | None = None,
    simulated: Sequence[str | int] = (),
    ways: int = WAYS,
    seeds: int = 4,
    length: int | str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int | None], object] | None = None,
) -> ReuseResult:
    """Measures the reuse distance of every access of a trace, in one pass.

    Args:
        trace: A trace, a file, the name of a built-in workload, or an Arrow table.
        unit: The size of a line or a page, in which accesses are counted.
        kinds: The accesses that form the stream: "all", "fetch" or "data".
        sizes: The cache sizes of the curve, as "32KiB" or in bytes. Default: every power of two of units, up
            to the number of units accessed.
        simulated: Sizes of set-associative caches that are simulated beside the curve, which reads the trace
            again.
        ways: The ways of these caches.
        seeds: The placements under which they are simulated.
        length: References to read; default: the whole trace. A built-in workload needs a length.
        threads: With 2 or more, the trace is decoded on a thread of its own. No result depends on it.
        progress: Called some times a second with the references done and, if known, to do.

    Returns:
        The result: distances, curve, simulated points, notes, provenance.

    Raises:
        RequestError: The request is wrong; the message says what and how to mend it.

    >>> result = reuse("sor", length=200_000, sizes=["32KiB", "1MiB"])
    >>> result.curve.select("units", "accesses").rows()
    [(512, 200000), (16384, 200000)]
    """
    trace = Trace.of(trace)
    if trace.endless and length is None:
        rule = "a built-in workload never ends"
        raise RequestError(trace.name, "length", rule, "say how many references, as in length=50_000_000")
    length = whole_number(length, "length")
    if kinds not in KINDS:
        raise RequestError(str(kinds), "kinds", f"the kinds are {', '.join(KINDS)}", 'say kinds="all"')
    unit = _size(unit, "unit")
    width = size_in_bytes(unit, "unit")
    if width > LARGEST_UNIT:
        raise RequestError(unit, "unit", "a line or page has at most 1 GiB", "ask for, say, 64B or 4KiB")
    written = None if sizes is None else _each_once(sizes, "sizes")
    if written == []:
        raise RequestError("none", "sizes", "a curve needs at least one size", "ask for, say, 32KiB")
    points = _each_once(simulated, "simulated")
    ways = integer(ways, "ways", least=1)
    placements = seed_numbers(seeds, random=True)
    if points and kinds != "all":
        rule = "the simulated caches serve fetches, loads and stores"
        raise RequestError(kinds, "kinds", rule, "measure all kinds, or simulate nothing (simulated=[])")
    if points and trace.once:
        rule = "it can be read once, and the simulated caches read it again"
        raise RequestError(trace.name, "simulated", rule, "write it to a file first, or simulate nothing")
    for size in points:
        _machine(size, unit, ways, LEAST_MEMORY)  # what is wrong is refused before the pass
    outcome = _binhop.reuse(
        trace.stream(),
        unit=unit,
        kinds=kinds,
        capacities=None if written is None else [_units(size, width) for size in written],
        length=length,
        ahead=thread_count(threads) > 1,
        progress=progress,
    )
    named = pl.lit(trace.name).alias("workload")
    curve = pl.DataFrame(outcome.curve).select(
        named,
        (pl.col("units") * width).alias("size"),
        "units",
        "misses",
        pl.lit(outcome.accesses, pl.UInt64).alias("accesses"),
        (pl.col("misses") / pl.lit(outcome.accesses or None, pl.UInt64)).alias("miss_ratio"),
    )
    provenance = {
        "binhop": _binhop.__version__,
        "unit": unit,
        "kinds": kinds,
        "sizes": written,
        "simulated": points,
        "ways": ways,
        "seeds": placements,
        "traces": [
            {
                **trace.provenance(),
                "length": length,
                "references": outcome.references,
                "instructions": outcome.instructions,
                "accesses": outcome.accesses,
                "units": outcome.units,
            }
        ],
    }
    notes = outcome.notes
    if outcome.references == 0:
        notes = [without_references(trace, length), *notes]
    measured = pl.DataFrame(outcome.distances).select(named, pl.all())
    touched = outcome.units * max(width, size_in_bytes(PAGE))  # each unit may lie in a page of its own
    memory = min(max(LEAST_MEMORY, 1 << (ROOMY * touched).bit_length()), MOST_MEMORY)
    if points and touched > memory:
        notes = [*notes, "the simulated machine has 4 GiB of memory, and may evict pages of this trace"]
    machines = [_machine(size, unit, ways, memory) for size in points]
    ratios, of_runs = _simulated(machines, trace, placements, length, threads)
    notes = [*notes, *of_runs]
    columns = {
        "workload": pl.String,
        "size": pl.UInt64,
        "ways": pl.UInt64,
        "placements": pl.UInt64,
        "mean": pl.Float64,
        "least": pl.Float64,
        "largest": pl.Float64,
    }
    points_of = pl.DataFrame(
        [
            (
                trace.name,
                size_in_bytes(size),
                ways,
                len(ratio),
                sum(ratio) / len(ratio),
                min(ratio),
                max(ratio),
            )
            for size, ratio in zip(points, ratios, strict=True)
            if ratio
        ],
        schema=columns,
        orient="row",
    )
    return ReuseResult(measured, curve, points_of, notes, provenance)


def join(results: Sequence[ReuseResult]) -> ReuseResult:
    """Returns the results of several traces under the same parameters as one result."""
    first = results[0]
    notes = notes_once({result.workloads[0]: result.notes for result in results})
    return ReuseResult(
        pl.concat([result.distances for result in results]),
        pl.concat([result.curve for result in results]),
        pl.concat([result.simulated for result in results]),
        notes,
        {**first.provenance, "traces": [trace for one in results for trace in one.provenance["traces"]]},
    )


def _simulated(
    machines: list[Machine], trace: Trace, seeds: list[int], length: int | None, threads: int | None
) -> tuple[list[list[float]], list[str]]:
    """Returns the miss ratio of each machine's cache, for each placement, and the notes of the runs."""
    if not machines:
        return [], []
    ratios: list[list[float]] = []
    notes: dict[str, list[str]] = {}
    results = simulate_all(machines, trace, seeds=seeds, length=length, threads=threads)
    for machine, result in zip(machines, results, strict=True):
        of_seed = []
        for _, rows in result.results.group_by("seed", maintain_order=True):
            values = dict(rows.select("metric", "value").iter_rows())
            kinds = ("fetch", "load", "store")
            sums = [
                sum(values.get(f"cache.{kind}.{what}", 0) for kind in kinds)
                for what in ("misses", "accesses")
            ]
            if sums[1]:
                of_seed.append(sums[0] / sums[1])
        ratios.append(of_seed)
        notes[machine.name] = result.own_notes
    return ratios, notes_once(notes)


def _machine(size: str, unit: str, ways: int, memory: int) -> Machine:
    """Returns a machine of one cache, whose pages are placed at random."""
    text = f"""
        memory = {{ size = "{memory}B", page = "{PAGE}" }}
        placement = {{ policy = "random", pool = "{memory}B" }}
        [cache.cache]
        serves = "all"
        size = "{size}"
        line = "{unit}"
        ways = {ways}
        next = "memory"
        """
    return Machine.parse(text, f"simulated {size}")


def _each_once(sizes: Sequence[str | int], name: str) -> list[str]:
    """Returns sizes as they are written, each of which must be another number of bytes."""
    written = [_size(size, name) for size in listed(sizes, name)]
    known: set[int] = set()
    for size in written:
        if size_in_bytes(size, name) > LARGEST_SIZE:
            raise RequestError(size, name, "a cache has at most 1048576 TiB", "ask for a smaller size")
        if size_in_bytes(size, name) in known:
            raise RequestError(size, name, "each size is asked for once", "leave one out")
        known.add(size_in_bytes(size, name))
    return written


def _units(size: str, width: int) -> int:
    """Returns the units that a cache holds."""
    units, rest = divmod(size_in_bytes(size, "sizes"), width)
    if units == 0 or rest:
        rule = f"a cache holds whole units of {width} bytes"
        raise RequestError(size, "sizes", rule, "give a multiple of the unit")
    return units


def _long(wide: pl.DataFrame, metric: str, column: str) -> pl.DataFrame:
    return wide.select(
        "workload",
        "size",
        "ways",
        pl.lit(metric).alias("metric"),
        pl.lit(METRICS[metric]).alias("unit"),
        pl.col(column).cast(pl.Float64).alias("value"),
    )


def _size(size: str | int, name: str) -> str:
    return size if isinstance(size, str) else f"{integer(size, name)}B"
