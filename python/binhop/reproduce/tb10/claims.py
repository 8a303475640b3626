"""Judges TB10's claims, each by its own rule.

A speed-up is the cycles of the memory's clock under snooping-cache, divided by the cycles under the scheme,
less one, in percent. Both have the same size of the last level. Samples are placements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from binhop.reproduce.claims import Claim
from binhop.reproduce.judge import Condition, Measure, measure, positive, verdict, with_conditions, within
from binhop.reproduce.tb10.forms import (
    BACK,
    DDC,
    HINT,
    SHARED,
    SIZES,
    TABLE_SIZES,
    Form,
    ddc,
    every_form,
    pbdc,
)
from binhop.reproduce.tb10.paper import rows_of
from binhop.reproduce.tb10.study import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binhop.reproduce.tb10.data import Tb10Data

LARGE = ("file-copy", "tpch")
"""The workloads whose devices write in requests of 100 KB and more."""
WEB = "specweb"
LINES = 1024
REFERENCES = 1_000_000
"""The least references below level 2 of a workload for a verdict."""
NEAR, NETWORK = 80.0, (38.0, 58.0)
"""T1: the least share that counts as "about 90%", and the range that counts as "48%"."""
SEQUENTIAL, NETWORK_SEQUENTIAL = 93.0, 50.0
PART = 0.75
ASSOCIATIVITY, ASSOCIATIVITY_ANY, SIZE = 1.5, 5.0, 20.0
FIXED = 2.0
PREFETCH = 20.0
NONE = 2.0
"""The most points that count as no difference."""


def judge(data: Tb10Data) -> list[Claim]:
    """Returns the claims T1 to T11, judged."""
    rules = (_t1, _t2, _t3, _t4, _t5, _t6, _t7, _t8, _t9, _t10, _t11)
    short = {name: data.references(name) for name in WORKLOADS if data.references(name) < REFERENCES}
    found = [rule(data) for rule in rules]
    if not short:
        return found
    told = ", ".join(f"{name} {references:,.0f}" for name, references in short.items())
    reason = f"Undecided: a verdict needs {REFERENCES:,} references below level 2; there are: {told}."
    return [claim.undecided(reason) for claim in found]


Measured = dict[str, "Measure | int | None"]
"""The measurements of a claim: means with intervals, exact counts, and None where there is nothing."""


def _claim(
    name: str, statement: str, measured: Measured, rule: str, conditions: Sequence[Condition]
) -> Claim:
    means = {key: of.mean if isinstance(of, Measure) else of for key, of in measured.items()}
    intervals = {key: of.interval for key, of in measured.items() if isinstance(of, Measure)}
    how = with_conditions(rule, conditions)
    return Claim(name, statement, means, intervals or None, verdict(conditions), how)


def _shares(data: Tb10Data, shares: NDArray[np.float64] | None) -> Measure | None:
    """Returns the mean of shares, with its interval over placements."""
    return None if shares is None else measure(shares, data.confidence)


def _share_within(text: str, share: Measure | None, low: float, high: float = 100.0) -> Condition:
    """Returns the condition that a share in percent lies between two bounds."""
    if share is None:
        return Condition(f"{text}: nothing to measure", None)
    return within(f"{text}, {low:g} to {high:g}%", share, low, high, 1)


def _above(text: str, value: Measure, limit: float) -> Condition:
    """Returns the condition that a mean in points is above a limit."""
    return positive(text, Measure(value.mean - limit, value.low - limit, value.high - limit, value.n), 2)


def _below(text: str, value: Measure, limit: float) -> Condition:
    """Returns the condition that a mean in points is below a limit."""
    return positive(text, Measure(limit - value.mean, limit - value.high, limit - value.low, value.n), 2)


def _t1(data: Tb10Data) -> Claim:
    def near(name: str, flow: str, device: str, lines: int, stream: str = "together") -> Measure | None:
        return _shares(data, data.within(name, flow, device, lines * LINES, stream))

    def far(name: str) -> Measure | None:
        shares = data.within(name, "cpdc", "disk", 128 * LINES)
        return _shares(data, None if shares is None else 100 - shares)

    below, above = (data.within(WEB, "cpdc", "disk", lines * LINES) for lines in (8, 128))
    middle = None if below is None or above is None else above - below
    network = near(WEB, "dpcc", "network", 32)
    high = {
        **{f"{name}: disk DPCC within 32K lines": near(name, "dpcc", "disk", 32) for name in WORKLOADS},
        **{f"{name}: CPDC beyond 128K lines": far(name) for name in LARGE},
        "specweb: disk CPDC between 8K and 128K lines": _shares(data, middle),
        "specweb: network CPDC below 8K lines": near(WEB, "cpdc", "network", 8),
        **{
            f"{name}: separated DPCC within 4K lines": near(name, "dpcc", "disk", 4, "separated")
            for name in WORKLOADS
        },
    }
    text = "network DPCC within 32K lines"
    return _claim(
        "T1",
        "Data that a device wrote are read soon (about 90% of disk, 48% of network data within 32K lines), "
        "data for a device late (beyond 128K lines; of SPECweb 8K to 128K, its network below 8K); separated, "
        "4K lines hold them (Figures 4, 5, 15).",
        {**high, text: network},
        f"Holds if each share is at least {NEAR:g}%, and the network's DPCC lies in its range.",
        [
            *(_share_within(key, share, NEAR) for key, share in high.items()),
            _share_within(text, network, *NETWORK),
        ],
    )


def _t2(data: Tb10Data) -> Claim:
    measured: Measured = {}
    conditions: list[Condition] = []
    for name in WORKLOADS:
        for row in (row for row in rows_of("Table 2", name) if " " in row):
            share = data.sequential(name, row)
            measured[f"{name} {row}"] = share
            if row.startswith("network"):
                conditions.append(
                    _below(f"{name} {row}: {NETWORK_SEQUENTIAL:g} less the share", share, NETWORK_SEQUENTIAL)
                )
            elif data.request_share(name, row).mean >= 1:
                conditions.append(_above(f"{name} {row}: the share less {SEQUENTIAL:g}", share, SEQUENTIAL))
    return _claim(
        "T2",
        "References of disk requests are 93 to 99% sequential, those of network requests under 50% (Table 2; "
        "kinds under 1% of the references of devices excepted).",
        measured,
        f"Holds if each disk kind is at least {SEQUENTIAL:g}% sequential and each network kind under 50%.",
        conditions,
    )


def _t3(data: Tb10Data) -> Claim:
    order = [ddc(256), pbdc(1), Form(SHARED), Form(HINT)]
    conditions: list[Condition] = []
    measured: Measured = {}
    for name in LARGE:
        samples = [data.speed_ups(name, form) for form in order]
        measured |= {f"{name} {form.name}": data.speed_up(name, form) for form in order}
        for better, worse, above, below in zip(order, order[1:], samples, samples[1:], strict=False):
            gap = measure(above - below, data.confidence)
            conditions.append(positive(f"{name}: {better.scheme} above {worse.scheme}", gap, 2))
        conditions.append(
            positive(f"{name}: {order[-1].scheme} above 0", measure(samples[-1], data.confidence), 2)
        )
        equal = (
            ("2 MiB, 256 KiB", pbdc(2), ddc(256)),
            ("4 MiB, 256 KiB", pbdc(1, last_level=4), ddc(256, last_level=4)),
        )
        for text, of_ways, own in equal:
            part = data.speed_ups(name, of_ways) - PART * data.speed_ups(name, own)
            conditions.append(
                positive(f"{name}: PBDC above {PART:g} of DDC at {text}", measure(part, data.confidence), 2)
            )
            measured[f"{name} {of_ways.name}"] = data.speed_up(name, of_ways)
    return _claim(
        "T3",
        "For file-copy and TPC-H: DDC 256 KiB with prefetcher > PBDC with one way > shared-cache written "
        "through > prefetch-hint > snooping-cache, and PBDC has at least 75% of DDC's speed-up at equal "
        "size.",
        measured,
        "Holds if every difference is above zero.",
        conditions,
    )


def _t4(data: Tb10Data) -> Claim:
    conditions: list[Condition] = []
    measured: Measured = {}
    for name in LARGE:
        back, through = (data.speed_up(name, form) for form in (Form(SHARED, write=BACK), Form(SHARED)))
        conditions.append(_below(f"{name}: written back below 0", back, 0.0))
        conditions.append(positive(f"{name}: written through above 0", through, 2))
        measured |= {f"{name} back": back, f"{name} through": through}
    return _claim(
        "T4",
        "Where devices write 100 KB and more at once, shared-cache is slower than the baseline if it writes "
        "back, and faster if it writes through (Figures 13 and 16).",
        measured,
        "Holds if both hold for file-copy and TPC-H.",
        conditions,
    )


def _t5(data: Tb10Data) -> Claim:
    conditions: list[Condition] = []
    measured: Measured = {}
    for name in WORKLOADS:
        gains = {}
        for size in TABLE_SIZES:
            for prefetch in (True, False):
                one, four = (data.speed_ups(name, ddc(size, ways=ways, prefetch=prefetch)) for ways in (1, 4))
                gains[size, prefetch] = measure(np.abs(four - one), data.confidence)
        largest = max(gains.values(), key=lambda gain: gain.mean)
        at_256 = gains[256, True]
        conditions.append(
            _below(f"{name}: {ASSOCIATIVITY:g} less the points at 256 KiB", at_256, ASSOCIATIVITY)
        )
        conditions.append(
            _below(f"{name}: {ASSOCIATIVITY_ANY:g} less the most points", largest, ASSOCIATIVITY_ANY)
        )
        smaller = measure(
            data.speed_ups(name, ddc(256, ways=1)) - data.speed_ups(name, ddc(32, ways=1)), data.confidence
        )
        if name == WEB:
            conditions.append(_below(f"{name}: {NONE:g} less the points from 256 to 32 KiB", smaller, NONE))
        else:
            conditions.append(_above(f"{name}: points from 256 to 32 KiB less {SIZE:g}", smaller, SIZE))
        measured |= {
            f"{name} ways at 256 KiB": at_256,
            f"{name} ways at most": largest,
            f"{name} 256 to 32 KiB": smaller,
        }
    return _claim(
        "T5",
        "From 1 to 4 ways a DMA cache gains at most 1.5 points at 256 KiB and 5 at any size; from 256 to 32 "
        "KiB it loses more than 20 points for file-copy and TPC-H, and none for SPECweb (Table 5).",
        measured,
        "Holds if all of it holds.",
        conditions,
    )


def _t6(data: Tb10Data) -> Claim:
    conditions: list[Condition] = []
    measured: Measured = {}
    for name in LARGE:
        back, through = (
            data.speed_ups(name, replace(Form(SHARED, write=write), fixed=True))
            for write in (BACK, "through")
        )
        apart = measure(np.abs(back - through), data.confidence)
        conditions.append(_below(f"{name}: {FIXED:g} less the points between them", apart, FIXED))
        gain = measure(back, data.confidence)
        conditions.append(
            Condition(
                f"{name}: written back at least 0 ({gain.text(2)})",
                None if gain.low < 0 <= gain.high else gain.low >= 0,
            )
        )
        measured |= {f"{name} back": gain, f"{name} through": measure(through, data.confidence)}
    return _claim(
        "T6",
        "With memory of a fixed latency, shared-cache gains as much written back as written through (2 "
        "points), and does not lose: row conflicts are what T4 shows.",
        measured,
        "Holds if both hold for file-copy and TPC-H.",
        conditions,
    )


def _t7(data: Tb10Data) -> Claim:
    forms = [form for form in every_form() if form.scheme == "pbdc"]
    lines = sum(data.cpu_lines_evicted(name, form) for name in WORKLOADS for form in forms)
    shared = sum(data.cpu_lines_evicted(name, Form(SHARED)) for name in WORKLOADS)
    return _claim(
        "T7",
        "In PBDC no line of the processor's data is evicted by device data, nor the other way.",
        {"lines in PBDC": lines, "lines in shared-cache": shared},
        "Holds if the count is 0 in every run. shared-cache shows that the count counts.",
        [
            Condition(f"{lines} lines in {len(forms)} forms of three workloads", lines == 0),
            Condition(f"{shared} lines in shared-cache", shared > 0),
        ],
    )


def _t8(data: Tb10Data) -> Claim:
    conditions: list[Condition] = []
    measured: Measured = {}
    shared, own = Form(SHARED, write=BACK), ddc(128, write=BACK, prefetch=False)
    for name in LARGE:
        hits = measure(data.hit_rates(name, shared) - data.hit_rates(name, own), data.confidence)
        conditions.append(positive(f"{name}: its hit rate above that of DDC", hits, 2))
        slower = measure(data.speed_ups(name, own) - data.speed_ups(name, shared), data.confidence)
        conditions.append(positive(f"{name}: DDC's speed-up above its own", slower, 2))
        for form in (shared, own):
            measured[f"{name} {form.scheme} hits"] = data.hit_rate(name, form)
            measured[f"{name} {form.scheme}"] = data.speed_up(name, form)
    return _claim(
        "T8",
        "shared-cache written back serves more references to I/O data than a DDC of 128 KiB without "
        "prefetcher, and is yet slower (Figures 13 and 14).",
        measured,
        "Holds if both hold for file-copy and TPC-H.",
        conditions,
    )


def _t9(data: Tb10Data) -> Claim:
    conditions: list[Condition] = []
    measured: Measured = {}
    small, large = ddc(128), Form(SHARED, 8)
    for name in WORKLOADS:
        cycles = [data.cycles(name, form) for form in (small, large)]
        gap = measure(100 * (cycles[1] / cycles[0] - 1), data.confidence)
        conditions.append(positive(f"{name}: fewer cycles, in percent", gap, 2))
        measured[name] = gap
    return _claim(
        "T9",
        "A DDC of 128 KiB beside a last level of 2 MiB beats shared-cache, written through, of 8 MiB.",
        measured,
        "Holds if it takes fewer cycles of memory for all three workloads.",
        conditions,
    )


def _t10(data: Tb10Data) -> Claim:
    gains = {
        name: measure(
            data.speed_ups(name, ddc(256)) - data.speed_ups(name, ddc(256, prefetch=False)), data.confidence
        )
        for name in WORKLOADS
    }
    conditions = [_above("file-copy: points less 20", gains["file-copy"], PREFETCH)]
    conditions += [_below(f"{name}: {NONE:g} less the points", gains[name], NONE) for name in ("tpch", WEB)]
    return _claim(
        "T10",
        "The prefetcher gains more than 20 points for file-copy, and about none where devices rarely read.",
        {**gains},
        "Holds if all of it holds at 256 KiB.",
        conditions,
    )


def _t11(data: Tb10Data) -> Claim:
    forms = [ddc(size, write=BACK, prefetch=prefetch) for size in SIZES[-2:] for prefetch in (True, False)]
    found = {f"{name} {form.name}": data.speed_up(name, form) for name in LARGE for form in forms}
    least = min(found, key=lambda key: found[key].mean)
    return _claim(
        "T11",
        "A DDC of 32 to 64 KiB that writes back may be slower than the baseline where requests are large.",
        {**found},
        f"Holds if one of these forms is slower ({DDC}, written back).",
        [_below(f"{least}: below 0", found[least], 0.0)],
    )
