"""Holds the result of a study: tidy tables with its parameters as columns, and their directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binhop import _binhop, json_file
from binhop.escape import json_text
from binhop.lazy_imports import pl
from binhop.long_tables import PiecewiseTable, StoredTable, frame_of, pieces, store_table
from binhop.metrics import exact
from binhop.output import MARK, read_parquet, write_parquet, write_provenance
from binhop.results import SCHEMA
from binhop.summary import summarise, with_misses
from binhop.tables.study import study_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from binhop.long_tables import AnyTable
    from binhop.study.cells import Place, Plan
    from binhop.tables import Table

KEYS = ["study", "part", "cell", "workload", "machine"]


@dataclass(frozen=True)
class Finished:
    """`Finished` holds the tables of one run of a study, with a column for the cell.

    Attributes:
        results: The results, in memory.
        long: The tables `series` and `processes`. Runs of schemes for device data have none.
    """

    results: pl.DataFrame
    long: Mapping[str, AnyTable]


class StudyResult:
    """`StudyResult` holds the tables of a study.

    Attributes:
        results: One row for each part, cell, phase, seed and metric; a column for each parameter that
            varies, as the document writes it, null in parts where it does not; the value, null where
            undefined.
        cells: One row for each part and cell: its parameters, its amount, its machine, resolved, as TOML.
        axes: The names of the parameters.
        notes: Notes for the reader.
        provenance: Versions, seeds and traces, from which the study can be repeated.
    """

    def __init__(
        self,
        *,
        results: pl.DataFrame,
        series: AnyTable,
        processes: AnyTable,
        cells: pl.DataFrame,
        axes: list[str],
        notes: list[str],
        provenance: dict[str, Any],
        own: object = None,
    ) -> None:
        """Takes the tables. `own` (a temporary directory, say) must live as long as the tables."""
        self.results = results
        self._held = {"series": series, "processes": processes}
        self.cells = cells
        self.axes = axes
        self.notes = notes
        self.provenance = provenance
        self._own = own

    @property
    def series(self) -> pl.DataFrame:
        """The columns of `results` per interval, for parts that keep the series.

        The table is made when it is first asked for, and may be long. `write` does without it.
        """
        return self._table("series")

    @property
    def processes(self) -> pl.DataFrame:
        """The columns of `results` per process, for parts that keep processes.

        The table is made when it is first asked for. `write` does without it.
        """
        return self._table("processes")

    def _table(self, name: str) -> pl.DataFrame:
        frame = self._held[name] = frame_of(self._held[name])
        return frame

    @classmethod
    def assemble(
        cls, plan: Plan, finished: Sequence[Finished], notes: list[str], own: object = None
    ) -> StudyResult:
        """Joins the tables of all runs, with each part's cells under the part's own name and parameters."""
        cells = _cells(plan)
        shown = {part.name: plan.study.shown(part) for part in plan.study.part if plan.study.shown(part)}
        maps = {
            part.name: part.map.model_dump(exclude_defaults=True)
            for part in plan.study.part
            if part.map is not None
        }
        provenance = {
            "binhop": _binhop.__version__,
            "study": plan.study.name,
            "title": plan.study.title,
            "scale": plan.scale,
            "confidence": plan.study.confidence,
            "axes": plan.axes,
            **({"show": shown} if shown else {}),
            **({"maps": maps} if maps else {}),
            "traces": [trace.provenance() for trace in plan.traces.values()],
        }
        return cls(
            results=_join(pl.concat([each.results for each in finished]), _wanted(cells, plan)),
            series=PiecewiseTable(lambda: _long(plan, cells, finished, "series")),
            processes=PiecewiseTable(lambda: _long(plan, cells, finished, "processes")),
            cells=cells,
            axes=plan.axes,
            notes=notes,
            provenance=provenance,
            own=own,
        )

    @classmethod
    def read(cls, directory: Path) -> StudyResult:
        """Reads the tables of a study's directory. Series and processes are read when they are asked for."""
        facts = json_file.read(directory / MARK)
        notes = facts.pop("notes")
        return cls(
            results=read_parquet(directory / "results.parquet"),
            series=StoredTable(directory / "series.parquet"),
            processes=StoredTable(directory / "processes.parquet"),
            cells=read_parquet(directory / "cells.parquet"),
            axes=facts["axes"],
            notes=notes,
            provenance=facts,
        )

    def summary(self, confidence: float | None = None, phase: str = "measured") -> pl.DataFrame:
        """Returns mean, interval, quantiles, best and worst seed of each part, cell and metric."""
        level = self.provenance["confidence"] if confidence is None else confidence
        keys = [*KEYS, *self.axes, "phase", "metric", "unit"]
        return summarise(self.results.filter(phase=phase), level, keys)

    def tables(self) -> list[Table]:
        """Returns the table of each part: see `binhop.tables`."""
        return study_tables(self._shown(), self.provenance)

    def draw(self, directory: Path) -> list[Path]:
        """Draws the map of each part that has one into a directory, and returns the files."""
        if not self.provenance.get("maps"):
            return []
        from binhop.report.study import draw_study  # a command without figures needs no module that draws

        return draw_study(self._shown(), self.provenance, directory)

    def _shown(self) -> pl.DataFrame:
        """Returns the summary, with the metrics that tables and maps show."""
        metrics = [metric for of in (self.provenance.get("show") or {}).values() for metric in of]
        measured = with_misses(self.results.filter(phase="measured"), [*dict.fromkeys(metrics)])
        keys = [*KEYS, *self.axes, "phase", "metric", "unit"]
        return summarise(measured, self.provenance["confidence"], keys)

    def write(self, directory: Path, also: dict[str, Any] | None = None) -> None:
        """Writes tables and provenance, and what else is to stand in it, into a directory that is there."""
        for name, frame in (("results", self.results), ("cells", self.cells)):
            write_parquet(frame, directory / f"{name}.parquet")
        for name, table in self._held.items():
            store_table(table, directory / f"{name}.parquet")
        write_provenance(directory, {**self.provenance, **(also or {})}, self.notes)

    def _repr_html_(self) -> str:
        from binhop.tables.html import html

        return html(self.tables(), self.notes)

    def to_json(self) -> str:
        """Returns the rows as one JSON object. Counts are integers; undefined values are null."""
        rows = self.results.to_dicts()
        for row in rows:
            row["value"] = exact(row["value"], row["unit"])
        provenance = {**self.provenance, "notes": self.notes}
        whole = {"schema": SCHEMA, "rows": rows, "provenance": provenance}
        return json_text(whole)


