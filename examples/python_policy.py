"""Compares two placement policies in Python with random placement.

Page coloring takes a frame whose bin is the page number mod the number of bins, so that neighbouring pages
never conflict. binhop calls a policy only when a page is placed, so a policy in Python costs little time.
"""

import binhop

LENGTH = 500_000
BINS = 256  # kh90's level 2: 4 MiB, direct-mapped, over pages of 16 KiB


def page_coloring(request: binhop.Request, pool: binhop.Pool) -> int:
    """Returns the least recently used frame of the page's color, or else of the pool."""
    color = request.page_no % BINS
    return next((frame for frame in pool.frames() if frame % BINS == color), pool[0])


class BinHopping:
    """`BinHopping` gives successive pages successive bins. Each placement has a new object of the class."""

    def __init__(self) -> None:
        """Makes a policy whose next bin is the first bin."""
        self.last = -1

    def choose(self, request: binhop.Request, pool: binhop.Pool) -> int:
        """Returns a frame of the pool in the next bin that has such a frame."""
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
