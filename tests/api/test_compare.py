"""Tests comparisons: the arithmetic on small tables, and the alternatives that are compared."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import polars as pl
import pytest
from scipy import stats

import binhop
from binhop.comparison.alternatives import alternatives
from binhop.comparison.pairs import pair, summarise_pairs

if TYPE_CHECKING:
    from pathlib import Path

SMALL = "cache.l2.size=64KiB"


def table(**values: list[float | None]) -> pl.DataFrame:
    """Returns a table of one metric from each alternative's name and its values under seed 0, 1, …"""
    rows = [
        ("w", name, seed, "l2.mpi", "misses/instruction", value)
        for name, of in values.items()
        for seed, value in enumerate(of)
    ]
    schema = {
        "workload": pl.String,
        "alternative": pl.String,
        "seed": pl.UInt64,
        "metric": pl.String,
        "unit": pl.String,
        "value": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def summary(values: pl.DataFrame, confidence: float = 0.95, constant: tuple[str, ...] = ()) -> dict:
    differences = pair(values, ["l2.mpi"], "a", constant)
    return summarise_pairs(differences, confidence, constant).row(0, named=True)


def test_by_hand() -> None:
    # differences -2, 0, -4, +2: mean -1, variance (1 + 1 + 9 + 9) / 3 = 20/3, t(0.975, 3) = 3.1824463
    row = summary(table(a=[10, 12, 14, 4], b=[8, 12, 10, 6]))
    assert (row["n"], row["mean"], row["baseline_mean"], row["difference"]) == (4, 9, 10, -1)
    half = 3.182446305284263 * math.sqrt(20 / 3 / 4)
    assert row["low"] == pytest.approx(-1 - half, rel=1e-12)
    assert row["high"] == pytest.approx(-1 + half, rel=1e-12)
    assert row["median"] == -1
    assert (row["relative"], row["reduction"]) == (pytest.approx(-0.1), pytest.approx(0.1))
    assert (row["wins"], row["ties"], row["losses"]) == (2, 1, 1)
    assert row["chance"] == 0.625
    assert (row["alternative"], row["baseline"], row["confidence"]) == ("b", "a", 0.95)


A = [3.1, 2.7, 5.9, 4.4, 3.8, 9.1, 2.2, 3.3]
B = [2.9, 2.8, 4.1, 4.4, 3.0, 5.2, 2.1, 3.6]


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
def test_the_interval_is_that_of_the_paired_t_test(confidence: float) -> None:
    row = summary(table(a=A, b=B), confidence)
    interval = stats.ttest_rel(B, A).confidence_interval(confidence)
    assert row["low"] == pytest.approx(interval.low, rel=1e-12)
    assert row["high"] == pytest.approx(interval.high, rel=1e-12)


@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize(("wins", "n"), [(0, 5), (5, 5), (3, 8), (63, 64)])
def test_the_interval_of_the_chance_is_wilsons(wins: int, n: int, confidence: float) -> None:
    row = summary(table(a=[1.0] * n, b=[0.5] * wins + [2.0] * (n - wins)), confidence)
    interval = stats.binomtest(wins, n).proportion_ci(confidence, method="wilson")
    assert row["chance"] == wins / n
    assert row["chance_low"] == pytest.approx(interval.low, abs=1e-12)
    assert row["chance_high"] == pytest.approx(interval.high, abs=1e-12)


def test_the_reduction_knows_that_the_baseline_is_uncertain_too() -> None:
    # Every value of b is 0.8 of a's: the reduction is 20% without any doubt, though the difference varies.
    row = summary(table(a=A, b=[0.8 * value for value in A]))
    assert row["low"] < row["difference"] < row["high"]
    assert row["reduction"] == pytest.approx(0.2)
    assert row["reduction_low"] == pytest.approx(0.2)
    assert row["reduction_high"] == pytest.approx(0.2)


def test_one_value_stands_beside_every_seed_of_the_others() -> None:
    values = table(a=A, b=[4.0])
    differences = pair(values, ["l2.mpi"], "a", ("b",))
    assert differences["seed"].to_list() == list(range(8))
    assert differences["difference"].to_list() == [4.0 - value for value in A]
    row = summary(values, constant=("b",))
    assert (row["n"], row["mean"], row["wins"]) == (8, 4.0, sum(value > 4.0 for value in A))
    turned = pair(table(a=[4.0], b=A), ["l2.mpi"], "a", ("a",))
    assert turned["difference"].to_list() == [value - 4.0 for value in A]


def test_two_constants_have_a_difference_and_nothing_else() -> None:
    row = summary(table(a=[4.0], b=[3.0]), constant=("a", "b"))
    assert (row["n"], row["difference"], row["reduction"]) == (1, -1.0, 0.25)
    assert [row[name] for name in ("low", "high", "chance_low", "chance_high", "reduction_low")] == [None] * 5


def test_one_seed_has_a_difference_and_no_interval() -> None:
    row = summary(table(a=[4.0], b=[3.0]))
    assert (row["n"], row["difference"], row["chance"]) == (1, -1.0, 1.0)
    names = ("low", "high", "chance_low", "chance_high", "reduction_low", "reduction_high")
    assert [row[name] for name in names] == [None] * 6


def test_what_is_undefined_is_left_out_and_nought_has_no_share() -> None:
    row = summary(table(a=[0.0, None, 0.0], b=[0.0, 1.0, 2.0]))
    assert (row["n"], row["difference"], row["relative"], row["reduction"]) == (2, 1.0, None, None)


def test_seeds_are_paired_by_their_number_not_by_their_place() -> None:
    values = table(a=[1, 2, 3], b=[1, 2, 3])
    turned = pl.concat([values.filter(alternative="a"), values.filter(alternative="b").reverse()])
    assert pair(turned, ["l2.mpi"], "a")["difference"].to_list() == [0, 0, 0]


# ---- what is compared


def test_names_say_what_differs() -> None:
    kh90 = binhop.Machine.load("kh90")
    small = kh90.with_settings(SMALL)

    def mine(request: binhop.Request, pool: binhop.Pool) -> int:
        return pool[0]

    def names(*machines: object) -> list[str]:
        return [each.name for each in alternatives([*machines])]

    assert names("kh90", "zen-4k") == ["kh90", "zen-4k"]
    assert names(kh90, small) == ["l2 4MiB", "l2 64KiB"]
    assert names(kh90, small, "two-level") == ["kh90 l2 4MiB", "kh90 l2 64KiB", "two-level"]
    assert names(kh90, (kh90, mine)) == ["kh90", "mine"]
    assert [each.name for each in alternatives({"old": kh90, "new": (kh90, mine)})] == ["old", "new"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"machines": ["kh90"]}, "needs two alternatives or more"),
        ({"machines": []}, "needs two alternatives or more"),
        ({"machines": "kh90"}, "several machines"),
        ({"machines": ["kh90", "kh90"]}, "the same machine"),
        ({"machines": ["kh90", "kh90", "zen-4k"]}, "have this name"),
        ({"machines": ["kh90", 7]}, "a machine is"),
        ({"machines": ["kh90", ("kh90",)]}, "a pair"),
        ({"machines": ["kh90", "zen-5k"]}, "zen-4k"),
        ({"machines": [f"m{n}.toml" for n in range(65)]}, "cannot be read"),
        ({"baseline": "kh09"}, "kh90"),
        ({"baseline": 2}, "numbered from 0"),
        ({"baseline": -1}, "numbered from 0"),
        ({"metric": "l9.mpi"}, "l2.mpi"),
        ({"machines": ["kh90", "zen-4k"], "metric": "l3.mpi"}, "only zen-4k has this metric"),
        (
            {"machines": ["kh90", "zen-4k", "skylake"], "metric": "l3.mpi"},
            "the baseline, kh90, does not have this metric; .* --baseline zen-4k",
        ),
        ({"confidence": 1.0}, "between 0 and 1"),
        ({"until": 0}, "share of the mean"),
        ({"until": "2"}, "share of the mean"),
        ({"until": math.nan}, "share of the mean"),
        ({"until": 0.02, "seeds": [1, 2]}, "greatest number of placements"),
        ({"until": 0.02, "seeds": 1}, "two placements"),
        ({"until": 0.02, "seeds": 5000}, "at most 4096"),
        ({"seeds": 0}, "at least one"),
        ({"trace": []}, "a trace must be given"),
        ({"trace": ["lin", "lin"]}, "have this name"),
    ],
    ids=str,
)
def test_a_wrong_comparison_is_refused(arguments: dict[str, object], says: str) -> None:
    whole = {"machines": ["kh90", "two-level"], "trace": "lin", "length": 10_000, **arguments}
    with pytest.raises(binhop.RequestError, match=says):
        binhop.compare(whole.pop("machines"), whole.pop("trace"), **whole)  # type: ignore[arg-type]


