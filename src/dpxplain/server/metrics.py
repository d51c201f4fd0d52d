"""Metrics for operators, in Prometheus' format. They hold nothing private: no query, analyst's name or value.

They stay readable while the ledger is away: figures from the ledger are then the last known ones.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dpxplain.errors import DPXPlainError
from dpxplain.ledger.ledger import SQLLedger
from dpxplain.model.budget import Budget
from dpxplain.model.charge import Ending
from dpxplain.phases.concurrency import TimeLimited
from dpxplain.server.health import LedgerHealth
from dpxplain.server.job_runner import JobRunner
from dpxplain.server.pool import Pool
from dpxplain.server.registry import Registry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS_FOR_FIGURES = 1.0
_STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


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
            buckets=_STEPS, registry=self._registry,
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
        try:
            figures = self._read_figures(_SECONDS_FOR_FIGURES if self._health.is_up else 0.0)
            self._budgets, self._endings = figures
        except (DPXPlainError, TimeoutError):
            return

    def _current_figures(self) -> tuple[dict[str, Budget], dict[str, Counts[Ending]]]:
        names, failures = [dataset.name for dataset in self._datasets.all], self._ledger.failures
        return {name: self._ledger.budget(name) for name in names}, {
            name: failures.endings(name) for name in names
        }

    def describe(self) -> Iterator[Metric]:
        """Returns nothing. Without this method, Prometheus' registry would call `collect` at start."""
        return iter(())

    def text(self) -> bytes:
        return generate_latest(self._registry)
