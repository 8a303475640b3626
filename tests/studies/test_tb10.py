"""Tests the study of TB10: its plan, its workloads, the files of a run, and the page made anew."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

import binhop
from binhop.reproduce import tb10
from binhop.reproduce.tb10 import forms, page, paper, study
from binhop.reproduce.tb10.data import Tb10Data
from binhop.reproduce.tb10.forms import BASELINE, Form, ddc, every_form, pbdc, sensitive_forms
from tests.conftest import long

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module", params=[20_000, long(60_000)])
def scale(request: pytest.FixtureRequest) -> study.Tb10Scale:
    """Returns a scale of seconds."""
    return study.Tb10Scale(
        {"file-copy": request.param, "tpch": request.param, "specweb": 2 * request.param}, 2, 0.5
    )


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory, scale: study.Tb10Scale) -> Path:
    out = tmp_path_factory.mktemp("tb10") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(study.SCALES, "smoke", scale)
        assert tb10.run("smoke", out) == out
    return out


def test_the_forms_are_those_of_the_figures_and_tables() -> None:
    every = every_form()
    names = [form.name for form in every]
    assert len(names) == len(set(names))
    told = paper.expected().filter(quantity=paper.SPEED_UP)["row"].unique().to_list()
    assert set(told) <= set(names), "every form of which the document states a speed-up is run"
    assert {form.baseline for form in every} <= set(every)
    assert {form.baseline for form in sensitive_forms()} <= set(sensitive_forms())
    assert ddc(64).settings()[-3:] == ["io.dma-cache=64KiB", "io.dma-cache-ways=4", "io.prefetch=4"]
    assert pbdc(2).name == "pbdc 2M through 2-way P"


def test_paper_scale_has_the_documents_references() -> None:
    plan = study.jobs(study.SCALES["paper"])
    whole = {job.workload: job for job in plan if job.kind == "forms"}
    assert [*whole] == [*study.WORKLOADS]
    assert all(job.forms == tuple(every_form()) for job in whole.values())
    assert all(job.tap == study.MEMORY for job in whole.values())
    assert {job.tap for job in plan} == {study.MEMORY, study.LEVEL_2}
    assert 'size = "256KiB"' in study.machine(study.LEVEL_2).resolved()


def test_every_setting_of_the_sensitivity_table_changes_the_machine() -> None:
    own = study.machine(study.MEMORY)
    for setting in filter(None, forms.SENSITIVITY):
        assert own.with_settings(setting).resolved() != own.resolved(), setting


def test_everything_is_there(smoke: Path) -> None:
    stems = (
        "figure-3",
        "figures-4-5-6-15",
        "figures-13-16",
        "figures-14-17",
        "figures-18-19",
        "figures-20-21",
    )
    figures = {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")}
    tables = {f"{stem}.csv" for stem in ("tables-1-2", "tables-5-6", "sensitivity")}
    rest = {
        "report.md",
        "claims.json",
        "provenance.json",
        "run.json",
        *(f"{of}.parquet" for of in study.TABLES),
    }
    assert {path.name for path in smoke.iterdir()} == figures | tables | rest
    told = json.loads((smoke / "claims.json").read_text())
    assert [(claim["id"], claim["verdict"]) for claim in told] == [
        (f"T{number}", "undecided") for number in range(1, 12)
    ]


def test_forms_count_what_each_counts_in_a_run_of_its_own(smoke: Path, scale: study.Tb10Scale) -> None:
    data = Tb10Data.read(smoke)
    for form in (ddc(64, write="back"), replace(Form("shared-cache"), fixed=True)):
        own = binhop.device_data(
            study.machine(study.MEMORY).with_settings(*form.settings()),
            "file-copy",
            schemes=[form.scheme],
            seeds=2,
            length=scale.references["file-copy"],
        )
        rows = own.results.filter(scheme=form.scheme).select("seed", "metric", "value")
        for seed, counts in enumerate(data.runs("file-copy", form)):
            assert dict(rows.filter(seed=seed).select("metric", "value").iter_rows()) == counts


def test_shares_are_of_all_references(smoke: Path) -> None:
    data = Tb10Data.read(smoke)
    for workload in study.WORKLOADS:
        shares = [data.share(workload, row).mean for row in paper.rows_of("Table 1", workload)]
        assert sum(shares) == pytest.approx(100)
        assert (data.speed_ups(workload, BASELINE) == 0).all()
    assert data.cpu_lines_evicted("file-copy", pbdc(1)) == 0


def test_references_to_descriptors_are_references_of_their_device() -> None:
    counts = {
        "network.write": {"references": 3, "sequential": 2},
        "network-ring.write": {"references": 2, "sequential": 1},
        "network-ring.read": {"references": 50, "sequential": 50},
        "disk.write": {"references": 50, "sequential": 50},
        "front.dma-read": {"references": 50, "sequential": 0},
        "front.dma-write": {"references": 50, "sequential": 0},
    }
    rows = [(f"{name}.{what}", value) for name, of in counts.items() for what, value in of.items()]
    table = pl.DataFrame(rows, schema=["metric", "value"], orient="row").with_columns(
        pl.lit("specweb").alias("workload"),
        pl.lit("forms").alias("kind"),
        pl.lit(None, pl.String).alias("form"),
        pl.lit(0).alias("seed"),
    )
    data = Tb10Data(table, table, table, {"scale": "paper", "confidence": 0.95})
    assert data.sequential("specweb", "network write").mean == pytest.approx(60.0)
    assert data.request_share("specweb", "network write").mean == pytest.approx(5.0)


def test_the_page_is_redrawn_from_the_counts_alone(smoke: Path, tmp_path: Path) -> None:
    for name in (*(f"{of}.parquet" for of in study.TABLES), "provenance.json"):
        (tmp_path / name).write_bytes((smoke / name).read_bytes())
    for made in tb10.report(tmp_path):
        assert made.read_bytes() == (smoke / made.name).read_bytes(), made.name


@pytest.mark.parametrize(
    ("ours", "told", "is_share", "close"),
    [(11.0, 10.0, False, "yes"), (11.1, 10.0, False, "no"), (0.3, 0.2, True, "yes"), (0.5, 0.2, True, "no")],
)
def test_close_means_a_tenth_or_a_factor_of_two(ours: float, told: float, is_share: bool, close: str) -> None:
    assert page._close(ours, told, is_share=is_share) == close


@pytest.mark.long
@pytest.mark.parametrize(
    ("workload", "length"), [("file-copy", 60_000_000), ("tpch", 40_000_000), ("specweb", 480_000_000)]
)
def test_a_workload_has_the_documents_shares_and_sizes(workload: str, length: int) -> None:
    """The shares and sizes of Tables 1 and 2 come out of calls and caches, in the steady state."""
    found = binhop.device_data("tb10", workload, schemes=["off"], seeds=1, length=length)
    counts = found.results.with_columns(
        pl.lit(workload).alias("workload"), pl.lit("forms").alias("kind"), pl.col("scheme").alias("form")
    )
    data = Tb10Data(counts, found.sizes, found.distances, {"scale": "quick", "confidence": 0.95})
    far = []
    for table, quantity, ours, is_share in (
        ("Table 1", "percent-of-references", data.share, True),
        ("Table 2", "percent-of-device-references", data.request_share, True),
        ("Table 2", "kilobytes", data.request_size, False),
    ):
        for row in paper.rows_of(table, workload):
            told = paper.figure(table, workload, row, quantity)
            if told is not None:
                mean = ours(workload, row).mean
                if page._close(mean, told, is_share=is_share) == "no":
                    far.append((row, quantity, told, mean))
    assert not far
