"""Computes the effective memory utilization with colored free lists (LF91 §3).

The counting rules: memory is c lists (colors) of k frames. Pages are allocated one after another, each to a
color drawn at random. E(c, k) is the mean number of pages that are allocated when the first list is full,
including the page that fills it. M_eff = E(c, k) / (c·k) compares this number with a single list, which is
full when all c·k frames are allocated.

With pages that arrive as a Poisson process (Klamkin and Newman 1967), E(c, k) = c ∫₀^∞ Q(k, u)^c du. Here
Q(k, u) = e^(−u) Σ_{j<k} u^j / j!, the upper regularized incomplete gamma function, is the chance that a list
has received fewer than k pages by the time u. LF91 prints the sum up to j = k. The printed formula gives the
time at which a list of k frames would *overflow*, and M_eff = 1 + 1/k for one color, where the text asks for
1; `utilization_as_printed` computes it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaincc

from binhop.arguments import integer, seed_number
from binhop.models.estimate import Estimate

RUNS = 2000
"""The default runs of a Monte Carlo: "a few thousand" (LF91 §3)."""


def allocations(colors: int, frames: int) -> float:
    """Returns E(c, k), the mean number of pages allocated until one of `colors` lists of `frames` is full.

    >>> round(allocations(2, 1), 6), round(allocations(2, 2), 6)  # the first page; the second or third
    (1.0, 2.5)
    """
    _at_least_one(colors=colors, frames=frames)
    # Q(k, u) falls from 1 to 0 around u = k, within a few √k: beyond 12 of them it is below 10⁻²⁰.
    wide = 12 * math.sqrt(frames)
    low, high = max(0.0, frames - wide), frames + wide + 60
    area, _ = quad(
        lambda u: gammaincc(frames, u) ** colors,
        low,
        high,
        limit=500,
        epsabs=0,
        epsrel=1e-11,
        points=[frames],
    )
    return float(colors * (low + area))


def utilization(colors: int, frames: int) -> float:
    """Returns M_eff(c, k) = E(c, k) / (c·k), at most 1.

    >>> utilization(1, 2048)  # one color
    1.0
    >>> round(utilization(64, 32), 4)  # 8 MiB in pages of 4 KiB
    0.6347
    """
    if colors == 1:
        return 1.0
    return allocations(colors, frames) / (colors * frames)


def utilization_as_printed(colors: int, frames: int) -> float:
    """Returns the value of the formula as LF91 prints it, with the sum up to j = k: E(c, k + 1) / (c·k).

    >>> round(utilization_as_printed(1, 2048), 6) == round(1 + 1 / 2048, 6)
    True
    """
    return allocations(colors, frames + 1) / (colors * frames)


def monte_carlo(colors: int, frames: int, *, runs: int = RUNS, seed: int = 0) -> Estimate:
    """Returns M_eff over runs that allocate page after page at random until one list is full.

    >>> from binhop.models.estimate import agrees
    >>> agrees(utilization(8, 16), monte_carlo(8, 16))
    True
    """
    _at_least_one(colors=colors, frames=frames)
    runs = integer(runs, "runs", least=2)  # a standard error needs two
    generator = np.random.default_rng([seed_number(seed), colors, frames])
    most = colors * (frames - 1) + 1  # then one list must be full
    ratios = [_full(_drawn(generator, colors, most), colors, frames) for _ in range(runs)]
    used = np.array(ratios) / (colors * frames)
    return Estimate(float(used.mean()), float(used.std(ddof=1) / math.sqrt(runs)))


def _drawn(generator: np.random.Generator, colors: int, number: int) -> np.ndarray:
    """Draws random colors: the low bits of bytes where possible, which is many times faster."""
    if colors <= 256 and 256 % colors == 0:
        return np.frombuffer(generator.bytes(number), dtype=np.uint8) & np.uint8(colors - 1)
    return generator.integers(colors, size=number, dtype=np.uint16 if colors <= 65536 else np.uint32)


def _full(drawn: np.ndarray, colors: int, frames: int) -> int:
    """Returns how many of the drawn colors it takes until one color has come up `frames` times."""
    when = np.argsort(drawn, kind="stable")  # color by color, in order of drawing
    counts = np.bincount(drawn, minlength=colors)
    begin = np.cumsum(counts) - counts
    enough = begin[counts >= frames]
    return int(when[enough + frames - 1].min()) + 1


def _at_least_one(**numbers: int) -> None:
    for name, number in numbers.items():
        integer(number, name, least=1)
