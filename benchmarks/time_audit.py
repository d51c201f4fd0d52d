"""Timing audit: does the time of one request reveal whether one person is in the table?

    python -m benchmarks.time_audit [--seconds 600] [--runs 100] [--report docs/timing.md]

Each request runs on two neighbouring tables in random order, in process and at a server on loopback. A first
round of few runs searches. Requests that stand out are measured again, and only the new runs count.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import httpx
import pyarrow.parquet as pq

import dpxplain as dpx
from benchmarks.auc import Auc
from benchmarks.load_servers import Setting, served
from benchmarks.neighbours import SCHEMA, Probe, issue_probe, probes, table

CONFIDENCE = 0.95
SEARCH_RUNS = 12
MOST_CONFIRMED = 5
NAMES = {True: "included", False: "omitted"}


class Place(Protocol):
    """A place that answers requests on one of the two tables."""

    clock: Callable[[], float]

    def run(self, probe: Probe, number: int) -> Callable[[], object]:
        """Does the work that precedes the request, and returns the request."""
        ...


class LocalPlace:
    """A session in this process, timed by processor time, a sharper clock than an attacker has."""

    clock = staticmethod(time.process_time)

    def __init__(self, session: dpx.Session, name: str) -> None:
        self._session, self._name = session, name
        self._answers: dict[str, Any] = {}

    def run(self, probe: Probe, number: int) -> Callable[[], object]:
        sql, rho = probe.sql(number).format(table=self._name), probe.price(number)
        if probe.kind == "quality":
            return lambda: self._session.quality(rho)
        if probe.kind == "query":
            return lambda: self._session.query(sql, rho)
        if sql not in self._answers:
            self._answers = {sql: self._session.query(sql, 1e-6)}
        answer = self._answers[sql]
        family = dict(probe.family)
        if family.get("predicates") == ["ranges:age"]:  # the text form works only at a server
            family["predicates"] = dpx.ranges("age")
        if probe.kind == "prepare":
            return lambda: answer.prepare(rho, **family)
        question = answer.why(*_groups(probe))
        return lambda: question.explain(probe.k, rho, mechanism=probe.mechanism, **family)


class ServerPlace:
    """A data set at a server, asked over HTTP and timed by wall clock."""

    clock = staticmethod(time.perf_counter)

    def __init__(self, client: httpx.Client, name: str) -> None:
        self._client, self._name = client, name
        self._answers: dict[str, int] = {}

    def run(self, probe: Probe, number: int) -> Callable[[], object]:
        sql, rho = probe.sql(number).format(table=self._name), probe.price(number)
        if probe.kind == "quality":
            return lambda: self._post("quality", {"rho": rho})
        if probe.kind == "query":
            return lambda: self._post("query", {"sql": sql, "rho": rho})
        if sql not in self._answers:
            self._answers = {sql: self._post("query", {"sql": sql, "rho": 1e-6})["id"]}
        body: dict[str, Any] = {"answer": self._answers[sql], "rho": rho, "family": probe.family}
        if probe.kind == "explain":
            first, second = _groups(probe)
            weights = [{"group": [first], "weight": 1}, {"group": [second], "weight": -1}]
            body |= {"weights": weights, "k": probe.k, "mechanism": probe.mechanism}
        return lambda: self._post(f"{probe.kind}?wait=60", body)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = self._client.post(f"api/v1/datasets/{self._name}/{path}", json=body)
        response.raise_for_status()
        result: dict[str, Any] = response.json()
        return result


def _groups(probe: Probe) -> tuple[str, str]:
    """The two groups to compare. The target is in the first."""
    return ("a", "b") if "team" in probe.select else ("v0", "v1")


@dataclass(frozen=True)
class Finding:
    """The seconds of one request's runs on each table."""

    probe: Probe
    seconds: dict[bool, list[float]]

    @property
    def auc(self) -> Auc:
        return Auc.of(self.seconds[True], self.seconds[False])

    @property
    def suspicion(self) -> float:
        """How many standard errors the AUC is away from one half."""
        return abs(self.auc.value - 0.5) / self.auc.error

    def medians(self) -> tuple[float, float]:
        return median(self.seconds[True]), median(self.seconds[False])


