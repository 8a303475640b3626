"""Tests that finished runs are kept whole or not at all, used only if unaltered, and removed only by name."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop import cli, kept_runs, study
from binhop.kept_runs import KeptRuns, keeping
from binhop.resumable import paged, simulated
from binhop.study import result
from tests.conftest import events

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = """
name = "two"
title = "Two workloads"
seeds = 2
length = "20k"
[[part]]
name = "one"
workloads = ["lin", "tree"]
machine = "kh90"
"""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the traces that were simulated, in order."""
    simulated: list[str] = []
    real = binhop.simulate_all

    def simulate_all(machines: object, trace: binhop.Trace, **options: object) -> object:
        simulated.append(trace.name)
        return real(machines, trace, **options)

    monkeypatch.setattr(binhop, "simulate_all", simulate_all)
    monkeypatch.setattr("binhop.resumable.simulate_all", simulate_all)
    return simulated


def forge(place: Path) -> None:
    """Sets every value of a table to 42."""
    path = place / "results.parquet"
    pl.read_parquet(path).with_columns(value=pl.lit(42.0)).write_parquet(path)


def forge_with_sum(place: Path) -> None:
    """Forges a table and its checksum, but not the checksum of the whole."""
    forge(place)
    manifest = json.loads((place / "kept.json").read_text())
    manifest["files"]["results.parquet"] = kept_runs._digest_of_file(place / "results.parquet")
    (place / "kept.json").write_text(json.dumps(manifest))


def seal(place: Path, manifest: object) -> None:
    """Writes a manifest with the checksum that it would have."""
    sealed = {**manifest, "checksum": kept_runs._checksum(manifest)}
    (place / "kept.json").write_text(json.dumps(sealed))


def foreign(place: Path) -> None:
    """Seals a manifest whose table lies outside its directory."""
    shutil.copy(place / "results.parquet", place.parent / "x.parquet")
    digest = kept_runs._digest_of_file(place / "results.parquet")
    manifest = json.loads((place / "kept.json").read_text())
    del manifest["checksum"]
    seal(place, {**manifest, "files": {**manifest["files"], "../x.parquet": digest}})


