"""The ledger as a server tells it: one analyst's budget, history and releases. Charging is the server's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dpxplain.errors import Denied, InternalError
from dpxplain.ledger.protocol import Entry
from dpxplain.model.budget import Budget
from dpxplain.model.charge import Charge, Spend
from dpxplain.remote.http import Wire


class RemoteLedger:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def open_dataset(self, dataset: str, limit: float, delta: float) -> None:
        """The server has opened it."""

    def budget(self, dataset: str) -> Budget:
        told = self._wire.get(self._wire.of_dataset("/budget"))
        expires = told["expires"]
        return Budget(
            limit=told["rho"]["limit"],
            spent=told["rho"]["spent"],
            delta=told["delta"],
            expires=None if expires is None else datetime.fromisoformat(expires),
            shared_remaining=told["shared_remaining"],
        )

    def reserve(self, dataset: str, charge: Charge) -> int:
        raise InternalError("Only the server charges.")

    def release(self, entry: int, payload: str) -> None:
        raise InternalError("Only the server releases.")

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        same = (entry for entry in self.history(dataset) if entry.key == key and entry.state == "released")
        first = next(same, None)
        return None if first is None else self.get(dataset, first.id)

    def get(self, dataset: str, entry: int) -> tuple[Entry, str] | None:
        try:
            told = self._wire.get(self._wire.of_dataset(f"/releases/{entry}"))
        except Denied:
            return None
        return _entry(told["entry"]), told["release"]

    def history(self, dataset: str) -> list[Entry]:
        return [_entry(line) for line in self._wire.get(self._wire.of_dataset("/history"))["entries"]]

    def entry(self, dataset: str, id: int) -> Entry | None:
        return next((entry for entry in self.history(dataset) if entry.id == id), None)

    def latest(self, dataset: str, kind: str) -> Entry | None:
        released = (entry for entry in reversed(self.history(dataset)) if entry.state == "released")
        return next((entry for entry in released if entry.kind == kind), None)

    def preparations(self, dataset: str, subject: str) -> list[Entry]:
        """All released preparations: the server's history does not say which query they belong to."""
        entries = self.history(dataset)
        return [entry for entry in entries if (entry.kind, entry.state) == ("prepare", "released")]

    def close(self) -> None:
        self._wire.close()


def _entry(line: Mapping[str, Any]) -> Entry:
    return Entry(
        id=line["id"],
        time=datetime.fromisoformat(line["time"]),
        kind=line["kind"],
        description=line["description"],
        rho=line["rho"],
        spends=tuple(Spend(spend["event"], spend["rho"], spend["of"]) for spend in line["spends"]),
        state=line["state"],
        key=line["key"],
        analyst=line["analyst"],
        request=line["request"],
    )
