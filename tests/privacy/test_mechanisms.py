"""The noise is what it says it is: distribution tests with power both ways, and OpenDP's own costs.

The system's generator cannot be seeded, nor OpenDP's: thresholds are exact tails, see tests/chance.py.

Proofs: docs/proofs/{gaussian,top-k,rank-bounds}.md.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from chance import FALSE_ALARM, follows, plausible_count, plausible_frequencies, plausible_scale, uncorrelated
from dpxplain.errors import InternalError
from dpxplain.model.confidential import Confidential
from dpxplain.privacy.calibration import gaussian_scale, rank_probes, top_k_scale
from dpxplain.privacy.mechanisms import noise, ranking
from dpxplain.privacy.mechanisms.samplers import FamilyScores

OPENDP = noise.OpenDPNoise()
SAMPLE = 20_000

each_source = pytest.mark.parametrize(
    "source", [noise.VectorisedNoise(), OPENDP], ids=lambda source: type(source).__name__
)


def _gaussian_sample(sensitivity: int, rho: float, source: noise.NoiseSource) -> tuple[np.ndarray, float]:
    secret = Confidential(np.full(SAMPLE, 1000, dtype=np.int64))
    released = noise.add_gaussian(secret, sensitivity=sensitivity, rho=rho, noise=source)
    return released.values - 1000, released.scale


@pytest.mark.draws
@each_source
@pytest.mark.parametrize(("sensitivity", "rho"), [(1, 0.1), (1, 20.0), (200_000, 0.5), (2**20 + 8, 0.02)])
def test_gaussian_noise_has_the_planned_scale_and_not_ten_percent_more_or_less(
    sensitivity: int, rho: float, source: noise.NoiseSource
) -> None:
    sample, scale = _gaussian_sample(sensitivity, rho, source)
    assert scale == pytest.approx(gaussian_scale(sensitivity, rho), rel=1e-9)
    assert plausible_scale(sample, scale)
    # A tenth is 17 standard deviations of the mean square; 5 are allowed for chance.
    assert not plausible_scale(sample, scale * 1.1)
    assert not plausible_scale(sample, scale * 0.9)


@pytest.mark.draws
@each_source
def test_gaussian_noise_is_gaussian_even_where_sigma_is_below_one(source: noise.NoiseSource) -> None:
    sample, scale = _gaussian_sample(1, 20.0, source)  # σ = 0.16: on bare integers nearly no noise at all
    assert follows(sample / scale, stats.norm.cdf)
    # Distance 0.044, of which 0.021 is allowed for chance and the rest is missed once in 10^9 (Massart).
    assert not follows(sample / (1.2 * scale), stats.norm.cdf)


@pytest.mark.draws
@each_source
def test_noise_is_independent_across_groups(source: noise.NoiseSource) -> None:
    secret = Confidential(np.zeros(6000, dtype=np.int64))
    pairs = noise.add_gaussian(secret, sensitivity=1, rho=0.1, noise=source).values.reshape(3000, 2)
    assert uncorrelated(*pairs.T)
    assert np.mean(pairs[:, 0] == pairs[:, 1]) < 0.01


@pytest.mark.draws
@each_source
def test_extreme_values_are_clamped_and_never_overflow(source: noise.NoiseSource) -> None:
    secret = Confidential(np.array([2**63 - 1, -(2**63), 0]))
    released = noise.add_gaussian(secret, sensitivity=1, rho=1e-6, noise=source)
    assert np.all(np.isfinite(released.values))
    assert released.values[0] > 0 > released.values[1]


def _selection_frequencies(
    scores: list[int], size: int, k: int, rho: float, runs: int, source: noise.NoiseSource
) -> dict[tuple[int, ...], int]:
    family = Confidential(FamilyScores(np.arange(len(scores)), np.array(scores), size))
    counts: dict[tuple[int, ...], int] = dict.fromkeys(itertools.permutations(range(size), k), 0)
    for _ in range(runs):
        chosen = ranking.select_top_k(family, k=k, sensitivity=100, rho=rho, noise=source)
        counts[tuple(chosen)] += 1
    return counts


def _softmax_sequence(scores: list[float], chosen: tuple[int, ...], scale: float) -> float:
    """Probability that peeling exponential mechanisms choose exactly this sequence."""
    left, probability = set(range(len(scores))), 1.0
    for index in chosen:
        weights = {i: math.exp(scores[i] / scale) for i in left}
        probability *= weights[index] / sum(weights.values())
        left.remove(index)
    return probability


@pytest.mark.draws
@each_source
@pytest.mark.parametrize(
    ("listed", "size"),
    [
        pytest.param([300, 0, 150, 100], 4, marks=pytest.mark.slow),
        ([300, 150], 5),
        pytest.param([-100], 5, marks=pytest.mark.slow),
        pytest.param([], 4, marks=pytest.mark.slow),
    ],
    ids=[
        "no idle predicate",
        "three idle predicates",
        "one active predicate below the idle ones",
        "all idle",
    ],
)
def test_top_k_selects_sequences_as_often_as_the_exact_softmax_says(
    listed: list[int], size: int, source: noise.NoiseSource
) -> None:
    power = listed == [300, 0, 150, 100]  # this case sees a wrong scale too
    runs, k, rho = 6000 if power else 1500, 2, 0.5
    counts = _selection_frequencies(listed, size, k, rho, runs, source)
    scale = top_k_scale(100 + ranking.bucket_rounding(100, k, rho), 1, rho / k)
    scores = [float(s) for s in listed] + [0.0] * (size - len(listed))

    def plausible(scale: float) -> bool:
        expected = [_softmax_sequence(scores, chosen, scale) for chosen in counts]
        return plausible_frequencies(list(counts.values()), expected)

    assert plausible(scale)
    if power:
        # Missed once in 10^9, by the exact binomial law of the likeliest sequence.
        assert not plausible(scale * 1.4)
        assert not plausible(scale / 1.4)


@pytest.mark.parametrize(
    ("sensitivity", "k", "rho", "margin"),
    [
        (2**20, 8, 1.0, 2 + 1),  # 2·s·2^-40 is 2^-17, rounded up
        (2**47, 8, 1.0, 2 + 2**10),  # s, for twice the sensitivity, is 2·2^48·√(8/(8·1)) = 2^49
        (2**47, 2, 1.0, 2 + 2**9),
        (2**47, 2, 0.25, 2 + 2**10),
        (2**48, 8, 4.0, 2 + 2**10),
    ],
)
def test_the_scale_of_a_selection_has_the_margin_of_the_proof(
    sensitivity: int, k: int, rho: float, margin: int
) -> None:
    """Δ + 2 + ⌈2·s·2^-40⌉ (docs/proofs/top-k.md), where 2^-40 is the proof's η."""
    assert ranking.bucket_rounding(sensitivity, k, rho) == margin
    scales: list[float] = []

    class Source:
        def top_k(self, measurement: Any, scores: FamilyScores, k: int, scale: float) -> list[int]:
            scales.append(scale)
            return [0] * k

    family = Confidential(FamilyScores(np.array([0]), np.array([5]), 10))
    ranking.select_top_k(family, k=k, sensitivity=sensitivity, rho=rho, noise=Source())  # type: ignore[arg-type]
    assert scales == [pytest.approx(2 * (sensitivity + margin) * math.sqrt(k / (8 * rho)), rel=1e-13)]