def cut(name: str) -> object:
    def damage(place: Path) -> None:
        os.truncate(place / name, (place / name).stat().st_size // 2)

    return damage


DAMAGES = {
    "values": forge,
    "values and sum": forge_with_sum,
    "cut table": cut("series.parquet"),
    "cut manifest": cut("kept.json"),
    "empty": lambda place: os.truncate(place / "results.parquet", 0),
    "gone": lambda place: (place / "processes.parquet").unlink(),
    "no manifest": lambda place: (place / "kept.json").unlink(),
    "nested": lambda place: (place / "kept.json").write_text("[" * 100_000),
    "other form": lambda place: seal(place, {"kept": kept_runs.FORM + 1, "files": {}, "rest": {}}),
    "no tables": lambda place: seal(place, {"kept": kept_runs.FORM, "rest": {}}),
    "no rest": lambda place: seal(place, {"kept": kept_runs.FORM, "files": {}}),
    "tables in a list": lambda place: seal(place, {"kept": kept_runs.FORM, "files": [], "rest": {}}),
    "a path": foreign,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_what_was_altered_or_cut_is_done_again(tmp_path: Path, runs: list[str], damage: object) -> None:
    plan = study.plan(study.parse(TEXT))
    whole = study.run(plan, kept=tmp_path)
    assert runs == ["lin", "tree"]
    (place,) = tmp_path.glob("lin-*")
    damage(place)
    again = study.run(plan, kept=tmp_path)
    assert runs == ["lin", "tree", "lin"]
    assert again.results.equals(whole.results)
    assert study.run(plan, kept=tmp_path).results.equals(whole.results)
    assert runs == ["lin", "tree", "lin"]


def test_it_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def synced(handle: int) -> None:
        name = Path(f"/proc/self/fd/{handle}").readlink().name.split(".")[0]
        steps.append(f"sync {name or 'partial'}")
        fsync(handle)

    def renamed(self: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    KeptRuns(tmp_path / "k").keep("run", {}, {"a": pl.DataFrame({"x": [1]})}, {})
    assert steps.count("rename") == 1
    before, after = steps[: steps.index("rename")], steps[steps.index("rename") + 1 :]
    assert {"sync a", "sync kept", "sync partial"} <= set(before)
    assert after == ["sync k"]


def test_a_run_is_kept_with_the_long_tables_that_parts_ask_for(tmp_path: Path, runs: list[str]) -> None:
    """A later study of the same cells that asks for other tables does not take the run."""
    text = TEXT.replace("[[part]]", "interval = 5000\n[[part]]")
    for number, keep in enumerate(([], ["processes"], ["series", "processes"])):
        before = set(tmp_path.glob("*"))
        plan = study.plan(study.parse(f"{text}keep = {json.dumps(keep)}\n"))
        first, second = (study.run(plan, kept=tmp_path) for _ in "ab")
        assert runs == ["lin", "tree"] * (number + 1)
        for place in set(tmp_path.glob("*")) - before:
            rows = {
                name: pl.read_parquet(place / f"{name}.parquet").height for name in ("series", "processes")
            }
            assert [name for name in rows if rows[name] > 0] == keep
        for one, other in ((first.series, second.series), (first.processes, second.processes)):
            assert one.equals(other)
        assert (first.series.height > 0, first.processes.height > 0) == (
            "series" in keep,
            "processes" in keep,
        )


def test_a_placement_file_is_part_of_what_a_run_depends_on(tmp_path: Path, runs: list[str]) -> None:
    machine = binhop.Machine.load("kh90")
    trace = binhop.Trace.workload("lin")
    for seed in (1, 2, 2):
        binhop.placements(machine, trace, seed, length=20_000).write_parquet(tmp_path / "p.parquet")
        file = json.dumps(str(tmp_path / "p.parquet"))
        recorded = machine.with_settings("placement.policy=recorded", f"placement.file={file}")
        simulated(KeptRuns(tmp_path / "k"), [recorded], trace, {"length": 20_000})
    assert runs == ["lin", "lin"]


def test_what_is_taken_is_what_was_simulated(tmp_path: Path, runs: list[str]) -> None:
    store, trace = KeptRuns(tmp_path), binhop.Trace.workload("lin")
    machines = [binhop.Machine.load(name) for name in ("kh90", "two-level")]
    for options in ({"seeds": 2, "interval": 5_000}, {"seeds": 2}, {"seeds": [3]}, {"warmup": 10}):
        first, second = (simulated(store, machines, trace, {"length": 20_000, **options}) for _ in "ab")
        for one, other in zip(first, second, strict=True):
            assert one.to_json() == other.to_json()
            assert one.series.equals(other.series)
            assert one.series.schema == other.series.schema
            assert one.processes.equals(other.processes)
    assert len(runs) == len(store) == 4
    once, again = (paged(store, trace, length=20_000, sizes=["1MiB"], colors=[1]) for _ in "ab")
    assert once.to_json() == again.to_json()
    assert once.first_touches.equals(again.first_touches)
    table = binhop.Trace.from_arrow(events([(0, 0x1000, 4, 1)]))
    simulated(store, machines, table, {})
    assert len(store) == 5, "nothing tells one table from another"


def test_only_what_is_binhop_s_is_removed(tmp_path: Path) -> None:
    place = tmp_path / ".out.finished"
    place.mkdir()
    named = place / "mine-0123456789abcdef01234567"
    for path in (place / "notes", named / "data", place / "results.parquet"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("years of work")
    with keeping(tmp_path / "out") as directory:
        assert directory == place
        KeptRuns(directory).keep("run", {}, {"a": pl.DataFrame({"x": [1]})}, {})
        assert len(KeptRuns(directory)) == 1
    assert {path.name for path in place.iterdir()} == {"notes", named.name, "results.parquet"}
    with keeping(tmp_path / "other") as directory:
        KeptRuns(directory).keep("run", {}, {"a": pl.DataFrame({"x": [1]})}, {})
    assert not directory.exists()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_user_s_file_of_that_name_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    (tmp_path / "s.toml").write_text(TEXT)
    finished = tmp_path / ".out.finished"
    (tmp_path / "elsewhere").mkdir()
    finished.write_text("mine") if kind == "file" else finished.symlink_to("elsewhere")
    assert cli.main(["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out"), "-q"]) == 2
    assert "something else has it" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"s.toml", ".out.finished", "elsewhere"}


def test_a_full_disk_ends_a_study_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], runs: list[str]
) -> None:
    """Each attempt finds room for more files and ends with a message; the next attempt continues."""
    (tmp_path / "s.toml").write_text(TEXT)
    sweep = ["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out"), "-q"]
    room = [0]

    def limited(real: Callable[..., None]) -> Callable[..., None]:
        def write(*given: object) -> None:
            room[0] -= 1
            if room[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(*given)

        return write

    monkeypatch.setattr(kept_runs, "store_table", limited(kept_runs.store_table))
    monkeypatch.setattr(result, "write_parquet", limited(result.write_parquet))
    monkeypatch.setattr(result, "store_table", limited(result.store_table))
    codes = []
    for files in (0, 1, 3, 4, 3):
        room[0] = files
        codes.append(cli.main(sweep))
        printed = capsys.readouterr().err
        if codes[-1]:
            assert "No space left on device" in printed
            assert "error of binhop" not in printed
    assert codes == [2, 2, 2, 2, 2]
    assert len(KeptRuns(tmp_path / ".out.finished")) == 2
    room[0] = 4
    assert cli.main(sweep) == 0
    assert runs == ["lin", "lin", "lin", "tree", "tree"]
    assert {path.name for path in tmp_path.iterdir()} == {"s.toml", "out"}
