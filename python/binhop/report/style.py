"""Defines what every figure shares: colours, type, and the files of a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binhop.escape import escaped
from binhop.file_names import as_file_name
from binhop.lazy_imports import alt, pl, vl_convert

if TYPE_CHECKING:
    from pathlib import Path

# Okabe and Ito's colours: distinct for every kind of colour vision, and in print.
ORANGE, BLUE, GREEN, PINK = "#D55E00", "#0072B2", "#009E73", "#CC79A7"
YELLOW, SKY, BLACK, GREY = "#E69F00", "#56B4E9", "#000000", "#8A8A8A"

SCALE = 2.0
"""Pixels per unit of length in the PNG: figures are sharp on dense screens and as wide as a README."""


def finish(chart: Any, title: str, subtitle: str | list[str] = "") -> Any:
    """Completes a figure with title, margins and binhop's axes, and returns it."""
    heading = alt.TitleParams(
        title,
        subtitle=subtitle,
        anchor="start",
        fontSize=15,
        fontWeight="bold",
        subtitleFontSize=12,
        subtitleColor="#555555",
        offset=16,
    )
    # Altair's methods `properties`, `configure_view` and so on would copy every part of the chart each time.
    config = alt.Config(
        view=alt.ViewConfig(stroke=None),
        title=alt.TitleConfig(fontSize=12, fontWeight="normal", color="#333333", anchor="start", offset=10),
        axis=alt.AxisConfig(
            labelFontSize=11,
            labelFlush=False,
            titleFontSize=12,
            titleFontWeight="normal",
            gridColor="#ECECEC",
            domainColor="#888888",
            tickColor="#888888",
            labelColor="#333333",
            titleColor="#333333",
        ),
    )
    chart.title, chart.background, chart.padding, chart.config = heading, "white", 12, config
    return chart


def in_words(title: str, text: str) -> Any:
    """Returns a figure that holds a sentence, where there is nothing to draw."""
    words = alt.Chart(pl.DataFrame({"text": [text]})).mark_text(align="left", baseline="top", fontSize=13)
    shown = words.encode(x=alt.value(0), y=alt.value(0), text="text:N").properties(width=640, height=24)
    return finish(shown, title)


def specification(chart: Any) -> dict[str, Any]:
    """Returns the chart as Vega-Lite. By default Altair refuses more than 5,000 rows."""
    with alt.data_transformers.enable("default", max_rows=None):
        whole: dict[str, Any] = chart.to_dict()
    return whole


def held(chart: Any) -> Any:
    """Returns the chart with its rows inside it, so that Altair shows it whatever the number of rows."""
    return type(chart).from_dict(specification(chart))


def save(chart: Any, directory: Path, stem: str) -> list[Path]:
    """Writes the chart as PNG and as SVG, and returns the files. Names in both files are escaped."""
    escaped_chart = _escaped(specification(chart))
    stem = as_file_name(stem)
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    png, svg = directory / f"{stem}.png", directory / f"{stem}.svg"
    picture = vl_convert.vegalite_to_svg(escaped_chart, vl_version=version)
    svg.write_text(picture, encoding="utf-8")
    # `vegalite_to_png` would lay out the chart once more, and make the same PNG from the same SVG.
    png.write_bytes(vl_convert.svg_to_png(picture, scale=SCALE))
    return [png, svg]


def _escaped(part: Any) -> Any:
    """Returns the chart with every text escaped. XML allows no control characters."""
    if isinstance(part, str):
        return escaped(part)
    if isinstance(part, dict):
        return {key: _escaped(value) for key, value in part.items()}
    return [_escaped(each) for each in part] if isinstance(part, list) else part
