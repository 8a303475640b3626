"""Each placement has a policy of its own, and no policy passes on what it learned in another placement."""

from __future__ import annotations

import functools
import itertools
import logging
import random
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

import binhop
from binhop.policy import DEEPEST
from tests.api import helping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Counting:
    """`Counting` chooses by the number of its calls, a state that must start anew with each placement."""

    def __init__(self, step: int = 1) -> None:
        self.calls = 0
        self.step = step

    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        self.calls += self.step
        return pool[self.calls % len(pool)]

    __call__ = choose


class Registered(Counting):
    """`Registered` keeps its state in the class, where all its objects find it."""

    asked: ClassVar[list[int]] = []

    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        self.asked.append(request.page)
        return pool[len(self.asked) % len(pool)]


def counting() -> Callable[[binhop.Request, binhop.Pool], int]:
    calls = 0

    def choose(request: binhop.Request, pool: binhop.Pool) -> int:
        nonlocal calls
        calls += 1
        return pool[calls % len(pool)]

    return choose


def plain(request: binhop.Request, pool: binhop.Pool) -> int:
    return pool[request.page % len(pool)]


def stepping(step: int, request: binhop.Request, pool: binhop.Pool) -> int:
    return pool[step * request.page % len(pool)]


ASKED = {"calls": 0}
TABLE = {page: page % 7 for page in range(512)}


def counts_in_a_global(request: binhop.Request, pool: binhop.Pool) -> int:
    ASKED["calls"] += 1
    return pool[ASKED["calls"] % len(pool)]


def counts_in_a_default(request: binhop.Request, pool: binhop.Pool, seen: list[int] = []) -> int:  # noqa: B006
    seen.append(request.page)
    return pool[len(seen) % len(pool)]


def counts_in_an_attribute(request: binhop.Request, pool: binhop.Pool) -> int:
    counts_in_an_attribute.calls += 1  # type: ignore[attr-defined]
    return pool[counts_in_an_attribute.calls % len(pool)]  # type: ignore[attr-defined]


counts_in_an_attribute.calls = 0  # type: ignore[attr-defined]


def helped(request: binhop.Request, pool: binhop.Pool) -> int:
    return counts_in_a_global(request, pool)


def draws(request: binhop.Request, pool: binhop.Pool) -> int:
    return pool[random.randrange(len(pool))]


def yields(request: binhop.Request, pool: binhop.Pool) -> Iterator[int]:
    yield pool[0]


async def waits(request: binhop.Request, pool: binhop.Pool) -> int:
    return pool[0]


def looks_up(request: binhop.Request, pool: binhop.Pool) -> int:
    return pool[TABLE[request.page % 512]]


