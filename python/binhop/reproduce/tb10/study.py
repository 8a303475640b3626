"""Runs TB10's study: each workload once, with every form of every scheme behind one front.

The tap is the place at which references are taken. At `memory` it lies below all caches of the traced
computer, as in the document; at `level-2` it lies below a private level 2 of 256 KiB (ours).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from binhop._binhop import Machine
from binhop.device_traffic import device_data
from binhop.kept_runs import KeptRuns, machine_facts
from binhop.lazy_imports import pl
from binhop.long_tables import frame_of
from binhop.reproduce.stages import JobsProgress, StudyTables
from binhop.reproduce.tb10.forms import BASELINE, MAIN, Form, every_form, sensitive_forms
from binhop.results import notes_once
from binhop.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from binhop.pace import Watch

CONFIDENCE = 0.95
WORKLOADS = ("file-copy", "tpch", "specweb")
MEMORY, LEVEL_2 = "memory", "level-2"
TAPS: dict[str, tuple[str, ...]] = {MEMORY: (), LEVEL_2: ("cache.l2.size=256KiB",)}
"""The taps, and the settings of the machine `tb10` that make them."""
TABLES = ("counts", "sizes", "distances")


@dataclass(frozen=True)
class Tb10Scale:
    """`Tb10Scale` is how much of the study is run.

    Attributes:
        references: The references of each workload's trace. Level 2 passes on 48%, 9.4% and 6.2% of them at
            paper scale.
        placements: The placements.
        further: The share of these references that the sensitivity table and the second tap have.
    """

    references: Mapping[str, int]
    placements: int
    further: float


def _references(millions: tuple[int, int, int]) -> dict[str, int]:
    return {name: of * 1_000_000 for name, of in zip(WORKLOADS, millions, strict=True)}


SCALES = {
    "smoke": Tb10Scale(dict.fromkeys(WORKLOADS, 200000), 2, 0.5),
    "quick": Tb10Scale(_references((18, 36, 40)), 2, 0.3),
    "paper": Tb10Scale(_references((88, 425, 650)), 2, 0.1),
}
"""The scales. At paper scale each workload has the document's 40 M references below level 2."""


@dataclass(frozen=True)
class Tb10Job:
    """`Tb10Job` is one run of a workload.

    Attributes:
        workload: The built-in workload.
        tap: The place at which references are taken.
        kind: "forms", "sensitivity" or "tap".
        forms: The forms to compare.
        references: The references of the trace after which the run ends.
        placements: The number of placements.
    """

    workload: str
    tap: str
    kind: str
    forms: tuple[Form, ...]
    references: int
    placements: int

    @property
    def name(self) -> str:
        """The name of the run."""
        return f"{self.workload}-{self.kind}"


def jobs(scale: Tb10Scale) -> list[Tb10Job]:
    """Returns the runs of a scale."""
    made = []
    for workload in WORKLOADS:
        whole = scale.references[workload]
        part = int(whole * scale.further)
        made += [
            Tb10Job(workload, MEMORY, "forms", tuple(every_form()), whole, scale.placements),
            Tb10Job(workload, MEMORY, "sensitivity", tuple(sensitive_forms()), part, scale.placements),
            Tb10Job(workload, LEVEL_2, "tap", MAIN, part, scale.placements),
        ]
    return made


def machine(tap: str) -> Machine:
    """Returns the machine of a tap."""
    return Machine.load("tb10", [*TAPS[tap]])


def run(
    scale: str, *, threads: int | None = None, kept: Path | None = None, progress: Watch | None = None
) -> StudyTables:
    """Runs every job, one after the other. A job that `kept` holds is not run again."""
    chosen = SCALES[scale]
    store = None if kept is None else KeptRuns(kept)
    parts: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}
    traces: list[dict[str, Any]] = []
    notes: dict[str, list[str]] = {}
    told = JobsProgress(progress)
    for job in jobs(chosen):
        tables, rest = _once(job, store, threads, told.of(f"{job.name}, {len(job.forms)} forms"))
        for name in TABLES:
            parts[name].append(tables[name])
        traces += [{**trace, "kind": job.kind} for trace in rest["traces"]]
        notes[job.name] = rest["notes"]
    provenance = {
        "binhop": rest["binhop"],
        "paper": "tb10",
        "scale": scale,
        "confidence": CONFIDENCE,
        "machines": {tap: machine(tap).resolved() for tap in TAPS},
        "traces": traces,
    }
    return StudyTables({name: pl.concat(of) for name, of in parts.items()}, provenance, notes_once(notes))


def _once(
    job: Tb10Job, store: KeptRuns | None, threads: int | None, tell: Callable[[int, int | None], None]
) -> tuple[Mapping[str, pl.DataFrame], dict[str, Any]]:
    """Returns the tables of a run, kept or new."""
    own = machine(job.tap)
    facts = [asdict(job), machine_facts([own])]
    if store is not None:
        store.check()
        if (found := store.find(job.name, facts)) is not None:
            return {name: frame_of(held) for name, held in found[0].items()}, found[1]
    forms = {form.name: (form.scheme, form.settings()) for form in job.forms if form != BASELINE}
    result = device_data(
        own,
        Trace.workload(job.workload),
        schemes=forms,
        seeds=job.placements,
        length=job.references,
        threads=threads,
        progress=tell,
    )
    named = [pl.lit(job.workload).alias("workload"), pl.lit(job.kind).alias("kind")]
    # The baseline of the machine itself has the name of its scheme.
    form = pl.col("scheme").replace({BASELINE.scheme: BASELINE.name}).alias("form")
    counts = result.results.select(*named, form, "seed", "metric", "value")
    tables = {
        "counts": counts,
        "sizes": result.sizes.drop("workload").select(*named, pl.all()),
        "distances": result.distances.drop("workload").select(*named, pl.all()),
    }
    rest = {
        "binhop": result.provenance["binhop"],
        "traces": result.provenance["traces"],
        "notes": result.notes,
    }
    if store is not None:
        store.keep_if_possible(job.name, facts, tables, rest)
    return tables, rest
