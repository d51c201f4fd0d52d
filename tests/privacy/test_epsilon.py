"""ρ shown as ε, the same bound as OpenDP's at any size, and the ρ that is spent for an ε."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from opendp import combinators, domains, measurements, metrics
from opendp.mod import enable_features

import dpxplain as dpx
from dpxplain.model.charge import (
    LARGEST_FINE_SEARCH,
    LARGEST_RHO,
    Budget,
    Event,
    Spend,
    limit_units,
    spend_units,
)
from dpxplain.privacy import accounting
from dpxplain.privacy.accounting import epsilon, epsilons, rho_for_epsilon
from dpxplain.privacy.calibration import gaussian_scale
from dpxplain.render.views import view_of
from dpxplain.server.records import protection
from dpxplain.wire.shapes import budget_payload
from dpxplain.words import numbers, prices


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


def balle_and_wang(mu: float, epsilon: float) -> Decimal:
    """δ of the Gaussian mechanism in 60 digits, by integrating its density."""
    with localcontext(prec=60):
        return _upper_tail(Decimal(epsilon) / Decimal(mu) - Decimal(mu) / 2) - Decimal(
            epsilon
        ).exp() * _upper_tail(Decimal(epsilon) / Decimal(mu) + Decimal(mu) / 2)


def _upper_tail(x: Decimal) -> Decimal:
    """P(Z > x) by Laplace's continued fraction, for x > 1."""
    fraction = x
    for n in range(4000, 0, -1):
        fraction = x + n / fraction
    return (
        (-x * x / 2).exp()
        / fraction
        / Decimal("2.50662827463100050241576528481104525300698674060993831662992357")
    )


# By google's dp_accounting 0.6.0, whose attrs cannot be installed beside ours:
# PLDAccountant(value_discretization_interval=1e-4).compose(GaussianDpEvent(1/√(2ρ))).get_epsilon(δ)
GAUSSIANS = [
    (0.001, 1e-6, 0.16794370445052928),
    (0.001, 1e-9, 0.23171257094183711),
    (0.1, 1e-6, 1.9945269114332589),
    (0.1, 1e-9, 2.582872860332815),
    (1.0, 1e-6, 7.286080969711125),
    (1.0, 1e-9, 9.092558378688986),
    (10.0, 1e-6, 30.578882324692447),
    (10.0, 1e-9, 36.190259074735195),
]
# The same with k randomised responses of ε₀, which are ε₀²/2-zCDP each: pld.from_gaussian_mechanism(1/√(2ρ))
# .compose(pld.from_randomized_response(2/(1 + e^ε₀), 2).self_compose(k)).get_epsilon_for_delta(1e-6)
WITH_RESPONSES = [
    (0.1, 0.5, 1, 2.4483978053004436),
    (0.475, 0.4472135954999579, 5, 6.456923231368958),
    (0.05, 0.2, 10, 2.8856843367728175),
]


@pytest.mark.parametrize(("rho", "delta", "reference"), GAUSSIANS)
def test_gaussian_noise_has_its_exact_epsilon(rho: float, delta: float, reference: float) -> None:
    assert epsilon(rho, delta, rho) == pytest.approx(reference, rel=1e-6)
    assert epsilon(rho, delta, rho) < 0.97 * epsilon(rho, delta)


@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-6])
@pytest.mark.parametrize("rho", [1e-6, 1e-4, 0.01, 0.5, 5.0, 100.0])
def test_exact_epsilon_is_never_too_small_and_hardly_too_large(rho: float, delta: float) -> None:
    shown, mu = epsilon(rho, delta, rho), math.sqrt(2 * rho)
    assert balle_and_wang(mu, shown) <= Decimal(delta)
    assert balle_and_wang(mu, shown * (1 - 1e-7)) > Decimal(delta)


