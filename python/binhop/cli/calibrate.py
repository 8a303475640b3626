"""Compares the built-in workloads with the papers' measurements: KH90 Appendix A and §4.1.1."""

from __future__ import annotations

from typing import Any

import binhop
from binhop import _binhop
from binhop.cli import show
from binhop.cli.progress import progress

SIZES = ("1MiB", "4MiB", "16MiB")
WAYS = (1, 4)
SEEDS = 4


def calibrate(length: int) -> None:
    """Prints target and measurement of each workload: level-2 misses per 1000 instructions.

    The targets are those of whole programs (3 G instructions): a shorter length sees more of the start.
    """
    out = show.console()
    cells = [f"{ways}w {size.removesuffix('iB')}" for ways in WAYS for size in SIZES]
    table = show.table("workload", "", *cells, "switch", right=len(cells) + 1)
    base = binhop.Machine.load("kh90")
    for workload, switch, targets in _binhop.calibration_targets():
        measured: list[float] = []
        result: Any = None
        for ways in WAYS:
            for size in SIZES:
                machine = base.with_settings(f"cache.l2.size={size}", f"cache.l2.ways={ways}")
                with progress(f"{workload}, {ways}-way {size}", quiet=False) as tell:
                    result = binhop.simulate(machine, workload, seeds=SEEDS, length=length, progress=tell)
                measured.append(result.summary().filter(metric="l2.mpi")["mean"][0])
        switches = binhop.Trace.workload(workload).inspect(length)["switches"]
        every = result.value("instructions") / sum(switches.values()) if sum(switches.values()) else None
        flat = [value for row in targets for value in row]
        table.add_row(workload, "target", *(f"{value:.2f}" for value in flat), _thousands(switch))
        table.add_row("", "measured", *(f"{1000 * value:.2f}" for value in measured), _thousands(every))
    out.print(
        f"Level-2 misses per 1000 instructions, kh90, random placement, mean of {SEEDS} placements, after "
        f"{show.grouped(length)} references; 1w 4M: 1 way, 4 MiB; mean instructions between switches"
    )
    out.print()
    out.print(table)


def _thousands(instructions: float | None) -> str:
    return "-" if instructions is None else f"{instructions / 1000:.0f}k"
