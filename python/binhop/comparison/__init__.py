"""Compares two or more machines or policies on the same traces, or traces on one machine, seed by seed.

`alternatives` names what is compared, `run` simulates the alternatives, `pairs` computes the statistics of
the differences seed by seed, and `result` holds tables, notes and provenance.
"""
