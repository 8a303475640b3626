"""Writes the pages that are made from the lists in the code; a test fails when they are not up to date.

Run it after a change to a machine key, a counter, an event, a format, a policy, a workload, an agent, an occasion, a fast
path or a term of glossary.toml:
`.venv/bin/python docs/generate.py`
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import polars as pl

import binhop
from binhop.schema import OUTPUTS, json_schema

HERE = Path(__file__).parent
MADE = "<!-- Made by docs/generate.py from the lists in the code: change those. -->\n\n"


def table(frame: pl.DataFrame) -> str:
    """A Markdown table."""
    name = next(column for column in ("key", "name", "rule") if column in frame.columns)
    frame = frame.with_columns(pl.format("`{}`", name).alias(name))
    rows = ["| " + " | ".join(frame.columns) + " |", "|" + "---|" * frame.width]
    rows += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in frame.iter_rows()]
    return "\n".join(rows) + "\n"


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


CACHEGRIND = """\
## rules = "cachegrind"

Counts as `valgrind --tool=cachegrind` does, to compare with it. A reference that straddles two lines is one access,
and one miss if either line is absent; both are brought in. The last level is asked once for each miss of level 1, with
the whole reference. A modify is one load. No line is ever dirty: a store is looked up and brings its line in, as a load
does, and nothing is written back. A reference longer than the smallest line of the three caches ends there. Least
recently used leaves.

