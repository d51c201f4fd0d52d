"""Whether the ledger works, as its transactions tell: errors are counted, and an outage is logged twice, when
it begins and when it is over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter

from dpxplain.errors import LEDGER_FAILURES, LedgerUnavailable

LOG = logging.getLogger("dpxplain.server")


class LedgerHealth:
    """Observes the ledger's transactions. Where writing has failed, only writing ends the outage: a full disk
    and a locked file can still be read.
    """

    def __init__(self) -> None:
        self.errors = Counter(dict.fromkeys(LEDGER_FAILURES, 0))
        """By kind, since the process started."""
        self._lock = threading.Lock()
        self._began: float | None = None
        self._errors_before = 0
        self._ended_by_writing = False

    @property
    def is_up(self) -> bool:
        return self._began is None

    def failed(self, error: LedgerUnavailable, *, writing: bool) -> None:
        with self._lock:
            self.errors[error.kind] += 1
            self._ended_by_writing = writing or (self._ended_by_writing and not self.is_up)
            if self._began is not None:
                return
            self._began = time.monotonic()
            self._errors_before = self.errors.total() - 1
        sentences = f"{error.problem} {error.remedy}"
        LOG.error("ledger outage (%s), requests get 503: %s", error.kind, sentences)

    def succeeded(self, *, writing: bool) -> None:
        if self._began is None:  # nearly always
            return
        with self._lock:
            if self._began is None or (self._ended_by_writing and not writing):
                return
            seconds, self._began = time.monotonic() - self._began, None
            errors = self.errors.total() - self._errors_before
        LOG.warning("the ledger is back after %.0f seconds and %d errors", seconds, errors)
