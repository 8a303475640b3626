"""The keywords of the functions that simulate are stated once: everything else derives from them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

import binhop
from binhop.cli.run import run
from binhop.run_options import (
    KEYWORDS,
    PassOptions,
    PlacementOptions,
    RunOptions,
    UntilOptions,
    keywords,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TAKERS: dict[Callable[..., Any], type] = {
    binhop.simulate: RunOptions,
    binhop.simulate_all: RunOptions,
    binhop.explain: RunOptions,
    binhop.simulate_until: UntilOptions,
    binhop.placements: PlacementOptions,
    binhop.repeated_misses: PlacementOptions,
    binhop.compare: PassOptions,
    binhop.switches: RunOptions,
    binhop.switch_surface: RunOptions,
    binhop.translate: RunOptions,
}
NOT_ON_THE_COMMAND_LINE = {
    "instructions": "--length is in references, as rates and times are",
    "progress": "a terminal shows it, unless --quiet",
}


@pytest.mark.parametrize("function", TAKERS, ids=lambda function: function.__name__)
def test_a_function_shows_its_keywords(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters
    text = " ".join(function.__doc__.split())
    for name, (kind, keyword) in keywords(TAKERS[function]).items():
        assert parameters[name].annotation == kind
        assert parameters[name].default == keyword.default
        assert f"{name}: {keyword.meaning}" in text
    assert "**options" not in text
    assert max(map(len, function.__doc__.splitlines())) <= 110


@pytest.mark.parametrize("function", TAKERS, ids=lambda function: function.__name__)
def test_an_unknown_keyword_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'lenght'. Did you mean 'length'\?"):
        function("kh90", "lin", lenght=5)


def test_a_keyword_of_other_functions_is_refused() -> None:
    with pytest.raises(TypeError, match=r"compare\(\) got an unexpected keyword argument 'policy'"):
        binhop.compare(["kh90", "zen-4k"], "lin", policy=print)  # type: ignore[call-arg]


def test_every_keyword_is_an_option_of_the_command_line_or_says_why_not() -> None:
    options = inspect.signature(run).parameters
    missing = [name for name in KEYWORDS if name not in options and name not in NOT_ON_THE_COMMAND_LINE]
    assert not missing, f"python/binhop/cli/options.py and cli/run.py have no option for {missing}"
    assert not [name for name in NOT_ON_THE_COMMAND_LINE if name in options]
