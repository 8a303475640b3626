"""What can be computed without simulating: the papers' analytic models."""