@pytest.mark.draws
def test_a_large_idle_family_wins_as_often_as_its_size_says() -> None:
    idle, runs = 10_000_000, 2000
    scale = top_k_scale(100 + ranking.bucket_rounding(100, 1, 0.5), 1, 0.5)
    ahead = round(scale * math.log(idle))  # as likely as all idle ones together
    family = Confidential(FamilyScores(np.array([5]), np.array([ahead]), idle + 1))
    picks = [
        ranking.select_top_k(family, k=1, sensitivity=100, rho=0.5, noise=OPENDP)[0] for _ in range(runs)
    ]
    won = sum(pick == 5 for pick in picks)
    assert plausible_count(won, runs, 1 / (1 + idle * math.exp(-ahead / scale)))
    others = np.array([pick for pick in picks if pick != 5])
    assert follows(others / idle, stats.uniform.cdf)


def test_idle_predicates_are_numbered_around_the_active_ones() -> None:
    family = FamilyScores(np.array([0, 3, 4]), np.array([1, 1, 1]), 8)
    assert [family.nth_idle(n, set()) for n in range(5)] == [1, 2, 5, 6, 7]
    assert [family.nth_idle(n, {2, 6}) for n in range(3)] == [1, 5, 7]


search = ranking._search


@pytest.mark.parametrize("sizes", [range(1, 101), range(101, 201), range(201, 301)])
def test_rank_search_makes_its_probes_and_finds_every_rank_when_there_is_no_noise(sizes: range) -> None:
    for size in sizes:
        ranks, probed = np.arange(1, size + 1), []
        low, high = search(_exact(ranks, probed), size, size)
        assert len(probed) == rank_probes(size) == math.floor(math.log2(size))
        assert all((t >= 2).all() and (t <= size).all() for t in probed), "t and t − 1 are ranks"
        assert ((low <= ranks) & (ranks <= high)).all(), "the rank is inside"
        alone = 2 ** (rank_probes(size) + 1) - size
        assert (low[:alone] == high[:alone]).all(), "the ranks near the top are told apart"
        assert (high - low <= 1).all(), "the others up to one"