@pytest.mark.parametrize(("gaussian", "each", "times", "reference"), WITH_RESPONSES)
def test_epsilon_of_both_is_not_below_that_of_mechanisms_with_such_rhos(
    gaussian: float, each: float, times: int, reference: float
) -> None:
    rho = gaussian + times * each**2 / 2
    assert reference <= epsilon(rho, 1e-6, gaussian) < epsilon(rho, 1e-6)


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
@pytest.mark.parametrize("rho", [1e-9, 1e-3, 0.6, 5.0, 1e3, 1e6])
def test_more_gaussian_noise_in_the_same_rho_is_never_less_private(rho: float, delta: float) -> None:
    shown = [epsilon(rho, delta, rho * share) for share in (0.0, 0.1, 0.5, 0.9, 0.999, 1.0)]
    assert shown == sorted(shown, reverse=True)
    assert shown[0] == epsilon(rho, delta)
    assert epsilon(rho, delta, rho * (1 - 1e-9)) == pytest.approx(shown[-1], rel=2e-3)


def test_joint_curve_is_above_the_integral_it_bounds_and_close_to_it() -> None:
    """The theorem's expectation by plain summation, with the best order at each point."""
    mean_square, rest, epsilons = 0.5, 0.1, (2.0, 4.0, 6.0)
    curve = accounting._joint_curve(mean_square, rest, 1e-6)
    for at in epsilons:
        exact = _integral(mean_square, rest, at)
        assert exact <= curve(at) <= exact * 1.01


def _integral(mean_square: float, rest: float, at: float) -> float:
    mean, centre, step = math.sqrt(mean_square), mean_square / 2 - at, 0.002
    orders = np.exp(np.arange(-160, 240) / 40)
    costs = orders * np.log(orders) - (1 + orders) * np.log1p(orders) + orders * (orders + 1) * rest
    x = centre - 8 * mean + (np.arange(int(16 * mean / step)) + 0.5) * step
    of_rest = np.exp(np.min(costs - orders * np.abs(x)[:, None], axis=1))
    density = np.exp(-((x - centre) ** 2) / (2 * mean_square)) / math.sqrt(2 * math.pi * mean_square)
    beyond = float(np.sum(density * step * np.where(x < 0, 1, np.exp(-x)) * of_rest)) * 0.999
    return accounting._gaussian_curve(mean_square)(at) + beyond


def test_discrete_noise_on_the_lattice_is_no_worse_than_the_continuous_one_it_is_counted_as() -> None:
    """The lemma on a coarse lattice, where it can be summed: at σ = 4 its σ² − 4 is a quarter less."""
    scale, shift = 4.0, 3
    weights = {n: math.exp(-(n**2) / (2 * scale**2)) for n in range(-400, 401)}
    total = math.fsum(weights.values())
    mu = shift / math.sqrt(scale**2 - 4)
    for at in (0.01, 0.3, 1.0, 2.0):
        true = math.fsum(
            max(0.0, weights.get(n, 0.0) - math.exp(at) * weights.get(n - shift, 0.0)) / total
            for n in range(-400, 401)
        )
        assert true <= accounting._gaussian_curve(mu**2)(at)


@pytest.mark.parametrize("event", list(Event))
def test_every_event_that_counts_as_gaussian_has_noise_on_a_fine_lattice(event: Event) -> None:
    """Selection and values on whole numbers do not; searches up to the rho where their lattice is fine."""
    assert Spend(event, 0.1).is_gaussian == (event.startswith("gaussian.") and event != Event.VALUES)
    if "search" in event:
        assert gaussian_scale(2.0**20, LARGEST_FINE_SEARCH) >= 2.0**16
        assert not Spend(event, LARGEST_FINE_SEARCH * 1.01).is_gaussian


def test_one_query_shows_its_exact_epsilon_everywhere() -> None:
    session = dpx.example("adult")
    answer = session.query("SELECT sex, AVG(high_income) FROM adult GROUP BY sex", rho=0.1)
    assert answer.rho == session.budget.gaussian == 0.1
    shown = numbers.at_most(epsilon(0.1, session.budget.delta, 0.1))
    assert shown in str(session.budget)
    assert budget_payload(session.budget)["epsilon_text"]["spent"] == shown
    assert epsilons(session.budget).spent == epsilon(0.1, session.budget.delta, 0.1)


@pytest.mark.parametrize("spent", [0.0031, 0.077, 0.4, 1.7, 250.0])
def test_epsilon_is_never_written_as_less_than_it_is(spent: float) -> None:
    budget = Budget(limit=2 * spent, spent=spent, delta=1e-6, gaussian=spent)
    exact, written = epsilons(budget), budget_payload(budget)["epsilon_text"]
    for name, value in exact._asdict().items():
        text = float(written[name].replace(",", ""))  # type: ignore[literal-required]
        assert value <= text <= 1.01 * value
    assert all(text in str(view_of(budget).grid) for text in written.values())
    assert float(protection(spent, 1e-6)["epsilon"].replace(",", "")) >= epsilon(spent, 1e-6)


