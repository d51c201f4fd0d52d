"""The ledger's tables, the same in SQLite and PostgreSQL, and the triggers that keep them append-only.

All tables but accounts, unreleased, jobs, flights, processes, file states and sessions are append-only: a
changed limit, allowance or share is a new row, and only the newest applies. Times are ISO 8601 texts in UTC
and JSON is text, so that both databases store the characters that the audit log hashes.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from dpxplain.ledger.protocol import EVERYONE, UNREADABLE
from dpxplain.model.charge import Spend, gaussian_units

# -- Tables ------------------------------------------------------------------------------------------------

METADATA = sa.MetaData()

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite numbers rows only for the type INTEGER

WITH_SUBJECT = "kind = 'prepare' AND subject IS NOT NULL"
"""Preparations, as a condition on entries."""
PUBLIC_NOTICE = "analyst = '' AND charge_units = 0"
"""Changes of a data set's limit, which every analyst sees, as a condition on entries."""


def _row_number() -> sa.Column[Any]:
    return sa.Column("id", _Id, primary_key=True)


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _text_keys(*names: str) -> list[sa.Column[Any]]:
    """The columns of a primary key."""
    return [sa.Column(name, sa.Text, primary_key=True) for name in names]


def _amounts(*names: str) -> list[sa.Column[Any]]:
    """Columns of whole numbers, such as trillionths of ρ."""
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def _partial(name: str, condition: str, *columns: str) -> sa.Index:
    """An index of the rows that meet the condition, which `set_index_conditions` gives to SQLAlchemy."""
    return sa.Index(name, *columns, info={"where": sa.text(condition)})


def matching(table: sa.Table, *columns: str) -> sa.ColumnElement[bool]:
    """The rows in which these columns equal the statement's parameters of the same names.

    Statements with parameters are built once: SQLAlchemy takes longer to build one than SQLite to run it.
    """
    return sa.and_(*(table.c[name] == sa.bindparam(name) for name in columns))


def set_index_conditions(connection: sa.Connection) -> None:
    """Gives SQLAlchemy the conditions for this database only; with both, it would load the code for both."""
    for index in ENTRIES.indexes:
        if "where" in index.info:
            index.dialect_kwargs[f"{connection.dialect.name}_where"] = index.info["where"]


# A data set's budget is the schema's declared limit plus what the curator added; a row repeats both.
LIMITS = sa.Table(
    "limits",
    METADATA,
    _row_number(),
    *_texts("dataset", "time"),
    *_amounts("declared_units", "top_up_units"),
    sa.Column("delta", sa.Double, nullable=False),
    *_texts("reason", "by"),
    sa.Index("limits_by_dataset", "dataset", "id"),
)

# What one analyst may spend in total, and until when.
GRANTS = sa.Table(
    "grants",
    METADATA,
    _row_number(),
    *_texts("dataset", "analyst", "time"),
    sa.Column("limit_units", sa.BigInteger, sa.CheckConstraint("limit_units >= 0"), nullable=False),
    sa.Column("expires", sa.Text),
    *_texts("reason", "by"),
    sa.Index("grants_by_analyst", "dataset", "analyst", "id"),
)

