"""Compares the built-in workloads with the papers' measurements.

The figures are those of KH90, Appendix A and §4.1.1, and of MB90, Tables 1, 2 and 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import binhop
from binhop import _binhop
from binhop.cli import show
from binhop.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

SIZES = ("1MiB", "4MiB", "16MiB")
WAYS = (1, 4)
SEEDS = 4
CALLS = {3: "read", 4: "write", 5: "open", 10: "unlink", 18: "stat", 84: "wait", 114: "sendmsg"}
"""The system calls in which processes of the workloads give up the processor, as 4.3BSD numbers them."""


def calibrate(length: int) -> None:
    """Prints target and measurement of each workload, after at most `length` references.

    The targets are those of whole programs (KH90: 3 G instructions; MB90: 5,000 switches). A shorter length
    sees more of the start.
    """
    out = show.console()
    _misses(out, length)
    out.print()
    _trials(out, length)


def _misses(out: Console, length: int) -> None:
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


def _trials(out: Console, length: int) -> None:
    """Prints MB90's figures beside a trial of each of its benchmark sets."""
    sets = show.table(
        "workload", "", "M instr", "segment", "median", "data", "procs", "MB", "invol.", right=7
    )
    programs = show.table("workload", "program", "processes", "target MB", "MB", "touched MB", right=4)
    causes = show.table("workload", "cause", "call", "switches", "share", right=2)
    for workload, sizes, megabytes, processes, (least, most), data, involuntary in _binhop.trial_targets():
        switches = _binhop.TRIAL_SWITCHES
        with progress(f"{workload}, {switches} switches", quiet=False) as tell:
            trial = _binhop.measure_trial(binhop.Trace.workload(workload).stream(), switches, length, tell)
        instructions = f"{least:.0f}" if least == most else f"{least:.0f}-{most:.0f}"
        segment = _thousands(1e6 * (least + most) / 2 / switches)
        many = "-" if processes is None else str(processes)
        low, high = (f"{100 * share:.4g}%" for share in involuntary)
        share = f"<{high}" if involuntary[0] == 0 else f">{low}"
        sets.add_row(
            workload, "target", instructions, segment, "-", f"{data:.3f}", many, f"{megabytes}", share
        )
        happened = sum(count for _, _, count in trial.switches)
        forced = sum(count for cause, _, count in trial.switches if cause == "involuntary")
        sets.add_row(
            "",
            "measured",
            f"{trial.instructions / 1e6:.0f}",
            _thousands(trial.mean_segment),
            _thousands(trial.median_segment),
            f"{trial.data / max(trial.instructions, 1):.3f}",
            str(trial.processes),
            _megabytes(trial.bytes),
            f"{100 * forced / max(happened, 1):.1f}%",
        )
        targets = dict(sizes)
        for name, ran, largest, touched in trial.programs:
            target = f"{targets[name]}" if name in targets else "-"
            programs.add_row(workload, name, str(ran), target, _megabytes(largest), _megabytes(touched))
        for cause, number, count in trial.switches:
            call = "-" if number is None else CALLS.get(number, str(number))
            causes.add_row(workload, cause, call, show.grouped(count), f"{100 * count / happened:.1f}%")
    out.print(
        f"MB90 Tables 1, 2 and 4: a trial of {show.grouped(_binhop.TRIAL_SWITCHES)} switches, or of "
        f"{show.grouped(length)} references if these come first; mean and median instructions of a segment; "
        "data references per instruction; the size of all processes; involuntary switches"
    )
    for table in (sets, programs, causes):
        out.print()
        out.print(table)


def _thousands(instructions: float | None) -> str:
    if instructions is None:
        return "-"
    return f"{instructions / 1000:.0f}k" if instructions >= 10_000 else f"{instructions / 1000:.1f}k"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f}"
