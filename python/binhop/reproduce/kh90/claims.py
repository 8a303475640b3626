"""Every claim of KH90, judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop.reproduce.kh90 import rates, spaces, trend, worth

if TYPE_CHECKING:
    from binhop.reproduce.claims import Claim
    from binhop.reproduce.kh90.data import Data

MODEL = ("K1", "K2")
"""Claims about the model alone: no prefix is too short for them."""


def judge(data: Data) -> list[Claim]:
    """K1 to K15, in order. At smoke scale none that needs a trace has a verdict."""
    claims = [rule(data) for rule in (*spaces.ALL, *trend.ALL, *rates.ALL, *worth.ALL)]
    if data.scale == "smoke":
        reason = "Undecided at smoke scale: the prefix is too short for a verdict."
        claims = [claim if claim.id in MODEL else claim.undecided(reason) for claim in claims]
    return sorted(claims, key=lambda claim: int(claim.id[1:]))
