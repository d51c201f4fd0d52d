"""What a ρ means in the more familiar (ε, δ).

The conversion is OpenDP's tight one (the whole curve of ε against δ), not the textbook bound
ε = ρ + 2·√(ρ·ln(1/δ)), which is up to a third larger.
"""

from __future__ import annotations

import math
from functools import lru_cache


@lru_cache(maxsize=256)
def epsilon(rho: float, delta: float) -> float:
    """The ε of (ε, δ)-differential privacy that ρ-zCDP implies.

    >>> 0.4 < epsilon(0.01, 1e-6) < 0.8
    True
    >>> epsilon(30_000, 1e-6) < epsilon(100_000, 1e-6) < epsilon(1_000_000, 1e-6) < 1_010_000
    True
    """
    if rho <= 0.0:
        return 0.0
    from opendp import combinators, domains, measurements, metrics
    from opendp.mod import OpenDPException, enable_features

    enable_features("contrib")
    space = domains.atom_domain(T="i64"), metrics.absolute_distance(T="f64")
    # Any ρ-zCDP measurement has the same curve; a Gaussian of scale 1 has ρ = d²/2.
    gaussian = combinators.make_zCDP_to_approxDP(measurements.make_gaussian(*space, scale=1.0))
    try:
        return float(gaussian.map((2.0 * rho) ** 0.5).epsilon(delta=delta))
    except OpenDPException:  # it overflows beyond a rho of some 40,000, where the bound is tight enough
        return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))