# ---- comparisons


@pytest.fixture(scope="module")
def comparison(lin: Path) -> binhop.Comparison:
    machine = binhop.Machine.load("kh90")
    return binhop.compare([machine, machine.with_settings(SMALL)], lin, seeds=6, warmup=10_000)


def test_every_value_is_that_of_a_run_of_its_own(comparison: binhop.Comparison, lin: Path) -> None:
    for name, setting in [("l2 4MiB", []), ("l2 64KiB", [SMALL])]:
        alone = binhop.simulate(binhop.Machine.load("kh90", setting), lin, seeds=6, warmup=10_000)
        assert comparison.values.filter(alternative=name).drop("alternative").equals(alone.results)
    own = comparison.each(0.9).filter(alternative="l2 64KiB", metric="l2.mpi").row(0, named=True)
    expected = alone.summary(0.9).filter(metric="l2.mpi").row(0, named=True)
    assert {name: own[name] for name in ("mean", "low", "high", "best_seed")} == {
        name: expected[name] for name in ("mean", "low", "high", "best_seed")
    }


def test_the_summary_is_of_the_values(comparison: binhop.Comparison) -> None:
    assert comparison.metrics == ["l2.mpi", "l1d.mpi", "l1i.mpi"]
    assert comparison.baseline == "l2 4MiB"
    of = comparison.values.filter(metric="l2.mpi", phase="measured")
    a, b = (of.filter(alternative=name)["value"].to_list() for name in comparison.alternatives)
    row = comparison.summary.filter(metric="l2.mpi").row(0, named=True)
    interval = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert row["low"] == pytest.approx(interval.low, rel=1e-9)
    assert row["losses"] == sum(y > x for x, y in zip(a, b, strict=True)) > 0
    level1 = comparison.summary.filter(metric="l1d.mpi").row(0, named=True)
    assert (level1["difference"], level1["ties"], level1["chance"]) == (0, 6, 0.5)


