"""Tests that a short document which asks for millions of cells is refused before any cell is made."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from binhop import study
from binhop.errors import RequestError
from binhop.study import cells

if TYPE_CHECKING:
    from pathlib import Path

HEAD = 'name = "s"\ntitle = "t"\nseeds = 1\nlength = "1k"\n'
AXES = ["cache.l1i.size", "cache.l1d.size", "cache.l2.size", "memory.size", "placement.pool", "cache.l2.ways"]


def document(parts: int, values: int, axes: int) -> str:
    """Returns a study of this many parts, each with `values` to the power of `axes` cells."""
    numbers = [*range(1, values + 1)]
    lines = "".join(f'"{axis}" = {numbers}\n' for axis in [*AXES, "cache.l2.line"][:axes])
    return HEAD + "".join(
        f'[[part]]\nname = "p{part}"\nworkloads = ["lin"]\nmachine = "kh90"\n[part.axes]\n{lines}'
        for part in range(parts)
    )


@pytest.mark.parametrize(
    ("parts", "values", "axes", "message"),
    [
        (1, 10, 7, "part p0: 10000000 cells: a part has at most 10000 cells"),
        (1000, 10, 4, "study: 10000000 cells: a study has at most 100000 cells, and a part at most 10000"),
        (11, 10, 4, "study: 110000 cells: a study has at most 100000 cells"),
    ],
)
def test_ten_million_cells_are_refused_before_one_is_made(
    parts: int, values: int, axes: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(*_: object) -> None:
        raise AssertionError("a cell is made")

    monkeypatch.setattr(cells, "_places", made)
    with pytest.raises(RequestError) as refused:
        cells.plan(study.parse(document(parts, values, axes)))
    assert message in str(refused.value)
    assert "leave values out" in refused.value.remedy


# The peak of `getrusage` would include that of the process which started the child.
PEAK = """
import sys
from binhop.errors import RequestError
from binhop.study import cells, load
from pathlib import Path
try:
    cells.plan(load(Path(sys.argv[1])))
except RequestError:
    pass
print(int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10)
"""


def peak(path: Path, text: str) -> int:
    path.write_text(text)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    done = subprocess.run(
        [sys.executable, "-c", PEAK, path], stdout=subprocess.PIPE, text=True, check=True, preexec_fn=limit
    )
    return int(done.stdout)


def test_a_refusal_takes_no_more_memory_than_a_study_of_one_cell(tmp_path: Path) -> None:
    assert peak(tmp_path / "s.toml", document(1, 10, 7)) - peak(tmp_path / "one.toml", document(1, 1, 1)) <= (
        8 << 20
    )
