"""Measures what address translation costs: runs designs with and without it, under the same placements."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from binhop.arguments import seed_numbers
from binhop.comparison.alternatives import Alternative, alternatives, only
from binhop.errors import RequestError
from binhop.escape import escaped, json_text
from binhop.lazy_imports import pl
from binhop.numbers import figure
from binhop.output import ResultDirectory, write_machines, write_parquet, write_provenance
from binhop.results import SCHEMA, notes_once
from binhop.run import simulate_all
from binhop.run_options import RunOptions, extended, takes
from binhop.summary import check_confidence
from binhop.traces import ArrowStream, Trace
from binhop.translation_figures import figures, summary

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Unpack

    from binhop._binhop import Machine
    from binhop.results import Result
    from binhop.tables import Table

SEEDS = 8
"""The default number of placements. Each design runs twice, so a placement takes longer than elsewhere."""
STATES = {"on": "translation.active=true", "off": "translation.active=false"}
"""The two runs of a design, and the setting of each."""


class TranslationResult:
    """`TranslationResult` holds what address translation costs on several designs, for one trace.

    Attributes:
        results: The metrics of every run: one row for each workload, design, translation (`on` or `off`),
            phase, seed and metric.
        figures: One row for each workload, design, seed and figure (see `binhop.translation_figures`).
        confidence: The confidence of the intervals.
        machines: The machine of each design, resolved, as TOML.
        own_notes: The notes of the runs.
        provenance: Versions, seeds and the trace, from which the measurement can be repeated.
    """

    def __init__(
        self,
        *,
        results: pl.DataFrame,
        machines: dict[str, str],
        notes: list[str],
        confidence: float,
        provenance: dict[str, Any],
    ) -> None:
        self.results = results
        self.machines = machines
        self.figures = figures(results.filter(phase="measured"), machines)
        self.confidence = confidence
        self.own_notes = notes
        self.provenance = provenance

    @property
    def designs(self) -> list[str]:
        """The names of the designs, in order."""
        return [*self.machines]

    @property
    def notes(self) -> list[str]:
        """The notes for the reader: designs without costs, then `own_notes`."""
        free = [name for name, text in self.machines.items() if "cost" not in tomllib.loads(text)]
        said = []
        if free:
            number = "states" if len(free) == 1 else "state"
            said.append(
                f"{', '.join(free)} {number} no [cost], so there are no cycles: --set cost.memory=100 and a "
                "cost for each cache behind level 1 give them"
            )
        return [*said, *self.own_notes]

    def summary(self, confidence: float | None = None) -> pl.DataFrame:
        """Returns every figure with its interval over placements (`binhop.translation_figures.summary`)."""
        return summary(self.figures, self.confidence if confidence is None else confidence)

    def tables(self) -> list[Table]:
        """Returns the tables of `binhop translate`."""
        from binhop.tables.translation import translation_tables

        return translation_tables(self.summary())

    def to_json(self) -> str:
        """Returns the JSON that `binhop translate --json` prints. Undefined values are null."""
        provenance = {**self.provenance, "descriptions": self.machines, "notes": self.notes}
        return json_text({"schema": SCHEMA, "rows": self.summary().to_dicts(), "provenance": provenance})

    def write(self, directory: str | os.PathLike[str], *, figures: bool = True) -> list[str]:
        """Writes tables, machines, provenance and the figure into a directory, complete or not at all.

        An earlier result is replaced; files in it that binhop did not write stay. Any other directory that is
        not empty is refused.

        Returns:
            The names of the files.
        """
        with ResultDirectory(directory) as place:
            return place.fill(self, figures=figures)

    def write_tables(self, directory: Path) -> None:
        """Writes the tables, the machines and the provenance into a directory that is there."""
        whole = self.summary()
        for name, frame in (("results", self.results), ("figures", self.figures), ("summary", whole)):
            write_parquet(frame, directory / f"{name}.parquet")
        whole.write_csv(directory / "summary.csv")
        write_machines(self.machines, directory)
        write_provenance(directory, self.provenance, self.notes)

    def draw(self, directory: Path) -> list[Path]:
        """Draws the figure from the tables in a directory, and returns the files."""
        from binhop.report import draw_translation  # a command without figures needs no module that draws

        return draw_translation(directory)

    def chart(self, workload: str | None = None) -> Any:
        """Returns the figure as an Altair chart, for a notebook. There is one workload."""
        from binhop.report import chart_of  # a command without figures needs no module that draws
        from binhop.report.translation import translation_charts, translation_words

        whole = self.summary()
        return chart_of(translation_charts(whole), workload, translation_words(whole))

    def _repr_html_(self) -> str:
        from binhop.tables.html import html

        return html(self.tables(), self.notes)

    def __repr__(self) -> str:
        rows = self.summary().filter(group="all", metric="walks").iter_rows(named=True)
        told = (f"{row['design']} {figure(1000 * (row['mean'] or 0), row['unit'])}" for row in rows)
        workload = self.results["workload"][0]
        return f"<TranslationResult {escaped(workload)}, walks/1000 references: {escaped(', '.join(told))}>"


@takes(RunOptions)
def translate(
    machines: Machine
    | str
    | os.PathLike[str]
    | Sequence[Machine | str | os.PathLike[str]]
    | Mapping[str, Machine | str | os.PathLike[str]],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    *,
    confidence: float = 0.95,
    **options: Unpack[RunOptions],
) -> TranslationResult:
    """Measures what address translation costs on one design or several, under one placement for each seed.

    Each design is simulated twice under the same placements, with translation on and off. All runs decode the
    trace once. The pages of the program have the same frames in both runs.

    Args:
        machines: One machine, several machines, or several machines with names, as for `compare`. Each
            machine needs a section `[translation]`.
        trace: As for `simulate`.
        confidence: The confidence of the intervals.
        **options: The keywords of `binhop.run_options.RunOptions`.

    Returns:
        The result: figures, notes, provenance.

    Raises:
        RequestError: The request is wrong, or a machine says nothing of translation; the message says how to
            mend it.
        RunError: An invariant of the simulated physics broke: an error of binhop.

    >>> found = translate(["zen-4k", "jm97"], "lin", length=20_000, seeds=2)
    >>> found.designs, found.summary().filter(group="all", metric="walks")["n"].to_list()
    (['zen-4k', 'jm97'], [2, 2])
    """
    one = only(machines)
    chosen = alternatives(machines) if one is None else [one]
    return translate_chosen(chosen, Trace.of(trace), confidence=confidence, **options)


def translate_chosen(
    chosen: Sequence[Alternative],
    trace: Trace,
    *,
    confidence: float = 0.95,
    place: str = "machines",
    **options: Unpack[RunOptions],
) -> TranslationResult:
    """Measures as `translate` does, for named designs."""
    check_confidence(confidence)
    for design in chosen:
        check_translation(design, place)
    pairs = {
        name: [design.machine.with_settings(setting) for design in chosen] for name, setting in STATES.items()
    }
    runs = [
        (design.name, name, machine)
        for name, of in pairs.items()
        for design, machine in zip(chosen, of, strict=True)
    ]
    random = any(machine.is_random for _, _, machine in runs)
    asked = options.get("seeds")
    numbers = list(range(SEEDS)) if asked is None and random else seed_numbers(asked, random=random)
    made = simulate_all([machine for *_, machine in runs], trace, **extended(options, seeds=numbers))
    return _measured([(*run[:2], result) for run, result in zip(runs, made, strict=True)], confidence)


def _measured(runs: Sequence[tuple[str, str, Result]], confidence: float) -> TranslationResult:
    results = [
        result.results.drop("machine").with_columns(design=pl.lit(design), translation=pl.lit(name))
        for design, name, result in runs
    ]
    order = ["workload", "design", "translation", "phase", "seed", "metric", "unit", "value"]
    on = [(design, result) for design, name, result in runs if name == "on"]
    facts = {**on[0][1].provenance}
    names = {design: facts_of.provenance["machine"] for design, facts_of in on}
    del facts["machine"]
    notes: dict[str, list[str]] = {}
    for design, _, result in runs:
        notes.setdefault(design, []).extend(result.own_notes)
    return TranslationResult(
        results=pl.concat([frame.select(order) for frame in results]),
        machines={design: result.machine for design, result in on},
        notes=notes_once(notes),
        confidence=confidence,
        provenance={**facts, "translation": True, "designs": names, "confidence": confidence},
    )


def check_translation(design: Alternative, place: str) -> None:
    """Raises an error if a design does not say how it translates addresses."""
    if design.policy is not None:
        rule = "a design has no policy in Python of its own"
        raise RequestError(design.name, place, rule, "give policy=…, which holds for all designs")
    if "translation" not in tomllib.loads(design.machine.resolved()):
        rule = "the machine does not say how it translates addresses"
        remedy = "add [tlb.NAME] and [translation] to its file: see docs/machine-file.md"
        raise RequestError(design.name, place, rule, remedy)


__all__ = ["SEEDS", "STATES", "TranslationResult", "check_translation", "translate", "translate_chosen"]
