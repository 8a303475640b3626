"""Every command in the list of `binhop.cli.app` has a help, a document, a test and, with --json, a schema."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer

from binhop import schema
from binhop.cli.app import COMMANDS as LISTED
from binhop.cli.app import app
from tests.conftest import ROOT

if TYPE_CHECKING:
    import click

    from tests.conftest import Command


def commands(group: click.Group, before: str = "") -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        found |= commands(command, f"{before}{name} ") if inner else {f"{before}{name}": command}
    return found


GROUP = typer.main.get_command(app())
COMMANDS = commands(GROUP)
DOCUMENTS = [path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
TESTS = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]


def place_of(thing: object) -> str:
    """Returns the file and line of a function, a class, or a module."""
    thing = inspect.unwrap(thing)
    line = 1 if inspect.ismodule(thing) else inspect.getsourcelines(thing)[1]
    return f"{Path(inspect.getsourcefile(thing)).relative_to(ROOT)}:{line}"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_everything(name: str) -> None:
    command = COMMANDS[name]
    missing = []
    if not command.help:
        missing.append("a docstring, which is its help")
    missing += [
        f"a help text for {' '.join(parameter.opts)}"
        for parameter in command.params
        if not getattr(parameter, "help", None)
    ]
    if not any(f"binhop {name}" in text for text in DOCUMENTS):
        missing.append(f"a place in README.md or docs/*.md that shows `binhop {name}`")
    words = ", ".join(f'"{word}"' for word in name.split())
    if not any(re.search(rf"\(\s*{words}", text) for text in TESTS):
        missing.append(f"a test in tests/cli/ that runs it: command.ok({words}, …)")
    if any("--json" in parameter.opts for parameter in command.params) and name not in schema.OUTPUTS:
        missing.append(f"an entry in OUTPUTS ({place_of(schema)}), because it has --json")
    assert not missing, f"{place_of(command.callback)}: `binhop {name}` lacks {'; '.join(missing)}"


@pytest.mark.parametrize("name", LISTED)
def test_a_summary_is_the_first_paragraph_of_the_help(name: str) -> None:
    command = GROUP.commands[name]
    first = " ".join((command.help or "").split("\n\n")[0].split())
    assert LISTED[name].summary == first, (
        f"{place_of(command.callback or app)}: the summary in COMMANDS differs"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_fits_80_columns(name: str, command: Command) -> None:
    shown = command.ok(*name.split(), "--help").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert not re.search("<[a-z]+>", shown), "a type of Python says nothing to a user"
    # Rich takes brackets for its markup and removes them, unless a backslash stands before them.
    bare = "".join(shown.replace("│", "").split())
    helps = [COMMANDS[name].help, *(getattr(parameter, "help", None) for parameter in COMMANDS[name].params)]
    for words in re.findall(r"\[[a-z][^]]*\]", " ".join(map(str, helps))):
        assert "".join(words.split()) in bare, f"the help does not show {words}: write \\{words}"
