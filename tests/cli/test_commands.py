"""Tests `import`, `inspect`, `lint`, and the commands that print lists."""

from __future__ import annotations

import errno
import gzip
import json
import lzma
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop import cli
from binhop.report.style import save

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

DIN = "2 1000\n0 2000\n1 3000\n2 1004\n2 1008\n"


def references(command: Command, name: str) -> int:
    return json.loads(command.ok("inspect", name, "--json", "-").stdout)["totals"]["references"]


def test_import_says_what_it_did_on_stderr(command: Command) -> None:
    (command.directory / "a.din").write_text(DIN)
    done = command.ok("import", "a.din", "-o", "a.parquet")
    assert done.stdout == ""
    assert "a.parquet: 5 references, 3 instructions" in done.stderr
    assert "note:" in done.stderr
    assert references(command, "a.parquet") == 5
    assert command.ok("import", "a.din", "-o", "b.parquet", "--quiet").stderr == ""


@pytest.mark.parametrize("packed", ["gz", "xz", "zst"])
def test_import_reads_compressed_files(command: Command, packed: str) -> None:
    plain = command.directory / "a.din"
    plain.write_text(DIN)
    target = command.directory / f"a.din.{packed}"
    if packed == "gz":
        target.write_bytes(gzip.compress(DIN.encode()))
    elif packed == "xz":
        target.write_bytes(lzma.compress(DIN.encode()))
    elif shutil.which("zstd"):
        subprocess.run(["zstd", "-q", plain, "-o", target], check=True)
    else:
        pytest.skip("the program zstd is not installed")
    command.ok("import", target.name, "-o", "a.parquet")
    assert references(command, "a.parquet") == 5


def test_import_reads_a_pipe(command: Command) -> None:
    command.ok("import", "--format", "din", "-", "-o", "a.parquet", stdin=DIN)
    assert references(command, "a.parquet") == 5


LACKEY = "I  04001000,3\n L 1ffeffe7e0,8\nI  04001003,5\n S 1ffeffe7d8,8\n M 1ffeffe7d8,4\n"


def test_import_reads_lackey(command: Command) -> None:
    done = command.ok("import", "--format", "lackey", "-", "-o", "a.parquet", stdin=LACKEY)
    assert "5 references, 2 instructions" in done.stderr


def test_an_imported_compiler_gives_the_same_as_the_text(command: Command, cc1: Path) -> None:
    command.ok("import", str(cc1), "-o", "cc1.parquet")
    imported, direct = (
        json.loads(command.ok("run", "two-level", name, "--json", "-").stdout)["rows"]
        for name in ("cc1.parquet", str(cc1))
    )
    assert imported == direct
    values = {row["metric"]: row["value"] for row in imported}
    assert values["references"] == len(cc1.read_text().splitlines())


def test_a_workload_can_be_kept_as_a_file_through_the_api(command: Command, lin: Path) -> None:
    report = json.loads(command.ok("inspect", str(lin), "--json", "-").stdout)
    assert report["name"]
    assert report["content"] == "verified"
    text = command.ok("inspect", str(lin)).stdout
    assert "references" in text
    assert report["content_hash"] in text
    assert max(map(len, text.splitlines())) <= 80


def test_inspect_looks_at_a_workload_as_far_as_told(command: Command) -> None:
    report = json.loads(command.ok("inspect", "mult2.2", "--length", "300k", "--json", "-").stdout)
    assert 299_000 < report["totals"]["references"] <= 300_000
    assert "never ends" in command.refused("inspect", "mult2.2")


def test_lint_finds_nothing_in_what_we_write_and_much_in_nonsense(command: Command, lin: Path) -> None:
    assert "nothing to complain about" in command.ok("lint", str(lin)).stdout
    from tests.conftest import FETCH, LOAD, events

    events([(FETCH, 0x1000, 0, 0), (LOAD, 0x2000, 4, 7)]).write_parquet(command.directory / "odd.parquet")
    done = command("lint", "odd.parquet")
    assert done.returncode == 2
    assert "error: " in done.stdout
    findings = json.loads(command("lint", "odd.parquet", "--json", "-").stdout)
    assert {finding["name"] for finding in findings} <= set(binhop.lint_rules()["rule"])