def _exact(ranks: np.ndarray, probed: list[np.ndarray]) -> Any:
    def precedes(_step: int, t: np.ndarray) -> np.ndarray:
        probed.append(t)
        return ranks < t

    return precedes


@pytest.mark.parametrize("size", [2, 3, 5, 16, 33])
def test_one_sided_errors_never_put_the_rank_outside(size: int) -> None:
    ranks = np.repeat(np.arange(1, size + 1), 200)
    rng = np.random.default_rng(size)

    def erring(towards: bool) -> Any:
        def precedes(_step: int, t: np.ndarray) -> np.ndarray:
            wrong = rng.random(len(ranks)) < 0.5
            return (ranks < t) | wrong if towards else (ranks < t) & ~wrong

        return precedes

    _, high = search(erring(False), len(ranks), size)
    low, _ = search(erring(True), len(ranks), size)
    assert ((low <= ranks) & (ranks <= high)).all()


@pytest.mark.parametrize("size", [2, 3, 37, 64, 103])
@pytest.mark.parametrize("eta", [0.1, 0.5])
def test_rank_intervals_cover_ranks_of_every_family_size(size: int, eta: float) -> None:
    """Neighbouring scores are half a σ apart, so that both errors and ties matter; γ = 0.8."""
    probes, searches, sensitivity, runs = rank_probes(size), size, 1000, 40
    sigma = gaussian_scale(2.0 * sensitivity, (1 - eta) * 0.5 / searches / probes)
    scores = np.arange(size)[::-1] // 2 * round(sigma)  # pairs of equal scores
    first, last = np.searchsorted(-scores, -scores) + 1, np.searchsorted(-scores, -scores, side="right")
    family = Confidential(FamilyScores(np.arange(size), scores, size))
    inside = 0
    for seed in range(runs):
        bounds = ranking.bound_ranks(
            family,
            list(range(size)),
            sensitivity=sensitivity,
            rho=0.5,
            confidence=0.8,
            noise=noise.SeededNoise(seed),
            lower_share=eta,
        )
        low, high = np.array(bounds).T
        inside += int(np.count_nonzero((low <= first) & (last <= high)))
    # Predicates are searched with noise of their own: independent trials.
    assert stats.binom.cdf(inside, runs * size, 0.8) > FALSE_ALARM


@pytest.mark.draws
def test_a_single_predicate_has_rank_one_at_no_cost() -> None:
    plan = ranking.OneShotPlan.share(k=1, family_size=1, sensitivity=10, rho=0.5, split=(1, 1, 2))
    assert [spend.rho for spend in plan.spends] == [0.5]
    family = Confidential(FamilyScores(np.array([0]), np.array([5]), 1))
    (line,) = ranking.select_and_measure(family, plan, 0.95, OPENDP)
    assert line.rank == (1, 1)


