from __future__ import annotations

import subprocess
import sys
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


def test_the_error_of_a_table_stays_though_more_rows_follow() -> None:
    good = events(ROWS).to_arrow()
    null = good.set_column(0, good.schema.field(0), pa.nulls(good.num_rows, pa.uint8()))
    parts = (good, null, good, good)
    reader = pa.RecordBatchReader.from_batches(good.schema, (part.to_batches()[0] for part in parts))
    stream = binhop.Trace.of(reader).stream()
    assert stream.next_batch() is not None
    for _ in range(3):
        with pytest.raises(binhop.RequestError, match="never null"):
            stream.next_batch()


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


def batch(**columns: object) -> pa.RecordBatch:
    good = {"op": [1] * 10, "addr": [4096 * row for row in range(10)], "size": [8] * 10, "count": [1] * 10}
    types = {"op": pa.uint8(), "addr": pa.uint64(), "size": pa.uint32(), "count": pa.uint32()}
    types |= columns
    arrays = {name: pa.array(good[name], kind) for name, kind in types.items() if kind is not None}
    return pa.record_batch([*arrays.values()], names=[*arrays])


@pytest.mark.parametrize(
    "other",
    [{"op": pa.int64()}, {"addr": pa.int64()}, {"op": None}, {"size": pa.uint64()}],
    ids=["wider", "signed", "fewer", "another size"],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_reader_that_changes_its_schema_is_refused(other: dict[str, object], threads: int) -> None:
    good = batch()
    reader = pa.RecordBatchReader.from_batches(good.schema, iter([good, batch(**other)]))
    with pytest.raises(binhop.RequestError, match="broke off") as caught:
        binhop.simulate("two-level", reader, seeds=1, threads=threads)
    assert caught.value.value.startswith("batch 1 has the columns ")
    assert "\n" not in str(caught.value)


class Lying:
    """A stream of an unknown library has batches with another number of columns than its schema."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        good = batch()
        batches = iter([good, batch(op=None)])
        return pa.RecordBatchReader.from_batches(good.schema, batches).__arrow_c_stream__()


def test_a_stream_that_lies_about_its_columns_is_refused() -> None:
    with pytest.raises(binhop.RequestError, match="every batch of an Arrow stream has the columns"):
        binhop.simulate("two-level", Lying(), seeds=1)


def test_a_table_that_python_produces_may_be_left_half_read() -> None:
    lines = """
import itertools, pyarrow, binhop
good = pyarrow.record_batch(
    [pyarrow.array([1], pyarrow.uint8()), pyarrow.array([4096], pyarrow.uint64()),
     pyarrow.array([8], pyarrow.uint32()), pyarrow.array([1], pyarrow.uint32())],
    names=["op", "addr", "size", "count"])
reader = pyarrow.RecordBatchReader.from_batches(good.schema, itertools.repeat(good))
print(binhop.simulate("two-level", reader, seeds=1, threads=2, length=1000).value("references"))
"""
    for _ in range(3):  # the thread that reads ahead meets the end of Python
        done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "1000\n", "")
