"""Makes the figures of address translation from the counts of runs with translation on and off.

Both runs of a design have the same placements, so the program's own pages lie in the same frames. What
differs between the two runs is translation:

- *Overhead* is the cycles that the processor waits for translation, as the engine counts them by cause: hits
  in a second-level TLB, the instructions of handlers, waits for these instructions, and waits for entries of
  page tables.
- *Pollution* is what the program itself loses, because entries and handlers take lines of the caches. In
  misses, it is the program's misses with translation on less its misses with translation off. In cycles, it
  is all cycles with translation on less all cycles with translation off, less the overhead.
- The *reach* of a TLB is its entries × the page size. Entries that are wired for page tables are left out.
- The *events* of an access are those of JM97's Table 1: the level that serves the access, and whether its
  translation walks the page table (`miss`) or not (`hit`). They are shares of the accesses of one side:
  fetches, or loads and stores. A design without TLBs has no such hits and misses.
- Where software translates when the last level misses, a *walk* is a run of the handler: for an access of the
  program, or for a line that goes back to memory. The cycles for lines that go back also stand apart.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import pl
from binhop.numbers import size_in_bytes
from binhop.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ALL, TLB, CAUSE, EVENT, CACHE = "all", "tlb", "cause", "event", "cache"
WRITE_BACK = "write-back"
"""The cause of the cycles for lines that go back to memory."""
POLLUTION = "pollution"
"""The name of what the program itself loses, beside the causes of overhead."""
LEVELS = ("level-1", "behind", "memory")
"""The levels that serve an access: level 1, a cache behind level 1, memory."""
SIDES: Mapping[str, tuple[str, ...]] = {"fetch": ("fetch",), "data": ("load", "store")}
"""The sides of the processor, and the kinds of their accesses."""

FIGURES: Mapping[tuple[str, str], tuple[str, str]] = {
    (ALL, "references"): ("references", "The references of the program."),
    (ALL, "instructions"): ("instructions", "The instructions of the program."),
    (ALL, "misses"): ("misses/reference", "The misses of the first-level TLBs."),
    (ALL, "walks"): (
        "walks/reference",
        "The walks of the page table: misses of the last TLBs, or runs of the handler at cache misses.",
    ),
    (ALL, "write_backs"): ("walks/reference", "The walks for lines that go back to memory."),
    (ALL, "entries"): ("entries/walk", "The entries of the page table that a walk reads."),
    (ALL, "spared"): (
        "entries/walk",
        "The entries that walk caches hold, so that a walk does not read them.",
    ),
    (ALL, "overhead"): ("cycles/instruction", "The cycles of translation."),
    (ALL, "overhead_of_accesses"): (
        "cycles/instruction",
        "The cycles of translation without the cycles for lines that go back to memory.",
    ),
    (ALL, "protection"): (
        "cycles/instruction",
        "The cycles to check and update lines whose page changes its protection, beside the overhead.",
    ),
    (ALL, "overhead_share"): ("cycles/cycle", "The cycles of translation, of all cycles."),
    (ALL, "pollution"): ("cycles/instruction", "The cycles that the program itself waits longer."),
    (ALL, "slowdown"): (
        "cycles/cycle",
        "All cycles added by translation, of the cycles without translation.",
    ),
    (ALL, "cpi"): ("cycles/instruction", "All cycles, with translation."),
    (ALL, "tables"): ("bytes", "The most memory that page tables took at one time."),
    (TLB, "entries"): ("entries", "The entries of this TLB."),
    (TLB, "reach"): ("bytes", "The memory that this TLB's entries translate: entries × page."),
    (TLB, "misses"): ("misses/reference", "The misses of this TLB."),
    (TLB, "miss_ratio"): ("misses/access", "The misses of this TLB, of the accesses that ask it."),
    (CAUSE, "overhead"): ("cycles/instruction", "The cycles of this cause."),
    (CAUSE, "share"): ("cycles/cycle", "The cycles of this cause, of the overhead."),
    (EVENT, "share"): ("accesses/access", "The accesses with this event, of the accesses of their side."),
    (CACHE, "off"): ("misses/instruction", "The program's misses without translation."),
    (CACHE, "on"): ("misses/instruction", "The program's misses with translation."),
    (CACHE, "pollution"): ("misses/instruction", "The misses that translation adds to the program's own."),
}
"""The figures: group and metric, and their unit and meaning."""

KEYS = ["workload", "design", "group", "name", "side", "tlb", "metric", "unit"]
"""The columns that tell the rows of a summary apart."""
_SCHEMA = {
    "workload": "String",
    "design": "String",
    "seed": "UInt64",
    "group": "String",
    "name": "String",
    "side": "String",
    "tlb": "String",
    "metric": "String",
    "unit": "String",
    "value": "Float64",
}

Counts = dict[str, float | None]
"""The metrics of a run under one placement."""
Row = tuple[str, str | None, str | None, str | None, str, float | None]
"""A figure: its group, name, side and event of the TLB; its metric and value."""


def figures(values: pl.DataFrame, machines: Mapping[str, str]) -> pl.DataFrame:
    """Returns every figure of each design and seed.

    Args:
        values: The metrics of all runs: workload, design, translation (`on` or `off`), seed, metric, value.
        machines: The description of each design, resolved, as TOML.
    """
    counts: dict[tuple[str, str, int], dict[str, Counts]] = {}
    columns = values.select("workload", "design", "seed", "translation", "metric", "value")
    for workload, design, seed, translation, metric, value in columns.iter_rows():
        of = counts.setdefault((workload, design, seed), {"on": {}, "off": {}})
        of[translation][metric] = value
    structures = {design: tomllib.loads(text) for design, text in machines.items()}
    rows = [
        (*key, group, name, side, tlb, metric, FIGURES[group, metric][0], value)
        for key, of in counts.items()
        for group, name, side, tlb, metric, value in _figures(structures[key[1]], of["on"], of["off"])
    ]
    return pl.DataFrame(
        rows, schema={name: getattr(pl, kind) for name, kind in _SCHEMA.items()}, orient="row"
    )


def summary(made: pl.DataFrame, confidence: float = 0.95) -> pl.DataFrame:
    """Returns the mean of each figure over placements, with Student's interval.

    Columns: those of `KEYS`, n, mean, low, high, confidence, min, max.
    """
    found = summarise(made, confidence, KEYS)
    return found.select(*KEYS, "n", "mean", "low", "high", "confidence", "min", "max")


def causes(metrics: Sequence[str]) -> list[str]:
    """Returns the causes of overhead that a run has counted, in the engine's order.

    >>> causes(["cycles", "translation.cycles.entries", "translation.cycles"])
    ['entries']
    """
    prefix = "translation.cycles."
    return [metric.removeprefix(prefix) for metric in metrics if metric.startswith(prefix)]


def _figures(machine: dict[str, Any], on: Counts, off: Counts) -> Iterator[Row]:
    yield from _whole(machine, on, off)
    yield from _tlbs(machine, on)
    yield from _causes(on)
    yield from _events(machine, on)
    for cache in machine["cache"]:
        misses = [_sum(run, (f"{cache}.{kind}.misses" for kind in _kinds())) for run in (off, on)]
        extra = None if None in misses else misses[1] - misses[0]  # type: ignore[operator]
        for metric, value in zip(("off", "on", "pollution"), (*misses, extra), strict=True):
            yield CACHE, cache, None, None, metric, _ratio(value, on.get("instructions"))


def _whole(machine: dict[str, Any], on: Counts, off: Counts) -> Iterator[Row]:
    references, instructions = on.get("references"), on.get("instructions")
    first = [name for name, tlb in machine.get("tlb", {}).items() if "serves" in tlb]
    misses = _sum(on, (f"{name}.{kind}.misses" for name in first for kind in _kinds()))
    walks, entries = _walks(machine, on)
    overhead, cycles, without = on.get("translation.cycles"), on.get("cycles"), off.get("cycles")
    added = None if cycles is None or without is None else cycles - without
    pollution = None if added is None or overhead is None else added - overhead
    protection = on.get("translation.protection.cycles")
    if pollution is not None:
        pollution -= protection or 0.0
    written = on.get(f"translation.cycles.{WRITE_BACK}") or 0.0
    of_accesses = None if overhead is None else overhead - written
    for metric, value in (
        ("references", references),
        ("instructions", instructions),
        ("misses", _ratio(misses, references)),
        ("walks", _ratio(walks, references)),
        ("write_backs", _ratio(on.get("translation.write-backs"), references)),
        ("entries", _ratio(entries, walks)),
        ("spared", _ratio(on.get("translation.entries.spared"), walks)),
        ("overhead", _ratio(overhead, instructions)),
        ("overhead_of_accesses", _ratio(of_accesses, instructions)),
        ("protection", _ratio(protection, instructions)),
        ("overhead_share", _ratio(overhead, cycles)),
        ("pollution", _ratio(pollution, instructions)),
        ("slowdown", _ratio(added, without)),
        ("cpi", _ratio(cycles, instructions)),
        ("tables", on.get("translation.tables")),
    ):
        yield ALL, None, None, None, metric, value


def _walks(machine: dict[str, Any], on: Counts) -> tuple[float | None, float | None]:
    """Returns the walks of the page table, and the entries that they read."""
    if "tlb" in machine:
        walks = _sum(on, (f"translation.{kind}.walks" for kind in _kinds()))
        return walks, on.get("translation.entries")
    misses = [f"translation.{kind}.cache-misses" for kind in _kinds()]
    level_1 = _level_1(machine, "data")
    return _sum(on, (*misses, "translation.write-backs")), on.get(f"{level_1}.handler.load.accesses")


def _tlbs(machine: dict[str, Any], on: Counts) -> Iterator[Row]:
    page = size_in_bytes(machine["memory"]["page"])
    for name, tlb in machine.get("tlb", {}).items():
        misses, accesses = (
            _sum(on, (f"{name}.{kind}.{what}" for kind in _kinds())) for what in ("misses", "accesses")
        )
        for metric, value in (
            ("entries", tlb["entries"]),
            ("reach", (tlb["entries"] - tlb.get("wired", 0)) * page),
            ("misses", _ratio(misses, on.get("references"))),
            ("miss_ratio", _ratio(misses, accesses)),
        ):
            yield TLB, name, None, None, metric, value


def _causes(on: Counts) -> Iterator[Row]:
    for cause in causes([*on]):
        cycles = on[f"translation.cycles.{cause}"]
        yield CAUSE, cause, None, None, "overhead", _ratio(cycles, on.get("instructions"))
        yield CAUSE, cause, None, None, "share", _ratio(cycles, on.get("translation.cycles"))


def _events(machine: dict[str, Any], on: Counts) -> Iterator[Row]:
    for side, kinds in SIDES.items():
        level_1 = _level_1(machine, side)
        accesses = _sum(on, (f"{level_1}.{kind}.accesses" for kind in kinds))
        misses = _sum(on, (f"{level_1}.{kind}.misses" for kind in kinds))
        memory = _sum(on, (f"memory.{kind}.accesses" for kind in kinds)) or 0.0
        if accesses is None or misses is None:
            continue
        served = dict(zip(LEVELS, (accesses - misses, misses - memory, memory), strict=True))
        for level, number in served.items():
            if "tlb" not in machine:
                yield EVENT, level, side, None, "share", _ratio(number, accesses)
                continue
            missed = _sum(on, (f"translation.{kind}.tlb-miss.{level}" for kind in kinds)) or 0.0
            yield EVENT, level, side, "hit", "share", _ratio(number - missed, accesses)
            yield EVENT, level, side, "miss", "share", _ratio(missed, accesses)


def _level_1(machine: dict[str, Any], side: str) -> str:
    """Returns the name of the level-1 cache of a side."""
    (found,) = (name for name, cache in machine["cache"].items() if cache.get("serves") in (side, "all"))
    return str(found)


def _kinds() -> tuple[str, ...]:
    return tuple(kind for kinds in SIDES.values() for kind in kinds)


def _sum(counts: Counts, names: Iterable[str]) -> float | None:
    """Returns the sum of the metrics that are there; None if none of them is."""
    found = [value for name in names if (value := counts.get(name)) is not None]
    return sum(found) if found else None


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


__all__ = ["ALL", "CACHE", "CAUSE", "EVENT", "FIGURES", "KEYS", "LEVELS", "POLLUTION", "SIDES", "TLB"]
__all__ += ["WRITE_BACK", "causes", "figures", "summary"]
