"""Whom a data set's budget protects, as the audit log remembers it.

What was spent protects the units that were declared when it was spent. A budget that is partly spent cannot
be turned into the promise of a stronger protection.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from dpxplain.errors import SchemaError
from dpxplain.ledger import audit
from dpxplain.ledger.standing import standing
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import LOG
from dpxplain.model.schema import Privacy

PROMISED = "protection declared"

_LATEST = (
    sa.select(LOG.c.details)
    .where(LOG.c.dataset == sa.bindparam("dataset"), LOG.c.action == PROMISED)
    .order_by(LOG.c.id.desc())
    .limit(1)
)


class Promises:
    """Of one ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, dataset: str, privacy: Privacy, by: str = "") -> None:
        """Write down what is declared, or refuse what the budget spent so far does not cover."""
        now = {"unit": privacy.unit, "max_rows": privacy.max_rows, "neighbours": privacy.neighbours}
        with self._store.reading() as connection:
            text = connection.execute(_LATEST, {"dataset": dataset}).scalar_one_or_none()
            before = None if text is None else audit.parsed(text)
            if before == now:
                return
            if before and not _covers(before, now) and standing(connection, dataset).spent > 0:
                raise SchemaError(
                    "privacy: unit, neighbours and max_rows cannot promise more than before: what was spent "
                    f"of {dataset} protects {_in_words(before)} only.",
                    remedy="Keep them, or declare the data as a new data set with a budget of its own.",
                )
        with self._store.writing() as connection:
            audit.append(connection, by, PROMISED, dataset, now)


def _covers(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether what was spent under one promise is no worse under another.

    Fewer rows of the same units are. Between units, or kinds of neighbours, neither covers the other.
    """
    same = all(now[name] == before[name] for name in ("unit", "neighbours"))
    return same and bool(now["max_rows"] <= before["max_rows"])


def _in_words(promise: dict[str, object]) -> str:
    rows = "" if promise["unit"] == "row" else f" with up to {promise['max_rows']} rows"
    return f"each {promise['unit']}{rows} ({promise['neighbours']})"
