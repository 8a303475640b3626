"""Writes the page of a reproduction, and its tables as CSV."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np

from binhop.lazy_imports import pl
from binhop.numbers import grouped, percent
from binhop.reproduce.judge import Measure, measure, ratios
from binhop.reproduce.markdown import claims_table, grid, judged
from binhop.reproduce.mb90.data import DOCUMENT, EXACT
from binhop.reproduce.mb90.paper import DESIGNS, SWITCHES, WORKLOADS, Mb90Paper, figure
from binhop.tables.switches import KNOWN_TIMES, short

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from binhop.reproduce.claims import Claim
    from binhop.reproduce.mb90.data import Mb90Data

PAGE = "report.md"
FIGURES = {
    1: "How long segments are (timesharing, trial 0).",
    2: "CPI after a switch, shared caches.",
    3: "CPI after a switch, caches of its own.",
    4: "Excess CPI after a switch.",
    5: "Cumulative excess after a switch (timesharing).",
    6: "Cumulative excess after a switch (compute-bound).",
    7: "Cumulative excess after a switch (client-server).",
    8: "Overhead ratio of the two technologies.",
    9: "Overhead ratio of caches, and of caches four times as large.",
}
SCOPE = {
    "smoke": " This is a smoke run, which shows that everything runs. Its figures mean nothing.",
    "quick": " The figures belong to the first two fifths of a trial.",
    "paper": "",
}


def write(data: Mb90Data, claims: list[Claim], directory: Path) -> list[Path]:
    """Writes report.md and the tables as CSV, and returns the files."""
    page = directory / PAGE
    page.write_text(_page(data, claims), encoding="utf-8")
    made = [page]
    for stem, table in {"table-4": table_4(data), "comparison": comparison(data)}.items():
        made.append(directory / f"{stem}.csv")
        # The pages of reproductions speak of papers.
        named = table.rename(lambda name: name.replace("document", "paper"))
        named.write_csv(made[-1], float_precision=6)
    return made


def _page(data: Mb90Data, claims: list[Claim]) -> str:
    parts = [
        "# MB90: what a context switch costs in the cache\n",
        _about(data),
        "## Claims\n",
        claims_table(claims),
        "## Workloads (Tables 1 and 2)\n",
        _workloads(data),
        "## Machines (Table 3)\n",
        _machines(data),
        "## Trials (Table 4)\n",
        _trials(data),
        "## What a switch costs\n",
        _costs(data),
        "## By cause\n",
        _causes(data),
        "## By level\n",
        _levels(data),
        "## Lines lost and restored, misses replaced and reordered\n",
        _caches(data),
        "## If write buffers drain half as fast\n",
        _drains(data),
        "## With the kernel's references\n",
        _kernel(data),
        "## Figures\n",
        *(f"{text}\n\n![{text}](figure-{number}.png)\n" for number, text in FIGURES.items()),
        "## How each claim was judged\n",
        judged(claims),
    ]
    return "\n".join(parts)


def _about(data: Mb90Data) -> str:
    lengths: dict[str, list[str]] = {}
    for trial in data.provenance["trials"]:
        lengths.setdefault(trial["workload"], []).append(f"{trial['instructions'] / 1e6:,.0f}")
    told = ", ".join(f"{name} {' and '.join(each)} M" for name, each in lengths.items())
    count = data.overheads.filter(drain=1).select("design", "workload", "trial").n_unique()
    placements = data.overheads["seed"].n_unique()
    return (
        "J. C. Mogul and A. Borg, *The Effect of Context Switches on Cache Performance*, DEC WRL Technical "
        f"Note TN-16, December 1990. binhop {data.provenance['binhop']} repeated the study at scale "
        f"`{data.scale}`: {count} trials, {placements} placements each. Instructions of a trial: "
        f"{told}.{SCOPE[data.scale]}\n\nThe traces of the paper are lost. Built-in workloads of the same "
        "names replace them, so absolute figures need not agree. A trial is a seed of the workload; all "
        f"designs of a trial see the same switches. An interval has {data.confidence:.0%} confidence. Unless "
        "stated otherwise it is over placements within trials.\n\n*The paper's way* integrates the mean "
        "excess CPI of the segments that are still alive, up to the point where 10% are left. It adds up "
        "means over different segments, so it is biased. *Exact* divides all excess cycles by the number of "
        "switches.\n"
    )


def _with(value: Measure, shown: Any) -> str:
    """Returns a mean as text, with its interval if the ends of the interval differ as shown."""
    if value.n < 2 or shown(value.low) == shown(value.high):
        return str(shown(value.mean))
    return f"{shown(value.mean)} ({shown(value.low)} to {shown(value.high)})"


def _workloads(data: Mb90Data) -> str:
    """Returns Tables 1 and 2, with further figures of the trials."""
    targets: dict[str, dict[str, float]] = {name: dict(sizes) for name, sizes in data.provenance["targets"]}
    sets, programs = [], []
    for trial in data.provenance["trials"]:
        workload = trial["workload"]
        sets.append(
            [
                workload,
                str(trial["trial"]),
                _beside(trial["bytes"] / 1e6, figure("size-1e6-bytes", workload), 1),
                f"{trial['touched'] / 1e6:.1f}",
                f"{trial['processes']}",
                _beside(trial["instructions"] / 1e6, _theirs(workload, "instructions")),
                _beside(trial["mean"], 1e6 * _theirs(workload, "instructions") / SWITCHES),
                "-" if trial["median"] is None else f"{trial['median']:,}",
                _beside(
                    trial["data"] / trial["instructions"],
                    _theirs(workload, "references") / _theirs(workload, "instructions"),
                    3,
                ),
                _causes_of(data, workload, trial["trial"]),
            ]
        )
        if trial["trial"] == 0:
            programs += [
                [
                    workload,
                    name,
                    f"{count}",
                    f"{largest / 1e6:.2f}" + (f" ({theirs:g})" if theirs else ""),
                    f"{touched / 1e6:.2f}",
                ]
                for name, count, largest, touched in trial["programs"]
                for theirs in [targets.get(workload, {}).get(name)]
            ]
    head = [
        *("workload", "trial", "MB", "MB touched", "processes", "M instructions"),
        *("instructions a segment", "median", "data references an instruction", "segments by cause"),
    ]
    return (
        "The paper's figures stand in brackets. The size of a process is that of its text, data and heap, "
        "and of the stack that it touched.\n\n"
        + grid(head, sets, 2)
        + "\nPrograms of trial 0, with the largest size of a process:\n\n"
        + grid(["workload", "program", "processes", "MB", "MB touched"], programs, 2)
    )


def _causes_of(data: Mb90Data, workload: str, trial: int) -> str:
    """Returns the shares of the segments of a trial by cause. Placements do not change them."""
    rows = data.causes.filter(workload=workload, trial=trial, drain=1)
    counts = rows.group_by("cause", maintain_order=True).agg(pl.col("switches").sum())
    every = counts["switches"].sum()
    return "; ".join(
        f"{cause.replace('-', ' ')} {percent(count / every)}"
        for cause, count in counts.sort("switches", descending=True).iter_rows()
    )


def _beside(ours: float | None, theirs: float, digits: int = 0) -> str:
    """Returns binhop's figure, and the paper's in brackets."""
    return f"{'-' if ours is None else f'{ours:,.{digits}f}'} ({theirs:,.{digits}f})"


def _theirs(workload: str, quantity: str) -> float:
    values = [getattr(one, quantity) for one in Mb90Paper().trials if one.workload == workload]
    return float(sum(values)) / len(values)


def _machines(data: Mb90Data) -> str:
    rows = []
    for design in DESIGNS:
        machine = tomllib.loads(data.provenance["machines"][design])
        caches = "; ".join(
            f"{name} {cache['size']}, lines of {cache['line']}, {cache['ways']}-way, write-{cache['write']}"
            for name, cache in machine["cache"].items()
        )
        buffers = "; ".join(
            f"{name}: {of['entries']} entries, {of['drain']} cycles each"
            for name, of in machine.get("write-buffer", {}).items()
        )
        costs = ", ".join(f"{name} {value}" for name, value in machine["cost"].items())
        time = data.cycle_time(design)
        rows.append([design, caches, buffers or "-", costs, "-" if time is None else f"{time:g} ns"])
    return grid(["design", "caches", "write buffers", "cost", "cycle"], rows, left=5)


def table_4(data: Mb90Data) -> pl.DataFrame:
    """Returns Table 4 with a row for each trial of binhop and of the paper."""
    rows: list[dict[str, Any]] = []
    paper = Mb90Paper()
    for design in DESIGNS:
        for workload in WORKLOADS:
            for trial in data.trials[design, workload]:
                cell = data.overheads.filter(design=design, workload=workload, trial=trial, drain=1)
                mean = {name: _mean(cell[name]) for name in ("executed", "references", "switches", "cycles")}
                data_references = (mean["references"] or 0.0) - (mean["executed"] or 0.0)
                rows.append(
                    {
                        "by": "binhop",
                        "trial": str(trial),
                        "design": design,
                        "workload": workload,
                        "switches": mean["switches"],
                        "instructions": mean["executed"],
                        "data_references": data_references,
                        "average_cost": _mean(cell["document"]),
                        "exact_cost": _mean(cell["exact"]),
                        "cycles": mean["cycles"],
                        "overhead_percent": _percent(_mean(cell[DOCUMENT])),
                        "exact_percent": _percent(_mean(cell[EXACT])),
                    }
                )
            rows += [
                {
                    "by": "MB90",
                    "trial": theirs.name,
                    "design": design,
                    "workload": workload,
                    "switches": float(SWITCHES),
                    "instructions": 1e6 * theirs.instructions,
                    "data_references": 1e6 * theirs.references,
                    "average_cost": float(theirs.cost),
                    "exact_cost": None,
                    "cycles": 1e6 * theirs.cycles,
                    "overhead_percent": float(theirs.ratio),
                    "exact_percent": None,
                }
                for theirs in paper.of(design, workload)
            ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _mean(values: pl.Series) -> float | None:
    known = values.cast(pl.Float64).drop_nulls()
    return float(known.to_numpy().mean()) if len(known) else None


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _trials(data: Mb90Data) -> str:
    rows = []
    for row in table_4(data).iter_rows(named=True):
        own = row["by"] == "binhop"
        rows.append(
            [
                row["design"],
                row["workload"],
                f"binhop {row['trial']}" if own else row["trial"],
                *(f"{row[name] / 1e6:,.0f}" for name in ("instructions", "data_references")),
                "-" if row["average_cost"] is None else f"{row['average_cost']:,.0f}",
                f"{row['exact_cost']:,.0f}" if own else "",
                f"{row['cycles'] / 1e6:,.0f}",
                "-" if row["overhead_percent"] is None else f"{row['overhead_percent']:.2f}",
                f"{row['exact_percent']:.2f}" if own else "",
            ]
        )
    head = [
        *("design", "workload", "trial", "M instructions", "M data references", "average cost", "exact cost"),
        *("M cycles", "overhead, %", "exact, %"),
    ]
    return "Trials with letters are the paper's. Each figure is a mean over placements.\n\n" + grid(
        head, rows, 3
    )


def comparison(data: Mb90Data) -> pl.DataFrame:
    """Returns a row for each design and workload: both ratios and costs, with both kinds of intervals."""
    paper = Mb90Paper()
    rows = []
    for design in DESIGNS:
        for workload in WORKLOADS:
            row: dict[str, Any] = {"design": design, "workload": workload}
            for column in ("document", "exact", "per_process", "per_process_document", DOCUMENT, EXACT):
                within, between = (
                    data.measure(design, workload, column),
                    data.between(design, workload, column),
                )
                row |= {
                    column: within.mean,
                    f"{column}_low": _finite(within.low),
                    f"{column}_high": _finite(within.high),
                    f"{column}_between_low": _finite(between.low),
                    f"{column}_between_high": _finite(between.high),
                }
            row["paper_cost"] = paper.cost(design, workload)
            row["paper_overhead"] = paper.overhead(design, workload)
            rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _finite(value: float) -> float | None:
    return value if abs(value) != float("inf") else None


def _costs(data: Mb90Data) -> str:
    rows = []
    paper = Mb90Paper()
    for design in DESIGNS:
        time = data.cycle_time(design)
        for workload in WORKLOADS:
            document, exact = (data.measure(design, workload, name) for name in ("document", "exact"))
            ratio, overhead = (data.measure(design, workload, name) for name in (DOCUMENT, EXACT))
            between = data.between(design, workload, DOCUMENT)
            rows.append(
                [
                    design,
                    workload,
                    _with(document, grouped),
                    f"{paper.cost(design, workload):,.0f}",
                    _with(exact, grouped),
                    grouped(data.measure(design, workload, "per_process").mean),
                    "-" if time is None else short(exact.mean * time / 1000),
                    _with(ratio, percent),
                    _with(between, percent),
                    percent(paper.overhead(design, workload)),
                    _with(overhead, percent),
                ]
            )
    head = [
        *("design", "workload", "cycles a switch, the paper's way", "paper", "exact", "mean of processes"),
        *("exact, µs", "overhead, the paper's way", "the same, between trials", "paper", "exact"),
    ]
    constants = ", ".join(f"{name.removesuffix(' (MB90 §6)')} {time:g} µs" for time, name in KNOWN_TIMES)
    return grid(head, rows, 2) + f"\nTo compare with, on a DECstation 5000 (§6): {constants}.\n"


SHARE = (
    "A *share* divides the excess under all placements and trials by the sum of all rows above zero. "
    "So a placement with little excess counts little.\n\n"
)


def _causes(data: Mb90Data) -> str:
    return SHARE + _grouped(data, data.causes, ["cause"], ["switches", "length", "cost", "share"])


def _levels(data: Mb90Data) -> str:
    return SHARE + _grouped(data, data.levels, ["level", "kind"], ["cost", "share"])


def _caches(data: Mb90Data) -> str:
    columns = ["extra", "replaced", "reordered", "held", "lost", "restored"]
    text = (
        "Misses and lines per switch. *Extra* is shared less private. A *replaced* miss is on a line that "
        "other processes evicted; a *reordered* miss is on a line that was still there when its process "
        "returned. *Lost* is the share of the lines held at a switch that are gone at the return, and "
        "*restored* the share of the lost lines that come back before the next switch. Both are means of the "
        "placements' own shares.\n\n"
    )
    return text + _grouped(data, data.caches, ["cache"], columns)


def _grouped(data: Mb90Data, frame: pl.DataFrame, keys: Sequence[str], columns: Sequence[str]) -> str:
    """Returns a table of means over trials, with intervals over placements."""
    rows = []
    own = frame.filter(drain=1)
    means = [name for name in columns if name != "share"]
    by_placement = own.group_by("design", "workload", *keys, "seed", maintain_order=True).agg(
        pl.col(name).cast(pl.Float64).mean() for name in means
    )
    for design in DESIGNS:
        for workload in WORKLOADS:
            cell = by_placement.filter(design=design, workload=workload)
            shares = {}
            if "share" in columns:
                shares = shares_of_excess(own.filter(design=design, workload=workload), keys)
            for key, of in cell.group_by(keys, maintain_order=True):
                names = [str(name).replace("-", " ") if name is not None else "" for name in key]
                samples = {name: of[name].drop_nulls().to_numpy() for name in means}
                samples["share"] = shares.get(key, np.array([]))
                cells = [_cell(samples[name], name, data.confidence) for name in columns]
                rows.append([design, workload, *names, *cells])
    head = ["design", "workload", *keys, *("instructions" if name == "length" else name for name in columns)]
    return grid(head, rows, 2 + len(keys))


def shares_of_excess(
    rows: pl.DataFrame, keys: Sequence[str]
) -> dict[tuple[object, ...], NDArray[np.float64]]:
    """Returns the share of each group of rows in the excess of the groups above zero.

    The mean of a group's samples, one for each placement, is the ratio of the sums over all placements and
    trials. No group has samples if no group's excess is above zero.
    """
    seeds = rows["seed"].unique().sort()
    excess = {
        key: of.group_by("seed")
        .agg(pl.col("excess").sum())
        .join(seeds.to_frame(), on="seed", how="right")
        .sort("seed")["excess"]
        .fill_null(0)
        .to_numpy()
        for key, of in rows.group_by(keys, maintain_order=True)
    }
    positive = [samples for samples in excess.values() if samples.sum() > 0]
    if not positive:
        return {}
    whole = np.sum(positive, axis=0)
    return {key: ratios(samples, whole) for key, samples in excess.items()}


def _cell(samples: NDArray[np.float64], name: str, confidence: float) -> str:
    if len(samples) == 0:
        return "-"
    return _with(measure(samples, confidence), percent if name in SHARES else short)


SHARES = ("share", "lost", "restored")
"""The columns that hold shares."""


def _kernel(data: Mb90Data) -> str:
    """Returns the cost of switches with the kernel's references beside the cost without, for trial 0."""
    rows = []
    if data.with_kernel is None or data.with_kernel.is_empty():
        return "No run had the kernel's references.\n"
    for design in DESIGNS:
        for workload in WORKLOADS:
            cell = data.with_kernel.filter(design=design, workload=workload).sort("seed")
            found = {name: cell[name].cast(pl.Float64).to_numpy() for name in ("exact", EXACT)}
            plain = {name: data.of_trial(design, workload, 0, name)[: cell.height] for name in found}
            rows.append(
                [
                    design,
                    workload,
                    grouped(plain["exact"].mean()),
                    grouped(found["exact"].mean()),
                    _with(
                        measure(found["exact"] - plain["exact"], data.confidence),
                        lambda value: f"{value:+.0f}",
                    ),
                    percent(plain[EXACT].mean()),
                    percent(found[EXACT].mean()),
                ]
            )
    head = [
        *("design", "workload", "exact cost, cycles", "with the kernel", "difference"),
        *("exact overhead", "with the kernel"),
    ]
    return (
        "The paper has no kernel references and calls this its most critical deficiency (§6.1). In a "
        "further run of trial 0 the kernel references at each switch what the machine states. The private "
        "caches see the kernel's references for their own process.\n\n" + grid(head, rows, 2)
    )


