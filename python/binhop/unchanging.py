"""`Unchanging` notices a change of the state that a policy finds outside its calls.

`Unchanging` looks at everything that a function finds: its closure, its defaults, its attributes, and the
globals that its code names. In a class it looks at the attributes, and at everything that its methods find.
From each object it goes on to the objects that this object holds, up to `DEEPEST` objects deep: containers,
memory such as NumPy's, and functions, classes, objects and modules of the user's own code. In a module it
looks only at the names that the code uses, as in `helper.table`. It looks at sources of random numbers
(Python's, NumPy's) wherever they are. An iterator always counts as changed.

Code is the user's own unless it belongs to Python, to an installed package, or to binhop.

`Unchanging` does not notice:
- state in objects of other packages, so that a logger may be used, and in modules that no code names;
- what is reached by a computed name (`globals()[name]`, `getattr(helper, name)`) or an import within a call;
- what is outside the process or belongs to the system: files, the clock, `os.urandom`;
- what is deeper than `DEEPEST` objects.

The cost is proportional to what is found: a table of 10^6 entries takes about a second.
"""

from __future__ import annotations

import dis
import functools
import io
import pickle
import random
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from binhop.lazy_imports import hashlib, sysconfig

DEEPEST = 50
"""The most nested objects that are looked at."""

_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_SEQUENCES = (list, tuple, set, frozenset, deque)
_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
"""The instructions of Python that name a global."""
_WRAPPED = ("__func__", "fget", "fset", "func", "__wrapped__")
"""The attributes that hold the function of a class method, static method, property or wrapper."""


class Unchanging:
    """`Unchanging` holds the first state of everything that a policy finds outside its calls.

    If the function was made for one placement (`made`), only its globals are looked at: its closure, its
    defaults and its attributes are its own memory.

    >>> seen = []
    >>> def choose(request, pool):
    ...     seen.append(request)
    >>> watched = Unchanging(choose)
    >>> watched.changed()
    >>> choose(1, 2)
    >>> watched.changed()
    'seen'
    """

    def __init__(self, policy: Any, *, made: bool = False) -> None:
        self._policy = policy
        self._made = made
        self._before = self._states()

    def changed(self) -> str | None:
        """Returns the name of the first object that has changed; None if none has."""
        now = self._states()
        names = [*self._before, *(name for name in now if name not in self._before)]
        missing = object()
        return next(
            (name for name in names if self._before.get(name, missing) != now.get(name, missing)), None
        )

    def _states(self) -> dict[str, Any]:
        """Returns each name that the policy finds, and the state of its value."""
        policy = self._policy
        given: dict[str, Any] = {}
        while isinstance(policy, functools.partial):
            given |= {f"argument {number + 1}": value for number, value in enumerate(policy.args)}
            given |= {f"argument {name}": value for name, value in policy.keywords.items()}
            policy = policy.func
        if self._made:
            found = _globals_of(policy)
        else:
            found = given | (_found_in(policy) if isinstance(policy, type) else _found_by(policy))
        look = _Look()
        return {name: look.state(value) for name, value in found.items()}


def _found_in(of: type) -> dict[str, Any]:
    """Returns the values that the objects of a class share, and the values that its methods find."""
    found: dict[str, Any] = {}
    for base in of.__mro__:
        if not _is_own(base.__module__):
            continue
        for name, value in vars(base).items():
            methods = _functions(value)
            for method in methods:
                of_method = _found_by(method)
                defaults = _defaults(method)
                found |= {f"{name}'s {key}": kept for key, kept in defaults.items()}
                for key, kept in of_method.items():
                    if key not in defaults:
                        found.setdefault(key, kept)
            if not methods and not name.startswith("__"):
                found[f"{base.__name__}.{name}"] = value
    return found


def _functions(value: Any) -> list[FunctionType]:
    """Returns the functions of a method: itself, or what it wraps."""
    if isinstance(value, FunctionType):
        return [value]
    if not isinstance(value, staticmethod | classmethod | property | functools.cached_property):
        return []
    parts = [getattr(value, name, None) for name in _WRAPPED]
    return [part for part in parts if isinstance(part, FunctionType)]


def _found_by(function: FunctionType) -> dict[str, Any]:
    """Returns the values that a function finds, by the names it uses for them."""
    found = {f"{function.__name__}.{name}": value for name, value in vars(function).items()}
    for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
        try:
            if name != "__class__":  # in a method with `super()`: the class is looked at anyway
                found[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    found |= _defaults(function)
    return found | {name: value for name, value in _globals_of(function).items() if name not in found}


def _globals_of(function: FunctionType) -> dict[str, Any]:
    """Returns the globals that a function's code names, and what it names of modules among them."""
    found: dict[str, Any] = {}
    wanted, names = _names(function.__code__)
    for name in wanted:
        if name in function.__globals__:
            value = found[name] = function.__globals__[name]
            if isinstance(value, ModuleType):
                found |= _found_of(name, value, names)
    return found


def _found_of(name: str, module: ModuleType, names: tuple[str, ...]) -> dict[str, Any]:
    """Returns the values of a module that code with these names may use."""
    if _is_own(module.__name__):
        return {f"{name}.{inner}": vars(module)[inner] for inner in names if inner in vars(module)}
    drawn = getattr(module, "random", None) if "random" in names else None
    return {f"{name}.random": drawn} if isinstance(drawn, ModuleType) else {}


def _defaults(function: FunctionType) -> dict[str, Any]:
    """Returns the default arguments, which are made once, with the function."""
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    positional = dict(zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True))
    return positional | (function.__kwdefaults__ or {})


