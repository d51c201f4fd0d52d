"""ρ shown as ε: the same bound as OpenDP's, at any size."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest
from opendp import combinators, domains, measurements, metrics
from opendp.mod import enable_features

from dpxplain.privacy.accounting import epsilon


def opendp_epsilon(rho: float, delta: float) -> float:
    """Any ρ-zCDP measurement has the same curve; a Gaussian of scale 1 has ρ = d²/2."""
    enable_features("contrib")
    space = domains.atom_domain(T="i64"), metrics.absolute_distance(T="f64")
    gaussian = combinators.make_zCDP_to_approxDP(measurements.make_gaussian(*space, scale=1.0))
    return float(gaussian.map((2.0 * rho) ** 0.5).epsilon(delta=delta))


def exact_infimum(rho: float, delta: float) -> Decimal:
    """Proposition 12 minimised over α with 60 digits, by thirds."""
    with localcontext(prec=60):
        budget, failure = Decimal(rho), Decimal(delta)

        def at_order(log_excess: Decimal) -> Decimal:
            excess = log_excess.exp()
            order = 1 + excess
            return order * budget - (order * failure).ln() / excess + (excess / order).ln()

        middle = ((1 / failure).ln() / budget).ln() / 2
        low, high = middle - 6, middle + 6
        for _ in range(120):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            if at_order(left) < at_order(right):
                high = right
            else:
                low = left
        return max(Decimal(0), at_order((low + high) / 2))


@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("rho", [1e-9, 1e-4, 0.01, 0.1, 0.5, 1.37, 5.0, 100.0, 10_000.0])
def test_epsilon_is_what_opendp_says(rho: float, delta: float) -> None:
    assert epsilon(rho, delta) == pytest.approx(opendp_epsilon(rho, delta), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-6, 1e-3])
@pytest.mark.parametrize("rho", [1e-12, 1e-9, 1e-4, 0.1, 5.0, 1e4, 1e6])
def test_epsilon_is_never_below_the_exact_infimum_and_hardly_above(rho: float, delta: float) -> None:
    infimum = exact_infimum(rho, delta)
    assert infimum <= Decimal(epsilon(rho, delta)) <= infimum * (1 + Decimal("1e-11"))


@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.5, 0.999])
@pytest.mark.parametrize("rho", [1e-12, 1e-3, 5.0, 1e5, 1e6])
def test_epsilon_of_any_budget_is_a_number_below_the_textbook_bound(rho: float, delta: float) -> None:
    assert 0 <= epsilon(rho, delta) <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