def measure(probe: Probe, places: dict[bool, Place], runs: int, first: int, until: float) -> Finding:
    """Times pairs of runs in random order, after one pair that warms up caches. Ends early if time is up."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for number in range(first, first + runs + 1):
        if time.monotonic() > until and len(seconds[True]) >= 3:
            break
        for included in random.sample([True, False], 2):
            request = places[included].run(probe, number)
            clock = places[included].clock
            started = clock()
            request()
            if number > first:
                seconds[included].append(clock() - started)
    return Finding(probe, seconds)


@contextmanager
def local_places() -> Iterator[dict[bool, Place]]:
    with ExitStack() as stack:
        places: dict[bool, Place] = {}
        for included, name in NAMES.items():
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            schema = {"table": {"name": name}, **SCHEMA}
            session = dpx.connect(table(with_target=included), schema, workspace=folder)
            places[included] = LocalPlace(stack.enter_context(session), name)
        yield places


@contextmanager
def server_places() -> Iterator[dict[bool, Place]]:
    """Both tables at one server in the default configuration, except for its limit of requests per minute."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "data").mkdir()
        for included, name in NAMES.items():
            pq.write_table(table(with_target=included), folder / "data" / f"{name}.parquet")
            schema = {"table": {"name": name, "source": f"{name}.parquet"}, **SCHEMA}
            (folder / "data" / f"{name}.toml").write_text(toml(schema), encoding="utf-8")
        setting = Setting(folder, str(folder / "ledger.sqlite"), {"requests_per_minute": 1_000_000})
        token = setting.tokens(["auditor"])["auditor"]
        (process,) = stack.enter_context(served(setting))
        headers = {"Authorization": f"Bearer {token}"}
        client = stack.enter_context(httpx.Client(base_url=process.url, headers=headers, timeout=120))
        yield {included: ServerPlace(client, name) for included, name in NAMES.items()}


def toml(schema: dict[str, Any]) -> str:
    """The schema as TOML. Lists, numbers and texts are written the same way in JSON."""
    lines = []
    for section in ("table", "privacy"):
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in schema[section].items())]
    for name, column in schema["columns"].items():
        lines += [f"[columns.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in column.items())]
    return "\n".join(lines) + "\n"


def search(
    places: dict[bool, Place], candidates: Sequence[Probe], runs: int, seconds: float
) -> tuple[list[Finding], list[Finding]]:
    """The search's findings, and the new runs of the requests that stood out and of the outside audit's."""
    started = time.monotonic()
    half = started + seconds / 2
    searched = [
        measure(probe, places, SEARCH_RUNS, 0, started + seconds / 2 * (n + 1) / len(candidates))
        for n, probe in enumerate(candidates)
        if time.monotonic() < half
    ]
    ordered = sorted(searched, key=lambda finding: -finding.suspicion)
    again = list(dict.fromkeys([issue_probe().name, *(finding.probe.name for finding in ordered)]))
    chosen = [probe for name in again for probe in candidates if probe.name == name][: MOST_CONFIRMED + 1]
    confirmed = []
    for n, probe in enumerate(chosen):
        until = started + seconds / 2 * (1 + (n + 1) / len(chosen))
        confirmed.append(measure(probe, places, runs, 10_000, until))
    return searched, confirmed


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield "| request | runs each | with the person | without | AUC (95% interval) |"
    yield "|---|---:|---:|---:|---|"
    for finding in findings:
        present, absent = (f"{1000 * seconds:.1f} ms" for seconds in finding.medians())
        runs = len(finding.seconds[True])
        yield f"| {finding.probe.name} | {runs} | {present} | {absent} | {finding.auc.text(CONFIDENCE)} |"


def replace_part(report: Path, name: str, tables: str) -> None:
    """Writes the tables between `<!-- name -->` and `<!-- /name -->`, and leaves the other text as it is."""
    before, begin, after = report.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    _, end, after = after.partition(f"<!-- /{name} -->\n")
    if not (begin and end):
        raise SystemExit(f"{report} has no part between <!-- {name} --> and <!-- /{name} -->.")
    report.write_text(f"{before}{begin}\n{tables}\n\n{end}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="for each of process and server")
    parser.add_argument("--runs", type=int, default=100, help="of each table, when measured again")
    parser.add_argument("--where", choices=["process", "server", "both"], default="both")
    parser.add_argument("--only", default="", help="requests whose name contains this text")
    parser.add_argument("--report", type=Path, help="Markdown file whose marked parts get the tables")
    options = parser.parse_args()
    candidates = [probe for probe in probes() if options.only in probe.name] or [issue_probe()]
    for where, opened in (("process", local_places), ("server", server_places)):
        if options.where in (where, "both"):
            with opened() as places:
                searched, confirmed = search(places, candidates, options.runs, options.seconds)
            tables = ["Measured again:", "", *lines(confirmed), ""]
            tables += ["All requests of the search:", "", *lines(searched)]
            print("\n".join(tables), flush=True)
            if options.report:
                replace_part(options.report, where, "\n".join(tables))


if __name__ == "__main__":
    main()
