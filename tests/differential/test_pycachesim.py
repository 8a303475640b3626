"""Tests that pycachesim 0.3.1 has the same misses and evictions at every level.

Its backend.c shows how its names map to binhop's:
- It counts a store's fill as a load: LOAD is no reference count. MISS counts lines not found, by a load or
  by the fill of a store, so at level 1 it is the sum of our demand misses; at level 2 write-backs allocate
  through the same path, so it is our misses of every kind, `writeback` included.
- EVICT counts only dirty victims, those written to the level below: our `evictions.dirty`.
- load(addr) and store(addr) parse the address into the lower half of an uninitialised long: they go wrong
  now and then. iterload and iterstore do not; a batch of one is a single access.
- It fills, then writes the victim back: our default order, "after-fill".
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from cachesim import Cache, CacheSimulator, MainMemory

import binhop
from tests.conftest import FETCH, LOAD, STORE, events

if TYPE_CHECKING:
    from pathlib import Path

Row = tuple[int, int]

MACHINE = """
name = "reference"
memory = {{ page = "4KiB" }}
placement = {{ policy = "identity" }}
[cache.l1i]
serves = "fetch"
size = "{i}B"
line = "{line}B"
next = "l2"
[cache.l1d]
serves = "data"
size = "{d}B"
line = "{line}B"
next = "l2"
[cache.l2]
size = "{l2}B"
line = "{line2}B"
next = "memory"
"""


class Reference:
    """`Reference` has two level-1 caches over one level 2: direct-mapped, write-back and write-allocate."""

    def __init__(self, i: int, d: int, line: int, l2: int, line2: int) -> None:
        self.l2 = Cache("l2", l2 // line2, 1, line2, "LRU")
        self.l1i = Cache("l1i", i // line, 1, line, "LRU", load_from=self.l2, store_to=self.l2)
        self.l1d = Cache("l1d", d // line, 1, line, "LRU", load_from=self.l2, store_to=self.l2)
        self.memory = MainMemory()
        self.memory.load_to(self.l2)
        self.memory.store_from(self.l2)
        self.simulators = [CacheSimulator(self.l1i, self.memory), CacheSimulator(self.l1d, self.memory)]

    def run(self, rows: list[Row]) -> dict[str, int]:
        i, d = self.l1i.backend, self.l1d.backend
        do = {FETCH: i.iterload, LOAD: d.iterload, STORE: d.iterstore}
        for op, address in rows:
            do[op]((address,), 4)
        counts = {}
        for cache in (self.l1i, self.l1d, self.l2):
            stats = cache.stats()
            counts[f"{cache.name}.misses"] = stats["MISS_count"]
            counts[f"{cache.name}.evictions.dirty"] = stats["EVICT_count"]
        return counts


def ours(result: binhop.Result) -> dict[str, int]:
    counts = {}
    for cache in ("l1i", "l1d", "l2"):
        misses = result.results.filter(metric=f"{cache}.writeback.misses")["value"].sum()
        for kind in ("fetch", "load", "store"):
            misses += result.results.filter(metric=f"{cache}.{kind}.misses")["value"].sum()
        counts[f"{cache}.misses"] = int(misses)
        counts[f"{cache}.evictions.dirty"] = result.value(f"{cache}.evictions.dirty")
    return counts


def random_rows(seed: int, count: int) -> list[Row]:
    """Returns loops and strides with some noise over 100 KiB: hits, conflicts, dirty victims."""
    draw = random.Random(seed)
    rows: list[Row] = []
    pc, data = 0x1000, 0x20000
    for _ in range(count):
        pc = draw.randrange(0x1000, 0x9000, 4) if draw.random() < 0.05 else pc + 4
        rows.append((FETCH, pc))
        if draw.random() < 0.5:
            data = draw.randrange(0x10000, 0x28000, 4) if draw.random() < 0.2 else data + 4
            rows.append((STORE if draw.random() < 0.35 else LOAD, data))
    return rows


HIERARCHIES = [
    {"i": 1024, "d": 1024, "line": 16, "l2": 8192, "line2": 16},
    {"i": 1024, "d": 2048, "line": 32, "l2": 16384, "line2": 128},
    {"i": 4096, "d": 4096, "line": 64, "l2": 32768, "line2": 64},
    {"i": 512, "d": 256, "line": 32, "l2": 2048, "line2": 64},
]


def name(shape: dict[str, int]) -> str:
    return f"{shape['d']}-{shape['line']}-{shape['line2']}"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "shape", HIERARCHIES, ids=lambda shape: f"{shape['d']}-{shape['line']}-{shape['line2']}"
)
def test_random_streams_miss_and_evict_equally_at_every_level(shape: dict[str, int], seed: int) -> None:
    rows = random_rows(seed, 20_000)
    machine = binhop.Machine.parse(MACHINE.format(**shape))
    result = binhop.simulate(machine, events([(op, address, 4, 1) for op, address in rows]))
    expected = Reference(**shape).run(rows)
    assert min(expected.values()) >= 0
    assert expected["l2.misses"] > 1000, "the stream is too tame to prove anything"
    assert expected["l2.evictions.dirty"] > 100
    assert ours(result) == expected


def din_rows(path: Path) -> list[Row]:
    """Returns the rows as Dinero reads them: 4 bytes at the address rounded down to 4."""
    ops = {"0": LOAD, "1": STORE, "2": FETCH}
    rows = []
    for line in path.read_text().splitlines():
        label, address = line.split()[:2]
        rows.append((ops[label], int(address, 16) & ~3))
    return rows


TWO_LEVEL = {"i": 32768, "d": 32768, "line": 32, "l2": 1 << 20, "line2": 128}


@pytest.mark.parametrize(
    "shape", [TWO_LEVEL, *HIERARCHIES], ids=lambda shape: f"{shape['d']}-{shape['line']}-{shape['line2']}"
)
def test_a_compiler_misses_and_evicts_equally_at_every_level(cc1: Path, shape: dict[str, int]) -> None:
    machine = binhop.Machine.parse(MACHINE.format(**shape))
    assert ours(binhop.simulate(machine, cc1)) == Reference(**shape).run(din_rows(cc1))
