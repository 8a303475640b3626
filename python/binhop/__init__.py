"""Simulates a memory system with the operating system in the loop.

The answer is a distribution, not a point: the same trace under many page placements.

>>> import binhop
>>> result = binhop.simulate("kh90", "lin", seeds=4, length=200_000)
>>> result.summary().filter(metric="l2.mpi").select("n", "min", "max").shape
(1, 3)
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from binhop import collector, docstrings, interrupts  # noqa: F401, both begin to work here
from binhop._binhop import Machine, Pool, Request, __version__
from binhop.errors import BinhopError, RequestError, RunError

if TYPE_CHECKING:
    from binhop.comparison.result import Comparison
    from binhop.comparison.run import compare
    from binhop.cost_surface import switch_surface
    from binhop.details import export_memory, placements, repeated_misses
    from binhop.device_traffic import DeviceDataResult, device_data, schemes
    from binhop.faults import PagingResult, paging
    from binhop.lists import (
        counters,
        events,
        exporters,
        formats,
        lint_rules,
        machine_keys,
        machines,
        policies,
        workloads,
    )
    from binhop.memory_controller import DramResult, dram, dram_presets
    from binhop.recording import Recording, record
    from binhop.results import Result
    from binhop.reuse_distances import ReuseResult, reuse
    from binhop.run import explain, simulate, simulate_all
    from binhop.switching import SwitchResult, switches
    from binhop.traces import Trace
    from binhop.translation import TranslationResult, translate
    from binhop.until import simulate_until

_HOMES = {
    "binhop.comparison.result": ("Comparison",),
    "binhop.comparison.run": ("compare",),
    "binhop.details": ("export_memory", "placements", "repeated_misses"),
    "binhop.device_traffic": ("DeviceDataResult", "device_data", "schemes"),
    "binhop.faults": ("PagingResult", "paging"),
    "binhop.lists": (
        "counters",
        "events",
        "exporters",
        "formats",
        "lint_rules",
        "machine_keys",
        "machines",
        "policies",
        "workloads",
    ),
    "binhop.memory_controller": ("DramResult", "dram", "dram_presets"),
    "binhop.recording": ("Recording", "record"),
    "binhop.results": ("Result",),
    "binhop.reuse_distances": ("ReuseResult", "reuse"),
    "binhop.run": ("explain", "simulate", "simulate_all"),
    "binhop.cost_surface": ("switch_surface",),
    "binhop.switching": ("SwitchResult", "switches"),
    "binhop.traces": ("Trace",),
    "binhop.translation": ("TranslationResult", "translate"),
    "binhop.until": ("simulate_until",),
}
"""The names that are imported when they are first used, by module: a command needs few of them.

No name is that of a module of the package: an imported module would take its place.
"""
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _HOME_OF:
            found = getattr(import_module(_HOME_OF[name]), name)
        elif not name.startswith("_") and find_spec(f"binhop.{name}") is not None:
            return import_module(f"binhop.{name}")
        else:
            raise AttributeError(f"module 'binhop' has no attribute {name!r}")
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOME_OF})


docstrings.keep()

__all__ = [
    "BinhopError",
    "Comparison",
    "DeviceDataResult",
    "DramResult",
    "Machine",
    "PagingResult",
    "Pool",
    "Recording",
    "Request",
    "RequestError",
    "Result",
    "ReuseResult",
    "RunError",
    "SwitchResult",
    "Trace",
    "TranslationResult",
    "__version__",
    "compare",
    "counters",
    "device_data",
    "dram",
    "dram_presets",
    "events",
    "explain",
    "export_memory",
    "exporters",
    "formats",
    "lint_rules",
    "machine_keys",
    "machines",
    "paging",
    "placements",
    "policies",
    "record",
    "repeated_misses",
    "reuse",
    "schemes",
    "simulate",
    "simulate_all",
    "simulate_until",
    "switch_surface",
    "switches",
    "translate",
    "workloads",
]
