"""Judges the claims about conflicts inside address spaces: K1 to K4, K15."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from binhop.lazy_imports import pl
from binhop.models import conflicts
from binhop.models import estimate as estimates
from binhop.models.conflicts import Cache
from binhop.reproduce.claims import Claim
from binhop.reproduce.judge import Condition, less, measure, positive, ratios, verdict, with_conditions
from binhop.reproduce.kh90.data import WAYS

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from binhop.reproduce.kh90.data import Kh90Data

CACHE = Cache.of("1MiB", ways=1)
"""The cache of Figures 3, 4 and 12: 64 bins of 128 frames."""
DRAWN_AT = (8, 16, 32, 48, 64, 96, 128, 192, 256)
DRAWS = 4000
FEWEST = 5
"""The processes of a group (K3), and the fewest processes and groups from which a conclusion is drawn."""
EXPECTED = 10
"""The fewest expected conflicts, in all placements together, whose mean has a useful interval."""
LEAST = 2
"""The fewest pages with which there can be a conflict (K3)."""
CURVE = 0.95
"""The confidence of K3's interval."""


@cache
def drawn() -> pl.DataFrame:
    """Returns the model beside a Monte Carlo: ways, pages, model, mean, error (of the mean), agrees."""
    rows = []
    for ways in WAYS:
        cache = Cache.of("1MiB", ways)
        for number, pages in enumerate(DRAWN_AT):
            exact = conflicts.average(pages, cache)
            if exact * DRAWS < EXPECTED:
                continue  # the standard error of a mean over so few conflicts is meaningless
            estimate = conflicts.monte_carlo(pages, cache, samples=DRAWS, seed=100 * ways + number)
            agrees = estimates.agrees(exact, estimate)
            rows.append((ways, pages, exact, estimate.mean, estimate.error, agrees))
    return pl.DataFrame(rows, schema=["ways", "pages", "model", "mean", "error", "agrees"], orient="row")


def k1(_: Kh90Data) -> Claim:
    """Judges the model against drawn placements."""
    table = drawn()
    off = table.filter(~pl.col("agrees"))
    worst = max(abs(table["mean"] / table["model"] - 1).to_list())
    conditions = [Condition(f"{table.height - off.height} of {table.height} agree", off.is_empty())]
    skipped = len(WAYS) * len(DRAWN_AT) - table.height
    rule = (
        f"1 MiB, 1, 2 and 4 ways, U of {', '.join(map(str, DRAWN_AT))} pages, {DRAWS} placements drawn for "
        "each: the mean is within 1% or 3 standard errors of Equation 2, whichever is larger. Left out, for "
        f"want of a standard error worth the name: {skipped} of {len(WAYS) * len(DRAWN_AT)} points at which "
        f"fewer than {EXPECTED} conflicts are to be expected in all placements together. No trace is needed."
    )
    return Claim(
        "K1",
        "The model equals a Monte Carlo of random placement within 1% or 3 standard errors, whichever is "
        "larger.",
        {"largest relative deviation": worst},
        None,
        verdict(conditions),
        with_conditions(rule, conditions),
    )


def mapping_curve(ways: int) -> list[float]:
    """Returns the mapping conflicts of 1 to 256 pages in 1 MiB of so many ways."""
    return [conflicts.mapping(pages, Cache.of("1MiB", ways)) for pages in range(1, 257)]


def k2(_: Kh90Data) -> Claim:
    """Judges where mapping conflicts peak."""
    curves = {ways: mapping_curve(ways) for ways in WAYS}
    peaks = {ways: 1 + curve.index(max(curve)) for ways, curve in curves.items()}
    falling = all(a > b > c for a, b, c in zip(*curves.values(), strict=True) if b > 1e-9)
    conditions = [
        Condition(f"peaks at U = {', '.join(map(str, peaks.values()))}; N = 64", {*peaks.values()} == {64}),
        Condition("at every U fewer with more ways", falling),
    ]
    return Claim(
        "K2",
        "Mapping conflicts peak at U = N and fall with associativity.",
        {f"{ways} way: at U = N": curve[63] for ways, curve in curves.items()},
        None,
        verdict(conditions),
        with_conditions(
            "C_avg - C_min of Equation 2, 1 MiB, U of 1 to 256 pages. No trace is needed.", conditions
        ),
    )


