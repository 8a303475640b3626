"""Makes a pass over each trace of a command, and reads the lists of its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from binhop.cli import options
from binhop.cli.early_end import ending_early
from binhop.cli.progress import progress
from binhop.pace import Passes, references_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import binhop
    from binhop.kept_runs import KeptRuns

Made = TypeVar("Made")


def over_each(
    opened: list[binhop.Trace],
    bound: int | None,
    kept: KeptRuns | None,
    make: Callable[..., Made],
    wanted: dict[str, Any],
    *,
    what: str,
    quiet: bool,
) -> list[Made]:
    """Makes a pass over each trace, with the keywords `wanted`. Ctrl-C ends it early if nothing is kept.

    Args:
        opened: The traces.
        bound: The length that the user asked for.
        kept: The runs that earlier attempts kept.
        make: Makes a pass: it takes the kept runs, the trace, `length`, `progress` and the keywords.
        wanted: The keywords.
        what: What the pass measures, as the progress shows it.
        quiet: True if no progress is shown.
    """
    results: list[Made] = []
    lengths = [options.length_of(bound, trace) for trace in opened]
    title = " ".join(trace.name for trace in opened)
    with ending_early(results, kept), progress(f"{title}, {what}", quiet=quiet) as tell:
        passes = None
        if tell is not None:
            passes = Passes(tell, map(references_of, opened, lengths))
        for trace, most in zip(opened, lengths, strict=True):
            own = None if passes is None else passes.next()
            results.append(make(kept, trace, length=most, progress=own, **wanted))
    return results


def parts(text: str) -> list[str]:
    """Returns the parts of a list with commas.

    >>> parts("1MiB, 2MiB")
    ['1MiB', '2MiB']
    """
    return [part.strip() for part in text.split(",") if part.strip()]
