"""What a study leaves: tidy tables with its parameters as columns, and the directory they are written to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binhop import _binhop, json_file
from binhop.escape import json_text
from binhop.lazily import pl
from binhop.output import MARK, read_parquet, write_parquet, write_provenance
from binhop.results import SCHEMA, exact
from binhop.summary import summarise, with_misses
from binhop.tables.study import study_tables

if TYPE_CHECKING:
    from pathlib import Path

    from binhop.study.cells import Place, Plan
    from binhop.tables import Table

KEYS = ["study", "part", "cell", "workload", "machine"]


@dataclass(frozen=True)
class StudyResult:
    """The tables of a study.

    Attributes:
        results: One row for each part, cell, phase, seed and metric; a column for each parameter that
            varies, as the document writes it, null in parts where it does not; the value, null where
            undefined.
        series: The same per interval, for parts that keep it.
        processes: The same per process, for parts that keep them.
        cells: One row for each part and cell: its parameters, its amount, its machine, resolved, as TOML.
        axes: The names of the parameters.
        notes: What the reader should know.
        provenance: Versions, seeds, traces: enough to run it again.
    """

    results: pl.DataFrame
    series: pl.DataFrame
    processes: pl.DataFrame
    cells: pl.DataFrame
    axes: list[str]
    notes: list[str]
    provenance: dict[str, Any]

    @classmethod
    def assemble(cls, plan: Plan, tables: dict[str, pl.DataFrame], notes: list[str]) -> StudyResult:
        """The tables of all runs, each part's cells under the part's own name and parameters."""
        cells = _cells(plan)
        shown = {part.name: plan.study.shown(part) for part in plan.study.part if plan.study.shown(part)}
        joined = {name: _join(frame, cells, plan, name) for name, frame in tables.items()}
        provenance = {
            "binhop": _binhop.__version__,
            "study": plan.study.name,
            "title": plan.study.title,
            "scale": plan.scale,
            "confidence": plan.study.confidence,
            "axes": plan.axes,
            **({"show": shown} if shown else {}),
            "traces": [trace.provenance() for trace in plan.traces.values()],
        }
        return cls(**joined, cells=cells, axes=plan.axes, notes=notes, provenance=provenance)

    @classmethod
    def read(cls, directory: Path) -> StudyResult:
        """The tables of a study's directory."""
        facts = json_file.read(directory / MARK)
        tables = {
            name: read_parquet(directory / f"{name}.parquet")
            for name in ("results", "series", "processes", "cells")
        }
        notes = facts.pop("notes")
        return cls(**tables, axes=facts["axes"], notes=notes, provenance=facts)

    def summary(self, confidence: float | None = None, phase: str = "measured") -> pl.DataFrame:
        """One row per part, cell and metric: mean, interval, quantiles, the best and the worst seed."""
        level = self.provenance["confidence"] if confidence is None else confidence
        keys = [*KEYS, *self.axes, "phase", "metric", "unit"]
        return summarise(self.results.filter(phase=phase), level, keys)

    def tables(self) -> list[Table]:
        """Returns the table of each part: see `binhop.tables`."""
        metrics = [metric for of in (self.provenance.get("show") or {}).values() for metric in of]
        measured = with_misses(self.results.filter(phase="measured"), [*dict.fromkeys(metrics)])
        keys = [*KEYS, *self.axes, "phase", "metric", "unit"]
        summary = summarise(measured, self.provenance["confidence"], keys)
        return study_tables(summary, self.provenance)

    def write(self, directory: Path, also: dict[str, Any] | None = None) -> None:
        """Writes tables and provenance, and what else is to stand in it, into a directory that is there."""
        for name in ("results", "series", "processes", "cells"):
            write_parquet(getattr(self, name), directory / f"{name}.parquet")
        write_provenance(directory, {**self.provenance, **(also or {})}, self.notes)

    def _repr_html_(self) -> str:
        from binhop.tables.html import html

        return html(self.tables(), self.notes)

    def to_json(self) -> str:
        """The rows as one JSON object: counts are integers, what is undefined is null."""
        rows = self.results.to_dicts()
        for row in rows:
            row["value"] = exact(row["value"], row["unit"])
        provenance = {**self.provenance, "notes": self.notes}
        whole = {"schema": SCHEMA, "rows": rows, "provenance": provenance}
        return json_text(whole)


def _cells(plan: Plan) -> pl.DataFrame:
    """One row for each place of a cell."""
    ids = {id(place.cell): place.cell.id for place in plan.places}
    rows = [_row(place, ids[id(place.cell)], plan) for place in plan.places]
    text = ["study", "part", "cell", "workload", "machine", *plan.axes, "description"]
    schema: dict[str, Any] = dict.fromkeys(text, pl.String)
    schema |= {"seeds": pl.List(pl.UInt64), "length": pl.Int64, "instructions": pl.Int64}
    schema |= {"warmup": pl.Int64, "interval": pl.Int64, "keep": pl.List(pl.String)}
    return pl.DataFrame(rows, schema=schema)


def _row(place: Place, cell: str, plan: Plan) -> dict[str, Any]:
    end = vars(place.cell.end)
    return {
        "study": plan.study.name,
        "part": place.part,
        "cell": cell,
        "workload": place.cell.workload,
        "machine": place.machine,
        **{axis: place.parameters.get(axis) for axis in plan.axes},
        "description": place.cell.machine.resolved(),
        "seeds": list(place.seeds),
        **end,
        "keep": list(place.keep),
    }


def _join(frame: pl.DataFrame, cells: pl.DataFrame, plan: Plan, table: str) -> pl.DataFrame:
    """The rows of each place's cell, for the placements that its part asks for."""
    wanted = cells.select([*KEYS, *plan.axes, "seeds", "keep"])
    if table != "results":
        wanted = wanted.filter(pl.col("keep").list.contains(table))
    wanted = wanted.drop("keep").explode("seeds").rename({"seeds": "seed"})
    joined = wanted.join(
        frame.drop("workload", "machine"), on=["cell", "seed"], how="inner", maintain_order="left_right"
    )
    first = [*KEYS, *plan.axes]
    rest = [name for name in frame.columns if name not in first]
    return joined.select(first + rest)
