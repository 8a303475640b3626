"""Tests `binhop.dram`: closed forms of requests and of streams, the forms of requests, and refusals."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

import binhop
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PRESETS = {row["name"]: row for row in binhop.dram_presets().to_dicts()}
LINE = 64


def reads(*requests: tuple[int, int]) -> list[tuple[int, int, bool]]:
    """Returns reads of (arrival, line)."""
    return [(arrival, line * LINE, False) for arrival, line in requests]


def cycles_of(result: binhop.DramResult, command: str) -> list[int]:
    assert result.commands is not None
    return result.commands.filter(command=command)["cycle"].to_list()


@pytest.mark.parametrize("name", PRESETS)
def test_a_row_that_is_open_closed_or_another_takes_the_time_of_its_commands(name: str) -> None:
    of = PRESETS[name]
    row = of["lines"] * of["bank-groups"] * of["banks"] * of["ranks"]
    found = binhop.dram(name, reads((0, 0), (200, 1), (400, row)), commands=True)
    latency = of["cl"] + of["burst"]
    done = [of["rcd"] + latency, 200 + latency, 400 + of["rp"] + of["rcd"] + latency]
    assert found.requests.select("row", "done").rows() == list(
        zip(("miss", "hit", "conflict"), done, strict=True)
    )
    assert found.requests["entered"].to_list() == [0, 200, 400]
    assert found.counts["latency"] == of["rcd"] + of["rp"] + of["rcd"] + 3 * latency
    assert found.mean_latency == found.counts["latency"] / 3
    assert found.cycles == found.counts["cycles"] == done[-1]
    rows = {"row-hits": 1, "row-misses": 1, "row-conflicts": 1, "activates": 2, "precharges": 1}
    assert {name: found.counts[name] for name in rows} == rows
    assert found.bandwidth == 3 * LINE * 1e12 / (done[-1] * of["cycle-ps"])
    assert found.commands is not None
    assert found.commands.select("cycle", "command", "rank", "bank", "row").rows() == [
        (0, "activate", 0, 0, 0),
        (of["rcd"], "read", 0, 0, 0),
        (200, "read", 0, 0, 0),
        (400, "precharge", 0, 0, None),
        (400 + of["rp"], "activate", 0, 0, 1),
        (400 + of["rp"] + of["rcd"], "read", 0, 0, 1),
    ]


def test_streams_are_bound_by_bank_groups_the_bus_and_activates() -> None:
    of = PRESETS["ddr4-2400"]
    lines = reads(*((0, line) for line in range(100)))
    done = binhop.dram("ddr4-2400", lines).requests["done"].to_list()
    assert done[-1] - done[0] == 99 * of["ccd-l"], "one bank group"
    spread = {"preset": "ddr4-2400", "mapping": "row-rank-column-bank-group-channel"}
    found = binhop.dram(spread, lines)
    late = found.requests["done"].sort().to_list()[64:]
    assert late[-1] - late[0] == (len(late) - 1) * of["burst"], "the bus is busy"
    assert found.counts["bus"] == 100 * of["burst"]
    found = binhop.dram(spread, reads(*((0, bank) for bank in range(16))), commands=True)
    activates = [number // 4 * of["faw"] + number % 4 * of["rrd-s"] for number in range(16)]
    assert cycles_of(found, "activate") == activates, "four activates in a window"


def test_a_stream_is_bound_by_the_bus_alone_without_bank_groups() -> None:
    of = PRESETS["ddr2-666"]
    found = binhop.dram("ddr2-666", reads(*((0, line) for line in range(of["lines"]))))
    first = of["rcd"] + of["cl"] + of["burst"]
    assert found.requests["done"].to_list() == [first + n * of["burst"] for n in range(of["lines"])]


@pytest.mark.parametrize("name", [name for name, of in PRESETS.items() if of["ranks"] == 1])
def test_refreshes_take_their_share_of_a_stream(name: str) -> None:
    of = PRESETS[name]
    total = 10 * of["refi"] // of["ccd-l"]
    found = binhop.dram(name, reads(*((0, n % of["lines"]) for n in range(total))), commands=True)
    # Reads go until the refresh is due. Then the rank precharges, refreshes and opens the row again.
    wanted: list[int] = []
    start, refreshes = of["rcd"], []
    while len(wanted) < total:
        due = (len(refreshes) + 1) * of["refi"]
        wanted += range(start, due, of["ccd-l"])
        refreshes.append(max(due, wanted[-1] + of["rtp"]) + of["rp"])
        start = refreshes[-1] + of["rfc"] + of["rcd"]
    assert cycles_of(found, "read") == wanted[:total]
    assert cycles_of(found, "refresh") == refreshes[: found.counts["refreshes"]]
    assert found.counts["refreshes"] == (found.cycles - 1) // of["refi"] == 10
    lost = [after - of["refi"] * (n + 1) + of["rfc"] + of["rcd"] for n, after in enumerate(refreshes)]
    shortest = of["rp"] + of["rfc"] + of["rcd"]
    assert all(shortest <= cycles < shortest + of["rtp"] for cycles in lost)


@pytest.mark.parametrize("name", PRESETS)
def test_writes_of_one_bank_group_keep_a_distance_of_their_own(name: str) -> None:
    done = binhop.dram(name, [(0, line * LINE, True) for line in range(8)]).requests["done"].to_list()
    assert done[-1] - done[0] == 7 * PRESETS[name]["ccd-l-write"]


def test_a_rank_is_refreshed_at_its_interval_and_a_read_waits_for_it() -> None:
    of = PRESETS["ddr4-2400"]
    requests = reads((0, 0), (of["refi"], 1), (10 * of["refi"] + 500, 2))
    found = binhop.dram("ddr4-2400", requests, commands=True)
    assert found.counts["refreshes"] == 10
    first = cycles_of(found, "refresh")[0]
    assert first == of["refi"] + of["rp"]
    assert found.requests["done"][1] == first + of["rfc"] + of["rcd"] + of["cl"] + of["burst"]
    assert found.requests["row"].to_list() == ["miss"] * 3
    assert found.commands is not None
    assert found.commands.row(2) == (of["refi"], "precharge-all", 0, 0, None, None)


def test_a_read_takes_data_from_the_queue_of_writes() -> None:
    found = binhop.dram("ddr2-666", [(0, 1 << 26, False), (0, 7 * LINE, True), (0, 7 * LINE, False)])
    assert found.requests["row"].to_list() == ["miss", "conflict", "forwarded"]
    assert found.requests["done"][2] == 1
    assert (found.counts["reads"], found.counts["writes"], found.counts["forwarded"]) == (1, 1, 1)


@pytest.mark.parametrize("name", PRESETS)
def test_a_write_does_not_pass_an_older_read_of_its_line(name: str) -> None:
    of = PRESETS[name]
    memory = {"preset": name, "drain-high": 1, "drain-low": 0}
    found = binhop.dram(memory, [(0, 7 * LINE, False), (0, 7 * LINE, True)], commands=True)
    assert found.commands is not None
    assert found.commands["command"].to_list() == ["activate", "read", "write"]
    read = of["rcd"] + of["cl"] + of["burst"]
    assert found.requests["done"].to_list() == [read, read + of["turn"] + of["burst"]]
    assert found.requests["entered"].to_list() == [0, of["rcd"] + 1]


def test_a_request_waits_until_its_queue_has_room() -> None:
    of = PRESETS["ddr4-2400"]
    found = binhop.dram({"preset": "ddr4-2400", "queue": 2}, reads((0, 0), (0, 1), (0, 2), (5, 3)))
    assert found.requests["entered"].to_list() == [0, 0, of["rcd"] + 1, of["rcd"] + of["ccd-l"] + 1]
    assert (found.memory["queue"], found.memory["drain-high"], found.memory["pages"]) == (2, 1, "open")


def test_closed_pages_close_a_row_that_no_request_wants() -> None:
    of = PRESETS["ddr4-2400"]
    found = binhop.dram(
        {"preset": "ddr4-2400", "pages": "closed"}, reads((0, 0), (500, 128 * 16)), commands=True
    )
    assert found.requests["row"].to_list() == ["miss", "miss"]
    assert cycles_of(found, "precharge") == [of["ras"]]


def test_an_arrival_in_picoseconds_is_the_first_cycle_that_does_not_begin_before_it() -> None:
    times = [0, 1, 833, 834, 1666]
    table = pl.DataFrame({"arrival_ps": times, "address": [0] * 5, "write": [False] * 5})
    found = binhop.dram("ddr4-2400", table)
    assert found.cycle_ps == 833
    assert found.requests["arrival"].to_list() == [0, 1, 1, 2, 2]


def test_requests_may_have_any_form(tmp_path: Path) -> None:
    rows = [(3 * n, (7919 * n % 5000) * LINE + n % LINE, n % 3 == 0) for n in range(3000)]
    wanted = binhop.dram("ddr4-2400", rows)
    assert wanted.requests.select("arrival", "address", "write").rows() == rows
    arrival, address, write = (list(column) for column in zip(*rows, strict=True))
    frame = pl.DataFrame({"write": write, "arrival": arrival, "address": address, "other": arrival})
    frame.write_parquet(tmp_path / "requests.parquet")
    forms: list[Any] = [
        frame,
        frame.lazy(),
        {"arrival": arrival, "address": address, "write": write},
        {"arrival": np.array(arrival), "address": np.array(address, np.uint64), "write": np.array(write)},
        frame.with_columns(pl.col("write").cast(pl.Int8), pl.col("arrival").cast(pl.UInt16)),
        tmp_path / "requests.parquet",
        str(tmp_path / "requests.parquet"),
        (row for row in rows),
    ]
    for form in forms:
        found = binhop.dram("ddr4-2400", form)
        assert found.requests.equals(wanted.requests)
        assert found.counts == wanted.counts
    assert found.commands is None


def test_no_requests_are_served_in_no_time() -> None:
    for nothing in ([], {"arrival": [], "address": [], "write": []}):
        found = binhop.dram("ddr4-2400", nothing)
        assert (found.cycles, found.mean_latency, found.bandwidth) == (0, None, None)
        assert found.requests.height == 0
        assert found.summary().filter(metric="bandwidth")["value"].to_list() == [None]


def test_the_summary_declares_every_count() -> None:
    found = binhop.dram("ddr4-2400", reads((10, 0)))
    summary = found.summary()
    assert dict(summary.select("metric", "value").rows()) == {
        **found.counts,
        "mean-latency": found.mean_latency,
        "bandwidth": found.bandwidth,
    }
    assert summary.filter(pl.col("meaning").str.len_chars() == 0).height == 0
    assert repr(found) == "<DramResult: 1 request in 46 cycles; 0 row hits, 1 miss, 0 conflicts>"


@pytest.mark.parametrize("other", PRESETS)
def test_a_preset_with_all_figures_of_another_memory_is_this_memory(other: str) -> None:
    figures = {key: of for key, of in PRESETS[other].items() if key not in {"name", "source", "bytes"}}
    requests = [(2 * n, 977 * n * n % (1 << 25) * LINE, n % 3 == 0) for n in range(2000)]
    wanted = binhop.dram(other, requests, commands=True)
    for name in PRESETS:
        found = binhop.dram({"preset": name, **figures}, requests, commands=True)
        assert found.memory == wanted.memory
        assert found.commands is not None
        assert found.commands.equals(wanted.commands)
        assert found.requests.equals(wanted.requests)


def test_a_machine_takes_the_cycle_of_a_memory_that_is_changed() -> None:
    machine = binhop.Machine.load("tb10", ["dram=ddr4-2400", "dram.cycle-ps=2000", "cycle-time=500ps"])
    found = binhop.device_data(machine, "file-copy", length=20_000, schemes=[], seeds=1).results
    slower = binhop.Machine.load("tb10", ["dram=ddr4-2400", "dram.ratio=4", "cycle-time=500ps"])
    wanted = binhop.device_data(slower, "file-copy", length=20_000, schemes=[], seeds=1).results
    assert found.equals(wanted)
    assert "cycle-ps = 2000" in machine.resolved()


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ("ddr4-2600", "memory: preset: ddr4-2600: preset is one of ddr2-666, ddr4-2400"),
        ("off", "memory: preset: off: memory of fixed latency has no controller"),
        ({}, "memory: preset: missing"),
        ({"preset": "ddr4-2400", "queue": 0}, "queue lies between 1 and 64"),
        (
            {"preset": "ddr4-2400", "queue": 8, "drain-high": 9},
            "memory: dram.drain-high, dram.drain-low: 9 to 2",
        ),
        ({"preset": "ddr4-2400", "mapping": "row-column"}, "memory: mapping: row-column: .* covers all bits"),
        ({"preset": "ddr4-2400", "que": 8}, "memory: que: que: dram has no key que"),
        ({"preset": "ddr4-2400", "channels": 3}, "memory: dram.channels: 3: .*powers of two"),
        ({"preset": "ddr4-2400", "rows": 1000}, "memory: dram.rows: 1000: .*powers of two.*take 1024"),
        ({"preset": "ddr4-2400", "banks": 32}, "memory: dram.banks: 128: a channel has at most 64 banks"),
        ({"preset": "ddr4-2400", "rc": 54}, r"memory: dram.rc: 54: tRC is tRAS \+ tRP at least; make it 55"),
        ({"preset": "ddr4-2400", "rcd": 40}, "memory: dram.ras: 39: tRAS is tRCD at least"),
        ({"preset": "ddr4-2400", "rcd": 1_000_001}, "memory: rcd: 1000001: rcd lies between 1 and 1000000"),
        (7, "memory: 7: a memory is a name"),
    ],
)
def test_a_memory_that_cannot_be_built_is_refused(memory: Any, message: str) -> None:
    with pytest.raises(binhop.RequestError, match=message):
        binhop.dram(memory, [])


COLUMNS = {"arrival": [0, 1], "address": [0, 64], "write": [False, True]}


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        (reads((5, 0), (4, 1)), "requests: row 1: arrival: 4: .* arrives at 5; sort the requests"),
        (
            reads((0, 0), (1, 1 << 27)),
            "requests: row 1: address: 8589934592: the memory has 8589934592 bytes",
        ),
        (
            reads((1 << 39, 0)),
            "requests: row 0: arrival: 549755813888: a request arrives at cycle 549755813887",
        ),
        (
            {"arrival_ps": [2, 1], "address": [0, 0], "write": [0, 0]},
            "requests: row 1: arrival_ps: 1: .* arrives at 2",
        ),
        ([(0, 0)], r"requests: row 0: \(0, 0\): a request is \(arrival, address, write\)"),
        ([(0, -1, False)], "requests: row 0: address: -1: an address is a whole number"),
        ([(0.5, 0, False)], "requests: row 0: arrival: 0.5: an arrival is a whole number"),
        ([(0, 0, "R")], "requests: row 0: write: 'R': a request writes"),
        ({"arrival": [0]}, "requests: columns arrival: requests have the columns"),
        ({**COLUMNS, "arrival_ps": [0, 1]}, "requests: columns .*: requests have the columns"),
        ({**COLUMNS, "address": [0]}, "requests: 2 of arrival, 1 of address, 2 of write: "),
        ({**COLUMNS, "address": 5}, "requests: address: 5: a column has a value for each request"),
        ({**COLUMNS, "arrival": np.array([0.0, 1.0])}, "requests: arrival: values of type Float64: "),
        ({**COLUMNS, "arrival": np.array([0, -1])}, "requests: row 1: arrival: -1: "),
        (pl.DataFrame({**COLUMNS, "address": [0, None]}), "requests: row 1: address: None: "),
        (pl.DataFrame({**COLUMNS, "write": [0, 2]}), "requests: row 1: write: 2: a request writes"),
        (pl.DataFrame({**COLUMNS, "write": [True, None]}), "requests: row 1: write: None: "),
        (pl.DataFrame({**COLUMNS, "write": ["R", "W"]}), "requests: write: values of type String: "),
        (7, "requests: 7: requests are a table or a list"),
        ("no-such.parquet", r"requests: no-such.parquet: the file cannot be read as Parquet"),
    ],
)
def test_a_wrong_request_is_refused_with_its_row(requests: Any, message: str) -> None:
    with pytest.raises(binhop.RequestError, match=message):
        binhop.dram("ddr4-2400", requests)


def test_addresses_reach_as_far_as_the_channels() -> None:
    far = reads((0, 1 << 27))
    assert binhop.dram({"preset": "ddr4-2400", "channels": 2}, far).counts["reads"] == 1


EXPORTED = {
    "ramulator2": "LD 0x12340\nST 0x0\nLD 4096\n",
    "dramsim3": "0x12340 READ 1001\n0x0 WRITE 1001\n0x1000 READ 1002\n",
}


@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.parametrize("packed", [False, True])
def test_an_exported_memory_trace_is_read(tmp_path: Path, name: str, packed: bool) -> None:
    path, text = tmp_path / f"t.{name}{'.gz' if packed else ''}", EXPORTED[name].encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    found = binhop.dram("ddr4-2400", path).requests
    assert found["address"].to_list() == [0x12340, 0, 4096]
    assert found["write"].to_list() == [False, True, False]
    assert found["arrival"].to_list() == ([0, 1, 2] if name == "ramulator2" else [1001, 1001, 1002])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LD 0x40\nST 6x\n", "t.trace: line 2: ST 6x: a line of a memory trace is like"),
        ("LD 0x40\n0x40 READ 9\n", "t.trace: line 2: 0x40 READ 9: a line of a memory trace is like"),
        ("0x40 READ 9\n0x40 READ\n", "t.trace: line 2: 0x40 READ: a line of a memory trace is like"),
        ("0x40 read 9\n", "t.trace: line 1: 0x40 read 9: .*have cycles of a processor; export with --scheme"),
        ("0x40 READ 9\n0x40 READ 8\n", "requests: row 1: arrival: 8: .* arrives at 9"),
        ("R 0,0,1,2,3,4\n", "t.trace: line 1: R 0,0,1,2,3,4: a line"),
        ("LD 0x11112222333344445\n", "t.trace: line 1: LD 0x11112222333344445: a line"),
        (f"LD {2**64}\n", f"t.trace: line 1: LD {2**64}: a line"),
    ],
)
def test_a_wrong_memory_trace_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.trace").write_text(text)
    with pytest.raises(binhop.RequestError, match=message):
        binhop.dram("ddr4-2400", tmp_path / "t.trace")


def test_an_empty_file_has_no_requests(tmp_path: Path) -> None:
    (tmp_path / "t.trace").write_text("")
    assert binhop.dram("ddr4-2400", tmp_path / "t.trace").requests.height == 0


@pytest.mark.parametrize("scheme", ["snooping-cache", "ddio"])
def test_the_requests_behind_a_scheme_repeat_its_memory(tmp_path: Path, scheme: str) -> None:
    machine = binhop.Machine.load("tb10", ["dram=ddr4-2400", "dram.queue=4"])
    behind = binhop.device_data(machine, "file-copy", length=60_000, seeds=[5], schemes=[scheme])
    path = tmp_path / "requests"
    said = binhop.export_memory(machine, "file-copy", path, "dramsim3", seed=5, scheme=scheme, length=60_000)
    found = binhop.dram({"preset": "ddr4-2400", "queue": 4}, path)
    of_scheme = behind.results.filter(pl.col("metric").str.starts_with("dram."), scheme=scheme)
    metrics = dict(of_scheme.select("metric", "value").rows())
    assert found.cycles == metrics["dram.cycles"] > 0
    for name in ("activates", "precharges", "refreshes", "bus", "turns"):
        assert found.counts[name] == metrics[f"dram.{name}"], name
    classes = ("cpu-read", "cpu-write", "dma-read", "dma-write")
    for name in ("reads", "writes", "forwarded", "row-hits", "row-misses", "row-conflicts"):
        assert found.counts[name] == sum(metrics[f"dram.{of}.{name}"] for of in classes), name
    assert found.counts["row-conflicts"] > 100
    assert found.counts["reads"] + found.counts["forwarded"] == said["reads"]
    assert found.counts["writes"] == said["writes"]


def test_one_request_of_a_stream_without_times_arrives_in_each_cycle(tmp_path: Path) -> None:
    binhop.export_memory("zen-4k", "lin", tmp_path / "t.trace", "ramulator2", length=100_000)
    found = binhop.dram("ddr4-2400", tmp_path / "t.trace")
    assert found.requests["arrival"].to_list() == list(range(found.requests.height))
    served = found.counts["row-hits"] + found.counts["row-misses"] + found.counts["row-conflicts"]
    assert served + found.counts["forwarded"] == found.requests.height > 100


RAMULATOR = {
    "BL": "burst",
    "CL": "cl",
    "RCD": "rcd",
    "RP": "rp",
    "RAS": "ras",
    "RC": "rc",
    "WR": "wr",
    "RTP": "rtp",
    "CWL": "cwl",
    "CCDS": "ccd-s",
    "CCDL": "ccd-l",
    "RRDS": "rrd-s",
    "RRDL": "rrd-l",
    "WTRS": "wtr-s",
    "WTRL": "wtr-l",
    "FAW": "faw",
    "RFC": "rfc",
    "REFI": "refi",
    "CS": "turn",
}
"""The figure of a memory for each of Ramulator 2's timings of DDR4."""