def test_another_baseline_turns_the_sign(comparison: binhop.Comparison, lin: Path) -> None:
    machines = {"old": "kh90", "new": binhop.Machine.load("kh90", [SMALL])}
    turned = binhop.compare(machines, lin, seeds=6, warmup=10_000, baseline="new", metric="l2.mpi")
    ours = comparison.differences.filter(metric="l2.mpi")["difference"]
    assert turned.differences["difference"].to_list() == [-value for value in ours]
    assert turned.summary["alternative"].to_list() == ["old"]


def test_cpi_is_compared_where_there_are_costs(lin: Path) -> None:
    machine = binhop.Machine.load("kh90", ["cost.l2=10", "cost.memory=100"])
    comparison = binhop.compare([machine, machine.with_settings(SMALL)], lin, seeds=3)
    assert comparison.metrics == ["l2.mpi", "l1d.mpi", "l1i.mpi", "cpi"]
    assert comparison.summary.filter(metric="cpi")["difference"][0] > 0


def test_a_policy_in_python_is_an_alternative(lin: Path) -> None:
    def uniform(request: binhop.Request, pool: binhop.Pool) -> int:
        return pool[request.draw(len(pool))]

    comparison = binhop.compare(["kh90", ("kh90", uniform)], lin, seeds=4)
    assert comparison.alternatives == ["kh90", "uniform"]
    assert comparison.summary["ties"].to_list() == [4, 4, 4]  # it is the built-in `random`
    assert comparison.provenance["alternatives"][1]["policy"] == "uniform"


