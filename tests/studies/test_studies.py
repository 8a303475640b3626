"""Every study under `studies/` can be planned, says its question, is listed, and has a page of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binhop import study
from binhop.errors import BinhopError
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

STUDIES = sorted((ROOT / "studies").rglob("*.toml"))


def missing(path: Path) -> list[str]:
    """Returns what a study lacks, each with file and line."""
    here = path.relative_to(ROOT)
    lines = path.read_text().splitlines()
    found = []
    if path.name != "study.toml" or path.parent.parent != ROOT / "studies":
        found.append(f"{here}:1: a study is studies/NAME/study.toml")
    if not lines[0].startswith("# ") or "?" not in lines[0]:
        found.append(f"{here}:1: begin with a comment that says which question the study answers")
    try:
        document = study.load(path)
        for scale in document.scale or [None]:
            study.plan(document, scale=scale, directory=path.parent)
        if document.name != path.parent.name:
            found.append(f"{here}: name = {document.name!r} is not the name of its directory")
    except BinhopError as error:
        found.append(f"{here}: {error}")
    page = path.parent / "README.md"
    if not page.is_file():
        found.append(f"{page.relative_to(ROOT)} is missing: say what is simulated, and what was found")
    elif f"binhop sweep {here}" not in page.read_text():
        found.append(f"{page.relative_to(ROOT)}:1: give the command `binhop sweep {here}`")
    guide = ROOT / "docs" / "studies.md"
    if not guide.is_file() or f"](../{page.relative_to(ROOT)})" not in guide.read_text():
        found.append(f"docs/studies.md:1: list {page.relative_to(ROOT)}")
    return found


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_a_study_has_everything(path: Path) -> None:
    lacks = missing(path)
    assert not lacks, "\n" + "\n".join(lacks)


def test_what_a_study_lacks_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    path = tmp_path / "studies" / "mine" / "study.toml"
    path.parent.mkdir(parents=True)
    path.write_text(
        'name = "yours"\ntitle = "t"\n[[part]]\nname = "p"\nworkloads = ["lin"]\nmachine = "kh90"\n'
    )
    assert [line.split(": ")[0] for line in missing(path)] == [
        "studies/mine/study.toml:1",
        "studies/mine/study.toml",
        "studies/mine/README.md is missing",
        "docs/studies.md:1",
    ]
    guide = tmp_path / "docs" / "studies.md"
    guide.parent.mkdir()
    guide.write_text("| [mine](../studies/mine/README.md) |\n")
    (path.parent / "README.md").write_text("# Mine\n")
    path.write_text("# Is it so?\n" + path.read_text().replace("yours", "mine").replace('"lin"', '"gone"'))
    assert [line.split(": ")[0] for line in missing(path)] == [
        "studies/mine/study.toml",
        "studies/mine/README.md:1",
    ]
