"""The smallest provable ε of (ε, δ)-differential privacy for a charge, and the ρ to charge for an ε.

The ledger counts ρ. ε is shown beside it, and a price asked for in ε is converted to ρ before it is
planned.

The ledger knows which part of ρ paid for Gaussian noise. That part has an exact trade-off curve (Balle and
Wang 2018). The rest is only known to be ρ-zCDP and is converted by Canonne, Kamath and Steinke (2020,
proposition 12). `_joint_curve` combines both: docs/proofs/epsilon.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from dpxplain.model.charge import Budget, rho_of_units

_REACH = 6.0  # in logarithms, to either side of the textbook bound's best α − 1
_PRECISION = 1e-9  # of log(α − 1); ε is flat at its minimum, so its own error is of the order 1e-18
_ROUNDING = 1e-12  # relative, upwards: ε is never shown as less than it is
_LATTICE = 2.0**-29  # relative, on Gaussian ρ: σ²/(σ² − 4) at σ ≥ 2^16 lattice points (proof, section 2)
_LATTICE_RATIO = 2e-14  # in ε and in δ: much more than the two distributions of section 2 differ
_FLOATS = 2.0**-49  # relative to each term of a difference: more than the error of erfc and the products
_CELLS = 64  # cells that bound the rest's curve; more would lower ε by less than 1e-4 of it
_NEGLIGIBLE = 1e-8  # relative to δ: where the rest's δ is below this, one open cell holds all losses
_LEAST_CHANCE = 1e-290  # of a cell; a smaller one may have rounded to 0
_LEAST_CDF = 1e-300  # a smaller Φ has lost digits: it is near the smallest floats
_PLACES = 13 * 9 * 10**5 + 10**5  # number of ρ with six digits, from the ledger's unit to the largest ρ


class Epsilons(NamedTuple):
    """The ε of a budget's amounts."""

    limit: float
    spent: float
    remaining: float


def epsilons(budget: Budget) -> Epsilons:
    """The ε of the spent ρ, by the noise it paid for; that of the limit and the rest, for any noise."""
    return Epsilons(
        limit=epsilon(budget.limit, budget.delta),
        spent=epsilon(budget.spent, budget.delta, budget.gaussian),
        remaining=epsilon(budget.remaining, budget.delta),
    )


@lru_cache(maxsize=256)
def epsilon(rho: float, delta: float, gaussian: float = 0.0) -> float:
    """The ε of (ε, δ)-differential privacy for ρ, where `gaussian` is the part for Gaussian noise.

    >>> 0.4 < epsilon(0.01, 1e-6) < 0.8
    True
    >>> epsilon(0.0, 1e-6)
    0.0
    >>> round(epsilon(0.1, 1e-6), 4), round(epsilon(0.1, 1e-6, 0.05), 4), round(epsilon(0.1, 1e-6, 0.1), 4)
    (2.1419, 2.1112, 1.9945)
    """
    if rho <= 0.0:
        return 0.0
    converted = _converted(rho, delta)
    if gaussian <= 0.0:
        return converted
    rest = 0.0 if gaussian >= rho else rho - gaussian
    mean_square = 2.0 * max(gaussian, rho - rest) * (1.0 + _LATTICE)
    curve = _gaussian_curve(mean_square) if rest == 0.0 else _joint_curve(mean_square, rest, delta)
    smallest = _root(curve, delta * (1.0 - _LATTICE_RATIO), converted)
    return min(converted, smallest * (1.0 + _ROUNDING) + _LATTICE_RATIO)


@lru_cache(maxsize=256)
def rho_for_epsilon(target: float, delta: float, *, is_gaussian: bool) -> float | None:
    """The largest ρ whose ε is at most `target`, rounded down to six digits; None if there is no such ρ.

    `is_gaussian` says that all of ρ will pay for Gaussian noise. A ρ of six digits is a whole number of the
    ledger's units, so exactly this ρ is charged (docs/proofs/epsilon.md, section 5).

    >>> rho_for_epsilon(1.0, 1e-6, is_gaussian=False), rho_for_epsilon(1.0, 1e-6, is_gaussian=True)
    (0.0243559, 0.0280144)
    """

    def keeps_target(place: int) -> bool:
        rho = _six_digits(place)
        return epsilon(rho, delta, rho if is_gaussian else 0.0) <= target

    if not keeps_target(1):
        return None
    low, high = 1, _PLACES + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if keeps_target(middle) else (low, middle)
    return _six_digits(low)


