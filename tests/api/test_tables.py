"""Tests tables in Markdown and LaTeX: exact text, escapes, and lines with as many cells as the heading."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import binhop
from binhop.tables import FORMS, Table, rendered
from binhop.tables.form import latex, markdown
from tests.conftest import long

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Command

ODD = Table(
    "a_b: 1 234 567 references & 50%",
    ("metric", "alternative", "mean", "interval"),
    (
        ("l2 MPI×1000", "x|y", "1.170", "baseline"),
        ("l2 MPI×1000", "c{d}#$~^\\", "-0.161", "-0.244 to -0.0787"),
        ("CPI", "<p>", "12 345", "0.1-0.2"),
    ),
    right=2,
    grouped=True,
)

MARKDOWN = r"""**a\_b: 1 234 567 references & 50%**

| metric | alternative | mean | interval |
|---|---|---:|---:|
| l2 MPI×1000 | x\|y | 1.170 | baseline |
| l2 MPI×1000 | c{d}#\$\~^\\ | -0.161 | -0.244 to -0.0787 |
| CPI | \<p> | 12 345 | 0.1-0.2 |
"""

LATEX = r"""\begin{table}
\centering
\caption{a\_b: 1\,234\,567 references \& 50\%}
\begin{tabular}{llrr}
\toprule
metric & alternative & mean & interval \\
\midrule
l2 MPI$\times$1000 & x\textbar{}y & 1.170 & baseline \\
 & c\{d\}\#\$\textasciitilde{}\textasciicircum{}\textbackslash{} & $-$0.161 & $-$0.244 to $-$0.0787 \\
\midrule
CPI & \textless{}p\textgreater{} & 12\,345 & 0.1--0.2 \\
\bottomrule
\end{tabular}
\end{table}
"""


def test_markdown() -> None:
    assert markdown(ODD) == MARKDOWN


def test_latex() -> None:
    assert latex(ODD) == LATEX


def test_notes_follow_the_tables() -> None:
    assert rendered([ODD], ["50% of x_y"], "md") == MARKDOWN + "\n- 50% of x\\_y\n"
    items = "\\begin{itemize}\n\\item 50\\% of x\\_y\n\\end{itemize}\n"
    assert rendered([ODD], ["50% of x_y"], "latex") == LATEX + "\n" + items


def test_a_table_without_rows_says_why() -> None:
    empty = Table("t", ("a", "b"), (), right=1, instead="nothing_here")
    assert markdown(empty) == "**t**\n\nnothing\\_here\n"
    assert latex(empty) == "t\nnothing\\_here\n"


def sound(text: str) -> None:
    """Asserts that LaTeX accepts a text: special characters are escaped, braces paired, and lines short."""
    assert "\x1b" not in text
    assert text.isascii()
    plain = re.sub(r"\\[&%$#_{}\\,]|\\[a-z]+", "", text)
    assert not re.search(r"[%#~^\\]", plain), plain
    assert plain.count("$") % 2 == 0
    depth = 0
    for letter in plain:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        assert depth >= 0
    assert depth == 0
    for name in ("table", "tabular", "itemize"):
        assert text.count(f"\\begin{{{name}}}") == text.count(f"\\end{{{name}}}")
    for block in re.findall(r"\\begin\{tabular\}\{([lr]+)\}(.*?)\\end\{tabular\}", text, re.DOTALL):
        columns, body = block
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert len(lines) > 1
        for line in lines:
            assert len(re.findall(r"(?<!\\)&", line)) == len(columns) - 1, line
    outside = re.sub(r"\\begin\{tabular\}.*?\\end\{tabular\}", "", text, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)[&_]", outside)


@pytest.mark.parametrize("name", ["run", long("compare")])
def test_commands_print_their_tables_in_every_form(command: Command, lin: Path, name: str) -> None:
    commands = {
        "run": ["run", "skylake", str(lin)],
        "compare": ["compare", "kh90", str(lin), "--set", "placement.policy=random,page-coloring-equal"],
    }
    arguments = commands[name]
    md = command.ok(*arguments, "--seeds", "3", "--table", "md", "--out", name).stdout
    assert (command.directory / name / "table.md").read_text().split("\n- ")[0] in md
    lines = [line for line in md.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", line)) >= 7 for line in lines)
    tex = command.ok(*arguments, "--seeds", "3", "--table", "latex").stdout
    sound(tex)
    again = command.ok("report", name, "--table", "latex").stdout
    assert again.split("\\begin{itemize}")[0] == tex.split("\\begin{itemize}")[0], "from Parquet alone"
    text = command.ok("report", name, "--table", "text").stdout
    assert text.splitlines()[0] == command.ok(*arguments, "--seeds", "3").stdout.splitlines()[0]
    assert "text" in command.refused(*commands["run"], "--table", "txet")
    assert FORMS == ("text", "md", "latex")


def test_results_have_their_tables_in_python(lin: Path) -> None:
    result = binhop.simulate("skylake", lin, seeds=2)
    misses, time = result.tables()
    assert [row[0] for row in misses.rows] == ["l1i", "l1d", "l2", "l3", "memory"]
    assert time.columns[1:3] == ("cycles", "CPI")
    sound(rendered(result.tables(), result.notes, "latex"))
    comparison = binhop.compare("skylake", {"a_1": lin, "b": "tree"}, seeds=2, length=20_000)
    (table,) = comparison.tables()
    assert table.title == "a_1, b on skylake: 2 placements"
    assert "a\\_1" in rendered([table], [], "latex")


@pytest.mark.parametrize("form", ["md", "latex"])
def test_foreign_text_is_escaped(form: str) -> None:
    text = rendered([Table("\x1b]0;x\x07", ("a",), (("\x1b[31m",),), right=0)], ["\x1b"], form)
    assert "\x1b" not in text
    assert "x1b" in text