def test_epsilon_near_700_is_not_below_the_exact_one() -> None:
    """There Φ is near the smallest floats; the exact value was computed with 60 digits."""
    exact = 688.61345269627
    assert exact <= epsilon(404.17219, 5.37e-24, 404.17219) <= exact + 1e-4


def test_the_shown_epsilon_says_what_holds_if_answers_decide_when_to_stop() -> None:
    lines = view_of(Budget(limit=1.0, spent=0.5, delta=1e-6)).lines
    assert prices.EPSILON in lines


targets = st.floats(-3, 4).map(lambda power: 10.0**power)
deltas = st.sampled_from([1e-300, 1e-12, 1e-9, 1e-6, 1e-3, 0.5])


def back(rho: float, delta: float, is_gaussian: bool) -> float:
    return epsilon(rho, delta, rho if is_gaussian else 0.0)


@settings(max_examples=300, deadline=None)
@given(targets, deltas, st.booleans())
@example(1e-3, 1e-300, False)
@example(1e4, 0.5, True)
def test_the_rho_of_an_epsilon_is_the_largest_of_six_digits_that_keeps_within_it(
    target: float, delta: float, is_gaussian: bool
) -> None:
    rho = rho_for_epsilon(target, delta, is_gaussian=is_gaussian)
    assert rho is not None
    step = 10.0 ** max(-12, math.floor(math.log10(rho) + 1e-9) - 5)
    assert back(rho, delta, is_gaussian) <= target < back(rho + step, delta, is_gaussian)
    assert rho == float(f"{rho:.6g}")


@settings(max_examples=300, deadline=None)
@given(targets, deltas, st.booleans())
def test_what_the_ledger_charges_for_an_epsilon_is_its_rho_to_the_last_unit(
    target: float, delta: float, is_gaussian: bool
) -> None:
    rho = rho_for_epsilon(target, delta, is_gaussian=is_gaussian)
    assert rho is not None
    assert spend_units(rho) == limit_units(rho)


@settings(max_examples=300, deadline=None)
@given(targets, st.floats(1.0, 1.001), deltas, st.booleans())
def test_a_larger_epsilon_never_buys_a_smaller_rho(
    target: float, more: float, delta: float, is_gaussian: bool
) -> None:
    smaller, larger = (
        rho_for_epsilon(asked, delta, is_gaussian=is_gaussian) for asked in (target, target * more)
    )
    assert smaller is not None
    assert larger is not None
    assert smaller <= larger


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
@pytest.mark.parametrize("target", [0.01, 0.5, 1.0, 8.0, 100.0])
def test_the_rho_of_an_epsilon_keeps_within_it_by_opendps_map_too(target: float, delta: float) -> None:
    rho = rho_for_epsilon(target, delta, is_gaussian=False)
    assert rho is not None
    assert opendp_epsilon(rho, delta) <= target * (1 + 1e-6)
    assert opendp_epsilon(rho * 1.0001, delta) > target


@pytest.mark.parametrize(("rho", "delta", "reference"), GAUSSIANS)
def test_gaussian_noise_gets_the_rho_of_its_exact_curve(rho: float, delta: float, reference: float) -> None:
    bought, any_noise = (rho_for_epsilon(reference, delta, is_gaussian=kind) for kind in (True, False))
    assert bought == pytest.approx(rho, rel=1e-5)
    assert any_noise is not None
    assert any_noise < 0.97 * rho


def test_an_epsilon_beyond_every_rho_buys_the_largest_and_one_below_every_rho_buys_none() -> None:
    for is_gaussian in (True, False):
        assert rho_for_epsilon(1e300, 1e-6, is_gaussian=is_gaussian) == LARGEST_RHO
        assert rho_for_epsilon(1e-9, 1e-12, is_gaussian=is_gaussian) is None
        assert rho_for_epsilon(5e-324, 1e-300, is_gaussian=is_gaussian) is None