class _Recorder(noise.OpenDPNoise):
    """OpenDP's noise, keeping every measurement it was asked to run."""

    def __init__(self) -> None:
        self.gaussians: list[tuple[Any, int]] = []
        self.picks: list[Any] = []

    def gaussian(self, measurement: Any, values: np.ndarray, scale: float) -> np.ndarray:
        self.gaussians.append((measurement, len(values)))
        return super().gaussian(measurement, values, scale)

    def pick(self, measurement: Any, scores: list[int]) -> int:
        self.picks.append(measurement)
        return super().pick(measurement, scores)


@pytest.mark.draws
@pytest.mark.parametrize("eta", [0.1, 0.5, 1e-6, 0.97])
def test_all_draws_together_cost_the_plan_by_opendps_own_map(eta: float) -> None:
    sensitivity, k, rho, size = 2**20 + 8, 3, 0.7, 64
    plan = ranking.OneShotPlan.share(
        k=k, family_size=size, sensitivity=sensitivity, rho=rho, split=(1, 1, 2), lower_share=eta
    )
    recorder = _Recorder()
    family = Confidential(FamilyScores(np.arange(64), np.arange(64) * 10**7, size))
    ranking.select_and_measure(family, plan, 0.95, recorder)
    assert sum(spend.rho for spend in plan.spends) == pytest.approx(rho, rel=1e-12)
    # A choice is one exponential mechanism, in one step or in two (bucket, member), all of one scale.
    widened = sensitivity + ranking.bucket_rounding(sensitivity, k, plan.rho_select)
    assert k <= len(recorder.picks) <= 2 * k
    selection = k * recorder.picks[0].map(widened)
    (influences, chosen), (lower, lower_looks), (upper, upper_looks) = recorder.gaussians
    assert chosen == k
    influence = influences.map(math.sqrt(k) * sensitivity)
    assert lower_looks == upper_looks == k * rank_probes(size)
    rank = lower_looks * (lower.map(2.0 * sensitivity) + upper.map(2.0 * sensitivity))
    assert selection == pytest.approx(plan.rho_select, rel=1e-8)
    assert influence == pytest.approx(plan.rho_influence, rel=1e-8)
    assert rank == pytest.approx(plan.rho_rank, rel=1e-8)
    assert lower_looks * lower.map(2.0 * sensitivity) == pytest.approx(eta * plan.rho_rank, rel=1e-8)
    assert selection + influence + rank <= rho * (1 + 1e-12)


def test_a_measurement_that_costs_more_or_less_than_planned_is_not_run() -> None:
    for wrong in (1.02, 0.9):
        with pytest.raises(InternalError):
            noise.authorise(
                lambda scale, wrong=wrong: noise.gaussian_measurement(scale / wrong), 1000.0, 100, 0.005
            )


def test_noise_is_not_drawn_at_another_scale_than_was_authorised() -> None:
    measurement, scale = noise.authorise(noise.gaussian_measurement, 1000.0, 100, 0.005)
    zeros = np.zeros(3, dtype=np.int64)
    assert len(noise.draw_gaussian(OPENDP, measurement, zeros, scale)) == 3
    for other in (math.nextafter(scale, 0.0), math.nextafter(scale, 2000.0), scale / 2):
        with pytest.raises(InternalError):
            noise.draw_gaussian(noise.VectorisedNoise(), measurement, zeros, other)


def test_seeded_noise_repeats_itself_and_says_that_it_is_not_private() -> None:
    secret = Confidential(np.zeros(5, dtype=np.int64))

    def draw(seed: int) -> list[float]:
        source = noise.SeededNoise(seed)
        assert not source.private
        return noise.add_gaussian(secret, sensitivity=1, rho=0.1, noise=source).values.tolist()

    assert draw(1) == draw(1) != draw(2)
