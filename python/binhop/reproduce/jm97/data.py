"""Reads the study's counts for claims, tables and figures.

*Overhead* is the cycles that the processor waits for translation, per instruction of the program. The
program's own waits for caches are no part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from binhop import json_file
from binhop.output import MARK, read_parquet
from binhop.reproduce.jm97.designs import KEPT, REFERENCE, Organization
from binhop.reproduce.jm97.study import LEVELS_2, OF_CACHES, OF_DESIGNS, OF_LAST_LEVELS
from binhop.reproduce.judge import Measure, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import polars as pl
    from numpy.typing import NDArray

OVERHEAD, ALL = "translation.cycles", "cycles"
"""The cycles of translation, and all cycles."""
LEVELS = ("level-1", "behind", "memory")
"""The levels that serve an access: level 1, level 2, memory."""
SIDES = {"fetch": ("l1i", ("fetch",)), "data": ("l1d", ("load", "store"))}
"""The sides of the processor: the level 1 of each, and the kinds of its accesses."""

Counts = dict[str, float]
"""The metrics of a run under one placement."""
Cell = tuple[str, str, str, Organization]
"""The kind of the job, the program, the design and its caches."""


@dataclass(frozen=True)
class Jm97Data:
    """`Jm97Data` holds the counts of a run.

    Attributes:
        counts: One row for each job's kind, program, design, caches, placement and metric.
        provenance: Versions, programs, machines.
    """

    counts: pl.DataFrame
    provenance: dict[str, Any]

    @classmethod
    def read(cls, directory: Path) -> Jm97Data:
        """Reads the counts from the Parquet of a directory."""
        return cls(read_parquet(directory / "counts.parquet"), json_file.read(directory / MARK))

    @property
    def scale(self) -> str:
        """The scale of the run."""
        return str(self.provenance["scale"])

    @property
    def confidence(self) -> float:
        """The confidence of every interval."""
        return float(self.provenance["confidence"])

    @cached_property
    def stands_for(self) -> dict[str, str]:
        """The document's program that each program replaces, in the order of Table 3; "" for none."""
        return {one["name"]: one["stands_for"] for one in self.provenance["programs"]}

    @property
    def programs(self) -> list[str]:
        """The programs, in the order of Table 3."""
        return [*self.stands_for]

    def program_of(self, name: str) -> str | None:
        """Returns the program that stands for a program of the document; None if there is no such program."""
        return next((program for program, of in self.stands_for.items() if of == name), None)

    @cached_property
    def cells(self) -> dict[Cell, list[Counts]]:
        """The metrics of every cell, one set for each placement."""
        found: dict[tuple[Cell, int], Counts] = {}
        columns = ("kind", "program", "design", "level_1", "level_2", "line_1", "line_2", "seed")
        for kind, program, design, *sizes, seed, metric, value in self.counts.select(
            *columns, "metric", "value"
        ).iter_rows():
            key = (kind, program, design, Organization(*sizes)), seed
            found.setdefault(key, {})[metric] = value
        cells: dict[Cell, list[Counts]] = {}
        for cell, seed in sorted(found, key=lambda key: key[1]):
            cells.setdefault(cell, []).append(found[cell, seed])
        return cells

    def runs(
        self, program: str, design: str, kind: str = OF_DESIGNS, caches: Organization = REFERENCE
    ) -> list[Counts]:
        """Returns the metrics of a cell, one set for each placement."""
        return self.cells[kind, program, design, caches]

    def samples(
        self,
        programs: Iterable[str],
        design: str,
        value: str | Callable[[Counts], float] = OVERHEAD,
        kind: str = OF_DESIGNS,
        caches: Organization = REFERENCE,
    ) -> NDArray[np.float64]:
        """Returns a figure per instruction over some programs together, one number for each placement."""
        take = (lambda counts: counts[value]) if isinstance(value, str) else value
        every = [self.runs(program, design, kind, caches) for program in programs]
        above = np.array([[take(counts) for counts in runs] for runs in every], np.float64).sum(axis=0)
        below = np.array([[counts["instructions"] for counts in runs] for runs in every]).sum(axis=0)
        made: NDArray[np.float64] = above / below
        return made

    def measure(self, programs: Iterable[str], design: str, value: str = OVERHEAD) -> Measure:
        """Returns a figure per instruction over some programs together, with its interval over placements."""
        return measure(self.samples(programs, design, value), self.confidence)

    def overhead(
        self, program: str, design: str, kind: str = OF_DESIGNS, caches: Organization = REFERENCE
    ) -> float:
        """Returns the overhead of a cell, as the mean over placements."""
        return float(self.samples([program], design, OVERHEAD, kind, caches).mean())

    def least_references(self, kind: str) -> float:
        """Returns the references of the shortest run of a kind."""
        return min(
            counts["references"] for cell, runs in self.cells.items() if cell[0] == kind for counts in runs
        )

    @cached_property
    def last_levels(self) -> list[int]:
        """The sizes of the last level with which the designs were run, in bytes for each side."""
        return sorted({cell[3].level_2 for cell in self.cells if cell[0] == OF_LAST_LEVELS})

    def saved(self, program: str, softvm: str, other: str, size: int, value: str = OVERHEAD) -> Measure:
        """Returns the cycles per instruction that software saves against a design, at a last level's size."""
        caches = Organization(level_2=size)
        own, theirs = (
            self.samples([program], design, value, OF_LAST_LEVELS, caches) for design in (softvm, other)
        )
        return measure(theirs - own, self.confidence)

    def crossover(self, program: str, softvm: str, other: str, value: str = OVERHEAD) -> int | None:
        """Returns the least size of the last level from which on software costs less than a design, or None.

        A difference counts if its interval lies above zero.
        """
        found = None
        for size in reversed(self.last_levels):
            if not self.saved(program, softvm, other, size, value).low > 0:
                break
            found = size
        return found

    @cached_property
    def sweep(self) -> dict[str, dict[Organization, float]]:
        """The overhead over the caches of Figure 8, by program."""
        found: dict[str, dict[Organization, float]] = {}
        for kind, program, design, caches in self.cells:
            if kind == OF_CACHES:
                found.setdefault(program, {})[caches] = self.overhead(program, design, kind, caches)
        return found

    def fits(self, program: str, size: int) -> bool:
        """Returns whether a program's working set fits into a last level of this size.

        It fits if repeated misses of the last level are at most as many as the first misses on lines.
        """
        (counts,) = self.runs(program, KEPT, OF_CACHES, Organization(level_2=size))
        misses, first = (
            sum(counts[f"{cache}.{kind}.{what}"] for cache, kind in _BEHIND)
            for what in ("misses", "compulsory")
        )
        return misses - first <= first

    def between(self, program: str) -> bool:
        """Returns whether the working set of a program lies between the two last levels of Figure 8."""
        small, large = LEVELS_2
        return not self.fits(program, small) and self.fits(program, large)


_BEHIND = (("l2i", "fetch"), ("l2d", "load"), ("l2d", "store"))


def events(counts: Iterable[Counts], side: str) -> dict[tuple[str, str], float]:
    """Returns the six events of Table 1 on one side, as shares of its accesses.

    An event is the level that serves the access, and whether the TLB holds the translation (`hit`) or a
    handler must load it (`miss`).
    """
    cache, kinds = SIDES[side]
    total: Counts = {}
    for of in counts:
        for metric, value in of.items():
            total[metric] = total.get(metric, 0.0) + value

    def every(prefix: str, suffix: str) -> float:
        return sum(total[f"{prefix}.{kind}.{suffix}"] for kind in kinds)

    accesses, misses = every(cache, "accesses"), every(cache, "misses")
    memory = every("memory", "accesses")
    served = dict(zip(LEVELS, (accesses - misses, misses - memory, memory), strict=True))
    made = {}
    for level, number in served.items():
        missed = every("translation", f"tlb-miss.{level}")
        made[level, "hit"] = (number - missed) / accesses
        made[level, "miss"] = missed / accesses
    return made
