"""Entries and releases that one account may see, each found by an index, however long the history is.

Entries shared by several analysts are read analyst by analyst and merged: one statement for all analysts
would have to read and sort everything that they asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger.protocol import EVERYONE, damage_explained
from dpxplain.ledger.standing import known_limit
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import (
    ENTRIES,
    PUBLIC_NOTICE,
    RELEASES,
    SHARES,
    VERSIONS,
    WITH_SUBJECT,
)
from dpxplain.model.budget import rho_of_units
from dpxplain.model.charge import (
    LARGEST_NUMBER,
    NOTICE_OWNER,
    Entry,
    EntryId,
    HistoryPage,
    Spend,
    read_id,
    written_id,
)

LARGEST_PAGE = 1_000
"""Lines read at once. Meanwhile other requests of this process may wait for the database."""
_NOTICE_KINDS = frozenset({"limit", "top-up", "grant"})
"""Kinds of entries that charge nothing."""
MOST_PREPARATIONS = 200
"""Preparations considered for one query: the most expensive ones, which are the most precise."""

_OF_DATASET = ENTRIES.c.dataset == sa.bindparam("dataset")
_IS_NOTICE = sa.and_(ENTRIES.c.analyst == "", ENTRIES.c.charge_units == 0)
_IS_RELEASED = RELEASES.c.entry.is_not(None).label("released")
_SHARES = (
    sa.select(SHARES.c.owner, SHARES.c.reader, SHARES.c.shared)
    .where(
        SHARES.c.dataset == sa.bindparam("dataset"),
        SHARES.c.reader.in_(sa.bindparam("readers", expanding=True)),
    )
    .order_by(SHARES.c.id)
)


class _Reads(NamedTuple):
    """Statements on one range of the entries: all of a data set, or those of one analyst."""

    by_key: sa.Select[Any]
    page: sa.Select[Any]
    latest: sa.Select[Any]
    preparations: sa.Select[Any]


# Statements are built once: SQLAlchemy takes longer to build one than SQLite to run it.
_ENTRIES = sa.select(ENTRIES, _IS_RELEASED)
_AT_ROW = _ENTRIES.outerjoin(RELEASES).where(_OF_DATASET, ENTRIES.c.id == sa.bindparam("number"))
_WITHOUT_NUMBER = _AT_ROW.where(ENTRIES.c.number.is_(None))
_BY_NUMBER = _ENTRIES.outerjoin(RELEASES).where(
    _OF_DATASET,
    ENTRIES.c.analyst == sa.bindparam("owner"),
    ENTRIES.c.number == sa.bindparam("number"),
    sa.not_(_IS_NOTICE),
)
_NOTICE_BY_NUMBER = _ENTRIES.outerjoin(RELEASES).where(
    _OF_DATASET, _IS_NOTICE, ENTRIES.c.number == sa.bindparam("number")
)
_PAYLOAD = sa.select(RELEASES.c.payload).where(RELEASES.c.entry == sa.bindparam("of_entry"))
_VERSIONS = sa.select(VERSIONS.c.version).where(VERSIONS.c.dataset == sa.bindparam("dataset"))


def _reads(*conditions: sa.ColumnElement[bool]) -> _Reads:
    entries = _ENTRIES.where(_OF_DATASET, *conditions)
    released = entries.join(RELEASES)
    of_kind = sa.select(ENTRIES.c.id).join(RELEASES).where(
        _OF_DATASET, *conditions, ENTRIES.c.kind == sa.bindparam("kind")
    )  # fmt: skip
    # Two index searches, because with OR the databases would read all entries of the kind.
    newest = [
        sa.select(of_kind.where(version).order_by(ENTRIES.c.id.desc()).limit(1).subquery().c.id)
        for version in (ENTRIES.c.version == sa.bindparam("version"), ENTRIES.c.version.is_(None))
    ]
    most_precise = (
        sa.select(ENTRIES.c.id)
        .join(RELEASES)
        .where(_OF_DATASET, *conditions)
        .where(sa.text(WITH_SUBJECT), ENTRIES.c.subject == sa.bindparam("subject"))
        .order_by(ENTRIES.c.charge_units.desc())
        .limit(MOST_PREPARATIONS)
    )
    return _Reads(
        by_key=released.add_columns(RELEASES.c.payload)
        .where(ENTRIES.c.key == sa.bindparam("key"))
        .order_by(ENTRIES.c.id + 0)  # without + 0, both databases might read all entries in order
        .limit(1),
        page=entries.outerjoin(RELEASES)
        .where(ENTRIES.c.id < sa.bindparam("before"))
        .order_by(ENTRIES.c.id.desc())
        .limit(sa.bindparam("limit")),
        latest=_ENTRIES.join(RELEASES)
        .where(ENTRIES.c.id.in_(sa.union_all(*newest)))
        .order_by(ENTRIES.c.id.desc())
        .limit(1),
        preparations=_ENTRIES.join(RELEASES)
        .where(ENTRIES.c.id.in_(sa.select(most_precise.subquery().c.id)))
        .order_by(ENTRIES.c.id),
    )


_ALL = _reads()
_OWNED = _reads(ENTRIES.c.analyst == sa.bindparam("owner"))
_NOTICES = _reads(sa.text(PUBLIC_NOTICE))  # type: ignore[arg-type]


class _Range(NamedTuple):
    """Entries that one statement reads; `owner` is set if they are one analyst's."""

    reads: _Reads
    owner: str | None


