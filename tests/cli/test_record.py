"""Tests `binhop record` on real programs that end well, badly, or not at all: the trace is valid.

The tests are skipped without Valgrind. The recorder is built once for all of them.
"""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

import binhop
from binhop import cli, recorder
from tests.conftest import COMMAND, Command, long

FETCH, SWITCH, SYSCALL, RANGE, FORK, EXEC, EXIT = 0, 4, 5, 6, 10, 11, 12
WRITE_CALL, READ_CALL, SENDMSG_CALL, SENDMMSG_CALL = 1, 0, 46, 307


def _why_not() -> str | None:
    installed = recorder.valgrind()
    return "valgrind is not installed" if installed is None else installed.missing()


pytestmark = pytest.mark.skipif(_why_not() is not None, reason=f"no recorder here: {_why_not()}")


def meta(path: Path) -> dict[str, object]:
    return json.loads(pq.read_metadata(path).metadata[b"binhop.meta"])


def totals(path: Path) -> dict[str, object]:
    return json.loads(pq.read_metadata(path).metadata[b"binhop.totals"])


def sound(command: Command, name: str = "t.parquet") -> pl.DataFrame:
    """Checks that `lint` finds nothing in a trace, and returns its rows."""
    done = command.ok("lint", name)
    assert "nothing to complain about" in done.stdout, done.stdout
    return pl.read_parquet(command.directory / name)


