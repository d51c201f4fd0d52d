"""The health of the server: whether the ledger's transactions succeed, and the readiness probe.

Errors of the ledger are counted. An outage is logged twice, when it begins and when it is over. The probe
says within a short time whether the ledger can be written and the data sets are served. Anybody may call the
probe, so it names no data set. It keeps a result for a second, so that frequent calls cost little.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter as Counts
from collections.abc import Callable

from dpxplain.errors import LEDGER_FAILURES, LedgerUnavailable
from dpxplain.phases.concurrency import TimeLimited
from dpxplain.server.registry import Registry

LOG = logging.getLogger("dpxplain.server")
QUIET_SECONDS = 30.0


class LedgerHealth:
    """Observes the ledger's transactions. After a failed write, only a write can end the outage, because a
    full disk or a locked file can still be read. Small writes may succeed on a full disk, so this outage ends
    only when no write has failed for `QUIET_SECONDS`.
    """

    def __init__(self) -> None:
        self.errors = Counts(dict.fromkeys(LEDGER_FAILURES, 0))
        """By kind, since the process started."""
        self._lock = threading.Lock()
        self._outage_began: float | None = None
        self._errors_before = 0
        self._write_failed = False
        self._full_disk_at: float | None = None

    @property
    def is_up(self) -> bool:
        return self._outage_began is None

    def failed(self, error: LedgerUnavailable, *, writing: bool) -> None:
        with self._lock:
            self.errors[error.kind] += 1
            self._write_failed = writing or (self._write_failed and not self.is_up)
            if error.kind == "disk":
                self._full_disk_at = time.monotonic()
            if self._outage_began is not None:
                return
            self._outage_began = time.monotonic()
            self._errors_before = self.errors.total() - 1
        sentences = f"{error.problem} {error.remedy}"
        LOG.error("ledger outage (%s), requests get 503: %s", error.kind, sentences)

    def succeeded(self, *, writing: bool) -> None:
        if self._outage_began is None:  # nearly always
            return
        with self._lock:
            if self._outage_began is None or (self._write_failed and not writing):
                return
            full_at = self._full_disk_at
            if full_at is not None and time.monotonic() - full_at < QUIET_SECONDS:
                return
            self._full_disk_at = None
            seconds, self._outage_began = time.monotonic() - self._outage_began, None
            errors = self.errors.total() - self._errors_before
        LOG.warning("the ledger is back after %.0f seconds and %d errors", seconds, errors)


SECONDS_PER_CHECK = 2.0
_KEPT_SECONDS = 1.0
OK, PARTLY, FAILED = "ok", "partly", "failed"


class Readiness:
    """Checks what a request needs."""

    def __init__(
        self,
        datasets: Registry,
        write_to_ledger: Callable[[], object],
        keep_anchor: Callable[[], str | None],
    ) -> None:
        self._datasets = datasets
        self._write_to_ledger = write_to_ledger
        self._keep_anchor = keep_anchor
        self._checks = {
            "ledger": TimeLimited(self._check_ledger, "dpxplain-ready-ledger"),
            "datasets": TimeLimited(self._check_datasets, "dpxplain-ready-datasets"),
        }
        self._results: dict[str, str] = {}
        self._valid_until = -float("inf")
        self._lock = threading.Lock()

    def check(self) -> dict[str, str]:
        """The outcome of each check: "ok", "partly" or "failed"."""
        with self._lock:  # a probe that arrives meanwhile gets the same result
            if time.monotonic() >= self._valid_until:
                self._results = {name: _outcome(check) for name, check in self._checks.items()}
                self._valid_until = time.monotonic() + _KEPT_SECONDS
            return dict(self._results)

    def _check_ledger(self) -> str:
        """Also "failed" if the ledger takes no charges: behind its anchor, or the anchor is not writable."""
        self._write_to_ledger()
        return OK if self._keep_anchor() is None else FAILED

    def _check_datasets(self) -> str:
        """Returns "partly" if some requests still succeed: for other data sets, or under old declarations."""
        files = self._datasets.schema_files()
        if not files:  # a new server, whose first data set will be added through it
            return PARTLY
        served = [file.dataset is not None and file.data_problem is None for file in files]
        if all(served) and all(file.problem is None for file in files):
            return OK
        return PARTLY if any(served) else FAILED


def _outcome(check: TimeLimited[str]) -> str:
    try:
        return check(SECONDS_PER_CHECK)
    except Exception:  # a timeout, or an error of the ledger, which LedgerHealth logs and counts
        return FAILED
