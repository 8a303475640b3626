"""Looks at one placement of a run: dumps the placement, and names the pages with the most misses under it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import binhop
from binhop.arguments import seed_numbers
from binhop.claims import made_by
from binhop.cli import show
from binhop.cli.options import positive
from binhop.cli.progress import progress
from binhop.costly import PAGE, PROCESS, SEGMENT, costliest
from binhop.errors import RequestError
from binhop.lazy_imports import pl, tomllib
from binhop.numbers import count, size_in_bytes
from binhop.output import write_parquet
from binhop.run_options import PlacementOptions, keywords
from binhop.until import readable_again

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from binhop import Machine, Result, Trace
    from binhop.claims import Claims
    from binhop.output import OutputFile
    from binhop.run_options import RunOptions

BEST, WORST = "best", "worst"
DUMP = "run --dump-placement"
"""The command's name in the metadata of a placement that it writes."""


@dataclass(frozen=True)
class Look:
    """`Look` says which placement to look at, and what for.

    Attributes:
        which: The number of a seed, or `best` or `worst`: fewest or most misses in the cache, in this run.
        dump: The file for the placement; None for no file.
        top: The number of pages to name; None for none.
        cache: The cache whose misses count; None for the last level.
    """

    which: int | str
    dump: str | None
    top: int | None
    cache: str | None = None

    def cache_of(self, machine: Machine) -> str:
        """Returns the cache whose misses count."""
        return self.cache or machine.last_level

    def seed(self, result: Result, machine: Machine) -> int:
        """Returns the number of the placement."""
        if isinstance(self.which, int):
            return self.which
        metric = f"{self.cache_of(machine)}.mpi"
        row = result.summary().filter(metric=metric).row(0, named=True)
        number: int = row[f"{self.which}_seed"]
        return number


def look_of(
    seed: Sequence[str],
    dump: str | None,
    top: str | None,
    traces: Sequence[Trace],
    cache: str | None,
    machine: Machine,
) -> Look | None:
    """Returns the placement to look at; None if no option asks for a placement."""
    number = positive(top, "--top-conflicts")
    _check_cache(cache, machine, asked=dump is not None or number is not None)
    if dump is None and number is None:
        for word in seed:
            if word in (BEST, WORST):
                rule = (
                    "needs --dump-placement or --top-conflicts: best and worst are known only after the run"
                )
                raise RequestError(
                    word, "--seed", rule, "add one of these options, or give the number of a placement"
                )
        return None
    if len(seed) > 1:
        rule = "only one placement is looked at"
        raise RequestError(" ".join(seed), "--seed", rule, "give --seed once: a number, best or worst")
    if dump is not None and len(traces) > 1:
        names = " ".join(trace.name for trace in traces)
        rule = "one file holds the placement of one trace"
        raise RequestError(names, "--dump-placement", rule, "run the traces one after the other")
    if dump == "-":
        rule = "Parquet is not written to the standard output"
        raise RequestError(dump, "--dump-placement", rule, "name a file, as in worst.parquet")
    readable_again(traces, "--dump-placement and --top-conflicts run one placement again")
    return Look(_which(seed[0] if seed else WORST), dump, number, cache)


def _check_cache(cache: str | None, machine: Machine, *, asked: bool) -> None:
    """Refuses a cache that the machine does not have, and a cache given without an option that uses it."""
    if cache is None:
        return
    if not asked:
        rule = "names the cache of --top-conflicts and --dump-placement, and neither option is given"
        raise RequestError(cache, "--cache", rule, "add --top-conflicts 20, or leave --cache out")
    if cache not in machine.caches:
        rule = f"{machine.name} has no such cache"
        raise RequestError(cache, "--cache", rule, f"name one of {', '.join(machine.caches)}")


def _which(word: str) -> int | str:
    """Returns the number of a placement, or the word `best` or `worst`."""
    if word in (BEST, WORST):
        return word
    if not word[:1].isdigit():
        rule = "a placement is a number, best or worst"
        raise RequestError(word, "--seed", rule, "write it like --seed 17 or --seed worst")
    return count(word, "--seed") or 0


def seeds_to_run(look: Look, seeds: int | None, *, random: bool, until: bool) -> int | list[int] | None:
    """Returns the placements to run: only the placement to look at, if nothing else is asked for."""
    if isinstance(look.which, int) and not until:
        if look.top is None and seeds is None:
            return [look.which]
        check_among(look.which, seed_numbers(seeds, random=random))
    return seeds


def check_among(seed: int, seeds: Sequence[int]) -> None:
    """Refuses a placement that is not among the seeds of the run."""
    if seed not in seeds:
        n = len(seeds)
        rule = f"is none of the {n} placements of this run" if n > 1 else "the run has one placement, 0"
        raise RequestError(
            str(seed),
            "--seed",
            rule,
            f"give a number of this run, or ask for more placements: --seeds {seed + 1}",
        )