class Helper:
    """`Helper` is used by policies through a global. Its state is neither a policy's nor a class's."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: list[int] = []

    def next(self, most: int) -> int:
        LOG.append(most)
        return len(LOG) % most


LOG: list[int] = []
HELPER = Helper()
RANDOM = random.Random(3)
GENERATOR = np.random.default_rng(3)
DEEP: list[object] = [[[[{"deep": [[[]]]}]]]]


def drawn(most: int) -> int:
    return RANDOM.randrange(most)


def through(most: int) -> int:
    return drawn(most)


@functools.lru_cache
def remembered(most: int) -> int:
    return ASKED.setdefault(str(most), 0)


class _Names(Counting):
    """The base of policies that reach state by a name in a method; each names another way."""


class ByList(_Names):
    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        LOG.append(request.page)
        return pool[len(LOG) % len(pool)]


class ByHelper(_Names):
    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        return pool[HELPER.next(len(pool))]


class ByFunction(_Names):
    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        return pool[through(len(pool))]


class ByGenerator(_Names):
    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        return pool[int(GENERATOR.integers(len(pool)))]


class ByNumpy(_Names):
    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        return pool[int(np.random.randint(len(pool)))]


class ByModule(_Names):
    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        helping.COUNTS.append(1)
        return pool[len(helping.COUNTS) % len(pool)]


class ByProperty(_Names):
    @property
    def step_on(self) -> int:
        LOG.append(1)
        return len(LOG)

    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        return pool[self.step_on % len(pool)]


class ByStart(_Names):
    def __init__(self) -> None:
        super().__init__()
        self.random = RANDOM

    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        return pool[self.random.randrange(len(pool))]


class ByClass(_Names):
    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        Registered.asked.append(request.page)
        return pool[len(Registered.asked) % len(pool)]


class ByDepth(_Names):
    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        DEEP[0][0][0][0]["deep"][0][0].append(1)  # type: ignore[index]
        return pool[0]


class ByMemory(_Names):
    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        return pool[(remembered(request.page) + len(ASKED)) % len(pool)]


def returns_a_function_with_a_global() -> Any:
    def choose(request: binhop.Request, pool: binhop.Pool) -> int:
        LOG.append(request.page)
        return pool[len(LOG) % len(pool)]

    return choose


def numbers_its_policies() -> Counting:
    LOG.append(1)
    return Counting(len(LOG))


ONE = Counting()
COUNT, DRAWS, BYTES = itertools.count(), random.Random(1), bytearray(2)
LAMBDA: Any = lambda: Counting(3)  # noqa: E731


WARM: dict[str, list[int]] = {}


class Looking(Counting):
    """`Looking` uses names of modules and constants in its methods; an attribute has the name of a global."""

    def __init__(self) -> None:
        super().__init__()
        self.LOG = 0
        self.draws = random.Random(7)

    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        logging.getLogger("policy").debug("page %d", request.page)
        self.LOG += TABLE[request.page % 512] + self.draws.randrange(3)
        return pool[int(np.sqrt(self.LOG)) % len(pool)]


def with_a_table() -> Counting:
    WARM.setdefault("steps", [3])
    return Counting(WARM["steps"][0])


SOUND = {
    "class with constants": Looking,
    "factory that makes a table once": with_a_table,
    "class": Counting,
    "lambda": LAMBDA,
    "partial class": functools.partial(Counting, 3),
    "factory of functions": counting,
    "factory of methods": lambda: Counting().choose,
    "function": plain,
    "function with a table": looks_up,
    "partial function": functools.partial(stepping, 5),
}


@pytest.mark.parametrize("policy", SOUND.values(), ids=SOUND)
def test_a_seed_has_one_value_however_often_and_with_whatever_beside_it_it_is_run(
    lin: Path, policy: Any
) -> None:
    def value(seeds: list[int], threads: int = 1) -> float:
        return binhop.simulate("kh90", lin, seeds=seeds, policy=policy, threads=threads).value(
            "l2.mpi", seed=3
        )

    alone = value([3])
    assert [value([3]), value([2, 3]), value([3, 4], threads=2), value([5, 1, 3], threads=2)] == [alone] * 4
    pair = {"one": ("kh90", policy), "other": ("kh90", plain)}
    compared = binhop.compare(pair, lin, seeds=[1, 3], metric="l2.mpi").values
    row = compared.filter(alternative="one", metric="l2.mpi", phase="measured", seed=3)
    assert row["value"].to_list() == [alone]


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (Counting().choose, "choose of one Counting"),
        (Counting(), "one Counting"),
        (functools.partial(Counting().choose), "one choose"),
        (functools.lru_cache(plain), "one plain"),
        (len, "one len"),
        (7, "a policy is a function"),
        (int, "has a method choose"),
        (yields, "with yield"),
        (waits, "async"),
        (lambda one: one, "a function without arguments"),
        (lambda: 3, "must return an object with choose"),
        (lambda: Counting, "must return an object with choose"),
        (lambda kept=ONE: kept, "the same object twice"),
        (lambda kept=ONE: kept.choose, "the same object twice"),
        (lambda: plain, "the same object twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_made_anew_is_refused(lin: Path, policy: Any, says: str) -> None:
    with pytest.raises(binhop.RequestError, match="placement policy") as caught:
        binhop.simulate("kh90", lin, seeds=1, policy=policy)
    assert says in str(caught.value)
    if says.startswith("one") or " of one " in says:
        assert (
            "give the class, or a function without arguments that returns a new policy" in caught.value.remedy
        )


@pytest.mark.parametrize(
    ("policy", "what"),
    [
        (counting(), "calls"),
        (counts_in_a_global, "ASKED"),
        (counts_in_a_default, "seen"),
        (counts_in_an_attribute, "counts_in_an_attribute.calls"),
        (helped, "counts_in_a_global"),
        (Registered, "Registered.asked"),
        (lambda: Registered(), "Registered.asked"),
        (draws, "random"),
        (lambda request, pool, of=COUNT: pool[next(of) % len(pool)], "of"),
        (lambda request, pool, of=DRAWS: pool[of.randrange(len(pool))], "of"),
        (lambda request, pool, of=BYTES: pool[of.append(1) or len(of) % len(pool)], "of"),
        (lambda request, pool, of=(ONE,): of[0].choose(request, pool), "of"),
        (ByList, "LOG"),
        (ByHelper, "HELPER"),
        (ByFunction, "through"),
        (ByGenerator, "GENERATOR"),
        (ByNumpy, "np.random"),
        (ByModule, "helping.COUNTS"),
        (ByProperty, "LOG"),
        (ByStart, "RANDOM"),
        (ByClass, "Registered"),
        (ByDepth, "DEEP"),
        (ByMemory, "remembered"),
        (lambda: ByList(), "LOG"),
        (lambda: ByList().choose, "LOG"),
        (returns_a_function_with_a_global, "LOG"),
        (lambda: functools.partial(returns_a_function_with_a_global()), "LOG"),
        (numbers_its_policies, "LOG"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_policy_that_changes_what_the_next_placement_finds_is_refused(
    lin: Path, policy: Any, what: str
) -> None:
    with pytest.raises(binhop.RequestError, match="next placement would find") as caught:
        binhop.simulate("kh90", lin, seeds=1, policy=policy)
    assert caught.value.value == what
    assert caught.value.remedy.startswith("keep such state in self")


def test_a_change_late_in_a_run_is_found_at_its_end(lin: Path) -> None:
    kept: list[int] = []

    def late(request: binhop.Request, pool: binhop.Pool) -> int:
        if request.ordinal == 2:  # behind the first look; there is no second one before the end
            kept.append(request.page)
        return pool[0]

    with pytest.raises(binhop.RequestError) as caught:
        binhop.simulate("kh90", lin, length=40_000, seeds=1, policy=late)
    assert caught.value.value == "kept"


def test_a_comparison_refuses_it_before_it_reads_the_trace() -> None:
    with pytest.raises(binhop.RequestError, match="give the class"):
        binhop.compare([("kh90", Counting()), "kh90"], "lin", length=10**15)


def test_a_policy_that_simulates_with_itself_is_refused_by_name(lin: Path) -> None:
    begun = []

    class Endless:
        def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
            begun.append(request.page)
            binhop.simulate("kh90", lin, seeds=1, policy=Endless)
            return pool[0]

    with pytest.raises(binhop.RequestError) as caught:
        binhop.simulate("kh90", lin, seeds=2, policy=Endless)
    assert caught.value.value == "Endless"
    assert "in one another" in caught.value.rule
    assert str(caught.value).count("in one another") == 1
    assert len(begun) <= 2 * DEEPEST


def test_a_policy_may_simulate_what_ends(lin: Path) -> None:
    class Looking:
        def __init__(self) -> None:
            self.best = binhop.simulate("two-level", lin, length=1000).value("l1d.mpi")

        def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
            if request.ordinal == 0:
                binhop.simulate("kh90", lin, length=1000, seeds=1, policy=plain)
            return pool[int(self.best) % len(pool)]

    assert binhop.simulate("kh90", lin, length=20_000, seeds=1, policy=Looking).value("os.faults") > 0


def test_what_lies_too_deep_is_not_looked_at() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]

    class Policy:
        def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
            return pool[len(nested) % len(pool)]

    assert binhop.simulate("kh90", "lin", length=1000, seeds=1, policy=Policy).value("os.faults") > 0


def test_what_a_partial_binds_is_looked_at() -> None:
    def choose(request: binhop.Request, pool: binhop.Pool, memo: list[int]) -> int:
        memo[0] += 1
        return pool[len(pool) - 1 if memo[0] > 40 else 0]

    for policy in (
        functools.partial(choose, memo=[0]),
        functools.partial(functools.partial(choose, memo=[0])),
    ):
        with pytest.raises(binhop.BinhopError, match="memo"):
            binhop.simulate("kh90", "mult2.2", length=200_000, seeds=2, policy=policy)