def test_a_machine_without_chance_is_a_constant_and_is_said_to_be(lin: Path) -> None:
    comparison = binhop.compare(["kh90", "two-level"], lin, seeds=5)
    assert comparison.constants == ["two-level"]
    assert comparison.values.filter(alternative="two-level")["seed"].unique().to_list() == [0]
    value = binhop.simulate("two-level", lin).value("l2.mpi")
    of = comparison.differences.filter(metric="l2.mpi")
    assert of["value"].to_list() == [value] * 5
    assert of["seed"].to_list() == list(range(5))
    assert any("two-level: nothing is random there" in note for note in comparison.notes)

    both = binhop.compare(["two-level", binhop.Machine.load("two-level", [SMALL])], lin, seeds=5)
    assert both.seeds == [0]
    assert both.summary["low"].to_list() == [None] * 3
    assert any("nothing is random in any of them" in note for note in both.notes)


def test_a_key_that_several_policies_do_not_use_is_said_once() -> None:
    machines = {
        policy: binhop.Machine.load("kh90", [f"placement.policy={policy}", "placement.colors=4"])
        for policy in ("random", "bin-hopping", "first")
    }
    notes = binhop.compare(machines, "lin", length=20_000, seeds=2).notes
    unused = [note for note in notes if "does not use" in note]
    assert unused == [
        "--set placement.colors=4: the policy does not use colors",
        "first: kh90: line 4: placement.pool: the policy does not use pool",
    ]


def test_a_cache_without_a_counterpart_is_said_to_have_none() -> None:
    comparison = binhop.compare(["kh90", "zen-4k"], "lin", length=20_000, seeds=2)
    assert "l3.mpi" not in comparison.metrics
    assert any("zen-4k: its l3.mpi has no counterpart" in note for note in comparison.notes)


def test_machines_with_other_levels_are_compared_by_memory_and_cpi(lin: Path) -> None:
    comparison = binhop.compare(["skylake", "apple-m1", "kh90"], lin, seeds=2)
    assert comparison.metrics == ["memory.mpi", "cpi", "l1d.mpi", "l1i.mpi"], "l2 is the last of some only"
    rows = comparison.summary.filter(metric="cpi")
    assert rows["alternative"].to_list() == ["apple-m1"]
    for name, level in [("skylake", "l3"), ("apple-m1", "l2"), ("kh90", "l2")]:
        of = binhop.simulate(name, lin, seeds=2)
        values = comparison.values.filter(metric="memory.mpi", alternative=name)["value"].to_list()
        assert values == [of.value(f"{level}.mpi", seed) for seed in (0, 1)], "one cache asks memory"
    differ = "the lines differ: 64B on skylake, 128B on apple-m1, 128B on kh90"
    assert f"what reaches memory is counted in lines, and {differ}" in comparison.notes
    assert "kh90: the machine states no [cost], so its CPI is not known" in comparison.notes
    assert any(
        note.startswith("l2.mpi belongs to the last level of some machines only") for note in comparison.notes
    )
    alike = binhop.compare(["skylake", "zen-4k"], lin, seeds=2)
    assert alike.metrics == ["l3.mpi", "l2.mpi", "l1d.mpi", "l1i.mpi", "cpi"], "as before: the same levels"
    assert not any("counted in lines" in note for note in alike.notes)


