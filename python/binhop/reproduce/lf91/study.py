"""Runs LF91's study: a pass over each program, and the model with its Monte Carlo."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from binhop import faults
from binhop.arguments import thread_count
from binhop.kept_runs import KeptRuns
from binhop.lazy_imports import pl
from binhop.models import paging as model
from binhop.output import write_parquet, write_provenance
from binhop.resumable import keep_paging, paging_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binhop.pace import Watch

PROGRAMS = {"sor": "sor", "tree": "tree", "tv": "tv", "lin": "lin", "mult": "mult1"}
"""The paper's traces, in the order of its tables, and the built-in workloads that represent them."""
REFERENCES = {
    "sor": 1_531_000_000,
    "tree": 1_158_000_000,
    "tv": 1_511_000_000,
    "lin": 1_232_000_000,
    "mult": 1_283_000_000,
}
"""The paper's lengths: unique pages (Table 1) over the fault rate at 64 MiB (Tables 2 to 6)."""
LENGTHS = {
    "smoke": dict.fromkeys(REFERENCES, 20_000_000),
    "quick": dict.fromkeys(REFERENCES, 1_000_000_000),
    "paper": REFERENCES,
}
"""References of each program, by scale."""
MODEL_SIZES = (8 << 20, 16 << 20, 32 << 20, 64 << 20)
"""The memories of Figure 1."""
PAGE = 4096


@dataclass(frozen=True)
class Tables:
    """`Tables` holds the tables of the study.

    Attributes:
        result: Faults and utilization of every program, `mult` also with the pid hash, as "mult+hash".
        model: One row for each memory of Figure 1 and color count: the model, the formula as it is printed,
            and the Monte Carlo with its standard error.
        scale: How much was run.
    """

    result: faults.PagingResult
    model: pl.DataFrame
    scale: str

    def write(self, directory: Path) -> None:
        """Writes the tables and what identifies them."""
        write_parquet(self.result.results, directory / "results.parquet")
        write_parquet(self.result.faults, directory / "faults.parquet")
        write_parquet(_with_model(self.result.utilization), directory / "utilization.parquet")
        write_parquet(self.model, directory / "model.parquet")
        provenance = {**self.result.provenance, "paper": "lf91", "scale": self.scale}
        provenance.pop("pid_hash")
        write_provenance(directory, provenance, self.result.notes)


@dataclass(frozen=True)
class _Job:
    """`_Job` is one pass: its name in results, the built-in workload, whether colors are hashed."""

    name: str
    program: str
    pid_hash: bool
    length: int


def run(
    scale: str, *, threads: int | None = None, kept: Path | None = None, progress: Watch | None = None
) -> Tables:
    """Runs every program, some at a time, and evaluates the model meanwhile.

    A pass that `kept` holds from an earlier attempt, by the same binhop, is not run again; a finished pass is
    kept there. The caller removes `kept`. After a pass that cannot be kept no other pass begins.
    """
    lengths = LENGTHS[scale]
    jobs = [_Job(name, program, False, lengths[name]) for name, program in PROGRAMS.items()]
    jobs.append(_Job("mult+hash", PROGRAMS["mult"], True, lengths["mult"]))
    total = _Total(sum(job.length for job in jobs), progress)
    with ThreadPoolExecutor(min(thread_count(threads), len(jobs))) as pool:
        try:
            store = None if kept is None else KeptRuns(kept)
            running = [pool.submit(_once, job, store, total.of(job.name)) for job in jobs]
            table = model_table()
            results = [one.result() for one in running]
        except BaseException:
            total.stop.set()  # the other passes end at their next report of progress
            raise
    return Tables(faults.join(results), table, scale)


def _once(job: _Job, store: KeptRuns | None, tell: Callable[[int, int | None], None]) -> faults.PagingResult:
    """Returns the page faults of a pass, kept or new."""
    if store is None:
        return _pass(job, tell)
    store.check()
    facts = asdict(job)
    if (kept_before := store.find(job.name, facts)) is not None:
        tell(job.length, job.length)
        return paging_of(kept_before)
    found = _pass(job, tell)
    keep_paging(store, job.name, facts, found)
    return found


def _pass(job: _Job, tell: Callable[[int, int | None], None]) -> faults.PagingResult:
    found = faults.paging(job.program, length=job.length, pid_hash=job.pid_hash, threads=1, progress=tell)
    named = pl.lit(job.name).alias("workload")
    provenance: dict[str, Any] = dict(found.provenance)
    provenance["traces"] = [
        {**trace, "stands_for": job.name, "pid_hash": job.pid_hash} for trace in provenance["traces"]
    ]
    return faults.PagingResult(
        found.faults.with_columns(named),
        found.utilization.with_columns(named),
        found.first_touches.with_columns(named),
        found.notes,
        provenance,
    )


class _Total:
    """`_Total` adds up the progress of passes that run at the same time, and stops them."""

    def __init__(self, total: int, watch: Watch | None) -> None:
        self.stop = threading.Event()
        self._total = total
        self._watch = watch
        self._done: dict[str, int] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> Callable[[int, int | None], None]:
        """Returns the callback of one pass."""

        def tell(done: int, _of: int | None) -> None:
            if self.stop.is_set():
                raise KeyboardInterrupt
            with self._lock:
                self._done[name] = done
                if self._watch is not None:
                    self._watch("page faults of five programs", sum(self._done.values()), self._total)

        return tell


@cache
def model_table() -> pl.DataFrame:
    """Returns the model at the memories of Figure 1, beside a Monte Carlo that is drawn only once."""
    rows = []
    for size in MODEL_SIZES:
        for colors in faults.COLORS:
            frames = size // PAGE // colors
            drawn = model.monte_carlo(colors, frames)
            rows.append(
                {
                    "size": size,
                    "colors": colors,
                    "frames_per_color": frames,
                    "model": model.utilization(colors, frames),
                    "as_printed": model.utilization_as_printed(colors, frames),
                    "monte_carlo": drawn.mean,
                    "error": drawn.error,
                    "runs": model.RUNS,
                }
            )
    return pl.DataFrame(rows)


def _with_model(used: pl.DataFrame) -> pl.DataFrame:
    """Returns the simulated utilization beside the model's, for memory of the program's own size."""
    cells = used.select("colors", "frames_per_color").rows()
    values = [None if frames is None else model.utilization(colors, frames) for colors, frames in cells]
    return used.with_columns(model=pl.Series(values, dtype=pl.Float64))
