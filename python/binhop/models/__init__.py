"""The papers' analytic models, which need no simulation."""
