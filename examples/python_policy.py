"""A placement policy in Python, against the built-in ones.

Page coloring: the frame whose cache bin is the page number's, so that neighbours never fight. It is called
only when a page is placed, so that it costs next to nothing.
"""

import binhop

LENGTH = 500_000
BINS = 256  # kh90's level 2: 4 MiB, direct-mapped, over pages of 16 KiB


def page_coloring(request: binhop.Request, pool: binhop.Pool) -> int:
    """The least recently used frame of the right color, else the least recently used of all."""
    color = request.page_no % BINS
    return next((frame for frame in pool.frames() if frame % BINS == color), pool[0])


class BinHopping:
    """Pages that are touched one after the other go to bins one after the other. Made anew per placement."""

    def __init__(self) -> None:
        """Starts before the first bin."""
        self.last = -1

    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        """The first bin after the last one that has a frame in the pool."""
        first = {}
        for frame in pool.frames():
            first.setdefault((frame - self.last - 1) % BINS, frame)
        nearest = min(first)
        self.last = (self.last + 1 + nearest) % BINS
        return first[nearest]


for name, policy in [("random", None), ("page coloring", page_coloring), ("bin hopping", BinHopping)]:
    result = binhop.simulate("kh90", "mult2.2", length=LENGTH, seeds=8, policy=policy)
    mean = result.summary().filter(metric="l2.mpi")["mean"][0]
    print(f"{name:14} {1000 * mean:.3f} level-2 misses per 1000 instructions")
