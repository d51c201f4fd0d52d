"""The vectorised sampler has exactly the law it names (docs/proofs/discrete-gaussian.md).

Words come from a fixed stream, so that nothing here can fail by chance; only OpenDP's own draws cannot be
repeated.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import dpxplain as dpx
from chance import FALSE_ALARM, plausible_frequencies
from dpxplain.model.schema import Schema
from dpxplain.privacy.calibration import LARGEST_SCALE
from dpxplain.privacy.mechanisms import samplers
from dpxplain.privacy.mechanisms.noise import (
    OpenDPNoise,
    VectorisedNoise,
    authorise,
    draw_gaussian,
    gaussian_measurement,
)
from dpxplain.privacy.mechanisms.samplers import GaussianLaw, Law, exponential_bounds
from opened import dataset_of

ROUNDOFF = 2.0**-53
SCALES = [0.3, 0.5, 0.99, 1.0, 1.7, 6.25, 300.0, 65_537.3, 1e9, 1e12, 2.0**50]


class LaplaceLaw:
    """A second law to try the sampler on: P(n) proportional to e^(-|n|/scale)."""

    def __init__(self, scale: float) -> None:
        self.width, denominator = scale.as_integer_ratio()
        self._halvings = denominator.bit_length() - 1  # a float's denominator is a power of two

    def exponents(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return u.astype(np.float64) / self.width

    def exact_exponent(self, u: int, v: int) -> Fraction:
        return Fraction(u, self.width)

    def magnitudes(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        whole = u + v * self.width
        whole >>= self._halvings if whole.dtype == object else min(self._halvings, 63)
        return whole


LAWS: dict[str, Callable[[float], Law]] = {"Gaussian": GaussianLaw, "Laplace": LaplaceLaw}


class Stream:
    """A repeatable stream of words that counts them."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Philox(seed)
        self.taken = 0

    def __call__(self, count: int) -> np.ndarray:
        self.taken += count
        return np.asarray(self._generator.random_raw(count), dtype=np.uint64)


class Script:
    """These words and no others."""

    def __init__(self, words: Iterable[int]) -> None:
        self._words = iter(words)

    def __call__(self, count: int) -> np.ndarray:
        return np.array([next(self._words) for _ in range(count)], dtype=np.uint64)

    def is_used_up(self) -> bool:
        return next(self._words, None) is None


# The law


def _distribution(law: str, scale: float, edges: np.ndarray) -> np.ndarray:
    """P(n ≤ edge), summed up; for large scales by the midpoint rule, whose error is below 1/scale²."""
    if scale > 10_000:
        ends = (edges + 0.5) / scale
        return special.ndtr(ends) if law == "Gaussian" else stats.laplace.cdf(ends)
    numbers = np.arange(-math.ceil(40 * scale) - 40, math.ceil(40 * scale) + 41)
    weights = np.exp(-(numbers**2) / (2 * scale**2) if law == "Gaussian" else -np.abs(numbers) / scale)
    below = np.concatenate([[0.0], np.cumsum(weights)]) / np.sum(weights)
    return below[np.searchsorted(numbers, edges, side="right")]


def _p_value(law: str, scale: float, sample: np.ndarray) -> float:
    """Chi-square of 60 bins, or as many as have members enough."""
    edges = np.unique(np.floor(np.linspace(-5, 5, 59) * scale))
    chances = np.diff(_distribution(law, scale, edges), prepend=0.0, append=1.0)
    counts = np.bincount(np.searchsorted(edges, sample, side="left"), minlength=len(chances))
    large = chances * len(sample) >= 5
    expected = np.append(chances[large], chances[~large].sum()) * len(sample)
    observed = np.append(counts[large], counts[~large].sum())
    if expected[-1] < 5:  # too rare to count by themselves
        expected, observed = expected[:-1], observed[:-1]
        expected *= observed.sum() / expected.sum()
    return float(stats.chisquare(observed, expected).pvalue)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("law", LAWS)
def test_samples_have_the_exact_law_and_not_one_ten_percent_off(law: str, scale: float) -> None:
    sample = samplers.sample(LAWS[law](scale), 100_000, Stream(5))
    assert sample.dtype == np.int64
    assert _p_value(law, scale, sample) > 1e-3
    assert _p_value(law, scale * 1.1, sample) < FALSE_ALARM
    assert _p_value(law, scale / 1.1, sample) < FALSE_ALARM


