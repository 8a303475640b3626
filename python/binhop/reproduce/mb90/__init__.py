"""Reproduces MB90 (Mogul and Borg, The Effect of Context Switches on Cache Performance, 1990).

`paper` holds the paper's figures, and repeats the arithmetic of its Table 4. `study` runs the trials, and
`data` reads their tables. `claims`, `figures` and `page` read only what `data` returns.
"""

from __future__ import annotations

from binhop.reproduce.stages import Stages

_STAGES = Stages(__name__, "Mb90Data")
run = _STAGES.run
report = _STAGES.report
