"""Tests the machines of MB90 against a reckoning of their Table 3, which shares nothing with the simulator.

The reckoning counts a small trace by hand, as the document describes the caches: direct-mapped, level 1 of
16-byte lines with data written through and not allocated, level 2 of 128-byte lines written back.
Physical = virtual here, so that placement does not matter.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

import binhop

STRIDES = Path(__file__).parent / "strides.din"
LOAD, STORE, FETCH = 0, 1, 2
KIB = 1024


class Design(NamedTuple):
    """A row of Table 3, and the time in which a write drains (ours)."""

    level1: int
    level1_miss: int
    buffers: int
    drain: int
    level2: int | None = None
    level2_miss: int = 0


DESIGNS = {
    "mb90-1a": Design(64 * KIB, 15, 6, 5),
    "mb90-1b": Design(256 * KIB, 15, 6, 5),
    "mb90-2a": Design(2 * KIB, 13, 4, 6, 512 * KIB, 200),
    "mb90-2b": Design(8 * KIB, 13, 4, 6, 2 * KIB * KIB, 200),
}


class Reckoning:
    """`Reckoning` counts the references of a trace on one design."""

    def __init__(self, design: Design, hit: int) -> None:
        self.design = design
        self.hit = hit
        self.counts: Counter[str] = Counter()
        self.now = 0
        self.held: dict[str, dict[int, int]] = {"l1i": {}, "l1d": {}, "l2": {}}
        self.dirty: set[int] = set()
        self.ends: list[int] = []
        """The cycles at which the writes in the buffer have drained."""

    def refer(self, label: int, address: int) -> None:
        cache = "l1i" if label == FETCH else "l1d"
        kind = {LOAD: "load", STORE: "store", FETCH: "fetch"}[label]
        line, sets = address // 16, self.design.level1 // 16
        if self.held[cache].get(line % sets) != line:
            self.counts[f"{cache}.{kind}.misses"] += 1
            if label != STORE:
                self.held[cache][line % sets] = line
                self.now += self.read(kind, address) - self.hit
        if label == STORE:
            self.write(address)
        if label == FETCH:
            self.now += 1
        self.counts["cycles"] = self.now

    def read(self, kind: str, address: int) -> int:
        """Returns the cycles of a whole access that missed level 1."""
        if self.design.level2 is None:
            self.counts[f"memory.{kind}.accesses"] += 1
            return self.design.level1_miss
        return self.design.level1_miss if self.at_level2(kind, kind, address) else self.design.level2_miss

    def write(self, address: int) -> None:
        self.ends = [end for end in self.ends if end > self.now]
        if len(self.ends) == self.design.buffers:
            self.counts["l1d.write-buffer.stalls"] += 1
            self.counts["l1d.write-buffer.stall-cycles"] += self.ends[0] - self.now
            self.now = self.ends.pop(0)
        self.ends.append(max([self.now, *self.ends]) + self.design.drain)
        if self.design.level2 is None:
            self.counts["memory.write.accesses"] += 1
        else:
            self.at_level2("write", "fill", address)
            self.dirty.add(address // 128)

    def at_level2(self, kind: str, read: str, address: int) -> bool:
        assert self.design.level2 is not None
        line, held = address // 128, self.held["l2"]
        place = line % (self.design.level2 // 128)
        if held.get(place) == line:
            return True
        self.counts[f"l2.{kind}.misses"] += 1
        self.counts[f"memory.{read}.accesses"] += 1
        if held.get(place) in self.dirty:
            self.dirty.remove(held[place])
            self.counts["l2.evictions.dirty"] += 1
        held[place] = line
        return False


def rows() -> list[tuple[int, int]]:
    """Returns the label of each reference, and the aligned word that it accesses."""
    lines = (line.split() for line in STRIDES.read_text().splitlines())
    return [(int(label), int(address, 16) & ~3) for label, address, *_ in lines]


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize(
    ("settings", "hit", "drain"),
    [([], 1, 1), (["cost.level-1=0"], 0, 1), (["write-buffer.l1d.drain={}"], 1, 8)],
    ids=["totals", "beside the instruction", "a slow buffer"],
)
def test_a_design_counts_what_table_3_says(name: str, settings: list[str], hit: int, drain: int) -> None:
    design = DESIGNS[name]
    design = design._replace(drain=design.drain * drain)
    machine = binhop.Machine.load(
        name, ["placement.policy=identity", *(setting.format(design.drain) for setting in settings)]
    )
    result = binhop.simulate(machine, STRIDES, seeds=1)
    reckoning = Reckoning(design, hit)
    for row in rows():
        reckoning.refer(*row)
    found = {metric: result.value(metric) for metric in reckoning.counts}
    assert found == reckoning.counts
    assert drain == 1 or reckoning.counts["l1d.write-buffer.stalls"] > 0


def test_levels_that_add_take_their_own_cycles() -> None:
    settings = ["placement.policy=identity", "cost.mode=add", "write-buffer.l1d.stalls=false"]
    result = binhop.simulate(binhop.Machine.load("mb90-2a", settings), STRIDES, seeds=1)

    def count(metric: str) -> int:
        return sum(int(result.value(metric.format(kind)) or 0) for kind in ("fetch", "load"))

    instructions = result.value("instructions")
    waited = 13 * count("l2.{}.accesses") + 200 * count("memory.{}.accesses")
    assert result.value("cycles") == instructions + waited
    assert count("memory.{}.accesses") > 0


@pytest.mark.parametrize("name", DESIGNS)
def test_a_merging_buffer_takes_fewer_entries(name: str) -> None:
    slow = ["placement.policy=identity", f"write-buffer.l1d.drain={DESIGNS[name].drain * 8}"]
    apart = binhop.simulate(binhop.Machine.load(name, slow), STRIDES, seeds=1)
    merged = binhop.simulate(
        binhop.Machine.load(name, [*slow, "write-buffer.l1d.merge=true"]), STRIDES, seeds=1
    )
    assert apart.value("l1d.write-buffer.merges") == 0
    assert merged.value("l1d.write-buffer.merges") > 0
    assert merged.value("cycles") < apart.value("cycles")
    for metric in ("l1d.store.misses", "memory.write.accesses", "l2.write.accesses"):
        if metric in set(apart.results["metric"]):
            assert merged.value(metric) == apart.value(metric)


@pytest.mark.parametrize("name", DESIGNS)
def test_stream_buffers_serve_misses_and_leave_the_misses_alone(name: str) -> None:
    plain = binhop.simulate(binhop.Machine.load(name, ["placement.policy=identity"]), STRIDES, seeds=1)
    settings = ["placement.policy=identity", "stream-buffers.l1i.buffers=4", "stream-buffers.l1d.depth=2"]
    ahead = binhop.simulate(binhop.Machine.load(name, settings), STRIDES, seeds=1)
    for cache, kind in (("l1i", "fetch"), ("l1d", "load")):
        misses = int(ahead.value(f"{cache}.{kind}.misses") or 0)
        assert misses == plain.value(f"{cache}.{kind}.misses")
        hits = int(ahead.value(f"{cache}.stream.hits") or 0)
        assert 0 < hits < misses
        assert ahead.value(f"{cache}.{kind}.sent") == misses - hits
    assert float(ahead.value("cycles") or 0) < float(plain.value("cycles") or 0)