class VisibleEntries:
    """What `analyst` sees of a ledger: their own entries and those shared with them, or everything."""

    def __init__(self, store: Store, analyst: str, *, sees_all: bool) -> None:
        self._store = store
        self._analyst = analyst
        self._sees_all = sees_all or not analyst

    def by_key(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        """The earliest release with this key."""
        rows = self._rows(dataset, lambda reads: reads.by_key, key=key)
        row = min(rows, key=_id, default=None)
        return None if row is None else (self._entry(row), row.payload)

    def by_id(self, dataset: str, entry: EntryId) -> tuple[Entry, str | None] | None:
        """The entry with this number, and its release, if there is one."""
        with self._store.reading() as connection:
            row = self._numbered(connection, dataset, entry)
            payload = _payload(connection, row)
        return None if row is None else (self._entry(row), payload)

    def at_row(self, dataset: str, row: int) -> tuple[Entry, str | None] | None:
        """The entry in this row, and its release, if there is one."""
        with self._store.reading() as connection:
            stored = connection.execute(_AT_ROW, {"dataset": dataset, "number": row}).one_or_none()
            stored = self._if_visible(connection, dataset, stored)
            payload = _payload(connection, stored)
        return None if stored is None else (self._entry(stored), payload)

    def _numbered(self, connection: sa.Connection, dataset: str, id: EntryId) -> sa.Row[Any] | None:
        """The row of an entry of the analyst, or of the owner whom the number names.

        A charge for lost records has its row's id in place of a number.
        """
        number, owner = read_id(id) or (0, None)
        wanted = {"dataset": dataset, "number": number, "owner": self._analyst if owner is None else owner}
        by_number = _NOTICE_BY_NUMBER if owner == NOTICE_OWNER else _BY_NUMBER
        for statement in (by_number, _WITHOUT_NUMBER):
            row = connection.execute(statement, wanted).one_or_none()
            if row is not None and (owner is None or by_number is _NOTICE_BY_NUMBER or row.analyst == owner):
                return self._if_visible(connection, dataset, row)
        known_limit(connection, dataset)
        return None

    def _if_visible(
        self, connection: sa.Connection, dataset: str, row: sa.Row[Any] | None
    ) -> sa.Row[Any] | None:
        if row is None or self._sees_all or row.analyst == self._analyst or _is_notice(row):
            return row
        return row if row.analyst in self._owners(connection, dataset) else None

    def latest(self, dataset: str, kind: str, version: str | None) -> Entry | None:
        """The newest released entry of this kind and data version. Notices have no version and count too."""
        rows: list[sa.Row[Any]] = []
        with self._store.reading() as connection:
            wanted = {"dataset": dataset, "kind": kind}
            versions = [version] if version is not None else [*_versions(connection, dataset), ""]
            for reads, owner in self._ranges(connection, dataset, with_notices=kind in _NOTICE_KINDS):
                for of_version in versions:
                    parameters = wanted | {"owner": owner, "version": of_version}
                    rows += connection.execute(reads.latest, parameters).all()
            if not rows:
                known_limit(connection, dataset)
        row = max(rows, key=_id, default=None)
        return None if row is None else self._entry(row)

    def preparations(self, dataset: str, subject: str) -> list[Entry]:
        """Released preparations of the query with this identity, oldest first."""
        rows = self._rows(dataset, lambda reads: reads.preparations, subject=subject)
        return [self._entry(row) for row in sorted(rows, key=_id)]

    def page(self, dataset: str, before: EntryId | None, limit: int) -> HistoryPage:
        """The newest lines before the one with this number, with their running totals."""
        count = max(1, min(limit, LARGEST_PAGE))
        rows: list[sa.Row[Any]] = []
        spent = 0  # in total, up to the newest of these lines
        with self._store.reading() as connection:
            end = LARGEST_NUMBER if before is None else self._row_of(connection, dataset, before)
            wanted = {"dataset": dataset, "before": end, "limit": count + 1}
            for reads, owner in self._ranges(connection, dataset, with_notices=True):
                newest = connection.execute(reads.page, wanted | {"owner": owner}).all()
                rows += newest
                if newest and self._sees_all:
                    spent = newest[0].total_units
                elif newest and reads is _OWNED:
                    spent += newest[0].own_units
            if not rows:
                known_limit(connection, dataset)
        rows = sorted(rows, key=_id, reverse=True)
        page = rows[:count]
        entries = []
        for row in page:
            entries.append(self._entry(row, spent))
            spent -= row.charge_units
        return HistoryPage(entries[::-1], entries[-1].id if len(rows) > count else None)

    def _row_of(self, connection: sa.Connection, dataset: str, before: EntryId) -> int:
        """The row of the entry with this number. Raises BadRequest if the analyst cannot see it."""
        row = self._numbered(connection, dataset, before)
        if row is None:
            raise BadRequest(
                f"The history of {dataset!r} has no line {str(before)[:40]!r}.",
                remedy='To start with the newest lines, leave out "before".',
            )
        return int(row.id)

    def _rows(
        self,
        dataset: str,
        statement: Callable[[_Reads], sa.Select[Any]],
        **wanted: str | int,
    ) -> list[sa.Row[Any]]:
        """The rows that a statement finds in each range."""
        rows: list[sa.Row[Any]] = []
        with self._store.reading() as connection:
            for reads, owner in self._ranges(connection, dataset, with_notices=False):
                parameters = {"dataset": dataset, "owner": owner, **wanted}
                rows += connection.execute(statement(reads), parameters).all()
            if not rows:
                known_limit(connection, dataset)
        return rows

    def _ranges(self, connection: sa.Connection, dataset: str, with_notices: bool) -> Iterator[_Range]:
        if self._sees_all:
            yield _Range(_ALL, None)
            return
        owners = self._owners(connection, dataset)
        for owner in owners:
            yield _Range(_OWNED, owner)
        if with_notices and "" not in owners:
            yield _Range(_NOTICES, None)

    def _owners(self, connection: sa.Connection, dataset: str) -> Sequence[str]:
        """The people whose entries the analyst may see. Only the newest share per (owner, reader) applies."""
        rows = connection.execute(_SHARES, {"dataset": dataset, "readers": [self._analyst, EVERYONE]})
        newest = {(row.owner, row.reader): row.shared for row in rows}
        return sorted({self._analyst} | {owner for (owner, _), shared in newest.items() if shared})

    @damage_explained()
    def _entry(self, row: sa.Row[Any], total_units: int = 0) -> Entry:
        is_own = row.analyst == self._analyst
        id: EntryId = row.id if row.number is None else row.number
        if row.number is not None and (_is_notice(row) or not is_own):
            id = written_id(row.number, NOTICE_OWNER if _is_notice(row) else row.analyst)
        request = None if row.request is None else json.loads(row.request)
        return Entry(
            id=id,
            row=row.id,
            time=datetime.fromisoformat(row.time),
            kind=row.kind,
            description=row.description,
            rho=rho_of_units(row.charge_units),
            spends=tuple(map(Spend.from_row, json.loads(row.spends))),
            state="released" if row.released else "reserved",
            key=row.key,
            analyst=row.analyst,
            request=request if is_own else _with_owner(request, row.analyst),
            version=row.version,
            total_rho=rho_of_units(total_units),
        )


def _with_owner(request: Any, owner: str) -> Any:
    """An analyst's request as other people may repeat it: the number of its answer also names the owner."""
    if isinstance(request, dict) and isinstance(number := request.get("answer"), int):
        return request | {"answer": written_id(number, owner)}
    return request


def _payload(connection: sa.Connection, visible: sa.Row[Any] | None) -> str | None:
    """The release of a visible row. A hidden release is not read, because the time would reveal it."""
    if visible is None:
        return None
    return connection.execute(_PAYLOAD, {"of_entry": visible.id}).scalar_one_or_none()


def _is_notice(row: sa.Row[Any]) -> bool:
    return bool(row.analyst == "" and row.charge_units == 0)


def _versions(connection: sa.Connection, dataset: str) -> Sequence[str]:
    return connection.execute(_VERSIONS, {"dataset": dataset}).scalars().all()


def _id(row: sa.Row[Any]) -> int:
    return int(row.id)
