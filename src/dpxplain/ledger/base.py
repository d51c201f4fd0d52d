"""What every ledger promises: charges that only add up, and releases that are never lost.

A request is reserved before data is read and released once its answer is drawn. The charge counts from the
reservation on, so a crash between the two wastes budget at worst and never overspends it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from dpxplain.errors import BadRequest, BudgetExhausted, InternalError
from dpxplain.model.budget import UNITS_PER_RHO, Budget, Spend, check_rho, spend_units


@dataclass(frozen=True)
class Entry:
    """One line of a data set's history. Everything in it is public."""

    id: int
    time: datetime
    """When it was reserved, in UTC."""
    kind: str
    """"query", "explain", or "limit" for a changed limit, which costs nothing."""
    description: str
    rho: float
    spends: tuple[Spend, ...]
    state: str
    """"reserved": running or interrupted, charged all the same; "released": the answer is stored."""
    key: str
    """Identity of the request: an equal key means the stored release answers it."""


class Ledger(Protocol):
    """Budgets and releases of data sets, safe to share between threads and processes."""

    def open_dataset(self, dataset: str, limit: float, delta: float) -> None:
        """Register the data set, or record a changed limit as an entry of kind "limit"."""

    def budget(self, dataset: str) -> Budget:
        """The budget at this moment."""
        ...

    def reserve(
        self, dataset: str, kind: str, key: str, description: str, rho: float, spends: Sequence[Spend]
    ) -> int:
        """Charge `rho` for good and return the entry's id, or raise BudgetExhausted and charge nothing.

        `rho` is what is charged; `spends` says which mechanisms share it, and may not add up to more.
        """
        ...

    def release(self, entry: int, payload: str) -> None:
        """Store the released JSON text, once, with its entry."""

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        """The earliest release of the identical request."""
        ...

    def get(self, dataset: str, entry: int) -> tuple[Entry, str] | None:
        """The release with this id; None if there is none, or the entry was never released."""
        ...

    def history(self, dataset: str) -> list[Entry]:
        """Every entry, oldest first."""
        ...

    def close(self) -> None:
        """Let go of the database; closing twice is harmless."""


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
    """The refusal of a charge; amounts in units.

    >>> print(exhausted("adult", asked=5 * 10**11, left=3 * 10**11, limit=10**12).problem)
    The request asks for rho 0.5, but only 0.3 of the limit of 1 is left for 'adult'.
    """
    smaller = f"Ask for at most rho={rho_text(left)}. " if left else ""
    return BudgetExhausted(
        f"The request asks for rho {rho_text(asked)}, but only {rho_text(left)} of the limit of "
        f"{rho_text(limit)} is left for {dataset!r}.",
        remedy=f"{smaller}Past answers stay readable and free; only the curator can raise the limit.",
    )


def unknown_dataset(dataset: str) -> BadRequest:
    """The refusal of a name the ledger has never opened."""
    return BadRequest(
        f"The ledger knows no data set {dataset!r}.",
        remedy="Check the name, or connect to the data set first.",
    )
