"""Reproduces JM97 (Jacob and Mudge, Software-Managed Address Translation, 1997).

`paper` holds the document's figures, and repeats its arithmetic exactly. `programs` and `designs` say what
runs, `study` runs it, and `data` reads the counts. `claims`, `figures` and `page` read only what `data`
returns. `run` takes `recordings`, a directory of recorded programs; built-in programs stand for
those that it lacks.
"""

from __future__ import annotations

from binhop.reproduce.stages import Stages

_STAGES = Stages(__name__, "Jm97Data")
run = _STAGES.run
report = _STAGES.report