The machine has one cache for instructions, one for data, one behind both, and `placement.policy = "identity"`;
what else contradicts these rules is refused by name. Sizes, lines, ways and costs are free: bundled is
[cachegrind-like](#cachegrind-like). Cachegrind's nine counts, where the caches are called `l1i`, `l1d` and `ll`:

| cachegrind | here | |
|---|---|---|
| `Ir` | `l1i.fetch.accesses` | instructions executed |
| `I1mr` | `l1i.fetch.misses` | |
| `ILmr` | `ll.fetch.misses` | |
| `Dr` | `l1d.load.accesses` | loads and modifies |
| `D1mr` | `l1d.load.misses` | |
| `DLmr` | `ll.load.misses` | |
| `Dw` | `l1d.store.accesses` | stores that are no part of a modify |
| `D1mw` | `l1d.store.misses` | |
| `DLmw` | `ll.store.misses` | |

They are cachegrind's own, to the last digit, if the trace has one row for each instruction
(`binhop record --fetch instruction`), of one process in the same environment: variables lie on the stack and move it. In
rows of several instructions, which a recording has by default, it is not known where each begins, so neither which of
them straddle: there each line of the row is asked for by itself. Recorded both ways, in one environment (data
shares the last level with instructions, so that `DLmr` moves with them):

| | `Ir` | `I1mr` | `ILmr` | `Dr` | `D1mr` | `DLmr` | `Dw` | `D1mw` | `DLmw` |
|---|---|---|---|---|---|---|---|---|---|
| `true`, cachegrind and `--fetch instruction` | 112,105 | 1,097 | 1,078 | 26,483 | 1,207 | 997 | 10,282 | 343 | 314 |
| `true`, default | equal | 1,098 | 1,079 | equal | equal | equal | equal | equal | equal |
| `gzip` of 20 kB, cachegrind and `--fetch instruction` | 4,114,799 | 1,379 | 1,352 | 941,346 | 59,231 | 1,494 | 471,892 | 2,667 | 2,499 |
| `gzip`, default | equal | 1,382 | 1,355 | equal | equal | equal | equal | equal | equal |
| `sort` of 20,000 lines, cachegrind and `--fetch instruction` | 26,009,537 | 1,801 | 1,769 | 6,997,444 | 156,889 | 14,099 | 3,439,607 | 58,467 | 15,551 |
| `sort`, default | equal | 1,805 | 1,772 | equal | equal | 14,091 | equal | equal | equal |
"""


COST = """
An instruction takes one cycle, in which level 1 serves what it holds; everything else waits. A demand access that misses
level 1 adds the cycles of the level that serves it (`mode = "total"`), or of all levels that it passes (`"add"`). So a cost is what
the access takes *beyond* a hit in level 1: where a manual says 4 cycles for level 1 and 12 for level 2, `l2 = 8`. Nothing overlaps: no other
instruction goes on meanwhile, and write-backs cost nothing unless a write buffer is full. `cpi` is then an upper bound in the manner of an
in-order, blocking core, for comparing placements, machines and traces under one stated rule.

A row of several instructions asks for all its lines at the cycle of its first instruction, one line after the other; then its instructions take
their cycles. Without a write buffer the sum is the same. A write buffer that drains meanwhile, and the cycles of an exported memory trace, see the later lines up to
the length of the row too early; a trace with one row for each instruction (`binhop record --fetch instruction`) has them exact.

The bundled machines of today have costs, with their sources as comments below; those of papers, and those made to be compared with other
simulators, have none. `--set cost.memory=300` changes one; a description without `[cost]` reports neither `cycles` nor `cpi`.
"""


def machine_file() -> str:
    """Keys of a machine description."""
    text = "# The machine file\n\n" + MADE
    text += (
        "TOML. `binhop run kh90 …` takes a bundled machine, `binhop run ./mine.toml …` a file; "
        "`--set KEY=VALUE` changes any key. Sizes are written `32KiB`, `4MiB`, `1GiB`, `512B`. "
        "A key that is not known is refused. An empty default means that the key must be given.\n"
    )
    for (section,), keys in binhop.machine_keys().group_by("section", maintain_order=True):
        title = {"": "Top level", "cache": "[cache.NAME]", "write-buffer": "[write-buffer.CACHE]"}
        text += f"\n## {title.get(str(section), f'[{section}]')}\n\n{table(keys.drop('section'))}"
        text += COST if section == "cost" else ""
    text += "\n" + CACHEGRIND
    text += "\n## Bundled machines\n"
    for row in binhop.machines().iter_rows(named=True):
        text += f"\n### {row['name']}\n\n{row['about']}\n\n```toml\n{row['toml'].strip()}\n```\n"
    return text


def metrics() -> str:
    """The glossary."""
    text = "# Metrics\n\n" + MADE
    text += (
        "`<cache>` is a cache of the machine, `<kind>` a [kind of access](#kinds-of-access). Counts are whole "
        "numbers; a ratio without a denominator is null, never 0. A metric that a machine cannot have is absent.\n\n"
    )
    text += table(binhop.counters())
    text += (
        "\n## Kinds of access\n\n"
        "The kind is that of the reference that caused the access: a level-2 access made by a level-1 store miss is "
        "a `store` there. Misses of demand kinds count in `<cache>.mpi`.\n\n"
    )
    text += table(_kinds())
    text += (
        "\nNo cache is asked with kind `system`: when a frame changes hands, its dirty lines go from each cache to "
        "memory directly, past the levels between. They are `<cache>.system.sent` of the cache that held them, which "
        "equals its `<cache>.purged.dirty`, and together `memory.system.accesses`. They cost no cycles.\n"
        "\nCycles are counted as [[cost]](machine-file.md#cost) says. All lines of a row of several instructions are asked "
        "for at the cycle of its first instruction.\n"
    )
    text += (
        "\n## By process\n\n"
        "`processes` (`processes.parquet`) has `instructions`, `references`, `<cache>.misses` and `<cache>.mpi` "
        "of each process (an address space, in its kernel or not) over all that was measured, and for address "
        "spaces what follows: about the pages that one had in memory when it exited, or at the end. Where a "
        "number is used again after an exit, they are the pages of its last life that had any. `exec` gives up "
        "the old pages without a look at them.\n\n"
        "| name | unit | meaning |\n|---|---|---|\n"
        "| `os.pages` | pages | Its pages in memory. |\n"
        "| `os.pages.shared` | pages | Those of them that have, or had, another mapping. |\n"
        "| `<cache>.conflicts` | pages | In each bin those beyond the cache's ways, summed (KH90 §2). Only where "
        "the frame chooses the bin. |\n"
        "| `<cache>.conflicts.minimum` | pages | The fewest that so many pages can have: those beyond bins × "
        "ways. |\n"
    )
    return text


def traces() -> str:
    """Events, formats, lint rules."""
    text = "# Traces\n\n" + MADE
    text += (
        "A trace is a table of events in program order: a Parquet file, or any Arrow table or stream in "
        "Python. Columns: `op` (UInt8), `addr` (UInt64), `size` (UInt32), `count` (UInt32), never null; and, if "
        "there are events that need them, `arg0` and `arg1` (UInt64, nullable). Further columns are ignored.\n\n"
        "A stream starts in address space 0. A fetch of more than one instruction is a run without gaps that "
        "ends at the instruction that makes a data reference. A reference has at most 65,536 bytes, and a fetch at "
        "most 65,536 instructions: a larger one is refused by its row, as simulation, `paging`, `inspect`, `export`, "
        "`import` and parts of traces come to it, and `lint` lists it. System events may cover any range.\n\n"
        "## Events\n\n"
    )
    text += table(binhop.events()) + "\n" + _flags()
    packings = ", ".join(f"{name} (`.{extension}`)" for name, extension in binhop._binhop.packings())
    text += (
        "\n## Foreign formats\n\n`binhop import` reads them from a file or a pipe, plain or packed: "
        f"{packings}. The first bytes tell the packing, not the name. The entries of a zip archive are read one "
        "behind another.\n\n"
    )
    text += table(binhop.formats())
    text += (
        "\n## Lengths and boundaries\n\n"
        "`--length N`, in every command and in Python, reads the rows before the one that would exceed N "
        "references; events before that row stay. Where a run's instructions begin is not recorded, so a run is "
        "not cut: one that would exceed the length is left out, and a few references fewer than N are read. Only "
        "runs of one-byte instructions (`size` = `count`, or 0) are split, since that is exact.\n\n"
        "The other boundaries follow the same rule. A row across the end of the warm-up belongs to the measured "
        "part, one across the end of an interval to the next interval, one across a position of `trace slice` or "
        "`trace sample` to the part behind it. A switch or a mapping between two references belongs to the part "
        "of the first.\n"
        "\n## Parts of traces\n\n"
        "`binhop trace head | cat | slice | filter | sample` show parts of a trace as lines of text, or write them "
        "as a trace of their own (`-o part.parquet`); they stream, in memory that does not grow with the trace.\n\n"
        "- What is left out are references, system calls, times and devices' events. Events that say what state "
        "things are in (switch, map, protect, unmap, fork, exec, exit, kernel-enter, kernel-leave) stay wherever "
        "they stood, so a part is a trace: what it holds finds its mappings, and pages that a fork shares are "
        "shared. Of switches with nothing kept between them only the last stays.\n"
        "- A position is a number of references; what lies across one is told above, so slices end to end hold "
        "every row once.\n"
        "- `filter` keeps what passes every filter given. `--kind`, `--process` ask of all rows, `--address`, "
        "`--region`, `--kernel`, `--user` of references. Kinds that hold no kind of reference are kept alone, "
        "without the state: `--kind switch` lists switches.\n"
        "- `sample --every 10M --window 1M` keeps the first million of each ten; `--seed` draws each window's "
        "place. Caches come to a window as the one before left them: its first misses are partly those of what "
        "was left out, and the longer the window, the less they matter.\n"
        "- `cat` of several traces renumbers processes and segments that an earlier one has; a file that two of "
        "them map is one segment. Pages must have one size.\n\n"
        "A line is the event's name, then its columns; one that has its usual value (0; 1 for the count of a load, "
        "store or modify) is left out, and `size`, `count`, `arg0`, `arg1` name any column. `binhop import -f text` "
        "reads the lines back, to the same trace. Flags are [letters](#events); "
        "causes are system-call, page-fault, involuntary, exit. `# meta` is followed by metadata as JSON.\n\n"
        "Names and commands in a trace may hold anything. Every command shows a character that steers a terminal, ends "
        "a line or reorders it as its escape: `\\x1b`, `\\n`, `\\u202e`. JSON and lines of text hold it as `\\u001b`, which "
        "reads back to the same character. A file that is named after a workload lies in the directory it was asked "
        "for: a name with `/` in it gets `-` and a digest instead.\n\n"
    )
    text += table(_lines())
    text += (
        "\n## Export\n\n"
        "`binhop export TRACE --to FORMAT -o FILE` writes a trace for another simulator, compressed if the name ends "
        "in `.gz`, `.xz` or `.zst` (endings of other packings are refused). Formats that take the *virtual* stream get the references as the program makes "
        "them. Those that take the *physical* one get what reaches memory behind the caches of `--machine` under the "
        "page placement of `--seed`: lines read for misses, written back and passed down, in order, exactly those "
        "that `binhop run` counts as accesses of memory. An address is frame × page + offset. Lines that are dirty "
        "in the end stay in the caches.\n\n"
    )
    text += table(binhop.exporters())
    text += "\n## What `binhop lint` checks\n\n" + table(binhop.lint_rules())
    return text


def _kinds() -> pl.DataFrame:
    rows = [(name, "yes" if demand else "no", meaning) for name, demand, meaning in binhop._binhop.kinds()]
    return pl.DataFrame(rows, schema=["name", "demand", "meaning"], orient="row")


def _flags() -> str:
    """Returns the paragraph on the flags of a mapping, as numbers and as letters."""
    flags = binhop._binhop.map_flags()
    numbers = ", ".join(f"{value} {name}" for _, value, name in flags)
    places = "`, `".join(letter for letter, *_ in flags[:3])
    ends = " and ".join(f"`{letter}` where it is {name}" for letter, _, name in flags[3:])
    return (
        f"Flags of `map` and `protect` are a sum of {numbers}. In [lines of text](#parts-of-traces) they are letters: "
        f"`{places}` in this order, `-` in the place of one that is not set, then {ends.replace('is grows', 'grows')}. "
        "So `flags=r-x` is 5 and `flags=rw-s` is 11. A number, decimal or behind `0x`, means the same; one with other "
        "bits is written so.\n"
    )


def _lines() -> pl.DataFrame:
    lines = [(name, f"`{line}`") for name, line in binhop._binhop.event_lines()]
    return pl.DataFrame(lines, schema=["name", "line"], orient="row")


def policies_and_workloads() -> str:
    """What can be chosen by name."""
    text = "# Placement policies and workloads\n\n" + MADE
    text += "## Placement policies\n\n`placement.policy` of a machine. The cost is that of a decision; "
    text += "what a whole placement costs is told in [placement](placement.md#what-a-decision-costs).\n\n"
    text += table(binhop.policies())
    text += "\n## Built-in workloads\n\nReal algorithms on instrumented memory; they never end.\n\n"
    return text + table(binhop.workloads())


def json_page() -> str:
    """Returns the page on the JSON that commands write with --json."""
    whole = json_schema()
    text = "# JSON\n\n" + MADE
    text += (
        "`--json FILE` writes one JSON value, `--json -` writes it to the standard output. Below is every key of every "
        "command. The same as a JSON Schema (draft 2020-12) is [result.schema.json](../python/binhop/result.schema.json), "
        "which is installed with the package; the definition of a command's name describes what the command writes:\n\n"
        "```python\n"
        "import json\n"
        "from importlib.resources import files\n\n"
        'schema = json.loads((files("binhop") / "result.schema.json").read_text())\n'
        'run = {**schema, "anyOf": [{"$ref": "#/$defs/run"}]}  # jsonschema.validate(result, run)\n'
        "```\n\n"
        "Counts are integers, ratios are numbers, what is undefined is null.\n"
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
    """Returns the page of terms: those of glossary.toml, and the lists of agents, occasions and fast paths in the code."""
    terms = tomllib.loads((HERE / "glossary.toml").read_text(encoding="utf-8"))
    text = "# Glossary\n\n" + MADE.replace("the lists in the code", "glossary.toml and the lists in the code")
    text += (
        "The words of these documents, of the plan that `binhop sweep --explain` prints, and of the code. "
        "[Metrics](metrics.md) has every count and every kind of access.\n"
    )
    for section, sentences in terms.items():
        text += f"\n## {section}\n\n| term | meaning |\n|---|---|\n"
        text += "".join(f"| {term} | {_cell(sentence)} |\n" for term, sentence in sentences.items())
    text += (
        "\n## Agents\n\nThe misses of an agent that executes instructions count in MPI. The processor waits for some agents, "
        "and not for others. The counts of an agent other than the user stand under its name before the kind, as in "
        "`l2.walk.load.misses`; machines of today have the user alone.\n\n"
    )
    agents = [
        (name, _yes(facts, "mpi"), _yes(facts, "waited"), meaning)
        for name, facts, meaning in code_list("binhop-base/src/agent.rs", "agents")
    ]
    text += table(
        pl.DataFrame(agents, schema=["name", "counts in MPI", "waited for", "meaning"], orient="row")
    )
    text += "\n## Occasions\n\nThe kinds of occasions for which a unit may ask, and when each arises.\n\n"
    text += table(_named(code_list("binhop-sim/src/unit/occasion.rs", "occasions")))
    text += (
        "\n## Fast paths\n\nThe plan names those that are taken, and for each of the others the reason why not. They change no "
        "count.\n\n"
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


PAGES = {
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
