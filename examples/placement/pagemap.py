"""Saves where the pages of a running program lie, for `binhop run ... --v2p FILE`.

As root: python pagemap.py PID FILE

FILE gets the entries of /proc/PID/pagemap, range by range; FILE.maps gets /proc/PID/maps, which names the
ranges. Stop the program meanwhile (kill -STOP PID) if it maps and unmaps much.
"""

import os
import sys
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
ENTRY = 8
KERNEL = 1 << 63  # from here on the kernel tells nothing


def save(pid: str, file: Path) -> None:
    """Writes both files."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap, file.open("wb") as out:
        for line in maps.splitlines():
            start, end = (int(address, 16) for address in line.split()[0].split("-"))
            if start >= KERNEL:
                continue
            at, left = start // PAGE * ENTRY, (end - start) // PAGE * ENTRY
            while left > 0:
                some = os.pread(pagemap.fileno(), min(left, 1 << 20), at)
                if not some:
                    sys.exit(f"{start:x}: the kernel tells nothing of this address")
                out.write(some)
                at, left = at + len(some), left - len(some)
    Path(f"{file}.maps").write_text(f"page_size {PAGE}\n{maps}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    save(sys.argv[1], Path(sys.argv[2]))