@functools.lru_cache(maxsize=4096)
def _names(code: CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the names of globals in code and in the functions in it, and all names, attributes too."""
    wanted = [each.argval for each in dis.get_instructions(code) if each.opname in _GLOBAL]
    names = [*code.co_names]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            inner_wanted, inner_names = _names(inner)
            wanted += inner_wanted
            names += inner_names
    return tuple(dict.fromkeys(wanted)), tuple(dict.fromkeys(names))


@functools.cache
def _is_own(module: str) -> bool:
    """Returns whether a module is the user's own code: not Python's, not installed, not binhop's."""
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names or root == "binhop":
        return root == "__main__"
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return root not in sys.builtin_module_names
    installed = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    return not any(Path(file).is_relative_to(place) for place in installed)


class _Look:
    """`_Look` turns a value into an object that compares equal until the value changes."""

    def __init__(self) -> None:
        self._within: dict[int, int] = {}
        self._depth = 0

    def state(self, value: Any) -> Any:
        """Returns the present state of the value."""
        if isinstance(value, _PLAIN):
            return (type(value), value)
        if id(value) in self._within:  # a cycle, or the same thing once more
            return ("again", self._within[id(value)])
        self._within[id(value)] = len(self._within)
        if self._depth >= DEEPEST:
            return id(value)
        self._depth += 1
        try:
            return (id(value), self._inside(value))
        finally:
            self._depth -= 1

    def _inside(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return tuple((self.state(key), self.state(inner)) for key, inner in [*value.items()])
        if isinstance(value, _SEQUENCES):
            return tuple(self.state(inner) for inner in [*value])
        if (drawn := _draws(value)) is not None:
            return drawn
        if (called := _called(value)) is not None:
            return self._of_all(called)
        if (memory := _memory(value)) is not None:
            return hashlib.blake2b(memory).digest()
        if isinstance(value, Iterator) and not isinstance(value, io.IOBase):
            return object()
        if isinstance(value, SimpleNamespace) or _is_own(type(value).__module__):
            slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ())]
            attributes = {name: getattr(value, name, None) for name in slots if name != "__dict__"}
            return self._of_all(attributes | getattr(value, "__dict__", {})), self.state(type(value))
        return None

    def _of_all(self, found: Mapping[str, Any]) -> Any:
        return tuple((name, self.state(inner)) for name, inner in [*found.items()])


def _called(value: Any) -> dict[str, Any] | None:
    """Returns what the user's own function, method or class finds; None for any other value."""
    if isinstance(value, functools.partial):
        return {"func": value.func, "args": value.args, "keywords": value.keywords}
    if isinstance(value, functools._lru_cache_wrapper):
        return {"func": value.__wrapped__}
    if isinstance(value, MethodType):
        return {"self": value.__self__, "func": value.__func__}
    if isinstance(value, FunctionType):
        return _found_by(value) if _is_own(value.__module__) else {}
    if isinstance(value, type):
        return _found_in(value) if _is_own(value.__module__) else {}
    return None


def _draws(value: Any) -> bytes | None:
    """Returns the state of a source of random numbers, or of the source that a method belongs to; or None."""
    own = getattr(value, "__self__", None)
    of = value if own is None or isinstance(value, type) else own
    state = None
    if isinstance(of, random.Random) and not isinstance(of, random.SystemRandom):
        state = of.getstate()
    elif of is random:
        state = random.getstate()
    elif (numpy := sys.modules.get("numpy.random")) is not None:
        if of is numpy:
            state = numpy.get_state(legacy=False)
        elif isinstance(of, numpy.RandomState):
            state = of.get_state(legacy=False)
        elif isinstance(of, numpy.Generator):
            state = of.bit_generator.state
        elif isinstance(of, numpy.BitGenerator):
            state = of.state
    return None if state is None else hashlib.blake2b(pickle.dumps(state)).digest()


def _memory(value: Any) -> bytes | None:
    """Returns the bytes of an array; None if the value is no array."""
    try:
        return memoryview(value).tobytes()
    except (TypeError, BufferError, ValueError, NotImplementedError):
        return None


__all__ = ["DEEPEST", "Unchanging"]
