"""Private selection of the k highest scores: Gumbel noise, one shot (SPEC section 6, mechanism 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from dpxplain.model.confidential import Confidential
from dpxplain.privacy.calibration import top_k_scale
from dpxplain.privacy.mechanisms.noise import NoiseSource, authorise


def select_top_k(
    scores: Confidential[NDArray[np.int64]], *, k: int, sensitivity: int, rho: float, noise: NoiseSource
) -> list[int]:
    """Positions of k scores, highest noisy score first; any one score changes by at most `sensitivity`."""

    def measurement(scale: float) -> Any:
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
        return dp.m.make_noisy_top_k(
            *space, output_measure=dp.zero_concentrated_divergence(), k=k, scale=scale
        )

    authorised, scale = authorise(measurement, top_k_scale(sensitivity, k, rho), sensitivity, rho)
    return noise.top_k(authorised, scores.reveal().tolist(), k, scale)