def groups(table: pl.DataFrame) -> pl.DataFrame:
    """Groups processes of similar U: pages, processes, model (mean), mean, low, high, inside.

    A group begins at the smallest U that no group has yet, and holds the processes with up to a quarter more
    pages. Fewer than five processes make no group. Processes with fewer than ten expected conflicts make no
    group either: Student's interval does not fit their mean. Each process is compared with the model at its
    own U. The samples of a group's mean are the placements.
    """
    off = table.with_columns(
        model=pl.col("pages").map_elements(
            lambda pages: conflicts.mapping(int(pages), CACHE), return_dtype=pl.Float64
        )
    ).with_columns(off=pl.col("excess") - pl.col("model"))
    by_process = off.group_by("asid").agg(size=pl.col("pages").median()).sort("size", "asid")
    rows = []
    left = [row for row in by_process.iter_rows() if row[1] >= LEAST]
    while left:
        first = left[0][1]
        chosen = [asid for asid, size in left if size <= max(1.25 * first, first + 1)]
        left = left[len(chosen) :]
        of = off.filter(pl.col("asid").is_in(chosen))
        if len(chosen) < FEWEST or of["model"].sum() < EXPECTED:
            continue
        by_seed = of.group_by("seed").agg(pl.col("off").mean()).sort("seed")
        found = measure(by_seed["off"].to_numpy(), CURVE)
        model = float(of["model"].mean())  # type: ignore[arg-type]
        inside = found.low <= 0 <= found.high
        ends = [model + value for value in (found.mean, *found.interval)]
        rows.append((float(of["pages"].mean()), len(chosen), model, *ends, inside))  # type: ignore[arg-type]
    schema = ["pages", "processes", "model", "mean", "low", "high", "inside"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def k3(data: Kh90Data) -> Claim:
    """Judges whether simulated conflicts lie on the model's curve."""
    found = groups(data.processes("conflicts").filter(heuristic="random"))
    statement = (
        "mult2.2: simulated conflicts of random placement lie on the model's curve: per group of at least 5 "
        "processes of like U, the model lies within the 95% interval of the mean in at least 90% of the "
        "groups."
    )
    rule = (
        "1 MiB direct-mapped, pool of 4 MiB, resident pages at a process's exit or the trace's end. A group "
        "holds "
        "processes within a quarter of each other's U; each is compared with the model at its own U; the "
        "samples "
        "of the group's mean are the placements. Groups go up from the smallest U of at least "
        f"{LEAST} pages, each to a quarter more than its smallest; one of fewer than {FEWEST} processes, or "
        f"with fewer than {EXPECTED} conflicts to expect in all of its processes and placements together, "
        "is left out."
    )
    if found.height < FEWEST:
        how = f"{rule} There are {found.height} such groups: the prefix is too short for a verdict."
        return Claim("K3", statement, None, None, "undecided", how)
    inside = int(found["inside"].sum())
    ratio = sum(found["mean"].to_list()) / sum(found["model"].to_list())
    conditions = [
        Condition(f"inside in {inside} of {found.height} groups, at least 90%", inside >= 0.9 * found.height)
    ]
    return Claim(
        "K3",
        statement,
        {"groups": found.height, "inside": inside, "simulated over model, all groups": ratio},
        None,
        verdict(conditions),
        with_conditions(rule, conditions),
    )


def k4(data: Kh90Data) -> Claim:
    """Judges whether hierarchical leaves no unnecessary conflict."""
    table = data.processes("conflicts").filter(heuristic="hierarchical")
    alone = table.filter(pl.col("asid").is_in(_sharers(data), nulls_equal=True).not_())
    worse = alone.filter(pl.col("excess") > 0)
    statement = (
        "mult2.2: hierarchical with a 4 MiB pool leaves no unnecessary conflict inside any address space "
        "that shares "
        "no page (1 MiB direct-mapped)."
    )
    processes = alone["asid"].n_unique()
    measured = {
        "address spaces, all placements": alone.height,
        "with an unnecessary conflict": worse.height,
        "unnecessary conflicts": float(worse["excess"].sum()),
    }
    rule = "C - C_min of each address space and placement, at its exit or the trace's end, is nought."
    if processes < 2 * FEWEST:
        how = f"{rule} There are {processes} such processes: the prefix is too short for a verdict."
        return Claim("K4", statement, measured, None, "undecided", how)
    conditions = [
        Condition(f"{worse.height} of {alone.height} have one ({processes} processes)", worse.is_empty())
    ]
    return Claim("K4", statement, measured, None, verdict(conditions), with_conditions(rule, conditions))


def _sharers(data: Kh90Data) -> list[int]:
    """Returns the processes that share a page with another process under some placement."""
    shared = data.processes("conflicts").filter(pl.col("shared") > 0)
    return shared["asid"].unique().to_list()


def k15(data: Kh90Data) -> Claim:
    """Judges what sharing does to the heuristics."""
    careless = data.processes("sharing")
    kept = data.processes("sharing-kept")
    sharers = careless.filter(pl.col("shared") > 0)["asid"].unique().to_list()
    statement = (
        "§5, argued there, not measured (mult2.2): sharing hurts bin-hopping and pid-hash; used and offsets "
        "kept per "
        "segment mend it."
    )
    rule = (
        "1 MiB direct-mapped, all tuned for it. Hurt: of random's unnecessary conflicts (C - C_min), the "
        "policy leaves a "
        "larger share in address spaces that share a page than in those that share none. Mended: in those "
        "that "
        "share, fewer are left with state kept by segment than by address space. Placement by placement."
    )
    if len(sharers) < FEWEST:
        how = f"{rule} There are {len(sharers)} processes that share: the prefix is too short for a verdict."
        return Claim("K15", statement, None, None, "undecided", how)

    def excess(table: pl.DataFrame, heuristic: str, *, among: bool, sharing: str | None = None) -> np.ndarray:
        of = table.filter(
            pl.col("heuristic").eq(heuristic)
            & pl.col("sharing").eq_missing(sharing)
            & pl.col("asid").is_in(sharers).eq(among)
        )
        by_seed = of.group_by("seed").agg(pl.col("excess").sum()).sort("seed")
        values: np.ndarray = by_seed["excess"].to_numpy()
        return values

    conditions, measured, intervals = [], {}, {}
    for name in ("bin-hopping", "page-coloring-pid-hash"):
        left = {
            among: ratios(excess(careless, name, among=among), excess(careless, "random", among=among))
            for among in (True, False)
        }
        for among, word in ((True, "sharing"), (False, "alone")):
            found = measure(left[among], data.confidence)
            measured[f"{name}, {word}"], intervals[f"{name}, {word}"] = found.mean, found.interval
        conditions.append(
            positive(f"hurts {name}, by", measure(left[True] - left[False], data.confidence), digits=3)
        )
    for name in ("page-coloring-offset", "sequential", "hierarchical"):
        space, segment = (excess(kept, name, among=True, sharing=by) for by in ("space", "segment"))
        measured[f"{name}, by space"], measured[f"{name}, by segment"] = (
            float(values.mean()) for values in (space, segment)
        )
        conditions.append(less(f"kept by segment mends {name}, by", segment, space, data.confidence))
    return Claim(
        "K15", statement, measured, intervals, verdict(conditions), with_conditions(rule, conditions)
    )


ALL = (k1, k2, k3, k4, k15)
MODEL: tuple[Callable[[], object], ...] = (drawn, *(partial(mapping_curve, ways) for ways in WAYS))
"""The parts of the model that K1 and K2 need: `drawn` and `conflicts.average` keep what they computed."""
