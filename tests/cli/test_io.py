"""Tests `binhop io`: the tables, the files, a trace by hand, and refused requests."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop import _binhop
from binhop.device_data_figures import BASELINE, FATES, FIGURES
from tests.conftest import LOAD

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

DMA_WRITE, DMA_READ, SYSCALL = (
    next(code for code, name, _ in _binhop.events() if name == wanted)
    for wanted in ("dma-write", "dma-read", "syscall")
)
RUNNING = 2**64 - 1
"""The segment that stands for the address space that runs."""
MACHINE = """
memory = { size = "1MiB", page = "4KiB" }
placement = { policy = "sequential" }
[cache.l1]
serves = "all"
size = "1KiB"
line = "64B"
ways = 2
next = "l2"
[cache.l2]
size = "8KiB"
line = "64B"
ways = 4
next = "memory"
[io]
dma-cache = "1KiB"
last-level = 10
memory = 100
"""


@pytest.fixture
def by_hand(tmp_path: Path) -> Path:
    """A device writes two lines of a page, the processor reads the first of them, the device reads both."""
    rows = [
        (LOAD, 4096, 8, 1, None, None),
        (DMA_WRITE, 4096 + 64, 128, 1, 5, RUNNING),
        (LOAD, 4096 + 64, 8, 1, None, None),
        (DMA_READ, 4096 + 64, 128, 1, 6, RUNNING),
    ]
    return _trace(rows, tmp_path / "hand.parquet")


Row = tuple[int, int, int, int, int | None, int | None]


def _trace(rows: list[Row], path: Path) -> Path:
    """Writes a trace of these events."""
    names = {"op": pl.UInt8, "addr": pl.UInt64, "size": pl.UInt32, "count": pl.UInt32}
    schema = {**names, "arg0": pl.UInt64, "arg1": pl.UInt64}
    binhop.Trace.from_arrow(pl.DataFrame(rows, schema=schema, orient="row"), path.stem).write(path)
    return path


def values(result: binhop.DeviceDataResult, scheme: str | None) -> dict[str, int]:
    rows = result.results.filter(pl.col("scheme").eq_missing(pl.lit(scheme, pl.String)))
    return dict(rows.select("metric", "value").iter_rows())


def test_a_trace_by_hand(by_hand: Path) -> None:
    machine = binhop.Machine.parse(MACHINE)
    found = binhop.device_data(machine, by_hand, path=False, seeds=1)
    front = values(found, None)
    assert [front[f"front.{name}.references"] for name in ("cpu-read", "dma-write", "dma-read")] == [2, 2, 2]
    assert (front["network.write.requests"], front["network.write.bytes"]) == (1, 128)
    base = values(found, BASELINE)
    # Two reads of the processor miss, and so do the device's two; nobody waits for a write to memory.
    assert base["cpu-read.cycles"] == 2 * (10 + 100)
    assert (base["fate.read-memory"], base["fate.unread"]) == (1, 1)
    shared = values(found, "shared-cache")
    assert (shared["fate.read-last-level"], shared["io.hits"]) == (1, 3)
    ddc = values(found, "ddc")
    assert (ddc["fate.read-dma-cache"], ddc["dma-read.hits_dma_cache".replace("_", "-")] if 0 else 1) == (
        1,
        1,
    )
    sizes = found.sizes.select("device", "direction", "size", "requests").rows()
    assert sizes == [("network", "read", 128, 1), ("network", "write", 128, 1)]
    distances = found.distances.filter(flow="dpcc", stream="together").select("distance", "references")
    assert distances.rows() == [(1, 1)]
    figures = found.summary().filter(scheme="shared-cache", figure="speed-up")["mean"].to_list()
    assert figures == [pytest.approx(base["cycles"] / shared["cycles"] - 1)]


VIRTUAL = ("cache.l1.index=virtual", "cache.l1.tag=asid")


def test_virtual_tags_have_one_scheme(command: Command, by_hand: Path) -> None:
    """The page is flushed before each of the two transfers, so the processor reads memory again."""
    machine = binhop.Machine.parse(MACHINE).with_settings(*VIRTUAL)
    found = binhop.device_data(machine, by_hand, path=False, seeds=1)
    assert found.schemes == ["flush"]
    assert any("virtual tags" in note for note in found.notes)
    counts = values(found, "flush")
    assert (counts["cpu-read.references"], counts["cpu-read.memory.reads"]) == (2, 2)
    assert (counts["dma-write.memory.writes"], counts["dma-read.memory.reads"]) == (2, 2)
    assert (counts["fate.read-memory"], counts["fate.unread"], counts["cycles"]) == (1, 1, 4 * 100)
    assert not any(name.startswith(("last-level.", "dma-cache.")) for name in counts)
    assert found.summary().filter(figure="speed-up")["mean"].to_list() == [0]
    assert "flush" in str(found.tables()[-1])
    (command.directory / "m.toml").write_text(MACHINE)
    settings = [word for setting in VIRTUAL for word in ("--set", setting)]
    said = command.refused("io", str(by_hand), "--machine", "m.toml", "--schemes", "ddio", *settings)
    assert "cache.l1.tag=asid: ddio" in said
    assert "take the scheme flush" in said
    said = command.refused("io", str(by_hand), "--machine", "m.toml", "--schemes", "flush")
    assert "cache.l1.tag=physical: flush" in said
    assert "snooping-cache" in said
    drawn = command.ok("io", str(by_hand), "--machine", "m.toml", "--out", "drawn", *settings)
    assert "flush" in drawn.stdout
    assert (command.directory / "drawn" / "hand-io.png").stat().st_size > 1000


def test_figures_are_declared_and_fates_sum_to_one(by_hand: Path) -> None:
    found = binhop.device_data(binhop.Machine.parse(MACHINE), by_hand, path=False, seeds=1)
    rows = {"row-hits", "row-conflicts", "read-latency", "reference-cycles", "reference-speed-up"}
    assert {*found.figures["figure"]} == {*FIGURES} - rows
    for scheme in found.schemes:
        of = found.figures.filter(scheme=scheme, figure="fate")
        assert of["of"].to_list() == [*FATES]
        assert of["value"].sum() == pytest.approx(1)


def test_calls_move_data_only_with_the_path(command: Command, recorded_copy: Path) -> None:
    with_path = command.ok("io", str(recorded_copy), "--machine", "zen-4k", "--seeds", "1")
    assert max(map(len, with_path.stdout.splitlines())) <= 80
    assert "disk write" in with_path.stdout
    without = command.ok("io", str(recorded_copy), "--machine", "zen-4k", "--seeds", "1", "--no-path")
    assert "no device reads or writes memory" in " ".join(without.stdout.split())


@pytest.fixture(scope="module")
def recorded_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace with a call that reads a file of 32 KiB, and loads of its buffer."""
    lines = [
        f"# meta {json.dumps({'page_size': 4096, 'files': {'3': '/data'}})}",
        "map 0x100000 pages=64 flags=rw-",
        *(
            f"syscall 0x100000 bytes=8192 call=0 file=3 offset={8192 * turn:#x}\nload 0x100000 size=8"
            for turn in range(4)
        ),
    ]
    path = tmp_path_factory.mktemp("copy") / "copy.events"
    path.write_text("\n".join(lines) + "\n")
    made = path.with_suffix(".parquet")
    binhop.Trace.open(path, "text").write(made)
    return made


