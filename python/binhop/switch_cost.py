"""Computes what a context switch costs, from the sums that a run with `switches` makes (MB90, §3.3 and §5).

Counting rules:

- A *life* is an address space from its fork to its exit. A *segment* is what a life runs from a switch to the
  next switch to another life. So each segment stands for one switch, and a cost per segment is a cost per
  switch. A segment's *cause* is why its own life had left the processor the last time.
- What ran before the first switch belongs to no segment. It has the cause `none`, and counts in totals only.
- *Shared* cycles are those of the caches that all lives share. *Private* cycles are those of a life whose
  caches no other life uses. *Excess* is shared less private.
- The *exact* average cost is the excess of all segments divided by their number.
- The *document's* average cost is the integral, over instructions since the switch, of the mean excess CPI of
  the segments that are still alive. It ends where fewer than `CUT` of the segments are alive. A mean weighs a
  partial interval by its length. The figure is biased: it adds up means over different segments.
- The *exact* overhead ratio is excess / shared cycles. The *document's* overhead ratio is the document's
  average cost times switches / shared cycles. Both divide by all cycles, also those before the first switch.

A table of costs has the columns of `KEYS` and `SEGMENT`, and a column for each count: `segments`,
`cycles.shared`, `l2.data.cycles.private`, `l1d.misses.replaced` and so on. A table of curves has the columns
of `KEYS`, `asid` and `life` (null: all), `cause` (null: all), `interval` and `number`, and the sums of each
interval. All functions but `estimates` return rows for each placement, because intervals are taken over
placements at the very end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop.lazy_imports import pl
from binhop.student import student
from binhop.summary import check_confidence

if TYPE_CHECKING:
    from collections.abc import Sequence

KEYS = ("workload", "machine", "seed")
"""The columns that tell runs apart."""
SEGMENT = ("asid", "life", "cause", "syscall")
"""The columns that tell kinds of segments apart."""
CURVE = ("asid", "life", "cause", "interval")
"""The columns that tell the curves of a run apart."""
START = "start"
"""The cause of a life's first segment, which returns to nothing."""
NONE = "none"
"""The cause of what ran before the first switch."""
CONFIDENCE = 0.95
"""The default confidence of intervals."""
CUT = 0.1
"""The least share of segments that must be alive at the end of an interval that counts (MB90 §5.1)."""
LENGTHS = (1_000, 10_000)
"""The lengths of intervals, in instructions."""
INTERVALS = 100
"""The intervals of each length after a switch."""


def has_switches(costs: pl.DataFrame) -> bool:
    """Returns whether the run had a switch to another life. All functions below need one."""
    return bool(of_segments(costs)["segments"].sum())