def test_several_traces_are_compared_each_for_itself(lin: Path) -> None:
    comparison = binhop.compare(["kh90", "two-level"], [lin, "tree"], length=50_000, seeds=3)
    assert comparison.workloads == ["lin", "tree"]
    alone = binhop.compare(["kh90", "two-level"], "tree", length=50_000, seeds=3)
    assert comparison.summary.filter(workload="tree").equals(alone.summary)


@pytest.mark.parametrize("seeds", [3, [7, 3, 11]])
def test_no_thread_reaches_a_table(lin: Path, seeds: object) -> None:
    one, two = (binhop.compare(["kh90", "two-level"], lin, seeds=seeds, threads=n) for n in (1, 2))
    assert one.values.equals(two.values)
    assert one.summary.equals(two.summary)
    assert one.seeds == ([0, 1, 2] if seeds == 3 else seeds)


def test_a_directory_holds_it_all(comparison: binhop.Comparison, tmp_path: Path) -> None:
    names = comparison.write(tmp_path / "out")
    tables = [
        f"{name}.{kind}" for name in ("results", "differences", "summary") for kind in ("parquet", "csv")
    ]
    assert {*tables, "machines", "provenance.json", "run.json", "lin-l2.png", "lin-l2.svg"} == set(names)
    for name, frame in [
        ("results", comparison.values),
        ("differences", comparison.differences),
        ("summary", comparison.summary),
    ]:
        assert pl.read_parquet(tmp_path / "out" / f"{name}.parquet").equals(frame), name
        assert pl.read_csv(tmp_path / "out" / f"{name}.csv").height == frame.height
    machines = sorted((tmp_path / "out" / "machines").iterdir())
    assert [file.name for file in machines] == ["1-l2-4MiB.toml", "2-l2-64KiB.toml"]
    again = [binhop.Machine.load(str(file)) for file in machines]
    assert again == [binhop.Machine.load("kh90"), binhop.Machine.load("kh90", [SMALL])]
    assert (tmp_path / "out" / "lin-l2.png").read_bytes().startswith(b"\x89PNG")
    provenance = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert provenance["seeds"] == list(range(6))
    assert provenance["traces"][0]["content_hash"]


def test_json_holds_integers_the_summary_and_the_machines(comparison: binhop.Comparison) -> None:
    whole = json.loads(comparison.to_json())
    assert list(whole) == ["schema", "rows", "summary", "provenance"]
    assert all(isinstance(row["value"], int) for row in whole["rows"] if "/" not in row["unit"])
    assert {row["alternative"] for row in whole["rows"]} == {"l2 4MiB", "l2 64KiB"}
    assert whole["summary"][0]["metric"] == "l2.mpi"
    assert binhop.Machine.parse(whole["provenance"]["descriptions"]["l2 64KiB"]).name == "kh90"


def test_it_reads_well(comparison: binhop.Comparison) -> None:
    text = repr(comparison)
    assert "lin: l2 4MiB, l2 64KiB; 6 placements" in text
    assert "l2 64KiB against l2 4MiB" in text


def test_a_length_in_instructions(lin: Path) -> None:
    comparison = binhop.compare(["kh90", "two-level"], lin, seeds=2, instructions=30_000)
    alone = binhop.simulate("kh90", lin, seeds=2, instructions=30_000)
    assert comparison.values.filter(alternative="kh90").drop("alternative").equals(alone.results)
    assert comparison.provenance["traces"][0]["instructions"] == 30_000


