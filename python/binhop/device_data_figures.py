"""Makes the figures of device data from counts: shares, hit rates, fates and speed-ups of each scheme.

A *speed-up* is cycles under the baseline / cycles under the scheme - 1; what is *saved* is 1 - cycles under
the scheme / cycles under the baseline (TB10 uses both). Where memory has a controller, these are cycles of
the memory's clock until the last data were on the bus; otherwise cycles of the processor that references
took. The baseline is `snooping-cache`, under which device data are only in memory. Caches with virtual tags
have one scheme, `flush`, which is their baseline.

A scheme that serves the last references of a trace by its caches leaves memory idle before they are
complete. `reference-cycles` count to the last reference, whatever served it, and `reference-speed-up`
compares these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop.lazy_imports import pl
from binhop.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CLASSES = ("cpu-read", "cpu-write", "dma-read", "dma-write")
"""The classes of references."""
BASELINE = "snooping-cache"
"""The scheme to which the others are compared."""
FLUSH = "flush"
"""The one scheme of caches with virtual tags, in place of the baseline."""
FATES = (
    "read-dma-cache",
    "read-last-level",
    "read-memory",
    "read-after-eviction",
    "overwritten-by-device",
    "overwritten-by-cpu",
    "unread",
)
"""The ends of the life of a line that a device wrote."""

FIGURES: Mapping[str, tuple[str, str]] = {
    "share": ("references/reference", "References of a class, of all references below the front."),
    "sequential": (
        "references/reference",
        "References to the line behind the last line of the class or request kind.",
    ),
    "size": ("bytes/request", "Mean bytes of a request."),
    "request-share": ("references/reference", "References of a request kind, of all references of devices."),
    "fate": ("lines/line", "Lines with this fate, of the lines that devices wrote."),
    "evicted-unread": (
        "lines/line",
        "Lines that left the caches before they were read, of the lines that devices wrote.",
    ),
    "first-read-misses": (
        "lines/line",
        "Lines that the processor first read from memory, of the lines of devices that it read.",
    ),
    "io-hits": ("references/reference", "References to I/O data that a cache served."),
    "replaced-dirty": ("references/reference", "Writes of devices that replaced a dirty line."),
    "memory-reads": ("lines", "Lines read from memory."),
    "memory-writes": ("lines", "Lines written to memory."),
    "class-cycles": ("cycles", "Cycles of a class of references."),
    "cycles": ("cycles", "Cycles of all references; with a controller, of the memory's clock to the end."),
    "reference-cycles": (
        "memory cycles",
        "With a controller, cycles of the memory's clock until the last reference was complete.",
    ),
    "row-hits": ("lines/line", "Share of a class's or agent's lines in DRAM whose row was open."),
    "row-conflicts": (
        "lines/line",
        "Share of a class's or agent's lines in DRAM that had to close another row.",
    ),
    "read-latency": (
        "cycles/line",
        "Mean cycles of the memory's clock that a class's or agent's read took.",
    ),
    "speed-up": ("cycles/cycle", "Cycles under the baseline / cycles under the scheme - 1."),
    "reference-speed-up": (
        "cycles/cycle",
        "Reference-cycles under the baseline / reference-cycles under the scheme - 1.",
    ),
    "saved": ("cycles/cycle", "1 - cycles under the scheme / cycles under the baseline."),
}
"""The figures, with their unit and meaning."""

READS = ("read-dma-cache", "read-last-level", "read-memory", "read-after-eviction")
"""The fates of lines that the processor read first."""
AGENTS: Mapping[str, tuple[str, str]] = {"processor": CLASSES[:2], "devices": CLASSES[2:]}
"""The agents, and the classes of their references."""
DRAM = ("reads", "forwarded", "row-hits", "row-misses", "row-conflicts", "latency")
"""The counts of memory with a controller from which figures are made."""
REFERENCE_CYCLES = "dram.reference-cycles"
"""The count of cycles until the last reference was complete."""
KEYS = ["workload", "machine", "scheme", "figure", "of", "unit"]
"""The columns that tell the rows of a summary apart."""
_SCHEMA = {
    "workload": "String",
    "machine": "String",
    "scheme": "String",
    "seed": "UInt64",
    "figure": "String",
    "of": "String",
    "unit": "String",
    "value": "Float64",
}

Counts = dict[str, int]
Row = tuple[str, str | None, float | None]
"""A figure: its name, what it is of, its value."""


def figures(results: pl.DataFrame) -> pl.DataFrame:
    """Returns every figure of each workload, scheme and seed. The front's figures have no scheme (null).

    Args:
        results: The tidy table: workload, machine, scheme, seed, metric, unit, value.
    """
    counts: dict[tuple[str, str, int], dict[str | None, Counts]] = {}
    columns = results.select("workload", "machine", "seed", "scheme", "metric", "value")
    for workload, machine, seed, scheme, metric, value in columns.iter_rows():
        counts.setdefault((workload, machine, seed), {}).setdefault(scheme, {})[metric] = value
    rows = []
    for (workload, machine, seed), of in counts.items():
        base = of.get(BASELINE) or of.get(FLUSH)
        for scheme, values in of.items():
            made = _front(values) if scheme is None else _scheme(values, base)
            for name, what, value in made:
                rows.append((workload, machine, scheme, seed, name, what, FIGURES[name][0], value))
    return pl.DataFrame(
        rows, schema={name: getattr(pl, kind) for name, kind in _SCHEMA.items()}, orient="row"
    )


def summary(figures: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """Returns each figure with its interval over placements, as `binhop.summary.summarise` does."""
    return summarise(figures, confidence, KEYS)


def _front(counts: Counts) -> Iterator[Row]:
    """Yields the figures of what the front lets through."""
    whole = sum(counts[f"front.{name}.references"] for name in CLASSES)
    of_devices = sum(counts[f"front.{name}.references"] for name in CLASSES[2:])
    for name in CLASSES:
        references = counts[f"front.{name}.references"]
        yield "share", name, ratio(references, whole)
        yield "sequential", name, ratio(counts[f"front.{name}.sequential"], references)
    for metric in counts:
        kind, _, last = metric.rpartition(".")
        if last == "requests":
            references = counts[f"{kind}.references"]
            yield "request-share", kind, ratio(references, of_devices)
            yield "size", kind, ratio(counts[f"{kind}.bytes"], counts[metric])
            yield "sequential", kind, ratio(counts[f"{kind}.sequential"], references)


def _scheme(counts: Counts, base: Counts | None) -> Iterator[Row]:
    """Yields the figures of a scheme."""
    written = counts["fate.written"]
    for name in FATES:
        yield "fate", name, ratio(counts[f"fate.{name}"], written)
    yield "evicted-unread", None, ratio(counts["fate.evicted-unread"], written)
    read = sum(counts[f"fate.{name}"] for name in READS)
    yield "first-read-misses", None, ratio(sum(counts[f"fate.{name}"] for name in READS[2:]), read)
    yield "io-hits", None, ratio(counts["io.hits"], counts["io.accesses"])
    yield "replaced-dirty", None, ratio(counts["dma-write.replaced-dirty"], counts["dma-write.references"])
    for what in ("reads", "writes"):
        yield f"memory-{what}", None, sum(counts[f"{name}.memory.{what}"] for name in CLASSES)
    for name in CLASSES:
        yield "class-cycles", name, counts[f"{name}.cycles"]
    of = "dram.cycles" if "dram.cycles" in counts else "cycles"
    yield "cycles", None, counts[of]
    if of == "dram.cycles":
        yield "reference-cycles", None, counts[REFERENCE_CYCLES]
        yield from _dram(counts)
    if base is not None:
        quotient = ratio(base[of], counts[of])
        yield "speed-up", None, None if quotient is None else quotient - 1
        share = ratio(counts[of], base[of])
        yield "saved", None, None if share is None else 1 - share
        if of == "dram.cycles":
            quotient = ratio(base[REFERENCE_CYCLES], counts[REFERENCE_CYCLES])
            yield "reference-speed-up", None, None if quotient is None else quotient - 1


def _dram(counts: Counts) -> Iterator[Row]:
    """Yields the figures of memory with a controller: of each class of references, and of each agent."""
    of_agents: dict[str, Sequence[str]] = {**{name: (name,) for name in CLASSES}, **AGENTS}
    for name, classes in of_agents.items():
        of = {metric: sum(counts[f"dram.{each}.{metric}"] for each in classes) for metric in DRAM}
        lines = of["row-hits"] + of["row-misses"] + of["row-conflicts"]
        yield "row-hits", name, ratio(of["row-hits"], lines)
        yield "row-conflicts", name, ratio(of["row-conflicts"], lines)
        yield "read-latency", name, ratio(of["latency"], of["reads"] + of["forwarded"])


def ratio(part: float, whole: float) -> float | None:
    """Returns a quotient; None if it has no value.

    >>> ratio(1, 4), ratio(1, 0)
    (0.25, None)
    """
    return part / whole if whole else None


__all__ = ["BASELINE", "CLASSES", "FATES", "FIGURES", "FLUSH", "KEYS", "figures", "ratio", "summary"]
