"""Writes the page of a reproduction, and its comparison as CSV."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from binhop.lazy_imports import pl
from binhop.models import paging as model
from binhop.reproduce.lf91.data import COLORS, HASHED, SIZES, TABLES, WORKLOADS, Lf91Data, Lf91Paper, mib
from binhop.reproduce.markdown import claims_table, grid, judged

if TYPE_CHECKING:
    from pathlib import Path

    from binhop.reproduce.claims import Claim

PAGE = "report.md"


def write(data: Lf91Data, claims: list[Claim], directory: Path) -> list[Path]:
    """Writes report.md, comparison.csv and the data of Figures 1 and 2, and returns the files."""
    page = directory / PAGE
    page.write_text(_page(data, claims), encoding="utf-8")
    tables = {"comparison": _comparison(data), "figure-1": data.model, "figure-2": data.utilization}
    made = [page]
    for stem, table in tables.items():
        made.append(directory / f"{stem}.csv")
        table.write_csv(made[-1])
    return made


def _page(data: Lf91Data, claims: list[Claim]) -> str:
    parts = [
        "# LF91: paging performance with page coloring\n",
        _about(data),
        "## Claims\n",
        claims_table(claims),
        "## The model (Figure 1)\n",
        _model(data),
        "## Programs (Table 1) and utilization (Figure 2)\n",
        _programs(data),
        _used(data),
        "## Page-fault rates (Tables 2 to 6, Figures 3 to 7)\n",
        "A cell holds binhop's page faults per million references, first touches included, and the paper's "
        "in brackets. One color is global LRU.\n",
    ]
    for name, number in TABLES.items():
        parts += [f"### Table {number} and Figure {number + 1}: {name}\n", _rates(data, name)]
        parts.append(f"![{name}: page faults relative to one color](figure-{number + 1}.png)\n")
    parts += ["## How each claim was judged\n", judged(claims)]
    return "\n".join(parts)


def _about(data: Lf91Data) -> str:
    lengths = {name: data.references(name) for name in WORKLOADS}
    paper = Lf91Paper()
    listed = ", ".join(
        f"{name} {length / 1e6:.0f} M ({100 * length / paper.references(name):.0f}% of the paper's)"
        for name, length in lengths.items()
    )
    return (
        "W. L. Lynch and M. J. Flynn, *Paging Performance with Page Coloring*, Stanford CSL-TR-91-492, "
        f"October 1991. binhop {data.provenance['binhop']} repeated the study at scale `{data.scale}`, with "
        "pages of 4 KiB, 7 memory sizes and 7 numbers of colors, in one pass over each program. The traces "
        "of the paper are lost. binhop's built-in workloads of the same names (mult1 for mult) replace them, "
        "so absolute rates need not agree. All numbers but those of the Monte Carlo are exact counts of one "
        f"deterministic run.\n\nReferences read: {listed}.\n\n"
        "binhop makes the page from `faults.parquet`, `utilization.parquet` and `model.parquet`. "
        "`comparison.csv` holds each of the paper's numbers beside binhop's. `figure-1.csv` and "
        "`figure-2.csv` hold the points of these figures.\n"
    )


def _model(data: Lf91Data) -> str:
    cells = {(row["size"], row["colors"]): row for row in data.model.iter_rows(named=True)}
    sizes = [*data.model["size"].unique(maintain_order=True)]
    rows = []
    for size in sizes:
        of = [cells[size, colors] for colors in COLORS]
        rows.append([f"{mib(size)}, model", *(f"{cell['model']:.4f}" for cell in of)])
        rows.append(["Monte Carlo", *(f"{cell['monte_carlo']:.4f}" for cell in of)])
        rows.append(["formula as printed", *(f"{cell['as_printed']:.4f}" for cell in of)])
    return (
        "Effective memory utilization M_eff = E(c, k) / (c·k) by the number of colors. The paper prints "
        "the sum in E(c, k) up to j = k. This sum is the time at which a list of k *overflows*, and it gives "
        "1 + 1/k for one color, where the text asks for 1. The model sums to k − 1; the table shows the "
        "printed formula below it.\n\n"
        + grid(["memory", *map(str, COLORS)], rows)
        + "\n![the model](figure-1.png)\n"
    )


def _programs(data: Lf91Data) -> str:
    paper = Lf91Paper()
    rows = [
        [
            name,
            f"{data.references(name) / 1e9:.3f}",
            f"{paper.references(name) / 1e9:.3f}",
            str(data.pages(name)),
            str(paper.pages(name)),
        ]
        for name in WORKLOADS
    ]
    head = ["program", "G references", "paper's", "unique pages", "paper's"]
    return grid(head, rows)


def _used(data: Lf91Data) -> str:
    rows = []
    for name in (*WORKLOADS, HASHED):
        rows.append([name, *(_share(data.used(name, colors)) for colors in COLORS)])
        if name != HASHED:
            rows.append(["by the model", *(_share(data.modelled(name, colors)) for colors in COLORS)])
    paper = Lf91Paper()
    theirs = ", ".join(f"{name} {model.utilization(64, paper.pages(name) // 64):.3f}" for name in WORKLOADS)
    return (
        "Effective memory utilization, by the number of colors: simulated, and by the model for memory of "
        f"the program's own size. At 64 colors and the paper's sizes the model gives {theirs}. `{HASHED}` is "
        "mult with colors that also depend on the process.\n\n"
        + grid(["program", *map(str, COLORS)], rows)
        + "\n![utilization](figure-2.png)\n"
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _rates(data: Lf91Data, name: str) -> str:
    paper = Lf91Paper()
    rows = [
        [
            mib(size),
            *(f"{data.rate(name, size, c):.2f} ({paper.rate(name, size, c):.2f})" for c in COLORS),
        ]
        for size in SIZES
    ]
    return grid(["memory", *map(str, COLORS)], rows)


def _comparison(data: Lf91Data) -> pl.DataFrame:
    """Returns a table of each of the paper's numbers beside binhop's."""
    paper = Lf91Paper()
    rows: list[tuple[object, ...]] = []
    for name in WORKLOADS:
        rows.append(("Table 1", name, None, None, "pages", data.pages(name), paper.pages(name)))
    for (name, number), size, colors in product(TABLES.items(), SIZES, COLORS):
        rates = (data.rate(name, size, colors), paper.rate(name, size, colors))
        rows.append((f"Table {number}", name, size, colors, "faults per million references", *rates))
    columns = ["table", "workload", "size", "colors", "quantity", "ours", "paper"]
    kinds = [pl.String, pl.String, pl.Int64, pl.Int64, pl.String, pl.Float64, pl.Float64]
    return pl.DataFrame(rows, schema=dict(zip(columns, kinds, strict=True)), orient="row")