@pytest.mark.parametrize("scale", [1e9, 1e12, 2.0**50])
@pytest.mark.parametrize("modulus", [2, 7, 64])
def test_large_samples_are_spread_evenly_over_the_integers_near_them(scale: float, modulus: int) -> None:
    sample = samplers.discrete_gaussian(scale, 100_000, Stream(6))
    assert stats.chisquare(np.bincount(sample % modulus, minlength=modulus)).pvalue > 1e-3
    assert stats.kstest(sample / scale, "norm").pvalue > 1e-3


def test_samples_are_independent_of_the_ones_before() -> None:
    sample = samplers.discrete_gaussian(1000.0, 200_000, Stream(7)) / 1000.0
    for lag in (1, 2, 7447):  # the last one: about the length of a round
        correlation = np.corrcoef(sample[:-lag], sample[lag:])[0, 1]
        assert abs(correlation) * math.sqrt(len(sample)) < 4
        assert abs(np.corrcoef(sample[:-lag] ** 2, sample[lag:] ** 2)[0, 1]) * math.sqrt(len(sample)) < 4


@pytest.mark.draws
@pytest.mark.parametrize("scale", [0.5, 6.25, 70_000.3])
def test_samples_and_opendps_own_are_of_one_law(scale: float) -> None:
    """Both against the exact law; ours from a fixed stream, so that only theirs may fail by chance."""
    edges = np.unique(np.floor(np.linspace(-2.5, 2.5, 25) * scale))
    law = np.diff(_distribution("Gaussian", scale, edges), prepend=0.0, append=1.0)

    def counts(sample: np.ndarray) -> list[int]:
        return np.bincount(np.searchsorted(edges, sample), minlength=len(law)).tolist()

    assert plausible_frequencies(counts(np.array(gaussian_measurement(scale)([0] * 20_000))), law)
    assert plausible_frequencies(counts(samplers.discrete_gaussian(scale, 200_000, Stream(8))), law)
    wrong = samplers.discrete_gaussian(1.1 * scale, 200_000, Stream(8))
    assert not plausible_frequencies(counts(wrong), law)


@pytest.mark.parametrize("scale", [0.3, 1.7, 123_456.789, 2.0**50])
def test_the_scale_is_the_rational_number_that_opendps_map_is_of(scale: float) -> None:
    """The map at a distance of one scale is ½ for the scale itself and for no neighbouring float."""
    measurement = gaussian_measurement(scale)
    assert measurement.map(scale) == 0.5
    assert measurement.map(math.nextafter(scale, 0.0)) < 0.5 < measurement.map(math.nextafter(scale, 2**60))
    law = GaussianLaw(scale)
    ratio = law.exact_exponent(0, 1) - law.exact_exponent(0, 0) + 1  # ln P(0)/P(width); 1 is of the strip
    assert ratio == law.width**2 / (2 * Fraction(scale) ** 2)


# The same words through exact rationals


def _fraction_bounds(x: Fraction) -> Iterator[tuple[Fraction, Fraction]]:
    """Ever closer bounds of e^-x by partial sums of the alternating series, in rationals."""
    parts = max(1, math.ceil(x))
    total, term = Fraction(1), Fraction(1)
    for n in itertools.count(1):
        term *= Fraction(-x, parts) / n
        low, high = sorted((total, total + term))
        total += term
        yield max(low, Fraction(0)) ** parts, high**parts


def _reference_coin(x: Fraction, prefix: int, bits: int, words: samplers.Words) -> bool:
    """Whether R < e^-x; more bits are taken where the known ones do not decide, and only there."""
    while True:
        for low, high in _fraction_bounds(x):
            if Fraction(prefix + 1, 2**bits) <= low:
                return True
            if Fraction(prefix, 2**bits) >= high:
                return False
            if Fraction(prefix, 2**bits) < low <= high < Fraction(prefix + 1, 2**bits):
                break
        prefix, bits = prefix << 64 | int(words(1)[0]), bits + 64


