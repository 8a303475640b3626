"""Saves the frames of the pages of a running program, for `binhop run ... --v2p FILE`.

Usage, as root: python pagemap.py PID FILE

FILE gets the entries of /proc/PID/pagemap, range by range. FILE.maps gets /proc/PID/maps, which gives the
ranges. If the program maps and unmaps much memory, stop it meanwhile (kill -STOP PID). If something cannot
be read, neither file is written.
"""

import os
import sys
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
ENTRY = 8
KERNEL = 1 << 63  # from this address on the kernel has no entries


def save(pid: str, file: Path) -> None:
    """Writes both files. They have other names until they are complete."""
    # The maps are read as bytes, and lines end only at a line feed: a file's name may hold any other byte.
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
    """Writes the entries of all ranges, one range after the other."""
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap, file.open("wb") as out:
        for line in maps.rstrip(b"\n").split(b"\n"):
            start, end = (int(address, 16) for address in line.split()[0].split(b"-"))
            if start >= KERNEL:
                continue
            at, left = start // PAGE * ENTRY, (end - start) // PAGE * ENTRY
            while left > 0:
                some = os.pread(pagemap.fileno(), min(left, 1 << 20), at)
                if not some:
                    sys.exit(f"{start:x}: the kernel has no entry for this address")
                out.write(some)
                at, left = at + len(some), left - len(some)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        save(sys.argv[1], Path(sys.argv[2]))
    except OSError as error:
        sys.exit(str(error))