# An entry with charge 0 is a notice: it shows a changed limit or allowance in the history.
ENTRIES = sa.Table(
    "entries",
    METADATA,
    _row_number(),
    *_texts("dataset", "analyst", "time", "kind", "key", "description"),
    sa.Column("charge_units", sa.BigInteger, sa.CheckConstraint("charge_units >= 0"), nullable=False),
    # The running totals of the data set and of the analyst, including this charge. The last entry has the
    # amount spent, however long the history.
    *_amounts("total_units", "own_units"),
    sa.Column("spends", sa.Text, nullable=False),  # JSON [[mechanism, rho], ...]: read and written as one
    sa.Column("request", sa.Text),  # JSON
    sa.Column("subject", sa.Text),  # for a preparation: the identity of its query
    sa.Column("version", sa.Text),  # of the data; NULL in notices and in charges for lost records
    sa.Column("declarations", sa.Text),  # a hash of the schema it was charged under; NULL as above
    sa.Column("number", sa.BigInteger),  # within its account; NULL in charges for lost records
    # Each lookup has an index that leads to its first row, for one analyst and for everybody. So no statement
    # of a request reads the whole history, however long it is (tests/ledger/test_growth.py).
    sa.Index("entries_by_key", "dataset", "key", "analyst", "id"),
    sa.Index("entries_in_order", "dataset", "id"),
    sa.Index("entries_by_kind", "dataset", "kind", "version", "id"),
    sa.Index("entries_by_analyst_and_kind", "dataset", "analyst", "kind", "version", "id"),
    _partial("entries_by_subject", WITH_SUBJECT, "dataset", "subject", "charge_units", "id"),
    _partial(
        *("entries_by_analyst_and_subject", WITH_SUBJECT),
        *("dataset", "subject", "analyst", "charge_units", "id"),
    ),
    _partial("public_notices", PUBLIC_NOTICE, "dataset", "analyst", "charge_units", "id"),
    sa.Index("entries_by_number", "dataset", "analyst", "number"),
    # Finds an analyst's last entry. It also repeats every amount, so that the integrity check at opening
    # notices a damaged digit in either place.
    sa.Index("entries_by_analyst", "dataset", "analyst", "id", "charge_units", "total_units", "own_units"),
)

# Separate from the entries, so that a release is an insert too and the history never reads a payload.
RELEASES = sa.Table(
    "releases",
    METADATA,
    sa.Column("entry", sa.ForeignKey(ENTRIES.c.id), primary_key=True, autoincrement=False),
    *_texts("payload"),
)

# Charges without a release, so that they are found without searching all entries. A row is written with the
# charge and deleted with the release. The table can be filled again from the entries and the releases.
UNRELEASED = sa.Table(
    "unreleased",
    METADATA,
    sa.Column("entry", _Id, primary_key=True, autoincrement=False),
    *_texts("dataset", "analyst"),
    sa.Index("unreleased_by_analyst", "dataset", "analyst", "entry"),
)
MISSING_RELEASES = (
    sa.select(ENTRIES.c.id, ENTRIES.c.dataset, ENTRIES.c.analyst)
    .outerjoin(RELEASES)
    .where(ENTRIES.c.charge_units > 0, RELEASES.c.entry.is_(None))
)
"""The rows that `UNRELEASED` should hold, by a search through all entries."""

SHARES = sa.Table(
    "shares",
    METADATA,
    _row_number(),
    *_texts("dataset", "owner", "reader"),
    sa.Column("shared", sa.Boolean, nullable=False),  # false takes an earlier share back
    *_texts("time", "reason", "by"),
    sa.Index("shares_by_reader", "dataset", "reader", "id"),
)

TOKENS = sa.Table(
    "tokens",
    METADATA,
    *_text_keys("id"),
    *_texts("name", "role", "secret_hash", "created", "expires", "by"),
    sa.Column("parent", sa.ForeignKey("tokens.id")),  # always NULL; every record of a token repeats it
    sa.Column("maker", sa.ForeignKey("tokens.id")),  # the curator's token that made it; NULL: a command
    sa.Index("tokens_by_maker", "maker"),
)

REVOCATIONS = sa.Table(
    "revocations",
    METADATA,
    sa.Column("token", sa.ForeignKey(TOKENS.c.id), primary_key=True),
    *_texts("time", "by"),
)

LOG = sa.Table(
    "log",
    METADATA,
    sa.Column("id", _Id, primary_key=True, autoincrement=False),  # 1, 2, 3, ... without a gap
    *_texts("time", "actor", "action"),
    sa.Column("dataset", sa.Text),
    sa.Column("details", sa.Text, nullable=False),  # JSON
    *_texts("previous", "hash"),
    sa.Index("log_by_action", "dataset", "action", "id"),
)

