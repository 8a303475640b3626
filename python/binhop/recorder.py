"""Finds the recorder, builds it when it is first needed, and keeps it for the next time.

The recorder is a Valgrind tool in C (the directory `recorder/`). It is compiled on this machine against the
installed Valgrind, because a tool works with only one version of Valgrind.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from binhop.errors import RequestError
from binhop.partial import DIRECTORY, Partial, sync
from binhop.trust import distrusted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binhop.trust import Distrusted

SOURCES = ("main.c", "pipe.c", "instrument.c", "memory.c", "calls.c", "files.c")
HEADERS = ("recorder.h", "wire.h")
TOOL = "binhop-amd64-linux"
GET_VALGRIND = "install it: `apt install valgrind`, `dnf install valgrind-devel`, or from valgrind.org"

# The address of the tool's text, where no program lies (valgrind.pc: valt_load_address).
_LOAD_ADDRESS = "0x58000000"
_CFLAGS = [
    *["-m64", "-O2", "-g", "-std=gnu99", "-Wall", "-fno-pic", "-fno-pie"],
    *["-fno-stack-protector", "-fno-builtin", "-fno-strict-aliasing"],
    *["-DVGA_amd64=1", "-DVGO_linux=1", "-DVGP_amd64_linux=1", "-DVGPV_amd64_linux_vanilla=1"],
]
_LDFLAGS = [
    *["-static", "-nostartfiles", "-nodefaultlibs", "-no-pie", "-u", "_start"],
    *[f"-Wl,-Ttext-segment={_LOAD_ADDRESS}", "-Wl,--build-id=none"],
]
_LIBRARIES = ("libcoregrind-amd64-linux.a", "libvex-amd64-linux.a", "libgcc-sup-amd64-linux.a")
# The core needs these files beside a tool.
_BESIDE = ("vgpreload_core-amd64-linux.so", "default.supp")
_ELSEWHERE = "set XDG_CACHE_HOME to a directory of yours"


@dataclass(frozen=True)
class Valgrind:
    """`Valgrind` is an installed Valgrind, with the parts that a tool is built against.

    Attributes:
        command: The `valgrind` command.
        version: As in 3.19.0.
        include: The directory of its headers; None if they are not installed.
        headers: The version that the headers say.
        lib: The directory of its static libraries, or None.
        libexec: The directory of its tools, or None.
    """

    command: Path
    version: str
    include: Path | None
    headers: str | None
    lib: Path | None
    libexec: Path | None

    def missing(self) -> str | None:
        """Returns why no tool can be built for this Valgrind; None if a tool can."""
        if platform.machine() != "x86_64":
            return f"the recorder knows x86-64 only, and this is {platform.machine()}"
        if self.include is None:
            return "Valgrind's development headers (pub_tool_basics.h) are not installed"
        if self.headers != self.version:
            return f"the headers are of Valgrind {self.headers}, the command is {self.version}"
        if self.lib is None:
            return f"Valgrind's static libraries ({_LIBRARIES[0]}) are not installed"
        if self.libexec is None:
            return f"Valgrind's own files ({_BESIDE[0]}) are not where the command is"
        if compiler() is None:
            return "there is no C compiler (cc)"
        return None


def valgrind() -> Valgrind | None:
    """Returns the Valgrind that is installed; None if there is no `valgrind` command.

    Raises:
        RequestError: A signal ended `valgrind --version`.
    """
    found = shutil.which("valgrind")
    if found is None:
        return None
    version = _ended([found, "--version"]).stdout.strip().removeprefix("valgrind-")
    prefixes = list(dict.fromkeys([Path(found).parent.parent, Path(found).resolve().parent.parent]))
    include = _first(prefixes, ("include/valgrind",), "pub_tool_basics.h")
    headers = None
    if include is not None and (include / "config.h").is_file():
        text = (include / "config.h").read_text(encoding="utf-8", errors="replace")
        match = re.search(r'^#define VERSION "(.*)"$', text, re.MULTILINE)
        headers = match.group(1) if match else None
    places = ("lib/*/valgrind", "lib/valgrind", "lib64/valgrind", "libexec/valgrind")
    return Valgrind(
        command=Path(found),
        version=version,
        include=include,
        headers=headers,
        lib=_first(prefixes, places, _LIBRARIES[0]),
        libexec=_first(prefixes, places, _BESIDE[0]),
    )


def _ended(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end. The output of a program that a signal ended is not used.

    Raises:
        RequestError: A signal ended the program.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode < 0:
        rule = "a signal ended the command before it was done"
        raise RequestError(f"signal: {-done.returncode}", command[0], rule, "try again")
    return done


def compiler() -> str | None:
    """Returns the C compiler: the words of CC, or cc."""
    return shutil.which(os.environ.get("CC") or "cc")


def sources() -> Path | None:
    """Returns the directory of the recorder's sources, in the checkout or in the installed package."""
    here = Path(__file__).resolve().parent
    for place in (here.parent.parent / "recorder", here / "_recorder"):
        if (place / SOURCES[0]).is_file():
            return place
    return None


