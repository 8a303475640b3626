from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import binhop
from tests.conftest import FETCH, LOAD, STORE, events

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [(FETCH, 0x1000, 8, 2), (LOAD, 0x2000, 4, 1), (FETCH, 0x1008, 4, 1), (STORE, 0x3000, 8, 1)]
COUNTS = {"references": 5, "instructions": 3, "l1d.store.accesses": 1, "l1d.load.misses": 1}


def counts(trace: object) -> dict[str, int]:
    result = binhop.simulate("two-level", trace)
    return {metric: result.value(metric) for metric in COUNTS}


def test_polars_and_pyarrow_tables_are_traces() -> None:
    frame = events(ROWS)
    assert counts(frame) == COUNTS
    assert counts(frame.lazy()) == COUNTS
    assert counts(frame.to_arrow()) == COUNTS
    assert counts(frame.to_arrow().to_reader()) == COUNTS
    assert counts(binhop.Trace.from_arrow(frame)) == COUNTS


def test_a_table_in_several_pieces_is_one_trace() -> None:
    pieces = pl.concat([events(ROWS[:1]), events(ROWS[1:])], rechunk=False)
    assert pieces.n_chunks() == 2
    assert counts(pieces) == COUNTS


def test_a_table_can_be_read_again_a_reader_only_once() -> None:
    table = binhop.Trace.from_arrow(events(ROWS))
    assert counts(table) == counts(table) == COUNTS
    reader = binhop.Trace.from_arrow(events(ROWS).to_arrow().to_reader(), name="reader")
    assert counts(reader) == COUNTS
    with pytest.raises(binhop.RequestError, match="reader"):
        counts(reader)


def test_a_parquet_file_of_another_program_is_a_trace(tmp_path: Path) -> None:
    events(ROWS).write_parquet(tmp_path / "polars.parquet")
    pq.write_table(events(ROWS).to_arrow(), tmp_path / "arrow.parquet")
    assert counts(tmp_path / "polars.parquet") == COUNTS
    assert counts(str(tmp_path / "arrow.parquet")) == COUNTS


def test_further_columns_are_ignored_and_arguments_may_be_given() -> None:
    extra = events(ROWS).with_columns(note=pl.lit("x"), arg0=pl.lit(None, dtype=pl.UInt64))
    assert counts(extra) == COUNTS


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (events(ROWS).drop("size"), "the column size is missing"),
        (events(ROWS).cast({"addr": pl.Int64}), "the column addr must be UInt64"),
        (events(ROWS).with_columns(count=pl.lit(None, dtype=pl.UInt32)), "never null"),
    ],
)
def test_a_wrong_table_is_refused(frame: pl.DataFrame, says: str) -> None:
    with pytest.raises(binhop.RequestError, match=says):
        counts(frame)


def test_what_is_no_trace_is_refused() -> None:
    with pytest.raises(binhop.RequestError, match="a trace is a file"):
        binhop.Trace.of(17)  # type: ignore[arg-type]


def test_an_error_in_the_producer_reaches_the_caller() -> None:
    def batches() -> object:
        yield events(ROWS).to_arrow().to_batches()[0]
        raise ValueError("the producer broke")

    schema = events(ROWS).to_arrow().schema
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(binhop.RequestError, match="the producer broke"):
        counts(reader)


def test_a_workload_is_written_read_and_looked_at(lin: Path) -> None:
    trace = binhop.Trace.open(lin)
    assert trace.name == "lin"
    report = trace.inspect()
    assert 99_000 < report["totals"]["references"] <= 100_000
    assert report["content"] == "verified"
    assert trace.lint() == []
    assert trace.meta["page_size"] == 4096
    assert trace.head(5).equals(binhop.Trace.workload("lin").head(5))
    assert sum(len(batch) for batch in trace.batches()) == sum(report["totals"]["events"].values())


def test_a_workload_never_ends_and_wants_a_length() -> None:
    with pytest.raises(binhop.RequestError, match="never ends"):
        binhop.simulate("kh90", "lin")
    with pytest.raises(binhop.RequestError, match="never ends"):
        binhop.Trace.workload("lin").inspect()


def test_a_file_wins_over_a_workload_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events(ROWS).write_parquet(tmp_path / "lin")
    monkeypatch.chdir(tmp_path)
    assert counts("lin") == COUNTS


def test_a_file_and_its_workload_give_the_same_counts(lin: Path) -> None:
    from_file = binhop.simulate("kh90", lin, seeds=2)
    length = from_file.value("references")
    generated = binhop.simulate("kh90", "lin", seeds=2, length=length)
    assert from_file.results.equals(generated.results)
