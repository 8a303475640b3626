"""Tests the shell's completions and their speed, and the groups of the help."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import typer

import binhop
from binhop.cli.app import app
from binhop.cli.panels import OTHER, RECORDING, SIMULATION
from tests.conftest import COMMAND, Command

if TYPE_CHECKING:
    from pathlib import Path

TREE = typer.main.get_command(app())


def completed(directory: Path, line: str, shell: str = "bash") -> list[str]:
    """Returns the completions of the last word of a line."""
    words = line.split(" ")
    how = {"bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}}
    how["zsh"] = {"_TYPER_COMPLETE_ARGS": line}
    done = subprocess.run(
        [COMMAND],
        cwd=directory,
        env={**os.environ, **how[shell], "_BINHOP_COMPLETE": f"complete_{shell}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [word for word in done.stdout.splitlines() if word]


def test_names_and_files_are_completed(tmp_path: Path) -> None:
    for name in ("linear.parquet", "kind.toml", "zone.din", ".hidden.toml"):
        (tmp_path / name).touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "m.toml").touch()
    assert completed(tmp_path, "binhop ru") == ["run"]
    assert completed(tmp_path, "binhop run k") == ["kh90", "kind.toml"]
    assert completed(tmp_path, "binhop run s") == ["softvm", "skylake", "sub/"]
    assert completed(tmp_path, "binhop run sub/") == ["sub/m.toml"]
    assert completed(tmp_path, "binhop run kh90 li") == ["lin", "linear.parquet"]
    assert completed(tmp_path, "binhop inspect z") == ["zone.din"]
    assert completed(tmp_path, "binhop compare kh90 z") == ["zen-4k", "zone.din"]
    assert completed(tmp_path, "binhop machines zen") == ["zen-4k"]


def test_settings_and_metrics_are_those_of_the_machine(tmp_path: Path) -> None:
    keys = completed(tmp_path, "binhop run two-level lin --set cache.l2.")
    assert "cache.l2.size=" in keys
    assert not completed(tmp_path, "binhop run two-level lin --set cache.l3.")
    assert "cache.l3.size=" in completed(tmp_path, "binhop run zen-4k lin --set cache.l3.")
    for key in keys:
        with pytest.raises(binhop.RequestError) as refused:
            binhop.Machine.load("two-level", [f"{key}?"])
        assert "no key" not in refused.value.rule, key
    assert completed(tmp_path, "binhop run two-level lin --metric l2.m") == ["l2.mpi"]
    assert completed(tmp_path, "binhop run two-level lin --cache l") == ["l1i", "l1d", "l2"]
    assert completed(tmp_path, "binhop run zen-4k lin --cache l3") == ["l3"]
    levels = completed(tmp_path, "binhop run kh90 lin --set cost.")
    assert levels == ["cost.mode=", "cost.level-1=", "cost.l2=", "cost.memory="]
    offered = completed(tmp_path, "binhop run kh90 lin --set placement.policy=", "zsh")
    assert [word for word in offered if "placement.policy=random" in word]


def test_an_export_completes_its_formats(tmp_path: Path) -> None:
    names = [name for name, *_ in binhop._binhop.exporters()]
    assert sorted(completed(tmp_path, "binhop export lin --to ")) == sorted(names)
    assert completed(tmp_path, "binhop export lin --to d") == [name for name in names if name[0] == "d"]


def test_a_completion_reads_no_table() -> None:
    """Importing Polars takes longer than all other imports together."""
    program = (
        "import sys; from binhop.cli import main; main([]); "
        "assert not {'polars', 'altair', 'scipy'} & set(sys.modules), 'too much is imported'"
    )
    for line in (
        "binhop run z",
        "binhop run kh90 lin --set cache.",
        "binhop run kh90 lin --metric l",
        "binhop export lin --to d",
    ):
        environment = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        environment["_BINHOP_COMPLETE"] = "complete_bash"
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout, line


def test_the_script_is_shown() -> None:
    """The script is that of the shell which started the command."""
    line = ["bash", "-c", f"{COMMAND} --show-completion; exit $?"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True)
    assert "_BINHOP_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("name", "panels"), [*((name, SIMULATION) for name in ("run", "compare", "sweep")), ("record", RECORDING)]
)
def test_the_help_is_in_groups_at_80_columns(
    name: str, panels: dict[str, tuple[str, ...]], command: Command
) -> None:
    shown = command.ok(name, "--help").stdout
    assert max(map(len, shown.splitlines())) <= 80
    titles = re.findall(r"^╭─ (.*?) ─+╮$", shown, re.MULTILINE)
    assert titles[0] == "Arguments"
    assert titles[-1] == OTHER
    assert titles[1:-1] == [panel for panel in panels if panel in titles]
    assert len(titles) >= 5
    options = {word for parameter in TREE.commands[name].params for word in parameter.opts}
    missing = options & {option for names in panels.values() for option in names}
    for option in missing:
        assert option in shown
    for panel in titles[1:-1]:
        part = shown.split(f"─ {panel} ─")[1].split("╰")[0]
        assert {*re.findall(r"^│ (--[a-z0-9-]+)", part, re.MULTILINE)} == {*panels[panel]} & options


def test_every_option_of_a_group_is_one_of_a_command() -> None:
    simulating = ("run", "compare", "sweep", "paging", "reuse", "switches", "surface", "translate", "io")
    for panels, names in ((SIMULATION, simulating), (RECORDING, ("record",))):
        known = {
            word for name in names for parameter in TREE.commands[name].params for word in parameter.opts
        }
        for panel, options in panels.items():
            assert {*options} <= known, panel