def record(command: Command, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return command("record", "-q", "-o", "t.parquet", *arguments, **options)


def compiled(command: Command, program: str, *options: str) -> None:
    """Compiles a program in C as `m` in the command's directory."""
    compiler = recorder.compiler()
    assert compiler is not None
    (command.directory / "m.c").write_text(program)
    build = [compiler, *options, "-o", "m", "m.c"]
    subprocess.run(build, cwd=command.directory, check=True, capture_output=True)


def nothing_is_left(directory: Path) -> bool:
    return not list(directory.glob("binhop-*")) and not list(directory.glob(".*.partial-*"))


@pytest.fixture
def own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sets an empty directory for the recording's pipes and returns its path."""
    place = tmp_path / "own-tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    return place


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("exit 7", 7),
        ("false", 1),
        ("kill -SEGV $$", 139),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
        ("kill -PIPE $$", 141),
    ],
)
def test_the_programs_end_is_its_own(command: Command, own_tmp: Path, line: str, code: int) -> None:
    done = record(command, "--", "sh", "-c", f"echo out; echo err >&2; {line}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "out\n", "err\n")
    rows = sound(command)
    assert rows.filter(pl.col("op") == FETCH).height > 10_000
    assert nothing_is_left(own_tmp)


def test_standard_input_is_the_programs(command: Command) -> None:
    done = record(command, "--", "cat", stdin="hi\nthere\n")
    assert (done.returncode, done.stdout) == (0, "hi\nthere\n")
    sound(command)


def test_two_programs_share_a_library_and_take_turns(command: Command) -> None:
    (command.directory / "f").write_text("\n".join(str(n * 7919 % 3001) for n in range(3000)))
    assert record(command, "--", "sh", "-c", "sort f | gzip > /dev/null").returncode == 0
    rows = sound(command)
    about = meta(command.directory / "t.parquet")
    assert [process["command"] for process in about["processes"].values()] == ["sh", "sort", "gzip"]
    switches = rows.filter(pl.col("op") == SWITCH)
    assert switches.height > 2
    assert set(switches["arg0"]) <= {0, 1, 2, 3}
    assert {0, 1, 2} <= set(switches["addr"])
    libc = [number for number, segment in about["segments"].items() if "libc" in (segment["file"] or "")]
    assert len(libc) == 1
    assert about["schedule"] == "built-in"


def test_exec_keeps_the_process(command: Command) -> None:
    assert record(command, "--", "sh", "-c", "exec true").returncode == 0
    rows = sound(command)
    assert rows.filter(pl.col("op") == EXEC)["addr"].to_list() == [0]
    assert rows.filter(pl.col("op") == FORK).is_empty()
    processes = meta(command.directory / "t.parquet")["processes"]
    assert [process["command"] for process in processes.values()] == ["true"]


# Both threads run at the same time: otherwise the second may get the number of the first.
THREADS = """
#include <pthread.h>
static pthread_barrier_t both;
static void *wait(void *none) { pthread_barrier_wait(&both); return none; }
int main(void) {
  pthread_t a, b;
  pthread_barrier_init(&both, 0, 2);
  pthread_create(&a, 0, wait, 0);
  pthread_create(&b, 0, wait, 0);
  pthread_join(a, 0);
  pthread_join(b, 0);
  return 0;
}
"""
PYTHONS_THREADS = """
import threading as t; c = t.Barrier(2); a = [t.Thread(target=c.wait) for _ in '12']
for b in a: b.start()
for b in a: b.join()
"""


@pytest.mark.parametrize("language", ["C", long("Python")])
def test_threads_are_told_apart(command: Command, language: str) -> None:
    if language == "C":
        compiled(command, THREADS, "-pthread")
        program = ["./m"]
    else:
        program = [str(Path(sys.executable).resolve()), "-S", "-I", "-c", PYTHONS_THREADS]
    assert record(command, "--", *program).returncode == 0
    rows = sound(command)
    assert len(set(rows.filter(pl.col("op") == SWITCH)["size"])) >= 3


def test_a_part_by_references(command: Command) -> None:
    assert record(command, "--", "true").returncode == 0
    whole = totals(command.directory / "t.parquet")["references"]
    done = record(command, "--limit", "5k", "--", "sh", "-c", "true; echo finished")
    assert (done.returncode, done.stdout) == (0, "finished\n")
    sound(command)
    assert 4000 < totals(command.directory / "t.parquet")["references"] <= 5000
    assert record(command, "--skip", "100k", "--", "true").returncode == 0
    sound(command)
    assert abs(totals(command.directory / "t.parquet")["references"] - (whole - 100_000)) < 100


def test_only_programs_of_a_name(command: Command) -> None:
    assert record(command, "--only", "true", "--", "sh", "-c", "/bin/true; :").returncode == 0
    rows = pl.read_parquet(command.directory / "t.parquet")
    asid = rows.select(
        pl.when(pl.col("op") == SWITCH).then(pl.col("addr")).forward_fill().fill_null(0).alias("asid"),
        pl.col("op"),
    )
    assert set(asid.filter(pl.col("op") == FETCH)["asid"]) == {1}


def test_one_row_for_each_instruction(command: Command) -> None:
    assert record(command, "--", "true").returncode == 0
    runs = totals(command.directory / "t.parquet")["instructions"]
    assert record(command, "--fetch", "instruction", "--", "true").returncode == 0
    rows = sound(command)
    assert set(rows.filter(pl.col("op") == FETCH)["count"]) == {1}
    assert rows.filter(pl.col("op") == FETCH).height == runs


def test_twice_the_same(command: Command) -> None:
    """The kernel's 16 random bytes, of which libc makes addresses, are constant here."""
    seen = []
    for _ in range(2):
        assert record(command, "--", "/bin/true").returncode == 0
        seen.append(pl.read_parquet(command.directory / "t.parquet"))
    assert seen[0].equals(seen[1])


MEMORY = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
  char *a = mmap(0, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(a, 1, 1 << 20);
  a = mremap(a, 1 << 20, 4 << 20, MREMAP_MAYMOVE);
  memset(a, 2, 4 << 20);
  munmap(a + (1 << 20), 1 << 20);
  a[0] = a[3 << 20];
  mprotect(a, 4096, PROT_READ);
  char *b = sbrk(300000);
  memset(b, 3, 300000);
  sbrk(-200000);
  b[50000] = 1;
  void *c[100]; /* the 28th is the first beyond the heap */
  for (int i = 0; i < BLOCKS; i++) c[i] = memset(malloc(i * 5000 + 1), i, i * 5000 + 1);
  for (int i = 0; i < BLOCKS; i++) free(c[i]);
  return 0;
}
"""


@pytest.mark.parametrize("blocks", [35, long(100)])
def test_memory_that_comes_and_goes_is_where_references_are(command: Command, blocks: int) -> None:
    compiled(command, MEMORY, "-O1", f"-DBLOCKS={blocks}")
    assert record(command, "--", "./m").returncode == 0
    sound(command)


MESSAGES = """
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
static char small[1000], large[1 << 22];
int main(void) {
  int pair[2];
  struct iovec parts[3] = {{small, 1000}, {large, sizeof large}, {small, 999}};
  struct mmsghdr many[3];
  struct msghdr one = {.msg_iov = parts, .msg_iovlen = 3};
  socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair);
  printf("%zd ", sendmsg(pair[0], &one, 0));
  printf("%zd ", sendmsg(pair[0], &one, 0));
  socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair);
  memset(many, 0, sizeof many);
  for (int i = 0; i < 3; i++) many[i].msg_hdr = (struct msghdr){.msg_iov = parts + i, .msg_iovlen = 1};
  printf("%d ", sendmmsg(pair[0], many, 3, 0));
  printf("%u %u", many[0].msg_len, many[1].msg_len);
  return 0;
}
"""


def test_of_a_message_counts_what_was_taken(command: Command) -> None:
    compiled(command, MESSAGES)
    done = record(command, "--", "./m")
    sent, failed, messages, *lengths = map(int, done.stdout.split())
    assert 1000 < sent < 1 << 22
    assert (failed, messages, lengths[0]) == (-1, 2, 1000)
    assert 0 < lengths[1] < 1 << 22
    rows = sound(command).filter(pl.col("op").is_in([SYSCALL, RANGE]))
    calls = rows.with_columns((pl.col("op") == SYSCALL).cum_sum().alias("call"))
    starts = calls.filter(pl.col("op") == SYSCALL)

    def buffers(number: int) -> list[list[int]]:
        """Returns each such call's ranges of 200 bytes or more. Headers are smaller."""
        which = starts.filter(pl.col("count") == number)["call"]
        each = [calls.filter((pl.col("call") == call) & (pl.col("size") >= 200)) for call in which]
        return [sorted(one["size"].to_list()) for one in each]

    assert buffers(SENDMSG_CALL) == [[1000, sent - 1000], []]
    assert buffers(SENDMMSG_CALL) == [[1000, lengths[1]]]


