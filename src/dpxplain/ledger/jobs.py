"""What server processes that share a ledger know about each other: the progress of long-running work, which
any of them can read and cancel, and how many processes there are.

Jobs are not in the audit log. A job's charge and release are in its entry.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from dpxplain.errors import BadRequest
from dpxplain.ledger import audit
from dpxplain.ledger.protocol import Job, damage_explained
from dpxplain.ledger.store import Store
from dpxplain.ledger.tables import JOBS, PROCESSES

UNFINISHED = ("queued", "running")
STATES = (*UNFINISHED, "done", "failed", "cancelled")
JOB_SILENCE = timedelta(seconds=60)
"""An unfinished job without a heartbeat for this long is lost: its process is gone."""

MOST_ENDED = 200
"""Ended jobs kept for one owner. Limited because a request may be large, and asking again may be free."""
_MOST_LISTED = 1_000_000  # characters of requests in one list


class Jobs:
    """The jobs of one ledger. Their process calls `update` or `heartbeat` well within `JOB_SILENCE`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, id: str, dataset: str, owner: str, kind: str, request: Mapping[str, Any]) -> None:
        """Creates a queued job. The caller chooses an id that cannot be guessed."""
        time = audit.now()
        row = {
            "id": id,
            "dataset": dataset,
            "owner": owner,
            "kind": kind,
            "request": audit.canonical(request),
            "state": "queued",
            "stage": "",
            "cancel_asked": False,
            "created": time,
            "heard": time,
        }
        ended = (JOBS.c.owner == owner, JOBS.c.state.not_in(UNFINISHED))
        newest = sa.select(JOBS.c.id).where(*ended).order_by(JOBS.c.created.desc()).limit(MOST_ENDED)
        with self._store.updating() as connection:
            connection.execute(sa.delete(JOBS).where(*ended, JOBS.c.id.not_in(newest)))
            audit.insert(connection, JOBS, row)

    def update(
        self,
        id: str,
        state: str,
        stage: str,
        error: Mapping[str, Any] | None = None,
        entry: int | None = None,
    ) -> None:
        """Records the job's progress. A finished job stays unchanged."""
        if state not in STATES:
            raise BadRequest(f"There is no state {state!r}.", remedy=f"Use one of {', '.join(STATES)}.")
        values: dict[str, Any] = {"state": state, "stage": stage, "heard": audit.now()}
        if error is not None:
            values["error"] = audit.canonical(error)
        if entry is not None:
            values["entry"] = entry
        audit.check_text(values)
        self._set(id, values)

    def heartbeat(self, id: str) -> bool:
        """Records that the process is alive. Returns whether somebody asked to cancel the job."""
        self._set(id, {"heard": audit.now()})
        return self.get(id).cancel_asked

    def ask_cancel(self, id: str) -> None:
        """Asks the job's process to stop. A charge stays."""
        self._set(id, {"cancel_asked": True})

    @damage_explained()
    def get(self, id: str) -> Job:
        """The job. Raises BadRequest if there is none."""
        with self._store.reading() as connection:
            row = connection.execute(sa.select(JOBS).where(JOBS.c.id == id)).one_or_none()
        if row is None:
            raise BadRequest(f"There is no job {id!r}.", remedy="Check its id.")
        return _job(row)

    @damage_explained()
    def of_owner(self, owner: str, dataset: str, limit: int = 50) -> list[Job]:
        """The owner's newest jobs on a data set; fewer if their requests are long.

        `prune` deletes jobs older than a day.
        """
        own = sa.select(JOBS).where(JOBS.c.owner == owner, JOBS.c.dataset == dataset)
        listed: list[sa.Row[Any]] = []
        characters = 0
        with self._store.reading() as connection:
            for row in connection.execute(own.order_by(JOBS.c.created.desc()).limit(limit)):
                characters += len(row.request)
                if listed and characters > _MOST_LISTED:
                    break
                listed.append(row)
        return [_job(row) for row in listed]

    def prune(self, older: timedelta = timedelta(days=1)) -> None:
        """Deletes jobs whose last heartbeat is older. Their releases are in their entries."""
        before = (datetime.now(UTC) - older).isoformat()
        with self._store.updating() as connection:
            connection.execute(sa.delete(JOBS).where(JOBS.c.heard < before))

    def _set(self, id: str, values: Mapping[str, Any]) -> None:
        unfinished = sa.update(JOBS).where(JOBS.c.id == id, JOBS.c.state.in_(UNFINISHED))
        with self._store.updating() as connection:
            connection.execute(unfinished.values(**values))


def _job(row: sa.Row[Any]) -> Job:
    heard = datetime.fromisoformat(row.heard)
    is_lost = row.state in UNFINISHED and datetime.now(UTC) - heard > JOB_SILENCE
    return Job(
        **row._asdict()
        | {
            "request": json.loads(row.request),
            "state": "lost" if is_lost else row.state,
            "error": None if row.error is None else json.loads(row.error),
            "created": datetime.fromisoformat(row.created),
            "heard": heard,
        }
    )


PROCESS_SILENCE = timedelta(seconds=45)
"""A process without a heartbeat for this long is gone."""


class Processes:
    """The processes of one ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def enter(self) -> str:
        """Registers a new process and returns its id."""
        id = secrets.token_hex(8)
        with self._store.updating() as connection:
            connection.execute(sa.insert(PROCESSES).values(id=id, heard=audit.now()))
        return id

    def count(self, id: str) -> int:
        """Records a heartbeat, deletes processes without a recent one, and returns how many are left."""
        now = datetime.now(UTC)
        earliest, latest = (now - PROCESS_SILENCE).isoformat(), (now + PROCESS_SILENCE).isoformat()
        # Nor does a time far in the future count: after a wrong clock, the process would stay until then.
        is_gone = sa.or_(PROCESSES.c.heard < earliest, PROCESSES.c.heard > latest)
        with self._store.updating() as connection:
            sign_of_life = sa.update(PROCESSES).where(PROCESSES.c.id == id).values(heard=audit.now())
            if connection.execute(sign_of_life).rowcount == 0:  # deleted as gone, as after a long sleep
                connection.execute(sa.insert(PROCESSES).values(id=id, heard=audit.now()))
            connection.execute(sa.delete(PROCESSES).where(is_gone))
            return int(connection.execute(sa.select(sa.func.count()).select_from(PROCESSES)).scalar_one())

    def leave(self, id: str) -> None:
        with self._store.updating() as connection:
            connection.execute(sa.delete(PROCESSES).where(PROCESSES.c.id == id))
