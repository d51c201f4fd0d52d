"""Privacy budgets as exact amounts.

ρ is kept in whole trillionths, so that ten times 0.1 is exactly 1 and a limit can be used to the last digit.
With floats, a rounding error would lead to a refusal or to overspending.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

from dpxplain.errors import BadRequest
from dpxplain.model.display import Displayed

UNITS_PER_RHO = 10**12
LARGEST_RHO = 1_000_000


def check_rho(rho: float, name: str = "rho") -> float:
    """The ρ as a float; raises if it cannot be used.

    >>> check_rho(0.1)
    0.1
    """
    if isinstance(rho, bool) or not isinstance(rho, int | float) or rho != rho:
        raise BadRequest(f"{name} must be a positive number, not {rho!r}.", remedy="Try rho=0.1.")
    if not 1 / UNITS_PER_RHO <= rho <= LARGEST_RHO:  # not shown, because a whole number may have any length
        raise BadRequest(
            f"{name} must be a positive number between {1 / UNITS_PER_RHO:g} and {LARGEST_RHO:,}.",
            remedy="Try rho=0.1.",
        )
    return float(rho)


def spend_units(rho: float) -> int:
    """ρ in units, rounded up: a spend is never recorded as less than it is.

    >>> spend_units(0.1) * 10 == limit_units(1.0)
    True
    """
    return int((Decimal(repr(float(rho))) * UNITS_PER_RHO).to_integral_value(ROUND_CEILING))


def limit_units(rho: float) -> int:
    """ρ in units, rounded down: a limit never allows more than it says."""
    return int((Decimal(repr(float(rho))) * UNITS_PER_RHO).to_integral_value(ROUND_FLOOR))


def rho_of_units(units: int) -> float:
    return units / UNITS_PER_RHO


def apportion(rho: float, shares: Sequence[float]) -> list[float]:
    """ρ divided by shares in whole units, by the method of the largest remainder; together ρ, never more.

    The last part also takes the rest of ρ beyond whole units.

    >>> [round(part * UNITS_PER_RHO) for part in apportion(1e-11, [1 / 3] * 3)]
    [4, 3, 3]
    """
    units, total = limit_units(rho), sum(map(Fraction, shares))
    quotas = [units * Fraction(share) / total for share in shares]
    whole = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(shares)), key=lambda place: whole[place] - quotas[place])
    for place in by_remainder[: units - sum(whole)]:
        whole[place] += 1
    spent = [rho_of_units(part) for part in whole[:-1]]
    return [*spent, remainder(rho, *spent)]


def remainder(rho: float, *spent: float) -> float:
    """What is left of ρ after some parts, rounded so that all together never exceed ρ.

    >>> remainder(0.75, 0.25, 0.25)
    0.25
    >>> Fraction(remainder(0.1, 0.1 / 3)) + Fraction(0.1 / 3) <= Fraction(0.1)
    True
    """
    rest = Fraction(rho) - sum(map(Fraction, spent))
    remaining = float(rest)
    return remaining if Fraction(remaining) <= rest else math.nextafter(remaining, 0.0)


@dataclass(frozen=True)
class Budget(Displayed):
    """The limit and what was spent, at one moment: for a data set, or for one analyst on it.

    >>> Budget(limit=5.0, spent=0.5, delta=1e-6).remaining
    4.5
    >>> Budget(limit=5.0, spent=0.5, delta=1e-6, shared_remaining=0.25).remaining
    0.25
    """

    limit: float
    spent: float
    delta: float
    expires: datetime | None = None
    """The time from which nothing remains; None for never."""
    shared_remaining: float | None = None
    """The remaining ρ of the whole data set, if this budget is one analyst's own."""
    gaussian: float = 0.0
    """The part of `spent` that paid for Gaussian noise, whose ε is known exactly."""
    discovered_delta: float = 0.0
    """The δ that discoveries have spent, or may have spent, in addition to the δ at which ε is shown."""

    @property
    def total_delta(self) -> float:
        """The δ of everything that was asked: the δ at which ε is shown, plus the δ of discoveries.

        >>> Budget(limit=5.0, spent=0.5, delta=1e-6, discovered_delta=1e-6).total_delta
        2e-06
        """
        return self.delta + self.discovered_delta

    @property
    def remaining(self) -> float:
        if self.expires is not None and self.expires <= datetime.now(UTC):
            return 0.0
        own = max(0, limit_units(self.limit) - spend_units(self.spent))
        shared = own if self.shared_remaining is None else limit_units(self.shared_remaining)
        return rho_of_units(min(own, shared))
