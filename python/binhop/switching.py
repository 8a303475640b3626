"""Measures what context switches cost: runs a trace in shared and in private caches at once."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binhop._binhop import Machine
from binhop.errors import RequestError
from binhop.escape import escaped, json_text
from binhop.lazy_imports import pl
from binhop.numbers import counted
from binhop.output import ResultDirectory, write_parquet, write_provenance
from binhop.results import SCHEMA, Result, notes_once
from binhop.run import run_all
from binhop.run_options import RunOptions, takes
from binhop.summary import check_confidence
from binhop.switch_cost import CONFIDENCE, KEYS, SEGMENT, has_switches, overheads
from binhop.switch_summary import costliest_pages, mean_curves, summary
from binhop.traces import ArrowStream, Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Unpack

    from binhop._binhop import LongTable, Outcome
    from binhop.tables import Table

ALONE = 0.999
"""The share of the instructions from which on one process is said to run alone."""
PAGES = 50
"""The most code pages of each workload in the JSON."""
_TIME = re.compile(r"([\d.]+)\s*(ps|ns|us|µs)?")
_NANOSECONDS = {"ps": 0.001, "ns": 1.0, "us": 1000.0, "µs": 1000.0, None: 1.0}


@dataclass(frozen=True)
class SwitchTables:
    """`SwitchTables` holds the tables of a run with `switches`. `binhop.switch_cost` describes them."""

    costs: pl.DataFrame
    curves: pl.DataFrame
    pages: pl.DataFrame


def switch_tables(outcome: Outcome) -> SwitchTables:
    """Returns the tables of switches of a run. Counts are signed, because excess may be negative."""
    tables = (outcome.switch_costs, outcome.switch_curves, outcome.switch_pages)
    costs, curves, pages = (pl.DataFrame(table) for table in tables if table is not None)
    counts = pl.exclude(*KEYS, *SEGMENT).cast(pl.Int64)
    return SwitchTables(costs.with_columns(counts), curves, pages)


class SwitchResult:
    """`SwitchResult` holds what the context switches of traces cost on one machine.

    Attributes:
        results: The counts of the run, as `binhop.simulate` returns them: those of the shared caches.
        costs: Sums over the segments of each life: one row for each workload, seed, asid, life, cause and
            system call, with a column for each metric.
        curves: Sums over the intervals after a switch: one row for each workload, seed, life or all (null),
            cause or all (null), length of interval, and number of interval.
        pages: The waits of each code page in the first 10,000 instructions after a switch.
        own_notes: The notes of the run itself.
        machine: The machine, resolved, as TOML.
        provenance: Versions, seeds and traces, from which the run can be repeated; the cycle time, and the
            commands of processes.
        segments: Every interval after every switch, if it was asked for: see docs/switches.md.
    """

    def __init__(
        self,
        *,
        results: pl.DataFrame,
        tables: SwitchTables,
        notes: list[str],
        machine: str,
        provenance: dict[str, Any],
        segments: LongTable | None = None,
    ) -> None:
        self.results = results
        self.costs = tables.costs
        self.curves = tables.curves
        self.pages = tables.pages
        self.own_notes = notes
        self.machine = machine
        self.provenance = provenance
        self.segments = segments

    @property
    def confidence(self) -> float:
        """The confidence of the intervals."""
        stated: float = self.provenance.get("confidence", CONFIDENCE)
        return stated

    @property
    def workloads(self) -> list[str]:
        """The workloads, in order."""
        found: list[str] = self.costs["workload"].unique(maintain_order=True).to_list()
        return found

    @property
    def notes(self) -> list[str]:
        """The notes for the reader: segments that end early or are short, a process alone; `own_notes`."""
        parts = {workload: _notes(costs, curves) for workload, costs, curves in self._each()}
        return [*notes_once(parts), *self.own_notes]

    def _each(self) -> Iterator[tuple[str, pl.DataFrame, pl.DataFrame]]:
        for workload in self.workloads:
            yield workload, self.costs.filter(workload=workload), self.curves.filter(workload=workload)

    def summary(self, confidence: float | None = None) -> pl.DataFrame:
        """Returns every figure with its interval over placements (see `binhop.switch_summary.summary`)."""
        confidence = self.confidence if confidence is None else confidence
        return pl.concat([summary(costs, curves, confidence) for _, costs, curves in self._each()])

    def overheads(self) -> pl.DataFrame:
        """Returns the cost of a switch and the overhead of all, for each workload and seed."""
        return pl.concat([overheads(costs, curves) for _, costs, curves in self._each()])

    def tables(self, confidence: float | None = None) -> list[Table]:
        """Returns the tables of `binhop switches`."""
        from binhop.tables.switches import cost_tables

        confidence = self.confidence if confidence is None else confidence
        return cost_tables(self.costs, self.curves, self.pages, self.provenance, confidence)

    def to_json(self, confidence: float | None = None) -> str:
        """Returns the JSON that `binhop switches --json` prints. Undefined values are null."""
        confidence = self.confidence if confidence is None else confidence
        curves = pl.concat([mean_curves(curves, confidence) for _, _, curves in self._each()])
        whole = {
            "schema": SCHEMA,
            "rows": self.summary(confidence).to_dicts(),
            "curves": curves.to_dicts(),
            "pages": costliest_pages(self.pages, PAGES).to_dicts(),
            "provenance": {
                **self.provenance,
                "confidence": confidence,
                "description": self.machine,
                "notes": self.notes,
            },
        }
        return json_text(whole)

    def write(self, directory: str | os.PathLike[str], *, figures: bool = True) -> list[str]:
        """Writes tables, provenance and figures into a directory, which appears complete or not at all.

        An earlier result is replaced; files in it that binhop did not write stay. Any other directory that is
        not empty is refused.

        Returns:
            The names of the files.
        """
        with ResultDirectory(directory) as place:
            return place.fill(self, figures=figures)

    def write_tables(self, directory: Path) -> None:
        """Writes tables, machine and provenance into a directory that is there."""
        for name in ("results", "costs", "curves", "pages"):
            write_parquet(getattr(self, name), directory / f"{name}.parquet")
        self.summary().write_csv(directory / "summary.csv")
        (directory / "machine.toml").write_text(self.machine, encoding="utf-8")
        write_provenance(directory, self.provenance, self.notes)

    def draw(self, directory: Path) -> list[Path]:
        """Draws the figures from the tables in a directory, and returns the files."""
        from binhop.report import draw_switches  # a command without figures needs no module that draws

        return draw_switches(directory)

    def chart(self, workload: str | None = None) -> Any:
        """Returns the figure of a workload as an Altair chart, for a notebook.

        If `workload` is None, the figure is that of the first workload.
        """
        from binhop.report import chart_of  # a command without figures needs no module that draws
        from binhop.report.switches import switch_charts, switch_words

        return chart_of(switch_charts(self.curves, self.confidence), workload, switch_words(self.curves))

    def _repr_html_(self) -> str:
        from binhop.tables.html import html

        return html(self.tables(), self.notes)

    def __repr__(self) -> str:
        rows = self.summary().filter(group="all", metric="exact").iter_rows(named=True)
        told = (f"{row['workload']} {row['mean']:.4g} cycles a switch" for row in rows)
        return f"<SwitchResult {escaped(', '.join(told))} on {escaped(self.provenance['machine'])}>"


@takes(RunOptions)
def switches(
    machine: Machine | str | os.PathLike[str],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    *,
    segments: bool = False,
    kernel: bool = False,
    **options: Unpack[RunOptions],
) -> SwitchResult:
    """Measures what the context switches of a trace cost on a machine, under one placement for each seed.

    Beside the shared caches, each process has caches of its own, as if it ran alone. What it waits longer in
    the shared caches is the cost of the switches.

    Args:
        machine: As for `simulate`. The machine needs a `[cost]` table.
        trace: As for `simulate`. It must hold a switch between processes.
        segments: If true, every interval after every switch is kept, beside their sums.
        kernel: If true, the kernel references at switches, faults and system calls what the machine's
            sections `[kernel.OCCASION]` say.
        **options: The keywords of `binhop.run_options.RunOptions`.

    Returns:
        The result: sums, curves, code pages, notes, provenance.

    Raises:
        RequestError: The request is wrong, or the trace has no switch; the message says how to mend it.
        RunError: An invariant of the simulated physics broke: an error of binhop.
    """
    return switches_all([machine], trace, segments=segments, kernel=kernel, **options)[0]


@takes(RunOptions)
def switches_all(
    machines: Sequence[Machine | str | os.PathLike[str]],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    *,
    segments: bool = False,
    kernel: bool = False,
    **options: Unpack[RunOptions],
) -> list[SwitchResult]:
    """Measures the switches of a trace on several machines, in one run that decodes the trace once.

    Args:
        machines: Several machines, each with a `[cost]` table.
        trace: As for `switches`.
        segments: As for `switches`.
        kernel: As for `switches`. All machines have the same kernel then.
        **options: The keywords of `binhop.run_options.RunOptions`.

    Returns:
        One result for each machine, in order.
    """
    loaded = [one if isinstance(one, Machine) else Machine.load(str(one)) for one in machines]
    for machine in loaded:
        check_costs(machine)
        if kernel:
            check_kernel(machine)
    opened = Trace.of(trace)
    runs = run_all(loaded, opened, options, switches=True, segments=segments, kernel=kernel)
    return [_measured(*run, opened.name, machine, kernel) for run, machine in zip(runs, loaded, strict=True)]


def _measured(
    result: Result, outcome: Outcome, workload: str, machine: Machine, kernel: bool
) -> SwitchResult:
    tables = switch_tables(outcome)
    if not has_switches(tables.costs):
        raise without_switches(workload)
    # Who runs in a mix or behind a pipe is known only when it has been read.
    commands = {str(asid): command for asid, command in outcome.switch_commands.items()}
    facts = {
        "switches": True,
        "confidence": CONFIDENCE,
        "cycle_time_ns": cycle_time(machine),
        "kernel": kernel,
        "processes": {workload: commands},
    }
    return SwitchResult(
        results=result.results,
        tables=tables,
        notes=[*result.own_notes, *(_flushes(machine) if kernel else [])],
        machine=result.machine,
        provenance={**result.provenance, **facts},
        segments=outcome.segments,
    )


def without_switches(workload: str) -> RequestError:
    """Returns the error for a trace in which one process runs all the time."""
    rule = "the trace has no switch between processes, so there is no cost of switches to measure"
    remedy = "record several programs together, or mix traces: binhop mix A B -o MIXED --quantum 400k"
    return RequestError(workload, "trace", rule, remedy)


def check_costs(machine: Machine, place: str = "machine") -> None:
    """Refuses a machine that does not say what an access costs."""
    if "cost" not in tomllib.loads(machine.resolved()):
        rule = "has no [cost] table, and without cycles a switch has no cost"
        caches = tomllib.loads(machine.resolved())["cache"]
        behind = [f"--set cost.{name}=10" for name, cache in caches.items() if "serves" not in cache]
        remedy = f"state them, as in {' '.join([*behind, '--set cost.memory=100'])}"
        raise RequestError(machine.name, place, rule, remedy)


def check_kernel(machine: Machine, place: str = "machine") -> None:
    """Raises an error if a machine does not say what its kernel references."""
    if "kernel" not in tomllib.loads(machine.resolved()):
        rule = "the machine does not say what its kernel references"
        remedy = "add --set kernel.switch.code=1KiB, or [kernel.switch] to its file: see docs/machine-file.md"
        raise RequestError(machine.name, place, rule, remedy)


def _flushes(machine: Machine) -> list[str]:
    """Returns the note about the caches that a machine's kernel flushes."""
    sections = tomllib.loads(machine.resolved()).get("kernel", {})
    flushed = [f"{of['flush']} ({occasion})" for occasion, of in sections.items() if of.get("flush")]
    if not flushed:
        return []
    return [
        f"the kernel flushes {', '.join(flushed)} in the shared and in the private caches, so the excess "
        "leaves out what these flushes cost; compare the cycles with the cycles of a run without flushes"
    ]


