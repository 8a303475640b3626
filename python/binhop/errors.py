"""What goes wrong, told so that it can be mended: the value, its place, the rule it breaks, the remedy."""

from __future__ import annotations

from binhop.escape import escaped


class BinhopError(Exception):
    """Base of the errors of binhop.

    Attributes:
        value: The value that is wrong, as it was given.
        place: Where it stands: file, line, row group, key, option; may be empty.
        rule: The rule it breaks.
        remedy: What to do about it.
    """

    exit_code = 1

    def __init__(self, value: str, place: str, rule: str, remedy: str) -> None:
        super().__init__(value, place, rule, remedy)
        self.value = value
        self.place = place
        self.rule = rule
        self.remedy = remedy

    def __str__(self) -> str:
        """Returns the message as one line. Text from a trace or a file name is escaped in it."""
        where = f"{self.place}: " if self.place else ""
        return escaped(f"{where}{self.value}: {self.rule}; {self.remedy}")


class RequestError(BinhopError):
    """The request was wrong: input, machine, arguments, or a place that cannot be written. Exit code 2."""

    exit_code = 2


class RunError(BinhopError):
    """The run failed: an invariant of the simulated physics broke. Exit code 1."""
