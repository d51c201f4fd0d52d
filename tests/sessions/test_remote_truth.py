"""What a curator at a server sees of the truth is what a curator beside the data sees."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpxplain as dpx
from dpxplain.remote import _with_infinities
from server_fixture import RunningServer, config_of, running_server

COUNT = "SELECT region, COUNT(*) FROM people GROUP BY region"
BOTH = "SELECT region, COUNT(*) AS {}, AVG(pay) AS {} FROM people GROUP BY region"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    limits = {"requests_per_minute": 100_000, "anonymous_per_minute": 100_000}
    with running_server(config_of(tmp_path / "data", limits=limits)) as running:
        yield running


@pytest.fixture
def curator(server: RunningServer) -> Iterator[dpx.Session]:
    token = server.token("carla", "curator")
    with dpx.connect(f"{server.url}people", token=token, curator=True) as session:
        yield session


@pytest.mark.parametrize("sql", [COUNT, BOTH.format("n", "pay")])
def test_the_intervals_have_the_confidence_that_was_asked_for(curator: dpx.Session, sql: str) -> None:
    answer = curator.query(sql, rho=0.5, confidence=0.6)
    released = answer.rows[0] if isinstance(answer, dpx.Answer) else answer.rows[0]["n"]
    row = answer.truth().rows[0]
    assert (row["low"], row["high"]) == released.interval
    assert row["covered"] is (released.interval[0] <= row["true"] <= released.interval[1])


def test_a_part_is_found_whatever_it_was_called_when_it_was_stored(curator: dpx.Session) -> None:
    stored = curator.query(BOTH.format("n", "mean"), rho=0.5)
    again = curator.query(BOTH.format("rows", "pay"), rho=0.5)
    assert (again.free, again.id) == (True, stored.id)
    assert isinstance(stored, dpx.Answers)
    assert isinstance(again, dpx.Answers)
    assert [row["true"] for row in again["rows"].truth().rows] == [1000.0] * 3
    assert [row["true"] for row in again["pay"].truth().rows] == [
        row["true"] for row in stored["mean"].truth().rows
    ]
    ratio = again["AVG(pay) / COUNT(*)"].truth().rows[0]
    assert ratio["true"] == pytest.approx(again["pay"].truth().rows[0]["true"] / 1000)


def test_infinite_ends_arrive_as_what_they_are(curator: dpx.Session) -> None:
    sql = "SELECT region, SUM(pay) / (COUNT(*) - 1000) AS a, COUNT(*) AS n FROM people GROUP BY region"
    answers = curator.query(sql, rho=0.001)
    assert isinstance(answers, dpx.Answers)
    released = answers["a"].rows
    assert any(math.isinf(end) for row in released for end in row.interval)
    for truth in (answers.truth(), answers["a"].truth()):
        rows = [row for row in truth.rows if row.get("aggregate", "a") == "a"]
        assert [(row["low"], row["high"]) for row in rows] == [row.interval for row in released]
        assert "∞" in str(truth)


def test_only_an_unknown_gap_stays_unknown() -> None:
    known = {"gap_without_low": None, "gap_without_high": 2.0, "gap_without_covered": None}
    unknown = known | {"gap_without_high": None}
    row = {"predicate": "p", "influence_low": None, "influence_high": 1.0}
    assert _with_infinities(row | known)["gap_without_low"] == -math.inf
    assert _with_infinities(row | unknown)["gap_without_low"] is None
    assert _with_infinities(row | unknown)["influence_low"] == -math.inf
