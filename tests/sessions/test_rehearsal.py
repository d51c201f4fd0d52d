"""Whatever fails for a reason that is not in the data fails in a rehearsal, before the charge."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.engines import postgres_engine
from dpxplain.errors import InternalError, LedgerUnavailable, SourceError, SourceLost
from dpxplain.phases.dataset import StoredReleaser
from dpxplain.session import Session
from opened import dataset_of
from postgres_server import PostgresServer

COLUMNS: dict[str, Any] = {
    "city": {"values": ["north", "south"]},
    "job": {"values": ["cook", "smith", "clerk"]},
    "pay": {"bounds": [0, 10], "step": 1},
    "k": {"values": [1, 2, 2**62]},
    "code": {"values": ["7", "12345678901234567890", "1e400"]},
}
ROWS = {
    "city": ["north", "south", "north", "south"] * 25,
    "job": ["cook", "smith", "clerk", "cook"] * 25,
    "pay": [1, 5, 9, 3] * 25,
    "k": [1, 2, 2**62, 1] * 25,
    "code": ["7", "12345678901234567890", "1e400", "7"] * 25,
}
SQL = "SELECT city, AVG(pay) FROM t WHERE pay > {} GROUP BY city"
HARD = {
    "a group by an expression": "SELECT SIGN(pay - 5), COUNT(*) FROM t GROUP BY 1",
    "a sum beyond 64 bits": "SELECT COUNT(k + 1) FROM t",
    "a cast of 2^62": "SELECT COUNT(CAST(k AS BIGINT)) FROM t",
    "a cast of 20 digits": "SELECT COUNT(CAST(code AS DOUBLE)) FROM t",
    "a cast of 1e400": "SELECT COUNT(CAST(code AS BIGINT)) FROM t",
}


def declared(**table: Any) -> dict[str, Any]:
    return {"table": {"name": "t", **table}, "privacy": {"rho": 100.0}, "columns": COLUMNS}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with dpx.connect(pa.table(ROWS), schema=declared(), workspace=tmp_path) as session:
        yield session


@pytest.fixture
def database(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[psycopg.Connection[Any]]:
    monkeypatch.setenv("PGPASSWORD", postgres_server.password)
    with psycopg.connect(postgres_server.address(), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (city text, job text, pay int, k int8, code text)")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO t VALUES (%s, %s, %s, %s, %s)", list(zip(*ROWS.values(), strict=True))
            )
        connection.execute("CREATE ROLE analyst_reader LOGIN")
        connection.execute(f"ALTER ROLE analyst_reader PASSWORD '{postgres_server.password}'")
        connection.execute("GRANT SELECT ON t TO analyst_reader")
        yield connection
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; DROP ROLE analyst_reader")
        connection.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")


@pytest.fixture
def live(
    database: psycopg.Connection[Any], postgres_server: PostgresServer, tmp_path: Path
) -> Iterator[Session]:
    address = re.sub("//[^@]*@", "//analyst_reader@", postgres_server.address())
    with dpx.connect(f"{address}::t", schema=declared(version="1"), workspace=tmp_path) as session:
        yield session


def test_a_result_that_cannot_be_made_costs_nothing(session: Session) -> None:
    planned = session.plan(SQL.format(2), 1.0)

    def fail(_released: Any) -> Any:
        raise ZeroDivisionError("nobody can show this")

    with pytest.raises(InternalError, match="Nothing was charged"):
        dataset_of(session).find_or_measure(planned.plan, planned.request, fail)  # type: ignore[arg-type]
    assert session.budget.spent == 0
    assert len(session.history) == 0


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (SourceError("No permission for pay.", remedy="Ask."), "cannot read the data that it needs"),
        (LedgerUnavailable("The ledger is away.", remedy="Wait."), "The ledger is away"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused_before_the_charge_and_without_its_words(
    session: Session, failure: SourceError, words: str
) -> None:
    def fail(_released: Any) -> Any:
        raise failure

    planned = session.plan(SQL.format(2), 1.0)
    with pytest.raises(SourceError, match=words) as refusal:
        dataset_of(session).find_or_measure(planned.plan, planned.request, fail)
    assert type(refusal.value) is type(failure)
    assert "pay" not in str(refusal.value)
    assert session.budget.spent == 0


def test_a_kind_of_request_is_rehearsed_once_whatever_its_constants_and_price(session: Session) -> None:
    passes: list[bool] = []

    class Watched:
        is_live = False

        def grouped(self, *asked: Any, rehearsed: bool = False) -> Any:
            passes.append(rehearsed)
            return engine.grouped(*asked, rehearsed=rehearsed)

    engine, dataset_of(session).engine = dataset_of(session).engine, Watched()
    assert engine is not None
    for number in range(4):
        session.query(SQL.format(number), 0.1 + number)
    session.query(SQL.format(1).replace("AVG", "SUM"), 0.1)
    dataset_of(session).engine = engine
    assert passes == [True, False, False, False, False, True, False]


def test_a_rehearsal_reads_no_rows_cannot_spend_and_says_that_it_is_not_private(session: Session) -> None:
    planned = session.plan("SELECT city, COUNT(*) FROM t GROUP BY city", 50.0)
    rehearsal = dataset_of(session).rehearsal(StoredReleaser())
    release: Any = planned.plan.measure(rehearsal)
    assert not release.private
    assert max(map(abs, release.noisy_count)) < 1  # there are 50 rows in each group
    with pytest.raises(InternalError, match="tried to spend budget, but may not"):
        planned.run(rehearsal)
    assert session.budget.spent == 0


@pytest.mark.parametrize("sql", HARD.values(), ids=HARD)
def test_what_was_charged_and_failed_is_answered_or_refused_for_nothing(session: Session, sql: str) -> None:
    _answered_or_refused(session, sql)


@pytest.mark.parametrize("sql", HARD.values(), ids=HARD)
def test_what_was_charged_and_failed_in_postgres_is_answered_or_refused(live: Session, sql: str) -> None:
    _answered_or_refused(live, sql)


def _answered_or_refused(session: Session, sql: str) -> None:
    try:
        answer = session.query(sql, 1.0)
    except dpx.BadRequest:
        assert session.budget.spent == 0
        return
    assert session.budget.spent == 1.0
    assert answer.id == 1


CHANGES = {
    "dropped": "DROP TABLE t",
    "a right withdrawn": "REVOKE SELECT ON t FROM analyst_reader",
    "a column renamed": "ALTER TABLE t RENAME COLUMN pay TO wage",
    "a number become text": "ALTER TABLE t ALTER COLUMN pay TYPE text",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_table_that_changed_in_postgres_is_noticed_before_the_charge(
    change: str, live: Session, database: psycopg.Connection[Any]
) -> None:
    """Also for a kind of request that was answered before."""
    live.query(SQL.format(1), 1.0)
    database.execute(change)
    for sql in (SQL.format(2), "SELECT job, SUM(pay) FROM t GROUP BY job"):
        with pytest.raises(SourceError, match="Nothing was charged"):
            live.query(sql, 1.0)
    assert live.budget.spent == 1.0


def test_a_table_that_was_locked_after_the_charge_is_asked_for_again_at_no_further_cost(
    live: Session, database: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres_engine._SETTINGS, "lock_timeout", "100ms")
    releaser: Any = dataset_of(live).releaser
    reserve = releaser.reserve

    def reserve_and_lock(*asked: Any) -> Any:
        entry = reserve(*asked)
        database.execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        return entry

    with monkeypatch.context() as patched:
        patched.setattr(releaser, "reserve", reserve_and_lock)
        with pytest.raises(SourceLost):
            live.query(SQL.format(1), 1.0)
    database.execute("ROLLBACK")
    assert live.query(SQL.format(1), 1.0).id == 1
    assert live.budget.spent == 1.0


def test_every_kind_of_release_is_rehearsed(session: Session) -> None:
    """A failure at the end of each costs nothing: the reader of the stored text is broken for it."""
    answer = session.query("SELECT city, COUNT(*) FROM t GROUP BY city", 1.0)
    question = answer.why("north", "south")
    spent, engine = session.budget.spent, dataset_of(session).engine

    class Broken:
        is_live = False

        def grouped(self, *asked: Any, rehearsed: bool = False) -> Any:
            raise RuntimeError

        fit = value_counts = grouped

    dataset_of(session).engine = Broken()
    for attempt in (
        lambda: answer.prepare(rho=1.0),
        lambda: question.explain(k=1, rho=1.0, mechanism="one-shot"),
        lambda: question.explain(k=1, rho=1.0, mechanism="vector"),
        lambda: question.explain(k=1, rho=1.0, mechanism="marginals"),
        lambda: question.explain(k=1, rho=1.0, influence=dpx.RatioInfluence()),
        lambda: question.story(rho=1.0),
        lambda: session.quality(1.0),
        lambda: session.tune(1.0),
        lambda: session.query("SELECT COUNT(*), SUM(pay) FROM t", 1.0),
    ):
        with pytest.raises(InternalError, match="Nothing was charged"):
            attempt()
    dataset_of(session).engine = engine
    assert session.budget.spent == spent
