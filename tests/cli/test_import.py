"""Tests foreign traces: samples, directories, packings, real placements."""

from __future__ import annotations

import bz2
import json
import lzma
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import binhop
from tests.conftest import ROOT

if TYPE_CHECKING:
    from tests.conftest import Command

SAMPLES = ROOT.parent / "shared" / "data"
HEADER, THREAD, EXIT, PID, FOOTER, MARKER, INSTR, READ = 25, 22, 23, 24, 26, 28, 10, 0
TIMESTAMP, PAGE_SIZE, SYSCALL, PHYSICAL, VIRTUAL = 2, 18, 25, 15, 17

Records = list[tuple[int, int, int]]


def sample(name: str) -> Path:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"{path} is absent")
    return path


def thread(tid: int, pid: int, records: Records) -> bytes:
    """Returns a drmemtrace file of one thread."""
    head = [(HEADER, 0, 7), (THREAD, 4, tid), (PID, 4, pid), (MARKER, PAGE_SIZE, 4096)]
    tail = [(EXIT, 4, tid), (FOOTER, 0, 0)]
    return b"".join(struct.pack("<HHQ", *record) for record in [*head, *records, *tail])


def imported(command: Command, *arguments: str | Path) -> tuple[str, dict[str, Any]]:
    """Returns the messages of an import, and the report of `inspect`."""
    done = command.ok("import", *map(str, arguments), "-o", "t.parquet")
    return done.stderr, json.loads(command.ok("inspect", "t.parquet", "--json", "-").stdout)


@pytest.mark.parametrize(
    ("name", "references", "instructions", "part"),
    [
        ("cc1.din", 9141, 6741, "9141 references have no size"),
        ("drmemtrace.small.x64.trace", 229, 173, ""),
        ("drmemtrace.allasm_x86_64.trace.zip", 133, 133, "markers that say nothing about references"),
    ],
)
def test_each_sample(command: Command, name: str, references: int, instructions: int, part: str) -> None:
    said, report = imported(command, sample(name))
    totals = report["totals"]
    assert (totals["references"], totals["instructions"]) == (references, instructions)
    assert part in said
    assert command.ok("lint", "t.parquet").stdout.endswith("nothing to complain about\n")


