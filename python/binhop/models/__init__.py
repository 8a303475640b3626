"""What can be computed without simulating: the documents' analytic models."""
