"""Saves where the pages of a running program lie, for `binhop run ... --v2p FILE`.

As root: python pagemap.py PID FILE

FILE gets the entries of /proc/PID/pagemap, range by range; FILE.maps gets /proc/PID/maps, which names the
ranges. Stop the program meanwhile (kill -STOP PID) if it maps and unmaps much. What cannot be saved whole
is not written.
"""

import os
import sys
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
ENTRY = 8
KERNEL = 1 << 63  # from here on the kernel tells nothing


def save(pid: str, file: Path) -> None:
    """Writes both files: under other names until they are whole."""
    # Bytes, and lines that end in a line feed only: names of files may hold any other byte.
    maps = Path(f"/proc/{pid}/maps").read_bytes()
    if not maps:
        sys.exit(f"{pid}: has no memory of its own: it has ended, or belongs to the kernel")
    parts = {Path(f"{file}.part"): file, Path(f"{file}.maps.part"): Path(f"{file}.maps")}
    entries, ranges = parts
    try:
        copy(pid, maps, entries)
        ranges.write_bytes(b"page_size %d\n%b" % (PAGE, maps))
        for part, whole in parts.items():
            part.replace(whole)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def copy(pid: str, maps: bytes, file: Path) -> None:
    """Writes the entries of all ranges, one range behind the other."""
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap, file.open("wb") as out:
        for line in maps.rstrip(b"\n").split(b"\n"):
            start, end = (int(address, 16) for address in line.split()[0].split(b"-"))
            if start >= KERNEL:
                continue
            at, left = start // PAGE * ENTRY, (end - start) // PAGE * ENTRY
            while left > 0:
                some = os.pread(pagemap.fileno(), min(left, 1 << 20), at)
                if not some:
                    sys.exit(f"{start:x}: the kernel tells nothing of this address")
                out.write(some)
                at, left = at + len(some), left - len(some)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        save(sys.argv[1], Path(sys.argv[2]))
    except OSError as error:
        sys.exit(str(error))