def cycle_time(machine: Machine) -> float | None:
    """Returns the nanoseconds of a cycle; None if the machine does not state them."""
    description = tomllib.loads(machine.resolved())
    stated = description.get("cycle-time", description.get("cost", {}).get("cycle-time"))
    found = None if stated is None else _TIME.fullmatch(str(stated))
    return None if found is None else float(found[1]) * _NANOSECONDS[found[2]]


def join(results: Sequence[SwitchResult], confidence: float = CONFIDENCE) -> SwitchResult:
    """Returns the results of several traces on one machine as one result with this confidence."""
    check_confidence(confidence)
    first = results[0]
    provenance = {
        **first.provenance,
        "confidence": confidence,
        "traces": [trace for result in results for trace in result.provenance["traces"]],
        "processes": {name: of for one in results for name, of in one.provenance["processes"].items()},
    }
    return SwitchResult(
        results=pl.concat([result.results for result in results]),
        tables=SwitchTables(
            *(pl.concat([getattr(one, name) for one in results]) for name in ("costs", "curves", "pages"))
        ),
        notes=notes_once({result.workloads[0]: result.own_notes for result in results}),
        machine=first.machine,
        provenance=provenance,
    )


def _notes(costs: pl.DataFrame, curves: pl.DataFrame) -> list[str]:
    """Returns what a reader of a workload's figures should know.

    Placements have the same segments, unless their own cycles decide when a process leaves the processor.
    Then a number is given as a range over placements.
    """
    rows = overheads(costs, curves)
    placements = rows.height
    told = []
    if rows["short"].sum():
        share = _range(100 * rows["short"] / rows["switches"], ".3g")
        told.append(
            f"{_range(rows['short'])} of {_range(rows['switches'])} segments ({share}%) fell short of "
            f"{counted(1000, 'instruction')}; a short segment counts with its own length"
        )
    if rows["truncated"].sum():
        told.append("the end of the trace cut the last segment off; it counts with the length that it has")
    if rows["same"].sum():
        told.append(
            f"{_range(rows['same'])} of the switches led to the same process (another thread, or itself); "
            "such a switch ends no segment"
        )
    undefined = rows.filter(pl.col("document").is_null())
    if not undefined.is_empty():
        told.append(
            f"{_under(undefined.height, placements)}fewer than 10% of the segments have "
            f"{counted(rows['interval'][0], 'instruction')}, so MB90's average cost is undefined"
        )
    unreached = rows.filter(pl.col("document").is_not_null(), ~pl.col("reached"))
    if not unreached.is_empty():
        told.append(
            f"{_under(unreached.height, placements)}more than 10% of the segments are longer than "
            f"{_range(unreached['cut'])} instructions, where the curves end, so MB90's average cost is too "
            "low"
        )
    lives = costs.group_by("asid", "life").agg(pl.col("segments", "instructions").sum())
    silent = lives.filter(pl.col("segments") > 0, pl.col("instructions") == 0)["asid"].n_unique()
    if silent:
        told.append(
            f"{counted(silent, 'address space')} to which the trace switches ran no instruction, because the "
            "trace lacks the references, which would evict lines of other processes. Record all processes to "
            "see what a switch costs"
        )
    asid, share_of_busiest = _busiest(costs)
    if share_of_busiest >= ALONE:
        told.append(
            f"asid {asid} runs {100 * share_of_busiest:.4g}% of all instructions: the cost is that of brief "
            "interruptions of one process"
        )
    return told