# The data that a version of a data set names, from its first charge on. The fingerprint is an HMAC of their
# content under the row's own secret, so that nobody without the ledger can test guesses against it.
VERSIONS = sa.Table(
    "versions",
    METADATA,
    _row_number(),
    *_texts("dataset", "version", "time", "by", "secret", "fingerprint"),
    sa.Index("versions_by_name", "dataset", "version", unique=True),
)

# HMACs of path, size and times of files whose content was read in full and fitted the version, so that
# unchanged files are recognised without being read again. A cache: its rows are neither guarded nor in the
# log.
FILE_STATES = sa.Table(
    "file_states",
    METADATA,
    sa.Column("version", sa.ForeignKey(VERSIONS.c.id), primary_key=True),
    *_text_keys("state"),
)

# The people signed in with a browser. Sessions are deleted a day after their end and are not in the log.
SESSIONS = sa.Table(
    "sessions",
    METADATA,
    *_text_keys("id"),
    *_texts("name", "role", "secret_hash", "created", "expires"),
    sa.Column("token", sa.ForeignKey(TOKENS.c.id)),  # NULL: signed in with a token of the OIDC issuer
    sa.Index("sessions_by_holder", "name", "token"),
)

# Charged requests that are being measured; an identical request in another process waits for them.
FLIGHTS = sa.Table(
    "flights",
    METADATA,
    *_text_keys("dataset", "analyst", "key"),
    sa.Column("entry", sa.ForeignKey(ENTRIES.c.id), nullable=False),
    *_texts("heard"),
    sa.Column("process", sa.Text, nullable=False),  # the process that measures it
    sa.Index("flights_by_entry", "entry"),
)

# Running server processes.
PROCESSES = sa.Table("processes", METADATA, *_text_keys("id"), *_texts("heard"))

# The progress of work, updated in place; not needed once the work is done.
JOBS = sa.Table(
    "jobs",
    METADATA,
    *_text_keys("id"),
    *_texts("dataset", "owner", "kind"),
    sa.Column("request", sa.Text, nullable=False),  # JSON
    *_texts("state", "stage"),
    sa.Column("error", sa.Text),  # JSON
    sa.Column("entry", sa.ForeignKey(ENTRIES.c.id)),
    sa.Column("cancel_asked", sa.Boolean, nullable=False),
    *_texts("created", "heard"),
)

STATE = (LIMITS, GRANTS, ENTRIES, RELEASES, SHARES, TOKENS, REVOCATIONS, VERSIONS)
"""Tables of which every row must be in the audit log."""
APPEND_ONLY = (*STATE, LOG)

# The triggers prevent mistakes. The owner of the database can remove them; the audit log then shows what was
# changed.
_EVENTS = ("UPDATE", "DELETE", "INSERT")
_REFUSAL = "the ledger is append-only"

_SQLITE_CHANGE = f"""
CREATE TRIGGER {{table}}_keeps_its_rows_on_{{event}} BEFORE {{event}} ON {{table}}
BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END
"""
# INSERT OR REPLACE deletes conflicting rows without firing the triggers on DELETE. Rows conflict by key and,
# where the key is a text, by row number, which a statement may name too.
_SQLITE_REPLACEMENT = f"""
CREATE TRIGGER {{table}}_keeps_its_rows_on_INSERT BEFORE INSERT ON {{table}}
WHEN EXISTS (SELECT 1 FROM {{table}} WHERE {{key}} = NEW.{{key}} OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END
"""

_POSTGRES_BODY = f" BEGIN RAISE EXCEPTION '{_REFUSAL}' USING ERRCODE = 'integrity_constraint_violation'; END "
_POSTGRES_REFUSAL = f"""
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$${_POSTGRES_BODY}$$
"""
# INSERT ... ON CONFLICT DO UPDATE fires the triggers on UPDATE.
_POSTGRES_GUARD = """
CREATE TRIGGER {table}_keeps_its_rows BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()
"""
# In the catalogue: before (2) delete (8), update (16) and truncate (32), for all columns, without a
# condition, and not disabled.
_POSTGRES_GUARDS = sa.text("""
SELECT relname
FROM pg_catalog.pg_trigger JOIN pg_catalog.pg_proc ON pg_proc.oid = tgfoid
JOIN pg_catalog.pg_class ON pg_class.oid = tgrelid
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = 'dpxplain' AND tgtype = 58 AND tgattr::text = '' AND tgqual IS NULL
AND tgenabled IN ('O', 'A') AND prosrc = :body
""")


