"""No result and no help depends on Python's own options."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.conftest import COMMAND, Command, long

if TYPE_CHECKING:
    from pathlib import Path


SIMULATE = ("run", "kh90", "mult2.2", "--length", "300k", "--seeds", "2")


@pytest.mark.parametrize(
    "commands", [[("--help",), ("run", "--help"), SIMULATE], long([(*SIMULATE, "--out", "out")])]
)
def test_without_assertions_and_docstrings_everything_is_as_usual(
    tmp_path: Path, commands: list[tuple[str, ...]]
) -> None:
    def run(name: str, *arguments: str, **environment: str) -> str:
        (tmp_path / name).mkdir(exist_ok=True)
        done = subprocess.run(
            [COMMAND, *arguments],
            cwd=tmp_path / name,
            env={**os.environ, "COLUMNS": "80", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    for command in commands:
        plain = run("plain", *command)
        assert run("optimised", *command, PYTHONOPTIMIZE="2") == plain
    if "--out" not in commands[-1]:
        return
    # Altair is compiled anew, which takes some seconds.
    files = {file.name: file.read_bytes() for file in (tmp_path / "plain" / "out").iterdir()}
    assert any(name.endswith(".png") for name in files)
    for name in files.keys() - {"run.json"}:
        assert (tmp_path / "optimised" / "out" / name).read_bytes() == files[name]


def test_what_is_wrong_is_refused_without_docstrings_too(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    assert "did you mean kh90?" in command.refused("run", "kh09", "lin")
