"""The price of a request in ρ, whether it was asked for in ρ or in ε, and usual prices to choose from."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dpxplain.errors import BadRequest
from dpxplain.model.budget import UNITS_PER_RHO
from dpxplain.model.charge import Spend
from dpxplain.model.hardening import plain, plain_number
from dpxplain.phases.dataset import OpenDataset
from dpxplain.privacy.accounting import epsilon as epsilon_of
from dpxplain.privacy.accounting import rho_for_epsilon
from dpxplain.words.prices import epsilon_at, rho_and_epsilon

NAMES = ("Rough", "Good", "Sharp")
"""The names of three prices around a usual one. The page has the same (page/src/lib/precision.ts)."""
USUAL_QUERY, USUAL_PREPARATION, USUAL_EXPLANATION = 0.1, 0.02, 0.5
USUAL_QUALITY = USUAL_TUNING = 0.02
USUAL_DISCOVERY = 0.1
_FACTOR = 5  # from one price to the next: noise shrinks with the square root of ρ
_SHARE = 10  # the Good price is at most the whole budget divided by this, before rounding


def ladder(usual: float, limit: float) -> tuple[float, float, float]:
    """The prices Rough, Good and Sharp: at most about a fiftieth, a tenth and a half of the budget.

    >>> ladder(0.1, 5.0), ladder(0.1, 0.4)
    ((0.02, 0.1, 0.5), (0.008, 0.04, 0.2))
    """
    good = min(usual, limit / _SHARE) if limit > 0 else usual
    rough, good, sharp = (float(f"{rho:.1g}") for rho in (good / _FACTOR, good, good * _FACTOR))
    return rough, good, sharp


def asked_rho(
    rho: float | None,
    epsilon: float | None,
    dataset: OpenDataset,
    spends_at: Callable[[float], Iterable[Spend]],
) -> float | None:
    """The price in ρ: `rho` as it is, or the largest ρ within `epsilon`; None if neither was given.

    `spends_at` gives the request's spends at a price. If all of them pay for Gaussian noise, ρ comes from the
    exact curve of that noise, otherwise from the conversion that holds for every mechanism. `rho` is checked
    later, when the request is planned.
    """
    if epsilon is None:
        return None if rho is None else plain(rho)
    if rho is not None:
        raise BadRequest("Both rho and epsilon were given.", remedy="Give the price as one of them.")
    target, delta = plain_number(epsilon), dataset.schema.privacy.delta
    if target is None or target <= 0:
        raise BadRequest("epsilon must be a positive number.", remedy="Try epsilon=0.5.")
    price = rho_for_epsilon(target, delta, is_gaussian=True)
    if price is None or not all(spend.is_gaussian for spend in spends_at(price)):
        price = rho_for_epsilon(target, delta, is_gaussian=False)
    if price is None:
        least = 1 / UNITS_PER_RHO
        raise BadRequest(
            "epsilon is too small: the least that can be spent is "
            f"{rho_and_epsilon(least, epsilon_of(least, delta), delta)}.",
            remedy="Try epsilon=0.5.",
        )
    return price


def required_rho(price: float | None, name: str, usual: float, dataset: OpenDataset) -> float:
    """The price; raises if there is none, and names a usual one. `name` is the public method."""
    if price is not None:
        return price
    budget = dataset.ledger.budget(dataset.name)
    _, good, _ = ladder(usual, budget.limit)
    preview = f"preview_{name}(rho={good:g})"
    raise BadRequest(
        f"{name} needs a price, as rho or as epsilon.",
        remedy=f"For example, pass rho={good:g}, which is "
        f"{epsilon_at(epsilon_of(good, budget.delta), budget.delta)}. "
        f"{preview} shows the precision and spends nothing.",
    )
