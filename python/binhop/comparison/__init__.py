"""Comparisons: two or more machines or policies on the same traces, under the same luck.

`alternatives` says what is compared and what it is called, `run` simulates it, `pairs` has the statistics of
the differences seed by seed, `result` what is left: tables, notes, provenance.
"""
