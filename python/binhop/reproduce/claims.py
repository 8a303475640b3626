"""Judges claims of a paper: the paper's statement, the measurement, and a verdict."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, get_args

from binhop.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binhop.output import ResultDirectory

Verdict = Literal["holds", "fails", "undecided"]

Judged = Callable[["list[Claim]"], None]
"""Takes the claims of a reproduction when they are judged."""

FILE = "claims.json"


@dataclass(frozen=True)
class Claim:
    """`Claim` is one claim of a paper, with its verdict.

    Attributes:
        id: The name of the claim: K1, L1, …
        statement: The paper's statement.
        measured: The measurement: a number, or a few with their names.
        interval: The interval of the deciding number: (low, high), or several with their names; None if the
            number is exact.
        verdict: "undecided" means that the interval is too wide or the prefix too short; `how` says which.
        how: The rule of the verdict, and the value of each of its conditions.
    """

    id: str
    statement: str
    measured: float | Mapping[str, float | None] | None
    interval: tuple[float, float] | Mapping[str, tuple[float, float]] | None
    verdict: Verdict
    how: str

    def __post_init__(self) -> None:
        assert self.verdict in get_args(Verdict), self.verdict
        assert self.how, f"{self.id}: a verdict without its rule"

    def undecided(self, reason: str) -> Claim:
        """Returns the same claim without a verdict, and the reason."""
        return Claim(
            self.id, self.statement, self.measured, self.interval, "undecided", f"{self.how} {reason}"
        )


def fill(
    place: ResultDirectory,
    write: Callable[[Path], None],
    judge: Callable[[Path], list[Claim]],
    report: Callable[[Path, list[Claim]], object],
    *,
    judged: Judged | None,
    command: list[str],
) -> None:
    """Fills the directory of a reproduction, and hands its claims to `judged`.

    If the directory cannot be written, the claims are judged in a temporary directory.

    Args:
        place: The directory.
        write: Writes the tables of the study into a directory.
        judge: Judges the claims from these tables.
        report: Makes everything else from tables and claims.
        judged: Takes the claims.
        command: The command that made the directory.

    Raises:
        RequestError: The directory cannot be written.
    """
    found: list[Claim] = []

    def everything(directory: Path) -> None:
        write(directory)
        found.extend(judge(directory))
        report(directory, found)

    try:
        place.fill_by(everything, command=command)
    except RequestError:
        if not found:
            with suppress(OSError, RequestError), TemporaryDirectory(prefix="binhop-") as elsewhere:
                write(Path(elsewhere))
                found.extend(judge(Path(elsewhere)))
        raise
    finally:
        if judged is not None and found:
            judged(found)


def as_json(claims: Iterable[Claim]) -> str:
    """Returns the claims as claims.json holds them."""
    return json.dumps([_plain(asdict(claim)) for claim in claims], indent=2, allow_nan=False) + "\n"


def write(claims: Iterable[Claim], directory: Path) -> Path:
    """Writes claims.json into a directory."""
    path = directory / FILE
    path.write_text(as_json(claims), encoding="utf-8")
    return path


def read(directory: Path) -> list[Claim]:
    """Returns the claims of a directory."""
    rows: list[dict[str, Any]] = json.loads((directory / FILE).read_text(encoding="utf-8"))
    return [Claim(**{**row, "interval": _pair(row["interval"])}) for row in rows]


def _plain(value: Any) -> Any:
    """Returns a value that JSON can hold: an undefined number is null."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _pair(interval: Any) -> Any:
    if isinstance(interval, dict):
        return {key: tuple(pair) for key, pair in interval.items()}
    return None if interval is None else tuple(interval)