def test_a_read_names_its_file_its_place_and_what_it_got(command: Command) -> None:
    (command.directory / "small").write_bytes(b"x" * 1234)
    assert record(command, "--", "cat", "small").returncode == 0
    rows = sound(command)
    files = meta(command.directory / "t.parquet")["files"]
    (number,) = [int(number) for number, path in files.items() if path.endswith("/small")]
    calls = rows.filter((pl.col("op") == SYSCALL) & (pl.col("arg0") == number))
    assert calls.select("size", "count", "arg1").rows()[0] == (1234, READ_CALL, 0)
    # At the file's end nothing moves.
    assert calls.filter(pl.col("count") == READ_CALL)["size"].to_list()[1:] == [0]


def test_ctrl_c_ends_the_program_and_leaves_a_trace(command: Command, own_tmp: Path) -> None:
    line = "echo up > up; while :; do :; done"
    process = subprocess.Popen(
        [COMMAND, "record", "-q", "-o", "t.parquet", "--", "sh", "-c", line],
        cwd=command.directory,
        process_group=0,
    )
    _until((command.directory / "up").exists)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) == 130
    sound(command)
    assert nothing_is_left(own_tmp)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_before_the_first_instruction_is_what_was_asked_for(
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The moment is too short to be met, so what the recorder says of it is made up."""

    def ended(*_: object, **__: object) -> None:
        os.kill(os.getpid(), number)
        rule = "the program ended before anything of it was recorded, so there is no trace"
        raise binhop.RequestError(f"signal: {number.value} ({number.name})", "true", rule, "look above")

    monkeypatch.setattr(binhop, "record", ended)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["record", "-o", "t.parquet", "--", "true"]) == 128 + number
    assert capsys.readouterr().err == "binhop: interrupted; nothing was recorded\n"


@pytest.mark.parametrize("answer", ["kill -INT $$", "echo valgrind-3.19.0"], ids=["killed", "answers"])
@pytest.mark.parametrize("how", [[], ["--lackey"]], ids=["recorder", "lackey"])
def test_an_end_while_valgrind_is_asked_runs_no_program(
    how: list[str],
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A terminal sends Ctrl-C to the command and to the valgrind that the command asks for its version."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "valgrind").write_text(f"#!/bin/sh\nkill -INT $PPID\n{answer}\n")
    (tmp_path / "bin" / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["record", *how, "-o", "t.parquet", "--", "touch", "ran"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err == "binhop: interrupted; nothing was recorded\n"
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_a_program_whose_recorder_is_killed_runs_on(command: Command) -> None:
    line = "echo up > up; while [ ! -e go ]; do :; done; /bin/echo a | cat > out; echo $? > done"
    process = subprocess.Popen(
        [COMMAND, "record", "-q", "-o", "t.parquet", "--", "sh", "-c", line], cwd=command.directory
    )
    _until((command.directory / "up").exists)
    process.kill()
    process.wait()
    (command.directory / "go").touch()
    _until(lambda: (command.directory / "done").exists() and (command.directory / "done").read_text() != "")
    assert (command.directory / "done").read_text() == "0\n"
    assert (command.directory / "out").read_text() == "a\n"
    assert not (command.directory / "t.parquet").exists()


def test_a_full_disk_keeps_what_fits(command: Command) -> None:
    disk = command.directory / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here: it takes root")
    try:
        line = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); done; seq 3000 | sort -R | sort -n | tail -n1"
        done = command("record", "-q", "-o", "disk/t.parquet", "--", "sh", "-c", line)
        assert (done.returncode, done.stdout) == (2, "3000\n")
        (printed,) = done.stderr.splitlines()
        assert "No space left on device" in printed
        held = totals(disk / "t.parquet")["references"]
        assert f"disk/t.parquet holds the first {held} references" in printed
        assert held > 1_000_000
        assert [path.name for path in disk.iterdir()] == ["t.parquet"]
        sound(command, "disk/t.parquet")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "t.parquet", "--", "no-such-program"], "there is no such program"),
        (["-o", "t.parquet", "--", "cd", "/"], "say sh -c 'cd"),
        (["-o", "no/t.parquet", "--", "true"], "No such file or directory"),
        (["-o", ".", "--", "true"], "is a directory"),
        (["-o", "t.parquet", "--fetch", "word", "--", "true"], "fetch"),
        (["-o", "t.parquet", "--schedule", "none", "--", "true"], "built-in, native, or a file"),
    ],
)
def test_what_cannot_be_recorded_is_refused(command: Command, words: list[str], said: str) -> None:
    assert said in command.refused("record", *words)


def test_without_valgrind_it_is_said_how_to_get_it(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    true = shutil.which("true")
    assert true is not None
    (tmp_path / "bin" / "true").symlink_to(true)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert recorder.GET_VALGRIND in command.refused("record", "-o", "t.parquet", "--", "true")


def test_without_a_compiler_lackey_records(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nonexistent")
    done = record(command, "--", "sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert "there is no C compiler (cc)), so lackey records; lost: " in done.stderr
    assert totals(command.directory / "t.parquet")["references"] > 100_000


def test_progress_fits_a_terminal(command: Command) -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "record", "-o", "t.parquet", "--", "sh", "-c", "sleep 1"],
        cwd=command.directory,
        stderr=follower,
        env={**os.environ, "COLUMNS": "80", "TERM": "xterm"},
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            some = os.read(leader, 1 << 16)
        except OSError:
            break
        if not some:
            break
        shown += some
    assert process.wait(30) == 0
    os.close(leader)
    assert b"recording: " in shown
    assert b"references" in shown


def test_doctor_tells_what_works(command: Command) -> None:
    findings = json.loads(command.ok("doctor", "--json", "-").stdout)
    works = {finding["what"]: finding["works"] for finding in findings}
    assert works["the recorder"] is True
    assert works["C compiler"] is True
    assert "the recorder" in command.ok("doctor").stdout


def _until(happens: object) -> None:
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)
