"""Reproduces JM97 (Jacob and Mudge, Software-Managed Address Translation, 1997).

`paper` holds the document's figures, and repeats its arithmetic exactly.
"""
