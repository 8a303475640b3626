"""Reads and checks the study document, which a user writes in TOML.

Every mistake is a `RequestError`: the value, the key's path in the document, the rule, the remedy.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from binhop import _binhop
from binhop.arguments import SEEDS
from binhop.errors import RequestError
from binhop.numbers import count

MACHINE = "machine"
"""The axis whose values are machines."""
SCHEME = "scheme"
"""The axis whose values are schemes for device data."""
MOST_PARTS = 32
"""The most parts of a dotted key. The parser's time and memory grow with their square; studies need five."""
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}\.[ \t]*+){{{MOST_PARTS}}}")

RESERVED = (
    *("study", "part", "cell", "workload", "phase", "seed", "metric", "unit", "value"),
    *("interval", "instructions", "asid", "kernel"),
)
"""The columns of the tables, whose names no axis may have."""


def _scalar(value: Any) -> str | int | float | bool:
    """Checks a value that a machine's key can be set to."""
    if isinstance(value, (str, int, float, bool)):
        return value
    rule = "a setting is a text, a number, true or false"
    raise PydanticCustomError("rule", "{rule}; {remedy}", {"rule": rule, "remedy": 'write it like "4MiB"'})


def _count(value: Any) -> int:
    """Checks a number of references or instructions: 50_000_000 or "50M"."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if isinstance(value, str):
        try:
            number = count(value, "")
        except RequestError:
            number = None
        if number:
            return number
    rule = "must be a whole number, at least 1, with k, M, G or T for thousands and so on"
    raise PydanticCustomError("rule", "{rule}; {remedy}", {"rule": rule, "remedy": 'write it like "50M"'})


def _seeds(value: Any) -> tuple[int, ...]:
    """Checks the number of placements, or their numbers."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _binhop.MOST_SEEDS:
        return tuple(range(value))
    several = isinstance(value, list) and 0 < len(value) <= _binhop.MOST_SEEDS
    if several and all(type(seed) is int and 0 <= seed < 2**63 for seed in value):
        return tuple(sorted({*value}))
    rule = f"must be a number of placements, 1 to {_binhop.MOST_SEEDS}, or a list of their numbers"
    raise PydanticCustomError(
        "rule", "{rule}; {remedy}", {"rule": rule, "remedy": "write it like seeds = 32"}
    )


Scalar = Annotated[Any, PlainValidator(_scalar)]
Count = Annotated[int, PlainValidator(_count)]
Seeds = Annotated[tuple[int, ...], PlainValidator(_seeds)]
Show = list[Annotated[str, Field(min_length=1)]]
Name = Annotated[str, Field(min_length=1, pattern=r"^[^\s/\\]+$")]


class _Strict(BaseModel):
    """`_Strict` refuses unknown keys, with the nearest known key, and converts no value to another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _keys(cls, data: Any) -> Any:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        if isinstance(data, dict):
            for key in data:
                if key not in known:
                    raise PydanticCustomError("unknown", "{key}", {"key": key, "known": known})
        return data


class Choice(_Strict):
    """`Choice` is a value of an axis that has a label, or that sets further keys."""

    label: Name
    value: Scalar | None = None
    settings: dict[str, Scalar] = Field(default={}, alias="set")


Entry = Annotated[
    Annotated[Scalar, Tag("<scalar>")] | Annotated[Choice, Tag("<choice>")],
    Discriminator(lambda value: "<choice>" if isinstance(value, (dict, Choice)) else "<scalar>"),
]


class Amount(_Strict):
    """`Amount` is how much is simulated, and under which placements. An outer level completes it."""

    seeds: Seeds | None = None
    length: Count | None = None
    instructions: Count | None = None
    warmup: Count | None = None
    interval: Count | None = None

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.length is not None and self.instructions is not None:
            context = {
                "rule": "a run ends after a number of references or after a number of instructions",
                "remedy": "leave one of them out",
                "value": f"length = {self.length}, instructions = {self.instructions}",
            }
            raise PydanticCustomError("rule", "{rule}; {remedy}", context)
        return self

    def over(self, outer: Amount) -> Amount:
        """Completes this amount by an outer amount. If this amount has an end, the outer end is not used."""
        mine = self.length is not None or self.instructions is not None
        end = self if mine else outer
        return Amount(
            seeds=_as_list(self.seeds or outer.seeds),
            length=end.length,
            instructions=end.instructions,
            warmup=self.warmup or outer.warmup,
            interval=self.interval or outer.interval,
        )


def _as_list(seeds: tuple[int, ...] | None) -> Any:
    return None if seeds is None else list(seeds)


class HeatMap(_Strict):
    """`HeatMap` says how the cells of a part are drawn: a field for each value of two parameters.

    Attributes:
        x: The parameter whose values stand side by side.
        y: The parameter whose values stand below each other.
        panels: A parameter with a map for each of its values, side by side; None if no further parameter
            varies.
        rows: A parameter with a row of maps for each of its values; None likewise.
        show: The metrics that are drawn, of those that the part shows; empty for all of them.
    """

    x: Name
    y: Name
    panels: Name | None = None
    rows: Name | None = None
    show: Show = []

    @property
    def parameters(self) -> list[str]:
        """The parameters of the map."""
        return [name for name in (self.x, self.y, self.panels, self.rows) if name is not None]


class Scale(Amount):
    """`Scale` holds amounts under a name: for the whole study, and for single parts."""

    part: dict[str, Amount] = {}


class Part(Amount):
    """`Part` is a part of a study: workloads × machine × every combination of the axes' values."""

    name: Name
    workloads: Annotated[list[str], Field(min_length=1)]
    machine: str | None = None
    scheme: str | None = None
    settings: dict[str, Scalar] = Field(default={}, alias="set")
    axes: dict[str, Annotated[list[Entry], Field(min_length=1)]] = {}
    keep: list[Literal["series", "processes"]] = ["series", "processes"]
    show: Show = []
    map: HeatMap | None = None

    @property
    def schemes(self) -> list[Entry]:
        """Returns the schemes for device data: the one scheme, or the values of the axis; else nothing."""
        return self.axes.get(SCHEME, [] if self.scheme is None else [self.scheme])

    @property
    def machines(self) -> list[Entry]:
        """Returns the machines: the one machine, or the values of the axis `machine`."""
        return self.axes.get(MACHINE, [self.machine])

    @property
    def parameters(self) -> dict[str, list[Entry]]:
        """Returns the axes but `machine`, which is a column of every table."""
        return {axis: entries for axis, entries in self.axes.items() if axis != MACHINE}


