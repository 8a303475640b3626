"""Made-up results of the KH90 study in which all claims hold; a test changes them in one place."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import polars as pl

from binhop.models import conflicts
from binhop.models.conflicts import Cache
from binhop.reproduce.kh90.claims import WHOLE
from binhop.reproduce.kh90.data import HEURISTICS, LARGE, MAIN, SIZES, SMALL, WAYS, WORKLOADS, Kh90Data
from binhop.reproduce.kh90.rates import POOLS, TUNED
from binhop.study import StudyResult

SEEDS = 12
RANDOM = {"1MiB": 1.5, "4MiB": 0.7, "16MiB": 0.3}
BY_WAYS = {1: 1.0, 2: 0.70, 4: 0.64}
REDUCTION = {1: 0.16, 2: 0.09, 4: 0.05}
NARROW_POOL = {"256KiB": 1.10, "512KiB": 1.08, "1MiB": 1.05, "2MiB": 1.02}

Cell = tuple[str, str, str, int, str]
Mean = Callable[[Cell], float]


def mean(cell: Cell) -> float:
    """Returns misses per 1000 instructions that fit the paper."""
    _, heuristic, size, ways, pool = cell
    random = RANDOM[size] * BY_WAYS[ways]
    careful = random * (1 - REDUCTION[ways])
    untuned = 1.0 if (size, ways) in TUNED else 1.05
    narrow = NARROW_POOL.get(pool, 1.0)
    coloring = 1.18 if pool == SMALL else None
    return {
        "random": random,
        "page-coloring-equal": random * (coloring or 1 - 0.2 * REDUCTION[ways]),
        "page-coloring-pid-hash": random * (coloring or 1 - 0.6 * REDUCTION[ways]),
        "bin-hopping": careful * narrow * 1.005 * untuned,
        "sequential": careful * (1.01 if pool == SMALL else 1.0) * untuned,
        "hierarchical": careful * narrow,
    }[heuristic]


def noise(cell: Cell) -> float:
    """Returns the deviation over placements, as a share of the mean."""
    _, heuristic, _, ways, _ = cell
    return (0.01 if heuristic == "random" else 0.002) / ways


def samples(cell: Cell, mean: Mean, noise: Mean, seeds: int) -> list[float]:
    """Returns numbers with exactly this mean; each heuristic and pool has its own deviations."""
    kind = 1 + HEURISTICS.index(cell[1])
    start = kind + POOLS.index(cell[4])
    waves = [math.cos(2.4 * kind * (seed + 1) + start) for seed in range(seeds)]
    middle = sum(waves) / seeds
    return [mean(cell) * (1 + noise(cell) * (wave - middle)) for wave in waves]


def rates(mean: Mean = mean, noise: Mean = noise, instructions: float = WHOLE) -> Kh90Data:
    """Returns a study's result with these misses and instructions, and without processes."""
    rows: list[dict[str, Any]] = []

    def add(part: str, cell: Cell, seeds: int) -> None:
        workload, heuristic, size, ways, pool = cell
        fixed = {"part": part, "workload": workload, "heuristic": heuristic, "phase": "measured"}
        fixed |= {"cache.l2.size": size, "cache.l2.ways": str(ways), "placement.pool": pool}
        for seed, value in enumerate(samples(cell, mean, noise, seeds)):
            rows.append({**fixed, "seed": seed, "metric": "l2.mpi", "value": value / 1000})

    for workload in WORKLOADS:
        fixed = {"part": "careful", "workload": workload, "phase": "measured", "seed": 0}
        rows.append({**fixed, "metric": "instructions", "value": float(instructions)})
    for workload, heuristic, size, ways in product(WORKLOADS, ("random", "hierarchical"), SIZES, WAYS):
        add("careful", (workload, heuristic, size, ways, LARGE), 4)
    for heuristic, size, ways, pool in product(HEURISTICS, SIZES, WAYS, (LARGE, SMALL)):
        add("heuristics", (MAIN, heuristic, size, ways, pool), SEEDS)
    for heuristic, pool in product(("random", "bin-hopping", "sequential", "hierarchical"), POOLS):
        add("pools", (MAIN, heuristic, "4MiB", 1, pool), SEEDS)
    return _data(pl.DataFrame(rows, infer_schema_length=None), pl.DataFrame(schema=PROCESSES))


PROCESSES: dict[str, Any] = dict.fromkeys(("part", "heuristic", "placement.sharing", "metric"), pl.String)
PROCESSES |= {"kernel": pl.Boolean, "seed": pl.UInt64, "asid": pl.UInt32, "value": pl.Float64}

Row = tuple[str, str, str | None, int, int, int, int, int, float]
"""part, heuristic, sharing, seed, asid, pages, shared pages, conflicts, misses per 1000 instructions."""


def processes(rows: list[Row]) -> Kh90Data:
    """Returns a study's result with these processes, and without total misses."""
    cache = Cache.of("1MiB", 1)
    made = []
    for part, heuristic, sharing, seed, asid, pages, shared, found, mpi in rows:
        values = {
            "os.pages": pages,
            "os.pages.shared": shared,
            "l2.conflicts": found,
            "l2.conflicts.minimum": conflicts.minimum(pages, cache),
            "l2.mpi": mpi / 1000,
        }
        made += [
            (part, heuristic, sharing, metric, False, seed, asid, float(value))
            for metric, value in values.items()
        ]
    frame = pl.DataFrame(made, schema=PROCESSES, orient="row")
    return _data(pl.DataFrame(), frame)


def _data(results: pl.DataFrame, table: pl.DataFrame) -> Kh90Data:
    result = StudyResult(
        results=results,
        series=pl.DataFrame(),
        processes=table,
        cells=pl.DataFrame(),
        axes=[],
        notes=[],
        provenance={"scale": "paper", "confidence": 0.9},
    )
    return Kh90Data(result)
