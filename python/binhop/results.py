"""Holds the result of a run: tidy tables, and what derives from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop import _binhop, output, spread
from binhop.escape import escaped, json_text
from binhop.lazy_imports import pl
from binhop.long_tables import frame_of, joined, store_table
from binhop.metrics import caches, exact
from binhop.numbers import counted
from binhop.summary import points, summarise

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from binhop.long_tables import AnyTable
    from binhop.summary import Points
    from binhop.tables import Table

SCHEMA = 1
"""The version of the JSON object (`binhop.schema`) and of the tables."""


class Result:
    """`Result` holds the counts of a run under each placement.

    Attributes:
        own_notes: The notes of the run itself: what was assumed, shared, or not used.
        machine: The machine, resolved, as TOML.
        provenance: Versions, seeds and traces, from which the run can be repeated.
        repeated_misses: The table of `binhop.repeated_misses`, with the workload, if it was asked for. It is
            written as `conflicts.parquet` and under the key `conflicts` of the JSON. `--top-conflicts` asks
            for it.
    """

    def __init__(
        self,
        *,
        results: AnyTable,
        series: AnyTable,
        processes: AnyTable,
        notes: list[str],
        machine: str,
        provenance: dict[str, Any],
    ) -> None:
        self._held: dict[str, AnyTable] = {"results": results, "series": series, "processes": processes}
        self._points: list[Points] | None = None
        self.own_notes = notes
        self.machine = machine
        self.provenance = provenance
        self.repeated_misses: pl.DataFrame | None = None

    @property
    def results(self) -> pl.DataFrame:
        """One row for each workload, phase, seed and metric: the value, null where undefined.

        The frame is made when it is first asked for: the tables of the terminal do without it.
        """
        return self._table("results")

    @results.setter
    def results(self, results: pl.DataFrame) -> None:
        self._held["results"], self._points = results, None

    @property
    def series(self) -> pl.DataFrame:
        """The columns of `results` per interval of instructions; empty unless an interval was asked for.

        The table is made when it is first asked for, and may be long: two rows for each interval, cache and
        seed. `write` does without it.
        """
        return self._table("series")

    @property
    def processes(self) -> pl.DataFrame:
        """The columns of `results` per process, and its pages in conflict when it exited or at the end.

        If several processes have the same number, one after the other, the pages are those of the last
        process. The table is made when it is first asked for; `write` does without it.
        """
        return self._table("processes")

    def _table(self, name: str) -> pl.DataFrame:
        frame = self._held[name] = frame_of(self._held[name])
        return frame

    def held(self, name: str) -> AnyTable:
        """Returns the table `results`, `series` or `processes`, in memory or as the engine left it."""
        return self._held[name]

    def points(self) -> list[Points]:
        """Returns the values of `results` by workload, phase and metric."""
        table = self._held["results"]
        if not isinstance(table, _binhop.Table):  # a frame belongs to the user, who may change it
            return points(self.results)
        if self._points is None:
            self._points = points(table)
        return self._points

    @property
    def notes(self) -> list[str]:
        """The notes for the reader: two groups of placements, and outliers, by seed; then `own_notes`."""
        return [*_spread_notes(self.points()), *self.own_notes]

    @property
    def seeds(self) -> list[int]:
        """The numbers of the placements."""
        return list(self.provenance["seeds"])

    @property
    def workloads(self) -> list[str]:
        """The workloads, in order."""
        return [*dict.fromkeys(of.workload for of in self.points())]

    def summary(self, confidence: float = 0.95, phase: str = "measured") -> pl.DataFrame:
        """Returns mean, interval, quantiles, best and worst seed of each workload and metric."""
        return summarise(self.results.filter(phase=phase), confidence)

    def value(self, metric: str, seed: int | None = None, workload: str | None = None) -> int | float | None:
        """Returns one number, by default of the first seed and the first workload."""
        rows = self.results.filter(
            metric=metric,
            phase="measured",
            seed=self.seeds[0] if seed is None else seed,
            workload=self.workloads[0] if workload is None else workload,
        )
        if rows.is_empty():
            known = ", ".join(self.results["metric"].unique(maintain_order=True).to_list())
            raise KeyError(f"{metric}: no such metric, seed or workload here; metrics: {known}")
        return exact(rows["value"][0], rows["unit"][0])

    def tables(self, confidence: float = 0.95) -> list[Table]:
        """Returns the tables of `binhop run`. `binhop.tables.rendered` makes Markdown or LaTeX of them."""
        from binhop.tables.run import run_tables

        return run_tables(self.points(), confidence)

    def to_arrow(self) -> Any:
        """Returns the tidy table as a pyarrow table (needs pyarrow)."""
        return self.results.to_arrow()

    def to_json(self) -> str:
        """Returns the JSON that `binhop run --json` prints. Counts are integers; undefined values null."""
        table = self._held["results"]
        columns = (
            table.columns() if isinstance(table, _binhop.Table) else self.results.to_dict(as_series=False)
        )
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        for row in rows:
            row["value"] = exact(row["value"], row["unit"])
        provenance = {**self.provenance, "description": self.machine, "notes": self.notes}
        whole: dict[str, Any] = {"schema": SCHEMA, "rows": rows, "provenance": provenance}
        if self.repeated_misses is not None:
            whole["conflicts"] = self.repeated_misses.to_dicts()
        return json_text(whole)

    def write(self, directory: str | os.PathLike[str], *, figures: bool = True) -> list[str]:
        """Writes tables, provenance and figures into a directory, which appears complete or not at all.

        An earlier result is replaced; files in it that binhop did not write stay. Any other directory that is
        not empty is refused.

        Returns:
            The names of the files.
        """
        with output.ResultDirectory(directory) as place:
            return place.fill(self, figures=figures)

    def write_tables(self, directory: Path) -> None:
        """Writes the tables, the machine and the provenance into a directory that is there."""
        output.write_parquet(self.results, directory / "results.parquet")
        for name in ("series", "processes"):
            store_table(self._held[name], directory / f"{name}.parquet")
        output.write_values(self.results, directory / "results.csv")
        if self.repeated_misses is not None:
            output.write_parquet(self.repeated_misses, directory / "conflicts.parquet")
        (directory / "machine.toml").write_text(self.machine, encoding="utf-8")
        output.write_provenance(directory, self.provenance, self.notes)

    def draw(self, directory: Path) -> list[Path]:
        """Draws the figures from the tables in a directory, and returns the files."""
        from binhop.report import draw  # a command without figures needs no module that draws

        return draw(directory)

    def chart(self, workload: str | None = None) -> Any:
        """Returns the figure of a workload as an Altair chart, for a notebook.

        If `workload` is None, the figure is that of the first workload that has a figure. Where all
        placements are equal, the chart is a sentence that says so.
        """
        from binhop.report import chart_of  # a command without figures needs no module that draws
        from binhop.report.figures import run_charts, run_words

        measured = self.results.filter(phase="measured")
        return chart_of(run_charts(measured, self.series.lazy()), workload, run_words(measured))

    def _repr_html_(self) -> str:
        from binhop.tables.html import html

        return html(self.tables(), self.notes)

    def __repr__(self) -> str:
        placements = counted(len(self.seeds), "placement")
        lines = [f"<Result {', '.join(self.workloads)} on {self.provenance['machine']}, {placements}"]
        rates = self.summary()
        wanted = [f"{cache}.mpi" for cache in caches(rates["metric"].unique(maintain_order=True))]
        rates = rates.filter(pl.col("metric").is_in(wanted) & pl.col("mean").is_not_null())
        for row in rates.iter_rows(named=True):
            cache = row["metric"].removesuffix(".mpi")
            text = f"  {row['workload']} {cache}: {1000 * row['mean']:.4g} misses per 1000 instructions"
            if row["low"] is not None:
                low, high = 1000 * row["low"], 1000 * row["high"]
                text += f", {100 * row['confidence']:g}% interval {low:.4g} to {high:.4g}"
            lines.append(text)
        return "\n".join(map(escaped, lines)) + ">"


def _spread_notes(results: Sequence[Points]) -> list[str]:
    """Returns notes on how each workload's misses at the last level lie over the placements."""
    measured: dict[str, dict[str, Points]] = {}
    for of in results:
        if of.phase == "measured":
            measured.setdefault(of.workload, {})[of.metric] = of
    said = []
    for workload, metrics in measured.items():
        names = caches(metrics)
        if not names:  # a user has chosen rows
            continue
        last = names[-1]
        of = metrics[f"{last}.mpi"]
        title = last if len(measured) == 1 else f"{workload}, {last}"
        said += spread.notes(zip(of.seeds, of.values, strict=True), title, of.unit, picture=True)
    return said


def notes_once(notes: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns each note once, with the names of the results that have it, unless all results have it.

    >>> notes_once({"lin": ["a", "b"], "tree": ["a", "c"], "sor": ["a", "c"]})
    ['a', 'lin: b', 'tree, sor: c']
    """
    said: dict[str, list[str]] = {}
    for name, of in notes.items():
        for note in dict.fromkeys(of):
            said.setdefault(note, []).append(name)
    return [
        note if len(names) == len(notes) else f"{', '.join(names)}: {note}" for note, names in said.items()
    ]


def join(results: Sequence[Result]) -> Result:
    """Returns the results of several traces on one machine as one result."""
    first = results[0]
    traces = [trace for result in results for trace in result.provenance["traces"]]
    whole = Result(
        results=joined([result.held("results") for result in results]),
        series=joined([result.held("series") for result in results]),
        processes=joined([result.held("processes") for result in results]),
        notes=notes_once({result.workloads[0]: result.own_notes for result in results}),
        machine=first.machine,
        provenance={**first.provenance, "traces": traces},
    )
    if len(results) == 1:
        whole._points = first._points
    counted = [result.repeated_misses for result in results if result.repeated_misses is not None]
    whole.repeated_misses = pl.concat(counted) if counted else None
    return whole
