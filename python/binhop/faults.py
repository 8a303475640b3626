"""Counts page faults with colored free lists (LF91): all memory sizes and colors in one pass over a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop.arguments import counts, integer, listed, thread_count, whole_number
from binhop.errors import RequestError
from binhop.escape import escaped, json_text
from binhop.lazy_imports import pl
from binhop.metrics import exact
from binhop.numbers import counted
from binhop.output import ResultDirectory, write_parquet, write_provenance
from binhop.results import SCHEMA, notes_once
from binhop.run import without_references
from binhop.traces import ArrowStream, Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from binhop.tables import Table

SIZES = ("1MiB", "2MiB", "4MiB", "8MiB", "16MiB", "32MiB", "64MiB")
"""The memory sizes of LF91."""
COLORS = (1, 2, 4, 8, 16, 32, 64)
"""The color counts of LF91."""
PAGE = "4KiB"
"""The page size of LF91."""

UNITS = {
    "paging.faults": "faults",
    "paging.rate": "faults/reference",
    "paging.pages": "pages",
    "paging.allocated": "pages",
    "paging.utilization": "pages/frame",
}
"""The metrics of the tidy table, and their units."""


@dataclass(frozen=True)
class PagingResult:
    """`PagingResult` holds the page faults that passes over traces counted.

    Attributes:
        faults: One row for each workload, memory size (bytes) and color count: frames of each color, faults
            (first touches included), references, and their quotient, the page-fault rate.
        utilization: One row for each workload and color count: unique pages, frames of each color if memory
            had as many frames as there are pages, pages allocated in order of first touch until one color is
            full, and their share of the frames, which is the effective memory utilization (LF91 §2). Frames
            of each color, pages allocated and their share are null where there are fewer pages than colors.
        first_touches: The pages of each workload in order of first touch: virtual page number and asid.
        notes: Notes for the reader.
        provenance: Versions, traces and parameters, from which the pass can be repeated.
    """

    faults: pl.DataFrame
    utilization: pl.DataFrame
    first_touches: pl.DataFrame
    notes: list[str]
    provenance: dict[str, Any]

    @property
    def workloads(self) -> list[str]:
        """The traces, in order."""
        return self.faults["workload"].unique(maintain_order=True).to_list()

    @property
    def results(self) -> pl.DataFrame:
        """The tidy table: workload, size (null where it does not matter), colors, metric, unit, value."""
        faults = _long(self.faults, {"paging.faults": "faults", "paging.rate": "fault_rate"})
        columns = {
            "paging.pages": "pages",
            "paging.allocated": "allocated",
            "paging.utilization": "utilization",
        }
        used = _long(self.utilization.with_columns(size=pl.lit(None, pl.UInt64)), columns)
        return pl.concat([faults, used])

    def to_json(self) -> str:
        """Returns the JSON that `binhop paging --json` prints. Counts are integers; undefined values null."""
        rows = self.results.to_dicts()
        for row in rows:
            row["value"] = exact(row["value"], row["unit"])
        whole = {
            "schema": SCHEMA,
            "rows": rows,
            "provenance": {**self.provenance, "notes": self.notes},
        }
        return json_text(whole)

    def write(self, directory: str | os.PathLike[str], *, figures: bool = True) -> list[str]:
        """Writes tables, provenance and figures into a directory, which appears complete or not at all.

        An earlier result is replaced; files in it that binhop did not write stay. Any other directory that is
        not empty is refused.

        Returns:
            The names of the files.
        """
        with ResultDirectory(directory) as place:
            return place.fill(self, figures=figures)

    def write_tables(self, directory: Path) -> None:
        """Writes tables and provenance into a directory that is there."""
        for name in ("results", "faults", "utilization", "first_touches"):
            write_parquet(getattr(self, name), directory / f"{name}.parquet")
        self.faults.write_csv(directory / "faults.csv")
        self.utilization.write_csv(directory / "utilization.csv")
        write_provenance(directory, self.provenance, self.notes)

    def draw(self, directory: Path) -> list[Path]:
        """Draws the figures from the tables in a directory, and returns the files."""
        from binhop.report import draw_paging  # a command without figures needs no module that draws

        return draw_paging(directory)

    def tables(self) -> list[Table]:
        """Returns a table of fault rates and utilization for each workload."""
        from binhop.tables.paging import paging_tables

        return paging_tables(self.faults, self.utilization)

    def chart(self, workload: str | None = None) -> Any:
        """Returns the figure of a workload as an Altair chart, for a notebook.

        If `workload` is None, the figure is that of the first workload that has a figure. With one memory
        size and one color count, the chart is a sentence which says that there is nothing to draw.
        """
        from binhop.report import chart_of  # a command without figures needs no module that draws
        from binhop.report.paging import paging_charts

        words = dict.fromkeys(
            self.workloads, "One memory size and one color count: the table shows the rate."
        )
        return chart_of(paging_charts(self.faults), workload, words)

    def _repr_html_(self) -> str:
        from binhop.tables.html import html

        return html(self.tables(), self.notes)

    def __repr__(self) -> str:
        cells = self.faults.height // len(self.workloads)
        memories = counted(cells, "memory", "memories")
        return f"<PagingResult {escaped(', '.join(self.workloads))}: {memories} each>"


def paging(
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    *,
    sizes: Sequence[str | int] = SIZES,
    colors: Iterable[int | str] = COLORS,
    page: str | int = PAGE,
    length: int | str | None = None,
    pid_hash: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int | None], object] | None = None,
) -> PagingResult:
    """Counts the page faults of every memory size with every color count, in one pass over a trace.

    Args:
        trace: A trace, a file, the name of a built-in workload, or an Arrow table.
        sizes: Memory sizes, as "4MiB" or in bytes. Default: LF91's, 1 to 64 MiB.
        colors: Color counts, each of which divides the frames of every size. Default: LF91's, 1 to 64.
        page: The page size.
        length: References to read; default: the whole trace. A built-in workload needs a length.
        pid_hash: If true, a page's color also depends on its address space, so that many processes with equal
            layouts do not all need the same colors.
        threads: With 2 or more, the trace is decoded on a thread of its own. No result depends on it.
        progress: Called some times a second with the references done and, if known, to do.

    Returns:
        The result: faults, utilization, notes, provenance.

    Raises:
        RequestError: The request is wrong; the message says what and how to mend it.

    >>> result = paging("lin", sizes=["1MiB", "64MiB"], colors=[1, 64], length=200_000)
    >>> result.faults.select("colors", "frames_per_color").rows()
    [(1, 256), (64, 4), (1, 16384), (64, 256)]
    >>> result.utilization["utilization"][0]
    1.0
    """
    trace = Trace.of(trace)
    if trace.endless and length is None:
        rule = "a built-in workload never ends"
        raise RequestError(trace.name, "length", rule, "say how many references, as in length=50_000_000")
    length = whole_number(length, "length")
    written = [_size(size, "sizes") for size in listed(sizes, "sizes")]
    numbers = counts(colors, "colors")
    outcome = _binhop.paging(
        trace.stream(),
        page=_size(page, "page"),
        sizes=written,
        colors=numbers,
        length=length,
        pid_hash=pid_hash,
        ahead=thread_count(threads) > 1,
        progress=progress,
    )
    named = pl.lit(trace.name).alias("workload")
    rate = pl.col("faults") / outcome.references if outcome.references else pl.lit(None, pl.Float64)
    faults = pl.DataFrame(outcome.faults).select(
        named,
        pl.all(),
        pl.lit(outcome.references, pl.UInt64).alias("references"),
        rate.alias("fault_rate"),
    )
    touches = pl.DataFrame(outcome.first_touches)
    used = pl.DataFrame({"colors": numbers}, schema={"colors": pl.UInt64})
    used = used.join(pl.DataFrame(outcome.utilization), on="colors", how="left", maintain_order="left")
    utilization = used.select(
        named,
        "colors",
        pl.lit(touches.height, pl.UInt64).alias("pages"),
        "frames_per_color",
        "allocated",
        (pl.col("allocated") / (pl.col("colors") * pl.col("frames_per_color"))).alias("utilization"),
    )
    provenance = {
        "binhop": _binhop.__version__,
        "page": _size(page, "page"),
        "sizes": written,
        "colors": numbers,
        "pid_hash": pid_hash,
        "traces": [
            {
                **trace.provenance(),
                "length": length,
                "references": outcome.references,
                "instructions": outcome.instructions,
                "pages": touches.height,
            }
        ],
    }
    notes = outcome.notes
    if outcome.references == 0:
        notes = [without_references(trace, length), *notes]
    return PagingResult(faults, utilization, touches.select(named, pl.all()), notes, provenance)


def join(results: Sequence[PagingResult]) -> PagingResult:
    """Returns the results of several traces under the same parameters as one result."""
    first = results[0]
    notes = notes_once({result.workloads[0]: result.notes for result in results})
    return PagingResult(
        pl.concat([result.faults for result in results]),
        pl.concat([result.utilization for result in results]),
        pl.concat([result.first_touches for result in results]),
        notes,
        {**first.provenance, "traces": [trace for one in results for trace in one.provenance["traces"]]},
    )


def _long(wide: pl.DataFrame, columns: dict[str, str]) -> pl.DataFrame:
    """Returns one row for each metric. `columns` names the column that holds the metric."""
    keys = [pl.col(name) for name in ("workload", "size", "colors")]
    order = pl.int_range(pl.len()).alias("order")
    parts = [
        wide.select(
            *keys,
            pl.lit(metric).alias("metric"),
            pl.lit(UNITS[metric]).alias("unit"),
            pl.col(column).cast(pl.Float64).fill_nan(None).alias("value"),
            order,
        )
        for metric, column in columns.items()
    ]
    return pl.concat(parts).sort("order", maintain_order=True).drop("order")


def _size(size: str | int, name: str) -> str:
    return size if isinstance(size, str) else f"{integer(size, name)}B"