class Study(Amount):
    """`Study` is a whole study document."""

    name: Name
    title: str
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    show: Show = []
    part: Annotated[list[Part], Field(min_length=1)]
    scale: dict[str, Scale] = {}

    def shown(self, part: Part) -> list[str]:
        """Returns the metrics that the table of a part shows; an empty list if the study leaves them open."""
        return part.show or self.show

    def amount(self, part: Part, scale: str | None = None) -> Amount:
        """Returns the amount of a part. The part comes before the scale's part, the scale, and the study."""
        whole = Amount(
            seeds=_as_list(self.seeds or tuple(range(SEEDS))),
            length=self.length,
            instructions=self.instructions,
            warmup=self.warmup,
            interval=self.interval,
        )
        if scale is not None:
            chosen = self.scale[scale]
            whole = _plain(chosen).over(whole)
            if part.name in chosen.part:
                return chosen.part[part.name].over(_plain(part)).over(whole)
        return _plain(part).over(whole)


def _plain(amount: Amount) -> Amount:
    """Returns the amount alone of an object that has further keys."""
    return Amount(
        seeds=_as_list(amount.seeds),
        length=amount.length,
        instructions=amount.instructions,
        warmup=amount.warmup,
        interval=amount.interval,
    )


def load(path: str | os.PathLike[str]) -> Study:
    """Reads the study of a TOML file."""
    text = _binhop.read_text(os.fspath(path), "study", "name a TOML file")
    return parse(text, str(path))


def parse(text: str, place: str = "study") -> Study:
    """Reads the study of TOML text. Errors name the text by `place`."""
    if (long := _LONG_KEY.search(text)) is not None:
        at = f"{place}: line {1 + text.count(chr(10), 0, long.start())}"
        rule = f"a key has at most {MOST_PARTS} parts"
        raise RequestError(f"{long[0][:40]}…", at, rule, "the keys of a study are in docs/studies.md")
    try:
        data = tomllib.loads(text)
    except RecursionError:
        rule = "lists and tables are nested too deeply"
        raise RequestError(place, "study", rule, "the keys of a study are in docs/studies.md") from None
    except tomllib.TOMLDecodeError as error:
        raise RequestError(place, "study", f"is no TOML: {error}", "mend that line") from None
    try:
        study = Study.model_validate(data)
    except ValidationError as error:
        raise _request(error, place) from None
    _check(study, place)
    return study


