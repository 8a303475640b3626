"""A module of the user's own, which a policy in `test_policy_state` uses."""

from __future__ import annotations

COUNTS: list[int] = []
