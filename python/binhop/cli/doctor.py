"""Runs `binhop doctor`, which reports what this installation can do."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import binhop
from binhop import recorder
from binhop.cli import show
from binhop.cli.options import Force, Json, written_as_json
from binhop.errors import BinhopError
from binhop.numbers import counted
from binhop.recording import FALLBACK_LOSES

if TYPE_CHECKING:
    from collections.abc import Callable

_TRACING = Path("/sys/kernel/tracing")


@dataclass(frozen=True)
class Finding:
    """`Finding` is the state of a program, library or permission that binhop may need.

    Attributes:
        what: Its name.
        works: True if it is there and works.
        found: The state that was found.
        remedy: What to do if it does not work; empty if it works.
    """

    what: str
    works: bool
    found: str
    remedy: str = ""


def doctor(json_to: Json = None, force: Force = False) -> None:
    """Report what is installed, what works, and what to install for the rest."""
    found = findings()
    if written_as_json([asdict(finding) for finding in found], json_to, force=force):
        return
    out = show.console()
    table = show.table("what", "works", "found")
    for finding in found:
        table.add_row(finding.what, "yes" if finding.works else "no", finding.found)
    out.print(table)
    for finding in found:
        if finding.remedy:
            out.print(f"{finding.what}: {finding.remedy}")


def findings() -> list[Finding]:
    """Returns all findings in order. A later finding may depend on the subject of an earlier finding."""
    installed = recorder.valgrind()
    looked: list[Callable[[], Finding]] = [
        _extension,
        lambda: _valgrind(installed),
        lambda: _headers(installed),
        _compiler,
        lambda: _recorder(installed),
        _tracing,
    ]
    return [look() for look in looked]


def _extension() -> Finding:
    return Finding("simulation", True, f"binhop {binhop.__version__}")


def _valgrind(installed: recorder.Valgrind | None) -> Finding:
    what = "valgrind, for binhop record"
    if installed is None:
        return Finding(what, False, "not installed", recorder.GET_VALGRIND)
    return Finding(what, True, f"{installed.version}, {installed.command}")


def _headers(installed: recorder.Valgrind | None) -> Finding:
    what = "its headers and libraries"
    if installed is None:
        return Finding(what, False, "no valgrind", recorder.GET_VALGRIND)
    if installed.include is None or installed.lib is None or installed.libexec is None:
        remedy = f"{recorder.GET_VALGRIND}; without them lackey records: {FALLBACK_LOSES}"
        return Finding(what, False, "not installed", remedy)
    if installed.headers != installed.version:
        remedy = "install headers and command of one version"
        return Finding(what, False, f"of version {installed.headers}", remedy)
    return Finding(what, True, f"{installed.headers}, {installed.include}")


def _compiler() -> Finding:
    found = recorder.compiler()
    if found is None:
        return Finding("C compiler", False, "no cc", "install gcc or clang, or set CC: `apt install gcc`")
    return Finding("C compiler", True, found)


def _recorder(installed: recorder.Valgrind | None) -> Finding:
    """Checks that the recorder is built and records something."""
    what = "the recorder"
    if installed is None:
        return Finding(what, False, "no valgrind", recorder.GET_VALGRIND)
    why = installed.missing()
    if why is not None:
        return Finding(what, False, why, f"until then lackey records: {FALLBACK_LOSES}")
    try:
        with tempfile.TemporaryDirectory() as directory:
            done = binhop.record(["true"], Path(directory) / "true.parquet")
    except BinhopError as error:
        return Finding(what, False, "does not record", str(error))
    references = done.totals["references"]
    return Finding(what, references > 0, f"recorded {counted(references, 'reference')} of `true`")


def _tracing() -> Finding:
    what = "native schedules (ftrace)"
    why = binhop._binhop.tracing_refused()
    if why is not None:
        remedy = (
            "run binhop as root to take the order between processes from a native run (--schedule native)"
        )
        return Finding(what, False, why, remedy)
    return Finding(what, True, str(_TRACING))
