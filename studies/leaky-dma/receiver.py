"""Writes the traces of two servers that receive a stream of packets, beside this file.

Each call receives 1 KiB from a socket, and the server then reads what it received, 64 bytes at a time. That
is all that the server of receiver.parquet does. The server of lookups.parquet also reads four entries of 256
bytes in a table of 64 MiB behind each call, which is more than the caches hold.

The traces hold calls and the server's own references alone. The ring, the packets, the card's transfers and
the kernel's copies come from the section `[io]` of the machine that simulates the trace.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from binhop import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = 32 * 1024
"""The calls: 32 MiB, so a ring of 4,096 packets of 1,500 bytes is used up five times."""
BYTES = 1024
"""The bytes of a call."""
LINE = 64
TEXT, BUFFER, TABLE = 0x40_0000, 0x1000_0000, 0x2000_0000
ENTRY, ENTRIES = 256, 1 << 18
"""The bytes of an entry of the table, and the entries."""
LOOKUPS = 4
"""The entries that are read behind a call."""
STEP = 0x9E37_79B1
"""The entries between two that are read one after the other. It is odd, so each entry is read in its turn."""
RECVFROM = 45
META = (
    '{"page_size":4096,"recorder":"studies/leaky-dma/receiver.py","command":"NAME","sizes":"exact"}',
    '{"processes":{"0":{"pid":null,"command":"NAME"}}}',
    '{"segments":{"1":{"file":"NAME","kind":"text"},"2":{"file":null,"kind":"data"},'
    '"3":{"file":null,"kind":"heap"}}}',
    '{"files":{"1":"socket:[1]"}}',
)


def lines(name: str, lookups: int, calls: int = CALLS) -> Iterator[str]:
    """Yields a trace as lines of text (docs/traces.md)."""
    yield from (f"# meta {fact.replace('NAME', name)}" for fact in META)
    yield f"map {TEXT:#x} pages=1 flags=r-x segment=1 offset=0x0"
    yield f"map {BUFFER:#x} pages=1 flags=rw- segment=2 offset=0x0"
    if lookups:
        yield f"map {TABLE:#x} pages={ENTRY * ENTRIES // 4096} flags=rw- segment=3 offset=0x0"
    entry = 0
    for _ in range(calls):
        yield f"fetch {TEXT:#x} size=32 count=8"
        yield f"syscall {BUFFER:#x} bytes={BYTES} call={RECVFROM} file=1 offset=0x0"
        for byte in range(0, BYTES, LINE):
            yield f"fetch {TEXT + 0x40:#x} size=16 count=4"
            yield f"load {BUFFER + byte:#x} size=8"
        for _ in range(lookups):
            entry = (entry + STEP) % ENTRIES
            yield f"fetch {TEXT + 0x80:#x} size=16 count=4"
            yield f"load {TABLE + ENTRY * entry:#x} size={ENTRY}"


def write(path: Path, lookups: int, calls: int = CALLS) -> None:
    """Writes a trace, which is named after the file."""
    with tempfile.TemporaryDirectory() as directory:
        text = Path(directory) / "lines.events"
        text.write_text("".join(f"{line}\n" for line in lines(path.stem, lookups, calls)), encoding="utf-8")
        Trace.open(text).write(path, made_by="studies/leaky-dma/receiver.py")


if __name__ == "__main__":
    here = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    write(here / "receiver.parquet", 0)
    write(here / "lookups.parquet", LOOKUPS)
