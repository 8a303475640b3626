"""Every figure is laid out once, as SVG, and its PNG is the PNG that vl-convert makes of the chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl
import vl_convert

from binhop.report import style

if TYPE_CHECKING:
    from pathlib import Path


def test_the_png_of_the_svg_is_the_png_of_the_chart(tmp_path: Path) -> None:
    points = alt.Chart(pl.DataFrame({"x": [1, 2, 3], "y": [2.5, 1.0, 4.0]})).mark_point().encode(x="x", y="y")
    chart = style.finish(alt.hconcat(points, points), "a title", ["one line", "another line"])
    png, svg = style.save(chart, tmp_path, "figure")
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    whole = style.specification(chart)
    expected = vl_convert.vegalite_to_png(whole, vl_version=version, scale=style.SCALE)
    assert png.read_bytes() == expected
    assert svg.read_text() == vl_convert.vegalite_to_svg(whole, vl_version=version)
