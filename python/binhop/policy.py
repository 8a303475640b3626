"""Checks placement policies written in Python, and gives each placement a policy of its own.

The counts of a placement depend on its seed alone, so nothing that a policy learned in one placement may
reach another placement. Three things can be a policy:

- a class with a method `choose(request, pool)`: it is made anew, without arguments, for each placement;
- a factory, which is a function without arguments: it is called for each placement, and returns a new
  object with `choose`, or a new function `choose`. A lambda or a partial gives a class its parameters;
- a plain function `choose(request, pool)`: it is the same for all placements, and has no memory.

Everything else (an instance, a bound method, another callable) cannot be made anew, and is refused. State
that a policy finds outside its calls, in globals and what they lead to, is watched (`binhop.unchanging` says
what is noticed and what is not). A policy that changes such state is refused as soon as a check notices it.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
import weakref
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from binhop.errors import RequestError
from binhop.unchanging import Unchanging

if TYPE_CHECKING:
    from collections.abc import Callable

DEEPEST = 4
"""The deepest nesting of runs with policies in Python. A policy could simulate with itself for ever."""

_ANEW = (
    "give the class, or a function without arguments that returns a new policy, as in policy=lambda: Mine(4)"
)
_RULE = "choose(request, pool) must return a frame of the pool"


class PolicyError(RequestError):
    """`PolicyError` reports a wrong policy. The run does not add the page that was placed to its message."""

    complete = True


class _Depth(threading.local):
    """`_Depth` counts the calls of policies that this thread is in."""

    now = 0


_depth = _Depth()


def name_of(policy: Any) -> str:
    """Returns a policy's name in tables and errors: that of the function, the class, or the object's class.

    >>> name_of(functools.partial(print, 1)), name_of(3)
    ('print', 'int')
    """
    if isinstance(policy, functools.partial):
        return name_of(policy.func)
    return str(getattr(policy, "__name__", type(policy).__name__))


class Policies:
    """`Policies` makes the policy of each placement of a run.

    Raises:
        PolicyError: What is given is no policy, or cannot be made anew.
    """

    def __init__(self, policy: Any) -> None:
        self.name = name_of(policy)
        self._policy = policy
        self._place = f"placement policy {self.name}"
        self._made: dict[int, Callable[[], Any]] = {}
        self._calls = itertools.count(1)
        self._lock = threading.Lock()
        self._makes = self._makes_policies()
        self._watched: dict[Any, Unchanging] = {}
        if self._makes and not isinstance(policy, type):
            # No placement uses this policy. With it, a factory that repeats an object is refused even in a
            # run of one placement, and a factory may fill a table when it is first called.
            self._spare = self._anew()
        self._watched[policy] = Unchanging(policy)

    def make(self) -> Callable[[Any, Any], Any]:
        """Returns the function `choose` of one placement."""
        made = self._anew() if self._makes else self._policy
        choose: Callable[[Any, Any], Any] = getattr(made, "choose", made)
        if self._makes:
            self._watch(made)
        return functools.partial(self._call, choose)

    def _watch(self, made: Any) -> None:
        """Watches what a policy that was made for one placement finds, apart from its own memory."""
        while isinstance(made, functools.partial):
            made = made.func
        own: Any = made.__self__ if isinstance(made, MethodType) else made
        key = own.__code__ if isinstance(own, FunctionType) else type(own)
        with self._lock:
            if key not in self._watched:
                of_placement = isinstance(own, FunctionType)
                self._watched[key] = Unchanging(own if of_placement else key, made=of_placement)

    def check(self) -> None:
        """Refuses a policy that has changed an object which the next placement uses, too."""
        with self._lock:
            # The policy that a factory made is checked before the factory, because it knows the changed
            # object by a nearer name.
            changes = [watched.changed() for watched in reversed(self._watched.values())]
        if (changed := next((name for name in changes if name is not None), None)) is not None:
            rule = "the policy changes this object, and the next placement would find the change"
            remedy = "keep such state in self: give a class, which is made anew for each placement"
            raise PolicyError(changed, self._place, rule, remedy)

    def _makes_policies(self) -> bool:
        """Returns whether the policy is called for each placement. An object that is no policy is refused."""
        policy = self._policy
        if isinstance(policy, type):
            if not callable(getattr(policy, "choose", None)):
                rule = "a policy class has a method choose(self, request, pool)"
                raise PolicyError(self.name, self._place, rule, "add it, or name another class")
            return True
        inner = policy
        while isinstance(inner, functools.partial):
            inner = inner.func
        if isinstance(inner, type) and inner is not policy:
            return True
        if not isinstance(inner, FunctionType):
            raise self._kept(policy)
        if inspect.isgeneratorfunction(inner) or inspect.iscoroutinefunction(inner):
            rule = f"{_RULE}; a function with yield, or an async one, returns something else"
            raise PolicyError(self.name, self._place, rule, "use return, and give a class to keep state")
        if _takes(policy, 2):
            return False
        if _takes(policy, 0):
            return True
        rule = (
            "a policy is a function choose(request, pool), or a function without arguments that returns one"
        )
        signature = f"{self.name}{inspect.signature(policy)}"
        raise PolicyError(signature, self._place, rule, "give it these two parameters")

    def _kept(self, policy: Any) -> PolicyError:
        if isinstance(policy, MethodType):
            owner = name_of(policy.__self__)
            what = (
                f"{owner}.{self.name}" if isinstance(policy.__self__, type) else f"{self.name} of one {owner}"
            )
        elif callable(policy) or hasattr(policy, "choose"):
            what = f"one {self.name}"
        else:
            rule = "a policy is a function choose(request, pool), or a class with such a method"
            return PolicyError(repr(policy), self._place, rule, "see help(binhop.simulate)")
        rule = "an object keeps what it learns, so a placement would depend on earlier placements"
        return PolicyError(what, self._place, rule, _ANEW)

    def _anew(self) -> Any:
        """Returns a new policy. A policy that was returned before is refused."""
        made = self._policy()
        if isinstance(made, type) or not callable(getattr(made, "choose", made)):
            rule = "the factory must return an object with choose(request, pool), or such a function"
            raise PolicyError(repr(made), self._place, rule, "return a new one at each call")
        own = made.__self__ if isinstance(made, MethodType) else made
        with self._lock:
            if self._made.get(id(own), _gone)() is own:
                rule = "the factory returned the same object twice, and each placement needs a new object"
                raise PolicyError(repr(made), self._place, rule, "make a new one at each call")
            self._made[id(own)] = _held(own)
        return made

    def _call(self, choose: Callable[[Any, Any], Any], request: Any, pool: Any) -> Any:
        _depth.now += 1
        try:
            frame = choose(request, pool)
        finally:
            _depth.now -= 1
        calls = next(self._calls)
        # Checks become rarer from the first call on: large tables cost little, and changes are seen early.
        if calls & (calls - 1) == 0 and calls.bit_length() % 3 == 1:
            self.check()
        return frame


def policies(policy: Any) -> Policies | None:
    """Returns the checked policies of a run; None if the machine's own policy is used."""
    if policy is None:
        return None
    made = Policies(policy)
    if _depth.now >= DEEPEST:
        rule = f"it simulates with policies in Python, {DEEPEST} runs in one another, and would not end"
        raise PolicyError(
            made.name, "placement policy", rule, "have choose() return a frame without simulating"
        )
    return made


def _gone() -> None:
    """Returns None, as a dead weak reference does."""


def _held(made: Any) -> Callable[[], Any]:
    """Returns a weak reference to the object if its class allows one, and a strong reference otherwise."""
    try:
        return weakref.ref(made)
    except TypeError:
        return lambda: made


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    return True


__all__ = ["DEEPEST", "Policies", "PolicyError", "name_of", "policies"]