def test_nothing_to_compare_is_an_empty_summary_not_an_error(tmp_path: Path) -> None:
    from tests.conftest import LOAD, events

    comparison = binhop.compare(["kh90", "two-level"], events([(LOAD, 64, 4, 1)]), seeds=2)
    assert comparison.summary.is_empty()
    assert comparison.differences["difference"].null_count() == comparison.differences.height == 6
    assert "table: kh90, two-level" in repr(comparison)
    assert json.loads(comparison.to_json())["summary"] == []
    assert not [name for name in comparison.write(tmp_path / "out") if name.endswith(".png")]


# ---- traces


@pytest.fixture(scope="module")
def shorter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns another program with more instructions and fewer misses."""
    path = tmp_path_factory.mktemp("traces") / "shorter.parquet"
    binhop.Trace.workload("tree").write(path, length=60_000)
    return path


@pytest.fixture(scope="module")
def traces(lin: Path, shorter: Path) -> binhop.Comparison:
    return binhop.compare(binhop.Machine.load("kh90", [SMALL]), [lin, shorter], seeds=6)


def test_traces_on_one_machine_are_the_alternatives(
    traces: binhop.Comparison, lin: Path, shorter: Path
) -> None:
    assert traces.by_trace
    assert (traces.alternatives, traces.baseline, traces.workloads) == (["lin", "shorter"], "lin", ["traces"])
    caches = ("l2", "l1d", "l1i")
    both = [name for cache in caches for name in (f"{cache}.misses", f"{cache}.mpi")]
    assert traces.metrics == [*both, "instructions"]
    own = traces.values.filter(~pl.col("metric").str.ends_with(".misses") | (pl.col("unit") != "misses"))
    for path in (lin, shorter):
        alone = binhop.simulate(binhop.Machine.load("kh90", [SMALL]), path, seeds=6)
        of = own.filter(alternative=path.stem)
        assert of.drop("alternative").equals(alone.results), "each value is that of a run of its own"
    assert [trace["name"] for trace in traces.provenance["traces"]] == ["lin", "shorter"]
    assert traces.provenance["compared"] == "traces"
    assert [*traces.machines] == ["kh90"]


def test_each_seed_is_paired_with_itself_in_counts_and_per_instruction(
    traces: binhop.Comparison, lin: Path, shorter: Path
) -> None:
    machine = binhop.Machine.load("kh90", [SMALL])
    before, after = (binhop.simulate(machine, path, seeds=6) for path in (lin, shorter))

    def misses(of: binhop.Result, seed: int) -> int:
        return sum(int(of.value(f"l2.{kind}.misses", seed) or 0) for kind in ("fetch", "load", "store"))

    pairs = [(misses(before, seed), misses(after, seed)) for seed in range(6)]
    differences = traces.differences.filter(metric="l2.misses")
    assert differences["seed"].to_list() == [*range(6)]
    assert differences["difference"].to_list() == [b - a for a, b in pairs]
    row = traces.summary.filter(metric="l2.misses").row(0, named=True)
    interval = stats.ttest_rel([b for _, b in pairs], [a for a, _ in pairs]).confidence_interval(0.95)
    assert row["low"] == pytest.approx(interval.low, rel=1e-9)
    assert row["chance"] == sum((b < a) + (b == a) / 2 for a, b in pairs) / 6
    assert (row["workload"], row["alternative"], row["baseline"]) == ("traces", "shorter", "lin")
    per = traces.summary.filter(metric="l2.mpi").row(0, named=True)
    executed = [of.value("instructions") for of in (before, after)]
    assert executed[0] != executed[1]
    mean = sum(b for _, b in pairs) / 6 / executed[1] - sum(a for a, _ in pairs) / 6 / executed[0]
    assert per["difference"] == pytest.approx(mean, rel=1e-9)
    amount = traces.summary.filter(metric="instructions").row(0, named=True)
    assert amount["difference"] == executed[1] - executed[0]


def test_traces_have_cycles_where_costs_are_stated(lin: Path, shorter: Path) -> None:
    comparison = binhop.compare(["skylake"], {"old": lin, "new": shorter}, seeds=2, baseline="new")
    assert comparison.alternatives == ["old", "new"]
    assert comparison.metrics[:4] == ["cycles", "cpi", "l3.misses", "l3.mpi"]
    assert comparison.summary["baseline"].unique().to_list() == ["new"]
    found = binhop.simulate("skylake", lin, seeds=2)
    value = comparison.values.filter(alternative="old", metric="cycles", seed=1)["value"][0]
    assert value == found.value("cycles", 1)


def test_metrics_of_traces_can_be_chosen(lin: Path, shorter: Path) -> None:
    wanted = ["memory.misses", "memory.mpi"]
    comparison = binhop.compare("kh90", [lin, shorter], seeds=2, metric=wanted)
    assert comparison.summary["metric"].to_list() == wanted
    l2 = binhop.compare("kh90", [lin, shorter], seeds=2, metric=["l2.misses", "l2.mpi"])
    assert comparison.summary["difference"].to_list() == l2.summary["difference"].to_list()
    with pytest.raises(binhop.RequestError, match=r"l3\.misses.*l2\.misses"):
        binhop.compare("kh90", [lin, shorter], metric="l3.misses")


def test_more_than_two_traces_a_policy_in_python_and_no_chance(lin: Path, shorter: Path) -> None:
    third = binhop.Trace.workload("lin")

    def first(request: binhop.Request, pool: binhop.Pool) -> int:
        return pool[0]

    comparison = binhop.compare(("kh90", first), {"a": lin, "b": shorter, "c": third}, seeds=2, length=20_000)
    assert comparison.summary.filter(metric="l2.mpi")["alternative"].to_list() == ["b", "c"]
    assert comparison.provenance["alternatives"][2]["policy"] == "first"
    fixed = binhop.compare("two-level", [lin, shorter])
    assert fixed.seeds == [0]
    assert fixed.summary["low"].null_count() == fixed.summary.height
    assert any("nothing is random in any of them" in note for note in fixed.notes)


def test_traces_go_on_until_their_difference_is_known(lin: Path, shorter: Path) -> None:
    machine = binhop.Machine.load("kh90", [SMALL])
    comparison = binhop.compare(machine, [lin, shorter], until="60%", seeds=64, metric="l2.mpi")
    assert len(comparison.seeds) in (32, 64)
    whole = binhop.compare(machine, [lin, shorter], seeds=len(comparison.seeds), metric="l2.mpi")
    assert comparison.summary.equals(whole.summary)
    assert "placements" in comparison.notes[-1]


@pytest.mark.parametrize(
    ("machines", "trace", "says"),
    [
        ("kh90", {"one": "lin"}, "one machine and two traces or more"),
        (["kh90", "zen-4k"], {"one": "lin", "two": "tree"}, "on one machine"),
        ("kh90", ["lin", "lin"], "the same trace is given twice"),
        ("kh90", [], "several machines"),
        ("kh90", {}, "one machine and two traces or more"),
    ],
    ids=str,
)
def test_a_wrong_comparison_of_traces(machines: object, trace: object, says: str) -> None:
    with pytest.raises(binhop.RequestError, match=says):
        binhop.compare(machines, trace, length=10_000)  # type: ignore[arg-type]


def test_a_directory_of_traces_compared(traces: binhop.Comparison, tmp_path: Path) -> None:
    names = traces.write(tmp_path / "out")
    assert "traces-l2.misses.png" in names
    assert [file.name for file in (tmp_path / "out" / "machines").iterdir()] == ["1-kh90.toml"]
    table = pl.read_parquet(tmp_path / "out" / "results.parquet")
    assert table["workload"].unique(maintain_order=True).to_list() == ["lin", "shorter"]
    whole = json.loads(traces.to_json())
    counts = [row for row in whole["rows"] if row["metric"] == "l2.misses"]
    assert all(isinstance(row["value"], int) for row in counts)
    assert len(counts) == 12
