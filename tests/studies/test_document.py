"""Tests the study document: its keys, and the messages about wrong ones."""

from __future__ import annotations

import re

import pytest

from binhop import study
from binhop.errors import RequestError
from tests.conftest import ROOT

GOOD = """
name = "a"
title = "t"
seeds = 4
length = "1M"

[scale.smoke]
length = "100k"
[scale.smoke.part.p]
instructions = "10k"

[[part]]
name = "p"
workloads = ["lin"]
machine = "kh90"
set = { "placement.pool" = "4MiB" }
[part.axes]
"cache.l2.ways" = [1, 2]
heuristic = [
  { label = "random", set = { "placement.policy" = "random" } },
  { label = "small", set = { "placement.pool" = "1MiB" } },
]

[[part]]
name = "q"
workloads = ["lin"]
machine = "kh90"
"""


def test_the_example_of_the_documentation_is_the_example() -> None:
    text = (ROOT / "docs" / "studies.md").read_text()
    block = re.search(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    assert block[1] == (ROOT / "examples" / "ways.toml").read_text()


def test_every_key_is_documented() -> None:
    from binhop.study.document import Part, Scale, Study

    table = (ROOT / "docs" / "studies.md").read_text().split("| key | where")[1].split("## What it leaves")[0]
    for model in (Study, Part, Scale):
        for name, field in model.model_fields.items():
            key = field.alias or name
            if (model, key) not in {(Study, "part"), (Study, "scale"), (Part, "name"), (Scale, "part")}:
                assert f"`{key}`" in table, key


def test_amounts_of_the_nearest_level_win() -> None:
    document = study.parse(GOOD)
    p, q = document.part
    assert document.amount(p).length == 1_000_000
    assert document.amount(q, "smoke").length == 100_000
    small = document.amount(p, "smoke")
    assert (small.length, small.instructions) == (None, 10_000)
    assert small.seeds == (0, 1, 2, 3)
    assert study.Amount(length=7).over(small).length == 7
    assert study.Amount(length=7).over(small).instructions is None


WRONG = [
    ("seeds = 4", "sead = 4", "study: sead: no key has this name; did you mean seeds?"),
    ("seeds = 4", "seeds = 0", "study: seeds: 0: must be a number of placements, 1 to 4096, or a list"),
    ("seeds = 4", "seeds = [1, -1]", "study: seeds: [1, -1]: must be a number of placements"),
    ('"1M"', '"1Q"', "study: length: '1Q': must be a whole number, at least 1"),
    ('"1M"', "0", "study: length: 0: must be a whole number, at least 1"),
    (
        'length = "1M"',
        'length = "1M"\ninstructions = 3',
        "study: length = 1000000, instructions = 3: a run ends",
    ),
    ("seeds = 4", "confidence = 1.0", "study: confidence: 1.0: input should be less than 1"),
    ('title = "t"', "title = 3", "study: title: 3: input should be a valid string"),
    ('title = "t"', "", "study: title: title: must be given"),
    ('["lin"]', "[]", "study: part[0].workloads: []: list should have at least 1 item"),
    ('["lin"]', "[3]", "study: part[0].workloads[0]: 3: input should be a valid string"),
    ('label = "small"', 'lable = "small"', "part[0].axes.heuristic[1]: lable: no key has this name; did you"),
    ("set = { ", "sat = { ", "study: part[0]: sat: no key has this name; did you mean set?"),
    (
        "[1, 2]",
        "[[3]]",
        "study: part[0].axes.cache.l2.ways[0]: [3]: a setting is a text, a number, true or false",
    ),
    ("[part.axes]", "[part.axes]\nseed = [3]", "part[0].axes: seed: a column of the tables has this name"),
    ("[1, 2]", "[2, 2]", "part[0].axes.cache.l2.ways: 2: an axis has this value twice"),
    ('name = "q"', 'name = "p"', "part[0].name: p: two parts have this name"),
    ("scale.smoke.part.p", "scale.smoke.part.r", "study: scale.smoke.part: r: no part has this name"),
    ('name = "a"', "name = ", "study: study: is no TOML: Invalid value (at line 2, column 8)"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[new for _, new, _ in WRONG])
def test_a_wrong_document(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(RequestError) as error:
        study.parse(GOOD.replace(old, new, 1))
    assert message in str(error.value)
    assert error.value.remedy


def test_a_document_that_is_not_there() -> None:
    with pytest.raises(RequestError, match=r"study: /nowhere/x.toml: cannot be read: No such file"):
        study.load("/nowhere/x.toml")


LATER = [
    ('"lin"', '"linn"', "trace: linn: no file and no built-in workload has this name; did you mean lin?"),
    ('"kh90"', '"kh91"', "kh91"),
    ('"placement.pool" = "4MiB"', '"placement.pol" = "4MiB"', "did you mean pool?"),
    ('length = "1M"', "", "part p: workloads: lin: a built-in workload never ends"),
    ('= "random" }', '= "hashed" }', "hashed"),
    ('label = "random", set', 'label = "random", value = 3, set', "a machine has no key heuristic"),
    ("[1, 2]", str([*range(1, 10_002)]), "part p: 20002 cells: a part has at most 10000 cells"),
]


@pytest.mark.parametrize(
    ("old", "new", "message"), LATER, ids=["trace", "machine", "key", "end", "policy", "axis", "many"]
)
def test_a_document_that_asks_for_what_is_not_there(old: str, new: str, message: str) -> None:
    with pytest.raises(RequestError) as error:
        study.plan(study.parse(GOOD.replace(old, new, 1)))
    assert message in str(error.value)


def test_a_scale_that_is_not_there() -> None:
    with pytest.raises(RequestError, match=r"scale: smok: .*did you mean smoke\?"):
        study.plan(study.parse(GOOD), scale="smok")
