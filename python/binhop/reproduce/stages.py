"""Runs the stages that most papers share: the study, its claims, its figures, its page.

A paper's package has the modules `study`, `data`, `claims`, `figures` and `page`. They are imported when they
are used, so that a command starts at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from binhop.kept_runs import keeping
from binhop.output import ResultDirectory, write_parquet, write_provenance
from binhop.reproduce import claims as claim_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from binhop.lazy_imports import pl
    from binhop.pace import Watch
    from binhop.reproduce.claims import Claim, Judged


@dataclass(frozen=True)
class Stages:
    """`Stages` runs the stages of one paper.

    Attributes:
        package: The name of the paper's package.
        data: The name of the class in its module `data` that reads the tables of a run.
    """

    package: str
    data: str

    def run(
        self,
        scale: str,
        out: Path,
        *,
        threads: int | None = None,
        progress: Watch | None = None,
        judged: Judged | None = None,
        **further: Any,
    ) -> Path:
        """Runs the study at a scale and fills the directory `out`. The study takes `further` arguments."""
        # The result is moved into place before the kept runs are removed.
        with keeping(out) as kept, ResultDirectory(out, "--out") as place:
            study = self._module("study")
            tables = study.run(scale, threads=threads, kept=kept, progress=progress, **further)
            command = ["binhop", "reproduce", self.package.rpartition(".")[2], "--scale", scale]
            for name, value in further.items():
                if value is not None:
                    command += [f"--{name}", str(value)]
            claim_files.fill(place, tables.write, self._judge, self._report, judged=judged, command=command)
        return out

    def report(self, directory: Path) -> list[Path]:
        """Makes page, tables, claims and figures from the Parquet of a directory, and returns the files."""
        return self._report(directory, self._judge(directory))

    def _judge(self, directory: Path) -> list[Claim]:
        judged: list[Claim] = self._module("claims").judge(self._read(directory))
        return judged

    def _report(self, directory: Path, judged: list[Claim]) -> list[Path]:
        data = self._read(directory)
        drawn = self._module("figures").draw(data, directory)
        return [
            claim_files.write(judged, directory),
            *drawn,
            *self._module("page").write(data, judged, directory),
        ]

    def _read(self, directory: Path) -> Any:
        return getattr(self._module("data"), self.data).read(directory)

    def _module(self, name: str) -> Any:
        return import_module(f"{self.package}.{name}")


@dataclass(frozen=True)
class StudyTables:
    """`StudyTables` holds the tables of a study, by name, and what identifies them."""

    tables: Mapping[str, pl.DataFrame]
    provenance: dict[str, Any]
    notes: list[str]

    def write(self, directory: Path) -> None:
        """Writes the tables and what identifies them."""
        for name, frame in self.tables.items():
            write_parquet(frame, directory / f"{name}.parquet")
        write_provenance(directory, self.provenance, self.notes)


class JobsProgress:
    """`JobsProgress` adds up the references of jobs, which follow each other."""

    def __init__(self, watch: Watch | None) -> None:
        self._watch = watch
        self._before = 0
        self._now = 0

    def of(self, text: str) -> Callable[[int, int | None], None]:
        """Returns the callback of the next job. `text` says what it does."""
        self._before += self._now
        self._now = 0

        def tell(done: int, _of: int | None) -> None:
            self._now = done
            if self._watch is not None:
                self._watch(text, self._before + done, None)

        return tell
