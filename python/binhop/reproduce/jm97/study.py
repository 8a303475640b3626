"""Runs JM97's study: programs on designs that translate by a TLB, and by software at cache misses.

A job is one run of a program on several machines, so its references are decoded once for all of them:

- `designs`: every design, with the caches of Tables 1, 3 and 4.
- `last-level`: every design, with last levels of several sizes. It shows from which size on software wins.
- `caches`: software at cache misses, with the caches of Figure 8. A job has one pair of line sizes, and
  every size of the caches.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from binhop.kept_runs import KeptRuns, machine_facts
from binhop.lazy_imports import pl
from binhop.long_tables import frame_of
from binhop.reproduce.jm97.designs import DESIGNS, KEPT, KIB, REFERENCE, Organization, machine
from binhop.reproduce.jm97.programs import FIGURE_8, Program, missing, suite
from binhop.reproduce.stages import JobsProgress, StudyTables
from binhop.results import notes_once
from binhop.run import simulate_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from binhop.pace import Watch
    from binhop.results import Result

CONFIDENCE = 0.95
OF_DESIGNS, OF_LAST_LEVELS, OF_CACHES = "designs", "last-level", "caches"
"""The kinds of jobs."""
MIB = 1024 * KIB
LAST_LEVELS = tuple(128 * KIB << power for power in range(7))
"""The sizes of the last level, 128 KiB to 8 MiB a side (ours)."""
LEVELS_1 = tuple(KIB << power for power in range(8))
LEVELS_2 = (512 * KIB, MIB)
LINES = (16, 32, 64, 128)
"""The caches of Figure 8: 1 to 128 KiB a side, 512 KiB and 1 MiB a side."""
PAIRS = tuple((line_1, line_2) for line_1 in LINES for line_2 in LINES if line_1 <= line_2)
"""The lines of both levels in Figure 8. The level-2 line is never smaller."""
EQUAL = tuple((line, line) for line in LINES)

METRICS = (
    r"^(instructions|references|cycles|cpi"
    r"|translation\..*"
    r"|l[12][id]\.(fetch|load|store)\.(accesses|misses|compulsory)"
    r"|memory\.(fetch|load|store)\.accesses"
    r"|tlb\..*|[isd]tlb\..*)$"
)
"""The metrics that the study keeps."""


@dataclass(frozen=True)
class Jm97Scale:
    """`Jm97Scale` is how much of the study is run.

    Attributes:
        references: The references of each program on every design (Tables 1, 3 and 4).
        placements: The placements of these runs, and of the runs with several last levels.
        last_references: The references of each program with several last levels.
        last_levels: The sizes of the last level, in bytes.
        cache_references: The references of each program of Figure 8.
        levels_1: The sizes of level 1 in Figure 8, in bytes.
        pairs: The line sizes of both levels in Figure 8.
    """

    references: int
    placements: int
    last_references: int
    last_levels: tuple[int, ...]
    cache_references: int
    levels_1: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]


SCALES = {
    "smoke": Jm97Scale(
        1_000_000, 2, 200_000, (128 * KIB, MIB, 8 * MIB), 200_000, (KIB, 8 * KIB, 128 * KIB), EQUAL
    ),
    "quick": Jm97Scale(
        200_000_000,
        2,
        40_000_000,
        LAST_LEVELS,
        200_000_000,
        tuple(KIB * kib for kib in (1, 4, 8, 32, 128)),
        PAIRS,
    ),
    "paper": Jm97Scale(200_000_000, 4, 200_000_000, LAST_LEVELS, 1_000_000_000, LEVELS_1, PAIRS),
}


@dataclass(frozen=True)
class Jm97Job:
    """`Jm97Job` is one run of a program on several machines.

    Attributes:
        kind: `OF_DESIGNS`, `OF_LAST_LEVELS` or `OF_CACHES`.
        program: The program.
        cells: The machines: each a design and its caches.
        references: The references after which the run ends.
        placements: The number of placements.
    """

    kind: str
    program: Program
    cells: tuple[tuple[str, Organization], ...]
    references: int
    placements: int

    @property
    def name(self) -> str:
        """The name of the run."""
        lines = self.cells[0][1]
        pair = f"-{lines.line_1}-{lines.line_2}" if self.kind == OF_CACHES else ""
        return f"{self.program.name}-{self.kind}{pair}"

    def facts(self) -> dict[str, Any]:
        """Returns what identifies the run, in the form of JSON."""
        cells = [[design, asdict(caches)] for design, caches in self.cells]
        own = {"kind": self.kind, "references": self.references, "placements": self.placements}
        return {**own, "program": self.program.name, "cells": cells}


def jobs(scale: Jm97Scale, programs: Sequence[Program]) -> list[Jm97Job]:
    """Returns the runs of a scale."""
    every = tuple((design, REFERENCE) for design in DESIGNS)
    last = tuple((design, Organization(level_2=size)) for size in scale.last_levels for design in DESIGNS)
    made = [Jm97Job(OF_DESIGNS, one, every, scale.references, scale.placements) for one in programs]
    made += [Jm97Job(OF_LAST_LEVELS, one, last, scale.last_references, scale.placements) for one in programs]
    for one in programs:
        if one.stands_for in FIGURE_8:
            for line_1, line_2 in scale.pairs:
                sizes = ((level_1, level_2) for level_1 in scale.levels_1 for level_2 in LEVELS_2)
                cells = tuple((KEPT, Organization(*of, line_1, line_2)) for of in sizes)
                made.append(Jm97Job(OF_CACHES, one, cells, scale.cache_references, 1))
    return made


def run(
    scale: str,
    *,
    threads: int | None = None,
    kept: Path | None = None,
    progress: Watch | None = None,
    recordings: Path | None = None,
) -> StudyTables:
    """Runs every job, one after the other. A job that `kept` holds is not run again."""
    chosen = SCALES[scale]
    programs = suite(recordings)
    store = None if kept is None else KeptRuns(kept)
    told = JobsProgress(progress)
    parts: list[pl.DataFrame] = []
    traces: list[dict[str, Any]] = []
    notes: dict[str, list[str]] = {}
    for job in jobs(chosen, programs):
        counts, rest = _once(job, store, threads, told.of(f"{job.name}, {len(job.cells)} machines"))
        parts.append(counts)
        own = [{**trace, "kind": job.kind} for trace in rest["traces"]]
        traces += [trace for trace in own if trace not in traces]
        notes[job.name] = rest["notes"]
    provenance = {
        "binhop": rest["binhop"],
        "paper": "jm97",
        "scale": scale,
        "confidence": CONFIDENCE,
        "lengths": {
            OF_DESIGNS: chosen.references,
            OF_LAST_LEVELS: chosen.last_references,
            OF_CACHES: chosen.cache_references,
        },
        "programs": [
            {
                "name": one.name,
                "stands_for": one.stands_for,
                "differs": one.differs,
                "recorded": one.recording is not None,
            }
            for one in programs
        ],
        "missing": missing(programs),
        "machines": {design: machine(design).resolved() for design in DESIGNS},
        "traces": traces,
    }
    return StudyTables({"counts": pl.concat(parts)}, provenance, notes_once(notes))


def _once(
    job: Jm97Job, store: KeptRuns | None, threads: int | None, tell: Callable[[int, int | None], None]
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Returns the counts of a run, kept or new."""
    machines = [machine(*cell) for cell in job.cells]
    trace = job.program.trace()
    facts = [job.facts(), trace.provenance(), machine_facts(machines)]
    if store is not None:
        store.check()
        if (found := store.find(job.name, facts)) is not None:
            return frame_of(found[0]["counts"]), found[1]
    results = simulate_all(
        machines, trace, seeds=job.placements, length=job.references, threads=threads, progress=tell
    )
    parts = [
        result.results.filter(pl.col("phase") == "measured", pl.col("metric").str.contains(METRICS)).select(
            pl.lit(job.kind).alias("kind"),
            pl.lit(job.program.name).alias("program"),
            pl.lit(design).alias("design"),
            *(pl.lit(value, pl.Int64).alias(name) for name, value in asdict(caches).items()),
            "seed",
            "metric",
            "value",
        )
        for (design, caches), result in zip(job.cells, results, strict=True)
    ]
    first = results[0]
    rest = {
        "binhop": first.provenance["binhop"],
        "traces": first.provenance["traces"],
        "notes": _notes(results),
    }
    counts = pl.concat(parts)
    if store is not None:
        store.keep_if_possible(job.name, facts, {"counts": counts}, rest)
    return counts, rest


def _notes(results: Sequence[Result]) -> list[str]:
    """Returns the notes of a run without notes on placements, which do not matter to virtual caches."""
    every = (note for result in results for note in result.notes)
    return [note for note in dict.fromkeys(every) if "placement" not in note]
