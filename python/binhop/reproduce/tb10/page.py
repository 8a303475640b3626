"""Writes the page of a reproduction, and its tables as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import pl
from binhop.reproduce.markdown import claims_table, grid, judged
from binhop.reproduce.tb10 import paper
from binhop.reproduce.tb10.figures import all_figures
from binhop.reproduce.tb10.forms import (
    BASELINE,
    LAST_LEVELS,
    MAIN,
    SENSITIVITY,
    SHARED,
    TABLE_SIZES,
    WAYS,
    Form,
    ddc,
    every_form,
    sensitive_forms,
)
from binhop.reproduce.tb10.study import TAPS, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binhop.reproduce.claims import Claim
    from binhop.reproduce.judge import Measure
    from binhop.reproduce.tb10.data import Tb10Data

PAGE = "report.md"
OF_DOCUMENT = " The document has 40 M references of each application."
SCOPE = {
    "smoke": " This is a smoke run, which shows that everything runs. Its figures mean nothing.",
    "quick": OF_DOCUMENT,
    "paper": OF_DOCUMENT,
}
CLOSE, RARE, FACTOR = 10.0, 1.0, 2.0
"""A figure is close within 10% of the document's; a share under 1% within a factor of 2 (ours)."""


def write(data: Tb10Data, claims: list[Claim], directory: Path) -> list[Path]:
    """Writes report.md and the tables as CSV, and returns the files."""
    made = [directory / PAGE]
    made[0].write_text(_page(data, claims), encoding="utf-8")
    tables = {
        "tables-1-2": workload_table(data),
        "tables-5-6": size_table(data),
        "sensitivity": sensitivity_table(data),
    }
    for stem, table in tables.items():
        made.append(directory / f"{stem}.csv")
        table.write_csv(made[-1], float_precision=9)
    return made


def _page(data: Tb10Data, claims: list[Claim]) -> str:
    pictures = {stem: f"![{stem}]({stem}.png)\n" for stem in all_figures(data)}
    first = [*pictures.values()][:2]
    parts = [
        "# TB10: caches for device data\n",
        _about(data),
        "## Claims\n",
        claims_table(claims),
        "## The references (Tables 1 and 2)\n",
        _workloads(data),
        *first,
        "## Speed-up by size, ways and last level (Tables 5 and 6)\n",
        _table_5(data),
        _table_6(data),
        "## Write policies and schemes\n",
        *[*pictures.values()][2:],
        "## What is ours\n",
        _sensitivity(data),
        _taps(data),
        "## How each claim was judged\n",
        judged(claims),
    ]
    return "\n".join(parts)


def _about(data: Tb10Data) -> str:
    lengths = ", ".join(f"{name} {data.references(name) / 1e6:.1f} M" for name in WORKLOADS)
    return (
        "D. Tang, Y. Bao, W. Hu and M. Chen, *DMA Cache: Using On-Chip Storage to Architecturally Separate "
        "I/O "
        "Data from CPU Data for Improving I/O Performance*, HPCA 2010. binhop "
        f"{data.provenance['binhop']} repeated the study at scale `{data.scale}`. References below the "
        "caches "
        f"of the traced computer: {lengths}.{SCOPE[data.scale]}\n\n"
        "The document's traces are lost. The workloads `file-copy`, `tpch` and `specweb` make the system "
        "calls of its applications; page cache, disk and network card of the traced computer (`opteron`) "
        "follow from them. Every scheme gets the same references, under the same placements, in front of the "
        "same memory controller (`tb10`). A *speed-up* is cycles of the memory's clock under snooping-cache "
        "/ cycles under the scheme - 1, with the same last level. An interval has "
        f"{data.confidence:.0%} confidence, over placements. docs/io.md says what the schemes do.\n"
    )


def _close(ours: float, told: float, *, is_share: bool) -> str:
    """Returns whether a figure is as close to the document's as the workloads are meant to be."""
    if is_share and told < RARE:
        return "yes" if told / FACTOR <= ours <= told * FACTOR else "no"
    return "yes" if abs(ours - told) <= CLOSE / 100 * told else "no"


def _figures(data: Tb10Data, kind: str = "forms") -> Iterator[tuple[str, str, str, Measure, float]]:
    """Yields every figure of Tables 1 and 2: workload, row, quantity, ours, the document's."""
    for workload in WORKLOADS:
        for row in paper.rows_of("Table 1", workload):
            told = paper.figure("Table 1", workload, row, "percent-of-references")
            assert told is not None, "Table 1 is whole"
            yield workload, row, "% of references", data.share(workload, row, kind), told
        for row in paper.rows_of("Table 2", workload):
            of = {
                "percent-of-device-references": ("% of device references", data.request_share),
                "kilobytes": ("KB", data.request_size),
                "percent-sequential": ("% sequential", data.sequential),
            }
            for quantity, (text, ours) in of.items():
                told = paper.figure("Table 2", workload, row, quantity)
                if told is not None:
                    yield workload, row, text, ours(workload, row, kind), told