def _drains(data: Mb90Data) -> str:
    rows = []
    for factor in data.drains[1:]:
        for design in DESIGNS:
            for workload in WORKLOADS:
                slow = data.of_trial(design, workload, 0, EXACT, factor)
                own = data.of_trial(design, workload, 0, EXACT)[: len(slow)]
                cost = data.of_trial(design, workload, 0, "exact", factor)
                before = data.of_trial(design, workload, 0, "exact")[: len(cost)]
                cycles = data.of_trial(design, workload, 0, "cycles", factor).mean()
                all_cycles = data.of_trial(design, workload, 0, "cycles").mean()
                rows.append(
                    [
                        design,
                        workload,
                        percent(float(own.mean())),
                        percent(float(slow.mean())),
                        _with(measure(100 * (slow - own), data.confidence), lambda value: f"{value:+.3f}"),
                        _with(measure(cost - before, data.confidence), lambda value: f"{value:+.1f}"),
                        percent(float(cycles / all_cycles - 1)),
                    ]
                )
    head = [
        *("design", "workload", "exact overhead", "half as fast", "difference, points"),
        *("cycles a switch", "more cycles in all"),
    ]
    return (
        "The paper gives no time in which an entry of a write buffer drains. Trial 0 was run again with "
        "twice the time "
        "of each design.\n\n" + grid(head, rows, 2)
    )
