"""Checks of scikit-learn that a sampler does not pass, and why."""

EXPECTED_FAILURES = {}