def test_a_directory_of_threads_is_one_trace(command: Command) -> None:
    trace = command.directory / "drmemtrace.app.70.0001.dir" / "trace"
    trace.mkdir(parents=True)
    first: Records = [(MARKER, TIMESTAMP, 10), (INSTR, 4, 0x1000), (MARKER, SYSCALL, 202)]
    first += [(MARKER, TIMESTAMP, 30), (INSTR, 4, 0x1004)]
    (trace / "drmemtrace.app.70.trace").write_bytes(thread(70, 70, first))
    second: Records = [(MARKER, TIMESTAMP, 20), (INSTR, 4, 0x2000), (READ, 8, 0x9000)]
    with zipfile.ZipFile(trace / "drmemtrace.app.71.trace.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("chunk.0000", thread(71, 70, second))
    said, report = imported(command, trace.parent)
    switches = {cause: count for cause, count in report["switches"].items() if count}
    assert switches == {"system-call": 1, "exit": 1}
    assert report["processes"][0]["pid"] == 70
    assert report["processes"][0]["command"] == "app"
    assert report["meta"]["page_size"] == 4096
    assert "2 switches among 2 threads" in said
    # The same without a file in between, straight into a simulation.
    done = command.ok("run", "kh90", str(trace), "--seeds", "2", "--json", "-")
    assert json.loads(done.stdout)


def test_what_raw2trace_has_not_seen_is_refused(command: Command) -> None:
    raw = command.directory / "drmemtrace.app.1.2.dir" / "raw"
    raw.mkdir(parents=True)
    (raw / "drmemtrace.app.1.raw.lz4").write_bytes(b"x")
    assert "drraw2trace -indir DIR" in command.refused("import", str(raw.parent), "-o", "t.parquet")
    empty = command.directory / "empty"
    empty.mkdir()
    assert "no trace file" in command.refused("import", str(empty), "-o", "t.parquet")


def test_champsim_packed_and_plain(command: Command) -> None:
    def record(ip: int, store: int, load: int, size: int) -> bytes:
        first, second = (16, 32) if size == 64 else (24, 56)
        made = bytearray(size)
        struct.pack_into("<Q", made, 0, ip)
        struct.pack_into("<Q", made, first, store)
        struct.pack_into("<Q", made, second, load)
        return bytes(made)

    for size, name in ((64, "champsim"), (96, "champsim-cloudsuite")):
        made = b"".join(record(0x400000 + 4 * n, 0x8000 * (n % 2), 0x9000, size) for n in range(100))
        (command.directory / "t.bin").write_bytes(made)
        (command.directory / "t.bz2").write_bytes(bz2.compress(made))
        for file in ("t.bin", "t.bz2"):
            said, report = imported(command, "--format", name, file)
            assert report["totals"]["references"] == 100 + 100 + 50
            assert report["meta"]["sizes"] == "assumed"
            assert "250 references have no size" in said
    (command.directory / "w.champsimtrace.xz").write_bytes(lzma.compress(record(4, 0, 8, 64)))
    assert imported(command, "w.champsimtrace.xz")[1]["totals"]["references"] == 2
    wrong = command.refused("import", "t.bin", "--format", "drmemtrace", "-o", "t2.parquet")
    assert "say --format champsim" in wrong


def test_an_unknown_packing_is_refused_by_name(command: Command) -> None:
    (command.directory / "a.din").write_bytes(b"LZIP\x01....")
    said = command.refused("import", "a.din", "-o", "a.parquet")
    assert "lzip" in said
    assert "lzip -dc FILE |" in said


PAGES = {0x400: 7, 0x401: 3, 0x500: 12}
"""Frames by virtual page."""


def touching(command: Command) -> None:
    """Writes a trace that touches these pages."""
    lines = [f"2 {page << 12 | offset:x}\n" for offset in (0, 64, 128) for page in PAGES]
    (command.directory / "t.din").write_text("".join(lines) * 3)


def dumped(command: Command, *options: str) -> dict[int, int]:
    command.ok("run", "kh90", "t.din", *options, "--dump-placement", "dumped.parquet")
    rows = pl.read_parquet(command.directory / "dumped.parquet")
    return dict(rows.select("page_no", "frame").iter_rows())


SETTINGS = ("--set", "memory.page=4KiB", "--set", "memory.size=1MiB", "--set", "placement.pool=64KiB")


def test_pages_lie_where_the_map_says(command: Command) -> None:
    touching(command)
    lines = "".join(f"{page << 12:x} {frame << 12:x}\n" for page, frame in PAGES.items())
    (command.directory / "map.txt").write_text(lines)
    assert dumped(command, *SETTINGS, "--v2p", "map.txt") == PAGES
    # A page of 2 MiB in the map is a row of 512 frames.
    (command.directory / "v2p.textproto").write_text(
        "address_mapping_group { page_size: 2097152\n"
        "address_mapping { virtual_address: 4194304 physical_address: 2097152 } }\n"
    )
    huge = ("--set", "memory.page=4KiB", "--set", "memory.size=8MiB")
    assert dumped(command, *huge, "--v2p", "v2p.textproto") == {page: page - 512 for page in PAGES}


def test_a_real_placement_is_compared_with_simulated_ones(command: Command) -> None:
    touching(command)
    lines = "".join(f"{page << 12:x} {frame << 12:x}\n" for page, frame in PAGES.items())
    (command.directory / "map.txt").write_text(lines)
    done = command.ok(
        "compare", "kh90", "t.din", *SETTINGS, "--v2p", "map.txt", "--seeds", "4", "--json", "-"
    )
    named = json.dumps(json.loads(done.stdout))
    assert '"random"' in named
    assert '"recorded"' in named
    both = command.refused("compare", "kh90", "t.din", "--v2p", "m", "--set", "placement.policy=recorded")
    assert "--v2p" in both


def test_what_a_map_cannot_do_is_said(command: Command) -> None:
    touching(command)
    (command.directory / "map.txt").write_text("400000 7000\n401000 3000\n")
    absent = command.refused("run", "kh90", "t.din", *SETTINGS, "--v2p", "map.txt")
    assert "virtual page 1280 of asid 0" in " ".join(absent.split())
    said = command.refused("run", "kh90", "t.din", "--set", "memory.size=16KiB", "--v2p", "map.txt")
    assert "memory.size" in said
    (command.directory / "map.txt").write_text("nonsense\n")
    assert "map.txt: line 1" in command.refused("run", "kh90", "t.din", "--v2p", "map.txt")


PROGRAM = "import mmap, sys; m = mmap.mmap(-1, 256 << 12); [m.__setitem__(i << 12, 1) for i in range(256)]; "
PROGRAM += "o = open(sys.argv[1], 'r+b'); f = mmap.mmap(o.fileno(), 4096); f[0] = 1; "
PROGRAM += "print(flush=True); sys.stdin.read()"
# The program maps a file of this name. A name is bytes: these are not UTF-8, and some may end a line.
NAME = b"\xff\xfe \r\x0b#"
FRAME, IN_MEMORY = (1 << 55) - 1, 1 << 63


def frames(pid: int, pages: range) -> dict[int, int]:
    """Returns the frames of the pages in memory, as the kernel reports them."""
    with Path(f"/proc/{pid}/pagemap").open("rb") as file:
        file.seek(pages.start * 8)
        entries = struct.unpack(f"<{len(pages)}Q", file.read(len(pages) * 8))
    return {page: entry & FRAME for page, entry in zip(pages, entries, strict=True) if entry & IN_MEMORY}


def save_pages(pid: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Runs the example that saves the pages of a program in `p` and `p.maps`."""
    return subprocess.run(
        [sys.executable, ROOT / "examples/placement/pagemap.py", pid, "p"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_pages_lie_where_those_of_a_living_program_do(command: Command) -> None:
    if not Path("/proc/self/pagemap").exists():
        pytest.skip("there is no /proc/PID/pagemap")
    mapped = os.path.join(os.fsencode(command.directory), NAME)  # noqa: PTH118 (a path of bytes)
    Path(os.fsdecode(mapped)).write_bytes(bytes(4096))
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, mapped], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        try:
            assert program.stdout is not None
            program.stdout.readline()
            maps = Path(f"/proc/{program.pid}/maps").read_bytes().rstrip(b"\n").split(b"\n")
            ranges = [[int(end, 16) >> 12 for end in line.split()[0].split(b"-")] for line in maps]
            writable = [range(*ends) for line, ends in zip(maps, ranges, strict=True) if b" rw-p " in line]
            before = {page: at for pages in writable for page, at in frames(program.pid, pages).items()}
            saved = save_pages(str(program.pid), command.directory)
            after = {page: at for pages in writable for page, at in frames(program.pid, pages).items()}
        finally:
            program.kill()
    assert saved.returncode == 0, saved.stderr
    assert any(line.endswith(NAME) for line in maps)
    assert {path.name for path in command.directory.glob("p*")} == {"p", "p.maps"}
    # The kernel may move a page at any time, and two pages may share a frame.
    held = list(before.values())
    stay = {page: at for page, at in before.items() if after.get(page) == at and held.count(at) == 1}
    lines = [f"2 {page << 12:x}\n" for page in stay or before]
    (command.directory / "t.din").write_text("".join(lines))
    # The map has all pages, and the machine's memory reaches beyond its last frame.
    entries = struct.iter_unpack("<Q", (command.directory / "p").read_bytes())
    last = max(entry & FRAME for (entry,) in entries if entry & IN_MEMORY)
    size = f"memory.size={(last >> 18) + 1}GiB"
    settings = ("--set", "memory.page=4KiB", "--set", size, "--v2p", "p")
    if not any(held):
        assert "CAP_SYS_ADMIN" in command.refused("run", "kh90", "t.din", *settings)
        pytest.skip("the kernel tells frames only to root")
    assert len(stay) > 256
    assert dumped(command, *settings) == stay


def test_pages_that_cannot_be_saved_leave_nothing(command: Command) -> None:
    if not Path("/proc/self/pagemap").exists():
        pytest.skip("there is no /proc/PID/pagemap")
    (command.directory / "p").write_text("of before")
    # The second file cannot be moved to its place.
    (command.directory / "p.maps.part").mkdir()
    for pid, says in [(str(os.getpid()), "p.maps.part"), ("none", "/proc/none/maps")]:
        saved = save_pages(pid, command.directory)
        assert saved.returncode == 1
        assert says in saved.stderr
        assert "Traceback" not in saved.stderr
        assert {path.name for path in command.directory.glob("p*")} == {"p", "p.maps.part"}
        assert (command.directory / "p").read_text() == "of before"


def test_physical_addresses_of_a_trace_become_a_placement(command: Command) -> None:
    records: Records = [(MARKER, TIMESTAMP, 1)]
    for page, frame in PAGES.items():
        records += [(MARKER, PHYSICAL, frame << 12), (MARKER, VIRTUAL, page << 12), (INSTR, 4, page << 12)]
    (command.directory / "t.trace").write_bytes(thread(7, 7, records))
    said, _ = imported(command, "t.trace", "--placement", "p.parquet")
    assert "physical addresses of 3 pages" in said
    rows = pl.read_parquet(command.directory / "p.parquet")
    assert dict(rows.select("page_no", "frame").iter_rows()) == PAGES
    command.ok("run", "kh90", "t.parquet", *SETTINGS, "--v2p", "p.parquet")
    touching(command)
    assert dumped(command, *SETTINGS, "--v2p", "p.parquet") == PAGES
    nothing = command("import", "t.din", "-o", "u.parquet", "--placement", "q.parquet")
    assert nothing.returncode == 2
    assert "no physical address" in nothing.stderr


def test_what_is_no_foreign_trace_is_said(command: Command) -> None:
    assert "nofile: cannot be opened (No such file" in command.refused("import", "nofile", "-o", "t.parquet")
    (command.directory / "what").write_text("2 1000\n")
    assert "its name does not tell the format" in command.refused("import", "what", "-o", "t.parquet")
    os.mkfifo(command.directory / "pipe")  # nobody writes, so opening it would wait for ever
    assert "its name does not tell the format" in command.refused("import", "pipe", "-o", "t.parquet")
    (command.directory / "v2p.textproto").write_text("address_mapping_group { page_size: 4096 }\n")
    (command.directory / "run.pagemap").write_bytes(bytes(8))
    (command.directory / "run.pagemap.maps").write_text("1000-2000\n")
    for name in ("v2p.textproto", "run.pagemap"):
        said = " ".join(command.refused("import", name, "-o", "t.parquet").split())
        assert "is a map of virtual to physical addresses, not a trace" in said
        assert "--v2p FILE" in said


def test_notes_say_how_much_they_count(command: Command) -> None:
    (command.directory / "t.din").write_text("0 1000\n" * 200_000)
    said = " ".join(command.ok("import", "t.din", "-o", "t.parquet", "--length", "100").stderr.split())
    assert "t.parquet: 100 references" in said
    # The reader has read one batch: two blocks of 256 KiB, which hold 64 Ki lines.
    assert (
        "count all that was read, in blocks: 74898 references, of which 100 were kept note: 74898 ref" in said
    )
    whole = command.ok("import", "t.din", "-o", "t.parquet", "--length", "200k").stderr
    assert "in blocks" not in whole


@pytest.mark.parametrize("name", ["import", "inspect", "lint"])
def test_no_reference_at_all_is_refused(command: Command, name: str) -> None:
    (command.directory / "t.din").write_text("0 1000\n")
    more = ["-o", "t.parquet"] if name == "import" else []
    assert "--length: 0: must be at least 1" in command.refused(name, "t.din", *more, "--length", "0")


def test_packings_are_listed_in_the_documentation() -> None:
    text = (ROOT / "docs" / "traces.md").read_text()
    for name, extension in binhop._binhop.packings():
        assert f"{name} (`.{extension}`)" in text
