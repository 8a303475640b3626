"""Numbers as people write them: 50M references, 1.5G, 200k."""

from __future__ import annotations

import re
from fractions import Fraction

from binhop.errors import RequestError

SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_NUMBER = re.compile(r"(\d+(?:_\d+)*(?:\.\d+)?)([kKMGT]?)")


def count(text: str | None, option: str) -> int | None:
    """A whole number with an optional decimal suffix.

    >>> count("1.5k", "--length")
    1500
    """
    if text is None:
        return None
    found = _NUMBER.fullmatch(text.strip())
    rule = "must be a whole number, with k, M, G or T for thousands and so on"
    if found is None:
        raise RequestError(text, option, rule, f"write it like {option} 50M")
    exact = Fraction(found[1].replace("_", "")) * SUFFIXES["k" if found[2] == "K" else found[2]]
    if exact.denominator != 1:
        raise RequestError(text, option, "must come out as a whole number", f"write it like {option} 1500k")
    if exact >= 2**63:
        raise RequestError(text, option, "must be less than 9.2 × 10^18", f"write it like {option} 50M")
    return int(exact)