def test_the_configuration_of_ramulator_in_the_page_is_that_of_the_memory() -> None:
    page = (ROOT / "docs" / "dram.md").read_text()
    (configuration,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    stated = dict(re.findall(r"^ +n(\w+): (\d+)$", configuration, re.MULTILINE))
    of = PRESETS["ddr4-2400"]
    assert of["ccd-l-write"] == of["ccd-l"], "Ramulator's DDR4 has one distance for both"
    assert {RAMULATOR[name]: int(value) for name, value in stated.items()} == {
        name: of[name] for name in RAMULATOR.values()
    }
    (rate,) = re.findall(r"rate: (\d+)", configuration)
    assert 2_000_000 // int(rate) == of["cycle-ps"]
    memory = binhop.dram("ddr4-2400", []).memory
    high, low = (float(share) for share in re.findall(r"wr_(?:high|low)_watermark: ([0-9.]+)", configuration))
    assert [waiting > high * 32 for waiting in (memory["drain-high"], int(memory["drain-high"]) - 1)] == [
        True,
        False,
    ], "writes go first where more than this share of 32 places waits"
    assert [waiting < low * 32 for waiting in (memory["drain-low"], int(memory["drain-low"]) + 1)] == [
        True,
        False,
    ], "reads go first again where less than this share of 32 places waits"


def test_the_mapping_of_ramulator_is_the_default_with_one_rank() -> None:
    rows = [(n, (7919 * n % 5_000_000) * LINE, n % 3 == 0) for n in range(2000)]
    alike = {"preset": "ddr4-2400", "mapping": "row-bank-group-rank-column-channel"}
    one, other = (binhop.dram(memory, rows, commands=True) for memory in ("ddr4-2400", alike))
    assert one.requests.equals(other.requests)
    assert one.commands is not None
    assert one.commands.equals(other.commands)


STREAMS = re.findall(
    r"^\| `([a-z-]+)` \| (\d+M) \| `([a-z0-9-]+)` \| (?:`([a-z-]+)`)? ?\| (.*) \|$",
    (ROOT / "docs" / "dram.md").read_text(),
    re.MULTILINE,
)
"""The rows of the page that say what becomes of a stream."""


@pytest.mark.parametrize("row", STREAMS, ids=lambda row: row[0])
def test_the_figures_of_the_page_are_those_of_the_stream(row: tuple[str, ...], tmp_path: Path) -> None:
    workload, length, machine, scheme, figures = row
    path = tmp_path / "t.trace"
    loaded = binhop.Machine.load(machine, ["dram=ddr4-2400"] if scheme else [])
    said = binhop.export_memory(loaded, workload, path, "ramulator2", scheme=scheme or None, length=length)
    found = binhop.dram("ddr4-2400", path)
    of = [found.counts[name] for name in ("cycles", "row-hits", "row-misses", "row-conflicts")]
    assert [said["reads"], said["writes"], *of] == [
        int(text.replace(",", "")) for text in figures.split(" | ")
    ]


def test_the_page_has_streams() -> None:
    assert len(STREAMS) == 3