def of_segments(costs: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows that belong to segments."""
    return costs.filter(pl.col("cause") != NONE)


def costs_by(costs: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Returns the excess of the segments, for each value of these columns.

    Columns beside the keys: switches, instructions, shared, private, excess (all cycles), cost (excess per
    switch), length (instructions per segment), and share (of the excess of the rows above zero).
    """
    sums = _sums(of_segments(costs), *columns)
    excess = pl.col("cycles.shared") - pl.col("cycles.private")
    return (
        sums.select(
            *KEYS,
            *columns,
            pl.col("segments").alias("switches"),
            "instructions",
            pl.col("cycles.shared").alias("shared"),
            pl.col("cycles.private").alias("private"),
            excess.alias("excess"),
        )
        .with_columns(
            cost=ratio(pl.col("excess"), pl.col("switches")),
            length=ratio(pl.col("instructions"), pl.col("switches")),
            share=share_of_positive(pl.col("excess"), KEYS),
        )
        .sort(*KEYS, "excess", descending=[*[False] * len(KEYS), True], maintain_order=True)
    )


def costs_by_level(costs: pl.DataFrame) -> pl.DataFrame:
    """Returns the excess of the segments by the level that served, for fetches and for data.

    Rows: `level` is a cache or `memory`, with `kind` fetch or data; or `write-buffer` or `kernel`, without a
    kind. The rows of a run add up to its excess. Columns: shared, private, excess, cost (per switch), share.
    """
    form = r"^(.+?)(?:\.(fetch|data))?\.cycles\.(shared|private)$"
    waits = _counts(costs).select(
        *KEYS,
        "switches",
        "value",
        pl.col("count").str.extract(form, 1).alias("level"),
        pl.col("count").str.extract(form, 2).alias("kind"),
        pl.col("count").str.extract(form, 3).alias("side"),
    )

    def side(name: str) -> pl.Expr:
        return pl.col("value").filter(pl.col("side") == name).sum()

    return (
        waits.drop_nulls("level")
        .group_by([*KEYS, "level", "kind"], maintain_order=True)
        .agg(pl.col("switches").first(), shared=side("shared"), private=side("private"))
        .with_columns(excess=pl.col("shared") - pl.col("private"))
        .with_columns(
            cost=ratio(pl.col("excess"), pl.col("switches")),
            share=share_of_positive(pl.col("excess"), KEYS),
        )
        .drop("switches")
    )


def costs_by_cache(costs: pl.DataFrame) -> pl.DataFrame:
    """Returns for each cache what switches did to it.

    Columns beside the keys and `cache`: shared and private (demand misses of the segments); extra, replaced
    and reordered (misses per switch: shared less private; of a line that was evicted while the life was away;
    of a line that was there when it returned); held (lines per switch that the life had when it left), lost
    (the share of them that was gone when it returned) and restored (the share of the lost lines that came
    back before the life left again).
    """
    form = r"^(.+)\.(misses\.(?:shared|private|replaced|reordered)|lines\.(?:held|lost|restored))$"
    found = _counts(costs).with_columns(
        cache=pl.col("count").str.extract(form, 1), of=pl.col("count").str.extract(form, 2)
    )

    def count(name: str) -> pl.Expr:
        return pl.col("value").filter(pl.col("of") == name).sum()

    names = ("shared", "private", "replaced", "reordered")
    sums = (
        found.drop_nulls("cache")
        .group_by([*KEYS, "cache"], maintain_order=True)
        .agg(
            pl.col("switches").first(),
            **{name: count(f"misses.{name}") for name in names},
            held=count("lines.held"),
            lost=count("lines.lost"),
            restored=count("lines.restored"),
        )
    )
    switches = pl.col("switches")
    return sums.select(
        *KEYS,
        "cache",
        "shared",
        "private",
        ratio(pl.col("shared") - pl.col("private"), switches).alias("extra"),
        ratio(pl.col("replaced"), switches).alias("replaced"),
        ratio(pl.col("reordered"), switches).alias("reordered"),
        ratio(pl.col("held"), switches).alias("held"),
        ratio(pl.col("lost"), pl.col("held")).alias("lost"),
        ratio(pl.col("restored"), pl.col("lost")).alias("restored"),
    )


def intervals(curves: pl.DataFrame) -> pl.DataFrame:
    """Returns the curves with their means.

    Added columns: since (instructions since the switch at the interval's end); alive (the share of the
    curve's segments that are alive at the interval's end); cpi_shared and cpi_private (means); excess (their
    difference, in CPI); cumulative (excess cycles from the switch to the interval's end); deviation_shared,
    deviation_private and deviation_excess (of the segments' CPI, weighed by length).

    A curve goes as far as the longest curve of the same kind under any placement. Where no segment of a
    placement is alive any more, `alive` is 0, `cumulative` stays as it is, and CPI is null.
    """
    curve = [*KEYS, *CURVE]
    ordered = to_one_end(curves).sort(*curve, "number", nulls_last=False)
    instructions = pl.col("instructions")
    means = ordered.with_columns(
        since=(pl.col("number").cast(pl.Int64) + 1) * pl.col("interval"),
        alive=ratio(pl.col("complete"), pl.col("segments").first().over(curve)),
        cpi_shared=ratio(pl.col("cycles_shared"), instructions),
        cpi_private=ratio(pl.col("cycles_private"), instructions),
    ).with_columns(excess=pl.col("cpi_shared") - pl.col("cpi_private"))
    of = {"shared": "cpi_shared", "private": "cpi_private", "excess": "excess"}
    return means.with_columns(
        (pl.col("excess") * pl.col("interval")).fill_null(0).cum_sum().over(curve).alias("cumulative"),
        *(
            (ratio(pl.col(f"squares_{name}"), instructions) - pl.col(mean) ** 2)
            .clip(lower_bound=0)
            .sqrt()
            .alias(f"deviation_{name}")
            for name, mean in of.items()
        ),
    )


def to_one_end(curves: pl.DataFrame) -> pl.DataFrame:
    """Returns the curves with rows of zeros where another placement's curve of the same kind goes on.

    Placements have different segments if their own cycles decide when a process leaves the processor.
    """
    same = [name for name in (*KEYS, *CURVE) if name != "seed"]
    last = curves.group_by([*KEYS, *CURVE], maintain_order=True).agg(pl.all().sort_by("number").last())
    ends = last.with_columns(end=pl.col("number").max().over(same))
    ended = ends.filter(pl.col("number") < pl.col("end"))
    if ended.is_empty():
        return curves
    types = curves.schema
    counts = ["segments", "complete", "instructions", "cycles_shared", "cycles_private"]
    squares = [f"squares_{name}" for name in ("shared", "private", "excess")]
    missing = (
        ended.with_columns(number=pl.int_ranges(pl.col("number") + 1, pl.col("end") + 1))
        .explode("number")
        .with_columns(
            pl.col("number").cast(types["number"]),
            *(pl.lit(0, types[name]).alias(name) for name in [*counts, *squares] if name in types),
            *(
                pl.lit(None, types[name]).alias(name)
                for name in ("max_shared", "max_private")
                if name in types
            ),
        )
    )
    return pl.concat([curves, missing.select(curves.columns)])


def average_costs(curves: pl.DataFrame) -> pl.DataFrame:
    """Returns the document's average cost of each curve.

    Columns: segments; cut (the instructions since the switch up to which the integral goes); cost (cycles per
    switch; null if fewer than `CUT` of the segments are as long as one interval); reached (false if the
    curve's last interval still has `CUT` of the segments, so that the cost goes on beyond it).
    """
    curve = [*KEYS, *CURVE]
    counted = pl.col("alive") >= CUT
    return (
        intervals(curves)
        .group_by(curve, maintain_order=True)
        .agg(
            segments=pl.col("segments").first(),
            cut=pl.col("since").filter(counted).last(),
            cost=pl.col("cumulative").filter(counted).last(),
            reached=~((pl.col("number") == INTERVALS - 1) & counted).any(),
        )
    )


def interval_length(curves: pl.DataFrame) -> int:
    """Returns the length of intervals that fits: the shorter one, if its intervals reach the cut.

    All placements and machines of one trace have the same segments.
    """
    short, long = LENGTHS
    whole = average_costs(all_segments(curves).filter(interval=short))
    return short if whole.height and whole["reached"].all() else long


def all_segments(curves: pl.DataFrame) -> pl.DataFrame:
    """Returns the curves over all lives and all causes."""
    return curves.filter(pl.col("asid").is_null(), pl.col("cause").is_null())


def by_cause(curves: pl.DataFrame) -> pl.DataFrame:
    """Returns the curves over all lives: of each cause, and of all causes (null)."""
    return curves.filter(pl.col("asid").is_null())


def overheads(costs: pl.DataFrame, curves: pl.DataFrame) -> pl.DataFrame:
    """Returns the cost of a switch and the overhead of all switches, in the document's way and exactly.

    `curves` has one workload, because the length of intervals is chosen for it.

    Columns beside the keys: switches, short (segments of fewer than 1,000 instructions), truncated (ended by
    the trace's end), same (switches to the same life), lives, instructions, length (instructions per
    segment), cycles (all shared cycles), excess; exact, returning, document (average costs of a switch: of
    all, of those that are no life's first segment, and in the document's way); of_returns; per_process,
    per_process_document (means over lives, which weigh a life with two switches like a life with a thousand);
    overhead, overhead_returning, overhead_document; interval, cut and reached (of the document's cost).
    """
    length = interval_length(curves)
    cycles = costs.group_by(KEYS, maintain_order=True).agg(cycles=pl.col("cycles.shared").sum())
    sums = _sums(of_segments(costs))
    returns = costs_by(of_segments(costs).filter(pl.col("cause") != START)).select(
        *KEYS, pl.col("cost").alias("returning"), pl.col("excess").alias("of_returns")
    )
    chosen = average_costs(curves.filter(interval=length))
    document = chosen.filter(pl.col("asid").is_null(), pl.col("cause").is_null())
    of_lives = chosen.filter(pl.col("asid").is_not_null())
    lives = costs_by(costs, "asid", "life").filter(pl.col("switches") > 0)
    each = lives.group_by(KEYS, maintain_order=True).agg(lives=pl.len(), per_process=pl.col("cost").mean())
    each_document = of_lives.group_by(KEYS, maintain_order=True).agg(
        per_process_document=pl.col("cost").mean()
    )
    excess = pl.col("cycles.shared") - pl.col("cycles.private")
    joined = (
        sums.select(
            *KEYS,
            pl.col("segments").alias("switches"),
            pl.col("segments.short").alias("short"),
            pl.col("segments.truncated").alias("truncated"),
            pl.col("switches.same").alias("same"),
            "instructions",
            excess.alias("excess"),
        )
        .join(returns, on=KEYS, how="left", maintain_order="left")
        .join(cycles, on=KEYS, how="left", maintain_order="left")
        .join(each, on=KEYS, how="left", maintain_order="left")
        .join(each_document, on=KEYS, how="left", maintain_order="left")
        .join(
            document.select(*KEYS, pl.col("cost").alias("document"), "cut", "reached"),
            on=KEYS,
            how="left",
            maintain_order="left",
        )
    )
    return joined.with_columns(
        length=ratio(pl.col("instructions"), pl.col("switches")),
        exact=ratio(pl.col("excess"), pl.col("switches")),
        overhead=ratio(pl.col("excess"), pl.col("cycles")),
        overhead_returning=ratio(pl.col("of_returns"), pl.col("cycles")),
        overhead_document=ratio(pl.col("document") * pl.col("switches"), pl.col("cycles")),
        interval=pl.lit(length, pl.Int64),
    )


def estimates(
    rows: pl.DataFrame, columns: Sequence[str], by: Sequence[str] = (), confidence: float = CONFIDENCE
) -> pl.DataFrame:
    """Returns the mean of each column over placements, with Student's interval.

    Columns: workload, machine, those of `by`, metric (the column's name), n, mean, low, high. An undefined
    value is left out; `low` and `high` are null for a single placement.
    """
    keys = [name for name in KEYS if name != "seed"] + [*by]
    check_confidence(confidence)
    long = rows.select(*keys, *(pl.col(name).cast(pl.Float64) for name in columns)).unpivot(
        columns, index=keys, variable_name="metric"
    )
    found = long.group_by([*keys, "metric"], maintain_order=True).agg(
        n=pl.col("value").count(), mean=pl.col("value").mean(), deviation=pl.col("value").std(ddof=1)
    )
    t = {n: student(n, confidence) for n in found["n"].unique()}
    half = pl.col("n").replace_strict(t, return_dtype=pl.Float64) * pl.col("deviation") / pl.col("n").sqrt()
    return found.with_columns(low=pl.col("mean") - half, high=pl.col("mean") + half).drop("deviation")


def _sums(costs: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Returns the sum of each count for each value of these columns."""
    counts = [name for name in costs.columns if name not in (*KEYS, *SEGMENT)]
    sums = costs.group_by([*KEYS, *columns], maintain_order=True).agg(pl.col(counts).sum())
    return sums.sort(KEYS, maintain_order=True)


def _counts(costs: pl.DataFrame) -> pl.DataFrame:
    """Returns a row for each count of the segments: the keys, the number of switches, count, and value."""
    sums = _sums(of_segments(costs)).with_columns(switches=pl.col("segments"))
    return sums.unpivot(index=[*KEYS, "switches"], variable_name="count", value_name="value")


def share_of_positive(excess: pl.Expr, keys: Sequence[str]) -> pl.Expr:
    """Returns the share of each row in the excess of the rows with equal keys whose excess is above zero."""
    whole = excess.clip(lower_bound=0).sum()
    return ratio(excess, whole.over(keys) if keys else whole)


def ratio(above: pl.Expr, below: pl.Expr) -> pl.Expr:
    """Returns the quotient; null where the divisor is 0."""
    return pl.when(below != 0).then(above / below)
