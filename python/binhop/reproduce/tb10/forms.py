"""Lists the forms of schemes that the study compares: those of TB10's figures and tables, and our own.

A form is a scheme with the size of the last level, the write policy of device data, and the size, ways and
prefetcher of a DMA cache. All forms stand behind the front of the machine `tb10`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

SNOOPING, SHARED, HINT, DDC, PBDC = "snooping-cache", "shared-cache", "prefetch-hint", "ddc", "pbdc"
BACK, THROUGH = "back", "through"
KIB = 1024
SIZES = (512, 256, 128, 64, 32)
"""The sizes of the DMA cache, in KiB (Figures 13 and 16)."""
TABLE_SIZES = (256, 128, 64, 32)
"""The sizes of the DMA cache in Tables 5 and 6, in KiB."""
WAYS = (1, 2, 4)
LAST_LEVELS = (2, 4, 8)
"""The sizes of the last level, in MiB (Table 6)."""
DEGREE = 4
"""The lines that the prefetcher brings in (§3.1.5)."""


@dataclass(frozen=True)
class Form:
    """`Form` is a scheme in one form.

    Attributes:
        scheme: The scheme.
        last_level: The size of the last level, in MiB.
        write: The write policy of device data, "back" or "through".
        size: The size of the DMA cache in KiB (ddc); 0 for other schemes.
        ways: The ways of the DMA cache (ddc), or those of the last level that serve as a DMA cache (pbdc).
        prefetch: The lines that the prefetcher brings in (ddc, pbdc).
        fixed: Whether memory has a fixed latency, and no controller.
        setting: A further setting of the machine, or "".
    """

    scheme: str
    last_level: int = 2
    write: str = THROUGH
    size: int = 0
    ways: int = 0
    prefetch: int = 0
    fixed: bool = False
    setting: str = ""

    @property
    def name(self) -> str:
        """The name of the form in results.

        >>> Form(DDC, size=64, ways=4, prefetch=4).name
        'ddc 2M through 64K 4-way P'
        """
        words = [self.scheme, f"{self.last_level}M"]
        if self.scheme not in (SNOOPING, HINT):
            words.append(self.write)
        if self.scheme == DDC:
            words += [f"{self.size}K", f"{self.ways}-way"]
        if self.scheme == PBDC:
            words.append(f"{self.ways}-way")
        if self.scheme in (DDC, PBDC):
            words.append("P" if self.prefetch else "NP")
        return " ".join(
            [*words, *(["fixed"] if self.fixed else []), *([self.setting] if self.setting else [])]
        )

    @property
    def baseline(self) -> Form:
        """The baseline of the form: the existing scheme, with the same last level and memory."""
        return Form(SNOOPING, self.last_level, fixed=self.fixed, setting=self.setting)

    def settings(self) -> list[str]:
        """Returns the settings of the machine."""
        made = [f"cache.l3.size={self.last_level}MiB", f"io.write={self.write}"]
        if self.scheme == DDC:
            made += [f"io.dma-cache={self.size}KiB", f"io.dma-cache-ways={self.ways}"]
        if self.scheme == PBDC:
            made.append(f"io.pbdc-ways={self.ways}")
        if self.scheme in (DDC, PBDC):
            made.append(f"io.prefetch={self.prefetch}")
        return [*made, *(["dram=off"] if self.fixed else []), *([self.setting] if self.setting else [])]


def ddc(
    size: int, *, write: str = THROUGH, ways: int = 4, prefetch: bool = True, last_level: int = 2
) -> Form:
    """Returns a form of the decoupled DMA cache; `size` is in KiB."""
    return Form(DDC, last_level, write, size, ways, DEGREE if prefetch else 0)


def pbdc(ways: int, *, last_level: int = 2) -> Form:
    """Returns a form of the DMA cache in ways of the last level, with the prefetcher."""
    return Form(PBDC, last_level, THROUGH, 0, ways, DEGREE)


BASELINE = Form(SNOOPING)
MAIN = (BASELINE, Form(SHARED, write=BACK), Form(SHARED), Form(HINT), ddc(256), ddc(256, write=BACK), pbdc(1))
"""The forms whose order the claims are about: those of the sensitivity table, and of the second tap."""


def every_form() -> list[Form]:
    """Returns the forms of all figures and tables, each once."""
    made = [*MAIN]
    for write in (BACK, THROUGH):  # Figures 13 to 19
        made.append(Form(SHARED, write=write))
        made += [ddc(size, write=write, prefetch=prefetch) for size in SIZES for prefetch in (True, False)]
    for ways in WAYS:  # Table 5
        made += [
            ddc(size, ways=ways, prefetch=prefetch) for size in TABLE_SIZES for prefetch in (True, False)
        ]
    for last_level in LAST_LEVELS:  # Table 6
        made += [Form(SNOOPING, last_level), Form(SHARED, last_level)]
        made += [
            ddc(size, prefetch=prefetch, last_level=last_level)
            for size in TABLE_SIZES
            for prefetch in (True, False)
        ]
    for last_level in (2, 4):  # Figures 20 and 21
        made += [Form(HINT, last_level), *(pbdc(ways, last_level=last_level) for ways in (1, 2))]
    for form in MAIN:  # §5.2: a fixed latency hides what a controller shows
        made.append(replace(form, fixed=True))
    return [*dict.fromkeys(made)]


SENSITIVITY = {
    "": "as in the machine `tb10`",
    "dram.queue=8": "a queue of 8 requests, in place of 32",
    "dram.queue=64": "a queue of 64 requests",
    "dram.mapping=row-rank-bank-group-column-channel+hash": "banks chosen by a hash of the row",
    "dram.mapping=row-column-rank-bank-group-channel": "banks changed at every line",
    "dram.pages=closed": "rows closed after use",
    "dram.drain-low=0": "writes that drain to the last one",
}
"""The choices about memory that are ours, by the setting that changes each."""


def sensitive_forms() -> list[Form]:
    """Returns the main forms, once for each of our own choices that is changed."""
    return [replace(form, setting=setting) for setting in SENSITIVITY for form in MAIN]