def _reference(scale: float, count: int, words: samplers.Words) -> list[int]:
    """Canonne, Kamath and Steinke's sampler one candidate after the other, taking words in the same order."""
    sigma = Fraction(scale)
    width = math.floor(sigma) + 1
    samples: list[int] = []
    while len(samples) < count:
        size = int(2.2 * (count - len(samples))) + 64
        first = [int(word) for word in words(size)]
        while rejected := [i for i in range(size) if first[i] >= 2**64 // width * width]:
            for i, word in zip(rejected, words(len(rejected)).tolist(), strict=True):
                first[i] = word
        signs = [divmod(int(word), 2) for word in words(size)]
        strips = []
        for prefix, _ in signs:
            strip = 0
            while _reference_coin(Fraction(strip + 1), prefix, 63, words):
                strip += 1
            strips.append(strip)
        for i, prefix in enumerate(words(size).tolist()):
            inside, negative = first[i] % width, signs[i][1]
            magnitude = inside + strips[i] * width
            laplace = Fraction(inside, width)
            to_gaussian = (magnitude - sigma**2 / width) ** 2 / (2 * sigma**2)
            kept = _reference_coin(laplace + to_gaussian, prefix, 64, words)
            if kept and not (negative and magnitude == 0):
                samples.append(-magnitude if negative else magnitude)
    return samples[:count]


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.75, 65_537.3, 1e12, 2.0**50])
def test_every_sample_is_that_of_the_reference_in_exact_rationals(scale: float) -> None:
    ours, theirs = Stream(9), Stream(9)
    samples = samplers.discrete_gaussian(scale, 150, ours).tolist()
    assert samples == _reference(scale, 150, theirs)
    assert ours.taken == theirs.taken


