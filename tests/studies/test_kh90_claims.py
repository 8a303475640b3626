"""Tests the rules of KH90's claims on made-up results: holds, fails and undecided come where they must."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from binhop import study
from binhop.models import conflicts, estimate
from binhop.models.conflicts import Cache
from binhop.reproduce import claims as verdicts
from binhop.reproduce.claims import Claim
from binhop.reproduce.judge import measure, ratios
from binhop.reproduce.kh90 import STUDY, claims, figures, rates, spaces, trend, worth
from binhop.reproduce.kh90.data import Kh90Paper
from tests.studies import made_up
from tests.studies.made_up import SEEDS, Cell, Row

RULES = {rule.__name__.upper(): rule for rule in (*rates.ALL, *spaces.ALL, *trend.ALL, *worth.ALL)}
CACHE = Cache.of("1MiB", 1)


def test_a_world_like_the_paper_s_bears_every_claim_out() -> None:
    data = made_up.rates()
    rules = (*rates.ALL, *worth.ALL)
    assert {rule.__name__: rule(data).verdict for rule in rules} == {rule.__name__: "holds" for rule in rules}


def worse(cell: Cell) -> float:
    """Returns misses with which the hierarchical placement is worse than random."""
    return (
        1.3 * made_up.mean((cell[0], "random", *cell[2:]))
        if cell[1] == "hierarchical"
        else made_up.mean(cell)
    )


def equal_is_good(cell: Cell) -> float:
    return 0.5 * made_up.mean(cell) if cell[1] == "page-coloring-equal" else made_up.mean(cell)


def any_pool_will_do(cell: Cell) -> float:
    return made_up.mean((*cell[:4], "4MiB"))


def knee_at_32(cell: Cell) -> float:
    """Returns misses that are equal from 32 frames up; 16 frames cost as much as in the paper."""
    return made_up.mean(cell if cell[4] == "256KiB" else (*cell[:4], "4MiB"))


def knee_at_1024(cell: Cell) -> float:
    """Returns misses with the paper's knee two steps higher."""
    up = dict(zip(rates.POOLS[2:], rates.POOLS, strict=False)) | {"512KiB": "256KiB"}
    return made_up.mean((*cell[:4], up.get(cell[4], cell[4])))


def falling_on(cell: Cell) -> float:
    """Returns misses that fall equally with each doubling, without a knee."""
    return made_up.mean((*cell[:4], "4MiB")) * (1.02 ** (6 - rates.POOLS.index(cell[4])))


def sequential_needs_frames(cell: Cell) -> float:
    fewer = cell[1] == "sequential" and rates.FRAMES[cell[4]] < 128
    return made_up.mean(cell) * (1.08 if fewer else 1)


def scaled(factor: float) -> made_up.Mean:
    """Returns misses with hierarchical's at 1 MiB direct-mapped as a multiple of random's."""

    def mean(cell: Cell) -> float:
        own = cell[1] == "hierarchical" and cell[2:4] == ("1MiB", 1)
        return factor * made_up.mean((cell[0], "random", *cell[2:])) if own else made_up.mean(cell)

    return mean


def careful_scatters(cell: Cell) -> float:
    return 0.02 if cell[1] == "hierarchical" else 0.01


def ways_scatter(cell: Cell) -> float:
    return 0.01 * cell[3]


FAILING = [
    ("K5", worse, made_up.noise),
    ("K6", worse, made_up.noise),
    ("K6", made_up.mean, careful_scatters),
    ("K7", worse, made_up.noise),
    ("K7", equal_is_good, made_up.noise),
    ("K8", worse, made_up.noise),
    ("K10", equal_is_good, made_up.noise),
    ("K11", made_up.mean, ways_scatter),
    ("K12", any_pool_will_do, made_up.noise),
    ("K12", knee_at_32, made_up.noise),
    ("K12", knee_at_1024, made_up.noise),
    ("K12", falling_on, made_up.noise),
    ("K12", sequential_needs_frames, made_up.noise),
    ("K13", worse, made_up.noise),
    ("K13", scaled(0.9999), made_up.noise),
    ("K13", scaled(0.5), made_up.noise),
    ("K13", scaled(0.1), made_up.noise),
    ("K14", worse, made_up.noise),
]


