"""Runs MB90's study: trials of three workloads, each on all designs in one run.

A trial is a seed of the workload. Its placements are the independent samples. All designs of a trial share
one run, so the trace is decoded once, and every design sees the same switches. One more run of each workload
has write buffers that drain half as fast, and one more has the kernel's references.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from binhop import _binhop, switching
from binhop._binhop import Machine
from binhop.kept_runs import KeptRuns, machine_facts
from binhop.lazy_imports import pl
from binhop.long_tables import frame_of
from binhop.reproduce.mb90.paper import DESIGNS, SWITCHES, WORKLOADS, Mb90Paper
from binhop.reproduce.stages import JobsProgress, StudyTables
from binhop.results import notes_once
from binhop.switch_cost import by_cause, costs_by, costs_by_cache, costs_by_level, interval_length, overheads
from binhop.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from binhop.pace import Watch
    from binhop.switching import SwitchResult

CONFIDENCE = 0.95
SLOW = 2
"""The factor by which the write buffers of the sensitivity run drain more slowly."""
TABLES = ("overheads", "causes", "levels", "caches", "curves")
"""The tables of the study. Each has columns for the design, the trial, the drain factor and the kernel."""


@dataclass(frozen=True)
class StudyScale:
    """`StudyScale` is how much of the study is run.

    Attributes:
        switches: The switches of each trial.
        trials: The trials of each workload, at most as many as the paper has.
        placements: The placements of each trial.
        further: The placements of the runs with slow write buffers, and of the runs with the kernel.
    """

    switches: int
    trials: int
    placements: int
    further: int


SCALES = {
    "smoke": StudyScale(100, trials=1, placements=2, further=2),
    "quick": StudyScale(2_000, trials=1, placements=4, further=1),
    "paper": StudyScale(SWITCHES, trials=3, placements=8, further=4),
}


@dataclass(frozen=True)
class Job:
    """`Job` is one run: a trial of a workload on several designs.

    Attributes:
        workload: The built-in workload.
        trial: The number of the trial, which is the seed of the workload.
        designs: The designs for which the paper has a trial of this number.
        drain: The factor by which write buffers drain more slowly than the designs say.
        placements: The number of placements.
        switches: The switches after which the trial ends.
        kernel: Whether the kernel references what the machine states for a switch.
    """

    workload: str
    trial: int
    designs: tuple[str, ...]
    drain: int
    placements: int
    switches: int
    kernel: bool = False

    @property
    def name(self) -> str:
        """The name of the run."""
        slow = "" if self.drain == 1 else f"-drain-{self.drain}"
        return f"{self.workload}-{self.trial}{slow}{'-kernel' if self.kernel else ''}"


def jobs(scale: StudyScale) -> list[Job]:
    """Returns the runs of a scale: each trial on the designs that have it, then the further runs."""
    paper = Mb90Paper()
    made = []
    for workload in WORKLOADS:
        for trial in range(scale.trials):
            designs = tuple(design for design in DESIGNS if len(paper.of(design, workload)) > trial)
            if designs:
                made.append(Job(workload, trial, designs, 1, scale.placements, scale.switches))
    first = [replace(job, placements=scale.further) for job in made if job.trial == 0]
    slow = [replace(job, drain=SLOW) for job in first]
    return [*made, *slow, *(replace(job, kernel=True) for job in first)]


@cache
def trial_of(workload: str, trial: int, switches: int) -> dict[str, Any]:
    """Returns what a trial does up to its last switch: its length, its processes and their sizes."""
    found = _binhop.measure_trial(Trace.workload(workload, seed=trial).stream(), switches)
    return {
        "workload": workload,
        "trial": trial,
        "instructions": found.instructions,
        "data": found.data,
        "processes": found.processes,
        "bytes": found.bytes,
        "touched": found.touched,
        "mean": found.mean_segment,
        "median": found.median_segment,
        "programs": [[*program] for program in found.programs],
    }


SWITCH_ALONE = [
    f"kernel.{occasion}.{key}=0B" for occasion in ("fault", "syscall") for key in ("code", "data", "stored")
]
"""The settings with which a kernel references nothing at faults and system calls."""


@cache
def machine(design: str, drain: int = 1) -> Machine:
    """Returns the machine of a design, with write buffers that drain slower by a factor.

    Its kernel references nothing but what it does at a switch.
    """
    loaded = Machine.load(f"mb90-{design}", SWITCH_ALONE)
    buffers = tomllib.loads(loaded.resolved()).get("write-buffer", {})
    slower = [f"write-buffer.{name}.drain={drain * of['drain']}" for name, of in buffers.items()]
    return loaded if drain == 1 else loaded.with_settings(*slower)


def run(
    scale: str, *, threads: int | None = None, kept: Path | None = None, progress: Watch | None = None
) -> StudyTables:
    """Runs every trial, one after the other. A trial that `kept` holds is not run again."""
    chosen = jobs(SCALES[scale])
    store = None if kept is None else KeptRuns(kept)
    told = JobsProgress(progress)
    parts: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}
    traces: list[dict[str, Any]] = []
    trials: dict[str, dict[str, Any]] = {}
    notes: dict[str, list[str]] = {}
    facts: dict[str, Any] = {}
    for job in chosen:
        tables, rest = _once(job, store, threads, told.of(f"{job.name}, {len(job.designs)} designs"))
        for name in TABLES:
            parts[name].append(tables[name])
        traces += rest["traces"]
        trials[f"{job.workload} {job.trial}"] = rest["trial"]
        notes[job.name] = rest["notes"]
        facts = {"binhop": rest["binhop"]}
    provenance = {
        **facts,
        "paper": "mb90",
        "scale": scale,
        "confidence": CONFIDENCE,
        "jobs": [asdict(job) for job in chosen],
        "machines": {design: machine(design).resolved() for design in DESIGNS},
        "cycle_time_ns": {design: switching.cycle_time(machine(design)) for design in DESIGNS},
        "targets": [[name, sizes] for name, sizes, *_ in _binhop.trial_targets()],
        "trials": [*trials.values()],
        "traces": traces,
    }
    return StudyTables(
        {name: pl.concat(of_name) for name, of_name in parts.items()}, provenance, notes_once(notes)
    )


def _once(
    job: Job, store: KeptRuns | None, threads: int | None, tell: Callable[[int, int | None], None]
) -> tuple[Mapping[str, pl.DataFrame], dict[str, Any]]:
    """Returns the tables of a trial, kept or new."""
    machines = [machine(design, job.drain) for design in job.designs]
    facts = [asdict(job), machine_facts(machines)]
    if store is not None:
        store.check()
        if (found := store.find(job.name, facts)) is not None:
            return {name: frame_of(held) for name, held in found[0].items()}, found[1]
    trial = trial_of(job.workload, job.trial, job.switches)
    results = switching.switches_all(
        machines,
        Trace.workload(job.workload, seed=job.trial),
        seeds=job.placements,
        # With one instruction more, the next switch would begin a segment without instructions.
        instructions=trial["instructions"] - 1,
        threads=threads,
        progress=tell,
        kernel=job.kernel,
    )
    tables = reduced(job, results)
    first = results[0]
    rest = {
        "binhop": first.provenance["binhop"],
        "trial": trial,
        "traces": [{**trace, "trial": job.trial, "drain": job.drain} for trace in first.provenance["traces"]],
        "notes": list(dict.fromkeys(note for result in results for note in result.notes)),
    }
    if store is not None:
        store.keep_if_possible(job.name, facts, tables, rest)
    return tables, rest


def reduced(job: Job, results: list[SwitchResult]) -> dict[str, pl.DataFrame]:
    """Returns what the study keeps of a trial: sums over all processes, and curves of one interval length."""
    parts: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}
    for design, result in zip(job.designs, results, strict=True):
        costs, curves = result.costs, result.curves
        streams = _streams(result.results)
        whole = overheads(costs, curves).join(streams, on=["workload", "seed"], how="left")
        chosen = by_cause(curves).filter(interval=interval_length(curves)).drop("asid", "life")
        frames = {
            "overheads": whole,
            "causes": costs_by(costs, "cause"),
            "levels": costs_by_level(costs),
            "caches": costs_by_cache(costs),
            "curves": chosen,
        }
        for name, frame in frames.items():
            parts[name].append(
                frame.with_columns(
                    pl.lit(design).alias("design"),
                    pl.lit(job.trial, pl.UInt32).alias("trial"),
                    pl.lit(job.drain, pl.UInt32).alias("drain"),
                    pl.lit(job.kernel).alias("kernel"),
                )
            )
    return {name: pl.concat(frames) for name, frames in parts.items()}


def _streams(results: pl.DataFrame) -> pl.DataFrame:
    """Returns the references, the instructions, and the pages placed, of each placement."""
    rows = results.filter(phase="measured")
    keys = ["workload", "seed"]
    names = {"references": "references", "instructions": "executed", "os.faults": "pages"}
    return rows.group_by(keys, maintain_order=True).agg(
        pl.col("value").filter(pl.col("metric") == metric).first().alias(name)
        for metric, name in names.items()
    )