def test_json_and_files_say_the_same(command: Command, by_hand: Path) -> None:
    (command.directory / "m.toml").write_text(MACHINE)
    asked = ("io", str(by_hand), "--machine", "m.toml", "--no-path")
    document = json.loads(command.ok(*asked, "--json", "-", "--out", "out").stdout)
    written = pl.read_parquet(command.directory / "out" / "results.parquet")
    assert document["rows"] == written.to_dicts()
    assert (
        document["distances"] == pl.read_parquet(command.directory / "out" / "distances.parquet").to_dicts()
    )
    assert (command.directory / "out" / "hand-io.png").stat().st_size > 1000
    assert command.ok(*asked, "--quiet").stdout == ""
    assert command.ok(*asked, "--table", "md", "--out", "md").stdout.startswith("**hand")
    assert (command.directory / "md" / "table.md").read_text().startswith("**hand")


def test_schemes_that_the_last_level_cannot_have_are_left_out(command: Command, by_hand: Path) -> None:
    (command.directory / "m.toml").write_text(MACHINE.replace("ways = 4", "ways = 1"))
    printed = command.ok("io", str(by_hand), "--machine", "m.toml").stdout
    assert "pbdc is left out" in printed
    assert "io.pbdc-ways" in command.refused("io", str(by_hand), "--machine", "m.toml", "--schemes", "pbdc")


@pytest.mark.parametrize("machine", ["kh90", "mb90-2a"])
def test_the_front_may_have_shorter_lines(command: Command, by_hand: Path, machine: str) -> None:
    printed = command.ok("io", str(by_hand), "--machine", machine, "--seeds", "1").stdout
    assert all(scheme in printed for scheme in ("snooping-cache", "shared-cache", "ddc"))


