"""Runs studies: workloads × machines × placements, written as one TOML document.

>>> from binhop import study
>>> document = study.parse('''
... name = "ways"
... title = "Do ways help?"
... seeds = 2
... length = "20k"
... [[part]]
... name = "level-2"
... workloads = ["lin"]
... machine = "kh90"
... axes = { "cache.l2.ways" = [1, 4] }
... ''')
>>> result = study.run(study.plan(document))
>>> result.summary().filter(metric="l2.mpi").select("cache.l2.ways", "n").rows()
[('1', 2), ('4', 2)]
"""

from binhop.kept_runs import keeping
from binhop.study.cells import Plan, plan
from binhop.study.document import Amount, Study, load, parse
from binhop.study.result import StudyResult
from binhop.study.run import explain, run

__all__ = ["Amount", "Plan", "Study", "StudyResult", "explain", "keeping", "load", "parse", "plan", "run"]
