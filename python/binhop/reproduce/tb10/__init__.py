"""Reproduces TB10 (Tang, Bao, Hu and Chen, DMA Cache, 2010).

`paper` holds the document's figures. `forms` says which schemes are compared in which sizes, `study` runs
them behind one front for each workload, and `data` reads the counts. `claims`, `figures` and `page` read
only what `data` returns.
"""

from __future__ import annotations

from binhop.reproduce.stages import Stages

_STAGES = Stages(__name__, "Tb10Data")
run = _STAGES.run
report = _STAGES.report
