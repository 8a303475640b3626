"""Judges every claim of KH90, and decides how much of the study a verdict needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop.reproduce.kh90 import rates, spaces, trend, worth

if TYPE_CHECKING:
    from binhop.reproduce.claims import Claim
    from binhop.reproduce.kh90.data import Kh90Data

MODEL = ("K1", "K2")
"""The claims about the model alone, which need no simulation."""
CONFLICTS = ("K3", "K4", "K15")
"""The claims about the pages that lie in memory at a moment."""
WHOLE = 3_000_000_000
"""The instructions of a workload at paper scale: as many as the paper's shortest trace has (§4.1.1)."""
PART = 0.5
"""The share of `WHOLE` below which a claim about misses is undecided, as for LF91. Caches, above all
those of 16 MiB, start cold, and a prefix does not represent the whole program."""
SOME = 0.1
"""The share of `WHOLE` below which a claim about conflicts is undecided. Conflicts depend only on where pages
lie, so a cold start does not affect them. Each rule also requires its own minimum of processes."""


def judge(data: Kh90Data) -> list[Claim]:
    """Returns the claims K1 to K15, judged; undecided where the run is too short."""
    claims = [rule(data) for rule in (*spaces.ALL, *trend.ALL, *rates.ALL, *worth.ALL)]
    run, workload = min((count, name) for name, count in data.instructions.items())
    return sorted((_long_enough(one, run, workload) for one in claims), key=lambda one: int(one.id[1:]))


def _long_enough(claim: Claim, run: int, workload: str) -> Claim:
    """Returns the claim, which is undecided if the shortest run of a workload is too short for it."""
    least = 0 if claim.id in MODEL else SOME if claim.id in CONFLICTS else PART
    if run >= least * WHOLE:
        return claim
    about = "where pages lie" if claim.id in CONFLICTS else "misses"
    return claim.undecided(
        f"Undecided: the prefix is too short. Of {workload} {run / 1e6:,.0f} M instructions were executed, "
        f"{run / WHOLE:.2g} of the {WHOLE / 1e9:g} G of paper scale; a verdict about {about} needs {least:g}."
    )