def _six_digits(place: int) -> float:
    """The ρ at this position, from 1, among all whole numbers of ledger units with at most six digits.

    >>> [_six_digits(place) for place in (1, 999_999, 1_000_000, 1_000_001, _PLACES)]
    [1e-12, 9.99999e-07, 1e-06, 1.00001e-06, 1000000.0]
    """
    power, rest = divmod(max(place, 10**5) - 10**5, 9 * 10**5)
    units = place if place < 10**5 else (10**5 + rest) * 10**power
    return rho_of_units(units)


def _converted(rho: float, delta: float) -> float:
    """The ε that ρ-zCDP implies, whatever the mechanism.

    Proposition 12 holds for every order α > 1, so ε is the infimum of `_at_order` over α, and the value at
    any α is an upper bound of it. The result is such a value: a minimiser that stops early or in a local
    minimum makes the bound larger than necessary, never too small.
    """
    middle = 0.5 * math.log(math.log(1.0 / delta) / rho)
    smallest = _minimum(lambda x: _at_order(x, rho, delta), middle - _REACH, middle + _REACH)
    return max(0.0, smallest * (1.0 + _ROUNDING))


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """The smallest value that golden section search finds; the minimum, if there is only one valley."""
    share = (math.sqrt(5.0) - 1.0) / 2.0
    left, right = high - share * (high - low), low + share * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > _PRECISION:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - share * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + share * (high - low)
            at_right = function(right)
    return min(at_left, at_right)


def _at_order(log_excess: float, rho: float, delta: float) -> float:
    """The ε that the Rényi divergence of order α implies, where log_excess = log(α − 1)."""
    excess = math.exp(log_excess)
    order = 1.0 + excess
    # log1p: for a small ρ the best α is so large that the logarithm of (α − 1)/α would lose its digits.
    return order * rho - math.log(order * delta) / excess + math.log1p(-1.0 / order)


Curve = Callable[[float], float]
"""δ as a function of ε: never too small, and decreasing."""


def _root(curve: Curve, delta: float, high: float) -> float:
    """The smallest ε found, at most `high`, at which the curve is at most δ; else `high`.

    Regula falsi on the curve's logarithm (Illinois), because a point of the joint curve takes a millisecond.
    The curve was evaluated at the ε that is returned, and was at most δ there.
    """
    low, target = 0.0, math.log(delta)
    if curve(low) <= delta:
        return low
    at_low, at_high = math.log(curve(low)) - target, _log(curve(high)) - target
    if at_high > 0.0:
        return high
    true_at_high, side = at_high, 0
    for _ in range(80):
        if high - low <= 1e-11 * high or true_at_high > -1e-9:
            break
        share = at_low / (at_low - at_high) if at_high > -math.inf else 0.5
        middle = low + (high - low) * share
        at_middle = _log(curve(middle)) - target
        if at_middle > 0.0:
            low, at_low = middle, at_middle
            at_high, side = at_high / 2.0 if side < 0 else at_high, -1
        else:
            high, at_high, true_at_high = middle, at_middle, at_middle
            at_low, side = at_low / 2.0 if side > 0 else at_low, 1
    return high


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf


def _gaussian_curve(mean_square: float) -> Curve:
    """δ of the Gaussian mechanism whose mean moves by √`mean_square` standard deviations: Balle and Wang."""
    mean = math.sqrt(mean_square)

    def delta(epsilon: float) -> float:
        moved = _cdf(mean / 2.0 - epsilon / mean)
        stayed = _exp_times_cdf(epsilon, -mean / 2.0 - epsilon / mean)
        return max(0.0, moved - stayed) + _FLOATS * moved

    return delta


