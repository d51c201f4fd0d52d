"""The race for the top k is exact, also where floats cannot decide."""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpxplain.privacy.mechanisms import samplers
from dpxplain.privacy.mechanisms.samplers import (
    FamilyScores,
    Words,
    _Candidate,
    _compare,
    gumbel_top_k,
    key_bounds,
    system_words,
)

FALSE_ALARM = 1e-7


def _family(*scores: int) -> FamilyScores:
    return FamilyScores(np.arange(len(scores)), np.array(scores, dtype=np.int64), len(scores))


def _scripted(*words: int) -> Words:
    """These words in order, then the system's."""
    left = list(words)

    def draw(count: int) -> np.ndarray:
        taken = [left.pop(0) if left else int(system_words(1)[0]) for _ in range(count)]
        return np.array(taken, dtype=np.uint64)

    return draw


def _exact_key(lead: Fraction, words: tuple[int, ...]) -> Decimal:
    """At the middle of what the words say, with many more digits than they have."""
    with decimal.localcontext(prec=120):
        numerator, bits = 0, 64 * len(words)
        for word in words:
            numerator = numerator << 64 | word
        below_one = 1 - (Decimal(numerator) + Decimal("0.5")) / Decimal(2**bits)
        return Decimal(lead.numerator) / Decimal(lead.denominator) - (-below_one.ln()).ln()


@pytest.mark.parametrize("lead", [0.0, -1e-3, -17.5, -1e6, -1e12])
def test_the_bounds_of_a_key_contain_it(lead: float) -> None:
    random = np.random.default_rng(1)
    near_ends = [0, 1, 2**10 - 1, 2**10, 2**20, 2**63, 2**64 - 2**12 - 1, 2**64 - 2**12, 2**64 - 1]
    drawn = np.array([*near_ends, *random.integers(0, 2**64, 300, dtype=np.uint64).tolist()], dtype=np.uint64)
    low, high = key_bounds(np.full(len(drawn), lead), drawn)
    for index, word in enumerate(drawn.tolist()):
        for further in (0, 2**63, 2**64 - 1):  # anywhere inside the 2^-64 that the word leaves open
            key = _exact_key(Fraction(lead), (word, further))
            assert Decimal(float(low[index])) <= key <= Decimal(float(high[index]))
    assert np.median(high - low) < 2.0**-30 * max(1.0, abs(lead)), "and are narrow"


@pytest.mark.parametrize(("first", "second"), [(5, 900), (900, 5), (2**64 - 1, 0), (2**63, 2**63 + 1)])
def test_equal_first_bits_are_decided_by_further_ones(first: int, second: int) -> None:
    """Of equal scores the lower number is the higher key."""
    one, other = (_Candidate(index, Fraction(-3, 7), 2**40) for index in range(2))
    is_ahead = _compare(one, other, _scripted(first, second)) < 0
    assert is_ahead == (first < second)


def _exactly(family: FamilyScores, k: int, scale: float, words: Words) -> list[int]:
    """The race with no decision left to floats."""
    original = samplers.key_bounds

    def unknown(leads: Any, drawn: Any) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(leads), -np.inf), np.full(len(leads), np.inf)

    samplers.key_bounds = unknown
    try:
        return gumbel_top_k(family, k, scale, words)
    finally:
        samplers.key_bounds = original


@pytest.mark.slow
@pytest.mark.draws
@pytest.mark.parametrize("race", [gumbel_top_k, _exactly], ids=["floats first", "decimals only"])
def test_whole_sequences_have_the_law_of_peeled_exponential_mechanisms(
    race: Callable[..., list[int]],
) -> None:
    scores, scale, runs = (0, 60, -45, 60), 50.0, 3000
    counts = dict.fromkeys(itertools.permutations(range(4), 3), 0)
    for _ in range(runs):
        counts[tuple(race(_family(*scores), 3, scale, system_words))] += 1
    expected = []
    for sequence in counts:
        left, chance = set(range(4)), 1.0
        for index in sequence:
            chance *= math.exp(scores[index] / scale) / sum(math.exp(scores[i] / scale) for i in left)
            left.remove(index)
        expected.append(chance * runs)
    assert stats.chisquare(list(counts.values()), expected).pvalue > FALSE_ALARM


def test_a_candidate_far_behind_can_win_when_its_bits_say_so() -> None:
    """No outcome has probability 0: that would be an endless privacy loss."""
    lowest, highest = 0, 2**64 - 1  # a low number makes a high key
    scripts = [(lowest, highest), (highest, lowest)]
    winners = [gumbel_top_k(_family(0, -2000), 1, 10.0, _scripted(*s, *[0] * 40)) for s in scripts]
    assert winners == [[0], [1]]


def test_idle_predicates_race_like_listed_ones_of_score_zero() -> None:
    listed, sparse = _family(0, 5, 0, 0, -3), FamilyScores(np.array([1, 4]), np.array([5, -3]), 5)
    for start, stop in itertools.combinations(range(6), 2):
        assert sparse.between(start, stop).tolist() == listed.between(start, stop).tolist()
    assert sparse.highest == listed.highest == 5
    assert _family(-2, -3).highest == -2
    assert FamilyScores(np.array([0]), np.array([-2]), 2).highest == 0


@pytest.mark.draws
def test_a_large_family_in_several_pieces_keeps_its_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "_AT_ONCE", 3)
    chosen = [gumbel_top_k(_family(*[0] * 10), 2, 1.0, system_words) for _ in range(3000)]
    counts = np.bincount([index for pair in chosen for index in pair], minlength=10)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    assert all(first != second for first, second in chosen)
