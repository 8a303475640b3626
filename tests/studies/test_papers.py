"""Every paper in the list of `binhop.reproduce` has its package, figures, README, and tests of each claim."""

from __future__ import annotations

import importlib
import json
import re

import pytest

from binhop.reproduce import PAPERS
from tests.conftest import ROOT

SOURCE = ROOT / "python" / "binhop" / "reproduce" / "__init__.py"
PARTS = ("report.md", "claims.json", "provenance.json")
"""The files of a run that are asked for; `studies/KEY` keeps a run at the paper's `published` scale."""


def place_of(key: str) -> str:
    lines = SOURCE.read_text().splitlines()
    line = next(number for number, line in enumerate(lines, 1) if f'"{key}"' in line)
    return f"{SOURCE.relative_to(ROOT)}:{line}"


@pytest.mark.parametrize("key", PAPERS)
def test_a_paper_has_everything(key: str) -> None:
    missing = []
    try:
        module = importlib.import_module(PAPERS[key].module)
        missing += [f"{module.__name__}.{name}" for name in ("run", "report") if not hasattr(module, name)]
    except ModuleNotFoundError as error:
        missing.append(f"python/binhop/reproduce/{key}/__init__.py ({error})")
    published = ROOT / "studies" / key
    scale = PAPERS[key].published
    parts = ("README.md", "expected.csv", *(f"{scale}/{part}" for part in PARTS))
    missing += [f"studies/{key}/{part}" for part in parts if not (published / part).is_file()]
    packaged = SOURCE.parent / key / "expected.csv"
    if not packaged.is_file() or packaged.read_bytes() != (published / "expected.csv").read_bytes():
        missing.append(f"python/binhop/reproduce/{key}/expected.csv, equal to that of studies/{key}")
    if f"| `{key}` |" not in (ROOT / "docs" / "reproduce.md").read_text():
        missing.append("a row in docs/reproduce.md")
    tests = "\n".join(path.read_text() for path in (ROOT / "tests" / "studies").glob(f"test_{key}*.py"))
    if not tests:
        missing.append(f"tests/studies/test_{key}.py")
    claims = published / scale / "claims.json"
    for claim in json.loads(claims.read_text()) if claims.is_file() else ():
        if not claim["how"]:
            missing.append(f"the rule of claim {claim['id']}")
        if not re.search(rf"(?i)(?<![a-z0-9]){claim['id']}(?![0-9])", tests):
            missing.append(f"a test of claim {claim['id']} in tests/studies/test_{key}*.py")
    assert not missing, f"{place_of(key)}: the paper {key} lacks {'; '.join(missing)}"
