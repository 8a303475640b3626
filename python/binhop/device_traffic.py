"""Compares schemes for device data: which cache holds what devices read and write, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop._binhop import Machine
from binhop.arguments import listed, seed_numbers, thread_count, whole_number
from binhop.device_data_figures import BASELINE, FLUSH, figures, summary
from binhop.errors import RequestError
from binhop.escape import escaped, json_text
from binhop.lazy_imports import pl
from binhop.numbers import counted
from binhop.output import ResultDirectory, write_machines, write_parquet, write_provenance
from binhop.results import SCHEMA
from binhop.run import without_references
from binhop.summary import check_confidence
from binhop.traces import ArrowStream, Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from binhop.tables import Table

SEEDS = 4
"""The default number of placements."""
TABLES = ("results", "sizes", "distances", "front", "figures", "summary")
"""The frames of a result that are written, one file each."""


class DeviceDataResult:
    """`DeviceDataResult` holds how device data flow below the front of a machine, and what schemes change.

    Attributes:
        results: The tidy table: workload, machine, scheme (null for what the front lets through), seed,
            metric, unit, value.
        sizes: The requests by size: workload, seed, device, direction, size, requests. `size` is the least of
            the class; the class of n ends before 2n.
        distances: The references by reuse distance: workload, seed, stream (`together` or `separated`), flow
            (`dpcc`, `cpdc`, `cpu` or `device`), device, distance, references. `distance` is the least of the
            class; the class of d > 0 ends before 2d. It is null for first references.
        front: The metrics of the front, as `binhop run` has them.
        figures: Shares, fates, hit rates and speed-ups of each scheme and seed: see
            `binhop.device_data_figures`.
        confidence: The confidence of the intervals.
        machine: The machine, resolved, as TOML.
        notes: Notes for the reader.
        provenance: Versions, seeds and the trace, from which the comparison can be repeated.
    """

    def __init__(
        self,
        *,
        results: pl.DataFrame,
        sizes: pl.DataFrame,
        distances: pl.DataFrame,
        front: pl.DataFrame,
        confidence: float,
        machine: str,
        notes: list[str],
        provenance: dict[str, Any],
    ) -> None:
        self.results = results
        self.sizes = sizes
        self.distances = distances
        self.front = front
        self.figures = figures(results)
        self.confidence = confidence
        self.machine = machine
        self.notes = notes
        self.provenance = provenance

    @property
    def schemes(self) -> list[str]:
        """The schemes, in order."""
        return self.results["scheme"].drop_nulls().unique(maintain_order=True).to_list()

    def summary(self, confidence: float | None = None) -> pl.DataFrame:
        """Returns every figure with its interval over placements."""
        return summary(self.figures, self.confidence if confidence is None else confidence)

    def tables(self) -> list[Table]:
        """Returns the tables of `binhop io`."""
        from binhop.tables.device_data import device_data_tables

        return device_data_tables(self.summary(), self.distances)

    def to_json(self) -> str:
        """Returns the JSON that `binhop io --json` prints. Counts are integers; undefined values null."""
        whole = {
            "schema": SCHEMA,
            "rows": self.results.to_dicts(),
            "figures": self.summary().to_dicts(),
            "sizes": self.sizes.to_dicts(),
            "distances": self.distances.to_dicts(),
            "provenance": {**self.provenance, "description": self.machine, "notes": self.notes},
        }
        return json_text(whole)

    def write(self, directory: str | os.PathLike[str], *, figures: bool = True) -> list[str]:
        """Writes tables, machine, provenance and the figure into a directory, complete or not at all.

        An earlier result is replaced; files in it that binhop did not write stay. Any other directory that is
        not empty is refused.

        Returns:
            The names of the files.
        """
        with ResultDirectory(directory) as place:
            return place.fill(self, figures=figures)

    def write_tables(self, directory: Path) -> None:
        """Writes the tables, the machine and the provenance into a directory that is there."""
        for name in TABLES:
            frame = self.summary() if name == "summary" else getattr(self, name)
            write_parquet(frame, directory / f"{name}.parquet")
        self.summary().write_csv(directory / "summary.csv")
        write_machines({self.provenance["machine"]: self.machine}, directory)
        write_provenance(directory, self.provenance, self.notes)

    def draw(self, directory: Path) -> list[Path]:
        """Draws the figure from the tables in a directory, and returns the files."""
        from binhop.report import draw_device_data  # a command without figures needs no module that draws

        return draw_device_data(directory)

    def chart(self, workload: str | None = None) -> Any:
        """Returns the figure as an Altair chart, for a notebook. There is one workload."""
        from binhop.report import chart_of  # a command without figures needs no module that draws
        from binhop.report.device_data import device_data_charts, device_data_words

        whole = self.summary()
        return chart_of(device_data_charts(whole, self.distances), workload, device_data_words(whole))

    def _repr_html_(self) -> str:
        from binhop.tables.html import html

        return html(self.tables(), self.notes)

    def __repr__(self) -> str:
        workload = self.provenance["traces"][0]["name"]
        machine = self.provenance["machine"]
        return f"<DeviceDataResult {escaped(workload)} on {escaped(machine)}: {', '.join(self.schemes)}>"


def device_data(
    machine: Machine | str | os.PathLike[str],
    trace: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame,
    *,
    schemes: Sequence[str] | Mapping[str, tuple[str, Sequence[str] | Machine]] | None = None,
    path: bool = True,
    seeds: int | Iterable[int] | None = None,
    length: int | str | None = None,
    confidence: float = 0.95,
    threads: int | None = None,
    progress: Callable[[int, int | None], object] | None = None,
) -> DeviceDataResult:
    """Compares schemes for device data behind the caches of a machine, in one pass over the trace.

    The caches before the last level are simulated once for each placement. What they let through, and what
    devices read and write, goes to every scheme. Each scheme simulates the last level of the machine.

    Args:
        machine: A machine with a last level behind other caches; a bundled name or the path of a description.
            Its section `[io]` has the sizes of the path and the settings of the schemes.
        trace: As for `simulate`.
        schemes: The schemes (`binhop.schemes()`), beside the baseline `snooping-cache`. Default: all that the
            machine's last level can have. Caches with virtual tags have the scheme `flush` alone. A mapping
            compares one scheme in several forms: each name in results has the scheme and settings of the
            machine, as in `{"ddc 64K": ("ddc", ["io.dma-cache=64KiB"])}`. The settings may change the last
            level, `[dram]`, and the keys of schemes in `[io]`. A form may have a machine in place of
            settings. Speed-ups are against the baseline on the machine itself.
        path: Whether the system calls of the trace make the kernel copy data and devices transfer them. False
            leaves the transfers that the trace itself has.
        seeds: The number of placements, or their seeds. Default: 4, and 1 if nothing is random.
        length: References to simulate, as a number or as "50M"; default: the whole trace. A built-in workload
            needs a length.
        confidence: The confidence of the intervals.
        threads: The number of threads; default: all there are. No result depends on it.
        progress: Called some times a second with the references done and, if known, to do.

    Returns:
        The result: counts, sizes, distances, figures, notes, provenance.

    Raises:
        RequestError: The request is wrong; the message says how to mend it.
        RunError: An invariant of the simulated physics broke: an error of binhop.

    >>> found = device_data("zen-4k", "sor", length=20_000, seeds=1, schemes=["ddio"])
    >>> found.schemes
    ['snooping-cache', 'ddio']
    """
    chosen = machine if isinstance(machine, Machine) else Machine.load(str(machine))
    opened = Trace.of(trace)
    check_confidence(confidence)
    if opened.endless and length is None:
        rule = "a built-in workload never ends"
        raise RequestError(opened.name, "length", rule, "say how many references, as in length=50_000_000")
    bound = whole_number(length, "length")
    forms, notes = _forms(chosen, schemes)
    names = [name for name, _, _ in forms]
    numbers = (
        list(range(SEEDS))
        if seeds is None and chosen.is_random
        else seed_numbers(seeds, random=chosen.is_random)
    )
    outcome = _binhop.device_data(
        chosen,
        opened.stream(),
        workload=opened.name,
        seeds=numbers,
        schemes=forms,
        path=path,
        threads=thread_count(threads),
        length=bound,
        progress=progress,
    )
    front = pl.DataFrame(outcome.front)
    measured = pl.DataFrame(outcome.figures)
    references = _sum(front, "references")
    provenance = {
        "binhop": _binhop.__version__,
        "device_data": True,
        "machine": chosen.name,
        "schemes": names,
        "path": dict(outcome.path) if path else None,
        "seeds": numbers,
        "confidence": confidence,
        "traces": [{**opened.provenance(), "length": bound, "references": references}],
    }
    if references == 0:
        notes = [without_references(opened, bound), *notes]
    notes += _about_devices(measured, dict(outcome.path))
    named = pl.lit(opened.name).alias("workload")
    return DeviceDataResult(
        results=measured.select(
            named, pl.lit(chosen.name).alias("machine"), "scheme", "seed", "metric", "unit", "value"
        ),
        sizes=pl.DataFrame(outcome.sizes).select(named, pl.all()),
        distances=pl.DataFrame(outcome.distances).select(named, pl.all()),
        front=front,
        confidence=confidence,
        machine=outcome.machine,
        notes=[*notes, *outcome.notes],
        provenance=provenance,
    )


def schemes() -> pl.DataFrame:
    """Returns the schemes for device data: name, and what a machine does with device data under it.

    >>> schemes()["name"][0]
    'off'
    """
    return pl.DataFrame([*_binhop.schemes()], schema=["name", "meaning"], orient="row")


def _forms(
    machine: Machine, asked: Sequence[str] | Mapping[str, tuple[str, Sequence[str] | Machine]] | None
) -> tuple[list[tuple[str, str, Machine]], list[str]]:
    """Returns name, scheme and machine of each form of a scheme, the baseline first, and notes."""
    if not isinstance(asked, Mapping):
        names, notes = _schemes(machine, asked)
        return [(name, name, machine) for name in names], notes
    known = [name for name, _ in _binhop.schemes()]
    baseline = _baseline(machine)
    forms = [(baseline, baseline, machine)]
    for name, (scheme, settings) in asked.items():
        if scheme not in known:
            raise _binhop.unknown(str(scheme), f"schemes: {name}", "no scheme has this name", known)
        if name == baseline:
            raise RequestError(
                name, "schemes", "the baseline has the settings of the machine", "give the form another name"
            )
        of = settings if isinstance(settings, Machine) else machine.with_settings(*settings)
        forms.append((str(name), scheme, of))
    return forms, []


def _schemes(machine: Machine, asked: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Returns the schemes to compare, the baseline first, and notes about schemes that are left out."""
    baseline = _baseline(machine)
    if asked is None:
        known = _binhop.schemes_for(machine)
        refused = {name: why for name, why in _binhop.refused_schemes(machine) if name in known}
        if baseline in refused:
            return known, []  # the engine refuses them, and says why
        notes = [f"{name} is left out: {why}" for name, why in refused.items()]
        if baseline == FLUSH:
            why = "the caches have virtual tags, so flush is the one scheme, and the front is all caches"
            notes.append(why)
        return [baseline, *(name for name in known if name not in (baseline, *refused))], notes
    known = [name for name, _ in _binhop.schemes()]
    names = listed(asked, "schemes")
    for name in names:
        if name not in known:
            raise _binhop.unknown(str(name), "schemes", "no scheme has this name", known)
    for number, name in enumerate(names):
        if name in names[:number]:
            raise RequestError(name, "schemes", "each scheme is asked for once", "leave one out")
    return [baseline, *(name for name in names if name != baseline)], []


