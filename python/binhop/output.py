"""Writes files and directories of results that appear complete or not at all."""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, Self

from binhop import json_file
from binhop.errors import RequestError
from binhop.interrupts import complete, undisturbed
from binhop.lazy_imports import pl
from binhop.own_files import all_files, foreign_files, own_files, recover, replace
from binhop.partial import SIDECAR, Partial, resolved, sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType

MARK = "provenance.json"
"""The file by which a directory of results is recognised."""


def refuse(error: OSError, path: str | os.PathLike[str], place: str) -> RequestError:
    """Returns the error of a system call on a file as a wrong request."""
    why = error.strerror or str(error)
    return RequestError(
        os.fspath(path), place, f"cannot be written: {why}", "give another place, or make room"
    )


class Writable(Protocol):
    """`Writable` is a result that a directory of results can hold."""

    def write_tables(self, directory: Path) -> None:
        """Writes the tables, and `provenance.json`, which holds only what identifies the tables."""

    def draw(self, directory: Path) -> object:
        """Draws the figures from the tables that were written."""


class OutputFile:
    """`OutputFile` is a file that appears at the end, complete. A pipe or a device is written to directly.

    The place is checked, and a temporary file is made there, at the start: a long run must not fail at its
    end because a directory does not exist. A symbolic link stays: the file that it leads to is written.
    """

    def __init__(self, path: str | os.PathLike[str], place: str) -> None:
        self._path = Path(path)
        self._place = place
        self._target = self._path
        self._partial: Partial | None = None

    def __enter__(self) -> Self:
        try:
            self._target = resolved(self._path)
            if self._target.exists() and not self._target.is_file():
                if self._target.is_dir():
                    raise RequestError(str(self._path), self._place, "is a directory", "name a file in it")
                return self
            self._partial = Partial.file(self._target)
            if self._target.exists():
                os.fchmod(self._partial.handle, stat.S_IMODE(self._target.stat().st_mode))
        except OSError as error:
            raise refuse(error, self._path, self._place) from None
        return self

    def write(self, text: str) -> None:
        """Writes the whole text."""
        self.write_bytes(text.encode())

    def write_bytes(self, content: bytes) -> None:
        """Writes the whole content."""
        self.write_pieces([content])

    def write_pieces(self, pieces: Iterable[bytes]) -> None:
        """Writes the whole content, a piece at a time."""

        def write(target: Path) -> None:
            with target.open("wb") as file:
                file.writelines(pieces)

        self.write_by(write)

    def write_by(self, write: Callable[[Path], object]) -> None:
        """Has `write` write the whole content to a path."""
        try:
            if self._partial is None:
                write(self._target)
                return
            write(self._partial.path)
            os.fsync(self._partial.handle)
        except OSError as error:
            raise refuse(error, self._path, self._place) from None
        try:
            with undisturbed():
                self._partial.move(self._target)
        except OSError as error:
            raise _stays(error, self._path, self._place, self._partial) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._partial is not None:
            self._partial.remove()


class ResultDirectory:
    """`ResultDirectory` is filled beside its target, and moved there when it is complete.

    An earlier result is replaced; files in it that binhop did not write stay. Any other directory that is not
    empty is refused.
    """

    def __init__(self, path: str | os.PathLike[str], place: str = "directory") -> None:
        self.path = Path(path)
        self._given = os.fspath(path)
        self._place = place
        self._partial: Partial | None = None
        self._complete = False
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        try:
            self.path = resolved(self._given)
            if os.path.lexists(self.path) and not self.path.is_dir():
                raise RequestError(self._given, self._place, "is no directory", "give another place")
            if os.path.ismount(self.path):
                rule = "is a mount point, which a complete result cannot replace"
                raise RequestError(self._given, self._place, rule, "name a directory in it")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            recover(self.path)
            self._check()
            self._partial = Partial.directory(self.path)
        except OSError as error:
            raise refuse(error, self._given, self._place) from None
        return self

    def _check(self) -> None:
        """Refuses a directory that is not empty, unless it is a result whose files are known."""
        if not self.path.is_dir() or not any(self.path.iterdir()):
            return
        remedy = "give another directory, or empty it"
        if not (self.path / MARK).is_file():
            rule = f"the directory holds something that is no result (it has no {MARK})"
            raise RequestError(self._given, self._place, rule, remedy)
        own = own_files(self.path)
        if own is None:
            rule = (
                f"the directory does not say which of its files binhop wrote ({SIDECAR} has no list of them)"
            )
            raise RequestError(self._given, self._place, rule, remedy)
        taken = [name for name in foreign_files(self.path, own) if name == MARK]
        if taken:
            rule = f"holds {taken[0]}, which binhop did not write, where a result's own would stand"
            raise RequestError(self._given, self._place, rule, remedy)

    def fill(self, what: Writable, *, figures: bool = True, command: list[str] | None = None) -> list[str]:
        """Writes everything a result has; returns the names of the files."""

        def write(directory: Path) -> None:
            what.write_tables(directory)
            if figures:
                what.draw(directory)

        return self.fill_by(write, command=command)

    def fill_by(self, write: Callable[[Path], object], *, command: list[str] | None = None) -> list[str]:
        """Has `write` fill the directory; returns the names of the files."""
        assert self._partial is not None, "a directory is filled within its context"
        directory = self._partial.path
        with writing(self._given, self._place):
            write(directory)
            sidecar: dict[str, Any] = {
                "command": command,
                "python": sys.version.split()[0],
                "finished": time.time(),
                "seconds": round(time.monotonic() - self._began, 1),
                "peak-memory-bytes": _peak_memory(),
                "files": [*all_files(directory), SIDECAR],
            }
            sync(directory)
            json_file.write(directory / SIDECAR, sidecar)
            sync(directory)
        self._complete = True
        return sorted(file.name for file in directory.iterdir())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._partial is not None, "it was entered"
        if not self._complete:
            self._partial.remove()
            return
        try:
            with undisturbed():
                if self.path.is_dir() and any(self.path.iterdir()):
                    replace(self._partial, self.path)
                else:
                    self._partial.move(self.path)
                complete.append(self._given)
        except OSError as failure:
            raise _stays(failure, self._given, self._place, self._partial) from None


