"""Reads and writes numbers as people write them: 50M references, 1.5G, 200k; and sizes, as in 16KiB."""

from __future__ import annotations

import re

from binhop.errors import RequestError

EXAMPLES = {
    "--seeds": "64",
    "--top-conflicts": "20",
    "--seed": "17",
    "--threads": "2",
    "--interval": "1M",
    "--warmup": "10M",
    "--rows": "20",
    "--window": "1M",
    "--every": "10M",
    "--address": "0x1000-0x2000",
    "--quantum": "400k",
    "--ways": "8",
    "--latency": "100k",
    "--fault-latency": "1M",
    "--colors": "16",
}
"""The example in the remedy of each option; 50M for any other option."""

SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNITS = {"TiB": 40, "GiB": 30, "MiB": 20, "KiB": 10, "B": 0}
"""The units of sizes, and the power of two that each unit stands for."""
_NUMBER = r"(\d+(?:_\d+)*(?:\.\d+)?)([kKMGT]?)"
_SIZE = r"(\d+) ?(B|[KMGT]iB)"


def count(text: str | None, option: str, *, least: int = 0) -> int | None:
    """Returns a whole number, which may have a decimal suffix. `least` is the least number that is taken.

    >>> count("1.5k", "--length")
    1500
    """
    if text is None:
        return None
    found = re.fullmatch(_NUMBER, text.strip())
    rule = f"must be a whole number, {least} or more, with k, M, G or T for thousands and so on"
    if found is None:
        raise RequestError(text, option, rule, like(option))
    whole, _, decimals = found[1].replace("_", "").partition(".")
    parts = int("1" + "0" * len(decimals))
    exact, rest = divmod(int(whole + decimals) * SUFFIXES["k" if found[2] == "K" else found[2]], parts)
    if rest:
        raise RequestError(text, option, "must stand for a whole number", like(option))
    if exact >= 2**63:
        raise RequestError(text, option, "must be less than 9.2 × 10^18", like(option))
    if exact < least:
        raise RequestError(text, option, f"must be at least {least}", like(option))
    return exact


def size_in_bytes(text: str, place: str = "size") -> int:
    """Returns the bytes of a size with its binary unit, as in a machine description.

    >>> size_in_bytes("16KiB"), size_in_bytes("64B")
    (16384, 64)
    """
    found = re.fullmatch(_SIZE, text)
    if found is None:
        rule = "a size is a whole number with a unit: B, KiB, MiB, GiB or TiB"
        raise RequestError(text, place, rule, "write it like 4MiB")
    return int(found[1]) << UNITS[found[2]]


def like(option: str) -> str:
    """Returns the remedy for a text that is no number.

    >>> like("--threads"), like("FROM")
    ('write it like --threads 2', 'write a number like 50M')
    """
    if option.isupper():  # an argument of the command that has no option
        return f"write a number like {EXAMPLES.get(option, '50M')}"
    if not option.startswith("-"):  # an argument of a function
        return f'write it like {option}="{EXAMPLES.get(f"--{option}", "50M")}"'
    return f"write it like {option} {EXAMPLES.get(option, '50M')}"


def grouped(number: float) -> str:
    """Returns a whole number with its thousands apart: 1 234 567."""
    return f"{round(number):,}".replace(",", " ")


def counted(number: float, noun: str, plural: str | None = None) -> str:
    """Returns a whole number with its thousands apart, and the noun that it counts.

    >>> counted(1, "reference"), counted(12_000, "switch", "switches")
    ('1 reference', '12 000 switches')
    """
    return f"{grouped(number)} {noun if round(number) == 1 else plural or noun + 's'}"


def figure(value: float | None, unit: str) -> str:
    """Returns a metric's value: misses per 1000 instructions, counts whole, other ratios to four figures."""
    if value is None:
        return "-"
    if unit == "misses/instruction":
        return rate(value)
    return f"{value:#.4g}".rstrip(".") if "/" in unit else grouped(value)


def signed(value: float, unit: str) -> str:
    """Returns a difference in the same units, with three figures and a sign."""
    if unit == "misses/instruction":
        value *= 1000
    if abs(value) >= 1000:
        return f"{round(value):+,}".replace(",", " ")
    return f"{value:+#.3g}".rstrip(".")


def rate(value: float | None) -> str:
    """Returns misses per 1000 instructions from misses per instruction, with four significant figures."""
    if value is None:
        return "-"
    number = 1000 * value
    return f"{number:.1f}" if number >= 1000 else f"{number:#.4g}".rstrip(".")


def percent(value: float) -> str:
    """Returns a share in percent.

    >>> percent(0.0712), percent(0.0051), percent(1.0)
    ('7.12%', '0.51%', '100%')
    """
    number = 100 * value
    return (
        f"{number:.0f}%"
        if abs(number) >= 99.95
        else f"{number:.2f}%"
        if abs(number) < 10
        else f"{number:.1f}%"
    )


def is_share(unit: str) -> bool:
    """Returns whether the unit of a ratio is that of a share of a whole.

    >>> is_share("lines/line"), is_share("cycles/line"), is_share("lines")
    (True, False, False)
    """
    part, _, whole = unit.partition("/")
    return bool(whole) and part.removesuffix("s") == whole
