"""Thresholds by exact tails for tests that draw real noise, so that a right program hardly ever fails one.

Each check refuses what the stated law gives with a probability of at most `FALSE_ALARM`. A test that draws
makes at most three checks, so it fails by chance less than once in a million runs. Where a test also demands
that a wrong law is noticed, its comment says how sure that is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-7


def plausible_count(successes: int, runs: int, probability: float, false_alarm: float = FALSE_ALARM) -> bool:
    """Whether a binomial count lies within its exact tails."""
    below = stats.binom.cdf(successes, runs, probability)
    above = stats.binom.sf(successes - 1, runs, probability)
    return bool(min(below, above) > false_alarm / 2)


def plausible_frequencies(counts: Sequence[int], probabilities: Sequence[float]) -> bool:
    """Whether each count of a multinomial draw lies within its exact binomial tails (union bound)."""
    runs, share = sum(counts), FALSE_ALARM / len(counts)
    return all(plausible_count(n, runs, p, share) for n, p in zip(counts, probabilities, strict=True))


def plausible_scale(sample: np.ndarray, scale: float) -> bool:
    """Whether the mean square of centred Gaussian values is that of this scale, by chi-square's two tails.

    The values are discrete, on a grid of many steps to a σ, which changes their law by exp(-2π²·steps²) only.
    """
    statistic = float(np.sum((sample / scale) ** 2))
    tails = stats.chi2.cdf(statistic, len(sample)), stats.chi2.sf(statistic, len(sample))
    return bool(min(tails) > FALSE_ALARM / 2)


def follows(sample: np.ndarray, law: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether the sample's distribution is as near to the law as the inequality of Massart promises."""
    distance = stats.kstest(sample, law).statistic
    return bool(distance < math.sqrt(math.log(2 / FALSE_ALARM) / (2 * len(sample))))


def uncorrelated(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether the correlation of two Gaussian samples is one of independent ones (Student's t)."""
    return bool(stats.pearsonr(first, second).pvalue > FALSE_ALARM)