def create_refusal(connection: sa.Connection) -> None:
    """Creates the function that PostgreSQL's triggers call."""
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql(_POSTGRES_REFUSAL)


def create_triggers(connection: sa.Connection) -> None:
    """Creates the triggers of all append-only tables."""
    for table in APPEND_ONLY:
        if connection.dialect.name == "sqlite":
            triggers = [_sqlite_trigger(table, event) for event in _EVENTS]
        else:
            triggers = [_POSTGRES_GUARD.format(table=table.name)]
        for trigger in triggers:
            connection.exec_driver_sql(trigger)


def drop_triggers(connection: sa.Connection) -> None:
    """Drops the triggers, for a restore only, in a transaction that creates them again."""
    for table in APPEND_ONLY:
        if connection.dialect.name == "sqlite":
            for event in _EVENTS:
                connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {table.name}_keeps_its_rows_on_{event}")
        else:
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {table.name}_keeps_its_rows ON {table.name}")


def fill_unreleased(connection: sa.Connection) -> None:
    """Fills the empty table from the entries and the releases."""
    connection.execute(sa.insert(UNRELEASED).from_select(["entry", "dataset", "analyst"], MISSING_RELEASES))


def unguarded(connection: sa.Connection) -> list[str]:
    """The names of append-only tables with a missing, altered or disabled trigger."""
    if connection.dialect.name == "sqlite":
        stored = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = {sql.strip() for sql in stored.scalars()}
        return [
            table.name
            for table in APPEND_ONLY
            if not all(_sqlite_trigger(table, event).strip() in triggers for event in _EVENTS)
        ]
    guarded = connection.execute(_POSTGRES_GUARDS, {"body": _POSTGRES_BODY}).scalars().all()
    return [table.name for table in APPEND_ONLY if table.name not in guarded]


def primary_key(table: sa.Table) -> sa.Column[Any]:
    """The column that identifies a row; not for tables whose key has several columns."""
    (column,) = table.primary_key.columns
    return column


def _sqlite_trigger(table: sa.Table, event: str) -> str:
    template = _SQLITE_REPLACEMENT if event == "INSERT" else _SQLITE_CHANGE
    return template.format(table=table.name, event=event, key=primary_key(table).name)


# -- Account totals ----------------------------------------------------------------------------------------
#
# The cost of Gaussian noise and the last entry's number, for each account on a data set.
#
# Both can be computed from the entries; they are stored so that no request reads a whole history. A charge
# for lost records has no number. Its row serves as its number, and the numbers of every account continue
# above it, so that the number of a lost entry is never given again.

# One row for each analyst of a data set, and one for the data set as a whole: `EVERYONE`.
ACCOUNTS = sa.Table(
    "accounts",
    METADATA,
    *_text_keys("dataset", "analyst"),
    *_amounts("gaussian_units", "last_number"),
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


def account_of(analyst: str, charge: int) -> str:
    """The account that numbers an entry. Public notices of a changed limit have an account of their own."""
    return _NOTICES if not analyst and not charge else analyst


def count_entry(connection: sa.Connection, dataset: str, analyst: str, charge: int, gaussian: int) -> int:
    """Adds an entry to its account and to the data set's; returns its number. Needs the writers' lock."""
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


def _from_entries(connection: sa.Connection) -> dict[tuple[str, str], tuple[int, int]]:
    """Units of Gaussian noise and the last number, by data set and analyst."""
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
    except UNREADABLE:
        shares = []
    return gaussian_units(charge, shares)
