"""Measures what a run costs for 1, 2, 4, … placements of one trace.

`demo` prints one line with the times of some runs, as `make demo` does. These are wall times of whole
commands, including their start. Each command runs once, on all processors.

`measure` writes docs/images/placements.csv, and `draw` makes docs/images/placements.png from this file. These
times are processor times, user and system together, of whole commands on one thread: what else the machine
does hardly moves them. Each is the least of RUNS runs.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import altair as alt
import polars as pl

import binhop
from binhop.report.style import BLUE, ORANGE, finish, save

MACHINES = {"kh90": ORANGE, "zen-4k": BLUE}
TRACE = "mult2.2"
RUNS = 3
MOST = 1024
IMAGES = Path(__file__).parent.parent / "docs" / "images"
DATA = IMAGES / "placements.csv"


def run(machine: str, length: str, placements: int, *more: str) -> None:
    """Runs the command without output."""
    command = ["run", machine, TRACE, "--length", length, "--seeds", str(placements), "--quiet", *more]
    subprocess.run([sys.executable, "-m", "binhop", *command], check=True)


def wall_seconds(machine: str, length: str, placements: int) -> float:
    """Returns the seconds that a run takes on all processors."""
    begin = time.perf_counter()
    run(machine, length, placements)
    return time.perf_counter() - begin


def processor_seconds(machine: str, length: str, placements: int) -> float:
    """Returns the seconds of the processor that a run takes on one thread."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    seconds = []
    for _ in range(RUNS):
        begin = used()
        run(machine, length, placements, "--threads", "1")
        seconds.append(used() - begin)
    return min(seconds)


def demo() -> None:
    """Prints a line with the times of a few runs that differ in the number of placements."""
    machine, length = "kh90", "50M"
    times = []
    for placements in (1, 32, 1024):
        seconds = wall_seconds(machine, length, placements)
        times.append(f"{placements:,} placement{'s' * (placements > 1)} {seconds:.1f} s")
    print(f"{length} references of {TRACE} on {machine}: {', '.join(times)}")


def processor() -> str:
    """Returns the name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def measure(length: str = "20M") -> None:
    """Measures each machine at each number of placements, and writes the times."""
    rows = []
    for machine in MACHINES:
        placements = 1
        while placements <= MOST:
            seconds = processor_seconds(machine, length, placements)
            rows.append((machine, placements, round(seconds, 3)))
            print(*rows[-1], flush=True)
            placements *= 2
    schema = ["machine", "placements", "seconds"]
    about = [
        pl.lit(TRACE).alias("trace"),
        pl.lit(length).alias("length"),
        pl.lit(processor()).alias("processor"),
    ]
    frame = pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        *about, pl.lit(binhop.__version__).alias("binhop")
    )
    frame.write_csv(DATA)


def draw() -> None:
    """Draws the times, and beside each line what as many runs of one placement take."""
    times = pl.read_csv(DATA)
    one = times.filter(placements=1).select("machine", one="seconds")
    times = times.join(one, on="machine").with_columns(apart=pl.col("one") * pl.col("placements"))
    length, trace, name = times.select("length", "trace", "processor").row(0)
    x = alt.X(
        "placements:Q",
        title="placements in one run",
        scale=alt.Scale(type="log", base=2, domain=[1, MOST], nice=False),
        axis=alt.Axis(values=[4**power for power in range(6)], format=",d"),
    )
    ticks = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64]
    highest = max(times["seconds"].max(), 16)
    y = alt.Scale(type="log", base=2, domain=[0.25, highest * 1.3], nice=False, clamp=True)
    axis = alt.Axis(values=ticks, format="~g")
    color = alt.Color(
        "machine:N", scale=alt.Scale(domain=[*MACHINES], range=[*MACHINES.values()]), legend=None
    )
    lines = alt.Chart(times).encode(x=x, color=color)
    measured = lines.mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=35, filled=True)).encode(
        y=alt.Y("seconds:Q", title="seconds of one processor", scale=y, axis=axis)
    )
    below = times.filter(pl.col("apart") <= highest * 1.3)
    apart = alt.Chart(below).encode(x=x, color=color)
    apart = apart.mark_line(strokeWidth=1.2, strokeDash=[3, 3], opacity=0.7).encode(
        y=alt.Y("apart:Q", scale=y)
    )
    ends = times.filter(placements=MOST).with_columns(label=pl.col("machine"))
    labels = (
        alt.Chart(ends)
        .mark_text(align="left", dx=8, fontSize=12)
        .encode(x=x, y="seconds:Q", text="label:N", color=color)
    )
    chart = (apart + measured + labels).properties(width=560, height=300)
    subtitle = [
        f"{length} references of {trace}, one thread, least of {RUNS} runs; {name}",
        "dashed: as many runs of one placement",
    ]
    with tempfile.TemporaryDirectory() as made:
        png, _ = save(finish(chart, "What placements cost", subtitle), Path(made), "placements")
        shutil.copy(png, IMAGES)


if __name__ == "__main__":
    {"demo": demo, "measure": measure, "draw": draw}[sys.argv[1]]()
