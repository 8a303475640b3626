"""Reproduces LF91 (Lynch and Flynn, 1991), paging with page coloring.

`study` runs the passes and `data` reads their tables. `claims`, `figures` and `page` read only what `data`
returns.
"""

from __future__ import annotations

from binhop.reproduce.stages import Stages

_STAGES = Stages(__name__, "Lf91Data")
run = _STAGES.run
report = _STAGES.report