class PlacementReporter:
    """`PlacementReporter` looks at a placement after the run, and prints what it found at the end."""

    def __init__(self, look: Look, machine: Machine, *, quiet: bool) -> None:
        self._look = look
        self._machine = machine
        self._quiet = quiet
        self._said: list[Any] = []

    def dump(self, claims: Claims) -> AbstractContextManager[OutputFile | None]:
        """Claims the file for the placement before the run."""
        return claims.file(self._look.dump, "--dump-placement", made_by(DUMP))

    def look(self, result: Result, trace: Trace, options: RunOptions, file: OutputFile | None) -> None:
        """Runs the placement again to look at it. `options` are the options of the run."""
        cache = self._look.cache_of(self._machine)
        seed = self._look.seed(result, self._machine)
        check_among(seed, result.seeds)
        again: dict[str, Any] = {
            name: value for name, value in options.items() if name in keywords(PlacementOptions)
        }
        called = self._called(seed, result)
        with progress(f"looking at seed {seed}", quiet=self._quiet) as again["progress"]:
            if file is not None:
                table = binhop.placements(self._machine, trace, seed, **again)
                file.write_bytes(_parquet(table, self._machine, trace, seed))
                placed = f"{show.counted(table.height, 'page')} placed"
                self._said.append(f"{called}: {placed}, written to {self._look.dump}")
            if self._look.top is not None:
                result.repeated_misses = binhop.repeated_misses(
                    self._machine, trace, cache=cache, seeds=result.seeds, **again
                ).select(pl.lit(trace.name).alias("workload"), pl.all())
                line, *tables = named(
                    result.repeated_misses, result.seeds, seed, self._machine, trace, self._look.top, cache
                )
                self._said += [f"{called}: {line}", *tables]

    def tell(self) -> None:
        """Prints what was found."""
        out = show.console()
        for each in self._said:
            out.print()
            out.print(each)

    def _called(self, seed: int, result: Result) -> str:
        n = len(result.seeds)
        which = ""
        if isinstance(self._look.which, str) and n > 1:
            cache = self._look.cache_of(self._machine)
            values = result.results.filter(phase="measured", metric=f"{cache}.mpi")["value"]
            equal = values.n_unique() == 1
            which = (
                f", one of {n} placements that are equal in {cache}"
                if equal
                else f", the {self._look.which} of {n}"
            )
        return f"{result.workloads[0]}, seed {seed}{which}"


def named(
    repeated: pl.DataFrame,
    seeds: Sequence[int],
    seed: int,
    machine: Machine,
    trace: Trace,
    top: int,
    cache: str,
) -> list[Any]:
    """Returns a line on the misses under one placement, and tables of pages, segments and processes."""
    processes = costliest(repeated, seeds, seed, PROCESS)
    total = int(processes["misses"].sum())
    if not total:
        return [f"no line missed in {cache} but at its first touch"]
    line = f"{show.counted(total, 'miss', 'misses')} in {cache} beyond the first touch"
    if len(seeds) > 1:
        line += f"; {show.grouped(float(processes['others'].sum()))} on average under the other placements"
    commands, size = trace.meta["processes"], _page_bytes(machine)
    pages = show.table("page", "segment", "process", "bin", "misses", "mean of the others", right=3)
    for row in _first(costliest(repeated, seeds, seed, PAGE), top):
        place = [f"{row['page_no'] * size:#x}", row["segment"], _process(row["asid"], commands)]
        pages.add_row(*place, "-" if row["bin"] is None else str(row["bin"]), *_counts(row))
    segments = show.table("segment", "misses", "mean of the others", right=2)
    for row in _first(costliest(repeated, seeds, seed, SEGMENT), top):
        segments.add_row(row["segment"], *_counts(row))
    spaces = show.table("process", "misses", "mean of the others", right=2)
    for row in _first(processes, top):
        spaces.add_row(_process(row["asid"], commands), *_counts(row))
    return [line, pages, segments, spaces]


def _first(costs: pl.DataFrame, top: int) -> list[dict[str, Any]]:
    return costs.filter(pl.col("misses") > 0).head(top).to_dicts()


def _counts(row: dict[str, Any]) -> tuple[str, str]:
    others = row["others"]
    if others is None:
        return show.grouped(row["misses"]), "-"
    return show.grouped(row["misses"]), show.grouped(others) if others >= 100 else f"{others:.1f}"


def _page_bytes(machine: Machine) -> int:
    return size_in_bytes(tomllib.loads(machine.resolved())["memory"]["page"])


def _process(asid: int, commands: dict[str, Any]) -> str:
    command = (commands.get(str(asid)) or {}).get("command")
    return f"{asid} {command[:24]}" if command else f"{asid}"


def _parquet(table: pl.DataFrame, machine: Machine, trace: Trace, seed: int) -> bytes:
    """Returns a placement as a Parquet file whose metadata names machine, trace and seed."""
    held = io.BytesIO()
    facts = {
        "binhop": binhop.__version__,
        "binhop.made-by": DUMP,
        "machine": machine.name,
        "trace": trace.name,
        "seed": str(seed),
    }
    write_parquet(table, held, facts)
    return held.getvalue()
