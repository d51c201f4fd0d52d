"""Position searches by distance in rows: the indicator's definition, coverage, costs and precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpxplain.model.confidential import Confidential
from dpxplain.privacy.calibration import rank_probes
from dpxplain.privacy.mechanisms import ranking
from dpxplain.privacy.mechanisms.noise import OpenDPNoise, SeededNoise
from dpxplain.privacy.mechanisms.ranking import Envelope, bound_positions
from dpxplain.privacy.mechanisms.samplers import FamilyScores

RUNS = 2000


def _search(envelope: Envelope, size: int, rho: float, confidence: float, seed: int) -> np.ndarray:
    """RUNS intervals of one envelope: many searches at once are independent, each for `rho`."""
    found = bound_positions(
        Confidential([envelope] * RUNS),
        size=size,
        rows=1,
        rho=rho * RUNS,
        confidence=confidence,
        lower_share=0.1,
        noise=SeededNoise(seed),
    )
    return np.array(found)


def test_the_papers_examples() -> None:
    b = Envelope(np.ones(5, dtype=np.int64), np.array([2, 2, 4, 6, 10]))  # B(p, d; D) of the paper's table
    assert [b.ahead(t) for t in range(1, 11)] == [0, 0, 2, 2, 3, 3, 4, 4, 4, 4]


@pytest.mark.parametrize("rank", [1, 2, 17, 49, 50])
@pytest.mark.parametrize("speed", [0.05, 0.4, 3.0], ids=["well apart", "close", "all alike"])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_cover_the_rank_as_often_as_they_say(rank: int, speed: float, confidence: float) -> None:
    d = np.arange(400)
    lowest = np.maximum(rank - (speed * d).astype(int), 1)
    highest = np.minimum(rank + (speed * d).astype(int), 50)
    found = _search(Envelope(lowest, highest), 50, 0.5, confidence, seed=rank)
    covered = np.mean((found[:, 0] <= rank) & (rank <= found[:, 1]))
    assert covered >= confidence
    if speed == 0.05:  # 20 rows per rank: close to exact
        assert np.mean(found[:, 1] - found[:, 0]) < 8


def test_each_side_alone_misses_at_its_own_rate_at_most_and_slack_is_needed() -> None:
    """A tie block is the worst case: both indicators are 0 all over it, and noise alone must not cut it."""
    flat = Envelope(np.where(np.arange(100) < 1, 20, 1), np.where(np.arange(100) < 1, 20, 64))
    found = _search(flat, 64, 0.5, 0.9, seed=3)
    assert np.mean(found[:, 0] > 20) <= 0.05 + 0.015
    assert np.mean(found[:, 1] < 20) <= 0.05 + 0.015
    assert np.mean(found[:, 0] > 20) > 0, "the bound is not vacuous"


def test_distances_beyond_the_reach_change_nothing() -> None:
    settings = {"rows": 2, "rho": 0.3, "confidence": 0.95, "lower_share": 0.1}
    reach = ranking.search_reach(64, 1, **settings)  # type: ignore[arg-type]
    intervals = []
    for length in (reach, 10 * reach):
        envelope = Envelope(np.full(length, 20), np.full(length, 20))
        intervals.append(
            [
                bound_positions(Confidential([envelope]), size=64, noise=SeededNoise(s), **settings)  # type: ignore[arg-type]
                for s in range(50)
            ]
        )
    assert intervals[0] == intervals[1]
    assert all(interval[0][1] - interval[0][0] <= 3 for interval in intervals[0])


class _Recorder(OpenDPNoise):
    def __init__(self) -> None:
        self.cost = 0.0

    def gaussian(self, measurement: Any, values: np.ndarray, scale: float) -> np.ndarray:
        self.cost += len(values) * measurement.map(3.0 * 2**20)  # three rows move a probe by three
        return super().gaussian(measurement, values, scale)


def test_all_probes_together_cost_rho_by_opendps_own_map() -> None:
    recorder = _Recorder()
    envelopes = [Envelope(np.arange(9, 0, -1), np.arange(9, 18))] * 4
    found = bound_positions(
        Confidential(envelopes), size=33, rows=3, rho=0.7, confidence=0.9, lower_share=0.1, noise=recorder
    )
    assert all(1 <= low <= high <= 33 for low, high in found)
    assert rank_probes(33) == 5
    assert recorder.cost == pytest.approx(0.7, rel=1e-8)
    assert recorder.cost <= 0.7 * (1 + 1e-12)


def test_one_position_costs_nothing() -> None:
    envelope = Envelope(np.array([1]), np.array([1]))
    found = bound_positions(
        Confidential([envelope]),
        size=1,
        rows=1,
        rho=0.0,
        confidence=0.9,
        lower_share=0.1,
        noise=SeededNoise(0),
    )
    assert found == [(1, 1)]


def test_selection_prefers_depth_and_becomes_uniform_without_budget() -> None:
    family = Confidential(FamilyScores(np.arange(8), np.array([40, 30, 20, 0, 0, -5, -20, -40]), 8))

    def share_of_top(rho: float) -> float:
        source, hits = SeededNoise(5), 0
        for _ in range(400):
            chosen = ranking.select_by_distance(family, k=3, rows=1, rho=rho, noise=source)
            assert len(set(chosen)) == 3
            hits += len({0, 1, 2} & set(chosen))
        return hits / 1200

    assert share_of_top(2.0) > 0.999
    assert share_of_top(1e-6) == pytest.approx(3 / 8, abs=0.06)
