"""What each data set's budget protects. Once some budget is spent, the promise cannot become stronger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import SchemaError
from dpxplain.ledger import audit
from dpxplain.ledger.standing import standing
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import LOG
from dpxplain.model.schema import Privacy

_DECLARED = "protection declared"
_LATEST_DECLARATION = (
    sa.select(LOG.c.details)
    .where(LOG.c.dataset == sa.bindparam("dataset"), LOG.c.action == _DECLARED)
    .order_by(LOG.c.id.desc())
    .limit(1)
)


class PrivacyUnits:
    """What each data set's budget protects (rows, persons, ...), as the audit log records it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check_and_record(self, dataset: str, privacy: Privacy, by: str = "") -> None:
        """Records the declaration. Raises if it promises more than the budget already spent can cover."""
        declared = {"unit": privacy.unit, "max_rows": privacy.max_rows, "neighbours": privacy.neighbours}
        with self._store.reading() as connection:  # usually nothing has changed, and no lock is needed
            if _latest(connection, dataset) == declared:
                return
        with self._store.recording() as connection:
            # Read again under the lock: another process may have declared or charged meanwhile.
            before = _latest(connection, dataset)
            if before == declared:
                return
            if before and not _covers(before, declared) and standing(connection, dataset).spent > 0:
                raise SchemaError(
                    "privacy: unit, neighbours and max_rows cannot be changed to promise more. The answers "
                    f"already given on {dataset} protect only {_unit_in_words(before)}.",
                    remedy="Keep them, or declare the data as a new data set with its own budget.",
                )
            audit.append(connection, by, _DECLARED, dataset, declared)


def _latest(connection: sa.Connection, dataset: str) -> Any:
    """The newest declaration; None if there is none."""
    text = connection.execute(_LATEST_DECLARATION, {"dataset": dataset}).scalar_one_or_none()
    return None if text is None else audit.parsed(text)


def _covers(before: Mapping[str, Any], declared: Mapping[str, Any]) -> bool:
    """Whether the budget spent under the declaration `before` also keeps the promise of `declared`.

    It does for the same unit with as many rows or fewer. Different units, or kinds of neighbours, do not
    cover each other.
    """
    is_same_unit = all(declared[name] == before[name] for name in ("unit", "neighbours"))
    return is_same_unit and bool(declared["max_rows"] <= before["max_rows"])


def _unit_in_words(declaration: Mapping[str, Any]) -> str:
    rows = "" if declaration["unit"] == "row" else f" with up to {declaration['max_rows']} rows"
    return f"each {declaration['unit']}{rows} ({declaration['neighbours']})"