@pytest.mark.parametrize(("claim", "mean", "noise"), FAILING)
def test_it_fails(claim: str, mean: made_up.Mean, noise: made_up.Mean) -> None:
    assert RULES[claim](made_up.rates(mean, noise)).verdict == "fails"


@pytest.mark.parametrize("claim", ["K5", "K7", "K8", "K10", "K12", "K13", "K14"])
def test_it_is_undecided_where_placements_scatter(claim: str) -> None:
    judged = RULES[claim](made_up.rates(noise=lambda cell: 0.8))
    assert judged.verdict == "undecided"
    assert "open" in judged.how


@pytest.mark.parametrize("factor", [1.05, 0.62])
def test_k13_is_open_where_its_interval_reaches_back(factor: float) -> None:
    judged = RULES["K13"](made_up.rates(scaled(factor), lambda cell: 0.9))
    assert judged.verdict == "undecided"
    assert judged.measured["ways"] is None
    assert "outside 1 to 4" in judged.how


def test_an_equivalent_s_interval_is_student_s() -> None:
    """The delta method has the same limit where deviations are small."""
    draw = np.random.default_rng(3)
    careful = 1.26 + 0.001 * draw.normal(size=8)
    at = {1: 1.5 + 0.002 * draw.normal(size=8), 2: 1.05 + 0.001 * draw.normal(size=8)}
    found = worth.worth(careful, at, 0.9)
    assert found.interval is not None
    share = ratios(at[1] - careful, at[1] - at[2])
    delta = 2 ** np.array(measure(share, 0.9).interval)
    assert found.interval == pytest.approx(tuple(delta), rel=2e-3)


def test_a_prefix_decides_nothing_about_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    none = Claim("K4", "", None, None, "holds", "rule")
    monkeypatch.setattr(spaces, "ALL", (spaces.k1, spaces.k2, lambda data: none))
    monkeypatch.setattr(trend, "ALL", ())
    half, tenth = claims.PART * claims.WHOLE, claims.SOME * claims.WHOLE
    for count, decided in ((half, 12), (half - 1, 3), (tenth, 3), (tenth - 1, 2)):
        judged = claims.judge(made_up.rates(instructions=count))
        assert [int(claim.id[1:]) for claim in judged] == [1, 2, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14]
        assert sum(claim.verdict == "holds" for claim in judged) == decided
        assert all("prefix is too short" in claim.how for claim in judged if claim.verdict != "holds")


def test_paper_scale_is_the_whole() -> None:
    assert study.load(STUDY).scale["paper"].instructions == claims.WHOLE


def test_the_model_s_own_claims_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    data = made_up.rates()
    assert spaces.k1(data).verdict == "holds"
    assert spaces.k2(data).verdict == "holds"
    spaces.drawn.cache_clear()
    monkeypatch.setattr(spaces, "DRAWS", 500)
    monkeypatch.setattr(estimate, "agrees", lambda exact, estimate: False)
    assert spaces.k1(data).verdict == "fails"
    spaces.drawn.cache_clear()


@pytest.mark.parametrize(
    ("bend", "said"),
    [
        (lambda pages, cache: -abs(pages - 96) / cache.ways, "peaks at U = 96, 96, 96; N = 64: no"),
        (lambda pages, cache: 1 / (1 + abs(pages - 64)), "fewer with more ways: no"),
        (lambda pages, cache: cache.ways / (1 + abs(pages - 64)), "fewer with more ways: no"),
    ],
)
def test_k2_can_fail(monkeypatch: pytest.MonkeyPatch, bend: object, said: str) -> None:
    monkeypatch.setattr(conflicts, "mapping", bend)
    judged = spaces.k2(made_up.rates())
    assert judged.verdict == "fails"
    assert said in judged.how


def wave(seed: int, asid: int) -> int:
    """Returns −1, 0 or 1, with the mean 0 over twelve placements."""
    return (seed + asid) % 3 - 1


def on_the_curve(asids: int, factor: float = 1.0) -> list[Row]:
    """Returns processes of 20 to 70 pages with the model's conflicts times a factor."""
    rows: list[Row] = []
    for asid in range(asids):
        pages = 20 + asid % 51
        # A fraction is rounded down in some placements and up in others, so the mean is exact.
        share = factor * conflicts.average(pages, CACHE)
        for seed in range(SEEDS):
            found = int(share + (seed + 0.5) / SEEDS) + wave(seed, asid)
            rows.append(("conflicts", "random", None, seed, asid, pages, 0, found, 1 + 0.02 * found))
    return rows


