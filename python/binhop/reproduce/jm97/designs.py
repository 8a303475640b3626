"""Makes the machines of the study: software that translates at cache misses, and designs with a TLB."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from binhop._binhop import Machine

KIB = 1024
KEPT, TABLE = "softvm-kept", "softvm-table"
JM97, X86, HASHED, MODERN = "mips", "x86", "hashed", "two-level"


@dataclass(frozen=True)
class Design:
    """`Design` is a way to translate.

    Attributes:
        text: The design in words.
        machine: The bundled machine from which it is made.
        settings: The settings that turn this machine into the design.
        own_tlbs: Whether the settings state the TLBs and the page table, in the place of the machine's.
    """

    text: str
    machine: str
    settings: tuple[str, ...] = ()
    own_tlbs: bool = False


DESIGNS = {
    KEPT: Design(
        "software at cache misses; lines keep their translation for write-backs",
        "softvm",
        ("translation.write-backs=kept",),
    ),
    TABLE: Design(
        "software at cache misses; write-backs are translated by the table",
        "softvm",
        ("translation.write-backs=table",),
    ),
    JM97: Design("MIPS: 64 entries, random replacement, 8 wired, refilled by software", "jm97"),
    X86: Design(
        "x86: 64 entries, radix table of 2 levels, refilled by hardware",
        "jm97",
        ("translation.table=radix", "translation.levels=2", "translation.refill=hardware"),
    ),
    HASHED: Design("64 entries, hashed table, refilled by software", "jm97", ("translation.table=hashed",)),
    MODERN: Design(
        "two levels: 64 entries for fetches, 96 for data, 2048 behind; radix table of 4 levels, walk caches",
        "jm97",
        (
            "tlb.itlb.serves=fetch",
            "tlb.itlb.entries=64",
            "tlb.itlb.next=stlb",
            "tlb.dtlb.serves=data",
            "tlb.dtlb.entries=96",
            "tlb.dtlb.next=stlb",
            "tlb.stlb.entries=2048",
            "tlb.stlb.ways=8",
            "walk-cache.0.entries=4",
            "walk-cache.1.entries=16",
            "walk-cache.2.entries=64",
            "translation.table=radix",
            "translation.levels=4",
            "translation.refill=hardware",
            "translation.second-level=7",
        ),
        own_tlbs=True,
    ),
}
"""The designs, in the order of the page. All have the same caches and costs."""
SOFTVM = (KEPT, TABLE)
WITH_TLB = (JM97, X86, HASHED, MODERN)
MEMORY = ("memory.size=1GiB",)
"""No program of the study needs so much, so no page is evicted."""
RESERVE = "translation.reserve=64MiB"
"""The frames for page tables: a hashed table takes up to 64 bytes for each frame of memory."""


@dataclass(frozen=True)
class Organization:
    """`Organization` is the sizes of the caches of one side, and of their lines, in bytes."""

    level_1: int = 8 * KIB
    level_2: int = 512 * KIB
    line_1: int = 16
    line_2: int = 16

    @property
    def settings(self) -> list[str]:
        """The settings of both sides."""
        of = {
            "l1i": (self.level_1, self.line_1),
            "l1d": (self.level_1, self.line_1),
            "l2i": (self.level_2, self.line_2),
            "l2d": (self.level_2, self.line_2),
        }
        return [
            setting
            for cache, (size, line) in of.items()
            for setting in (f"cache.{cache}.size={size}B", f"cache.{cache}.line={line}B")
        ]


REFERENCE = Organization()
"""The caches of Tables 1, 3 and 4: 8 + 8 KiB, 512 + 512 KiB, lines of 16 bytes (§5.1)."""


@cache
def machine(design: str, organization: Organization = REFERENCE) -> Machine:
    """Returns the machine of a design with these caches. Its translation is on."""
    made = DESIGNS[design]
    settings = [*MEMORY, "translation.active=true", *organization.settings, *made.settings]
    if design in WITH_TLB:
        settings.append(RESERVE)
    if not made.own_tlbs:
        return Machine.load(made.machine, settings)
    # The machine's own TLB and page table make room for those of the settings.
    sections = re.split(r"^(?=\[)", Machine.load(made.machine).resolved(), flags=re.MULTILINE)
    kept = [part for part in sections if not part.startswith(("[tlb", "[translation"))]
    return Machine.parse("".join(kept), made.machine, settings)
