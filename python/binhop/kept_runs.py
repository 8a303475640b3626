"""`KeptRuns` stores finished runs beside the place of a result that is not complete yet.

A command of several runs keeps each finished run in `.NAME.finished` beside `--out NAME`. After Ctrl-C, or a
power cut, the same command goes on from there. A kept run is named after all its inputs and holds a checksum
of every byte. The run is on the disk before it gets its name, so it is either complete or absent. A kept run
that was altered or cut since then is simulated again. When the result is complete, only the kept runs are
removed.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binhop import _binhop, json_file
from binhop.errors import RequestError
from binhop.lazy_imports import hashlib, json
from binhop.long_tables import StoredTable, store_table
from binhop.output import writing
from binhop.partial import PARTIAL, Partial, resolved, sync, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from binhop._binhop import Machine
    from binhop.long_tables import AnyTable

MANIFEST = "kept.json"
FORM = 2
"""The version of the form in which runs are kept."""
_NAME = r".+-[0-9a-f]{24}"


class NotKeptError(RequestError):
    """`NotKeptError` reports a run that could not be kept. No further run begins: it might be lost."""


class KeptRuns:
    """`KeptRuns` is a directory of kept runs. The directory need not exist yet.

    Attributes:
        stopped: The error with which `check` has ended the command's work; None if it has not.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.stopped: NotKeptError | None = None
        self._failed: RequestError | None = None

    def find(self, name: str, facts: Any) -> tuple[dict[str, StoredTable], dict[str, Any]] | None:
        """Returns the tables and the other data of a run, if it is kept and complete. Removes a damaged run.

        The tables stay in their files, which are there until `clear`.
        """
        place = self._place(name, facts)
        if not place.is_dir():
            return None
        found = _read(place)
        if found is None:
            _remove(place)
        return found

    def keep(
        self, name: str, facts: Any, tables: Mapping[str, AnyTable], rest: dict[str, Any]
    ) -> dict[str, StoredTable]:
        """Keeps a run, and returns its tables. When this method returns, the run is on the disk."""
        place = self._place(name, facts)
        with writing(self.directory, "finished runs"):
            self.directory.mkdir(parents=True, exist_ok=True)
            sync_directory(self.directory.parent)
            partial = Partial.directory(place)
            try:
                for table, frame in tables.items():
                    store_table(frame, partial.path / f"{table}.parquet")
                files = {path.name: _digest_of_file(path) for path in sorted(partial.path.iterdir())}
                manifest = {"kept": FORM, "binhop": _binhop.__version__, "files": files, "rest": rest}
                json_file.write(partial.path / MANIFEST, {**manifest, "checksum": _checksum(manifest)})
                sync(partial.path)
                if not place.exists():  # another process may have been first
                    partial.move(place)
            finally:
                partial.remove()
        return {table: StoredTable(place / f"{table}.parquet") for table in tables}

    def keep_if_possible(
        self, name: str, facts: Any, tables: Mapping[str, AnyTable], rest: dict[str, Any]
    ) -> Mapping[str, AnyTable]:
        """Keeps a run. If that fails, the caller still has the run, and `check` raises the error.

        Returns:
            The tables in their files, or the given tables if the run could not be kept.
        """
        try:
            return self.keep(name, facts, tables, rest)
        except RequestError as error:
            self._failed = error
            return tables

    def check(self) -> None:
        """Raises the error of a run that could not be kept. It is called before the next run.

        Raises:
            NotKeptError: A run could not be kept.
        """
        if self._failed is not None:
            error = self._failed
            self.stopped = NotKeptError(error.value, error.place, error.rule, error.remedy)
            raise self.stopped

    def __len__(self) -> int:
        return sum(1 for _ in self._runs())

    def clear(self) -> None:
        """Removes the kept runs, and the directory if nothing else is in it."""
        for place in self._runs():
            _remove(place)
            for dead in PARTIAL.dead(place):
                _remove(dead)
        with suppress(OSError):
            self.directory.rmdir()

    def _place(self, name: str, facts: Any) -> Path:
        text = json.dumps([facts, this_binhop()], sort_keys=True)
        digest = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        return self.directory / f"{name.replace(os.sep, '_')}-{digest}"

    def _runs(self) -> Iterator[Path]:
        """Yields the kept runs, and nothing that a user put there."""
        if self.directory.is_dir():
            for place in sorted(self.directory.iterdir()):
                known = re.fullmatch(_NAME, place.name) and not place.name.startswith(".")
                if known and place.is_dir() and not place.is_symlink() and (place / MANIFEST).is_file():
                    yield place


