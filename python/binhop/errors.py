"""Defines the errors of binhop. An error names the value, its place, the rule it breaks, and the remedy."""

from __future__ import annotations

from binhop.escape import escaped


class BinhopError(Exception):
    """`BinhopError` is the base of the errors of binhop.

    Attributes:
        value: The wrong value, as it was given.
        place: The place of the value: file, line, row group, key or option; may be empty.
        rule: The rule that the value breaks.
        remedy: What to do.
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
    """`RequestError` reports a wrong request: input, machine, argument, or place to write. Exit code 2."""

    exit_code = 2


class RunError(BinhopError):
    """`RunError` reports a failed run: an invariant of the simulated physics broke. Exit code 1."""
