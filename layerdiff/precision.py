"""How finely the dtypes tell numbers apart."""

import numpy as np

from layerdiff.format.reader import Dump, Site

EPS = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}
"""Machine epsilon by dtype name; other dtypes are exact and count as float32."""


def site_eps(dump: Dump, site: Site) -> float:
    """Machine epsilon of the dtype that a site was seen in."""
    hashed = dump.observations["rows"] > 0
    here = np.flatnonzero(hashed & (dump.observations["site"] == site.index))
    if not len(here):
        return EPS["float32"]
    name = dump.dtype_name(int(here[0]))
    return EPS.get(name, EPS["float32"])
