"""Tests placement policies written in Python."""

from __future__ import annotations

import random
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import binhop

if TYPE_CHECKING:
    from pathlib import Path


def least_recent(request: binhop.Request, pool: binhop.Pool) -> int:
    return pool[0]


def uniform(request: binhop.Request, pool: binhop.Pool) -> int:
    return pool[request.draw(len(pool))]


def equal_color(request: binhop.Request, pool: binhop.Pool) -> int:
    return next((frame for frame in pool.frames() if frame % 256 == request.page_no % 256), pool[0])


class Fewest:
    """`Fewest` takes the pool's bin with fewest pages; then with most frames; then at random."""

    def __init__(self) -> None:
        self.bin_of: dict[int, int] = {}

    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        used, available = [0] * 16, [0] * 16
        frames = pool.frames()
        for bin in self.bin_of.values():
            used[bin] += 1
        for frame in frames:
            available[frame % 16] += 1
        best = min((used[bin], -available[bin]) for bin in range(16) if available[bin])
        ties = [bin for bin in range(16) if (used[bin], -available[bin]) == best]
        bin = ties[request.draw(len(ties))] if len(ties) > 1 else ties[0]
        frame = next(frame for frame in frames if frame % 16 == bin)
        evicted = pool.holds(frames.index(frame))
        if evicted is not None:
            del self.bin_of[evicted]
        self.bin_of[request.page] = bin
        return frame


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("first", least_recent),
        ("random", uniform),
        ("page-coloring-equal", equal_color),
    ],
)
def test_a_built_in_policy_written_in_python_gives_the_same_counts(
    lin: Path, name: str, policy: object
) -> None:
    machine = binhop.Machine.load("kh90", [f"placement.policy={name}"])
    built_in = binhop.simulate(machine, lin, seeds=3)
    written = binhop.simulate(machine, lin, seeds=3, policy=policy)
    assert written.results.equals(built_in.results)


def test_a_policy_that_counts_pages_by_bin_is_sequential_under_scarce_memory() -> None:
    draw = random.Random(1)
    pages = [draw.randrange(100) for _ in range(20_000)]
    columns = {"op": pl.UInt8, "addr": pl.UInt64, "size": pl.UInt32, "count": pl.UInt32}
    rows = [(op, page * 4096, 8, 1) for page in pages for op in (0, 1)]
    trace = pl.DataFrame(rows, schema=columns, orient="row")
    scarce = ["memory.page=4KiB", "memory.size=256KiB", "placement.pool=64KiB", "placement.bins=16"]
    machine = binhop.Machine.load("kh90", ["placement.policy=sequential", *scarce])
    built_in = binhop.simulate(machine, trace, seeds=2)
    assert built_in.value("os.evictions", seed=0) > 1000
    written = binhop.simulate(machine, trace, seeds=2, policy=Fewest)
    assert written.results.equals(built_in.results)


def logged(log: SimpleQueue[Any]) -> list[Any]:
    """Returns what policies put into a queue. A list would be state that the next placement finds."""
    return [log.get() for _ in range(log.qsize())]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_class_keeps_state_for_each_placement(lin: Path, threads: int) -> None:
    log: SimpleQueue[Any] = SimpleQueue()

    class Counting:
        def __init__(self) -> None:
            self.calls = 0
            log.put(self)

        def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
            assert request.ordinal == self.calls
            self.calls += 1
            return pool[self.calls % len(pool)]

    result = binhop.simulate("kh90", lin, seeds=3, threads=threads, policy=Counting)
    made = logged(log)
    assert len(made) == 3
    for seed in range(3):
        assert result.value("os.faults", seed=seed) in {policy.calls for policy in made}


def test_the_request_and_the_pool_say_what_there_is(lin: Path) -> None:
    log: SimpleQueue[Any] = SimpleQueue()

    class Look:
        def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
            frames = pool.frames()
            assert len(frames) == len(pool) == 256
            assert len(set(frames)) == 256
            assert frames[3] == pool[3]
            assert frames[-1] == pool[-1]
            assert pool.holds(0) is None
            with pytest.raises(IndexError):
                pool[256]
            assert request.segment in request.segments
            assert request.segments == sorted(set(request.segments))
            of = (request.page, request.asid, request.page_no, request.segment)
            log.put((*of, repr(request), repr(pool)))
            return frames[0]

    binhop.simulate("kh90", lin, seeds=1, policy=Look)
    seen = logged(log)
    assert [page for page, *_ in seen] == list(range(len(seen)))
    assert {asid for _, asid, *_ in seen} == {0}


def test_a_draw_depends_on_seed_and_ordinal_only(lin: Path) -> None:
    once: SimpleQueue[int] = SimpleQueue()
    twice: SimpleQueue[int] = SimpleQueue()

    class Once:
        def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
            once.put(request.draw(1000))
            return pool[0]

    class Twice:
        def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
            request.draw(7, sub=1)
            twice.put(request.draw(1000))
            return pool[0]

    binhop.simulate("kh90", lin, seeds=[3], policy=Once)
    binhop.simulate("kh90", lin, seeds=[3], policy=Twice)
    drawn = logged(once)
    assert drawn == logged(twice)
    assert len(set(drawn)) > 1


def outside(request: binhop.Request, pool: binhop.Pool) -> int:
    return next(frame for frame in range(8192) if frame not in set(pool.frames()))


def nothing(request: binhop.Request, pool: binhop.Pool) -> None:
    return None


def breaks(request: binhop.Request, pool: binhop.Pool) -> int:
    raise ValueError("I would rather not")


class Keeps:
    def __init__(self) -> None:
        self.kept: list[binhop.Pool] = []

    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        self.kept.append(pool)
        return self.kept[0][0]


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (outside, "a frame of the pool"),
        (nothing, "None"),
        (breaks, "I would rather not"),
        (Keeps, "only while choose"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_wrong_policy_is_named_with_its_request(lin: Path, policy: object, says: str, threads: int) -> None:
    with pytest.raises(binhop.RequestError, match=says) as caught:
        binhop.simulate("kh90", lin, seeds=2, threads=threads, policy=policy)
    error = caught.value
    assert policy.__name__ in error.place  # type: ignore[attr-defined]
    assert "page " in error.place
    assert "address space 0" in error.place


def test_what_the_policy_raised_is_the_cause(lin: Path) -> None:
    with pytest.raises(binhop.RequestError) as caught:
        binhop.simulate("kh90", lin, seeds=1, policy=breaks)
    assert isinstance(caught.value.__cause__, ValueError)


def test_ctrl_c_in_a_policy_is_ctrl_c(lin: Path) -> None:
    def stop(request: binhop.Request, pool: binhop.Pool) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        binhop.simulate("kh90", lin, seeds=1, policy=stop)


@pytest.mark.parametrize("name", ["buddy", "colored-lists"])
def test_a_policy_needs_a_machine_with_a_pool(lin: Path, name: str) -> None:
    with pytest.raises(binhop.RequestError, match="has none") as caught:
        binhop.simulate(binhop.Machine.load("kh90", [f"placement.policy={name}"]), lin, policy=least_recent)
    assert caught.value.value == name
    assert "least_recent" in caught.value.place


def test_a_class_that_cannot_be_made_is_named(lin: Path) -> None:
    class Needy:
        def __init__(self, something: int) -> None: ...

        def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
            return pool[0]

    with pytest.raises(binhop.RequestError, match="Needy"):
        binhop.simulate("kh90", lin, seeds=1, policy=Needy)