def test_k3() -> None:
    assert spaces.k3(made_up.processes(on_the_curve(120))).verdict == "holds"
    assert spaces.k3(made_up.processes(on_the_curve(120, 1.2))).verdict == "fails"
    few = spaces.k3(made_up.processes(on_the_curve(4)))
    assert few.verdict == "undecided"
    assert "too short" in few.how


def hierarchical(asids: int, conflict_in: int | None = None) -> list[Row]:
    return [
        ("conflicts", "hierarchical", None, seed, asid, 40, 3 * (asid < 2), int(asid == conflict_in), 1.0)
        for seed in range(SEEDS)
        for asid in range(asids)
    ]


def test_k4() -> None:
    assert spaces.k4(made_up.processes(hierarchical(20))).verdict == "holds"
    assert spaces.k4(made_up.processes(hierarchical(20, conflict_in=1))).verdict == "holds", "it shares pages"
    failing = spaces.k4(made_up.processes(hierarchical(20, conflict_in=5)))
    assert (failing.verdict, failing.measured["with an unnecessary conflict"]) == ("fails", SEEDS)
    assert spaces.k4(made_up.processes(hierarchical(11))).verdict == "undecided"


def trending(slope: float, by_size: float = 0.0, asids: int = 40, noise: float = 0.3) -> list[Row]:
    """Returns processes of 32 to 64 pages, with misses that depend on conflicts, size and program."""
    draw = np.random.default_rng(9)
    rows: list[Row] = []
    for asid in range(asids):
        pages = 32 + asid * 33 // asids
        own = 1 + by_size * pages + noise * draw.normal()
        for seed in range(SEEDS):
            found = int(draw.poisson(conflicts.average(pages, CACHE)))
            mpi = own + slope * found + noise * draw.normal()
            rows.append(("conflicts", "random", None, seed, asid, pages, 0, found, mpi))
    return rows


def test_k9() -> None:
    holding = trend.k9(made_up.processes(trending(0.05)))
    assert holding.verdict == "holds"
    assert holding.measured["within processes"] == pytest.approx(0.05, abs=0.01)
    low, high = holding.interval["within processes"]
    assert low < 0.05 < high
    assert trend.k9(made_up.processes(trending(-0.05))).verdict == "fails"
    assert trend.k9(made_up.processes(trending(0.05, noise=20))).verdict == "undecided"
    few = trend.k9(made_up.processes(trending(0.05, asids=19)))
    assert few.verdict == "undecided"
    assert "too short" in few.how


def test_k9_does_not_hold_where_conflicts_do_nothing() -> None:
    nothing = trend.k9(made_up.processes(trending(0.0, by_size=0.05)))
    assert nothing.interval["Figure 13's line, placement 0"][0] > 0, "both rise with U, as in Figure 13"
    assert nothing.verdict == "undecided"
    hidden = trend.k9(made_up.processes(trending(-0.05, by_size=0.2)))
    assert hidden.interval["Figure 13's line, placement 0"][0] > 0
    assert hidden.verdict == "fails"


def test_the_interval_within_processes_takes_processes_as_independent() -> None:
    """If every point stands twice, the interval stays the same."""
    rows = trending(0.05)
    table = trend.chosen(made_up.processes(rows))
    twice = pl.concat([table, table])
    one, two = (trend.within_processes(of, 0.9) for of in (table, twice))
    assert one is not None
    assert two is not None
    assert (two.mean, two.low, two.high) == pytest.approx((one.mean, one.low, one.high))
    assert trend.within_processes(table.filter(asid=0), 0.9) is None