def cache() -> Path:
    """Returns the directory in which built recorders are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(home) / "binhop" / "recorder"


def built(installed: Valgrind) -> Path:
    """Returns the directory of the recorder for this Valgrind. A recorder that is missing is built.

    Raises:
        RequestError: It cannot be built.
    """
    why = installed.missing()
    place = sources()
    if why is None and place is None:
        why = "the recorder's sources are not installed with binhop"
    if why is not None or place is None:
        raise RequestError(
            "the recorder", "", f"cannot be built: {why}", "`binhop doctor` says what to install"
        )
    ready = cache() / f"{installed.version}-{_fingerprint(place)}"
    with _alone(ready.parent):
        if not _is_whole(ready):
            _build(installed, place, ready)
        for name in ("", TOOL, *_BESIDE):
            if (found := distrusted(ready / name)) is not None:
                raise _not_ours(found)
    return ready


def _first(prefixes: list[Path], places: tuple[str, ...], holds: str) -> Path | None:
    for prefix in prefixes:
        for place in places:
            for directory in sorted(prefix.glob(place)):
                if (directory / holds).exists():
                    return directory
    return None


def _fingerprint(place: Path) -> str:
    """Returns a fingerprint of everything that a recorder is built from. Changed sources change it."""
    digest = hashlib.sha256(" ".join([*_CFLAGS, *_LDFLAGS]).encode())
    for name in (*SOURCES, *HEADERS):
        digest.update((place / name).read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Locks the directory of built recorders against other builds, and makes it if it does not exist."""
    if (found := distrusted(directory)) is not None:
        raise _not_ours(found)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(directory, DIRECTORY)
    except OSError as error:
        raise _cannot_keep(directory, error) from None
    try:
        with suppress(OSError):  # without locks, two builds cost time and do no harm
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _is_whole(ready: Path) -> bool:
    """Returns whether a recorder is complete, and nobody else may have written to it."""
    files = (ready / TOOL, *(ready / name for name in _BESIDE))
    if not all(file.is_file() for file in files):
        return False
    # Another user may have changed a recorder that was built under a lax umask.
    return not any(file.lstat().st_mode & 0o022 for file in (ready, ready / TOOL))


def _not_ours(found: Distrusted) -> RequestError:
    rule = f"programs must not run a recorder that another user may have put there, and {found}"
    return RequestError(str(cache()), "record", rule, found.remedy or _ELSEWHERE)


def _cannot_keep(directory: Path, error: OSError) -> RequestError:
    rule = f"the recorder cannot be kept there ({error.strerror})"
    return RequestError(str(directory), "", rule, _ELSEWHERE)


def _build(installed: Valgrind, place: Path, ready: Path) -> None:
    """Compiles into a directory of its own, which then takes the target's place."""
    assert installed.include is not None
    assert installed.lib is not None
    assert installed.libexec is not None
    try:
        if ready.is_symlink():
            ready.unlink()
        elif ready.exists():  # the directory is incomplete, or another user may have written to it
            shutil.rmtree(ready)
        made = Partial.directory(ready)
    except OSError as error:
        raise _cannot_keep(ready.parent, error) from None
    try:
        libraries = [str(installed.lib / name) for name in _LIBRARIES]
        libraries = [library for library in libraries if Path(library).exists()]
        command = [
            *[compiler() or "cc", *_CFLAGS, f"-I{installed.include}"],
            *[str(place / name) for name in SOURCES],
            *["-o", str(made.path / TOOL), *_LDFLAGS, *libraries, "-lgcc"],
        ]
        done = _ended(command)
        if done.returncode != 0:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            rule = f"does not compile with Valgrind {installed.version}: {first.strip()}"
            raise RequestError("the recorder", "", rule, "`binhop doctor` says what is installed")
        (made.path / TOOL).chmod(0o755)
        made.path.chmod(0o755)
        sync(made.path)
        for name in _BESIDE:
            (made.path / name).symlink_to(installed.libexec / name)
        made.move(ready)
    except OSError as error:
        raise _cannot_keep(ready.parent, error) from None
    finally:
        made.remove()
