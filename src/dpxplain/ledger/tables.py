"""The ledger's tables, the same in SQLite and PostgreSQL.

All but jobs are append-only: a changed limit, allowance or share is a new row and the latest counts, so
nothing can give budget back. Triggers in the database (guards.py) refuse every change of a row, whoever asks.

Times are ISO 8601 texts in UTC and JSON is text: both databases then keep, and the audit log hashes, the
same characters.
"""

from __future__ import annotations

import sqlalchemy as sa

METADATA = sa.MetaData()

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite counts up only what is called INTEGER

# The budget of a data set is what its schema declares plus what the curator added; a row repeats both.
LIMITS = sa.Table(
    "limits",
    METADATA,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("declared_units", sa.BigInteger, nullable=False),
    sa.Column("top_up_units", sa.BigInteger, nullable=False),
    sa.Column("delta", sa.Double, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Index("limits_by_dataset", "dataset", "id"),
)

# What one analyst may spend in all, until when.
GRANTS = sa.Table(
    "grants",
    METADATA,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("analyst", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("limit_units", sa.BigInteger, sa.CheckConstraint("limit_units >= 0"), nullable=False),
    sa.Column("expires", sa.Text),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Index("grants_by_analyst", "dataset", "analyst", "id"),
)

# A line with charge 0 is a notice: a changed limit or allowance, told in the history.
ENTRIES = sa.Table(
    "entries",
    METADATA,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("analyst", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("charge_units", sa.BigInteger, sa.CheckConstraint("charge_units >= 0"), nullable=False),
    # The running totals of the data set and of the analyst, this charge included: as in a bank book, the last
    # line tells what was spent, however long the book.
    sa.Column("total_units", sa.BigInteger, nullable=False),
    sa.Column("own_units", sa.BigInteger, nullable=False),
    sa.Column("spends", sa.Text, nullable=False),  # JSON [[mechanism, rho], ...]: read and written as one
    sa.Column("request", sa.Text),  # JSON
    sa.Column("subject", sa.Text),  # of a preparation: the identity of the query it belongs to
    sa.Index("entries_by_key", "dataset", "key", "id"),
    sa.Index("entries_in_order", "dataset", "id"),
    sa.Index("entries_by_kind", "dataset", "kind", "id"),
    sa.Index("entries_by_subject", "dataset", "kind", "subject"),
    # Finds an analyst's last line, and repeats every amount, so that a damaged digit in either place shows
    # when a file is opened.
    sa.Index("entries_by_analyst", "dataset", "analyst", "id", "charge_units", "total_units", "own_units"),
)

# Apart from the entries, so that releasing is an insert too and history never reads a payload.
RELEASES = sa.Table(
    "releases",
    METADATA,
    sa.Column("entry", sa.ForeignKey(ENTRIES.c.id), primary_key=True, autoincrement=False),
    sa.Column("payload", sa.Text, nullable=False),
)

SHARES = sa.Table(
    "shares",
    METADATA,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("reader", sa.Text, nullable=False),
    sa.Column("shared", sa.Boolean, nullable=False),  # false takes an earlier share back
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Index("shares_by_reader", "dataset", "reader", "id"),
)

TOKENS = sa.Table(
    "tokens",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("secret_hash", sa.Text, nullable=False),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("expires", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("parent", sa.ForeignKey("tokens.id")),  # of a browser session
)

REVOCATIONS = sa.Table(
    "revocations",
    METADATA,
    sa.Column("token", sa.ForeignKey(TOKENS.c.id), primary_key=True),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
)

LOG = sa.Table(
    "log",
    METADATA,
    sa.Column("id", _Id, primary_key=True, autoincrement=False),  # 1, 2, 3, ... without a gap
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("dataset", sa.Text),
    sa.Column("details", sa.Text, nullable=False),  # JSON
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)

# The one table that changes in place: how far work is, which is worth nothing once the work is done.
JOBS = sa.Table(
    "jobs",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("request", sa.Text, nullable=False),  # JSON
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("stage", sa.Text, nullable=False),
    sa.Column("error", sa.Text),  # JSON
    sa.Column("entry", sa.ForeignKey(ENTRIES.c.id)),
    sa.Column("cancel_asked", sa.Boolean, nullable=False),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("heard", sa.Text, nullable=False),
)

STATE = (LIMITS, GRANTS, ENTRIES, RELEASES, SHARES, TOKENS, REVOCATIONS)
"""What the log must account for, row by row."""
APPEND_ONLY = (*STATE, LOG)