@pytest.mark.parametrize("name", ["machines", "workloads", "policies", "counters"])
def test_a_list_names_everything_there_is(command: Command, name: str) -> None:
    out = command.ok(name).stdout
    assert max(map(len, out.splitlines())) <= 80
    listed = getattr(binhop, name)()
    assert listed.height > 0
    for entry in listed["name"]:
        assert re.search(rf"^{re.escape(entry)}\b", out, re.MULTILINE), entry


@pytest.mark.parametrize(
    "frame", ["machines", "machine_keys", "workloads", "policies", "counters", "formats", "events"]
)
def test_every_entry_of_every_list_says_what_it_is(frame: str) -> None:
    listed = getattr(binhop, frame)()
    for row in listed.iter_rows(named=True):
        for column in ("about", "meaning", "rule", "unit", "lost", "source"):
            if column in row:
                assert row[column], row


def test_a_machine_is_printed_complete(command: Command) -> None:
    out = command.ok("machines", "kh90").stdout
    assert binhop.Machine.parse(out) == binhop.Machine.load("kh90")


def test_the_version_is_the_crates(command: Command) -> None:
    assert command.ok("--version").stdout == f"binhop {binhop.__version__}\n"


def test_no_command_is_answered_with_the_help(command: Command) -> None:
    done = command()
    assert done.returncode == 2
    assert done.stdout.count("Usage:") == 1


def test_calibration_shows_target_beside_measured(command: Command) -> None:
    out = command.ok("workloads", "--calibrate", "--length", "50k").stdout
    assert max(map(len, out.splitlines())) <= 80
    # `binhop reproduce tb10` measures the applications of TB10.
    measured = binhop.workloads().filter(~pl.col("stands_for").str.contains("TB10"))["name"]
    for workload in measured:
        assert re.search(rf"^{re.escape(workload)} +target", out, re.MULTILINE), workload
    assert out.count("measured") >= len(measured)


def test_help_names_every_command(command: Command) -> None:
    out = command.ok("--help").stdout
    for name in (
        "run",
        "compare",
        "import",
        "inspect",
        "lint",
        "machines",
        "workloads",
        "policies",
        "counters",
    ):
        assert re.search(rf"\b{name}\b", out)
        assert command.ok(name, "--help").stdout


def test_an_error_of_our_own_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from binhop import cli

    def broken(name: str) -> None:
        raise ZeroDivisionError(f"oops, no {name}")

    monkeypatch.setattr("binhop.cli.lists.records", broken)
    assert cli.main(["policies"]) == 1
    printed = capsys.readouterr().err
    assert "ZeroDivisionError: oops, no policies" in printed
    assert "please report it" in printed
    assert "Traceback" not in printed


# ---- report


def test_report_makes_all_or_nothing(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command.ok("run", "kh90", "lin", "tree", "--length", "200k", "--seeds", "3", "--out", "out")
    figures = sorted(
        path for path in (command.directory / "out").iterdir() if path.suffix in (".png", ".svg")
    )
    assert len(figures) == 4
    for figure in figures:
        figure.write_text("an earlier figure")
    before = {path.name for path in (command.directory / "out").iterdir()}
    calls: list[str] = []

    def full(chart: object, directory: Path, stem: str) -> list[Path]:
        calls.append(stem)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return save(chart, directory, stem)

    monkeypatch.setattr("binhop.report.figures.save", full)
    assert cli.main(["report", str(command.directory / "out")]) == 2
    assert "cannot be made anew: No space left on device" in capsys.readouterr().err
    assert calls == ["lin-l2", "tree-l2"]
    assert {figure.read_text() for figure in figures} == {"an earlier figure"}
    assert {path.name for path in (command.directory / "out").iterdir()} == before
    command.ok("report", "out")
    assert all(figure.read_bytes() != b"an earlier figure" for figure in figures)
    assert {path.name for path in (command.directory / "out").iterdir()} == before


def test_report_of_a_damaged_result_changes_nothing(command: Command) -> None:
    command.ok("run", "kh90", "lin", "--length", "200k", "--seeds", "3", "--out", "out")
    table = command.directory / "out" / "results.parquet"
    whole = table.read_bytes()
    table.write_bytes(whole[: len(whole) // 2])
    assert "cannot be made anew" in command.refused("report", "out")
    table.unlink()
    assert "No such file" in command.refused("report", "out")


def test_report_says_when_there_is_nothing_to_draw(command: Command) -> None:
    command.ok("run", "two-level", "lin", "--length", "20k", "--out", "out")
    assert command.ok("report", "out").stdout.startswith("nothing to draw")