def _cells(plan: Plan) -> pl.DataFrame:
    """Returns a row for each place of a cell."""
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


def _wanted(cells: pl.DataFrame, plan: Plan) -> pl.DataFrame:
    """Returns a row for each place of a cell and each placement that its part asks for."""
    return cells.select([*KEYS, *plan.axes, "seeds"]).explode("seeds").rename({"seeds": "seed"})


def _join(frame: pl.DataFrame, wanted: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows of each place's cell, in the order of `wanted`."""
    joined = wanted.join(
        frame.drop("workload", "machine"), on=["cell", "seed"], how="inner", maintain_order="left_right"
    )
    return _ordered(joined, frame, wanted)


def _ordered(joined: pl.DataFrame, frame: pl.DataFrame, wanted: pl.DataFrame) -> pl.DataFrame:
    """Returns the columns in the order of the study's tables."""
    first = [name for name in wanted.columns if name != "seed"]
    return joined.select(first + [name for name in frame.columns if name not in first])


def _long(
    plan: Plan, cells: pl.DataFrame, finished: Sequence[Finished], table: str
) -> Iterator[pl.DataFrame]:
    """Yields the rows of `series` or `processes` of all places that keep them, in the order of `_join`.

    The table of a run has its rows by cell and placement, both ascending. Places that follow each other in
    that order are joined in one pass over the table, of which only a piece is in memory.
    """
    wanted = _wanted(cells, plan)
    held = next((each.long[table] for each in finished if table in each.long), None)
    if held is None:
        yield _join(finished[0].results.clear(), wanted.clear())
        return
    head = pl.DataFrame(next(pieces(held))).clear()
    yield _join(head, wanted.clear())
    keys = cells.select([*KEYS, *plan.axes])
    for run, places in _passes(plan, table):
        seeds = pl.Series("seed", [seeds for _, seeds in places], dtype=pl.List(pl.UInt64))
        wanted = keys[[place for place, _ in places]].with_columns(seeds).explode("seed")
        for piece in pieces(finished[run].long[table]):
            frame = pl.DataFrame(piece)
            rows = frame.drop("workload", "machine")
            joined = rows.join(wanted, on=["cell", "seed"], how="inner", maintain_order="left")
            yield _ordered(joined, frame, wanted)


def _passes(plan: Plan, table: str) -> Iterator[tuple[int, list[tuple[int, list[int]]]]]:
    """Yields a run, and the places and placements whose rows one pass over the run's table finds in order."""
    runs = {cell: (number, at) for number, run in enumerate(plan.runs) for at, cell in enumerate(run.cells)}
    current, before = -1, (-1, -1)
    places: list[tuple[int, list[int]]] = []
    for number, place in enumerate(plan.places):
        run, at = runs[place.cell]
        for seed in place.seeds if table in place.keep else ():
            if places and (run != current or (at, seed) <= before):
                yield current, places
                places = []
            if not places or places[-1][0] != number:
                places.append((number, []))
            places[-1][1].append(seed)
            current, before = run, (at, seed)
    if places:
        yield current, places
