"""Makes Tables 1 to 4 and Appendix A, with binhop's figures beside the paper's."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from binhop.lazy_imports import pl
from binhop.reproduce.judge import measure
from binhop.reproduce.kh90.data import (
    HEURISTICS,
    LARGE,
    MAIN,
    SIZES,
    SMALL,
    WAYS,
    WORKLOADS,
    Kh90Data,
    Kh90Paper,
)
from binhop.reproduce.kh90.rates import TUNED
from binhop.reproduce.markdown import grid

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def confidence_table(data: Kh90Data, paper: Kh90Paper, workload: str) -> pl.DataFrame:
    """Returns Table 1, or a table of Appendix A: mean, half-width, median of both policies; the reduction."""
    rows = []
    for size, ways in product(SIZES, WAYS):
        row: dict[str, Any] = {"size": size, "ways": ways}
        means = {}
        for name in ("random", "hierarchical"):
            samples = data.table(workload, name, size, ways)
            found = measure(samples, data.confidence)
            ours = {"mean": found.mean, "half-width": found.half, "median": float(np.median(samples))}
            means[name] = found.mean
            for quantity, value in ours.items():
                row[f"{name} {quantity}"] = value
                row[f"{name} {quantity}, paper"] = paper.cell(workload, name, size, ways, quantity)
        row["reduction"] = 1 - means["hierarchical"] / means["random"]
        row["reduction, paper"] = paper.cell(workload, "hierarchical", size, ways, "reduction")
        rows.append(row)
    return pl.DataFrame(rows)


def reductions(data: Kh90Data, paper: Kh90Paper) -> pl.DataFrame:
    """Returns Table 2: the reduction in direct-mapped caches."""
    rows = []
    for workload in WORKLOADS:
        row: dict[str, Any] = {"workload": workload}
        for size in SIZES:
            careful, random = (data.table(workload, name, size, 1) for name in ("hierarchical", "random"))
            row[size] = 1 - float(careful.mean() / random.mean())
            row[f"{size}, paper"] = paper("Table 2", workload, "hierarchical", size, 1, "reduction")
        rows.append(row)
    return pl.DataFrame(rows)


def _row(
    data: Kh90Data, paper: Kh90Paper, table: str, name: str, cells: Iterable[tuple[str, int, str]]
) -> dict[str, Any]:
    """Returns a heuristic's means in some cells, and the means relative to hierarchical."""
    row: dict[str, Any] = {}
    for size, ways, pool in cells:
        mean = float(data.table(MAIN, name, size, ways, pool).mean())
        base = float(data.table(MAIN, "hierarchical", size, ways, pool).mean())
        row |= {"mean": mean, "relative": mean / base - 1}
        row |= {
            f"{quantity}, paper": paper(table, MAIN, name, size, ways, quantity, pool)
            for quantity in ("mean", "relative")
        }
    return row


def heuristics(data: Kh90Data, paper: Kh90Paper) -> pl.DataFrame:
    """Returns Table 3: six heuristics, two pools, 4 MiB direct-mapped."""
    rows = [
        {"heuristic": name, "pool": pool, **_row(data, paper, "Table 3", name, [("4MiB", 1, pool)])}
        for name, pool in product(HEURISTICS, (LARGE, SMALL))
    ]
    return pl.DataFrame(rows)


def configurations(data: Kh90Data, paper: Kh90Paper) -> pl.DataFrame:
    """Returns Table 4: the careful heuristics in all nine caches."""
    rows = [
        {
            "size": size,
            "ways": ways,
            "heuristic": name,
            **_row(data, paper, "Table 4", name, [(size, ways, LARGE)]),
        }
        for size, ways, name in product(SIZES, WAYS, HEURISTICS[1:])
    ]
    return pl.DataFrame(rows)


def all_tables(data: Kh90Data) -> dict[str, pl.DataFrame]:
    """Returns every table by the name of its file."""
    paper = Kh90Paper()
    made = {"table-1": confidence_table(data, paper, MAIN), "table-2": reductions(data, paper)}
    made |= {"table-3": heuristics(data, paper), "table-4": configurations(data, paper)}
    for workload in WORKLOADS:
        if workload != MAIN:
            made[f"appendix-a-{workload}"] = confidence_table(data, paper, workload)
    return made


def write(tables: dict[str, pl.DataFrame], directory: Path) -> list[Path]:
    """Writes the tables as CSV."""
    paths = []
    for name, frame in tables.items():
        path = directory / f"{name}.csv"
        frame.write_csv(path, float_precision=6)
        paths.append(path)
    return paths


def markdown(name: str, frame: pl.DataFrame) -> str:
    """Returns a table in the page's form: binhop's figures, with the paper's in brackets."""
    if name == "table-2":
        return _reductions(frame)
    if name == "table-3":
        return _heuristics(frame)
    if name == "table-4":
        return _configurations(frame)
    return _confidence(frame)


def _both(ours: str, paper: str) -> str:
    return f"{ours} ({paper})"


def percent(value: float | None, digits: int = 0) -> str:
    """Returns a share as a percentage; an empty text for None."""
    return "" if value is None else f"{100 * value:.{digits}f}%"


def _confidence(frame: pl.DataFrame) -> str:
    rows = []
    for row in frame.iter_rows(named=True):
        cells = [row["size"], str(row["ways"])]
        for name in ("random", "hierarchical"):
            ours, theirs = (
                f"{row[f'{name} mean{end}']:.4f} ± {row[f'{name} half-width{end}']:.4f}"
                for end in ("", ", paper")
            )
            cells += [_both(ours, theirs)]
            cells += [_both(f"{row[f'{name} median']:.4f}", f"{row[f'{name} median, paper']:.4f}")]
        cells.append(_both(percent(row["reduction"], 1), percent(row["reduction, paper"], 1)))
        rows.append(cells)
    header = ["size", "ways", "random", "median", "hierarchical", "median", "reduction"]
    return grid(header, rows, left=1)


def _reductions(frame: pl.DataFrame) -> str:
    rows = [
        [
            row["workload"],
            *(_both(percent(row[size]), percent(row[f"{size}, paper"])) for size in SIZES),
        ]
        for row in frame.iter_rows(named=True)
    ]
    return grid(["workload", *SIZES], rows)


def _relative(row: dict[str, Any]) -> str:
    ours = f"{row['mean']:.3f}, {row['relative']:+.1%}"
    if row["mean, paper"] is None:
        return ours
    relative = row["relative, paper"]
    theirs = f"{row['mean, paper']:.2f}" + ("" if relative is None else f", {relative:+.0%}")
    return _both(ours, theirs)


def _heuristics(frame: pl.DataFrame) -> str:
    rows = [
        [name, *(_relative(frame.row(by_predicate=_at(name, pool), named=True)) for pool in (LARGE, SMALL))]
        for name in HEURISTICS
    ]
    return grid(["heuristic", "large pool (4 MiB)", "small pool (256 KiB)"], rows)


def _at(name: str, pool: str) -> pl.Expr:
    return pl.col("heuristic").eq(name) & pl.col("pool").eq(pool)


def _configurations(frame: pl.DataFrame) -> str:
    rows = []
    for (size, ways), of in frame.group_by("size", "ways", maintain_order=True):
        cells = [_relative(row) for row in of.iter_rows(named=True)]
        if (size, ways) in TUNED:
            cells = [f"**{cell}**" for cell in cells]
        rows.append([str(size), str(ways), *cells])
    return grid(["size", "ways", *HEURISTICS[1:]], rows)
