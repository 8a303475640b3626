"""Measures the cost of a switch over quanta and machines, in one pass for each quantum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop._binhop import Machine
from binhop.arguments import counts
from binhop.differences import distinct_names
from binhop.errors import RequestError
from binhop.escape import json_text
from binhop.lazy_imports import pl
from binhop.numbers import grouped
from binhop.output import write_machines, write_parquet, write_provenance
from binhop.results import SCHEMA, notes_once
from binhop.run_options import RunOptions, takes
from binhop.summary import check_confidence
from binhop.switch_cost import CONFIDENCE, estimates
from binhop.switching import switches_all
from binhop.traces import ArrowStream, Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Unpack

    from binhop.tables import Table

FIGURES = ("exact", "returning", "document", "overhead", "overhead_returning", "overhead_document")
"""The figures of a surface: see `binhop.switch_cost.overheads`."""
FACTS = ("binhop", "seeds", "warmup", "interval", "policy", "traces")
"""The facts that the provenance of a surface takes from the provenance of its runs."""


@takes(RunOptions)
def switch_surface(
    machines: Sequence[Machine | str | os.PathLike[str]],
    traces: Sequence[Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame],
    quanta: Iterable[int | str],
    *,
    each: int | str | None = None,
    mixing: dict[str, Any] | None = None,
    confidence: float = CONFIDENCE,
    **options: Unpack[RunOptions],
) -> pl.DataFrame:
    """Measures what a switch costs for each quantum on each machine.

    For each quantum the traces are mixed anew, and read once for all machines.

    Args:
        machines: The machines, as for `simulate_all`: for example one machine with several sizes of a cache.
        traces: The traces that share the processor.
        quanta: The quanta, in instructions.
        each: The greatest number of references to read of each trace. A built-in workload needs it.
        mixing: Further keywords of `Trace.mix`.
        confidence: The confidence of the intervals.
        **options: The keywords of `binhop.run_options.RunOptions`.

    Returns:
        One row for each quantum, machine and figure: quantum, machine (its name, with the settings that
        differ), switches, metric, n, mean, low and high. The metrics are `exact`, `returning`
        and `document` (cycles per switch), `overhead`, `overhead_returning` and `overhead_document` (shares
        of all cycles).

    >>> sizes = [Machine.load("zen-4k", [f"cache.l2.size={size}"]) for size in ("256KiB", "1MiB")]
    >>> found = switch_surface(sizes, ["lin", "tree"], [10_000, 40_000], each=100_000, seeds=1)
    >>> found.filter(metric="overhead").select("quantum", "machine").rows()[:2]
    [(10000, 'zen-4k, cache.l2.size=256KiB'), (10000, 'zen-4k, cache.l2.size=1MiB')]
    """
    loaded = [one if isinstance(one, Machine) else Machine.load(str(one)) for one in machines]
    named = dict(zip(distinct_names(loaded), loaded, strict=True))
    mixed = {"length": each, **(mixing or {})}
    return surface_of(named, traces, quanta, mixing=mixed, confidence=confidence, **options).rows


def surface_of(
    machines: Mapping[str, Machine],
    traces: Sequence[Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame],
    quanta: Iterable[int | str],
    *,
    mixing: dict[str, Any],
    confidence: float = CONFIDENCE,
    **options: Unpack[RunOptions],
) -> SurfaceResult:
    """Measures as `switch_surface` does, for named machines. `mixing` holds all keywords of `Trace.mix`."""
    check_confidence(confidence)
    numbers = counts(quanta, "quanta", least=1)
    if not numbers:
        raise RequestError("[]", "quanta", "a surface needs a quantum", "write it like quanta=[100_000]")
    parts, notes = [], {}
    for quantum in numbers:
        trace = Trace.mix(traces, quantum, **mixing)
        results = switches_all([*machines.values()], trace, **options)
        of_run = {name: result.own_notes for name, result in zip(machines, results, strict=True)}
        notes[f"quantum {grouped(quantum)}"] = notes_once(of_run)
        for name, result in zip(machines, results, strict=True):
            rows = result.overheads()
            found = estimates(rows, FIGURES, confidence=confidence)
            parts.append(
                found.select(
                    "workload",
                    pl.lit(quantum, pl.Int64).alias("quantum"),
                    pl.lit(name).alias("machine"),
                    pl.lit(rows["switches"][0], pl.Int64).alias("switches"),
                    "metric",
                    "n",
                    "mean",
                    "low",
                    "high",
                )
            )
    rows = pl.concat(parts)
    facts = {key: value for key, value in results[0].provenance.items() if key in FACTS}
    return SurfaceResult(
        rows=rows.drop("workload"),
        workload=rows["workload"][0],
        machines={name: result.machine for name, result in zip(machines, results, strict=True)},
        notes=notes_once(notes),
        provenance={**facts, "surface": True, "quanta": [*numbers], "confidence": confidence},
    )


class SurfaceResult:
    """`SurfaceResult` holds what a switch costs for each quantum on each machine.

    Attributes:
        rows: One row for each quantum, machine and figure, as `binhop.switch_surface` returns them.
        workload: The name of the mix.
        machines: Each machine, resolved, as TOML.
        own_notes: The notes of the runs.
        provenance: Versions, seeds, quanta and traces, from which the measurement can be repeated.
    """

    def __init__(
        self,
        *,
        rows: pl.DataFrame,
        workload: str,
        machines: dict[str, str],
        notes: list[str],
        provenance: dict[str, Any],
    ) -> None:
        self.rows = rows
        self.workload = workload
        self.machines = machines
        self.own_notes = notes
        self.provenance = {**provenance, "workload": workload}

    @property
    def notes(self) -> list[str]:
        """The notes for the reader."""
        return self.own_notes

    def tables(self) -> list[Table]:
        """Returns the tables of `binhop surface`."""
        from binhop.tables.surface import surface_tables

        return surface_tables(self.rows, self.provenance)

    def to_json(self) -> str:
        """Returns the JSON that `binhop surface --json` prints. Undefined values are null."""
        provenance = {**self.provenance, "descriptions": self.machines, "notes": self.notes}
        return json_text({"schema": SCHEMA, "rows": self.rows.to_dicts(), "provenance": provenance})

    def write_tables(self, directory: Path) -> None:
        """Writes the surface, the machines and the provenance into a directory that is there."""
        write_parquet(self.rows, directory / "surface.parquet")
        self.rows.write_csv(directory / "surface.csv")
        write_machines(self.machines, directory)
        write_provenance(directory, self.provenance, self.notes)

    def draw(self, directory: Path) -> list[Path]:
        """Draws the figure from the table in a directory, and returns the files."""
        from binhop.report import draw_surface  # a command without figures needs no module that draws

        return draw_surface(directory)


__all__ = ["FIGURES", "SurfaceResult", "surface_of", "switch_surface"]
