"""Faults of the sample engine, each a mechanism that is switched on by name."""
