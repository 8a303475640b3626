"""Writes the page of a reproduction, and its tables as CSV."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from binhop.lazy_imports import pl
from binhop.reproduce.jm97 import paper
from binhop.reproduce.jm97.data import ALL, OVERHEAD, SIDES, events
from binhop.reproduce.jm97.designs import DESIGNS, JM97, KEPT, KIB, SOFTVM, TABLE, WITH_TLB
from binhop.reproduce.jm97.figures import WRITE_BACK, all_figures
from binhop.reproduce.jm97.study import OF_CACHES, OF_DESIGNS, OF_LAST_LEVELS
from binhop.reproduce.markdown import claims_table, grid, judged

if TYPE_CHECKING:
    from pathlib import Path

    from binhop.reproduce.claims import Claim
    from binhop.reproduce.jm97.data import Jm97Data

PAGE = "report.md"
SCOPE = {
    "smoke": " This is a smoke run, which shows that everything runs. Its figures mean nothing.",
    "quick": " The figures of Figure 8 and of the last levels belong to a fifth of the paper scale's "
    "references.",
    "paper": "",
}
EVENT_NAMES = {
    ("level-1", "hit"): "level-1 hit, TLB hit",
    ("level-1", "miss"): "level-1 hit, TLB miss",
    ("behind", "hit"): "level-1 miss, level-2 hit, TLB hit",
    ("behind", "miss"): "level-1 miss, level-2 hit, TLB miss",
    ("memory", "hit"): "both levels miss, TLB hit",
    ("memory", "miss"): "both levels miss, TLB miss",
}
CPI = ".4f"
PROTECTION = "translation.protection"
TABLE_5_NAMES = {"gcc": "gcc", "compress95": "compress"}
"""The workloads of Table 5 that are programs of SPECint95, by the names of Table 3."""


def write(data: Jm97Data, claims: list[Claim], directory: Path) -> list[Path]:
    """Writes report.md and the tables as CSV, and returns the files."""
    made = [directory / PAGE]
    made[0].write_text(_page(data, claims), encoding="utf-8")
    tables = {
        "table-1": table_1(data),
        "table-3": table_3(data),
        "table-4": table_4(data),
        "table-5": table_5(data),
        "figure-8": figure_8(data),
        "last-levels": last_levels(data),
    }
    for stem, table in tables.items():
        made.append(directory / f"{stem}.csv")
        table.write_csv(made[-1], float_precision=9)
    return made


def _page(data: Jm97Data, claims: list[Claim]) -> str:
    pictures = [f"![{stem}]({stem}.png)\n" for stem in all_figures(data)]
    parts = [
        "# JM97: software-managed address translation\n",
        _about(data),
        "## Claims\n",
        claims_table(claims),
        "## Programs\n",
        _programs(data),
        "## Designs\n",
        grid(["design", "what it is"], [[name, of.text] for name, of in DESIGNS.items()], 2),
        "## How often the TLB misses (Table 1)\n",
        _table_1(data),
        "## Overhead (Tables 2 and 3)\n",
        _table_2(data),
        _table_3(data),
        "## Overhead by cause (Table 4)\n",
        _table_4(data),
        "## Write-backs (§5.3)\n",
        _write_backs(data),
        "## Changes of protection (Table 5, §5.4)\n",
        _protection(data),
        "## Figure 8, and the overhead by cause\n",
        *pictures[:-1],
        "## From which last level on software wins\n",
        _crossovers(data),
        pictures[-1],
        "## How each claim was judged\n",
        judged(claims),
    ]
    return "\n".join(parts)


def _about(data: Jm97Data) -> str:
    lengths = data.provenance["lengths"]
    return (
        "B. Jacob and T. Mudge, *Software-Managed Address Translation*, Proceedings of the Third "
        "International Symposium on High-Performance Computer Architecture, 1997. binhop "
        f"{data.provenance['binhop']} repeated the study at scale `{data.scale}`: "
        f"{_millions(lengths[OF_DESIGNS])} references of each program for Tables 1 to 4, "
        f"{_millions(lengths[OF_LAST_LEVELS])} for the last levels, and {_millions(lengths[OF_CACHES])} for "
        f"Figure 8.{SCOPE[data.scale]}\n\nThe document's machine has no TLB: software translates where the "
        "last level misses. All designs have the same virtual caches (8 + 8 KiB and 512 + 512 KiB, "
        "direct-mapped, lines of 16 bytes, unless stated otherwise), the same costs (1, 20 and 90 cycles) "
        "and the same references. *Overhead* is the cycles of translation per instruction of the program. "
        "Where the program waits longer because handlers take its lines, the table of all cycles shows it. "
        f"An interval has {data.confidence:.0%} confidence, over placements.\n"
    )


def _millions(references: int) -> str:
    return f"{references / 1e6:,g} M"


def _programs(data: Jm97Data) -> str:
    rows = [
        [
            one["stands_for"] or "-",
            one["name"],
            "recorded" if one["recorded"] else "built-in",
            one["differs"],
        ]
        for one in data.provenance["programs"]
    ]
    lacking = data.provenance["missing"]
    told = f"\nNo program stands for {', '.join(lacking)}.\n" if lacking else ""
    recorded = any(one["recorded"] for one in data.provenance["programs"])
    if not recorded:
        told += (
            "\nNo recordings were given, so built-in workloads replace SPECint95. Several of them "
            "are sets of processes that take turns, and all have more data than the document's programs. "
            "studies/jm97/README.md says how to record programs.\n"
        )
    return grid(["SPECint95", "stands for it", "source", "what differs"], rows, 4) + told


def table_1(data: Jm97Data) -> pl.DataFrame:
    """Returns Table 1: the shares of the six events on both sides, for each program and all together."""
    rows: list[dict[str, Any]] = []
    groups = {**{name: [name] for name in data.programs}, "all": data.programs}
    for name, programs in groups.items():
        runs = [counts for program in programs for counts in data.runs(program, JM97)]
        for side in SIDES:
            for (level, tlb), share in events(runs, side).items():
                theirs = paper.printed("Table 1", f"{level} {tlb}", "percent", side)
                rows.append(
                    {
                        "program": name,
                        "side": side,
                        "level": level,
                        "tlb": tlb,
                        "percent": 100 * share,
                        "paper_percent": float(theirs) if name == "all" else None,
                    }
                )
    return pl.DataFrame(rows, infer_schema_length=None)


def _table_1(data: Jm97Data) -> str:
    found = table_1(data).filter(program="all")
    rows = []
    for (level, tlb), text in EVENT_NAMES.items():
        cells = []
        for side in SIDES:
            ((ours, _),) = found.filter(side=side, level=level, tlb=tlb).select("percent", "program").rows()
            cells += [f"{ours:.4g}", paper.printed("Table 1", f"{level} {tlb}", "percent", side)]
        rows.append([text, *cells])
    head = ["event", "fetches, %", "the document", "loads and stores, %", "the document"]
    return (
        f"Accesses of all programs together on `{JM97}`, in percent of their side. table-1.csv has each "
        "program.\n\n" + grid(head, rows)
    )


def _table_2(data: Jm97Data) -> str:
    rows = [[system, "-", f"{cpi}"] for system, cpi in paper.column("Table 2", "cpi").items()]
    for design in DESIGNS:
        found = data.measure(data.programs, design)
        rows.append([f"`{design}`", format(found.mean, CPI), "-"])
    text = (
        "The document's constants, of whole systems on MIPS processors, and the designs of this study, over "
        "all programs together, weighted by instructions. The constants include the systems' own misses.\n\n"
    )
    return text + grid(["system or design", "overhead, CPI", "the document"], rows)


def table_3(data: Jm97Data) -> pl.DataFrame:
    """Returns Table 3: the overhead of every design for each program, and all cycles."""
    rows = []
    for name, programs in {**{name: [name] for name in data.programs}, "weighted": data.programs}.items():
        for design in DESIGNS:
            overhead = data.measure(programs, design)
            rows.append(
                {
                    "program": name,
                    "stands_for": data.stands_for.get(name, ""),
                    "design": design,
                    "overhead": overhead.mean,
                    "low": _finite(overhead.low),
                    "high": _finite(overhead.high),
                    "cpi": data.measure(programs, design, ALL).mean,
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def _finite(value: float) -> float | None:
    return value if abs(value) != float("inf") else None


def _table_3(data: Jm97Data) -> str:
    found = table_3(data)
    theirs = paper.column("Table 3", "cpi")
    text = "\nThe overhead of each program, in cycles per instruction:\n\n"
    for column in ("overhead", "cpi"):
        rows = []
        for name in [*data.programs, "weighted"]:
            stands = data.stands_for.get(name, paper.WEIGHTED)
            values = found.filter(program=name)[column].to_list()
            document = [str(theirs.get(stands, "-"))] if column == "overhead" else []
            rows.append([name, stands or "-", *(format(value, CPI) for value in values), *document])
        document = ["the document"] if column == "overhead" else []
        text += grid(["program", "stands for", *DESIGNS, *document], rows, 2)
        if column == "overhead":
            text += "\nAll cycles per instruction, with the program's own waits:\n\n"
    return text


def table_4(data: Jm97Data) -> pl.DataFrame:
    """Returns Table 4 for the program that stands for gcc: each cause with frequency, penalty and overhead.

    The frequency is the cycles of a cause divided by its penalty.
    """
    rows: list[dict[str, Any]] = []
    program = data.program_of("gcc")
    assert program is not None, "a built-in workload stands for gcc where no recording does"
    for cause in paper.causes():
        overhead = float(data.samples([program], KEPT, f"{OVERHEAD}.{cause.name}").mean())
        rows.append(
            {
                "cause": cause.name,
                "frequency": overhead / cause.penalty,
                "penalty": cause.penalty,
                "overhead": overhead,
                "paper_frequency": float(cause.frequency),
                "paper_overhead": float(cause.cpi),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def _table_4(data: Jm97Data) -> str:
    program = data.program_of("gcc")
    assert program is not None
    found = table_4(data)
    printed = {cause.name: cause for cause in paper.causes()}
    rows = []
    for row in found.iter_rows(named=True):
        theirs = printed[row["cause"]]
        own = [f"{row['frequency']:.6f}", str(theirs.penalty), f"{row['overhead']:.6f}"]
        rows.append([paper.EVENTS[row["cause"]], *own, str(theirs.frequency), str(theirs.cpi)])
    total = sum(cause.cpi for cause in paper.causes())
    rows.append(["all", "", "", f"{found['overhead'].sum():.6f}", "", f"{total}"])
    head = ["event", "frequency", "penalty", "overhead, CPI", "frequency, the document", "CPI, the document"]
    return (
        f"{program}, in the place of gcc, without write-backs. A frequency is per instruction: the cycles of "
        "its cause, divided by the penalty. The document's seven rows sum to its total exactly.\n\n"
        + grid(head, rows)
    )


def _write_backs(data: Jm97Data) -> str:
    rows = []
    for program in data.programs:
        kept, table = (data.overhead(program, design) for design in SOFTVM)
        (counts, *_) = data.runs(program, TABLE)
        misses = sum(counts[f"translation.{kind}.cache-misses"] for kind in ("fetch", "load", "store"))
        share = counts["translation.write-backs"] / misses if misses else 0.0
        cause = float(data.samples([program], TABLE, f"{OVERHEAD}.{WRITE_BACK}").mean())
        waiting = int(counts["translation.write-backs.most-waiting"])
        cells = [f"{share:.2f}", f"{kept:.4f}", f"{table:.4f}", f"{table / kept:.2f}", f"{cause:.4f}"]
        rows.append([program, *cells, str(waiting)])
    head = ["program", "write-backs a miss", "kept, CPI", "by table, CPI", "factor", "write-backs, CPI"]
    average, factor = (
        paper.printed("Table 3", paper.WEIGHTED, "cpi"),
        paper.printed("text", "write-backs", "factor"),
    )
    text = (
        "The document assumes a write-back for half of all misses, which makes "
        f"{average} × {factor} = {paper.with_write_backs()} cycles per instruction, printed as "
        f"{paper.printed('text', 'write-backs', 'cpi')}. binhop counts the lines that are translated. "
        "The longest queue of such lines shows how far write-backs cause further write-backs.\n\n"
    )
    return text + grid([*head, "longest queue"], rows)


def table_5(data: Jm97Data) -> pl.DataFrame:
    """Returns the programs' own changes of protection, measured without write-backs, beside Table 5.

    A change is an event that changed the protection of pages in the page table. Lines are those of changed
    pages that the caches held. A program has no figures if its counts hold none of its changes.
    """
    metrics = [
        f"{PROTECTION}.{part}"
        for part in ("changes", "pages", "level-1.updated", "level-2.updated", "cycles")
    ]
    rows = []
    for name, programs in {**{name: [name] for name in data.programs}, "weighted": data.programs}.items():
        counted = all(
            metric in counts for one in programs for counts in data.runs(one, KEPT) for metric in metrics
        )
        changes, pages, level_1, level_2, cycles = (
            float(data.samples(programs, KEPT, metric).mean()) if counted else None for metric in metrics
        )
        theirs = paper.column("Table 5", "per-million-instructions")
        stands = paper.WEIGHTED if name == "weighted" else TABLE_5_NAMES.get(data.stands_for[name], "")
        rows.append(
            {
                "program": name,
                "changes_per_million": None if changes is None else 1e6 * changes,
                "pages_per_million": None if pages is None else 1e6 * pages,
                "level_1_lines": level_1 / pages if pages and level_1 is not None else None,
                "level_2_lines": level_2 / pages if pages and level_2 is not None else None,
                "overhead": cycles,
                "paper_per_million": float(theirs[stands]) if stands else None,
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def _protection(data: Jm97Data) -> str:
    def shown(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    measured = [
        [
            row["program"],
            shown(row["changes_per_million"], ".3g"),
            shown(row["pages_per_million"], ".3g"),
            shown(row["level_1_lines"], ".1f"),
            shown(row["level_2_lines"], ".1f"),
            shown(row["overhead"], ".6f"),
            shown(row["paper_per_million"], "g"),
        ]
        for row in table_5(data).iter_rows(named=True)
    ]
    of_programs = grid(
        [
            "program",
            "changes per million instructions",
            "pages",
            "lines of level 1 a page",
            "of level 2",
            "CPI",
            "changes in Table 5",
        ],
        measured,
    )
    counts, _ = paper.of_total(paper.column("Table 5", "modifications"))
    rates, _ = paper.of_total(paper.column("Table 5", "per-million-instructions"))
    rows = [
        [name, str(counts[name]), str(rates[name]), f"{paper.modification_cpi(rates[name]):.4f}"]
        for name in counts
    ]
    weighted = float(paper.modifications_weighted())
    rows.append(
        [paper.WEIGHTED, "", f"{weighted:.3f}", f"{paper.modification_cycles() * weighted / 1e6:.4f}"]
    )
    head = ["workload (Mach3)", "modifications", "per million instructions", "CPI"]
    return (
        "A change of a page's protection sweeps the page's 256 lines in both levels: 10 · 5 + 246 · 3 + 50 "
        f"· 40 + 206 · 20 = {paper.modification_cycles()} cycles (§5.4). The document assumes that 10 and 50 "
        "lines are present. binhop measures the changes of each program and the lines that the caches hold. "
        "Built-in workloads change no protection. Recorded programs change it where the loader "
        "prepares them and where they protect memory themselves; the document's Mach 3 counts what a whole "
        "system does. - means that a figure was not counted.\n\n"
        + of_programs
        + "\nThe document's workloads and arithmetic. The average is weighted by instructions; the document "
        "prints 11.3.\n\n" + grid(head, rows)
    )


def figure_8(data: Jm97Data) -> pl.DataFrame:
    """Returns the overhead over the caches of Figure 8."""
    rows = [
        {"program": program, "stands_for": data.stands_for[program], **asdict(caches), "overhead": value}
        for program, of in data.sweep.items()
        for caches, value in of.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None).sort(
        "program", "level_1", "level_2", "line_1", "line_2"
    )


def last_levels(data: Jm97Data) -> pl.DataFrame:
    """Returns what software saves against every design with a TLB, over sizes of the last level."""
    rows = []
    for program in data.programs:
        for size in data.last_levels:
            for softvm in SOFTVM:
                for design in WITH_TLB:
                    row: dict[str, Any] = {
                        "program": program,
                        "last_level": size,
                        "softvm": softvm,
                        "design": design,
                    }
                    for name, value in (("overhead", OVERHEAD), ("cpi", ALL)):
                        saved = data.saved(program, softvm, design, size, value)
                        row |= {
                            f"saved_{name}": saved.mean,
                            f"saved_{name}_low": _finite(saved.low),
                            f"saved_{name}_high": _finite(saved.high),
                        }
                    rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _crossovers(data: Jm97Data) -> str:
    rows = []
    for program in data.programs:
        for softvm in SOFTVM:
            cells = [
                _size(data.crossover(program, softvm, design, value))
                for value in (OVERHEAD, ALL)
                for design in WITH_TLB
            ]
            rows.append([program, softvm, *cells])
    head = ["program", "software", *WITH_TLB, *(f"{design}, all cycles" for design in WITH_TLB)]
    return (
        "The size of the last level a side, in KiB, from which on software costs less than a design at every "
        f"larger size, up to {data.last_levels[-1] // KIB} KiB; - means that it does not. The first columns "
        "compare the overhead, the last columns all cycles. A difference counts if its interval over "
        "placements lies above zero. last-levels.csv has every difference.\n\n" + grid(head, rows, 2)
    )


def _size(size: int | None) -> str:
    return "-" if size is None else str(size // KIB)
