"""Writes the page with the claims, figures and tables of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binhop.reproduce.kh90 import tables as tabular
from binhop.reproduce.kh90.data import MAIN, SAMPLES, WORKLOADS, Kh90Data, expected
from binhop.reproduce.markdown import claims_table, judged

if TYPE_CHECKING:
    import polars as pl

    from binhop.reproduce.claims import Claim

FIGURES = {
    "figure-3": "Conflicts of a random placement and their bounds (model).",
    "figure-4": "Conflicts that a careful placement could avoid (model).",
    "figure-10": "How far the misses of placements differ over time.",
    "figure-11": "What ways, size and a careful placement are worth.",
    "figure-12": "Conflicts inside address spaces, against the model.",
    "figure-13": "A process's misses against its conflicts.",
    "pools": "Misses by the number of frames that a placement may choose from (K12).",
}
CAPTIONS = {
    "table-1": f"Table 1: {MAIN}, mean ± half-width and median",
    "table-2": "Table 2: hierarchical's reduction in direct-mapped caches",
    "table-3": f"Table 3: {MAIN}, 4 MiB direct-mapped; misses per 1000 instructions, and relative to "
    "hierarchical",
    "table-4": f"Table 4: {MAIN}, pool of 4 MiB; bold where all are tuned",
}


def page(
    data: Kh90Data, claims: list[Claim], tables: dict[str, pl.DataFrame], figures: set[str], today: str
) -> str:
    """Returns the page as Markdown."""
    parts = [
        "# KH90: careful page mapping into large real-indexed caches\n",
        _scope(data),
        "## Claims\n",
        claims_table(claims),
        "## Figures\n",
        *(f"{text}\n\n![{text}]({stem}.png)\n" for stem, text in FIGURES.items() if stem in figures),
        "## Tables\n",
        "A cell holds binhop's figure, and the paper's in brackets: misses of level 2 per 1000 instructions. "
        f"As in the paper there are {SAMPLES} placements, and the intervals have {data.confidence:.0%} "
        "confidence.\n",
        *(
            f"### {caption}\n\n{tabular.markdown(name, tables[name])}{_notes(name)}"
            for name, caption in CAPTIONS.items()
        ),
        "### Appendix A\n",
        *(
            "#### "
            f"{workload}\n\n{tabular.markdown(f'appendix-a-{workload}', tables[f'appendix-a-{workload}'])}"
            for workload in WORKLOADS
            if workload != MAIN
        ),
        today,
        "## How each claim was judged\n",
        judged(claims),
    ]
    return "\n".join(parts)


def _notes(name: str) -> str:
    """Returns notes on the uncertain figures in one of the paper's tables."""
    notes = expected().filter(table=name.replace("-", " ").capitalize()).drop_nulls("note")
    found = notes.unique(["heuristic", "note"], maintain_order=True)
    lines = [f"- {row['heuristic']}: {row['note']}." for row in found.iter_rows(named=True)]
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def _scope(data: Kh90Data) -> str:
    """Returns what was simulated, and what may be concluded from it."""
    lengths = ", ".join(f"{name} {count / 1e6:,.0f} M" for name, count in data.instructions.items())
    what = {
        "smoke": " This is a smoke run, which shows that everything runs. Its figures mean nothing.",
        "quick": " The figures belong to a prefix of each program, whose caches start cold.",
        "paper": "",
    }.get(data.scale, "")
    return (
        f"Scale `{data.scale}`. Instructions executed: {lengths}.{what}\n\n"
        "The paper's traces are lost. Built-in programs of the same kind and size replace them, so the "
        "claims can be judged, but the digits differ. The page shows both.\n"
    )