def test_figure_11_shows_what_hierarchical_is_worth() -> None:
    data = made_up.rates()
    judged = RULES["K13"](data).measured
    chart = figures.figure_11(data, Kh90Paper()).to_dict()
    for panel, unit, column in zip(chart["hconcat"], ("ways", "MiB"), ("ways", "size"), strict=True):
        line, label, *others = panel["layer"]
        assert line["mark"]["strokeDash"]
        turns = chart["datasets"][line["data"]["name"]]
        # The figure has the paper's four placements, the claim all.
        assert [row[column] for row in turns] == pytest.approx([1, judged[unit], judged[unit]], rel=0.02)
        assert chart["datasets"][label["data"]["name"]][0]["label"] == f"{turns[1][column]:.1f}"
        assert len(others) == 3
    bad = figures.figure_11(made_up.rates(scaled(1.2)), Kh90Paper()).to_dict()["hconcat"]
    assert [len(panel["layer"]) for panel in bad] == [3, 3], "worth nothing: no line"


def test_figures_12_and_13_are_drawn_with_all_their_layers() -> None:
    random = trending(0.05, by_size=0.1)
    careful = [("conflicts", "hierarchical", None, *row[3:7], 0, 2.0) for row in random]
    data = made_up.processes([*random, *careful])  # type: ignore[list-item]
    line = figures.figure_13(data).to_dict()
    assert len(line["layer"]) == 2
    found = trend.plain(trend.chosen(data), 0.9)
    assert found is not None
    assert found.slope.text() in line["title"]["subtitle"][0]
    within = RULES["K9"](data).measured["within processes"]
    assert f"slope {within:.3f} (" in line["title"]["subtitle"][1]
    assert len(figures.figure_12(data).to_dict()["layer"]) == 4, "model, processes, groups and their bars"
    assert len(figures.figure_12(made_up.processes(trending(0.0, asids=3))).to_dict()["layer"]) == 2
    assert figures.figure_13(made_up.processes(trending(0.0, asids=2))) is None


def sharing(hurt: int, mended: int, wild: int = 0, sharers: int = 10) -> list[Row]:
    """Excess conflicts: random 8; a careless policy 1, and `hurt` more where pages are shared; by segment
    `mended` fewer than by space.
    """
    rows: list[Row] = []
    for seed, asid in ((seed, asid) for seed in range(SEEDS) for asid in range(2 * sharers)):
        shares = asid < sharers
        off = wild * (1 if seed % 2 else -1) * shares
        for name in ("random", "bin-hopping", "page-coloring-pid-hash"):
            found = 8 if name == "random" else 1 + hurt * shares + off
            rows.append(
                ("sharing", name, None, seed, asid, 40, 2 * shares, found + wave(seed, asid) + 1, 1.0)
            )
        for name in ("page-coloring-offset", "sequential", "hierarchical"):
            for by in ("space", "segment"):
                found = 5 - (mended + off) * (by == "segment")
                rows.append(
                    ("sharing-kept", name, by, seed, asid, 40, 2 * shares, found + wave(seed, asid), 1.0)
                )
    return rows


def test_k15() -> None:
    holding = spaces.k15(made_up.processes(sharing(hurt=3, mended=2)))
    assert holding.verdict == "holds"
    assert spaces.k15(made_up.processes(sharing(hurt=-1, mended=2))).verdict == "fails"
    assert spaces.k15(made_up.processes(sharing(hurt=3, mended=-2))).verdict == "fails"
    assert spaces.k15(made_up.processes(sharing(hurt=0, mended=0, wild=1))).verdict == "undecided"
    assert spaces.k15(made_up.processes(sharing(hurt=3, mended=2, sharers=4))).verdict == "undecided"


def test_every_claim_has_a_rule() -> None:
    assert sorted(RULES, key=lambda name: int(name[1:])) == [f"K{number}" for number in range(1, 16)]


def test_claims_are_written_and_read(tmp_path: object) -> None:
    from pathlib import Path

    place = Path(str(tmp_path))
    made = [
        Claim("K1", "a", 0.5, (0.4, 0.6), "holds", "rule"),
        Claim("K2", "b", {"x": 1.0, "y": None}, {"x": (0.0, float("inf"))}, "fails", "rule"),
        Claim("K3", "c", None, None, "undecided", "rule"),
    ]
    verdicts.write(made, place)
    rows = json.loads((place / "claims.json").read_text())
    assert [[*row] for row in rows] == [["id", "statement", "measured", "interval", "verdict", "how"]] * 3
    assert rows[1]["interval"] == {"x": [0.0, None]}
    assert verdicts.read(place)[0] == made[0]
