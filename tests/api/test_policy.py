"""Placement policies written in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import binhop

if TYPE_CHECKING:
    from pathlib import Path


def least_recent(request: binhop.Request, pool: binhop.Pool) -> int:
    return pool[0]


def uniform(request: binhop.Request, pool: binhop.Pool) -> int:
    return pool[request.draw(len(pool))]


@pytest.mark.parametrize(("name", "policy"), [("first", least_recent), ("random", uniform)])
def test_a_built_in_policy_written_in_python_gives_the_same_counts(
    lin: Path, name: str, policy: object
) -> None:
    machine = binhop.Machine.load("kh90", [f"placement.policy={name}"])
    built_in = binhop.simulate(machine, lin, seeds=3)
    written = binhop.simulate(machine, lin, seeds=3, policy=policy)
    assert written.results.equals(built_in.results)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_class_keeps_state_for_each_placement(lin: Path, threads: int) -> None:
    made = []

    class Counting:
        def __init__(self) -> None:
            self.calls = 0
            made.append(self)

        def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
            assert request.ordinal == self.calls
            self.calls += 1
            return pool[self.calls % len(pool)]

    result = binhop.simulate("kh90", lin, seeds=3, threads=threads, policy=Counting)
    assert len(made) == 3
    for seed in range(3):
        assert result.value("os.faults", seed=seed) in {policy.calls for policy in made}


def test_the_request_and_the_pool_say_what_there_is(lin: Path) -> None:
    seen = []

    def look(request: binhop.Request, pool: binhop.Pool) -> int:
        frames = pool.frames()
        assert len(frames) == len(pool) == 256
        assert len(set(frames)) == 256
        assert frames[3] == pool[3]
        assert frames[-1] == pool[-1]
        assert pool.holds(0) is None
        with pytest.raises(IndexError):
            pool[256]
        seen.append((request.page, request.asid, request.page_no, request.segment, repr(request), repr(pool)))
        return frames[0]

    binhop.simulate("kh90", lin, seeds=1, policy=look)
    assert [page for page, *_ in seen] == list(range(len(seen)))
    assert {asid for _, asid, *_ in seen} == {0}


def test_a_draw_depends_on_seed_and_ordinal_only(lin: Path) -> None:
    drawn: dict[str, list[int]] = {"once": [], "twice": []}

    def once(request: binhop.Request, pool: binhop.Pool) -> int:
        drawn["once"].append(request.draw(1000))
        return pool[0]

    def twice(request: binhop.Request, pool: binhop.Pool) -> int:
        request.draw(7, sub=1)
        drawn["twice"].append(request.draw(1000))
        return pool[0]

    binhop.simulate("kh90", lin, seeds=[3], policy=once)
    binhop.simulate("kh90", lin, seeds=[3], policy=twice)
    assert drawn["once"] == drawn["twice"]
    assert len(set(drawn["once"])) > 1


KEPT: list[binhop.Pool] = []


def outside(request: binhop.Request, pool: binhop.Pool) -> int:
    return next(frame for frame in range(8192) if frame not in set(pool.frames()))


def nothing(request: binhop.Request, pool: binhop.Pool) -> None:
    return None


def breaks(request: binhop.Request, pool: binhop.Pool) -> int:
    raise ValueError("I would rather not")


def keeps(request: binhop.Request, pool: binhop.Pool) -> int:
    KEPT.append(pool)
    return KEPT[0][0]


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (outside, "a frame of the pool"),
        (nothing, "None"),
        (breaks, "I would rather not"),
        (keeps, "only while choose"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_wrong_policy_is_named_with_its_request(lin: Path, policy: object, says: str, threads: int) -> None:
    KEPT.clear()
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


def test_a_class_that_cannot_be_made_is_named(lin: Path) -> None:
    class Needy:
        def __init__(self, something: int) -> None: ...

        def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
            return pool[0]

    with pytest.raises(binhop.RequestError, match="Needy"):
        binhop.simulate("kh90", lin, seeds=1, policy=Needy)
