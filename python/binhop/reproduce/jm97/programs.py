"""Lists the programs of the study, and says for which program of SPECint95 each of them stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binhop.errors import RequestError
from binhop.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SPEC = ("m88ksim", "li", "go", "compress95", "perl", "ijpeg", "vortex", "gcc")
"""The programs of the document, in the order of Table 3."""
NONE = ""
"""The document's program of a recording that stands for none."""
FIGURE_8 = ("gcc", "vortex")
"""The programs of Figure 8; gcc is also that of Table 4."""


@dataclass(frozen=True)
class Program:
    """`Program` is a program of the study.

    Attributes:
        name: The built-in workload, or the name of the recording's file without its ending.
        stands_for: The document's program that it replaces, or `NONE`.
        differs: How it differs from the document's program.
        recording: The file of the recording; None for a built-in workload.
    """

    name: str
    stands_for: str
    differs: str
    recording: Path | None = None

    def trace(self) -> Trace:
        """Returns the program's references."""
        return Trace.workload(self.name) if self.recording is None else Trace.open(self.recording)


BUILT_IN = (
    Program(
        "mult2",
        "gcc",
        "Compiles of a small compiler (0.6 to 1 MB), among a maze router, a design-rule checker and shell "
        "commands. These processes take turns. Their texts have the same addresses, so they meet in virtual "
        "caches.",
    ),
    Program(
        "tv",
        "vortex",
        "A timing verifier that follows pointers through a netlist of 14 MB, as vortex does through its "
        "database. Its code is much smaller.",
    ),
    Program("tree", "li", "A Lisp heap of two semispaces of 32 MB; that of li is much smaller."),
    Program(
        "timesharing",
        "perl",
        "A script of short commands, as perl's, among a layout editor, a Scheme program, compiles and links "
        "that take turns.",
    ),
    Program(
        "client-server",
        "compress95",
        "Two small processes that copy data through buffers, as compress95 moves its data. They switch every "
        "6,600 instructions.",
    ),
)
"""The built-in workloads that stand for integer programs. None stands for m88ksim, go and ijpeg."""

_NATIVE = "Compiled for another processor, with 64-bit addresses."
RECORDED = {
    "gcc": ("gcc", f"A newer gcc. {_NATIVE}"),
    "perl": ("perl", f"A newer perl and another script. {_NATIVE}"),
    "python3": ("perl", f"Python in the place of perl. {_NATIVE}"),
    "gzip": ("compress95", f"Deflate in the place of LZW. {_NATIVE}"),
    "sqlite3": ("vortex", f"A relational database in the place of an object database. {_NATIVE}"),
    "guile": ("li", f"Scheme in the place of XLISP. {_NATIVE}"),
    "lua": ("li", f"Lua in the place of Lisp. {_NATIVE}"),
    "gnugo": ("go", f"Another program that plays go. {_NATIVE}"),
    "sort": (NONE, f"No program of SPECint95 only sorts. {_NATIVE}"),
}
"""What a recording of this name stands for, and how it differs. The first of a kind that is there is used."""
ENDING = ".parquet"


def suite(recordings: Path | None) -> list[Program]:
    """Returns a study's programs: recordings of a directory, and built-in programs for missing recordings.

    Raises:
        RequestError: The directory holds no recording with a name of `RECORDED`.
    """
    if recordings is None:
        return _ordered(BUILT_IN)
    found: list[Program] = []
    for name, (stands_for, differs) in RECORDED.items():
        file = recordings / f"{name}{ENDING}"
        if file.is_file() and (stands_for == NONE or stands_for not in _replaced(found)):
            found.append(Program(name, stands_for, differs, file))
    if not found:
        raise RequestError(
            str(recordings),
            "--recordings",
            f"holds no recording that the study knows: {', '.join(name + ENDING for name in RECORDED)}",
            "record programs as studies/jm97/README.md says",
        )
    return _ordered([*found, *(one for one in BUILT_IN if one.stands_for not in _replaced(found))])


def missing(programs: Sequence[Program]) -> list[str]:
    """Returns the document's programs for which none of the given programs stands.

    >>> missing(BUILT_IN)
    ['m88ksim', 'go', 'ijpeg']
    """
    return [name for name in SPEC if name not in _replaced(programs)]


def _replaced(programs: Sequence[Program]) -> set[str]:
    return {one.stands_for for one in programs}


def _ordered(programs: Sequence[Program]) -> list[Program]:
    """Returns the programs in the order of Table 3; those that stand for none come last."""
    return sorted(programs, key=lambda one: (*SPEC, NONE).index(one.stands_for))
