"""The study document: what a user writes in TOML, checked once.

Every mistake is a `RequestError`: the value, the key's path in the document, the rule, the remedy.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

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
from binhop.errors import RequestError
from binhop.numbers import count
from binhop.run import SEEDS

if TYPE_CHECKING:
    import os

RESERVED = (
    *("study", "part", "cell", "workload", "machine", "phase", "seed", "metric", "unit", "value"),
    *("interval", "instructions", "asid", "kernel"),
)
"""Columns of the tables: no axis may be called so."""


def _scalar(value: Any) -> str | int | float | bool:
    """What a machine's key can be set to."""
    if isinstance(value, (str, int, float, bool)):
        return value
    rule = "a setting is a text, a number, true or false"
    raise PydanticCustomError("rule", "{rule}; {remedy}", {"rule": rule, "remedy": 'write it like "4MiB"'})


def _count(value: Any) -> int:
    """A number of references or instructions: 50_000_000 or "50M"."""
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
    """How many placements, or their numbers."""
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
Name = Annotated[str, Field(min_length=1, pattern=r"^[^\s/\\]+$")]


class _Strict(BaseModel):
    """Unknown keys are refused, with the nearest known one; no value is converted to another type."""

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
    """A value of an axis that has a label, or that sets other keys than the axis is called after."""

    label: Name
    value: Scalar | None = None
    settings: dict[str, Scalar] = Field(default={}, alias="set")


Entry = Annotated[
    Annotated[Scalar, Tag("<scalar>")] | Annotated[Choice, Tag("<choice>")],
    Discriminator(lambda value: "<choice>" if isinstance(value, (dict, Choice)) else "<scalar>"),
]


class Amount(_Strict):
    """How much is simulated, and under how many placements; what is not given is left to the outer level."""

    seeds: Seeds | None = None
    length: Count | None = None
    instructions: Count | None = None
    warmup: Count | None = None
    interval: Count | None = None

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.length is not None and self.instructions is not None:
            context = {
                "rule": "a run ends after so many references or after so many instructions",
                "remedy": "leave one of them out",
                "value": f"length = {self.length}, instructions = {self.instructions}",
            }
            raise PydanticCustomError("rule", "{rule}; {remedy}", context)
        return self

    def over(self, outer: Amount) -> Amount:
        """This amount, completed by an outer one; whichever gives an end gives it alone."""
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


class Scale(Amount):
    """Amounts under a name: how much of everything, and of single parts."""

    part: dict[str, Amount] = {}


class Part(Amount):
    """Workloads × machine × every combination of the axes' values."""

    name: Name
    workloads: Annotated[list[str], Field(min_length=1)]
    machine: str
    settings: dict[str, Scalar] = Field(default={}, alias="set")
    axes: dict[str, Annotated[list[Entry], Field(min_length=1)]] = {}
    keep: list[Literal["series", "processes"]] = ["series", "processes"]


class Study(Amount):
    """A whole study document."""

    name: Name
    title: str
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    part: Annotated[list[Part], Field(min_length=1)]
    scale: dict[str, Scale] = {}

    def amount(self, part: Part, scale: str | None = None) -> Amount:
        """How much of a part is simulated: part before scale's part before scale before study."""
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
    """The amount alone of something that has one."""
    return Amount(
        seeds=_as_list(amount.seeds),
        length=amount.length,
        instructions=amount.instructions,
        warmup=amount.warmup,
        interval=amount.interval,
    )


def load(path: str | os.PathLike[str]) -> Study:
    """The study of a TOML file."""
    place = Path(path)
    try:
        text = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise RequestError(str(path), "study", f"cannot be read: {why}", "name a TOML file") from None
    return parse(text, str(path))


def parse(text: str, place: str = "study") -> Study:
    """The study of TOML text; `place` is what errors call the text."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RequestError(place, "study", f"is no TOML: {error}", "mend that line") from None
    try:
        study = Study.model_validate(data)
    except ValidationError as error:
        raise _request(error, place) from None
    _check(study, place)
    return study


def _check(study: Study, place: str) -> None:
    """The rules that no single key can break."""
    names = [part.name for part in study.part]
    for index, part in enumerate(study.part):
        at = f"{place}: part[{index}]"
        if names.count(part.name) > 1:
            raise RequestError(part.name, f"{at}.name", "two parts have this name", "give each part its own")
        for axis, entries in part.axes.items():
            if axis in RESERVED:
                rule = "a column of the tables is called so"
                raise RequestError(axis, f"{at}.axes", rule, "give the axis another name")
            labels = [label(entry) for entry in entries]
            twice = next((one for one in labels if labels.count(one) > 1), None)
            if twice is not None:
                rule = "an axis has this value twice"
                raise RequestError(twice, f"{at}.axes.{axis}", rule, "leave one out, or label them")
    for scale, chosen in study.scale.items():
        for name in chosen.part:
            if name not in names:
                raise _binhop.unknown(name, f"{place}: scale.{scale}.part", "no part has this name", names)


def label(entry: Scalar | Choice) -> str:
    """What tables call a value of an axis."""
    if isinstance(entry, Choice):
        return entry.label
    return str(entry).lower() if isinstance(entry, bool) else str(entry)


def _request(error: ValidationError, place: str) -> RequestError:
    """The first thing that is wrong, in the house's form."""
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
    """part[0].axes.placement.policy[1]: as one would look for it in the document."""
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
