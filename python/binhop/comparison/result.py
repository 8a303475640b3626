"""What a comparison leaves: every value, the differences seed by seed, and what they say together."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from binhop import output
from binhop.comparison.pairs import pair, summarise_pairs
from binhop.lazily import pl
from binhop.results import SCHEMA, Result, cache_metrics, exact
from binhop.summary import summarise

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from binhop.comparison.alternatives import Alternative


_UNUSED = re.compile(r"placement \S+ does not use (\S+)$")
"""A note that several policies share but for their names."""


class Comparison:
    """Alternatives beside each other, and the differences seed by seed.

    Attributes:
        alternatives: Their names, in order.
        baseline: The one that the others are compared with.
        constants: Those in which nothing is random: one value stands for every seed.
        metrics: What is compared, the most important first.
        values: One row for each workload, alternative, phase, seed and metric: everything that was counted.
        differences: One row for each workload, metric, alternative but the baseline, and seed.
        summary: One row for each workload, metric and alternative but the baseline: see
            `binhop.comparison.pairs.summarise_pairs`.
        machines: The machine of each alternative, resolved, as TOML.
        notes: What the reader should know.
        provenance: Versions, seeds, traces: enough to run it again.
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
        self.values = _values(results)
        measured = self.values.filter(phase="measured")
        self.differences = pair(measured, metrics, baseline, self.constants)
        self.summary = summarise_pairs(self.differences, confidence, self.constants)
        self.machines = {name: of[0].machine for name, of in results.items()}
        self.notes = [*_notes(results, self.constants), *_uncompared(results, metrics)]
        self.confidence = confidence
        self.provenance = provenance

    @property
    def workloads(self) -> list[str]:
        """What was run, in order."""
        return self.values["workload"].unique(maintain_order=True).to_list()

    @property
    def seeds(self) -> list[int]:
        """The numbers of the placements that are paired."""
        return list(self.provenance["seeds"])

    def each(self, confidence: float | None = None) -> pl.DataFrame:
        """Every alternative for itself: mean, interval, quantiles, the best and the worst seed."""
        keys = ["workload", "alternative", "phase", "metric", "unit"]
        measured = self.values.filter(phase="measured")
        return summarise(measured, self.confidence if confidence is None else confidence, keys)

    def to_json(self) -> str:
        """The object that `binhop compare --json` prints: every count, the summary, the provenance."""
        rows = self.values.to_dicts()
        for row in rows:
            row["value"] = exact(row["value"], row["unit"])
        provenance = {**self.provenance, "descriptions": self.machines, "notes": self.notes}
        whole = {"schema": SCHEMA, "rows": rows, "summary": self.summary.to_dicts(), "provenance": provenance}
        return json.dumps(whole, allow_nan=False, separators=(",", ":"))

    def write(self, directory: str | os.PathLike[str], *, figures: bool = True) -> list[str]:
        """Writes tables, machines, provenance and figures into a directory, complete or not at all.

        A directory of an earlier result is replaced; any other that holds something is refused.

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
        """Draws the figures from the tables in a directory; the files."""
        from binhop.report import draw_comparison  # it takes a while to load

        return draw_comparison(directory)

    def __repr__(self) -> str:
        n = len(self.seeds)
        lines = [f"<Comparison {', '.join(self.workloads)}: {', '.join(self.alternatives)}; {n} placements"]
        for row in self.summary.filter(metric=self.metrics[0]).iter_rows(named=True):
            text = f"  {row['workload']} {row['metric']}: {row['alternative']} against {row['baseline']}: "
            text += "both 0" if row["relative"] is None else f"{100 * row['relative']:+.3g}%"
            if row["low"] is not None and row["relative"] is not None:
                low, high = (100 * row[side] / abs(row["baseline_mean"]) for side in ("low", "high"))
                text += f" ({low:+.3g}% to {high:+.3g}%), less in {100 * row['chance']:.0f}% of the seeds"
            lines.append(text)
        return "\n".join(lines) + ">"


def _values(results: Mapping[str, Sequence[Result]]) -> pl.DataFrame:
    """Everything that was counted, each row with its alternative."""
    parts = [
        result.results.with_columns(alternative=pl.lit(name))
        for of in zip(*results.values(), strict=True)
        for name, result in zip(results, of, strict=True)
    ]
    order = ["workload", "alternative", "machine", "phase", "seed", "metric", "unit", "value"]
    whole: pl.DataFrame = pl.concat(parts)
    return whole.select(order)


def _notes(results: Mapping[str, Sequence[Result]], constants: Sequence[str]) -> list[str]:
    """What each run says: once where all say the same, else with the alternative's name."""
    said: dict[tuple[str, str], list[str]] = {}
    runs = len(next(iter(results.values())))
    for of in zip(*results.values(), strict=True):
        who: dict[str, list[str]] = {}
        for name, result in zip(results, of, strict=True):
            for note in result.notes:
                who.setdefault(_UNUSED.sub(r"the policy does not use \1", note), []).append(name)
        for note, names in who.items():
            of_whom = "" if len(names) == len(results) else f"{', '.join(names)}: "
            said.setdefault((of_whom, note), []).append(of[0].workloads[0])
    notes = [
        f"{'' if len(works) == runs else ', '.join(works) + ': '}{of_whom}{note}"
        for (of_whom, note), works in said.items()
    ]
    if len(constants) == len(results):
        notes.append("nothing is random in any of them: one value each, no interval, no chance")
    elif constants:
        said_of = ", ".join(constants)
        notes.append(
            f"{said_of}: nothing is random there; its one value stands beside every placement of the others"
        )
    return notes


def _uncompared(results: Mapping[str, Sequence[Result]], metrics: Sequence[str]) -> list[str]:
    """The caches that stand beside nothing of their name."""
    have = {
        name: cache_metrics([*of[0].results["metric"].unique(maintain_order=True)])
        for name, of in results.items()
    }
    if not any(metric in metrics for of in have.values() for metric in of):
        return []  # the user has chosen something else
    return [
        f"{name}: its {metric} has no counterpart everywhere; see results.parquet for all values"
        for name, of in have.items()
        for metric in of
        if not all(metric in other for other in have.values())
    ]