def _cdf(x: float) -> float:
    """Φ(x). Not `calibration.normal_cdf`, which would import NumPy: a budget should be shown quickly."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _exp_times_cdf(exponent: float, x: float) -> float:
    """e^exponent · Φ(x); a lower bound where e^exponent overflows or Φ(x) loses its digits."""
    chance = _cdf(x)
    if exponent < 700.0 and chance > _LEAST_CDF:
        return math.exp(exponent) * chance
    # Φ(x) ≥ φ(x)·|x|/(1 + x²) for x < 0 (Gordon 1941)
    return math.exp(exponent - x * x / 2.0) * -x / (1.0 + x * x) / math.sqrt(2.0 * math.pi)


def _joint_curve(mean_square: float, rho: float, delta: float) -> Curve:
    """δ of Gaussian noise together with ρ-zCDP (proof, section 3): the Gaussian curve, and a sum over cells.

    In a cell the rest's curve δ(e) is bounded by one Rényi order, a factor of e^(−λe), whose Gaussian
    expectation is a difference of two values of Φ.
    """
    gaussian, mean = _gaussian_curve(mean_square), math.sqrt(mean_square)
    cells = _cells(rho, _converted(rho, _NEGLIGIBLE * delta))

    def joint(epsilon: float) -> float:
        centre = mean_square / 2.0 - epsilon
        terms = [gaussian(epsilon)]
        for cell in cells:
            terms.append(cell.expectation(-centre, mean, cell.order))
            terms.append(cell.expectation(centre, mean, 1.0 + cell.order))
        return math.fsum(terms) * (1.0 + _FLOATS)

    return joint


class _Cell(NamedTuple):
    """Losses between `low` and `high`, where the rest's δ is at most e^(`log_factor` − order·loss)."""

    low: float
    high: float
    order: float
    log_factor: float

    def expectation(self, centre: float, deviation: float, slope: float) -> float:
        """E[e^(log_factor − slope·Y)] over Y in the cell, for a normal Y."""
        tilted = centre - slope * deviation**2
        ends = ((self.low - tilted) / deviation, (self.high - tilted) / deviation)
        chance = _chance(*ends)
        if chance > _LEAST_CHANCE:
            exponent = self.log_factor - slope * centre + (slope * deviation) ** 2 / 2.0
            return math.exp(exponent + math.log(chance)) * (1.0 + 1e-9)
        # The factor may be huge where the chance is tiny: use its largest value in the cell, at most 1.
        plain = _chance((self.low - centre) / deviation, (self.high - centre) / deviation)
        return math.exp(min(0.0, self.log_factor - slope * self.low)) * (plain + _LEAST_CHANCE)


def _chance(low: float, high: float) -> float:
    """P(low < Z < high) of a standard normal Z, rounded up."""
    if low > 0.0:  # in the lower tail, where Φ keeps its digits
        low, high = -high, -low
    at_high = _cdf(high)
    return at_high - _cdf(low) + _FLOATS * at_high


def _cells(rho: float, furthest: float) -> list[_Cell]:
    """Cells that cover all losses from 0 on; the last one is open-ended."""
    width, cells, log_order = furthest / _CELLS, [], -0.5 * math.log(2.0 * rho)
    for at in range(_CELLS + 1):
        low = at * width
        log_order = _best_order(low + width / 2.0, rho, log_order)
        order = math.exp(log_order)
        log_factor = order * _log_ratio(log_order) - math.log1p(order) + order * (order + 1.0) * rho
        cells.append(_Cell(low, low + width if at < _CELLS else math.inf, order, log_factor))
    return cells


def _best_order(loss: float, rho: float, log_order: float) -> float:
    """log λ at which λ^λ/(1+λ)^(1+λ)·e^(λ(λ+1)ρ − λ·loss) is least; any other λ gives a valid bound too."""
    for _ in range(40):
        order = math.exp(log_order)
        slope = _log_ratio(log_order) + (2.0 * order + 1.0) * rho - loss
        change = slope / (1.0 / (1.0 + order) + 2.0 * order * rho)  # Newton, by log λ
        log_order -= max(-1.0, min(1.0, change))
        if abs(change) < 1e-6:
            break
    return max(-700.0, log_order)


def _log_ratio(log_order: float) -> float:
    """log(λ/(1 + λ)), with all digits for small and for large λ."""
    order = math.exp(log_order)
    return log_order - math.log1p(order) if order < 1.0 else math.log1p(-1.0 / (1.0 + order))
