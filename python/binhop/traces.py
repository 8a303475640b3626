"""Opens traces: files, foreign files, built-in workloads, Arrow tables. All of them are streams of events."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from binhop import _binhop
from binhop.arguments import counts, integer, listed, seed_number, shown, thread_count, whole_number
from binhop.arrow import checked
from binhop.errors import RequestError
from binhop.escape import escaped
from binhop.file_names import decodable
from binhop.lazy_imports import hashlib, json, pl
from binhop.mixing import needs_machine, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from binhop._binhop import Stream
    from binhop.mixing import Ends, Faults, Order


@runtime_checkable
class ArrowStream(Protocol):
    """`ArrowStream` is a table or record batch reader of any library with the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns a capsule with an Arrow C stream."""


class Trace:
    """`Trace` is a source of events in program order, which drive a simulation.

    `Trace.open` (a file), `Trace.workload` (a built-in program) and `Trace.from_arrow` (a table with the
    columns op, addr, size, count and, optionally, arg0 and arg1) make traces. Nothing is read before it is
    needed, and each use reads the events anew.

    >>> trace = Trace.workload("lin")
    >>> trace.head(3).columns
    ['op', 'addr', 'size', 'count', 'arg0', 'arg1']
    """

    def __init__(
        self,
        name: str,
        stream: Callable[[], Stream],
        source: dict[str, Any],
        *,
        endless: bool = False,
        once: bool = False,
        counted: bool = False,
        mixing: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        """The name in results."""
        self.endless = endless
        """True if the trace never ends. A simulation then needs a length."""
        self.once = once
        """True if the trace can be read once only: standard input, a pipe, or an Arrow reader of batches."""
        self.steered = mixing is not None and needs_machine(mixing)
        """True if the events depend on the machine and the placement that simulate them."""
        cycles = mixing is not None and mixing["quantum"][1] == "cycles"
        self.cycles_of_quantum: int | None = mixing["quantum"][0] if mixing is not None and cycles else None
        """The quantum of a mix, if it is in cycles."""
        self._counted = counted
        self._stream = stream
        self._source = source
        self._identity: str | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str], format: str | None = None) -> Trace:
        """Opens a trace file, which is foreign if `format` or the name says so (see `binhop.formats()`)."""
        path = decodable(os.fspath(path), "trace")
        name = "standard input" if path == "-" else _stem(path)
        if format is not None or _binhop.format_of_path(path) is not None:
            once = path == "-" or Path(path).is_fifo()
            return cls(
                name, lambda: _binhop.Stream.foreign(path, format), {"file": Path(path).name}, once=once
            )
        return cls(name, lambda: _binhop.Stream.file(path), {"file": Path(path).name}, counted=True)

    @classmethod
    def workload(cls, name: str, seed: int = 0) -> Trace:
        """Returns a built-in workload (see `binhop.workloads()`). It never ends."""
        known = [row[0] for row in _binhop.workloads()]
        if name not in known:
            raise _binhop.unknown(name, "workload", "no built-in workload has this name", known)
        seed = seed_number(seed)
        source = {"workload": name, "seed": seed}
        return cls(name, lambda: _binhop.Stream.workload(name, seed), source, endless=True)

    @classmethod
    def from_arrow(cls, table: ArrowStream | pl.LazyFrame, name: str = "table") -> Trace:
        """Takes events from a Polars or pyarrow table, or any other Arrow stream, without copying them.

        A table can be read again and again; a record batch reader only once.
        """
        held = table.collect() if isinstance(table, pl.LazyFrame) else table
        # A reader of batches is an iterator; a table is not.
        once = hasattr(held, "__next__") or hasattr(held, "read_next_batch")
        return cls(name, lambda: _binhop.Stream.arrow(checked(held), name), {"table": name}, once=once)

    @classmethod
    def mix(
        cls,
        traces: Sequence[Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame],
        quantum: int | str = 400_000,
        *,
        order: Order = "round-robin",
        latency: int | str | None = None,
        faults: Faults = "none",
        fault_latency: int | str | None = None,
        length: int | str | Sequence[int | str | None] | None = None,
        ends: Ends = "all",
    ) -> Trace:
        """Mixes traces of separate runs, as one processor would run them in turns of equal length.

        Args:
            traces: The traces to mix; the same trace may come twice.
            quantum: The length of a turn: a number of instructions, or as in "400k cycles". Cycles are those
                of the simulated machine's own caches, so each placement has a stream of its own, and the mix
                can only be simulated. Latencies have the unit of the quantum.
            order: Who is next: the trace whose last turn is longest ago (round-robin), or the trace that left
                the processor last, because the caches may still hold its lines (recent). A trace that has
                been ready for 8 quanta comes first.
            latency: The time for which a process that waits in a system call or for a page leaves the
                processor. Default: 100,000 if it waits for another process, 1,000,000 if for a device or a
                page.
            faults: The page faults that block, beside those that a trace marks itself: none, or the first
                reference to each page of a file (first), because the page must be read. A page of a file that
                several traces map faults once for all. With all, each page that a placement has evicted
                blocks when it returns, too; then each placement has a stream of its own.
            fault_latency: The time for which a page fault blocks. Default: the latency, or 1,000,000.
            length: The greatest number of references to read of each trace, or one number for each.
            ends: When the mix ends: with the last trace (all), with the first trace that ends (first), or
                when each trace has ended once, where a trace that ends begins again (repeat).

        >>> pingpong = Trace.mix(["lin", "lin"], 10_000, length=50_000)
        >>> pingpong.inspect()["switches"]["involuntary"] > 5
        True
        """
        parts = [cls.of(trace) for trace in traces]
        mixing = settings(
            quantum, order=order, latency=latency, faults=faults, fault_latency=fault_latency, ends=ends
        )
        given: list[Any] = [length] * len(parts)
        if not isinstance(length, str) and hasattr(length, "__iter__"):
            given = listed(length, "length")
        if len(given) != len(parts):
            rule = f"there must be one length for each of the {len(parts)} traces"
            raise RequestError(shown(length), "length", rule, "give as many, or one number for all")
        lengths = [part._bounded(most) for part, most in zip(parts, given, strict=True)]
        inputs = [(part.name, part.stream, most) for part, most in zip(parts, lengths, strict=True)]
        name = "+".join(part.name for part in parts)
        return cls(
            name,
            lambda: _binhop.mix(inputs, **mixing),
            {
                "mix": [part.name for part in parts],
                **mixing,
                "quantum": " ".join(map(str, mixing["quantum"])),
            },
            once=any(part.once for part in parts),
            mixing=mixing,
        )

    @classmethod
    def of(cls, what: Trace | str | os.PathLike[str] | ArrowStream | pl.LazyFrame) -> Trace:
        """Makes a trace of a path, a workload's name or a table; a trace stays. An existing file wins."""
        if isinstance(what, Trace):
            return what
        if isinstance(what, str):
            known = [row[0] for row in _binhop.workloads()]
            if what in known and not Path(what).exists():
                return cls.workload(what)
            suffix = Path(what).suffix[1:]
            names_a_file = Path(what).exists() or os.sep in what or (suffix and not suffix.isdigit())
            if not names_a_file:
                raise _binhop.unknown(what, "trace", "no file and no built-in workload has this name", known)
            return cls.open(what)
        if isinstance(what, os.PathLike):
            return cls.open(what)
        if isinstance(what, pl.LazyFrame | ArrowStream):
            return cls.from_arrow(what)
        rule = "a trace is a file, the name of a built-in workload, or an Arrow table"
        raise RequestError(repr(what), "trace", rule, "see help(binhop.Trace)")

    def stream(self) -> Stream:
        """Returns a stream of the events, to be read once.

        Raises:
            RequestError: The file is no longer what it was when this trace was read first.
        """
        stream = self._stream()
        self._identity = self._identity or stream.identity
        if stream.identity != self._identity:
            raise _changed(stream.name)
        return stream

    @classmethod
    def join(cls, traces: Sequence[Trace]) -> Trace:
        """Joins traces one after the other. Processes stay separate; a file that two map is one segment."""
        name = " + ".join(trace.name for trace in traces)
        once = any(trace.once for trace in traces)
        endless = any(trace.endless for trace in traces)

        def joined() -> Stream:
            return _binhop.Stream.joined([trace.stream() for trace in traces])

        return cls(name, joined, {"joined": [trace._source for trace in traces]}, endless=endless, once=once)

    def first_rows(self, rows: int | str) -> Trace:
        """Returns the first rows, of any kind."""
        rows = whole_number(rows, "rows")
        return self._part("head", {"rows": rows}, lambda stream: stream.first_rows(rows), ends=True)

    def first_references(self, references: int | str) -> Trace:
        """Returns a trace of the first references, by the rule of every `length`.

        The part ends before the row that would exceed this number. A run of instructions is not cut, because
        the trace does not record where each of its instructions begins. The part may therefore hold a few
        references fewer.

        >>> Trace.workload("lin").first_references(1_000).inspect()["totals"]["references"]
        993
        """
        references = whole_number(references, "references")
        return self._part(
            "head",
            {"references": references},
            lambda stream: stream.first_references(references),
            ends=True,
        )

    def slice(self, start: int | str, stop: int | str | None = None) -> Trace:
        """Returns the references from position `start` up to `stop`, with their mappings and process.

        A run of instructions is not cut: a run across a position belongs to the slice behind the position.

        >>> part = Trace.workload("lin").slice(1_000, 3_000)
        >>> part.name, part.endless
        ('lin-slice', False)
        """
        start, stop = whole_number(start, "start"), whole_number(stop, "stop")
        return self._part(
            "slice",
            {"start": start, "stop": stop},
            lambda stream: stream.slice(start, stop),
            ends=stop is not None,
        )

    def sample(self, every: int | str, window: int | str, seed: int | None = None) -> Trace:
        """Returns one window in every span of references, at the span's start, or where the seed draws it."""
        every, window = whole_number(every, "every"), whole_number(window, "window")
        seed = None if seed is None else seed_number(seed)
        facts = {"every": every, "window": window, "seed": seed}
        return self._part("sample", facts, lambda stream: stream.sample(every, window, seed))

    def filter(
        self,
        *,
        kinds: Iterable[str] = (),
        asids: Iterable[int] = (),
        pids: Iterable[int] = (),
        commands: Iterable[str] = (),
        addresses: Iterable[tuple[int, int]] = (),
        regions: Iterable[str] = (),
        mode: Literal["kernel", "user"] | None = None,
    ) -> Trace:
        """Returns the rows that pass every filter, with the mappings and processes that they need.

        Args:
            kinds: Names of events, or `reference`, `data`, `system`. If they include a kind of reference, the
                events that say what is mapped and which process runs are kept, too.
            asids: Address spaces.
            pids: Process ids at the time of the recording.
            commands: Processes' commands.
            addresses: Ranges of addresses of references: the first, and the one behind the last.
            regions: Kinds of segments (`stack`, `heap`) that references lie in, or text in files' paths.
            mode: Whose references: the kernel's, or the programs'.
        """
        selection = {
            "kinds": [*kinds],
            "asids": counts(asids, "asids", most=2**32 - 1),
            "pids": counts(pids, "pids", most=2**32 - 1),
            "commands": [*commands],
            "addresses": [_range(addresses) for addresses in listed(addresses, "addresses")],
            "regions": [*regions],
            "mode": mode,
        }
        text = json.dumps(selection)
        return self._part("filter", selection, lambda stream: stream.select(text))

    def _part(
        self, kind: str, facts: dict[str, Any], make: Callable[[Stream], Stream], *, ends: bool = False
    ) -> Trace:
        endless = self.endless and not ends
        return Trace(
            f"{self.name}-{kind}",
            lambda: make(self.stream()),
            {**self._source, kind: facts},
            endless=endless,
            once=self.once,
        )

    def print(self, *, json: bool = False, meta: bool = True) -> None:
        """Writes the events to the standard output, a line each: as text, or as JSON.

        Args:
            json: If true, each event is one JSON object of its columns.
            meta: If true, the metadata of the whole trace precede the text, as comments that `binhop import`
                reads.
        """
        self.stream().print(json, meta)

    def export(
        self, path: str | os.PathLike[str], to: str, *, length: int | str | None = None, progress: Any = None
    ) -> dict[str, Any]:
        """Writes the references for another simulator, as the program makes them (see `binhop.exporters()`).

        Args:
            path: The file; compressed if its name ends in .gz, .xz or .zst. `-` is the standard output.
            to: The format's name.
            length: The greatest number of references, as in `Trace.first_references`.
            progress: Called some times a second with the references done and, if known, to do.

        Returns:
            The references read, the file's bytes, and notes on what was left out.
        """
        bound = self._bounded(length)
        said: dict[str, Any] = json.loads(self.stream().export(os.fspath(path), to, bound, progress))
        return said

    @property
    def references(self) -> int | None:
        """Returns the number of references that a trace file promises; None if only reading could tell."""
        return self.stream().references if self._counted else None

    @property
    def meta(self) -> dict[str, Any]:
        """The metadata of the whole trace: page size, recorder, command, processes, segments."""
        meta: dict[str, Any] = json.loads(self.stream().meta())
        return meta

    def provenance(self) -> dict[str, Any]:
        """Returns what identifies the events: a trace file's content hash, or a foreign file's SHA-256."""
        facts = {"name": self.name, **self._source, "content_hash": None}
        if "file" in self._source and not self.once:  # to open a pipe anew would wait for another writer
            stream = self.stream()
            facts["content_hash"] = stream.content_hash
            if stream.content_hash is None and Path(stream.name).is_file():
                with Path(stream.name).open("rb") as file:
                    facts["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
                    if stream.identity != _identity(os.fstat(file.fileno())):
                        raise _changed(stream.name)
        return facts

    def batches(self) -> Iterator[pl.DataFrame]:
        """Yields the events batch by batch, with `op` as a code."""
        stream = self.stream()
        while (table := stream.next_batch()) is not None:
            yield pl.DataFrame(table)

    def head(self, rows: int | str = 10) -> pl.DataFrame:
        """Returns the first events, with `op` as a name."""
        rows = whole_number(rows, "rows")
        kept: list[pl.DataFrame] = []
        for batch in self.batches():
            kept.append(batch.head(rows - sum(map(len, kept))))
            if sum(map(len, kept)) >= rows:
                break
        names = {code: name for code, name, _ in _binhop.events()}
        frame = pl.concat(kept) if kept else pl.DataFrame()
        return frame.with_columns(pl.col("op").replace_strict(names, return_dtype=pl.String))

    def inspect(self, length: int | str | None = None, progress: Any = None) -> dict[str, Any]:
        """Reads the trace (at most `length` references) and reports what it holds and what is missing."""
        report: dict[str, Any] = json.loads(_binhop.inspect(self.stream(), self._bounded(length), progress))
        return report

    def lint(self, length: int | str | None = None, progress: Any = None) -> list[dict[str, Any]]:
        """Reads the trace (at most `length` references) and checks it, without a simulation."""
        findings: list[dict[str, Any]] = json.loads(
            _binhop.lint(self.stream(), self._bounded(length), progress)
        )
        return findings

    def write(
        self,
        path: str | os.PathLike[str],
        length: int | str | None = None,
        progress: Any = None,
        *,
        threads: int | None = None,
        placement: str | os.PathLike[str] | None = None,
        made_by: str | None = None,
    ) -> tuple[dict[str, Any], list[str]]:
        """Writes the events (at most `length` references) into a trace file, complete or not at all.

        The file's bytes do not depend on the number of threads (default: all there are). The frames that
        pages had when they were recorded, where a foreign trace tells them, go to `placement`, as Parquet
        that `placement.file` takes. `made_by` is the command that the files name as their writer.

        Returns:
            The totals, and what an importer skipped or assumed, one sentence each.
        """
        summary, notes = self.stream().write(
            os.fspath(path),
            self._bounded(length),
            thread_count(threads),
            progress,
            None if placement is None else os.fspath(placement),
            made_by,
        )
        return json.loads(summary), notes

    def _bounded(self, length: int | str | None) -> int | None:
        length = whole_number(length, "length")
        if self.endless and length is None:
            rule = "a built-in workload never ends"
            raise RequestError(self.name, "length", rule, "say how many references, as in length=50_000_000")
        return length

    def __repr__(self) -> str:
        return f"<Trace {escaped(self.name)}>"


def _identity(file: os.stat_result) -> str:
    """Returns the `Stream.identity` of a file that carries no hash."""
    seconds, nanoseconds = divmod(file.st_mtime_ns, 1_000_000_000)
    return f"{file.st_dev}:{file.st_ino}:{file.st_size}:{seconds}.{nanoseconds:09}"


def _changed(name: str) -> RequestError:
    rule = "the file has changed since it was first read"
    remedy = "leave it in place until the command has ended; in Python, open the trace again"
    return RequestError(name, "trace", rule, remedy)


def distinct(traces: Sequence[Trace]) -> None:
    """Refuses two traces with the same name, because the name distinguishes their rows."""
    names = [trace.name for trace in traces]
    if not names:
        raise RequestError("no trace", "trace", "a trace must be given", "name a file or a built-in workload")
    for name in names:
        if names.count(name) > 1:
            rule = "two traces of one run have this name, and rows are told apart by it"
            remedy = "rename one of the files, or run them one after the other"
            raise RequestError(name, "TRACE", rule, remedy)


def _range(addresses: tuple[int, int]) -> tuple[int, int]:
    """Returns the first address of a range, and the address after the last."""
    try:
        first, end = addresses
    except (TypeError, ValueError):
        rule = "a range of addresses is a pair: the first address, and the address behind the last"
        raise RequestError(shown(addresses), "addresses", rule, "write it like (0x1000, 0x2000)") from None
    most = 2**64 - 1
    return integer(first, "addresses", most=most), integer(end, "addresses", most=most)


def _stem(path: str) -> str:
    """Returns the file's name without the endings of its format: cc1.din.gz is cc1."""
    name = Path(path).name
    for _, ending in _binhop.packings():
        name = name.removesuffix(f".{ending}")
    return name.rsplit(".", 1)[0] if "." in name[1:] else name
