"""`Claims` checks the files of a command: no input is overwritten, and no foreign file is replaced unasked.

A command names its inputs, then its outputs, before it begins. An output that is an input, or the same file
as another output, is always refused. Files are compared by device and inode, through links of either kind. An
existing file is replaced if it is empty, or an earlier output of the same command. Any other file is replaced
only with `--force`. The command's `OwnTest` recognises the command's earlier outputs:

- a trace or a placement names the command that wrote it (`binhop.made-by` in its metadata);
- a JSON result begins with the number of its schema, an observed order with its command;
- an export has no room for such a mark, so `--force` is needed to replace an export.

A directory of results is replaced file by file (`own_files.py`). For a directory `Claims` therefore checks
only that none of its files is an input, and that no other output lies in the directory. A device may always
be written to.

`-` stands for standard output. Commands that write text there handle `-` before they claim their outputs. `-`
is refused as the name of any other output.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from binhop import _binhop, interrupts
from binhop.errors import RequestError
from binhop.output import OutputFile, ResultDirectory
from binhop.own_files import own_files
from binhop.partial import resolved

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binhop._binhop import Machine

OwnTest = Callable[[Path], bool]
"""A function that returns whether a file is an earlier output of the command."""
_Identity = tuple[int, int]
_HEAD = 256
"""The number of bytes in which a text output is recognised."""


def _begins(form: str) -> OwnTest:
    pattern = re.compile(form.encode())

    def own(path: Path) -> bool:
        with path.open("rb") as file:
            return pattern.match(file.read(_HEAD)) is not None

    return own


def made_by(command: str) -> OwnTest:
    """Returns the test for a trace, or a placement, that this command wrote."""
    return lambda path: _binhop.made_by(str(path)) == command


RESULT = _begins(r'\s*\{\s*"schema"\s*:\s*\d+\s*,')
"""The test for the JSON of a result."""
ORDER = _begins(r'\{"command":\["')
"""The test for an observed order of processes."""


def unmarked(_: Path) -> bool:
    """Returns False: an output without a mark is never recognised as the command's own."""
    return False


class Claims:
    """`Claims` holds the inputs and outputs of one command.

    Args:
        force: Whether files that the command did not write may be replaced.
    """

    def __init__(self, *, force: bool = False) -> None:
        self._force = force
        self._inputs: dict[_Identity, str] = {}
        self._outputs: dict[Path | _Identity, str] = {}
        self._directories: dict[Path, str] = {}

    def reads(self, *paths: str | os.PathLike[str] | None) -> None:
        """Claims files and directories as inputs. Names of other things are skipped."""
        for path in paths:
            if path is not None and (identity := _identity(Path(path))) is not None:
                self._inputs.setdefault(identity, os.fspath(path))

    def reads_machines(self, machines: Iterable[Machine], *paths: str) -> None:
        """Claims machines' descriptions as inputs, and the placements that the machines repeat."""
        self.reads(*(path for path in paths if not Path(path).is_dir()))
        for machine in machines:
            if machine.placement_file is not None:
                self.reads(machine.placement_file, f"{machine.placement_file}.maps")

    def file(self, path: str | None, place: str, own: OwnTest) -> AbstractContextManager[OutputFile | None]:
        """Claims and returns the output file of an option; None if the path is None or `-`."""
        if path is None or path == "-":
            return nullcontext()
        self._claim(path, place, own)
        return OutputFile(path, place)

    def directory(self, path: str | None, place: str) -> AbstractContextManager[ResultDirectory | None]:
        """Claims and returns the directory of results of an option, if one is given."""
        if path is None:
            return nullcontext()
        check_name(path, place)
        target = _resolved(path, place)
        for name in own_files(target) or ():
            self._is_no_input(target / name, path, place)
        for output, other in self._outputs.items():
            if isinstance(output, Path):
                self._is_not_within(output, target, other, f"{place} {path}")
        self._directories[target] = f"{place} {path}"
        return ResultDirectory(path, place)

    def writes(self, path: str | os.PathLike[str], place: str, own: OwnTest) -> None:
        """Claims a file that the extension writes. A file that must not be replaced is refused."""
        self._claim(path, place, own)
        interrupts.watch(os.fspath(path), os.fspath(_resolved(os.fspath(path), place)))

    def _claim(self, path: str | os.PathLike[str], place: str, own: OwnTest) -> None:
        given = os.fspath(path)
        check_name(given, place)
        target = _resolved(given, place)
        about = _about(target)
        if about is not None and not (stat.S_ISREG(about.st_mode) or stat.S_ISFIFO(about.st_mode)):
            return  # a device may always be written to; opening a directory refuses it
        self._is_no_input(target, given, place)
        for key in (target, _identity(target)):
            if key in self._outputs:
                rule = f"is the same file as that of {self._outputs[key]}, so one output would be lost"
                raise RequestError(given, place, rule, "name two files")
            if key is not None:
                self._outputs[key] = f"{place} {given}"
        for directory, other in self._directories.items():
            self._is_not_within(target, directory, f"{place} {given}", other)
        if about is None or not stat.S_ISREG(about.st_mode) or not about.st_size or self._force:
            return
        try:
            known = own(target)
        except OSError:
            known = False
        if not known:
            rule = "is there already, and does not say that this command wrote it"
            raise RequestError(given, place, rule, "name another file, or add --force to replace it")

    def _is_no_input(self, target: Path, given: str, place: str) -> None:
        """Refuses an output that is an input, or that exists within a directory that is an input."""
        if _about(target) is None:
            return
        for path in (target, *target.parents):
            identity = _identity(path)
            if identity in self._inputs:
                read = self._inputs[identity]
                what = "is" if path == target else "lies in"
                rule = f"{what} what the command reads ({read}): it would be overwritten"
                raise RequestError(given, place, rule, "give another place")

    @staticmethod
    def _is_not_within(target: Path, directory: Path, output: str, other: str) -> None:
        if directory == target:
            rule = f"is the same place as that of {other}, so one output would be lost"
            raise RequestError(output, "", rule, "name two places")
        if directory in target.parents:
            rule = f"lies in the directory of {other}, which is replaced"
            raise RequestError(output, "", rule, "name a file elsewhere")


def check_name(path: str, place: str) -> None:
    """Refuses `-` as the name of a file or directory: it means standard output, which takes only text."""
    if path == "-":
        rule = "stands for standard output, and only text is written there"
        raise RequestError(path, place, rule, "give a name, or ./- for a file called so")


def _resolved(path: str, place: str) -> Path:
    try:
        return resolved(path)
    except OSError as error:
        why = error.strerror or str(error)
        raise RequestError(path, place, f"cannot be written: {why}", "give another place") from None


def _about(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


def _identity(path: Path) -> _Identity | None:
    """Returns the device and inode, which identify a file under all its names."""
    about = _about(path)
    if about is None or stat.S_ISCHR(about.st_mode):
        return None
    return about.st_dev, about.st_ino
