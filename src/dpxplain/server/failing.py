"""Whether an analyst's charged requests fail too often.

A failure after the charge (out of memory, out of time) may depend on the data and has no noise. A few happen;
after some, nothing more is measured for that analyst on that data set until the curator has looked into it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dpxplain.ledger.failing import Failures
from dpxplain.server.config import Limits
from dpxplain.server.pool import Pool
from dpxplain.server.problems import too_many_failures

_SLACK = timedelta(seconds=60)


class FailureCount:
    """Counts entries without a release that are not running."""

    def __init__(self, failures: Failures, pool: Pool, limits: Limits) -> None:
        self._failures = failures
        self._pool = pool
        self._most = limits.failures
        # Of other processes it is only known when a request must have ended.
        self._longest = timedelta(seconds=limits.seconds_per_request + limits.pad_seconds) + _SLACK

    def check(self, dataset: str, analyst: str) -> None:
        now, running, failed = datetime.now(UTC), self._pool.entries, self._pool.failed
        found = [
            one
            for one in self._failures.unreleased(dataset, analyst)
            if one.id in failed or (one.id not in running and now - one.time > self._longest)
        ]
        if len(found) >= self._most:
            raise too_many_failures()
