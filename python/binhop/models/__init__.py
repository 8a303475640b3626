"""Computes the papers' analytic models, which need no simulation."""