def test_what_is_wrong_is_refused_with_its_remedy(command: Command, by_hand: Path) -> None:
    def refused(*arguments: str, machine: str = "zen-4k") -> str:
        return command.refused("io", str(by_hand), "--machine", machine, *arguments)

    assert "did you mean ddio" in refused("--schemes", "ddoi")
    assert "asked for once" in refused("--schemes", "ddc,ddc")
    assert "translation=off" in refused("--set", "translation=on")
    assert "io.ring" in refused("--set", "io.ring=1", "--set", "io.packet=9000B")
    assert "rules: cachegrind:" in refused(machine="cachegrind-like")
    assert "share one last level" in refused("--set", "cache.l1d.next=memory")
    assert "--seeds" in refused("--seeds", "0")


@pytest.mark.parametrize(
    ("request_row", "said"),
    [
        ((DMA_WRITE, 4096, 0, 1, 1, RUNNING), ["0 B", "moves at least one byte", "leave it out"]),
        (
            (DMA_READ, 0, 64, 1, 1, 77),
            ["byte 0 of segment 77", "memory that somebody has mapped", "map the segment before"],
        ),
        (
            (DMA_WRITE, 4096, 64, 1, 1, None),
            ["0x1000", "a device's address is physical", "--set placement.policy=identity"],
        ),
        (
            (DMA_WRITE, 2**64 - 5, 64, 1, 1, RUNNING),
            ["0xfffffffffffffffb", "ends below 2⁶⁴", "give the right buffer"],
        ),
    ],
)
def test_a_bad_request_of_a_device_is_refused(
    command: Command, tmp_path: Path, request_row: Row, said: list[str]
) -> None:
    trace = _trace([(LOAD, 4096, 8, 1, None, None), request_row], tmp_path / "bad.parquet")
    problem = command.refused("io", str(trace), "--machine", "zen-4k")
    for part in ["bad.parquet: row 1: device", *said]:
        assert part in problem
    problem = command.refused("run", "zen-4k", str(trace))
    assert "row 1: dma-" in problem
    assert "ask binhop io" in problem


def _direct_read(path: Path, bytes_read: int, *mapped: str) -> Path:
    """Writes a trace that reads a file past the page cache, into the memory from 0x101000 on."""
    meta = {"page_size": 4096, "files": {"3": "/data"}, "direct_files": [3], "file_bytes": {"3": 65536}}
    lines = [
        f"# meta {json.dumps(meta)}",
        *mapped,
        "load 0x100000 size=8",
        f"syscall 0x101000 bytes={bytes_read} call=0 file=3 offset=0x0",
        "load 0x101000 size=8",
    ]
    path.write_text("\n".join(lines) + "\n")
    made = path.with_suffix(".parquet")
    binhop.Trace.open(path, "text").write(made)
    return made


def test_a_direct_call_into_memory_of_nobody_is_refused(command: Command, tmp_path: Path) -> None:
    mapped = "map 0x100000 pages=2 flags=rw-"
    asked = ("--machine", "zen-4k", "--seeds", "1", "--schemes", "ddio")
    trace = _direct_read(tmp_path / "beyond.events", 8192, mapped)
    problem = command.refused("io", str(trace), *asked)
    for part in ("0x102000", "beyond.parquet: row 2: direct call", "or referenced before", "--no-path"):
        assert part in problem
    command.ok("io", str(trace), *asked, "--no-path")
    command.ok("io", str(trace), *asked, "--set", "placement.policy=identity")
    noted = "2 pages were first referenced by a device, in a process that has mapped nothing"
    within = command.ok("io", str(_direct_read(tmp_path / "within.events", 4096, mapped)), *asked)
    assert noted not in " ".join(within.stdout.split())
    unmapped = command.ok("io", str(_direct_read(tmp_path / "unmapped.events", 8192)), *asked)
    assert noted in " ".join(unmapped.stdout.split())


def test_the_path_leaves_out_what_lies_behind_its_last_byte(command: Command, tmp_path: Path) -> None:
    asked = ("--machine", "zen-4k", "--seeds", "1", "--schemes", "ddio")
    mapped = "map 0x100000 pages=2 flags=rw-"
    made = {
        "buffer": "syscall 0x7ffffffffffff000 bytes=4096 call=0 file=3 offset=0x0",
        "offset": "syscall 0x101000 bytes=4096 call=0 file=3 offset=0x7fffffffffffffff",
    }
    for name, call in made.items():
        trace = _direct_read(tmp_path / f"{name}.events", 4096, mapped, call)
        told = command.ok("io", str(trace), *asked)
        assert "the data of 1 system call are left out" in " ".join(told.stdout.split())
    nobody = "syscall 0x7fffffffffffe000 bytes=4096 call=0 file=3 offset=0x7fffffffffffe000"
    trace = _direct_read(tmp_path / "nobody.events", 4096, mapped, nobody)
    assert "0x7fffffffffffe000" in command.refused("io", str(trace), *asked)


