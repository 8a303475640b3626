"""The JSON of simulations: the output of each command that simulates."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from binhop.schema.json_object import JsonObject
from binhop.schema.provenance import (  # noqa: TC001, pydantic reads them
    CompareProvenance,
    IoProvenance,
    PagingProvenance,
    ReuseProvenance,
    RunProvenance,
    StudyProvenance,
    SurfaceProvenance,
    SwitchesProvenance,
    TranslateProvenance,
)
from binhop.schema.rows import (  # noqa: TC001, pydantic reads them
    ComparedValue,
    Conflict,
    Difference,
    IoDistance,
    IoFigure,
    IoSize,
    IoValue,
    PagingValue,
    ReuseClass,
    ReuseValue,
    StudyValue,
    SurfaceFigure,
    SwitchCurvePoint,
    SwitchFigure,
    SwitchPage,
    TranslationFigure,
    Value,
)


class RunOutput(JsonObject):
    """The output of `binhop run --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[Value]
    """Every metric under every placement."""
    provenance: RunProvenance
    """The inputs from which the command can be repeated."""
    conflicts: list[Conflict] | None = None
    """The pages with most conflicts, with `--top-conflicts`."""


class CompareOutput(JsonObject):
    """The output of `binhop compare --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[ComparedValue]
    """Every metric of every alternative under every placement."""
    summary: list[Difference]
    """The differences, metric by metric and alternative by alternative."""
    provenance: CompareProvenance
    """The inputs from which the command can be repeated."""


class SweepOutput(JsonObject):
    """The output of `binhop sweep --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[StudyValue]
    """Every metric of every cell under every placement."""
    provenance: StudyProvenance
    """The inputs from which the command can be repeated."""


class SwitchesOutput(JsonObject):
    """The output of `binhop switches --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[SwitchFigure]
    """Every figure, with its interval."""
    curves: list[SwitchCurvePoint]
    """The curves after a switch, by cause and over all causes."""
    pages: list[SwitchPage]
    """The pages of code with the most excess."""
    provenance: SwitchesProvenance
    """The inputs from which the command can be repeated."""


class SurfaceOutput(JsonObject):
    """The output of `binhop surface --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[SurfaceFigure]
    """Every figure, with its interval."""
    provenance: SurfaceProvenance
    """The inputs from which the command can be repeated."""


class TranslateOutput(JsonObject):
    """The output of `binhop translate --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[TranslationFigure]
    """Every figure, with its interval."""
    provenance: TranslateProvenance
    """The inputs from which the command can be repeated."""


class ReuseOutput(JsonObject):
    """The output of `binhop reuse --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[ReuseValue]
    """Every metric of every cache size."""
    distances: list[ReuseClass]
    """The accesses of processes and segments by distance."""
    provenance: ReuseProvenance
    """The inputs from which the command can be repeated."""


class IoOutput(JsonObject):
    """The output of `binhop io --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[IoValue]
    """Every count of every scheme."""
    figures: list[IoFigure]
    """Every figure, with its interval."""
    sizes: list[IoSize]
    """The requests by size."""
    distances: list[IoDistance]
    """The references by reuse distance."""
    provenance: IoProvenance
    """The inputs from which the command can be repeated."""


class PagingOutput(JsonObject):
    """The output of `binhop paging --json`."""

    version: Literal[1] = Field(alias="schema")
    """The version of this object."""
    rows: list[PagingValue]
    """Every metric of every memory size and number of colors."""
    provenance: PagingProvenance
    """The inputs from which the command can be repeated."""
