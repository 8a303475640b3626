"""Holds the result of a comparison: every value, the differences seed by seed, and their summary."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from binhop import output, spread
from binhop.comparison.pairs import pair, summarise_pairs
from binhop.escape import escaped, json_text
from binhop.lazy_imports import pl
from binhop.metrics import MEMORY, cache_metrics, exact
from binhop.numbers import counted
from binhop.results import SCHEMA, Result
from binhop.summary import TOGETHER, as_one_workload, summarise, with_misses

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from binhop.comparison.alternatives import Alternative
    from binhop.tables import Table


UNUSED = re.compile(r"placement \S+ does not use (\S+)$")
"""A note that several policies share but for their names."""


class Comparison:
    """`Comparison` holds the values of alternatives, and their differences seed by seed.

    Attributes:
        alternatives: Their names, in order.
        baseline: The alternative that the others are compared with.
        constants: The alternatives in which nothing is random: one value stands for every seed.
        metrics: The compared metrics, the most important first.
        by_trace: True if the alternatives are traces. `differences` and `summary` then have the one workload
            `traces`.
        values: One row for each workload, alternative, phase, seed and metric: every count.
        differences: One row for each workload, metric, alternative but the baseline, and seed.
        summary: One row for each workload, metric and alternative but the baseline: see
            `binhop.comparison.pairs.summarise_pairs`.
        machines: The machine of each alternative, resolved, as TOML.
        notes: Notes for the reader.
        provenance: Versions, seeds and traces, from which the comparison can be repeated.
    """

    def __init__(
        self,
        chosen: Sequence[Alternative],
        results: Mapping[str, Sequence[Result]],
        baseline: str,
        metrics: Sequence[str],
        confidence: float,
        provenance: dict[str, Any],
    ) -> None:
        self.alternatives = [each.name for each in chosen]
        self.baseline = baseline
        self.constants = [each.name for each in chosen if each.constant]
        self.metrics = [*metrics]
        self.by_trace = provenance["compared"] == "traces"
        self.values = _values(results)
        if self.by_trace:
            self.values = with_misses(self.values, metrics)
        measured = as_one_workload(self.values.filter(phase="measured"), by_trace=self.by_trace)
        self.differences = pair(measured, metrics, baseline, self.constants)
        self.summary = summarise_pairs(self.differences, confidence, self.constants)
        self.machines = {
            chosen[0].machine.name if self.by_trace else name: of[0].machine for name, of in results.items()
        }
        self.notes = [
            *_spread_notes(measured, metrics),
            *_notes(results, self.constants),
            *_uncompared(results, metrics),
        ]
        self.confidence = confidence
        self.provenance = provenance

    @property
    def workloads(self) -> list[str]:
        """Returns the workloads in order; for compared traces the one workload `traces`."""
        if self.by_trace:
            return [TOGETHER]
        return self.values["workload"].unique(maintain_order=True).to_list()

    @property
    def seeds(self) -> list[int]:
        """The numbers of the paired placements."""
        return list(self.provenance["seeds"])

    def each(self, confidence: float | None = None) -> pl.DataFrame:
        """Returns mean, interval, quantiles, best and worst seed of every alternative."""
        keys = ["workload", "alternative", "phase", "metric", "unit"]
        measured = self.values.filter(phase="measured")
        return summarise(measured, self.confidence if confidence is None else confidence, keys)

    def tables(self) -> list[Table]:
        """Returns the tables of `binhop compare`. `binhop.tables.rendered` makes Markdown or LaTeX."""
        from binhop.tables.comparison import comparison_tables

        return comparison_tables(self.values, self.summary, self.provenance)

    def to_json(self) -> str:
        """Returns the JSON that `binhop compare --json` prints: all counts, the summary, the provenance."""
        rows = self.values.to_dicts()
        for row in rows:
            row["value"] = exact(row["value"], row["unit"])
        provenance = {**self.provenance, "descriptions": self.machines, "notes": self.notes}
        whole = {"schema": SCHEMA, "rows": rows, "summary": self.summary.to_dicts(), "provenance": provenance}
        return json_text(whole)

    def write(self, directory: str | os.PathLike[str], *, figures: bool = True) -> list[str]:
        """Writes tables, machines, provenance and figures into a directory, complete or not at all.

        An earlier result is replaced; files in it that binhop did not write stay. Any other directory that is
        not empty is refused.

        Returns:
            The names of the files.
        """
        with output.ResultDirectory(directory) as place:
            return place.fill(self, figures=figures)

    def write_tables(self, directory: Path) -> None:
        """Writes the tables, the machines and the provenance into a directory that is there."""
        for name, frame in (
            ("results", self.values),
            ("differences", self.differences),
            ("summary", self.summary),
        ):
            output.write_parquet(frame, directory / f"{name}.parquet")
        output.write_values(self.values, directory / "results.csv")
        self.differences.write_csv(directory / "differences.csv")
        self.summary.write_csv(directory / "summary.csv")
        (directory / "machines").mkdir()
        for number, (name, text) in enumerate(self.machines.items(), 1):
            file = f"{number}-{re.sub(r'[^A-Za-z0-9.]+', '-', name)[:64]}.toml"
            (directory / "machines" / file).write_text(text, encoding="utf-8")
        output.write_provenance(directory, self.provenance, self.notes)

    def draw(self, directory: Path) -> list[Path]:
        """Draws the figures from the tables in a directory, and returns the files."""
        from binhop.report import draw_comparison  # a command without figures needs no module that draws

        return draw_comparison(directory)

    def chart(self, workload: str | None = None) -> Any:
        """Returns the figure of a workload as an Altair chart, for a notebook.

        If `workload` is None, the figure is that of the first workload that has a figure. Where there is
        nothing to draw, the chart is a sentence that says so.
        """
        from binhop.report import chart_of  # a command without figures needs no module that draws
        from binhop.report.comparison import comparison_charts, comparison_words

        measured = as_one_workload(self.values.filter(phase="measured"), by_trace=self.by_trace)
        charts = comparison_charts(measured, self.differences, self.summary)
        return chart_of(charts, workload, comparison_words(self.differences, self.summary))

    def _repr_html_(self) -> str:
        from binhop.tables.comparison import explained
        from binhop.tables.html import html

        meaning = explained(self.summary, self.provenance)
        return html(self.tables(), [*([meaning] if meaning else []), *self.notes])

    def __repr__(self) -> str:
        names = f"{', '.join(self.workloads)}: {', '.join(self.alternatives)}"
        lines = [f"<Comparison {names}; {counted(len(self.seeds), 'placement')}"]
        for row in self.summary.filter(metric=self.metrics[0]).iter_rows(named=True):
            text = f"  {row['workload']} {row['metric']}: {row['alternative']} against {row['baseline']}: "
            text += "both 0" if row["relative"] is None else f"{100 * row['relative']:+.3g}%"
            if row["low"] is not None and row["relative"] is not None:
                low, high = (100 * row[side] / abs(row["baseline_mean"]) for side in ("low", "high"))
                text += f" ({low:+.3g}% to {high:+.3g}%), less in {100 * row['chance']:.0f}% of the seeds"
            lines.append(text)
        return "\n".join(map(escaped, lines)) + ">"


def _values(results: Mapping[str, Sequence[Result]]) -> pl.DataFrame:
    """Returns every count, each row with its alternative."""
    parts = [
        result.results.with_columns(alternative=pl.lit(name))
        for of in zip(*results.values(), strict=True)
        for name, result in zip(results, of, strict=True)
    ]
    order = ["workload", "alternative", "machine", "phase", "seed", "metric", "unit", "value"]
    whole: pl.DataFrame = pl.concat(parts)
    return whole.select(order)


def _spread_notes(measured: pl.DataFrame, metrics: Sequence[str]) -> list[str]:
    """Returns notes on how each alternative's first metric lies over the placements."""
    said = []
    several = measured["workload"].n_unique() > 1
    for (workload,), of in measured.group_by("workload", maintain_order=True):
        before = f"{workload}, " if several else ""
        for (name,), rows in of.filter(metric=metrics[0]).group_by("alternative", maintain_order=True):
            title = f"{before}{name}, {metrics[0].removesuffix('.mpi')}"
            said += spread.notes(rows.select("seed", "value").iter_rows(), title, rows["unit"][0])
        compared = of.filter(pl.col("metric").is_in(list(metrics))).drop_nulls("value")
        differ = compared.group_by("metric").agg(pl.col("value").n_unique())["value"].max()
        if differ == 1 and compared["seed"].n_unique() > 1:
            said.append(
                f"{before}all alternatives and placements are equal: there is no distribution to draw"
            )
    return said


