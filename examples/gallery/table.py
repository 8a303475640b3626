"""Prints the gallery's tables as Markdown, from the files that record.sh wrote into a directory."""

import json
import statistics
import sys
from pathlib import Path

NAMES = ("gcc", "sort", "sqlite3", "python3", "redis")
# The tables show the misses of these caches, by machine.
SHOWN = (("kh90", "l2"), ("skylake", "l2"))
# This is Student's t for 95% and the 31 degrees of freedom of 32 placements.
STUDENT = 2.0395


def grouped(number: int) -> str:
    """Returns a number with its digits in groups: 4 711."""
    return f"{number:,}".replace(",", " ")


def row(*cells: str) -> None:
    """Prints a row of a table."""
    print("|", " | ".join(cells), "|")


def recorded(directory: Path, name: str) -> None:
    """Prints the row of a recording: its references, its size and its pages."""
    seen = json.loads((directory / f"{name}.inspect.json").read_text())
    references, size = seen["totals"]["references"], seen["file"]["bytes"]
    row(
        name,
        grouped(references),
        grouped(seen["totals"]["instructions"]),
        f"{float((directory / f'{name}.seconds').read_text()):.1f}",
        f"{size / 2**20:.1f}",
        f"{size / references:.2f}",
        str(sum(process["references"] > 0 for process in seen["processes"])),
        f"{grouped(seen['pages'])} ({seen['footprint_bytes'] / 2**20:.1f} MiB)",
    )


def simulated(directory: Path, name: str, machine: str, cache: str) -> None:
    """Prints a row: the distribution of the misses per 1000 instructions over the placements."""
    rows = json.loads((directory / f"{name}.{machine}.json").read_text())["rows"]
    values = [1000 * row["value"] for row in rows if row["metric"] == f"{cache}.mpi"]
    mean, half = statistics.mean(values), STUDENT * statistics.stdev(values) / len(values) ** 0.5
    interval = f"{mean - half:.3f}-{mean + half:.3f}"
    worse = f"{100 * (max(values) / min(values) - 1):.1f}%"
    row(f"{name}, {machine}", f"{mean:.3f}", interval, f"{min(values):.3f}", f"{max(values):.3f}", worse)


def main() -> None:
    """Prints the tables of the programs that were recorded."""
    directory = Path(sys.argv[1])
    names = [name for name in NAMES if (directory / f"{name}.inspect.json").exists()]
    row(
        "program", "references", "instructions", "seconds", "MiB", "bytes per reference", "processes", "pages"
    )
    row(*["---"] * 8)
    for name in names:
        recorded(directory, name)
    print()
    row("program, machine", "mean", "95% interval", "best", "worst", "worst over best")
    row(*["---"] * 6)
    for machine, cache in SHOWN:
        for name in names:
            simulated(directory, name, machine, cache)
    print()
    for version in sorted(directory.glob("*.version")):
        print(f"{version.stem}: {version.read_text().strip()}")


if __name__ == "__main__":
    main()
