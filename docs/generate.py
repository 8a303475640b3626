"""`docs/generate.py` writes the pages that derive from lists in the code.

Run it after a change to a machine key, a counter, an event, a format, the metadata of traces, a policy, a workload, an
agent, a kind of occasion, a fast path or a term of glossary.toml: `.venv/bin/python docs/generate.py`. A test fails if
a page is out of date.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import polars as pl

import binhop
from binhop.device_data_figures import FIGURES
from binhop.schema import OUTPUTS, json_schema

HERE = Path(__file__).parent
MADE = "<!-- docs/generate.py makes this page from the lists in the code: change the lists, not the page. -->\n\n"


def table(frame: pl.DataFrame) -> str:
    """Returns a Markdown table."""
    name = next(column for column in ("key", "name", "rule") if column in frame.columns)
    frame = frame.with_columns(pl.format("`{}`", name).alias(name))
    rows = ["| " + " | ".join(frame.columns) + " |", "|" + "---|" * frame.width]
    rows += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in frame.iter_rows()]
    return "\n".join(rows) + "\n"


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


CACHEGRIND = """\
## rules = "cachegrind"

These rules count as `valgrind --tool=cachegrind` does, so that both can be compared:

- A reference that straddles two lines is one access. It is one miss if either line is absent, and both lines are
  filled.
- The last level is accessed once for each miss of level 1, with the whole reference.
- A modify is one load.
- No line is ever dirty. A store is looked up and fills its line as a load does, and nothing is written back.
- A reference longer than the smallest line of the three caches is cut to the length of this line.
- The least recently used line of a set is replaced.

