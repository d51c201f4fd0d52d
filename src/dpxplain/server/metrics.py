"""Metrics for operators, in Prometheus' format. Nothing private: no query, analyst's name or value."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from dpxplain.ledger.ledger import SQLLedger
from dpxplain.server.job_runner import JobRunner
from dpxplain.server.pool import Pool
from dpxplain.server.registry import Registry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Each server has its own registry, so that several can live in one process."""

    def __init__(self, jobs: JobRunner, pool: Pool, datasets: Registry, ledger: SQLLedger) -> None:
        self._jobs, self._pool, self._datasets, self._ledger = jobs, pool, datasets, ledger
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
        self._registry.register(self)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(method, route).observe(seconds)
        if status in (400, 401, 403, 409, 413, 429, 503):
            self.refusals.labels(str(status)).inc()

    def collect(self) -> Iterator[Metric]:
        """The gauges, read at this moment."""
        jobs = GaugeMetricFamily("dpxplain_jobs", "Jobs of this process.", labels=["state"])
        for state, number in self._jobs.unfinished.items():
            jobs.add_metric([state], number)
        yield jobs
        yield GaugeMetricFamily(
            "dpxplain_pool_inside", "Requests that run or wait in the pool.", self._pool.admitted
        )
        limit = GaugeMetricFamily("dpxplain_rho_limit", "The data set's budget.", labels=["dataset"])
        spent = GaugeMetricFamily("dpxplain_rho_spent", "Spent of it by everyone.", labels=["dataset"])
        for dataset in self._datasets.all:
            budget = self._ledger.budget(dataset.name)
            limit.add_metric([dataset.name], budget.limit)
            spent.add_metric([dataset.name], budget.spent)
        yield limit
        yield spent

    def describe(self) -> Iterator[Metric]:
        """Nothing: Prometheus' registry would call `collect` for it at start."""
        return iter(())

    def text(self) -> bytes:
        return generate_latest(self._registry)
