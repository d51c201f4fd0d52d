"""The data that each version of a data set names, recognised by keyed fingerprints of their content."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import DataChanged, InternalError
from dpxplain.ledger import audit
from dpxplain.ledger.protocol import DataVersion, damage_explained
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import ENTRIES, FILE_STATES, VERSIONS
from dpxplain.model.budget import rho_of_units
from dpxplain.model.charge import DataState
from dpxplain.model.confidential import ContentDigest

_BY_NAME = sa.select(VERSIONS).where(
    VERSIONS.c.dataset == sa.bindparam("dataset"), VERSIONS.c.version == sa.bindparam("version")
)
_ALL_VERSIONS = (
    sa.select(VERSIONS).where(VERSIONS.c.dataset == sa.bindparam("dataset")).order_by(VERSIONS.c.id)
)
_CHARGES = (
    sa.select(ENTRIES.c.version, sa.func.sum(ENTRIES.c.charge_units))
    .where(ENTRIES.c.dataset == sa.bindparam("dataset"), ENTRIES.c.charge_units > 0)
    .group_by(ENTRIES.c.version)
)
_KNOWN_STATE = sa.select(FILE_STATES.c.version).where(
    FILE_STATES.c.version == sa.bindparam("version"), FILE_STATES.c.state == sa.bindparam("state")
)
_ADD_STATE = sa.text(
    "INSERT INTO file_states (version, state) VALUES (:version, :state) ON CONFLICT DO NOTHING"
)


class SQLDataVersions:
    """The protocol `DataVersions` on a ledger's database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, dataset: str, version: str) -> DataVersion | None:
        with self._store.single_read() as connection:
            return _find(connection, dataset, version)

    def list(self, dataset: str) -> list[DataVersion]:
        """All versions, in the order in which they were opened."""
        with self._store.reading() as connection:
            return [_version(row) for row in connection.execute(_ALL_VERSIONS, {"dataset": dataset})]

    def open(self, dataset: str, version: str, digest: ContentDigest, by: str = "") -> DataVersion:
        """The version. Opens it with these data unless it is open already."""
        with self._store.recording() as connection:
            opened = _find(connection, dataset, version)
            return opened or _open(connection, dataset, version, digest, by)

    def charges(self, dataset: str) -> dict[str | None, float]:
        """The ρ charged to each version; the key None is for lost records.

        Reads all entries: for the curator's commands only.
        """
        with self._store.snapshot() as connection:
            rows = connection.execute(_CHARGES, {"dataset": dataset}).all()
        return {version: rho_of_units(int(units)) for version, units in rows}

    def recognises(self, version: DataVersion, state: str) -> bool:
        """Whether files in this state were read in full before and were the version's data."""
        wanted = {"version": version.id, "state": version.keyed_state(state)}
        with self._store.single_read() as connection:
            return connection.execute(_KNOWN_STATE, wanted).first() is not None

    def remember(self, version: DataVersion, state: str) -> None:
        """Stores the state, so that files in this state are recognised as the version's data."""
        if not self.recognises(version, state):
            with self._store.updating() as connection:
                row = {"version": version.id, "state": version.keyed_state(state)}
                connection.execute(_ADD_STATE, row)


def check_or_open(connection: sa.Connection, dataset: str, data: DataState, by: str) -> None:
    """Raises if the data are not those of the charge's version. The first charge of a version opens it.

    The caller's transaction must hold the writers' lock. So if two processes have different data, one opens
    the version and the other is refused.
    """
    version = _find(connection, dataset, data.version)
    if version is not None:
        if data.digest is not None and not version.fits(data.digest):
            raise DataChanged.of(dataset)
        return
    if data.digest is None:
        raise InternalError("The data match a version that was never opened.")
    _open(connection, dataset, data.version, data.digest, by)


def _open(
    connection: sa.Connection, dataset: str, version: str, digest: ContentDigest, by: str
) -> DataVersion:
    secret, time = secrets.token_hex(32), audit.now()
    row = audit.insert(
        connection,
        VERSIONS,
        {
            "dataset": dataset,
            "version": version,
            "time": time,
            "by": by,
            "secret": secret,
            "fingerprint": digest.keyed(secret),
        },
    )
    audit.append_change(connection, by, audit.VERSION_OPENED, dataset, {VERSIONS: row}, time)
    return DataVersion(**row | {"time": datetime.fromisoformat(time)})


def _find(connection: sa.Connection, dataset: str, version: str) -> DataVersion | None:
    row = connection.execute(_BY_NAME, {"dataset": dataset, "version": version}).one_or_none()
    return None if row is None else _version(row)


@damage_explained()
def _version(row: sa.Row[Any]) -> DataVersion:
    return DataVersion(**row._asdict() | {"time": datetime.fromisoformat(row.time)})