The machine must have one cache for instructions, one cache for data, one cache behind both, and `placement.policy =
"identity"`. binhop refuses and names any other key that contradicts these rules. Sizes, lines, ways and costs are
free. The bundled machine with these rules is [cachegrind-like](#cachegrind-like). The next table gives cachegrind's
nine counts, if the caches are called `l1i`, `l1d` and `ll`:

| cachegrind | binhop | what is counted |
|---|---|---|
| `Ir` | `l1i.fetch.accesses` | executed instructions |
| `I1mr` | `l1i.fetch.misses` | their misses in level 1 |
| `ILmr` | `ll.fetch.misses` | their misses in the last level |
| `Dr` | `l1d.load.accesses` | loads and modifies |
| `D1mr` | `l1d.load.misses` | their misses in level 1 |
| `DLmr` | `ll.load.misses` | their misses in the last level |
| `Dw` | `l1d.store.accesses` | stores that are not part of a modify |
| `D1mw` | `l1d.store.misses` | their misses in level 1 |
| `DLmw` | `ll.store.misses` | their misses in the last level |

These counts equal cachegrind's counts to the last digit under two conditions. The trace must have one row for each
instruction (`binhop record --fetch instruction`). Both programs must run as one process in the same environment,
because the environment moves the stack, and variables lie there.

By default a recording has rows of several instructions. Such a row does not say where each instruction begins, so
binhop cannot tell which instructions straddle two lines, and accesses each line of the row once. The next table
compares both forms of recording in one environment. `DLmr` differs because data shares the last level with
instructions:

| | `Ir` | `I1mr` | `ILmr` | `Dr` | `D1mr` | `DLmr` | `Dw` | `D1mw` | `DLmw` |
|---|---|---|---|---|---|---|---|---|---|
| `true`, cachegrind and `--fetch instruction` | 112,105 | 1,097 | 1,078 | 26,483 | 1,207 | 997 | 10,282 | 343 | 314 |
| `true`, default | equal | 1,098 | 1,079 | equal | equal | equal | equal | equal | equal |
| `gzip` of 20 kB, cachegrind and `--fetch instruction` | 4,114,799 | 1,379 | 1,352 | 941,346 | 59,231 | 1,494 | 471,892 | 2,667 | 2,499 |
| `gzip`, default | equal | 1,382 | 1,355 | equal | equal | equal | equal | equal | equal |
| `sort` of 20,000 lines, cachegrind and `--fetch instruction` | 26,009,537 | 1,801 | 1,769 | 6,997,444 | 156,889 | 14,099 | 3,439,607 | 58,467 | 15,551 |
| `sort`, default | equal | 1,805 | 1,772 | equal | equal | 14,091 | equal | equal | equal |
"""


WRITE_BUFFER = """
A write-through cache passes the data of each store on to the level behind. With a write buffer the write waits in the
buffer, and the processor goes on. Writes drain one after another, in `drain` cycles each. While the buffer is full, a
further write makes the processor wait until the oldest write has drained; `<cache>.write-buffer.stalls` and
`<cache>.write-buffer.stall-cycles` count this. The buffer is time only: the data reaches the level behind at once,
and a load never waits for it.

Each write takes an entry. With `merge = true` a write joins a write to the same line of the cache that waits in the
buffer: it takes no entry, and `<cache>.write-buffer.merges` counts it. A write waits until its drain begins, so no
write joins the oldest write in the buffer. The level behind gets a `write` for every store all the same.

`stalls = false` switches the waiting off, and with it every effect of the buffer. Only a buffer with stalls needs the
cycle of each access. Without stalls the run may therefore take more fast paths, and placements may share a level 1
(`--explain`).
"""

STREAM_BUFFERS = """
Stream buffers fetch lines ahead without putting them into the cache (Jouppi, ISCA 1990). Each buffer holds up to
`depth` successive lines of one page. A demand miss compares its line with the head of each buffer. If a head holds
the line, the line comes from the buffer: `<cache>.stream.hits` counts this, the level behind is not asked, the miss
costs what a hit in the cache costs, and the buffer prefetches one more line. Otherwise the least recently used buffer
is emptied, and prefetches the `depth` lines behind the missed line. A stream ends at the end of its page.

The miss still counts as a miss of the cache. The prefetches count under the agent `prefetch`
(`l2.prefetch.load.accesses`; for a cache of instructions, `l2.prefetch.fetch.accesses`), and not in MPI. A prefetched
line is in the buffer at once, and nobody waits for it: the gain is an upper bound. `--set stream-buffers.l1i.buffers=4`
adds four buffers of four lines to `l1i`. No fast path behind level 1 is taken then.
"""

COST = """
An instruction takes one cycle, in which level 1 serves what it holds. A demand access that misses level 1 adds the
cycles of the level that serves it (`mode = "total"`), or the cycles of all levels that it passes (`"add"`). A cost
is therefore the time *beyond* a hit in level 1: where a manual says 4 cycles for level 1 and 12 cycles for level 2,
write `l2 = 8`. `level-1 = 4` and `l2 = 12` say the same: binhop subtracts `level-1` from the cycles of each level.
With `mode = "add"` the cycles of a level are its own, and `level-1` has no effect. Nothing overlaps: no other
instruction executes during a miss. Write-backs cost nothing, unless a write buffer is full. `cpi` is therefore the
upper bound that an in-order, blocking core would reach. It serves to compare placements, machines and traces by one
rule.

A document that states 1, 13 and 200 cycles for level 1, level 2 and memory can be read in three ways. Each is a
setting of `mb90-2a` and `mb90-2b`. The table has the cycles that an access adds to its instruction's cycle:

| setting | reading | level 2 serves | memory serves |
|---|---|---|---|
| none (`level-1 = 1`) | totals; a hit in level 1 is the instruction's own cycle | 12 | 199 |
| `cost.level-1=0` | totals beside the instruction's own cycle | 13 | 200 |
| `cost.mode=add` | the own cycles of each level | 13 | 213 |

A row of several instructions accesses all its lines in the cycle of its first instruction, one line after the
other. Then its instructions take their cycles. Without a write buffer the sum is exact. A write buffer drains
meanwhile, and sees the later lines of the row too early, by at most the length of the row. The same holds for the
cycles of an exported memory trace. A trace with one row for each instruction (`binhop record --fetch instruction`)
has exact cycles.

The bundled machines of today and the designs of MB90 have costs; the comments below give their sources. `kh90` and
the machines that serve to compare binhop with other simulators have no costs. `--set cost.memory=300` changes one
cost. A machine without `[cost]` reports neither `cycles` nor `cpi`. `cycle-time` at the top level states how long a
cycle takes. It changes no count.
"""


TRANSLATION = """
[translation.md](translation.md) says how addresses are translated and describes the forms of page tables. `--set
translation=on` is `--set translation.active=true`. `binhop translate` simulates a machine with translation and without.
"""
BEHIND = {
    "write-buffer": WRITE_BUFFER,
    "stream-buffers": STREAM_BUFFERS,
    "cost": COST,
    "translation": TRANSLATION,
}
"""The text behind the keys of a section."""


def machine_file() -> str:
    """Returns the page on the keys of a machine description."""
    text = "# The machine file\n\n" + MADE
    text += (
        "A machine is described in a TOML file; this page lists its keys and the bundled machines.\n"
        "`binhop run kh90 …` uses a bundled machine, and `binhop run ./mine.toml …` uses a file. `--set KEY=VALUE`\n"
        "changes any key. Sizes are written as `32KiB`, `4MiB`, `1GiB` or `512B`. binhop refuses an unknown key. A\n"
        "key with an empty default must be given.\n"
    )
    listed = binhop.machine_keys()
    headers = {key: re.search(r"\[[\w.-]+\]", meaning) for _, key, _, _, meaning in listed.iter_rows()}
    for (section,), keys in listed.group_by("section", maintain_order=True):
        header = headers.get(str(section))
        title = header[0] if header else f"[{section}]" if section else "Top level"
        text += f"\n## {title}\n\n{table(keys.drop('section'))}"
        text += BEHIND.get(str(section), "")
    text += "\n" + CACHEGRIND
    text += "\n## Bundled machines\n"
    for row in binhop.machines().iter_rows(named=True):
        text += f"\n### {row['name']}\n\n{row['about']}\n\n```toml\n{row['toml'].strip()}\n```\n"
    return text


def metrics() -> str:
    """Returns the page on the metrics of a result."""
    text = "# Metrics\n\n" + MADE
    text += (
        "This page lists the metrics of a result. `<cache>` stands for a cache of the machine, `<tlb>` for a TLB,\n"
        "`<kind>` for a [kind of access](#kinds-of-access), and `<agent>` for an [agent](glossary.md#agents) other\n"
        "than the program. Counts are whole numbers. A ratio whose denominator is 0 is null, never 0. A result does\n"
        "not contain metrics that its machine cannot have, and metrics of TLBs and translation only with\n"
        "`translation.active = true` or `line-protection`.\n\n"
    )
    text += table(binhop.counters())
    text += (
        "\n"
        "## Kinds of access\n\n"
        "An access has the kind of the reference that caused it. For example, a level-2 access that a level-1 store\n"
        "miss causes is a `store`. Misses of demand kinds count in `<cache>.mpi`.\n\n"
    )
    text += table(_kinds())
    text += (
        "\n"
        "No cache is accessed with the kind `system`. When a frame gets another page, its dirty lines go from each\n"
        "cache to memory directly, past the levels between. `<cache>.system.sent` counts them at the cache that held\n"
        "them. The dirty lines that a kernel flushes (`[kernel.…] flush`) go the same way and count as\n"
        "`<cache>.kernel.system.sent`; both together equal `<cache>.purged.dirty`. The sums over the caches are\n"
        "`memory.system.accesses` and `memory.kernel.system.accesses`. These lines cost no cycles.\n\n"
        "[[cost]](machine-file.md#cost) says how cycles are counted. A row of several instructions accesses all its\n"
        "lines in the cycle of its first instruction.\n"
    )
    text += (
        "\n"
        "## Device data\n\n"
        "`binhop io` ([io.md](io.md)) counts the following for each scheme. `CLASS` is cpu-read, cpu-write, dma-read\n"
        "or dma-write; `DEVICE` is disk, network, disk-ring or network-ring, or device-N for other numbers in a\n"
        "trace; `CACHE` is last-level or dma-cache. Metrics of `front` and of devices belong to no scheme.\n\n"
    )
    device_data = [*binhop._binhop.device_data_metrics()]
    text += table(pl.DataFrame(device_data, schema=["name", "unit", "meaning"], orient="row"))
    text += (
        "\n"
        "### Figures of schemes\n\n"
        "The tables `figures` and `summary` of `binhop io`, and studies that name schemes, have these figures, made\n"
        "from the counts above. The column `of` says what a figure is of: a class of references, the device and\n"
        "direction of a kind of requests, a fate, or an agent (`processor`, `devices`). A study names them in one\n"
        "word, as in `row-hits.devices` and `fate-share.read-memory`: `fate` is `fate-share` there, because\n"
        "`fate.read-memory` is the count. It has none of the figures that compare with the baseline (`speed-up`,\n"
        "`saved`), and the counts by their own names.\n\n"
    )
    figures = [(name, unit, meaning) for name, (unit, meaning) in FIGURES.items()]
    text += table(pl.DataFrame(figures, schema=["name", "unit", "meaning"], orient="row"))
    text += (
        "\n"
        "## The path of device data\n\n"
        "`provenance` of a comparison of schemes has these counts of the path from system calls to devices under\n"
        "`path` ([io.md](io.md#where-the-events-come-from)). They are the same for every placement and scheme.\n\n"
    )
    text += table(
        pl.DataFrame([*binhop._binhop.path_counts()], schema=["name", "unit", "meaning"], orient="row")
    )
    text += (
        "\n"
        "## By process\n\n"
        "The table `processes` (`processes.parquet`) has `instructions`, `references`, `<cache>.misses` and\n"
        "`<cache>.mpi` for each process, over the whole measured part. A process is an address space; where the\n"
        "column `kernel` is true, the row is about the process in its kernel. Address spaces also have the metrics\n"
        "below. These metrics count the pages that the address space has referenced and had in memory when it exited,\n"
        "or at the end of the run; pages that a child inherits and never references are not among them. If the number\n"
        "of an address space is used again after an exit, they count the pages of its last life that had pages.\n"
        "`exec` discards the old pages, and these metrics do not count them.\n\n"
        "| name | unit | meaning |\n"
        "|---|---|---|\n"
        "| `os.pages` | pages | The pages of the address space in memory, among those that it has referenced. |\n"
        "| `os.pages.shared` | pages | The pages among them that have, or had, another mapping. |\n"
        "| `<cache>.conflicts` | pages | The pages beyond the cache's ways in each bin, summed over the bins "
        "(KH90 §2). Only where the frame chooses the bin. |\n"
        "| `<cache>.conflicts.minimum` | pages | The smallest number of conflicts that so many pages can "
        "have: the pages beyond bins × ways. |\n"
    )
    return text


def traces() -> str:
    """Returns the page on traces: events, formats, lint rules."""
    text = "# Traces\n\n" + MADE
    text += (
        "A trace is a table of events in program order: a Parquet file, or any Arrow table or stream in Python. This\n"
        "page lists the events, the foreign formats that binhop reads and writes, and the rules that `binhop lint`\n"
        "checks. The columns are `op` (UInt8), `addr` (UInt64), `size` (UInt32) and `count` (UInt32), which are never\n"
        "null. Some events need the columns `arg0` and `arg1` (UInt64, nullable). binhop ignores further columns.\n\n"
        "A trace starts in address space 0. A fetch of more than one instruction is a run without gaps that ends at\n"
        "the instruction that makes a data reference. A reference has at most 65,536 bytes, and a fetch from 1 to\n"
        "65,536 instructions. Every command that reads another reference stops there and names its row; `binhop lint`\n"
        "lists all such rows. System events may cover any range. Other references that `binhop lint` finds are\n"
        "simulated as they stand: a reference of 0 bytes touches one byte, bytes beyond the last address are left\n"
        "out, and a data reference counts once whatever its count.\n\n"
        "## Events\n\n"
    )
    text += table(binhop.events()) + "\n" + _flags() + _metadata()
    packings = ", ".join(f"{name} (`.{extension}`)" for name, extension in binhop._binhop.packings())
    text += (
        "\n"
        "## Foreign formats\n\n"
        "`binhop import` reads these formats from a file or a pipe, plain or packed. The packings are\n"
        f"{packings}.\nbinhop recognises a packing by the first bytes, not by the name. It reads the entries of a zip"
        " archive\n"
        "one after the other.\n\n"
    )
    text += table(binhop.formats())
    text += (
        "\n"
        "## Lengths and boundaries\n\n"
        "`--length N`, in every command and in Python, reads the rows before the first row that would exceed N\n"
        "references. Events before that row stay. A run of instructions is not cut, because it does not say where\n"
        "each instruction begins. A run that would exceed the length is left out, so binhop may read a few references\n"
        "fewer than N. Only runs of one-byte instructions (`size` = `count`, or 0) are split, because the cut is\n"
        "exact there.\n\n"
        "The positions of `trace slice` split these runs, too, and no other rows. No other boundary splits a row, not\n"
        "even a run of one-byte instructions. A row across the end of the warm-up belongs to the measured part. A row\n"
        "across the end of an interval belongs to the next interval. A row across a position of `trace slice` or\n"
        "`trace sample` that does not split it belongs to the part behind the position. A switch or a mapping between\n"
        "two references belongs to the part of the first reference.\n\n"
        "## Parts of traces\n\n"
        "`binhop trace head | cat | slice | filter | sample` show parts of a trace as lines of text, or write them as\n"
        "a trace (`-o part.parquet`). Their memory does not grow with the trace.\n\n"
        "- A part leaves out references, system calls, times and events of devices. It keeps every event that changes\n"
        "  the state: switch, map, protect, unmap, fork, exec, exit, kernel-enter and kernel-leave. The references of\n"
        "  a part therefore find their mappings, and pages that a fork shares stay shared. Among switches of\n"
        "  the rows that are left out, only the last switch stays if no row between them is kept.\n"
        "- `binhop trace slice` keeps the references from one position up to another. A position is a number of\n"
        "  references. The section above says what happens to a row across a position. Slices that follow each other\n"
        "  together hold every row once.\n"
        "- `binhop trace filter` keeps rows that pass every given filter. `--kind` and `--process` apply to all rows;\n"
        "  `--address`, `--region`, `--kernel` and `--user` apply to references. If `--kind` names no kind of\n"
        "  reference, the part has no other rows: `--kind switch` lists the switches.\n"
        "- `binhop trace sample --every 10M --window 1M` keeps the first million of each ten million references.\n"
        "  `--seed` draws a place for each window instead. The caches are not emptied between windows. Some of the\n"
        "  first misses of a window belong to references that were left out; they matter less the longer the window\n"
        "  is.\n"
        "- `binhop trace cat` of several traces gives new numbers to processes and segments where an earlier trace\n"
        "  uses the numbers. A file that two of the traces map is one segment. All traces must have pages of one\n"
        "  size.\n\n"
        "A line of text is the event's name and its columns. A column with its usual value is left out: 0, or 1 for\n"
        "the count of a load, store or modify. `size`, `count`, `arg0` and `arg1` name the columns of any event.\n"
        "Flags are [letters](#events); causes are system-call, page-fault, involuntary and exit. `# meta` precedes\n"
        "metadata as JSON. `binhop import -f text` reads the lines back into the same trace.\n\n"
        "Names and commands in a trace may contain any characters. Every command shows a character that steers a\n"
        "terminal, ends a line or reorders it as its escape: `\\x1b`, `\\n`, `\\u202e`. JSON and lines of text have\n"
        "`\\u001b`, which reads back as the same character. A file that binhop names after a workload lies in the\n"
        "directory that was asked for: if the workload's name contains `/`, the file's name has `-` instead, and a\n"
        "digest.\n\n"
    )
    text += table(_lines())
    text += (
        "\n"
        "## Export\n\n"
        "`binhop export TRACE --to FORMAT -o FILE` writes a trace for another simulator. If the name ends in `.gz`,\n"
        "`.xz` or `.zst`, the file is compressed; binhop refuses the endings of other packings. A format that takes\n"
        "the *virtual* stream gets the references as the program makes them. A format that takes the *physical*\n"
        "stream gets the accesses that reach memory behind the caches of `--machine`, under the page placement of\n"
        "`--seed`. These are lines read for misses, written back and passed down, in order: exactly the accesses that\n"
        "`binhop run` counts at memory. An address is frame × page + offset. Lines that are dirty at the end stay in\n"
        "the caches.\n\n"
    )
    text += table(binhop.exporters())
    text += "\n## What `binhop lint` checks\n\n" + table(binhop.lint_rules())
    return text


META = {
    "Meta": "",
    "ProcessMeta": "An entry of `processes`:",
    "SegmentMeta": "An entry of `segments`:",
    "MixedMeta": "An entry of `mixed`:",
}
"""The structs of `source/meta.rs`, with the line above the table of each."""
IN_JSON = {"u32": "number", "u64": "number", "String": "text", "bool": "true or false"}
"""The values that a type of Rust has in JSON."""


def _metadata() -> str:
    """Returns the section on metadata, from the structs in the Rust sources."""
    text = (
        "\n"
        "## Metadata\n\n"
        "What is known of a trace as a whole is JSON under the key `binhop.meta` of the Parquet file's metadata.\n"
        "`Trace.meta` returns this JSON in Python, and `binhop trace head` prints it behind `# meta`. A field may be\n"
        "absent or null where nothing is known. binhop ignores further fields.\n\n"
    )
    source = (HERE.parent / "crates/binhop-trace/src/source/meta.rs").read_text(encoding="utf-8")
    for name, above in META.items():
        text += f"{above}\n\n" * bool(above) + table(_fields(source, name)) + "\n"
    return text.rstrip("\n") + "\n"


def _fields(source: str, struct: str) -> pl.DataFrame:
    """Returns the public fields of a struct in a Rust source: name, form in JSON, meaning."""
    _, _, rest = source.partition(f"\npub struct {struct} {{\n")
    body, _, _ = rest.partition("\n}\n")
    rows = []
    lines: list[str] = []
    for line in map(str.strip, body.splitlines()):
        if line.startswith("///"):
            lines.append(line.removeprefix("///").strip())
        elif found := re.fullmatch(r"pub (\w+): (.*),", line):
            rows.append((found[1], _in_json(found[2]), " ".join(lines)))
            lines = []
        elif line and not line.startswith("#["):
            raise ValueError(f"{struct}: {line!r} is no comment, no attribute and no public field on one line")
    if not rows or not all(meaning for *_, meaning in rows):
        raise ValueError(f"{struct}: a field has no comment that says what it means")
    return pl.DataFrame(rows, schema=["name", "value", "meaning"], orient="row")


def _in_json(rust: str) -> str:
    """Returns the form that a type of Rust has in JSON, in words."""
    if inner := re.fullmatch(r"Option<(.*)>", rust):
        return _in_json(inner[1])
    if inner := re.fullmatch(r"BTreeMap<(?:u32|u64), (.*)>", rust):
        return f"{_in_json(inner[1])} by number"
    if inner := re.fullmatch(r"(?:Vec|BTreeSet)<(.*)>", rust):
        return f"list of {_in_json(inner[1])}"
    return IN_JSON.get(rust, "object")


def _kinds() -> pl.DataFrame:
    rows = [(name, "yes" if demand else "no", meaning) for name, demand, meaning in binhop._binhop.kinds()]
    return pl.DataFrame(rows, schema=["name", "demand", "meaning"], orient="row")


def _flags() -> str:
    """Returns the paragraph on the flags of a mapping, as numbers and as letters."""
    flags = binhop._binhop.map_flags()
    numbers = ", ".join(f"{value} {name}" for _, value, name in flags)
    places = "`, `".join(letter for letter, *_ in flags[:3])
    ends = " and ".join(f"`{letter}` if the segment is {name}" for letter, _, name in flags[3:])
    return (
        f"Flags of `map` and `protect` are a sum of {numbers}.\nIn [lines of text](#parts-of-traces) they are letters: "
        f"`{places}` in this order, with `-` for a flag that is not set;\nthen {ends.replace('is grows', 'grows')}.\n"
        "For example, `flags=r-x` is 5 and `flags=rw-s` is 11. A line may also give the number, in decimal or with\n"
        "`0x`. binhop writes a number if the flags have other bits.\n"
    )


def _lines() -> pl.DataFrame:
    lines = [(name, f"`{line}`") for name, line in binhop._binhop.event_lines()]
    return pl.DataFrame(lines, schema=["name", "line"], orient="row")


def policies_and_workloads() -> str:
    """Returns the page on placement policies and workloads."""
    text = "# Placement policies and workloads\n\n" + MADE
    text += (
        "## Placement policies\n\n"
        "The key `placement.policy` of a machine names one of these policies. The cost is the cost of\n"
        "one decision; [placement.md](placement.md#what-a-decision-costs) has the cost of a whole placement.\n\n"
    )
    text += table(binhop.policies())
    text += (
        "\n"
        "## Built-in workloads\n\n"
        "These workloads are real algorithms that run on instrumented memory, and never end.\n"
        "[workloads.md](workloads.md) describes them.\n\n"
    )
    return text + table(binhop.workloads())


def json_page() -> str:
    """Returns the page on the JSON that commands write with --json."""
    whole = json_schema()
    text = "# JSON\n\n" + MADE
    text += (
        "`--json FILE` writes one JSON value, and `--json -` writes it to the standard output. This page lists the\n"
        "keys of every command's output. [result.schema.json](../python/binhop/result.schema.json) is the same as a\n"
        "JSON Schema (draft 2020-12), and is installed with the package. Its definition with the name of a command\n"
        "describes the output of this command:\n\n"
        "```python\n"
        "import json\n"
        "from importlib.resources import files\n\n"
        'schema = json.loads((files("binhop") / "result.schema.json").read_text())\n'
        'run = {**schema, "anyOf": [{"$ref": "#/$defs/run"}]}  # jsonschema.validate(result, run)\n'
        "```\n\n"
        "Counts are integers, ratios are numbers, and undefined values are null.\n"
    )
    for name, of in whole["$defs"].items():
        if name in OUTPUTS:
            text += f"\n## `binhop {name} --json`\n\nWrites {_type(of)}.\n"
            continue
        text += f"\n### {name}\n\n{of['description']}\n\n| key | value | meaning |\n|---|---|---|\n"
        for key, value in of["properties"].items():
            may = "" if key in of["required"] else "; may be absent"
            text += f"| `{key}` | {_cell(_type(value))}{may} | {_cell(value.get('description', ''))} |\n"
    return text


def _type(of: dict[str, Any]) -> str:
    """Returns a JSON Schema in words."""
    if "$ref" in of:
        name = of["$ref"].removeprefix("#/$defs/")
        return f"[{name}](#{name.lower()})"
    if "anyOf" in of:
        return " or ".join(_type(each) for each in of["anyOf"])
    if "enum" in of or "const" in of:
        return " or ".join(f"`{json.dumps(each)}`" for each in of.get("enum", [of.get("const")]))
    if of["type"] == "array":
        return f"an array of {_type(of['items'])}"
    if of["type"] == "object":
        values = of["additionalProperties"]
        return "an object" if values is True else f"an object of {_type(values)}"
    return str(of["type"])


def glossary() -> str:
    """Returns the page of terms: the terms of glossary.toml, and lists of agents, occasions and fast paths."""
    terms = tomllib.loads((HERE / "glossary.toml").read_text(encoding="utf-8"))
    text = "# Glossary\n\n" + MADE.replace("the lists in the code", "glossary.toml and the lists in the code")
    text += (
        "This page defines the words of these documents, of the plan that `binhop sweep --explain` prints, and of the\n"
        "code. [metrics.md](metrics.md) defines every metric and every kind of access.\n"
    )
    for section, sentences in terms.items():
        text += f"\n## {section}\n\n| term | meaning |\n|---|---|\n"
        text += "".join(f"| {term} | {_cell(sentence)} |\n" for term, sentence in sentences.items())
    text += (
        "\n"
        "## Agents\n\n"
        "Misses of an agent that executes instructions count in MPI. The processor waits for some agents, and not\n"
        "for others. The counts of an agent other than the user have the agent's name before the kind, as in\n"
        "`l2.walk.load.misses`. Without translation the bundled machines have the user only.\n\n"
    )
    agents = [
        (name, _yes(facts, "mpi"), _yes(facts, "waited"), meaning)
        for name, facts, meaning in code_list("binhop-base/src/agent.rs", "agents")
    ]
    text += table(
        pl.DataFrame(agents, schema=["name", "counts in MPI", "waited for", "meaning"], orient="row")
    )
    text += "\n## Occasions\n\nA unit may ask for these kinds of occasions. The table says when each kind arises.\n\n"
    text += table(_named(code_list("binhop-sim/src/occasion/mod.rs", "occasions")))
    text += (
        "\n"
        "## Fast paths\n\n"
        "The plan names the fast paths that are taken, and gives the reason where a fast path is not taken. Fast\n"
        "paths do not change counts.\n\n"
    )
    return text + table(_named(code_list("binhop-hw/src/fast/mod.rs", "paths")))


def code_list(file: str, macro: str) -> list[tuple[str, str, str]]:
    """Returns the list in the Rust sources that a macro declares: of each item the name, further facts, the meaning."""
    source = (HERE.parent / "crates" / file).read_text(encoding="utf-8")
    _, _, rest = source.partition(f"\n{macro}! {{\n")
    items, end, _ = rest.partition("\n}\n")
    found = re.findall(r'^    \w+ = "([^"]+)",(.*?) "([^"]+)";$', items, re.MULTILINE)
    if not end or len(found) != len(items.splitlines()):
        raise ValueError(f"{file}: the list {macro}! is not in the form that is expected here")
    return found


def _named(items: list[tuple[str, str, str]]) -> pl.DataFrame:
    rows = [(name, meaning) for name, _, meaning in items]
    return pl.DataFrame(rows, schema=["name", "meaning"], orient="row")


def _yes(facts: str, fact: str) -> str:
    return "yes" if f"{fact} true" in facts else "no"


def schema_file() -> str:
    """Returns the JSON Schema of the commands' output, as the text of its file."""
    return json.dumps(json_schema(), indent=2) + "\n"


JEDEC = {
    "cycle-ps": "tCK, in picoseconds",
    "cl": "CL",
    "cwl": "CWL",
    "burst": "BL / 2",
    "rcd": "tRCD",
    "rp": "tRP",
    "ras": "tRAS",
    "rc": "tRC",
    "rrd-s": "tRRD_S",
    "rrd-l": "tRRD_L",
    "faw": "tFAW",
    "ccd-s": "tCCD_S",
    "ccd-l": "tCCD_L of reads",
    "ccd-l-write": "tCCD_L of writes; DDR5: tCCD_L_WR2",
    "rtp": "tRTP",
    "wr": "tWR",
    "wtr-s": "tWTR_S",
    "wtr-l": "tWTR_L",
    "turn": "between data of two ranks or directions",
    "refi": "tREFI",
    "rfc": "tRFC",
}
"""The meaning of each distance of a memory's timing, by JEDEC's name."""


def dram_page() -> str:
    """Returns the page of memories with a controller: what is written by hand around the table of the presets."""
    page = (HERE / "dram.md").read_text()
    found = re.fullmatch(r"(.*<!-- presets[^\n]*\n).*(<!-- end of presets -->.*)", page, re.DOTALL)
    if found is None:
        raise ValueError("dram.md lacks the comments around the table of the presets")
    presets = binhop.dram_presets()
    rows = []
    for figure in presets.columns[2:]:
        values = [f"{value:,}" for value in presets[figure]]
        rows.append(
            {
                "name": figure,
                "JEDEC": JEDEC.get(figure, ""),
                **dict(zip(presets["name"], values, strict=True)),
            }
        )
    sources = [f"- `{name}`: {source}." for name, source in presets.select("name", "source").iter_rows()]
    return found[1] + table(pl.DataFrame(rows)) + "\n" + "\n".join(sources) + "\n" + found[2]


PAGES = {
    "dram.md": dram_page,
    "json.md": json_page,
    "../python/binhop/result.schema.json": schema_file,
    "glossary.md": glossary,
    "machine-file.md": machine_file,
    "metrics.md": metrics,
    "traces.md": traces,
    "policies-and-workloads.md": policies_and_workloads,
}

if __name__ == "__main__":
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")