@pytest.mark.parametrize(
    ("scheme", "setting", "value", "said"),
    [
        ("pbdc", "pbdc-ways", "0", "between 1 and 63"),
        ("pbdc", "pbdc-ways", "16", "take 1 to 15"),
        ("ddio", "ddio-ways", "0", "between 1 and 63"),
        ("ddio", "ddio-ways", "16", "take 1 to 15"),
    ],
)
def test_a_mask_of_no_way_or_of_all_ways_is_refused(
    command: Command, by_hand: Path, scheme: str, setting: str, value: str, said: str
) -> None:
    settings = ["--schemes", scheme, "--set", f"io.{setting}={value}"]
    problem = command.refused("io", str(by_hand), "--machine", "tb10", *settings)
    for part in (f"io.{setting}", f" {value}: ", said):
        assert part in problem


def test_calls_without_a_size_or_a_file_are_noted(command: Command, tmp_path: Path) -> None:
    rows: list[Row] = [
        (LOAD, 4096, 8, 1, None, None),
        (SYSCALL, 0, 0, 0, None, None),
        (SYSCALL, 4096, 100, 1, 3, 0),
    ]
    trace = _trace(rows, tmp_path / "bare.parquet")
    done = command.ok("io", str(trace), "--machine", "zen-4k", "--seeds", "1", "--schemes", "ddio")
    assert "the data of 2 system calls are left out" in " ".join(done.stdout.split())


def test_memory_with_a_controller_reports_its_cycles_and_rows(command: Command, recorded_copy: Path) -> None:
    asked = ("io", str(recorded_copy), "--machine", "zen-4k", "--seeds", "1", "--dram", "ddr4-2400")
    printed = command.ok(*asked).stdout
    assert "DRAM: row hits" in printed
    assert "until the last reference" in printed
    assert max(map(len, printed.splitlines())) <= 80
    document = json.loads(command.ok(*asked, "--json", "-").stdout)
    of = {row["metric"]: row["value"] for row in document["rows"] if row["scheme"] == BASELINE}
    for name in ("cpu-read", "dma-write"):
        rows = sum(of[f"dram.{name}.{what}"] for what in ("row-hits", "row-misses", "row-conflicts"))
        assert rows == of[f"dram.{name}.reads"] + of[f"dram.{name}.writes"]
    assert of["dram.bus"] == 4 * sum(
        value for metric, value in of.items() if metric.endswith((".reads", ".writes")) and "dram." in metric
    )
    assert "preset is one of" in command.refused(*asked[:-1], "ddr3")


def test_a_scheme_whose_caches_serve_the_end_is_compared_by_its_last_reference(by_hand: Path) -> None:
    machine = binhop.Machine.load("zen-4k", ["dram=ddr4-2400", "io.last-level=10000"])
    found = binhop.device_data(machine, by_hand, path=False, seeds=1)
    ends = {scheme: values(found, scheme)["dram.reference-cycles"] for scheme in found.schemes}
    for scheme in found.schemes:
        # A reference of the processor passes the last level after its data were on the bus.
        assert ends[scheme] > values(found, scheme)["dram.cycles"] > 0
    figures = found.figures.filter(figure="reference-speed-up")
    assert dict(figures.select("scheme", "value").iter_rows()) == {
        scheme: ends[BASELINE] / end - 1 for scheme, end in ends.items()
    }


@pytest.mark.parametrize(
    ("setting", "place", "rule", "remedy"),
    [
        ("dram.queue=0", "--set dram.queue=0: 0:", "queue lies between 1 and 64", "in that range"),
        ("dram.mapping=row-rank-bank-group-column", "dram.mapping", "covers all bits", "write an order like"),
        (
            "dram.mapping=row-row-rank-bank-group-column-channel",
            "dram.mapping",
            "names each part once",
            "write an order like row-rank-bank-group-column-channel",
        ),
        ("dram.channels=3", "dram.channels: 3:", "powers of two", "take 4"),
        ("dram.drain-low=30", "dram.drain-low: 24 to 30:", "a lower mark below it", "say 24 and 8"),
        ("dram.drain-high=40", "dram.drain-high", "an upper mark of 1 to the queue's length", "say 24 and 8"),
        (
            "dram=hbm",
            "--set dram=hbm: hbm:",
            "preset is one of ddr2-666",
            "choose one of them",
        ),
    ],
)
def test_a_controller_that_cannot_be_built_is_refused(
    command: Command, by_hand: Path, setting: str, place: str, rule: str, remedy: str
) -> None:
    said = " ".join(command.refused("io", str(by_hand), "--machine", "tb10", "--set", setting).split())
    assert said.index(place) < said.index(rule) < said.index(remedy)