def _baseline(machine: Machine) -> str:
    """Returns the scheme to which the others are compared on a machine."""
    return FLUSH if FLUSH in _binhop.schemes_for(machine) else BASELINE


def _sum(front: pl.DataFrame, metric: str) -> int:
    """Returns a count of the first placement; it is the same in all."""
    found = front.filter(pl.col("metric") == metric)["value"]
    return int(found[0]) if len(found) else 0


def _about_devices(measured: pl.DataFrame, path: dict[str, int]) -> list[str]:
    """Returns notes about what the trace says of devices."""
    notes = []
    of_devices = measured.filter(pl.col("metric").str.contains(r"^front\.dma-.*\.references$"))["value"].sum()
    if of_devices == 0:
        notes.append(
            "no device reads or writes memory in this trace: it has no such events, and no system call that "
            "moves data of a file or socket"
        )
    if path.get("unseen"):
        calls = counted(path["unseen"], "system call")
        notes.append(
            f"the data of {calls} are left out: the trace does not say of which file they are, from which "
            "offset or how many"
        )
    waits = [
        ("reads_waiting", "page", "to read"),
        ("writes_waiting", "page", "to write"),
        ("packets_waiting", "packet", "to send"),
    ]
    waiting = [f"{counted(path[name], noun)} {task}" for name, noun, task in waits if path.get(name)]
    if waiting:
        notes.append(f"devices had not yet served, when the trace ended: {', '.join(waiting)}")
    if path.get("dirty"):
        pages = counted(path["dirty"], "dirty page")
        their = "its" if path["dirty"] == 1 else "their"
        notes.append(
            f"the page cache held {pages} when the trace ended: {their} data were not written to the disk"
        )
    return notes


__all__ = ["SEEDS", "DeviceDataResult", "device_data", "schemes"]
