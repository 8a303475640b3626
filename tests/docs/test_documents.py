"""Runs the documents: README, guides, docstrings, examples. Generated pages must be up to date."""

from __future__ import annotations

import doctest
import importlib
import itertools
import os
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import typer

import binhop
from binhop.cli.app import app
from tests.conftest import COMMAND, ROOT

if TYPE_CHECKING:
    from pathlib import Path

GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONG = re.compile(r"^binhop (reproduce|.*(--until|--seed worst))", re.MULTILINE)
"""Commands of seconds. `make test` runs each of them in the tests of its option."""
BEGINNERS = ("README.md", "quick-start.md")
"""The guides whose commands `make test` runs. `make test-long` runs those of the others."""
ENDS = {"|", ">", ">>", "<", "&&", ";", "2>"}
"""The words of a shell that end a command's own words."""
COMMANDS = typer.main.get_command(app())
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for guide in GUIDES:
        for number, (kind, text) in enumerate(FENCE.findall(guide.read_text())):
            if kind == language:
                is_long = LONG.search(text) or (kind == "sh" and guide.name not in BEGINNERS)
                marks = [pytest.mark.long] if is_long else []
                found.append(pytest.param(text, id=f"{guide.name}-{number}", marks=marks))
    return found


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    for name in ("examples", "studies"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "binhop").symlink_to(COMMAND)
    return tmp_path


@pytest.mark.parametrize("script", blocks("sh"))
def test_the_commands_of_the_documents_run(script: str, workplace: Path) -> None:
    lines = []
    for line in script.splitlines():
        if make := re.match(r"make (\S+)", line):
            assert make[1] in TARGETS, line  # the targets themselves are what runs these tests
        else:
            lines.append(line)
    path = f"{COMMAND.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=workplace,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_command_of_the_documents_can_be_read() -> None:
    read = 0
    for guide in GUIDES:
        scripts = (text for kind, text in FENCE.findall(guide.read_text()) if kind == "sh")
        for line in "\n".join(scripts).replace("\\\n", " ").splitlines():
            if not line.startswith("binhop "):
                continue
            of_line = shlex.split(line, comments=True)
            words = [*itertools.takewhile(lambda word: word not in ENDS, of_line)][1:]
            command: Any = COMMANDS
            while words and words[0] in getattr(command, "commands", ()):
                command = command.commands[words.pop(0)]
            if command is COMMANDS or "-h" in words or "--help" in words:
                continue
            command.make_context(command.name, words)  # raises an error for an option that does not exist
            read += 1
    assert read > 50


@pytest.mark.parametrize("program", blocks("python"))
def test_the_programs_of_the_documents_run(
    program: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace)
    exec(compile(program, "document", "exec"), {})


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_the_examples_run(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


MODULES = ["binhop", *(module.name for module in pkgutil.walk_packages(binhop.__path__, "binhop."))]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith(("__main__", "_binhop"))])
def test_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_generated_pages_are_up_to_date() -> None:
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    for name, make in generate["PAGES"].items():
        assert (ROOT / "docs" / name).read_text() == make(), f"run {sys.executable} docs/generate.py"


def test_the_readme_names_every_foreign_format() -> None:
    lines = (ROOT / "README.md").read_text().lower().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("foreign formats are"))
    end = lines.index("", first)
    named = set(re.findall(r"[a-z0-9]+", " ".join(lines[first:end])))
    for name in binhop.formats()["name"]:
        family = name.split("-")[0]
        assert name == "text" or family in named, f"README.md:{first + 1}: name the format {family}"


def test_links_lead_somewhere() -> None:
    for guide in GUIDES:
        for link in re.findall(r"\]\(([^)#:]+)\)", guide.read_text()):
            assert (guide.parent / link).exists(), f"{guide.name}: {link}"


def test_every_public_name_is_documented_and_the_stub_speaks_like_the_binary() -> None:
    for name in binhop.__all__:
        if name != "__version__":
            assert getattr(binhop, name).__doc__, name