def test_forms_of_a_scheme_count_what_each_counts_in_a_run_of_its_own(by_hand: Path) -> None:
    machine = binhop.Machine.parse(MACHINE)
    forms = {"small": ("ddc", ["io.dma-cache=256B"]), "slow": ("shared-cache", ["io.memory=500"])}
    together = binhop.device_data(machine, by_hand, schemes=forms, path=False)
    assert together.schemes == [BASELINE, "small", "slow"]
    for name, (scheme, settings) in forms.items():
        own = binhop.device_data(machine.with_settings(*settings), by_hand, schemes=[scheme], path=False)
        columns = ("metric", "value")
        assert (
            together.results.filter(scheme=name).select(columns).rows()
            == own.results.filter(scheme=scheme).select(columns).rows()
        )


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (("ddc", ["cache.l1.size=2KiB"]), "the caches before the last level"),
        (("ddc", ["io.ring=8"]), "the path of device data"),
        (("dcc", []), "did you mean ddc"),
    ],
)
def test_a_form_that_needs_another_front_is_refused(
    by_hand: Path, form: tuple[str, list[str]], words: str
) -> None:
    with pytest.raises(binhop.RequestError, match=words):
        binhop.device_data(binhop.Machine.parse(MACHINE), by_hand, schemes={"form": form}, path=False)
    with pytest.raises(binhop.RequestError, match="another name"):
        binhop.device_data(
            binhop.Machine.parse(MACHINE), by_hand, schemes={BASELINE: ("ddc", [])}, path=False
        )


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_recorded_copy_moves_its_file(command: Command, tmp_path: Path) -> None:
    """cp copies with copy_file_range, or with read and write where it is older."""
    size = 3_000_000
    (tmp_path / "from").write_bytes(bytes(size))
    trace = tmp_path / "cp.parquet"
    command.ok("record", "-o", str(trace), "--", "cp", str(tmp_path / "from"), str(tmp_path / "to"))
    found = binhop.device_data("zen-4k", trace, schemes=["ddio"], seeds=1)
    counts = dict(found.results.filter(pl.col("scheme").is_null()).select("metric", "value").iter_rows())
    assert counts["disk.write.bytes"] >= size, "the disk reads the file into the page cache"
    path = found.provenance["path"]
    assert path["written"] >= size
    assert path["unseen"] == 0
    assert path["dirty"] > 0
    assert any(f"held {path['dirty']} dirty pages when the trace ended" in note for note in found.notes)


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_recorded_fsync_writes_to_the_disk(command: Command, tmp_path: Path) -> None:
    written = {}
    for conversion in ([], ["conv=fsync"]):
        trace = tmp_path / f"dd{len(conversion)}.parquet"
        dd = ["dd", "if=/dev/zero", f"of={tmp_path / 'to'}", "bs=64k", "count=4", *conversion]
        command.ok("record", "-o", str(trace), "--", *dd)
        path = binhop.device_data("zen-4k", trace, schemes=["ddio"], seeds=1).provenance["path"]
        written[len(conversion)] = (path["written"], path["pages_written"])
    assert written == {0: (4 << 16, 0), 1: (4 << 16, 64)}


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_recorded_direct_read_passes_the_page_cache_by(command: Command, tmp_path: Path) -> None:
    source = tmp_path / "from"
    source.write_bytes(bytes(1 << 20))
    try:
        os.close(os.open(source, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("the file system has no direct files")
    read = {}
    for flags in ([], ["iflag=direct"]):
        trace = tmp_path / f"dd{len(flags)}.parquet"
        dd = ["dd", f"if={source}", "of=/dev/null", "bs=64k", *flags]
        command.ok("record", "-o", str(trace), "--", *dd)
        path = binhop.device_data("zen-4k", trace, schemes=["ddio"], seeds=1).provenance["path"]
        read[len(flags)] = (path["read"], path["pages_read"])
    assert read[0][0] == read[1][0], "the calls read the same bytes"
    assert read[0][1] - read[1][1] == 256, "but not the pages of the file into the page cache"


# The recorded programs in C begin with these lines. `make_at` writes a new file of zeros.
SHARED_C = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
static char bytes[10 * 4096];
static void make_at(int directory, const char *name, int pages)
{
   int file = openat(directory, name, O_RDWR | O_CREAT, 0600);
   write(file, bytes, pages * 4096);
   close(file);
}
static void make(const char *name, int pages) { make_at(AT_FDCWD, name, pages); }
"""


FILES_THAT_END = """
int main(void)
{
   int a = open("a", O_RDWR | O_CREAT, 0600);
   write(a, bytes, 10 * 4096);
   ftruncate(a, 2 * 4096);
   char *map = mmap(0, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, a, 0);
   map[5000] = 1;
   msync(map, 2 * 4096, MS_ASYNC);
   msync(map, 2 * 4096, MS_SYNC);
   map[0] = 1;
   int c = open("c", O_RDWR | O_CREAT, 0600);
   write(c, bytes, 3 * 4096);
   close(c);
   unlinkat(AT_FDCWD, "c", 0);
   int b = open("b", O_RDWR | O_CREAT, 0600);
   write(b, bytes, 5 * 4096);
   unlink("b"); /* the file is open, so it stays */
   close(b);
   int memory = memfd_create("memory", 0);
   write(memory, bytes, 4096);
   fsync(memory);
   return 0;
}
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_what_a_recorded_program_cuts_off_is_not_written(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _recorded(FILES_THAT_END, command, tmp_path, monkeypatch)
    assert path["written"] == 18 * 4096, "the file in memory is not counted"
    assert path["pages_written"] == 2, "msync writes what the file still has"
    assert path["dirty"] == 1 + 5, "the page of the last store, and the file that was open"


NAMES_OF_OTHERS = """
int main(void)
{
   mkdir("d", 0700);
   int d = open("d", O_RDONLY | O_DIRECTORY);
   make("c", 8);
   make_at(d, "e", 4);
   make("f", 3);
   make("g", 2);
   symlink("f", "link");
   symlink("g", "other");
   if (fork() == 0) {
      unlinkat(d, "e", 0);
      truncate("link", 4096);
      unlink("other"); /* g stays */
      execlp("rm", "rm", "-f", "c", (char *)0);
   }
   wait(0);
   make("f", 1); /* the page is dirty already */
   return 0;
}
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_relative_name_in_another_process_is_the_name_of_the_same_file(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _recorded(NAMES_OF_OTHERS, command, tmp_path, monkeypatch)
    assert path["written"] == 18 * 4096
    assert path["unseen"] == 0
    assert path["dirty"] == 1 + 2, "the first page of f, and g"


FILES_WITH_OTHER_NAMES = """
int main(void)
{
   make("a", 8);
   open("a", O_WRONLY | O_CREAT | O_EXCL | O_TRUNC, 0600); /* fails */
   close(open("a", O_WRONLY | O_TRUNC)); /* cuts 8 pages */
   make("b", 4);
   close(creat("b", 0600)); /* cuts 4 pages */
   make("c", 3);
   make("d", 2);
   rename("c", "d"); /* deletes a file of 2 pages; 3 pages have another name */
   make("d", 1);
   make("e", 5);
   link("e", "f");
   rename("e", "f"); /* one file: nothing happens */
   make("f", 1);
   unlink("e"); /* the file has another name */
   make("g", 2);
   int g = open("g", O_RDWR);
   char *map = mmap(0, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, g, 0);
   close(g);
   unlink("g"); /* the file is mapped, so it stays */
   make("h", 2);
   unlink("h");
   make("i", 3); /* may get the inode of h */
   renameat2(AT_FDCWD, "i", AT_FDCWD, "d", RENAME_EXCHANGE); /* deletes nothing */
   make("j", 2);
   close(open("j", O_PATH | O_TRUNC)); /* cuts nothing */
   return map[0];
}
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_recorded_program_cuts_and_replaces_files_by_other_calls(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _recorded(FILES_WITH_OTHER_NAMES, command, tmp_path, monkeypatch)
    assert path["unseen"] == 0
    assert path["written"] == (8 + 4 + 3 + 2 + 1 + 5 + 1 + 2 + 2 + 3 + 2) * 4096
    assert path["dirty"] == 3 + 5 + 2 + 3 + 2, "d and f once each, g, i, and j"
    assert path["pages_written"] == 0


LISTS_OF_BUFFERS = """
int main(void)
{
   static char other[64];
   int pair[2], ends[2];
   int file = open("file", O_RDWR | O_CREAT, 0600);
   struct iovec list[3] = {{bytes, 11}, {bytes + 11, 10}, {bytes + 21, 11}};
   struct iovec room[3] = {{other, 11}, {other + 11, 10}, {other + 21, 11}};
   writev(file, list, 3);
   pwritev(file, list, 3, 32);
   lseek(file, 0, SEEK_SET);
   readv(file, room, 3);
   preadv(file, room, 3, 32);
   pipe(ends);
   vmsplice(ends[1], list, 3, 0);
   vmsplice(ends[0], room, 3, 0);
   socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
   struct msghdr sent = {.msg_iov = list, .msg_iovlen = 3}, got = {.msg_iov = room, .msg_iovlen = 3};
   sendmsg(pair[0], &sent, 0);
   recvmsg(pair[1], &got, 0);
   struct mmsghdr both[2] = {{sent}, {sent}}, rooms[2] = {{got}, {got}};
   both[1].msg_hdr.msg_iovlen = 1;
   sendmmsg(pair[0], both, 2, 0);
   recvmmsg(pair[1], rooms, 2, 0, 0);
   recvmsg(pair[1], &got, MSG_DONTWAIT); /* nothing is there */
   return 0;
}
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_list_of_buffers_is_no_data(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each list and each header is longer than each buffer."""
    path = _recorded(LISTS_OF_BUFFERS, command, tmp_path, monkeypatch)
    assert path["unseen"] == 0
    assert (path["written"], path["piped"]) == (64, 32)
    without = LISTS_OF_BUFFERS.replace("preadv(file, room, 3, 32);", "").replace("readv(file, room, 3);", "")
    loader = _recorded(without, command, tmp_path, monkeypatch, "without")
    assert path["read"] - loader["read"] == 64, "the loader reads, too"
    assert path["sent"] == path["received"] == 32 + 32 + 11


CALLS_WITH_FLAGS = """
int main(void)
{
   static char other[64];
   int file = open("file", O_RDWR | O_CREAT, 0600);
   int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600), again = open("log", O_WRONLY | O_APPEND);
   struct iovec list[2] = {{bytes, 20}, {bytes + 20, 12}}, room[2] = {{other, 20}, {other + 20, 12}};
   pwritev2(file, list, 2, -1, 0); /* bytes 0 to 31 */
   pwritev2(file, list, 2, 4096, 0);
   pwritev2(file, list, 2, -1, 0); /* bytes 32 to 63 */
   pwritev2(file, list, 2, 0, RWF_APPEND); /* behind the second page's bytes */
   pwritev2(file, list, 2, 3 * 4096, 0);
   preadv2(file, room, 2, 4096, 0);
   preadv2(file, room, 2, -1, 0);
   lseek(file, 5 * 4096, SEEK_SET); /* no call of these reads or writes there */
   write(log, bytes, 4096);
   write(again, bytes, 4096); /* the second page, though the descriptor is at byte 0 */
   pwrite(log, bytes, 4096, 0); /* the third page: Linux appends */
   return 0;
}
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_calls_with_flags_name_their_file_and_their_place(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _recorded(CALLS_WITH_FLAGS, command, tmp_path, monkeypatch)
    assert path["unseen"] == 0
    assert path["written"] == 5 * 32 + 3 * 4096
    assert path["dirty"] == 3 + 3, "pages 0, 1 and 3 of the file, and three pages of the log"
    calls = [line for line in CALLS_WITH_FLAGS.splitlines() if "preadv2" not in line]
    loader = _recorded("\n".join(calls), command, tmp_path, monkeypatch, "without")
    assert path["read"] - loader["read"] == 64, "the loader reads, too"
    rows = pl.read_parquet(tmp_path / "program.parquet").filter(pl.col("op") == SYSCALL)
    for name, offsets in (("preadv2", [4096, 64]), ("pwritev2", [0, 4096, 32, 4096 + 32, 3 * 4096])):
        assert rows.filter(pl.col("count") == _number(name))["arg1"].to_list() == offsets


CALL_THAT_DOES_NOT_APPEND = """
int main(void)
{
   int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
   struct iovec list = {bytes, 32};
   write(log, bytes, 4096);
   pwritev2(log, &list, 1, 64, 0); /* Linux appends */
   return pwritev2(log, &list, 1, 64, 0x20 /* RWF_NOAPPEND */) == 32 ? 0 : 1;
}
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.skipif(
    tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) < (6, 9),
    reason="RWF_NOAPPEND came with Linux 6.9",
)
def test_a_write_that_does_not_append_has_the_offset_that_it_names(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _recorded(CALL_THAT_DOES_NOT_APPEND, command, tmp_path, monkeypatch)
    rows = pl.read_parquet(tmp_path / "program.parquet").filter(pl.col("op") == SYSCALL)
    assert rows.filter(pl.col("count") == _number("pwritev2"))["arg1"].to_list() == [4096, 64]


PAGES_IN_PIPES = """
int main(void)
{
   int one[2], two[2];
   int a = open("a", O_RDWR | O_CREAT, 0600), b = open("b", O_RDWR | O_CREAT, 0600);
   write(a, bytes, 8192);
   pipe(one);
   pipe(two);
   loff_t at = 0;
   splice(a, &at, one[1], 0, 8192, 0);
   tee(one[0], two[1], 8192, 0);
   splice(two[0], 0, b, 0, 8192, 0);
   read(one[0], bytes, 8192);
   struct iovec list = {bytes, 5000};
   vmsplice(one[1], &list, 1, 0);
   splice(one[0], 0, two[1], 0, 5000, 0);
   vmsplice(two[0], &list, 1, 0);
   fsync(b);
   return 0;
}
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_recorded_program_moves_pages_through_pipes(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _recorded(PAGES_IN_PIPES, command, tmp_path, monkeypatch)
    assert path["unseen"] == 0
    assert path["written"] == 2 * 8192, "the call that writes, and the splice into b"
    assert path["piped"] == 2 * 8192 + 2 * 5000
    assert path["pages_written"] == 2, "b is written to the disk"


def _number(name: str) -> int:
    """Returns the number of a system call on this processor."""
    source = f"#include <sys/syscall.h>\n__NR_{name}\n"
    done = subprocess.run(["cc", "-E", "-P", "-"], input=source, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def _recorded(
    source: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str = "program"
) -> dict[str, int]:
    """Records a program in C, given by its `main`, and returns the counts of its path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name}.c").write_text(SHARED_C + source)
    subprocess.run(["cc", "-w", "-O1", "-o", name, f"{name}.c"], check=True)
    command.ok("record", "-o", f"{name}.parquet", "--", f"./{name}")
    found = binhop.device_data("zen-4k", tmp_path / f"{name}.parquet", schemes=["ddio"], seeds=1)
    return dict(found.provenance["path"])


@pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("sqlite3") is None,
    reason="valgrind or sqlite3 is missing",
)
def test_a_recorded_scan_reads_its_table_from_the_disk(command: Command, tmp_path: Path) -> None:
    table, trace = tmp_path / "table.db", tmp_path / "scan.parquet"
    with contextlib.closing(sqlite3.connect(table)) as connection, connection:
        connection.execute("create table t (id integer primary key, name text)")
        names = ((f"row {number}" * 4,) for number in range(4000))
        connection.executemany("insert into t (name) values (?)", names)
    query = "select count(*), max(length(name)) from t"
    command.ok("record", "-o", str(trace), "--", "sqlite3", str(table), query)
    found = binhop.device_data("zen-4k", trace, schemes=["ddio"], seeds=1)
    path = found.provenance["path"]
    assert path["read"] >= table.stat().st_size, "the scan reads the whole table"
    assert path["unseen"] == 0
    counts = dict(found.results.filter(pl.col("scheme").is_null()).select("metric", "value").iter_rows())
    assert counts["disk.write.bytes"] >= table.stat().st_size


SERVER = """
int main(void)
{
   static char page[20000], request[256];
   int ends[2];
   int file = open("page", O_RDWR | O_CREAT, 0600);
   write(file, page, sizeof page);
   fsync(file);
   socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
   for (int served = 0; served < 20; served++) {
      off_t at = 0;
      write(ends[0], "GET /page", 9);
      read(ends[1], request, 9);
      if (served % 2 == 0) {
         sendfile(ends[1], file, &at, sizeof page);
      } else {
         pread(file, page, sizeof page, 0);
         write(ends[1], page, sizeof page);
      }
      for (unsigned got = 0; got < sizeof page;) got += read(ends[0], page + got, sizeof page - got);
   }
   return 0;
}
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_recorded_server_sends_pages(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the answers go from the page cache to the card, the others by a copy of the server's."""
    path = _recorded(SERVER, command, tmp_path, monkeypatch)
    assert path["unseen"] == 0
    assert path["sent"] == path["received"] == 20 * (9 + 20_000)
    assert path["written"] == 20_000
    # Each call's bytes in packets of 1,500 bytes; a packet of sendfile lies in one page.
    copied, in_place = 14, 4 * 3 + 3
    assert path["packets_sent"] == 20 * 1 + 10 * copied + 10 * in_place
