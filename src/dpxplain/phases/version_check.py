"""Checks that the data are those of the declared version before a release is read or a charge is made."""

from __future__ import annotations

import threading

from dpxplain.engines.engine import Recognised, Source
from dpxplain.errors import DataChanged
from dpxplain.ledger.protocol import DataVersion, DataVersions, LedgerView
from dpxplain.model.budget import Budget
from dpxplain.model.charge import DataState, Entry, EntryId, HistoryPage
from dpxplain.model.confidential import ContentDigest


class VersionCheck:
    """Compares the data of one open data set with those that its declared version names in the ledger.

    A version names the data of its first charge, for good. Shared by everybody who works on the data set.
    """

    def __init__(self, versions: DataVersions, dataset: str, version: str, source: Source) -> None:
        self.version = version
        self._versions = versions
        self._dataset = dataset
        self._source = source
        self._opened: DataVersion | None = None  # the version, once the data were recognised as its own
        self._lock = threading.Lock()

    def check(self) -> None:
        """Refuses unless the data are those of the version, both as they were read and as they are now."""
        if not (self._is_own() and not self.is_replaced()):
            raise DataChanged.of(self._dataset)

    def measured_data(self) -> DataState:
        """The state of the data to be measured. The ledger compares it once more when it charges."""
        self.check()
        self._source.check_readable()
        return DataState(self.version, None if self._opened is not None else self._source.digest())

    def is_replaced(self) -> bool:
        """Whether the source now holds other data than were read."""
        return self._source.is_replaced(self._fits)

    def present_state(self) -> str | None:
        """What the source's files are like now; None if they are missing or still being written."""
        return self._source.present_state()

    def _is_own(self) -> bool:
        """Whether the data read are the version's data; also true if the version has none yet."""
        if self._opened is not None:
            return True
        with self._lock:  # a large file is digested once
            version = self._versions.get(self._dataset, self.version)
            if version is None:
                return True
            state = self._source.state()
            if state is None or not self._versions.recognises(version, state):
                digest = self._source.digest()
                if digest is None or not version.fits(digest):
                    return False
                if state is not None:
                    self._versions.remember(version, state)
            self._opened = version
            return True

    def _fits(self, digest: ContentDigest) -> bool:
        """Whether content found later is the content that was read."""
        if self._opened is not None:
            return self._opened.fits(digest)
        return digest == self._source.digest()


def recognised_by(versions: DataVersions, dataset: str, version: str) -> Recognised:
    """Makes a test whether files in a state are known as the version's data and need not be digested."""
    opened = versions.get(dataset, version)
    return lambda state: opened is not None and versions.recognises(opened, state)


class VersionedLedger:
    """A ledger or account whose releases are read only while the data are those of the declared version."""

    def __init__(self, ledger: LedgerView, version_check: VersionCheck) -> None:
        self._ledger = ledger
        self._version_check = version_check

    def budget(self, dataset: str) -> Budget:
        return self._ledger.budget(dataset)

    def history_page(self, dataset: str, before: EntryId | None = None, limit: int = 100) -> HistoryPage:
        return self._ledger.history_page(dataset, before, limit)

    def history(self, dataset: str) -> list[Entry]:
        return self._ledger.history(dataset)

    def discovered(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        return self._ledger.discovered(dataset, key)

    def spent_delta(self, dataset: str, column: str | None = None, *, besides: str = "") -> float:
        return self._ledger.spent_delta(dataset, column, besides=besides)

    def entry(self, dataset: str, id: EntryId) -> Entry | None:
        return self._ledger.entry(dataset, id)

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        """Finds entries of the declared version only, because the version is part of the key."""
        self._version_check.check()
        return self._ledger.find(dataset, key)

    def get(self, dataset: str, entry: EntryId) -> tuple[Entry, str] | None:
        self._version_check.check()
        stored = self._ledger.get(dataset, entry)
        return stored if stored is not None and self._is_of_version(stored[0]) else None

    def latest(self, dataset: str, kind: str, version: str | None = None) -> Entry | None:
        self._version_check.check()
        return self._ledger.latest(dataset, kind, self._version_check.version)

    def preparations(self, dataset: str, subject: str) -> list[Entry]:
        self._version_check.check()
        return [entry for entry in self._ledger.preparations(dataset, subject) if self._is_of_version(entry)]

    def close(self) -> None:
        self._ledger.close()

    def _is_of_version(self, entry: Entry) -> bool:
        """Whether an entry is of the version, or of none, as notices and charges for lost records are."""
        return entry.version in (None, self._version_check.version)