@pytest.mark.parametrize("scale", [0.3, 65_537.3, 2.0**50])
@pytest.mark.parametrize("law", LAWS)
def test_all_coins_fall_alike_when_none_is_left_to_floats(
    law: str, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_floats = samplers.sample(LAWS[law](scale), 3000, Stream(10))
    monkeypatch.setattr(samplers, "TOLERANCE", 2.0)
    assert by_floats.tolist() == samplers.sample(LAWS[law](scale), 3000, Stream(10)).tolist()


# Where floats do not decide


def _first_bits(exponent: Fraction, bits: int) -> int:
    """⌊2^bits·e^-exponent⌋, by decimals."""
    with localcontext() as context:
        context.prec = 120
        power = (-(Decimal(exponent.numerator) / Decimal(exponent.denominator))).exp()
        return int(power * 2**bits)


kept = samplers._accepted


@pytest.mark.parametrize("scale", [0.3, 2.75, 65_537.3, 2.0**50])
@pytest.mark.parametrize("law", LAWS)
def test_a_coin_on_the_edge_is_decided_by_further_bits(law: str, scale: float) -> None:
    drawn = LAWS[law](scale)
    u = drawn.width // 3
    strip_one = int(0.2 * 2**63) << 1  # e^-2 < 0.2 < e^-1, and a positive sign
    exponent = drawn.exact_exponent(u, 1)
    first, second, third = (_first_bits(exponent, bits) % 2**64 for bits in (64, 128, 192))
    for coin, is_kept in [
        ([first - 2], True),  # within the floats' tolerance, but 64 bits decide
        ([first + 2], False),
        ([first, second - 2], True),
        ([first, second + 2], False),
        ([first, second, third - 2], True),
        ([first, second, third + 2], False),
    ]:
        script = Script([u, strip_one, *coin])
        assert len(kept(drawn, 1, script)) == is_kept
        assert script.is_used_up()


def test_a_candidate_that_is_kept_for_certain_needs_no_further_bits() -> None:
    strip_zero, latest = 2**63, 2**64 - 1  # 0.5 > e^-1; and the uniform number nearest to 1
    script = Script([0, strip_zero, latest])
    assert kept(LaplaceLaw(3.0), 1, script).tolist() == [0]
    assert script.is_used_up()


@pytest.mark.parametrize("number", [1, 2, 17, 42, 43, 44])
def test_a_strip_on_the_edge_is_decided_by_further_bits(number: int) -> None:
    edge, further = divmod(_first_bits(Fraction(number), 63 + 64), 2**64)
    cases = [([edge, further - 2], number), ([edge, further + 2], number - 1)]
    if number < 43:  # beyond, the next whole numbers are edges themselves
        cases += [([edge - 1], number), ([edge + 1], number - 1)]
    for (prefix, *words), strip in cases:
        script = Script(words)
        assert samplers.geometric(np.array([prefix], dtype=np.uint64), script).tolist() == [strip]
        assert script.is_used_up()


def test_strips_begin_where_the_powers_of_e_do() -> None:
    expected = [_first_bits(Fraction(number), 63) for number in range(44, 0, -1)]
    assert samplers._geometric_thresholds().tolist() == expected
    assert expected[0] == 0 < expected[1]


@pytest.mark.parametrize("bits", [1, 63, 64, 200])
@pytest.mark.parametrize("exponent", ["0", "1/1000000007", "1/2", "1", "9/2", "44", "63", "150", "10000000"])
def test_certified_bounds_hold_and_are_close(exponent: str, bits: int) -> None:
    low, high = exponential_bounds(Fraction(exponent), bits)
    exact = _first_bits(Fraction(exponent), bits)
    assert low <= exact
    assert (exact < high) or (exponent == "0" and exact <= high)
    assert high - low <= 2


@pytest.mark.parametrize("scale", [1e-200, 2.0**-40, 0.01, *SCALES])
def test_floats_are_off_by_less_than_half_of_what_is_allowed_for(scale: float) -> None:
    rng = np.random.default_rng(11)
    for law in (GaussianLaw(scale), LaplaceLaw(scale)):
        ends = [0, 1, law.width // 2, law.width - 2, law.width - 1]
        inside = [u for u in ends if 0 <= u < law.width] + rng.integers(law.width, size=60).tolist()
        u, v = (
            np.array(part, dtype=np.int64) for part in zip(*itertools.product(inside, range(7)), strict=True)
        )
        v[-1] = 44
        exponents = law.exponents(u, v)
        estimates = samplers._exponential(exponents)
        for index, estimate in enumerate(estimates.tolist()):
            exact = _first_bits(law.exact_exponent(int(u[index]), int(v[index])), 100) / 2**100
            assert abs(estimate - exact) < 64 * ROUNDOFF  # docs/proofs/discrete-gaussian.md
    assert 2 * 64 * ROUNDOFF < samplers.TOLERANCE


def test_constants_are_rounded_once_and_powers_of_two_not_at_all() -> None:
    with localcontext() as context:
        context.prec = 60
        ln_2 = Decimal(2).ln()
        assert float(ln_2) == samplers._LN_2
        assert float(1 / ln_2) == samplers._LOG2_E
    assert [Fraction(power) for power in samplers._POWERS_OF_HALF.tolist()] == [
        Fraction(1, 2**n) for n in range(64)
    ]


def test_the_float_exponential_alone_is_within_its_bound() -> None:
    rng = np.random.default_rng(12)
    halves = (np.arange(1, 58) - 0.5) * math.log(2)  # where the number of halvings changes
    exponents = np.concatenate(
        [rng.uniform(0, 45, 1500), halves, np.nextafter(halves, 0), [0.0, 1e-300, 39.999999, 40.0, 1e18]]
    )
    for exponent, estimate in zip(exponents, samplers._exponential(exponents), strict=True):
        exact = _first_bits(Fraction(float(exponent)), 100) / 2**100
        assert abs(estimate - exact) < 50 * ROUNDOFF


# Words and ranges


@pytest.mark.parametrize("bound", [1, 3, 2**20, 10**12 + 39, 2**50 + 1, 2**53, 2**63])
def test_words_beyond_the_last_whole_multiple_are_drawn_again(bound: int) -> None:
    multiple = 2**64 // bound * bound
    last = [multiple - 1, multiple, 2**64 - 1, 5] if multiple < 2**64 else [multiple - 1]
    script = Script([*last, 6, multiple - bound] if multiple < 2**64 else last)
    # Of four words the second and third lie beyond; they are replaced by 6 and the last multiple itself.
    numbers = samplers.uniform_below(bound, len(last), script).tolist()
    assert numbers == ([bound - 1, 6 % bound, 0, 5 % bound] if len(last) == 4 else [bound - 1])
    assert script.is_used_up()


def test_uniform_numbers_are_uniform() -> None:
    numbers = samplers.uniform_below(24, 240_000, Stream(13))
    assert stats.chisquare(np.bincount(numbers, minlength=24)).pvalue > 1e-3


def test_zero_comes_once_and_not_as_minus_zero_too() -> None:
    law = GaussianLaw(0.3)
    strip_zero, keeps = 2**63, 0  # 0.5 > e^-1
    positive, negative = strip_zero, strip_zero + 1
    assert kept(law, 1, Script([0, positive, keeps])).tolist() == [0]
    assert kept(law, 1, Script([0, negative, keeps])).tolist() == []


def test_magnitudes_beyond_64_bits_are_neither_cut_off_nor_wrapped() -> None:
    zeros = [0] * 11  # with the first word: 767 zero bits, so R is below e^-531
    words = Script([2**50 - 1, 1, *zeros, 2**63, 0, 0])
    (sample,) = kept(LaplaceLaw(2.0**50), 1, words).tolist()
    strips = math.floor((63 + 64 * 11 + 1) * math.log(2))
    assert sample == -(2**50 - 1 + strips * 2**50)
    assert strips >= samplers._FAR_STRIP


def test_sums_beyond_64_bits_are_held_at_their_ends() -> None:
    top, bottom = 2**63 - 1, -(2**63)
    values = np.array([top, bottom, top, bottom, 0, 5], dtype=np.int64)
    small = np.array([1, -1, bottom, top, bottom, -7], dtype=np.int64)
    expected = [min(max(int(v) + int(n), bottom), top) for v, n in zip(values, small, strict=True)]
    assert samplers.saturating_sum(values, small).tolist() == expected
    assert samplers.saturating_sum(values, small.astype(object)).tolist() == expected
    huge = np.array([2**70, -(2**70), -(2**64), 2**64, 2**63, -3], dtype=object)
    assert samplers.saturating_sum(values, huge).tolist() == [top, bottom, bottom, top, top, 2]


@pytest.mark.draws
def test_the_largest_scale_that_is_authorised_can_be_drawn() -> None:
    measurement, scale = authorise(gaussian_measurement, LARGEST_SCALE, LARGEST_SCALE, 0.5)
    assert scale > LARGEST_SCALE  # widened until the map agrees
    values = np.array([2**62, -(2**62)] * 500)
    noisy = draw_gaussian(VectorisedNoise(), measurement, values, scale)
    assert np.all(np.abs((noisy - values) / scale) < 50)


def test_scales_without_a_law_are_refused() -> None:
    for scale in (0.0, -1.0, math.inf, math.nan, 2.0**51 * 1.001):
        with pytest.raises(ValueError, match="scale"):
            GaussianLaw(scale)


@pytest.mark.parametrize("scale", [1e-300, 2.0**-1074, 2.0**-40])
def test_hardly_any_noise_is_none(scale: float) -> None:
    for law in LAWS.values():
        assert not np.any(samplers.sample(law(scale), 1000, Stream(14)))


def test_no_samples_take_no_words() -> None:
    assert samplers.discrete_gaussian(3.0, 0, Script([])).tolist() == []


def _in_a_child(_: int) -> list[int]:
    return samplers.discrete_gaussian(1e12, 20).tolist()


@pytest.mark.process
def test_forked_processes_do_not_share_their_words() -> None:
    samplers.discrete_gaussian(1e12, 20)  # whatever could be buffered is, before the fork
    with multiprocessing.get_context("fork").Pool(2) as pool:
        children = pool.map(_in_a_child, range(4), chunksize=1)
    draws = [*itertools.chain(*children), *_in_a_child(0)]
    assert len(set(draws)) == len(draws)


def test_two_million_samples_take_little_more_memory_than_they_fill() -> None:
    samplers.discrete_gaussian(70_000.0, 1000, Stream(15))
    tracemalloc.start()
    try:
        samplers.discrete_gaussian(70_000.0, 2_000_000, Stream(15))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * 8 * 2_000_000


# As a setting


def _declared(**privacy: str) -> dict[str, object]:
    columns = {"g": {"values": ["A", "B"]}}
    return {"table": {"name": "t"}, "privacy": {"rho": 5.0, **privacy}, "columns": columns}


@pytest.mark.parametrize(
    ("privacy", "kind"),
    [({}, VectorisedNoise), ({"noise": "vectorised"}, VectorisedNoise), ({"noise": "opendp"}, OpenDPNoise)],
)
def test_the_schema_says_whose_sampler_draws(privacy: dict[str, str], kind: type, tmp_path: Path) -> None:
    frame = pd.DataFrame({"g": ["A", "B"] * 50})
    with dpx.connect(frame, _declared(**privacy), workspace=tmp_path) as session:
        assert type(dataset_of(session).noise) is kind
        answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=2.0)
        assert abs(answer["A"].estimate - 50) < 12 * answer["A"].scale


def test_a_sampler_that_is_none_is_refused_with_its_key() -> None:
    with pytest.raises(dpx.SchemaError, match=r"privacy\.noise"):
        Schema.load(_declared(noise="fast"))


def test_the_sampler_does_not_change_what_a_request_is(tmp_path: Path) -> None:
    frame, sql = pd.DataFrame({"g": ["A", "B"] * 50}), "SELECT g, COUNT(*) FROM t GROUP BY g"
    answers = []
    for kind in ("opendp", "vectorised"):
        with dpx.connect(frame, _declared(noise=kind), workspace=tmp_path) as session:
            answers.append(session.query(sql, rho=2.0))
            assert session.budget.spent == 2.0
    assert [answer.free for answer in answers] == [False, True]
    assert answers[0]["A"].estimate == answers[1]["A"].estimate
