"""Makes a study's cells, which are every combination of every part, and the runs that simulate them.

Equal cells of several parts (same workload, resolved machine and amount) become one cell, which runs once
with the placements of all of these parts. Cells with the same workload and the same `End` form a run: they
are simulated together, so that the sharing plan can share what they have in common.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop import _binhop
from binhop._binhop import Machine
from binhop.errors import RequestError
from binhop.metrics import caches
from binhop.run import metrics_of
from binhop.run_options import extended
from binhop.study.device_data import metrics_of_scheme
from binhop.study.document import MACHINE, SCHEME, Amount, Choice, Part, Study, label
from binhop.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Unpack

    from binhop.run_options import PassOptions, RunOptions

MOST_CELLS = 10_000
"""The most cells of one part. A part with more cells is a mistake, or needs a study of its own."""
MOST_CELLS_IN_ALL = 100_000
"""The most cells of all parts. So many cells take some 300 MB before the first is simulated."""


@dataclass(frozen=True)
class End:
    """`End` is what the cells of a run share besides the workload: where the run ends, what it reports."""

    length: int | None
    instructions: int | None
    warmup: int
    interval: int | None


@dataclass(frozen=True)
class Cell:
    """`Cell` is a complete configuration: what is simulated, and how much of it.

    Attributes:
        workload: The name of the trace.
        machine: The machine.
        end: Where the run ends, and what it reports.
        scheme: The scheme for device data in place of the machine's last level; None: the machine as it is.
    """

    workload: str
    machine: Machine
    end: End
    scheme: str | None = None

    @property
    def id(self) -> str:
        """The identifier of the configuration, which is the same in every study."""
        what: list[Any] = [self.workload, self.machine.resolved(), vars(self.end)]
        if self.scheme is not None:
            what.append(self.scheme)
        return hashlib.blake2b(json.dumps(what).encode(), digest_size=5).hexdigest()


@dataclass(frozen=True)
class Place:
    """`Place` is a cell's place in a part, with the parameters that vary and the part's placements."""

    part: str
    cell: Cell
    machine: str
    parameters: dict[str, str]
    seeds: tuple[int, ...]
    keep: tuple[str, ...]


@dataclass
class StudyRun:
    """`StudyRun` holds the cells that one pass over one workload simulates together."""

    workload: str
    end: End
    seeds: tuple[int, ...]
    cells: list[Cell] = field(default_factory=list)

    @property
    def of_devices(self) -> bool:
        """Returns whether the cells are schemes for device data, which stand behind one front."""
        return self.cells[0].scheme is not None

    @property
    def title(self) -> str:
        """The title that progress shows."""
        return f"{self.workload}: {len(self.cells)} × {len(self.seeds)}"

    def options(self, **others: Unpack[PassOptions]) -> RunOptions:
        """Returns the options of the simulation, with others that no count depends on."""
        return extended(others, seeds=self.seeds, **vars(self.end))


@dataclass(frozen=True)
class Plan:
    """`Plan` holds the cells and runs of a study."""

    study: Study
    places: list[Place]
    runs: list[StudyRun]
    traces: dict[str, Trace]
    axes: list[str]
    scale: str | None
    files: list[Path]
    """The machines and traces that are read from files."""


def plan(
    study: Study, *, scale: str | None = None, override: Amount | None = None, directory: Path | None = None
) -> Plan:
    """Returns every cell of a study, and the runs that simulate them.

    Args:
        study: The document.
        scale: One of its scales; default: the amounts that stand outside of scales.
        override: An amount that replaces every amount of the document.
        directory: The directory in which paths of machines and traces begin; default: the current one.
    """
    if scale is not None and not study.scale:
        raise RequestError(scale, "scale", f"the study {study.name} has no scales", "leave --scale out")
    if scale is not None and scale not in study.scale:
        raise _binhop.unknown(scale, "scale", "the study has no scale of this name", [*study.scale])
    _check_number(study)
    traces: dict[str, Trace] = {}
    places: list[Place] = []
    for part in study.part:
        amount = (override or Amount()).over(study.amount(part, scale))
        places += _places(part, amount, directory or Path(), traces)
    axes = [axis for part in study.part for axis in part.parameters]
    _check_shown(study, places)
    named = [name for part in study.part for name in _named(part)]
    files = [path for name in dict.fromkeys(named) if (path := (directory or Path()) / name).exists()]
    return Plan(study, places, _runs(places), traces, [*dict.fromkeys(axes)], scale, files)


def _check_number(study: Study) -> None:
    """Refuses more cells than the limit, before any cell is made."""
    remedy = "make parts of it, or leave values out"
    total = 0
    for part in study.part:
        cells = len(part.workloads) * math.prod(map(len, part.axes.values()))
        if cells > MOST_CELLS:
            rule = f"a part has at most {MOST_CELLS} cells"
            raise RequestError(f"{cells} cells", f"part {part.name}", rule, remedy)
        total += cells
    if total > MOST_CELLS_IN_ALL:
        rule = f"a study has at most {MOST_CELLS_IN_ALL} cells, and a part at most {MOST_CELLS}"
        raise RequestError(f"{total} cells", "study", rule, "make several studies of it, or leave values out")


def _named(part: Part) -> list[str]:
    """Returns the names in a part that may be files: workloads and machines."""
    entries = part.axes.get("machine", [])
    machines = [part.machine, *(entry.value if isinstance(entry, Choice) else entry for entry in entries)]
    return [*part.workloads, *(name for name in machines if isinstance(name, str))]


def _places(part: Part, amount: Amount, directory: Path, traces: dict[str, Trace]) -> list[Place]:
    """Returns the cells of one part, workload by workload."""
    machines = list(_machines(part, directory))
    if part.schemes:
        _check_amount(part, amount)
        for _, _, machine, scheme in machines:
            _check_scheme(part, machine, scheme)
    places = []
    for named in part.workloads:
        trace = _trace(named, directory)
        known = traces.setdefault(trace.name, trace)
        if known.provenance() != trace.provenance():
            rule = "two traces of one study have this name, and rows are told apart by it"
            raise RequestError(named, f"part {part.name}: workloads", rule, "rename one of the files")
        end = End(amount.length, amount.instructions, amount.warmup or 0, amount.interval)
        if trace.endless and end.length is None and end.instructions is None:
            rule = "a built-in workload never ends"
            raise RequestError(named, f"part {part.name}: workloads", rule, 'add length = "50M"')
        for name, parameters, machine, scheme in machines:
            cell = Cell(trace.name, machine, end, scheme)
            keep = () if part.schemes else tuple(part.keep)
            places.append(Place(part.name, cell, name, parameters, amount.seeds or (), keep))
    return places


def _check_amount(part: Part, amount: Amount) -> None:
    """Refuses amounts that runs of schemes for device data do not have."""
    for name in ("instructions", "warmup", "interval"):
        if (value := getattr(amount, name)) is not None:
            rule = "a part with schemes for device data ends after a length, and has no warm-up and no series"
            remedy = "leave it out; length is the one amount beside seeds"
            raise RequestError(str(value), f"part {part.name}: {name}", rule, remedy)


def _check_scheme(part: Part, machine: Machine, scheme: str | None) -> None:
    """Refuses a cell whose machine cannot have its scheme, before any cell is simulated."""
    why = dict(_binhop.refused_schemes(machine)).get(scheme or "")
    if why is not None:
        rule, _, remedy = why.rpartition("; ")
        raise RequestError(str(scheme), f"part {part.name}: scheme", f"a cell cannot have it: {rule}", remedy)


def _machines(part: Part, directory: Path) -> Iterator[tuple[str, dict[str, str], Machine, str | None]]:
    """Yields every combination of the axes' values, the last axis fastest.

    Yields:
        The machine's label, the values of the axes but `machine`, the machine, and the scheme, if any.
    """
    fixed = {key: _text(value) for key, value in part.settings.items()}
    bases = _bases(part, directory)
    for entries in product(*part.axes.values()):
        chosen = dict(zip(part.axes, entries, strict=True))
        of = chosen.pop(MACHINE, part.machine)
        name, base = bases[label(of)]
        settings = fixed | (
            {key: _text(value) for key, value in of.settings.items()} if isinstance(of, Choice) else {}
        )
        scheme = part.scheme
        for axis, entry in chosen.items():
            own = _settings(axis, entry)
            if axis == SCHEME:
                scheme = own.pop(SCHEME)
            settings.update(own)
        parameters = {axis: label(entry) for axis, entry in chosen.items()}
        machine = base.with_settings(*(f"{key}={value}" for key, value in settings.items()))
        yield name, parameters, machine, scheme


def _bases(part: Part, directory: Path) -> dict[str, tuple[str, Machine]]:
    """Returns the machines of a part by label: the name in tables, and the machine before any setting."""
    bases: dict[str, tuple[str, Machine]] = {}
    for entry in part.machines:
        named = str(entry.value if isinstance(entry, Choice) else entry)
        path = str(directory / named) if named.endswith(".toml") or "/" in named else named
        machine = Machine.load(path)
        name = entry.label if isinstance(entry, Choice) else machine.name
        if any(name == other for other, _ in bases.values()):
            rule = "two machines of one axis have this name, and rows are told apart by it"
            remedy = f'label one of them: {{ label = "…", value = "{named}" }}'
            raise RequestError(name, f"part {part.name}: axes.{MACHINE}", rule, remedy)
        bases[label(entry)] = (name, machine)
    return bases


def _check_shown(study: Study, places: list[Place]) -> None:
    """Refuses to show a metric that no machine of the part has."""
    known: dict[tuple[Machine, str | None], list[str]] = {}
    for part in study.part:
        missing = dict.fromkeys(study.shown(part))
        names: list[str] = []
        for place in places:
            if not missing or place.part != part.name:
                continue
            key = (place.cell.machine, place.cell.scheme)
            if key not in known:
                known[key] = _metrics(*key)
            names = known[key]
            missing = {metric: None for metric in missing if metric not in names}
        for metric in missing:
            raise _binhop.unknown(
                metric, f"part {part.name}: show", "no machine of the part has this metric", names
            )


def _metrics(machine: Machine, scheme: str | None) -> list[str]:
    """Returns the metrics that a part can show of a cell."""
    if scheme is not None:
        return metrics_of_scheme(machine, scheme)
    metrics = metrics_of(machine)
    return [*metrics, *(f"{level}.misses" for level in [*caches(metrics), "memory"])]


def _settings(axis: str, entry: Any) -> dict[str, str]:
    """Returns the keys that a value of an axis sets."""
    if not isinstance(entry, Choice):
        return {axis: _text(entry)}
    own = {} if entry.value is None else {axis: _text(entry.value)}
    return own | {key: _text(value) for key, value in entry.settings.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _trace(named: str, directory: Path) -> Trace:
    """Opens a file, relative to the study's directory, or a workload by its name.

    The directory in which the command runs may hold anything, for example a directory `tree`.
    """
    path = directory / named
    if path.is_file():
        return Trace.open(path)
    if named in [workload[0] for workload in _binhop.workloads()]:
        return Trace.workload(named)
    return Trace.open(path) if path.is_dir() else Trace.of(named)


def _runs(places: list[Place]) -> list[StudyRun]:
    """Merges equal cells, and groups cells of one workload, end and set of placements into runs.

    Cells with schemes for device data are in one run if they have one front, too.
    """
    seeds: dict[Cell, set[int]] = {}
    for place in places:
        seeds.setdefault(place.cell, set()).update(place.seeds)
    alike: dict[tuple[str, End, tuple[int, ...]], list[StudyRun]] = {}
    for cell, wanted in seeds.items():
        numbers = tuple(sorted(wanted))
        runs = alike.setdefault((cell.workload, cell.end, numbers), [])
        run = next((run for run in runs if _together(run.cells[0], cell)), None)
        if run is None:
            runs.append(run := StudyRun(cell.workload, cell.end, numbers))
        run.cells.append(cell)
    order = {workload: number for number, workload in enumerate(dict.fromkeys(key[0] for key in alike))}
    return sorted((run for runs in alike.values() for run in runs), key=lambda run: order[run.workload])


def _together(one: Cell, other: Cell) -> bool:
    """Returns whether one pass simulates two cells of one workload, end and set of placements."""
    if one.scheme is None or other.scheme is None:
        return one.scheme is other.scheme
    return one.machine.shares_front(other.machine)