def _stays(error: OSError, path: str | os.PathLike[str], place: str, partial: Partial) -> RequestError:
    """Returns the error of a complete result that cannot be moved to its place, and stays where it is."""
    partial.close()
    why = error.strerror or str(error)
    rule = f"cannot be put there: {why}; what was written is complete in {partial.path}"
    return RequestError(os.fspath(path), place, rule, "move it from there to where it is wanted")


@contextmanager
def writing(path: str | os.PathLike[str], place: str) -> Iterator[None]:
    """Turns an error of the system, or of Polars, while writing into a refused request."""
    try:
        yield
    except (OSError, pl.exceptions.ComputeError) as error:
        why = error if isinstance(error, OSError) else OSError(None, str(error))
        raise refuse(why, path, place) from None


def make_anew(directory: Path, make: Callable[[Path], Iterable[Path]], place: str) -> list[Path]:
    """Has `make` make files from a result's Parquet alone. All of them replace the old files, or none does.

    `make` is given another directory, which holds the result's Parquet and provenance and nothing else, and
    returns the files that it made there. A file that binhop did not write is not replaced.
    """
    partial: Partial | None = None
    try:
        partial = Partial.directory(directory / "anew")
        for source in (*directory.glob("*.parquet"), directory / MARK):
            (partial.path / source.name).symlink_to(source.resolve())
        made = [path.relative_to(partial.path) for path in make(partial.path)]
        _list_anew(directory, {name.as_posix() for name in made}, place)
        for name in made:
            (partial.path / name).replace(directory / name)
    except (OSError, pl.exceptions.PolarsError, AttributeError, LookupError, TypeError, ValueError) as error:
        # The provenance and the tables may hold anything, because anybody may have written them.
        why = str(getattr(error, "strerror", None) or error) or type(error).__name__
        remedy = "look whether its Parquet files are there and whole, and whether there is room"
        raise RequestError(str(directory), place, f"cannot be made anew: {why}", remedy) from None
    finally:
        if partial is not None:
            partial.remove()
    return [directory / name for name in made]


def _list_anew(directory: Path, made: set[str], place: str) -> None:
    """Adds files to a directory's list of binhop's own files, if the directory has a list."""
    own = own_files(directory)
    if own is None:
        return
    for name in sorted(made - own):
        if os.path.lexists(directory / name):
            rule = "would be made anew, and binhop did not write the file that is there"
            raise RequestError(str(directory / name), place, rule, "rename it")
    if made - own:
        facts = json_file.read(directory / SIDECAR)
        with OutputFile(directory / SIDECAR, place) as file:
            file.write(json_file.text({**facts, "files": [*facts["files"], *sorted(made - own)]}))


def read_parquet(path: Path) -> pl.DataFrame:
    """Reads a table from a file of exactly this name. Polars would take `[`, `*` and `?` as a pattern."""
    with path.open("rb") as file:
        return pl.read_parquet(file)


def write_parquet(frame: pl.DataFrame, to: Path | IO[bytes], metadata: dict[str, str] | None = None) -> None:
    """Writes a table as Parquet, in the same way everywhere. `metadata` stands in the file."""
    frame.write_parquet(to, compression="zstd", compression_level=3, statistics=True, metadata=metadata)


def write_values(frame: pl.DataFrame, path: Path) -> None:
    """Writes a tidy table as CSV, with counts as integers."""
    whole = pl.col("value").cast(pl.Int64, strict=False).cast(pl.String)
    ratio = pl.col("unit").str.contains("/", literal=True)
    text = pl.when(ratio).then(pl.col("value").cast(pl.String)).otherwise(whole)
    frame.with_columns(value=text).write_csv(path)


def write_provenance(directory: Path, provenance: dict[str, Any], notes: list[str]) -> None:
    """Writes what identifies the tables: the same bytes for the same trace, machine and seeds."""
    tables = {"polars": pl.__version__, "schema": 1}
    json_file.write(directory / MARK, {**provenance, "tables": tables, "notes": notes})


def write_machines(machines: Mapping[str, str], directory: Path) -> None:
    """Writes the machines of a result, each into a file of its own that is named after it."""
    (directory / "machines").mkdir()
    for number, (name, text) in enumerate(machines.items(), 1):
        file = f"{number}-{re.sub(r'[^A-Za-z0-9.]+', '-', name)[:64]}.toml"
        (directory / "machines" / file).write_text(text, encoding="utf-8")


def _peak_memory() -> int | None:
    """Returns the most memory that this process has held; None if the system does not report it."""
    try:
        import resource
    except ImportError:
        return None
    # macOS reports bytes, other systems kilobytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


__all__ = ["MARK", "OutputFile", "ResultDirectory", "Writable", "make_anew", "read_parquet", "refuse"]
__all__ += ["write_parquet", "write_provenance", "write_values", "writing"]
