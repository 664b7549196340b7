"""Cases of the sample engine by name."""

from layerdiff_samples.cases import keys, numerics, outputs, r1, r2, r3, r4, r5, reading, upkeep

_MODULES = (r1, r2, r3, r4, r5, reading, upkeep, numerics, outputs, keys)

CASES = {case.name: case for module in _MODULES for case in module.CASES}
