"""For operators: the health of the ledger, the readiness probe, and metrics in Prometheus' format. They hold
nothing private: no query, analyst's name or value.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Counts
from collections.abc import Callable, Iterator
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dpxplain.errors import LEDGER_FAILURES, DPXPlainError, LedgerUnavailable
from dpxplain.ledger.ledger import SQLLedger
from dpxplain.model.charge import Budget, Ending
from dpxplain.phases.concurrency import TimeLimited
from dpxplain.server.pool import JobRunner, Pool
from dpxplain.server.problems import LOG
from dpxplain.server.registry import Registry

# -- Health and readiness ----------------------------------------------------------------------------------
#
# Errors of the ledger are counted. An outage is logged twice, when it begins and when it is over. The probe
# says within a short time whether the ledger can be written and the data sets are served. Anybody may call
# the probe, so it names no data set. It keeps a result for a second, so that frequent calls cost little.

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
            full_disk_at = self._full_disk_at
            if full_disk_at is not None and time.monotonic() - full_disk_at < QUIET_SECONDS:
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
                self._results = {name: _check_outcome(check) for name, check in self._checks.items()}
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


def _check_outcome(check: TimeLimited[str]) -> str:
    try:
        return check(SECONDS_PER_CHECK)
    except Exception:  # a timeout, or an error of the ledger, which LedgerHealth logs and counts
        return FAILED


# -- Metrics -----------------------------------------------------------------------------------------------
#
# They stay readable while the ledger is away: figures from the ledger are then the last known ones.

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS_FOR_FIGURES = 1.0
_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one server, in their own registry, because several servers can run in one process."""

    def __init__(
        self, jobs: JobRunner, pool: Pool, datasets: Registry, ledger: SQLLedger, health: LedgerHealth
    ) -> None:
        self._jobs, self._pool, self._datasets = jobs, pool, datasets
        self._ledger, self._health = ledger, health
        self._budgets: dict[str, Budget] = {}  # the last known, by data set
        self._endings: dict[str, Counts[Ending]] = {}  # likewise
        self._read_figures = TimeLimited(self._current_figures, "dpxplain-metrics")
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "dpxplain_requests", "Requests by route and status.", ["method", "route", "status"],
            registry=self._registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "dpxplain_request_seconds", "Time to the end of the response.", ["method", "route"],
            buckets=_BUCKETS, registry=self._registry,
        )  # fmt: skip
        self.refusals = Counter(
            "dpxplain_refusals", "Requests refused, by status.", ["status"], registry=self._registry
        )
        self.authentication_failures = Counter(
            "dpxplain_authentication_failures", "Refused credentials, and requests without one, by reason.",
            ["reason"], registry=self._registry,
        )  # fmt: skip
        self._registry.register(self)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(method, route).observe(seconds)
        if status in (400, 401, 403, 409, 413, 429, 503):
            self.refusals.labels(str(status)).inc()

    def collect(self) -> Iterator[Metric]:
        """The gauges, read at this moment."""
        jobs = GaugeMetricFamily("dpxplain_jobs", "Jobs in this process.", labels=["state"])
        for state, number in self._jobs.unfinished.items():
            jobs.add_metric([state], number)
        yield jobs
        yield GaugeMetricFamily(
            "dpxplain_pool_inside", "Requests that run or wait in the pool.", self._pool.admitted
        )
        limit = GaugeMetricFamily("dpxplain_rho_limit", "The data set's budget.", labels=["dataset"])
        spent = GaugeMetricFamily(
            "dpxplain_rho_spent", "What everyone has spent on the data set.", labels=["dataset"]
        )
        self._refresh_figures()
        for name, budget in sorted(self._budgets.items()):
            limit.add_metric([name], budget.limit)
            spent.add_metric([name], budget.spent)
        yield limit
        yield spent
        yield from self._ledger_metrics()

    def _ledger_metrics(self) -> Iterator[Metric]:
        up = "Whether the ledger's last transactions worked: 1, or 0 during an outage."
        yield GaugeMetricFamily("dpxplain_ledger_up", up, int(self._health.is_up))
        errors = CounterMetricFamily(
            "dpxplain_ledger_errors", "Failed ledger transactions, by kind.", labels=["kind"]
        )
        for kind, number in self._health.errors.items():
            errors.add_metric([kind], number)
        yield errors
        unreleased = CounterMetricFamily(
            "dpxplain_charges_without_release", "Charges that ended without a release, in all processes.",
            labels=["dataset", "ending"],
        )  # fmt: skip
        for name, endings in sorted(self._endings.items()):
            for ending, number in sorted(endings.items()):
                unreleased.add_metric([name, str(ending)], number)
        yield unreleased

    def _refresh_figures(self) -> None:
        """Reads the ledger's figures, or keeps the last known ones if that takes long: it may hang."""
        with suppress(DPXPlainError, TimeoutError):
            seconds = _SECONDS_FOR_FIGURES if self._health.is_up else 0.0
            self._budgets, self._endings = self._read_figures(seconds)

    def _current_figures(self) -> tuple[dict[str, Budget], dict[str, Counts[Ending]]]:
        names = [dataset.name for dataset in self._datasets.all]
        budgets = {name: self._ledger.budget(name) for name in names}
        return budgets, {name: self._ledger.failures.endings(name) for name in names}

    def describe(self) -> Iterator[Metric]:
        """Returns nothing. Without this method, Prometheus' registry would call `collect` at start."""
        return iter(())

    def text(self) -> bytes:
        return generate_latest(self._registry)