def _notes(results: Mapping[str, Sequence[Result]], constants: Sequence[str]) -> list[str]:
    """Returns the notes of the runs. A note that only some alternatives have is preceded by their names."""
    said: dict[tuple[str, str], list[str]] = {}
    runs = len(next(iter(results.values())))
    for of in zip(*results.values(), strict=True):
        who: dict[str, list[str]] = {}
        for name, result in zip(results, of, strict=True):
            for note in result.own_notes:
                who.setdefault(UNUSED.sub(r"the policy does not use \1", note), []).append(name)
        for note, names in who.items():
            of_whom = "" if len(names) == len(results) else f"{', '.join(names)}: "
            said.setdefault((of_whom, note), []).append(of[0].workloads[0])
    notes = [
        f"{'' if len(works) == runs else ', '.join(works) + ': '}{of_whom}{note}"
        for (of_whom, note), works in said.items()
    ]
    if len(constants) == len(results):
        notes.append("nothing is random in any of them: each has one value, no interval and no chance")
    elif constants:
        said_of = ", ".join(constants)
        notes.append(
            f"{said_of}: nothing is random there; its one value stands against every placement of the others"
        )
    return notes


def _uncompared(results: Mapping[str, Sequence[Result]], metrics: Sequence[str]) -> list[str]:
    """Returns notes on what is not compared: caches, CPI, and lines of memory that differ in size."""
    have = {
        name: cache_metrics([*of[0].results["metric"].unique(maintain_order=True)])
        for name, of in results.items()
    }
    said = []
    lines = {name: _memory_lines(of[0].machine) for name, of in results.items()}
    if MEMORY in metrics and len({*lines.values()}) > 1:
        sizes = ", ".join(f"{line} on {name}" for name, line in lines.items())
        said.append(f"what reaches memory is counted in lines, and the lines differ: {sizes}")
    if not any(metric in metrics for of in have.values() for metric in of):
        return said  # the user has chosen something else
    without = [name for name, of in have.items() if "cpi" not in of]
    if 0 < len(without) < len(have):
        said.append(f"{', '.join(without)}: the machine states no [cost], so its CPI is not known")
    for metric in dict.fromkeys(metric for of in have.values() for metric in of if metric != "cpi"):
        having = [name for name, of in have.items() if metric in of]
        if len(having) < len(have):
            whose = f"{', '.join(having)}: {'its' if len(having) == 1 else 'their'}"
            said.append(f"{whose} {metric} has no counterpart everywhere; see results.parquet for all values")
        elif metric not in metrics and MEMORY in metrics:
            said.append(f"{metric} belongs to the last level of some machines only: it is not compared")
    return said


def _memory_lines(machine: str) -> str:
    """Returns the line sizes with which the caches of a resolved machine ask memory."""
    caches = tomllib.loads(machine)["cache"].values()
    return " and ".join(dict.fromkeys(cache["line"] for cache in caches if cache["next"] == "memory"))
