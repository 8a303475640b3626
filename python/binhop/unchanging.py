"""`Unchanging` notices a change of the state that a policy finds outside its calls.

`Unchanging` looks at a function's closure, defaults, attributes and the globals that it names. Of a class it
looks at the attributes and at the defaults of its methods, not at what its methods reach elsewhere. Where a
function or a method names Python's module `random`, its state is looked at, too.

It compares numbers, texts, containers, memory such as NumPy's, and objects whose class is defined in the
policy's module. An iterator always counts as changed. It does not look into objects of other libraries, nor
into modules: a log may be written, a cache may be warm.

The cost is proportional to what is found: a table of 10^6 entries takes about a second.
"""

from __future__ import annotations

import functools
import hashlib
import io
import random
from collections import deque
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_SEQUENCES = (list, tuple, set, frozenset, deque)


class Unchanging:
    """`Unchanging` holds the first state of everything that a policy finds outside its calls.

    >>> seen = []
    >>> def choose(request, pool):
    ...     seen.append(request)
    >>> watched = Unchanging(choose)
    >>> watched.changed()
    >>> choose(1, 2)
    >>> watched.changed()
    'seen'
    """

    def __init__(self, policy: Any) -> None:
        self._policy = policy
        self._before = _states(policy)

    def changed(self) -> str | None:
        """Returns the name of the first object that has changed; None if none has."""
        now = _states(self._policy)
        names = [*self._before, *(name for name in now if name not in self._before)]
        missing = object()
        return next(
            (name for name in names if self._before.get(name, missing) != now.get(name, missing)), None
        )


def _states(policy: Any) -> dict[str, Any]:
    """Returns each name that the policy finds, and the state of its value."""
    given: dict[str, Any] = {}
    while isinstance(policy, functools.partial):
        given |= {f"argument {number + 1}": value for number, value in enumerate(policy.args)}
        given |= {f"argument {name}": value for name, value in policy.keywords.items()}
        policy = policy.func
    found = given | (_found_in(policy) if isinstance(policy, type) else _found_by(policy))
    look = _Look(policy.__module__)
    return {name: look.state(value) for name, value in found.items()}


def _found_in(of: type) -> dict[str, Any]:
    """Returns the values that the objects of a class share."""
    found: dict[str, Any] = {}
    for base in of.__mro__[:-1]:
        for name, value in vars(base).items():
            if isinstance(value, FunctionType):
                found |= {f"{name}'s {key}": kept for key, kept in _defaults(value).items()}
                found |= {key: kept for key, kept in _found_by(value).items() if _draws(kept)}
            elif not name.startswith("__"):
                found[f"{base.__name__}.{name}"] = value
    return found


def _found_by(function: FunctionType) -> dict[str, Any]:
    """Returns the values that a function finds, by the names it uses for them."""
    found = {f"{function.__name__}.{name}": value for name, value in vars(function).items()}
    for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    for name in _names(function.__code__):
        if name in function.__globals__:
            found.setdefault(name, function.__globals__[name])
    return found | _defaults(function)


def _defaults(function: FunctionType) -> dict[str, Any]:
    """Returns the default arguments, which are made once, with the function."""
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    positional = dict(zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True))
    return positional | (function.__kwdefaults__ or {})


def _names(code: CodeType) -> list[str]:
    """Returns the names that code and the functions in it may look up outside."""
    names = [*code.co_names]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names += _names(inner)
    return list(dict.fromkeys(names))


class _Look:
    """`_Look` turns a value into an object that compares equal until the value changes."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._within: dict[int, int] = {}

    def state(self, value: Any) -> Any:
        """Returns the present state of the value."""
        if isinstance(value, _PLAIN):
            return (type(value), value)
        if id(value) in self._within:  # a cycle, or the same thing once more
            return ("again", self._within[id(value)])
        self._within[id(value)] = len(self._within)
        return (id(value), self._inside(value))

    def _inside(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return tuple((self.state(key), self.state(inner)) for key, inner in value.items())
        if isinstance(value, _SEQUENCES):
            return tuple(self.state(inner) for inner in value)
        if _draws(value):
            return (value if isinstance(value, random.Random | ModuleType) else value.__self__).getstate()
        if isinstance(value, FunctionType) and value.__module__ == self._module:
            return tuple((name, self.state(inner)) for name, inner in _found_by(value).items())
        if (memory := _memory(value)) is not None:
            return hashlib.blake2b(memory).digest()
        if isinstance(value, Iterator) and not isinstance(value, io.IOBase):
            return object()
        if isinstance(value, SimpleNamespace) or type(value).__module__ == self._module:
            slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
            attributes = {name: getattr(value, name, None) for name in slots if name != "__dict__"}
            return self._inside(attributes | getattr(value, "__dict__", {}))
        return None


def _draws(value: Any) -> bool:
    """Returns whether the value is a source of random numbers with a state, or a method of one."""
    of = value if isinstance(value, random.Random) else getattr(value, "__self__", None)
    return value is random or (isinstance(of, random.Random) and not isinstance(of, random.SystemRandom))


def _memory(value: Any) -> bytes | None:
    """Returns the bytes of an array; None if the value is no array."""
    try:
        return memoryview(value).tobytes()
    except (TypeError, BufferError, ValueError, NotImplementedError):
        return None


__all__ = ["Unchanging"]
