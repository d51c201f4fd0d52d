"""Running figures of each account on a data set: the cost of Gaussian noise, and the last entry's number.

Both can be computed from the entries; they are stored so that no request reads a whole history. A charge for
lost records has no number. Its row serves as its number, and the numbers of every account continue above it,
so that the number of a lost entry is never given again.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from dpxplain.ledger.protocol import EVERYONE
from dpxplain.ledger.tables import ENTRIES, METADATA
from dpxplain.model.charge import Spend, gaussian_units

# One row for each analyst of a data set, and one for the data set as a whole: `EVERYONE`.
ACCOUNTS = sa.Table(
    "accounts",
    METADATA,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("analyst", sa.Text, primary_key=True),
    sa.Column("gaussian_units", sa.BigInteger, nullable=False),
    sa.Column("last_number", sa.BigInteger, nullable=False),
)

_NOTICES = " notices"
"""The account that numbers the public notices; no analyst's name begins with a space."""
_ROWS_AT_ONCE = 500

_OF_ACCOUNT = sa.and_(
    ACCOUNTS.c.dataset == sa.bindparam("of_dataset"), ACCOUNTS.c.analyst == sa.bindparam("of_analyst")
)
_LAST_NUMBER = sa.select(ACCOUNTS.c.last_number).where(_OF_ACCOUNT)
_ADD_TO_ACCOUNT = (
    sa.update(ACCOUNTS)
    .where(_OF_ACCOUNT)
    .values(
        gaussian_units=ACCOUNTS.c.gaussian_units + sa.bindparam("more"),
        last_number=sa.bindparam("number"),
    )
)
_ADD_TO_DATASET = (
    sa.update(ACCOUNTS)
    .where(_OF_ACCOUNT)
    .values(gaussian_units=ACCOUNTS.c.gaussian_units + sa.bindparam("more"))
)
_RAISE_NUMBERS = (
    sa.update(ACCOUNTS)
    .where(ACCOUNTS.c.dataset == sa.bindparam("of_dataset"), ACCOUNTS.c.last_number < sa.bindparam("number"))
    .values(last_number=sa.bindparam("number"))
)
_INSERT = sa.insert(ACCOUNTS)
_READ_ENTRIES = sa.select(
    *(ENTRIES.c[name] for name in ("id", "dataset", "analyst", "number", "charge_units", "spends"))
).order_by(ENTRIES.c.id)

Accounts = dict[tuple[str, str], tuple[int, int]]
"""Units of Gaussian noise and the last number, by data set and analyst."""


def account_of(analyst: str, charge: int) -> str:
    """The account that numbers an entry. Public notices of a changed limit have an account of their own."""
    return _NOTICES if not analyst and not charge else analyst


def count_entry(connection: sa.Connection, dataset: str, analyst: str, charge: int, gaussian: int) -> int:
    """Add an entry to its account and to the data set's; returns its number. Needs the writers' lock."""
    account = account_of(analyst, charge)
    key = {"of_dataset": dataset, "of_analyst": account}
    last = connection.execute(_LAST_NUMBER, key).scalar_one_or_none()
    if last is None:
        last = _base_number(connection, dataset)
        _open_account(connection, dataset, account, last)
    connection.execute(_ADD_TO_ACCOUNT, key | {"more": gaussian, "number": last + 1})
    if gaussian:
        connection.execute(_ADD_TO_DATASET, {"of_dataset": dataset, "of_analyst": EVERYONE, "more": gaussian})
    return int(last) + 1


def raise_numbers(connection: sa.Connection, dataset: str, analyst: str, row: int) -> None:
    """Makes every account number its next entries above `row`, the row of an entry without a number."""
    key = {"of_dataset": dataset, "of_analyst": analyst}
    if connection.execute(_LAST_NUMBER, key).scalar_one_or_none() is None:
        _open_account(connection, dataset, analyst, _base_number(connection, dataset))
    connection.execute(_RAISE_NUMBERS, {"of_dataset": dataset, "number": row})


def fill_accounts(connection: sa.Connection) -> None:
    """Writes the table anew, from the entries."""
    connection.execute(sa.delete(ACCOUNTS))
    rows = [
        {"dataset": dataset, "analyst": analyst, "gaussian_units": units, "last_number": number}
        for (dataset, analyst), (units, number) in _from_entries(connection).items()
    ]
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        connection.execute(_INSERT, rows[start : start + _ROWS_AT_ONCE])


def wrong_accounts(connection: sa.Connection) -> list[str]:
    """One sentence for each account whose totals do not match its entries."""
    stored = {
        (row.dataset, row.analyst): (row.gaussian_units, row.last_number)
        for row in connection.execute(sa.select(ACCOUNTS))
    }
    expected = _from_entries(connection)
    return [
        f"The account totals of {analyst!r} on {dataset!r} were altered: they do not match its entries."
        for dataset, analyst in sorted(stored.keys() | expected.keys(), key=repr)
        if stored.get((dataset, analyst)) != expected.get((dataset, analyst))
    ]


def _base_number(connection: sa.Connection, dataset: str) -> int:
    """The number after which a new account's numbers begin: that of the data set as a whole."""
    key = {"of_dataset": dataset, "of_analyst": EVERYONE}
    base = connection.execute(_LAST_NUMBER, key).scalar_one_or_none()
    if base is None:
        _open_account(connection, dataset, EVERYONE, 0)
    return int(base or 0)


def _open_account(connection: sa.Connection, dataset: str, analyst: str, number: int) -> None:
    row = {"dataset": dataset, "analyst": analyst, "gaussian_units": 0, "last_number": number}
    connection.execute(_INSERT, row)


def _from_entries(connection: sa.Connection) -> Accounts:
    gaussian, numbers, bases = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[str]()
    rows = connection.execute(_READ_ENTRIES, execution_options={"yield_per": _ROWS_AT_ONCE})
    for id, dataset, analyst, number, charge, spends in rows:
        if not isinstance(charge, int):
            continue  # a damaged row, which the audit reports by itself
        account, everyone = (dataset, account_of(analyst, charge)), (dataset, EVERYONE)
        units = _gaussian_units(charge, spends)
        gaussian[account] += units
        gaussian[everyone] += units
        if number is None:
            bases[dataset] = max(bases[dataset], id)
        else:
            numbers[account] = max(numbers[account], number)
    return {key: (units, max(numbers[key], bases[key[0]])) for key, units in gaussian.items()}


@lru_cache(maxsize=1_000)  # most charges repeat an earlier one
def _gaussian_units(charge: int, spends: Any) -> int:
    """The Gaussian part of a stored charge; 0 if its text cannot be read, which the audit reports."""
    try:
        shares = [Spend.from_row(row) for row in json.loads(spends)]
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        shares = []
    return gaussian_units(charge, shares)
