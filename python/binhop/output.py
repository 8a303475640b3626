"""Files that appear complete or not at all."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, Self

from binhop.errors import RequestError
from binhop.lazily import pl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

MARK = "provenance.json"
"""The file that tells a result's directory from any other."""


def refuse(error: OSError, path: str | os.PathLike[str], place: str) -> RequestError:
    """What could not be written, as a request that was wrong."""
    why = error.strerror or str(error)
    return RequestError(
        os.fspath(path), place, f"cannot be written: {why}", "give another place, or make room"
    )


class Writable(Protocol):
    """What a directory of results can hold."""

    def write_tables(self, directory: Path) -> None:
        """Writes the tables, and `provenance.json`, which identifies them: nothing else is in it but that."""

    def draw(self, directory: Path) -> object:
        """Draws the figures from the tables that were written."""


class OutputFile:
    """A file, written at once at the end; what is no regular file is written to, never replaced.

    The place is checked, and taken, at the start: a long run must not end at a directory that is not there.
    """

    def __init__(self, path: str | os.PathLike[str], place: str) -> None:
        self._path = Path(path)
        self._place = place
        self._partial: Path | None = None

    def __enter__(self) -> Self:
        try:
            if self._path.exists() and not stat.S_ISREG(self._path.stat().st_mode):
                if self._path.is_dir():
                    raise RequestError(str(self._path), self._place, "is a directory", "name a file in it")
                return self
            self._partial = self._path.with_name(f".{self._path.name}.partial-{os.getpid()}")
            self._partial.touch()
        except OSError as error:
            raise refuse(error, self._path, self._place) from None
        return self

    def write(self, text: str) -> None:
        """Writes the whole text."""
        self.write_bytes(text.encode())

    def write_bytes(self, content: bytes) -> None:
        """Writes the whole content."""
        try:
            if self._partial is None:
                with self._path.open("wb") as file:
                    file.write(content)
                return
            with self._partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            self._partial.replace(self._path)
        except OSError as error:
            raise refuse(error, self._path, self._place) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._partial is not None:
            self._partial.unlink(missing_ok=True)


class ResultDirectory:
    """A directory of results. It is filled beside its place and moved there when it is complete."""

    def __init__(self, path: str | os.PathLike[str], place: str = "directory") -> None:
        self.path = Path(path).absolute()
        self._given = os.fspath(path)
        self._place = place
        self._partial = self.path.parent / f".{self.path.name}.partial-{os.getpid()}"
        self._complete = False
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        if self.path.exists() and not self.path.is_dir():
            raise RequestError(self._given, self._place, "is no directory", "give another place")
        if self.path.is_dir() and any(self.path.iterdir()) and not (self.path / MARK).is_file():
            rule = f"the directory holds something that is no result (it has no {MARK})"
            raise RequestError(self._given, self._place, rule, "give another directory, or empty it")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._partial.mkdir()
        except OSError as error:
            raise refuse(error, self._given, self._place) from None
        return self

    def fill(self, what: Writable, *, figures: bool = True, command: list[str] | None = None) -> list[str]:
        """Writes everything a result has; the names of the files."""

        def write(directory: Path) -> None:
            what.write_tables(directory)
            if figures:
                what.draw(directory)

        return self.fill_by(write, command=command)

    def fill_by(self, write: Callable[[Path], object], *, command: list[str] | None = None) -> list[str]:
        """Has `write` fill the directory; the names of the files."""
        try:
            write(self._partial)
            sidecar: dict[str, Any] = {
                "command": command,
                "python": sys.version.split()[0],
                "finished": time.time(),
                "seconds": round(time.monotonic() - self._began, 1),
                "peak-memory-bytes": _peak_memory(),
            }
            _write_json(self._partial / "run.json", sidecar)
        except (OSError, pl.exceptions.ComputeError) as error:
            why = error if isinstance(error, OSError) else OSError(None, str(error))
            raise refuse(why, self._given, self._place) from None
        self._complete = True
        return sorted(file.name for file in self._partial.iterdir())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._complete or kind is not None:
            shutil.rmtree(self._partial, ignore_errors=True)
            return
        try:
            _put(self._partial, self.path)
        except OSError as failure:
            shutil.rmtree(self._partial, ignore_errors=True)
            raise refuse(failure, self._given, self._place) from None


def _put(partial: Path, path: Path) -> None:
    """Moves a complete directory to its place; if that fails, what was there before is still there."""
    if not path.is_dir():
        partial.rename(path)
        return
    old = path.with_name(f".{path.name}.old-{os.getpid()}")
    path.rename(old)
    try:
        partial.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def make_anew(directory: Path, make: Callable[[Path], Iterable[Path]], place: str) -> list[Path]:
    """Has `make` make files from the Parquet of a result alone; all replace what was there, or none does.

    `make` is given another directory, which holds the result's Parquet and provenance and nothing else, and
    returns the files that it made there.
    """
    partial = directory / f".anew.partial-{os.getpid()}"
    try:
        partial.mkdir()
    except OSError as error:
        raise refuse(error, directory, place) from None
    try:
        for source in (*directory.glob("*.parquet"), directory / MARK):
            (partial / source.name).symlink_to(source.resolve())
        made = [path.relative_to(partial) for path in make(partial)]
        for name in made:
            (partial / name).replace(directory / name)
    except (OSError, pl.exceptions.PolarsError) as error:
        why = str(getattr(error, "strerror", None) or error)
        remedy = "look whether its Parquet files are there and whole, and whether there is room"
        raise RequestError(str(directory), place, f"cannot be made anew: {why}", remedy) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return [directory / name for name in made]


def write_parquet(frame: pl.DataFrame, to: Path | IO[bytes], metadata: dict[str, str] | None = None) -> None:
    """A table as Parquet, written the same way everywhere; `metadata` says in the file what it is of."""
    frame.write_parquet(to, compression="zstd", compression_level=3, statistics=True, metadata=metadata)


def write_values(frame: pl.DataFrame, path: Path) -> None:
    """A tidy table as CSV: counts as the integers they are."""
    whole = pl.col("value").cast(pl.Int64, strict=False).cast(pl.String)
    ratio = pl.col("unit").str.contains("/", literal=True)
    text = pl.when(ratio).then(pl.col("value").cast(pl.String)).otherwise(whole)
    frame.with_columns(value=text).write_csv(path)


def write_provenance(directory: Path, provenance: dict[str, Any], notes: list[str]) -> None:
    """What identifies the tables: the same bytes for the same trace, machine and seeds."""
    tables = {"polars": pl.__version__, "schema": 1}
    _write_json(directory / MARK, {**provenance, "tables": tables, "notes": notes})


def _peak_memory() -> int | None:
    """The most memory that this process has held; None where the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    # Kilobytes, but for macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")


__all__ = ["MARK", "OutputFile", "ResultDirectory", "Writable", "make_anew", "refuse"]
__all__ += ["write_parquet", "write_provenance", "write_values"]