def workload_table(data: Tb10Data) -> pl.DataFrame:
    """Returns every figure of Tables 1 and 2 beside the document's, at both taps."""
    rows = [
        (workload, row, quantity, ours.mean, *_bounds(ours), tap.mean, told)
        for (workload, row, quantity, ours, told), (_, _, _, tap, _) in zip(
            _figures(data), _figures(data, "tap"), strict=True
        )
    ]
    columns = ["workload", "row", "quantity", "binhop", "low", "high", "below_level_2", "paper"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _bounds(of: Measure) -> tuple[float | None, float | None]:
    """Returns the ends of an interval; None if there is one placement alone."""
    return (of.low, of.high) if of.n > 1 else (None, None)


def _workloads(data: Tb10Data) -> str:
    rows = []
    for (workload, row, quantity, ours, told), (_, _, _, tap, _) in zip(
        _figures(data), _figures(data, "tap"), strict=True
    ):
        close = _close(ours.mean, told, is_share=quantity.startswith("% of"))
        figures = (f"{value:.3g}" for value in (told, ours.mean, tap.mean))
        rows.append([workload, row, quantity, *figures, close])
    header = ["workload", "row", "quantity", "document", "binhop", "below a level 2 of 256 KiB", "close"]
    near = sum(row[-1] == "yes" for row in rows)
    return (
        f"{near} of {len(rows)} figures are close: within {CLOSE:g}%, or within a factor of {FACTOR:g} for "
        "shares "
        f"under {RARE:g}%. References to descriptors count as references of their device; sizes are those of "
        "requests for data.\n\n" + grid(header, rows, 3)
    )


def _pair(data: Tb10Data, workload: str, form: Form) -> str:
    """Returns our speed-up, and the document's behind it."""
    told = paper.speed_up(workload, form.name)
    return f"{data.speed_up(workload, form).mean:.1f} ({'-' if told is None else f'{told:.1f}'})"


def _table_5(data: Tb10Data) -> str:
    header = ["workload", "ways", *(f"{size}K {of}" for size in TABLE_SIZES for of in ("P", "NP"))]
    rows = [
        [
            workload,
            str(ways),
            *(
                _pair(data, workload, ddc(size, ways=ways, prefetch=prefetch))
                for size in TABLE_SIZES
                for prefetch in (True, False)
            ),
        ]
        for workload in WORKLOADS
        for ways in WAYS
    ]
    return (
        "Speed-up in percent, binhop's (the document's). P is with and NP without prefetcher; 2 MiB last "
        "level; written through.\n\n" + grid(header, rows, 2)
    )


def _table_6(data: Tb10Data) -> str:
    header = [
        "workload",
        "last level",
        "shared",
        *(f"{size}K {of}" for size in TABLE_SIZES for of in ("P", "NP")),
    ]
    rows = [
        [
            workload,
            f"{last_level} MiB",
            _pair(data, workload, Form(SHARED, last_level)),
            *(
                _pair(data, workload, ddc(size, prefetch=prefetch, last_level=last_level))
                for size in TABLE_SIZES
                for prefetch in (True, False)
            ),
        ]
        for workload in WORKLOADS
        for last_level in LAST_LEVELS
    ]
    return "The same with 4 ways, by the size of the last level:\n\n" + grid(header, rows, 2)


def size_table(data: Tb10Data) -> pl.DataFrame:
    """Returns the speed-up of every form of the study beside the document's, where it states one."""
    rows = [
        (workload, form.name, ours.mean, *_bounds(ours), paper.speed_up(workload, form.name))
        for workload in WORKLOADS
        for form in every_form()
        if form != form.baseline
        for ours in [data.speed_up(workload, form)]
    ]
    columns = ["workload", "form", "speed_up", "low", "high", "paper"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def sensitivity_table(data: Tb10Data) -> pl.DataFrame:
    """Returns the speed-ups of the main forms, with each of our own choices changed."""
    rows: list[tuple[Any, ...]] = [
        (workload, form.setting, form.name.removesuffix(f" {form.setting}"), *_speed(data, workload, form))
        for workload in WORKLOADS
        for form in sensitive_forms()
        if form != form.baseline
    ]
    return pl.DataFrame(rows, schema=["workload", "setting", "form", "speed_up", "low", "high"], orient="row")


def _speed(data: Tb10Data, workload: str, form: Form) -> tuple[float, float | None, float | None]:
    own = data.speed_up(workload, form, "sensitivity")
    return (own.mean, *_bounds(own))


def _sensitivity(data: Tb10Data) -> str:
    table = sensitivity_table(data)
    forms = [form.name for form in MAIN if form != BASELINE]
    rows = []
    for workload in WORKLOADS:
        for setting, text in SENSITIVITY.items():
            of = dict(table.filter(workload=workload, setting=setting).select("form", "speed_up").iter_rows())
            rows.append([workload, text, *(f"{of[form]:.1f}" for form in forms)])
    return (
        "The document does not state queue, mapping, drain and page policy of its controller. Speed-up in "
        "percent of the main forms under each other choice, over a shorter run:\n\n"
        + grid(["workload", "memory", *forms], rows, 2)
    )


def _taps(data: Tb10Data) -> str:
    forms = [form for form in MAIN if form != BASELINE]
    rows = [
        [workload, *(f"{data.speed_up(workload, form, 'tap').mean:.1f}" for form in forms)]
        for workload in WORKLOADS
    ]
    settings = ", ".join(TAPS["level-2"])
    return (
        f"The same behind a private level 2 of 256 KiB ({settings}), in place of the traced computer's 1 "
        "MiB:\n\n" + grid(["workload", *(form.name for form in forms)], rows)
    )