@contextmanager
def keeping(out: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields the directory beside `out` for finished runs, and removes the runs when the block succeeds."""
    directory = kept_beside(out)
    if os.path.lexists(directory) and (directory.is_symlink() or not directory.is_dir()):
        rule = "finished runs are kept in a directory of this name, and something else has it"
        raise RequestError(str(directory), "--out", rule, "rename it, or give another place")
    yield directory
    KeptRuns(directory).clear()


def kept_beside(out: str | os.PathLike[str]) -> Path:
    """Returns the directory in which finished runs are kept while `out` is not complete."""
    try:
        path = resolved(out)
    except OSError as error:
        why = error.strerror or str(error)
        raise RequestError(
            os.fspath(out), "--out", f"cannot be written: {why}", "give another place"
        ) from None
    return path.parent / f".{path.name}.finished"


@cache
def this_binhop() -> str:
    """Identifies this build of binhop by its version and the bytes of its extension."""
    with Path(str(_binhop.__file__)).open("rb") as file:
        return f"{_binhop.__version__} {hashlib.file_digest(file, 'blake2b').hexdigest()}"


def machine_facts(machines: Iterable[Machine]) -> list[Any]:
    """Returns the inputs of machines' counts: the descriptions, and digests of the placements they repeat."""
    facts: list[Any] = []
    for machine in machines:
        facts.append(machine.resolved())
        placement = machine.placement_file
        if placement is not None:
            facts += [_digest_of(placement), _digest_of(f"{placement}.maps")]
    return facts


def is_known(trace: dict[str, Any]) -> bool:
    """Returns whether the provenance of a trace identifies its events."""
    joined = trace.get("joined")
    if joined is not None:
        return False
    return any(trace.get(key) is not None for key in ("content_hash", "sha256", "workload"))


def _digest_of(path: str) -> str | None:
    """Returns a digest of a file; None if the path is no regular file, or cannot be read."""
    with suppress(OSError):
        if Path(path).is_file():
            with Path(path).open("rb") as file:
                return hashlib.file_digest(file, "blake2b").hexdigest()
    return None


def _digest_of_file(path: Path) -> str:
    """Returns the digest of a file's content, which may be more than memory holds."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).hexdigest()


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(manifest, sort_keys=True).encode(), digest_size=32).hexdigest()


def _read(place: Path) -> tuple[dict[str, StoredTable], dict[str, Any]] | None:
    """Returns a kept run; None if any byte has changed since it was kept."""
    try:
        manifest = json_file.read(place / MANIFEST)
        checksum = manifest.pop("checksum", None)
        if manifest.get("kept") != FORM or checksum != _checksum(manifest):
            return None
        tables = {}
        for name, digest in manifest["files"].items():
            if Path(name).name != name:
                return None
            if _digest_of_file(place / name) != digest:
                return None
            tables[name.removesuffix(".parquet")] = StoredTable(place / name)
        return tables, manifest["rest"]
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None


def _remove(place: Path) -> None:
    """Removes a finished or unfinished kept run: its tables and its manifest, and nothing else."""
    with suppress(OSError):
        for path in place.iterdir():
            if path.suffix == ".parquet" or path.name == MANIFEST:
                path.unlink(missing_ok=True)
        place.rmdir()
