"""Reproduces MB90 (Mogul and Borg, The Effect of Context Switches on Cache Performance, 1990).

`paper` holds the paper's figures, and `expected.csv` the figures themselves.
"""
