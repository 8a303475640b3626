"""Declares the JSON that commands write. `result.schema.json` and docs/json.md are made from it.

Each command's object is a class of `binhop.schema.results` or `binhop.schema.reports`. The objects in results
are classes of `binhop.schema.rows` and `binhop.schema.provenance`. A key that no class declares is an error
in the tests, which validate what every command writes.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from binhop.schema import reports, results

OUTPUTS: dict[str, Any] = {
    "run": results.RunOutput,
    "compare": results.CompareOutput,
    "sweep": results.SweepOutput,
    "paging": results.PagingOutput,
    "reuse": results.ReuseOutput,
    "io": results.IoOutput,
    "switches": results.SwitchesOutput,
    "surface": results.SurfaceOutput,
    "translate": results.TranslateOutput,
    "inspect": reports.InspectOutput,
    "lint": list[reports.BrokenRule],
    "doctor": list[reports.DoctorFinding],
    "machines": list[reports.MachineRow],
    "workloads": list[reports.WorkloadRow],
    "policies": list[reports.PolicyRow],
    "counters": list[reports.CounterRow],
    "formats": list[reports.FormatRow],
}
"""The output of each command with `--json`."""


def json_schema() -> dict[str, Any]:
    """Returns the JSON Schema of all outputs: `#/$defs/run` is the output of `binhop run --json`, and so on.

    >>> sorted(json_schema()["$defs"]["run"])
    ['$ref']
    """
    adapters = [(name, TypeAdapter(made)) for name, made in OUTPUTS.items()]
    schemas, shared = TypeAdapter.json_schemas(
        [(name, "validation", adapter) for name, adapter in adapters], ref_template="#/$defs/{model}"
    )
    of = {name: schemas[(name, "validation")] for name, _ in adapters}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What binhop writes with --json",
        "description": "The output of a command is described by the definition of the command's name.",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in of],
        "$defs": {**of, **shared["$defs"]},
    }
