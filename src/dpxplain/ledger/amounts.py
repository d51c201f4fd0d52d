"""Amounts of ρ as the ledger charges them, and the sentences that refuse a charge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from dpxplain.errors import BadRequest, BudgetExhausted, InternalError
from dpxplain.model.budget import UNITS_PER_RHO, check_rho, spend_units
from dpxplain.model.charge import Spend

_STILL_FREE = "Past answers stay readable and free;"


def charge_units(rho: float, spends: Sequence[Spend]) -> int:
    """The units to charge for a plan whose mechanisms share `rho`.

    The total is rounded once, not share by share: thirds of 0.1 still make 0.1.

    >>> charge_units(0.1, [Spend("gaussian", 0.1 / 3)] * 3)
    100000000000
    """
    check_rho(rho)
    # Written so that a NaN fails the comparisons instead of slipping through them.
    if not all(spend.rho >= 0 for spend in spends):
        raise InternalError("A planned mechanism has a negative or undefined rho.")
    if not math.fsum(spend.rho for spend in spends) <= rho * (1 + 1e-9):
        raise InternalError(f"The planned mechanisms cost more than the rho of {rho!r} that was asked for.")
    return spend_units(rho)


def rho_text(units: int) -> str:
    """Units as an exact decimal, to be shown and typed back.

    >>> rho_text(300_000_000_000), rho_text(5 * UNITS_PER_RHO), rho_text(1)
    ('0.3', '5', '0.000000000001')
    """
    return f"{(Decimal(units) / UNITS_PER_RHO).normalize():f}"


def exhausted(dataset: str, *, asked: int, left: int, limit: int) -> BudgetExhausted:
    """The refusal of a charge that the data set's limit does not cover; amounts in units.

    >>> print(exhausted("adult", asked=5 * 10**11, left=3 * 10**11, limit=10**12).problem)
    The request asks for rho 0.5, but only 0.3 of the limit of 1 is left for 'adult'.
    """
    return BudgetExhausted(
        f"The request asks for rho {rho_text(asked)}, but only {rho_text(left)} of the limit of "
        f"{rho_text(limit)} is left for {dataset!r}.",
        remedy=f"{_at_most(left)}{_STILL_FREE} only the curator can raise the limit.",
    )


def own_exhausted(dataset: str, analyst: str, *, asked: int, left: int, limit: int) -> BudgetExhausted:
    """The refusal of a charge that the analyst's allowance does not cover; amounts in units.

    >>> print(own_exhausted("adult", "ann", asked=5 * 10**11, left=3 * 10**11, limit=10**12).problem)
    The request asks for rho 0.5, but only 0.3 of the allowance of 1 is left for 'ann' on 'adult'.
    """
    if not limit:
        return BudgetExhausted(
            f"{analyst!r} has no allowance on {dataset!r}.", remedy=f"{_STILL_FREE} ask the curator for one."
        )
    return BudgetExhausted(
        f"The request asks for rho {rho_text(asked)}, but only {rho_text(left)} of the allowance of "
        f"{rho_text(limit)} is left for {analyst!r} on {dataset!r}.",
        remedy=f"{_at_most(left)}{_STILL_FREE} ask the curator for more.",
    )


def expired(dataset: str, analyst: str, when: datetime) -> BudgetExhausted:
    """The refusal of a charge after the allowance has ended."""
    return BudgetExhausted(
        f"The allowance of {analyst!r} on {dataset!r} expired on {when:%Y-%m-%d at %H:%M} UTC.",
        remedy=f"{_STILL_FREE} ask the curator to renew it.",
    )


def unknown_dataset(dataset: str) -> BadRequest:
    """The refusal of a name the ledger has never opened."""
    return BadRequest(
        f"The ledger knows no data set {dataset!r}.",
        remedy="Check the name, or connect to the data set first.",
    )


def _at_most(left: int) -> str:
    return f"Ask for at most rho={rho_text(left)}. " if left else ""
