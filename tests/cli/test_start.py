"""A command imports only the libraries that it needs, and collects no garbage while it imports them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from scipy.stats import t

from binhop.student import CONFIDENCE, KNOWN, student

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = {"altair", "dask", "numpy", "pandas", "polars", "pyarrow", "pydantic", "scipy", "vl_convert"}
RUN = "run kh90 lin --length 10k --seeds 4"


def after(line: str, shown: str) -> list[str]:
    """Returns the words that the Python expression `shown` prints when the command's process ends."""
    code = "import atexit, gc; from binhop.cli import main\n"
    code += f"atexit.register(lambda: print('then', {shown})); sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.orig_argv[1:3] = ['-m', 'binhop']\n{code}", *line.split()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == (0 if line else 2), done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("", set()),
        ("--help", set()),
        ("--version", set()),
        ("run --help", set()),
        ("trace --help", set()),
        ("trace head lin", set()),
        ("machines", set()),
        ("counters --json -", set()),
        ("formats", set()),
        (RUN, set()),
        (f"{RUN} --quiet", set()),
        (f"{RUN} --table md", set()),
        (f"{RUN} --json -", set()),
        ("run zen-4k lin tree --length 5k --warmup 1k --seeds 3 --interval 1k", set()),
        (f"{RUN} --until 5%", set()),
        (f"{RUN} --top-conflicts 3", {"polars"}),
        ("compare kh90 two-level lin --length 5k", {"polars"}),
        (f"{RUN} --confidence 0.9", {"numpy", "pydantic", "scipy"}),
    ],
)
def test_a_command_imports_only_what_it_needs(line: str, needed: set[str]) -> None:
    assert {*after(line, "*sorted(sys.modules)")} & HEAVY == needed


def test_a_result_without_figures_is_written_without_altair(tmp_path: Path) -> None:
    """All placements of a short run are equal, and one number needs no figure."""
    assert {*after(f"{RUN} --out {tmp_path / 'out'}", "*sorted(sys.modules)")} & HEAVY == {"polars"}
    assert (tmp_path / "out" / "results.parquet").is_file()


@pytest.mark.parametrize("line", ["--help", RUN])
def test_modules_of_python_are_imported_where_they_are_needed(line: str) -> None:
    imported = {*after(line, "*sorted(sys.modules)")}
    assert not {"hashlib", "json", "secrets", "statistics", "sysconfig", "tomllib"} & imported


def test_the_help_does_not_import_the_commands() -> None:
    imported = after("--help", "*sorted(sys.modules)")
    assert "binhop.cli.app" in imported
    assert not {"binhop.cli.run", "binhop.run", "rich.markdown", "markdown_it", "pygments"} & {*imported}


def test_a_run_does_not_import_the_other_passes() -> None:
    imported = {*after(RUN, "*sorted(sys.modules)")}
    assert "binhop.run" in imported
    others = {"binhop.faults", "binhop.reuse_distances", "binhop.switching", "binhop.report"}
    assert not (others | {"rich.progress"}) & imported


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ("__import__('rich.markdown').markdown.Markdown('*a*').markup", "*a*"),
        ("len(__import__('rich.emoji').emoji.Emoji.replace(':cow:'))", "1"),
    ],
)
def test_the_help_leaves_rich_as_it_is(shown: str, words: str) -> None:
    """Empty modules take the place of Rich's while help is printed, and only then."""
    assert after("--help", shown) == [words]


@pytest.mark.parametrize("line", ["--help", RUN])
def test_the_collector_works_again_after_the_imports(line: str) -> None:
    assert after(line, "gc.isenabled(), gc.get_freeze_count() > 1000") == ["True", "True"]


def test_a_program_that_imports_binhop_keeps_its_collector() -> None:
    code = "import gc, binhop.cli; print(gc.isenabled(), gc.get_freeze_count())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["True", "0"]


def test_known_quantiles_are_those_of_scipy() -> None:
    assert {n: float(t.ppf((1 + CONFIDENCE) / 2, n - 1)) for n in KNOWN} == KNOWN


@pytest.mark.parametrize("confidence", [0.5, 0.9, CONFIDENCE, 0.999])
def test_other_quantiles_are_those_of_scipy(confidence: float) -> None:
    for n in (2, 3, 65, 127, 5000):
        assert student(n, confidence) == float(t.ppf((1 + confidence) / 2, n - 1))
    assert student(1, confidence) is None