def _check(study: Study, place: str) -> None:
    """Checks the rules that no single key can break."""
    names = Counter(part.name for part in study.part)
    for index, part in enumerate(study.part):
        at = f"{place}: part[{index}]"
        if names[part.name] > 1:
            raise RequestError(part.name, f"{at}.name", "two parts have this name", "give each part its own")
        _check_machines(part, at)
        _check_schemes(part, at)
        _check_map(part, study.shown(part), at)
        for axis, entries in part.axes.items():
            if axis in RESERVED:
                rule = "a column of the tables has this name"
                raise RequestError(axis, f"{at}.axes", rule, "give the axis another name")
            labels = Counter(label(entry) for entry in entries)
            twice = next((one for one, times in labels.items() if times > 1), None)
            if twice is not None:
                rule = "an axis has this value twice"
                raise RequestError(twice, f"{at}.axes.{axis}", rule, "leave one out, or label them")
    for scale, chosen in study.scale.items():
        for name in chosen.part:
            if name not in names:
                raise _binhop.unknown(name, f"{place}: scale.{scale}.part", "no part has this name", [*names])


def _check_machines(part: Part, at: str) -> None:
    """Refuses a part without a machine, a machine given twice, and values that name no machine."""
    if part.machine is not None and MACHINE in part.axes:
        rule = "the axis names the machines, and the part names another machine"
        raise RequestError(part.machine, f"{at}.machine", rule, "leave one of them out")
    if part.machine is None and MACHINE not in part.axes:
        raise RequestError(
            "machine", at, "must be given", 'add machine = "kh90", or axes.machine = ["kh90", …]'
        )
    for place, entry in enumerate(part.axes.get(MACHINE, [])):
        if not isinstance(entry.value if isinstance(entry, Choice) else entry, str):
            rule = "a value of the axis machine is a bundled machine, or a file"
            where = f"{at}.axes.{MACHINE}[{place}]"
            raise RequestError(
                label(entry), where, rule, 'write it like "kh90", or { label = …, value = "kh90" }'
            )


def _check_schemes(part: Part, at: str) -> None:
    """Refuses a scheme given twice, and a value that is no scheme."""
    if part.scheme is not None and SCHEME in part.axes:
        rule = "the axis names the schemes, and the part names another scheme"
        raise RequestError(part.scheme, f"{at}.scheme", rule, "leave one of them out")
    known = [name for name, _ in _binhop.schemes()]
    for place, entry in enumerate(part.schemes):
        where = f"{at}.scheme" if part.scheme is not None else f"{at}.axes.{SCHEME}[{place}]"
        named = entry.value if isinstance(entry, Choice) else entry
        if named not in known:
            raise _binhop.unknown(str(named), where, "no scheme has this name", known)


def _check_map(part: Part, shown: list[str], at: str) -> None:
    """Refuses a map of a parameter or metric that is not there, or without a parameter that varies."""
    if part.map is None:
        return
    for metric in part.map.show:
        if metric not in shown:
            raise _binhop.unknown(metric, f"{at}.map.show", "the part does not show this metric", shown)
    sizes = {"workload": len(part.workloads), **{axis: len(of) for axis, of in part.axes.items()}}
    for name in part.map.parameters:
        if name not in sizes:
            raise _binhop.unknown(name, f"{at}.map", "no parameter of the part has this name", [*sizes])
        if part.map.parameters.count(name) > 1:
            raise RequestError(name, f"{at}.map", "a parameter stands in a map once", "name another one")
    for name, values in sizes.items():
        if values > 1 and name not in part.map.parameters:
            rule = f"a map shows x, y, panels and rows, and this parameter has {values} values"
            raise RequestError(name, f"{at}.map", rule, "make it one of the four, or give it one value")


def label(entry: Scalar | Choice) -> str:
    """Returns the name of an axis's value in tables."""
    if isinstance(entry, Choice):
        return entry.label
    return str(entry).lower() if isinstance(entry, bool) else str(entry)


def _request(error: ValidationError, place: str) -> RequestError:
    """Returns the first error of a document as a wrong request."""
    first = error.errors(include_url=False)[0]
    path = _path(first["loc"])
    at = f"{place}: {path}" if path else place
    context: dict[str, Any] = first.get("ctx") or {}
    if first["type"] == "unknown":
        return _binhop.unknown(context["key"], at, "no key has this name", context["known"])
    if first["type"] == "missing":
        key = str(first["loc"][-1])
        return RequestError(key, at, "must be given", "see docs/studies.md")
    if first["type"] == "rule":
        value = context.get("value") or _shown(first["input"])
        return RequestError(value, at, context["rule"], context["remedy"])
    message = first["msg"][0].lower() + first["msg"][1:]
    return RequestError(_shown(first["input"]), at, message, "see docs/studies.md")


def _path(location: tuple[int | str, ...]) -> str:
    """Returns a place as readers look for it in the document: part[0].axes.placement.policy[1]."""
    text = ""
    for step in location:
        if isinstance(step, int):
            text += f"[{step}]"
        elif not step.startswith("<"):
            text += f".{step}" if text else step
    return text


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, (str, int, float, bool, list)) else type(value).__name__
    return text if len(text) <= 60 else f"{text[:57]}..."