def _range(values: pl.Series, form: str = ",") -> str:
    """Returns the least and the most of the values of placements as text; one number if they are the same."""
    ordered = sorted(values.to_list())
    least, most = (format(value, form).replace(",", " ") for value in (ordered[0], ordered[-1]))
    return least if least == most else f"{least} to {most}"


def _under(some: int, placements: int) -> str:
    """Returns the words that begin a note about some of the placements; none if it is about all."""
    return "" if some == placements else f"under {some} of {placements} placements "


def _busiest(costs: pl.DataFrame) -> tuple[int, float]:
    """Returns the address space that runs most, and its share of all instructions.

    If the placements differ, the placement counts under which this share is least.
    """
    of = costs.group_by("seed", "asid", maintain_order=True).agg(pl.col("instructions").sum())
    shares = of.with_columns(share=pl.col("instructions") / pl.col("instructions").sum().over("seed"))
    busiest = shares.sort("share", maintain_order=True).group_by("seed", maintain_order=True).last()
    asid, share = busiest.sort("share", maintain_order=True).select("asid", "share").row(0)
    return int(asid), float(share)


__all__ = ["SwitchResult", "SwitchTables", "check_costs", "cycle_time", "join", "switch_tables", "switches"]
__all__ += ["switches_all", "without_switches"]
