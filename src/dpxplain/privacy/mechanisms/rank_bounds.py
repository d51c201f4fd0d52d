"""Private bounds of a predicate's rank by noisy binary search (paper, RankBound; SPEC section 2).

Each probe compares the predicate's score with the t-th highest one; both move by at most Δ when one
row is added or removed, so their difference moves by at most 2Δ. At most N = ⌈log2 |P|⌉ probes are made and
all N are paid for (docs/proofs/rank-bounds.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from dpxplain.model.confidential import Confidential, sealed
from dpxplain.privacy.calibration import gaussian_scale, rank_probes, rank_slack
from dpxplain.privacy.mechanisms.gaussian import gaussian_measurement
from dpxplain.privacy.mechanisms.noise import DRAWS_AT_ONCE, NoiseSource, authorise, draw_gaussian
from dpxplain.privacy.mechanisms.scores import FamilyScores

LOWER_SHARE = 0.1  # the paper's η: the upper bound says more, so it gets the larger share


@sealed
def bound_ranks(
    secret: Confidential[FamilyScores],
    chosen: list[int],
    *,
    sensitivity: int,
    rho: float,
    confidence: float,
    noise: NoiseSource,
) -> list[tuple[int, int]]:
    """A rank interval for each chosen position, all together for `rho`."""
    family = secret.reveal()
    leads = []
    for score in family.scores_of(chosen).tolist():

        def lead(rank: int, score: int = score) -> int:
            return score - family.at_rank(rank)

        leads.append((lead, lead))
    return search_positions(
        leads, family.size, change=2.0 * sensitivity, rho=rho, confidence=confidence, noise=noise
    )


Lead = Callable[[int], int]
"""How far a predicate is ahead of position t: ≤ 0 where it is not ahead, never decreasing in t."""


def search_positions(
    leads: Sequence[tuple[Lead, Lead]],
    size: int,
    *,
    change: float,
    rho: float,
    confidence: float,
    noise: NoiseSource,
    lower_share: float = LOWER_SHARE,
) -> list[tuple[int, int]]:
    """An interval of positions 1..size for each pair of leads, all together for `rho`.

    The first lead of a pair decides the lower bound and is ≥ 0 from the true position on, the second
    decides the upper bound and is ≤ 0 up to it. One privacy unit moves a lead by at most `change`.
    """
    probes = rank_probes(size)
    if probes == 0:
        return [(1, 1) for _ in leads]
    one_sided = (1.0 + confidence) / 2.0
    per_search = rho / len(leads)
    below = _Probes(change, per_search * lower_share, probes, one_sided, noise)
    above = _Probes(change, per_search * (1.0 - lower_share), probes, one_sided, noise)
    intervals = []
    batch = max(1, DRAWS_AT_ONCE // probes)
    for number, (behind, ahead) in enumerate(leads):
        if number % batch == 0:
            for side in (below, above):
                side.draw(min(batch, len(leads) - number))
        low, _ = _search(lambda t, lead=behind: below.probe(lead(t)) >= -below.slack, size)  # type: ignore[misc]
        _, high = _search(lambda t, lead=ahead: above.probe(lead(t)) >= above.slack, size)  # type: ignore[misc]
        intervals.append((min(low, high), max(low, high)))
    return intervals


class _Probes:
    """Noisy probes of leads, and the slack beyond which their sign can be trusted.

    The noise of many probes is drawn at once, on zeros: adding it to the lead afterwards has the same law as
    OpenDP's own addition, and one call is much faster than hundreds. Noise is drawn for all probes that a
    search might make, so that the number of draws does not depend on the data.
    """

    def __init__(self, change: float, rho: float, probes: int, confidence: float, noise: NoiseSource) -> None:
        self._measurement, self._scale = authorise(
            gaussian_measurement, gaussian_scale(change, rho / probes), change, rho / probes
        )
        self.slack = rank_slack(self._scale, probes, confidence)
        self._probes, self._source = probes, noise
        self._noise: Iterator[int] = iter(())

    def draw(self, searches: int) -> None:
        """Draws the noise of the next `searches` searches."""
        zeros = np.zeros(self._probes * searches, dtype=np.int64)
        self._noise = iter(draw_gaussian(self._source, self._measurement, zeros, self._scale).tolist())

    def probe(self, lead: int) -> int:
        return lead + next(self._noise)


def _search(beats: Callable[[int], bool], size: int) -> tuple[int, int]:
    """The ends of a binary search over ranks; `beats(t)` is the noisy decision that the predicate beats t.

    When `beats` errs only towards no, `high` stays an upper bound of the rank; when it errs only
    towards yes, `low` stays a lower bound. Ends within ⌈log2 size⌉ probes: each leaves at most half.
    """
    low, high = 1, size
    while high > low:
        t = (low + high) // 2
        if beats(t):
            high = max(t - 1, 1)
        else:
            low = min(t + 1, size)
    return low, high
