"""However long the ledger is, what a request asks of it is a few rows, each found by an index.

Shown on short ledgers by what every method makes the database do, which must not grow with them.
benchmarks/load_growth.py measures the times of all requests on up to a million lines.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parents[2]))  # for benchmarks

from benchmarks.ledger_growth import fill_history
from ledger_contract import reserve, store

from dpxplain.ledger import store as transactions
from dpxplain.ledger.anchor_guard import AnchorGuard
from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.ledger.tables import ENTRIES
from dpxplain.model.charge import Charge, Request
from dpxplain.server.app import Opening, create_app
from server_fixture import config_of

WHY = {"reason": "study 7", "by": "carol"}
LINES = 400


@pytest.fixture
def long(ledger: SQLLedger) -> SQLLedger:
    """A ledger with many lines of ann's, few of ben's, and none of the local owner's."""
    ledger.open_dataset("adult", 1_000.0, 1e-6)  # a notice for everybody
    for name in ("ann", "ben"):
        ledger.grant("adult", name, 400.0, **WHY)
    store(ledger.account("ben"), "query", "of ben")
    store(ledger.account("ann"), "query", "of ann")
    fill_history(ledger, "adult", LINES)
    return ledger


class Work:
    """What a ledger asks of its database in a block: statements, and how much there is to do for them.

    In SQLite the instructions of its virtual machine are counted, and in PostgreSQL the rows that the plans
    of the statements visit. Neither depends on time or chance.
    """

    def __init__(self, ledger: SQLLedger, call: Callable[[SQLLedger], object]) -> None:
        self.statements: list[tuple[str, Any]] = []
        self.amount = 0
        engines = set(ledger.store.engines)
        is_sqlite = ledger.store.engines[0].dialect.name == "sqlite"
        for engine in engines:
            sa.event.listen(engine, "before_cursor_execute", self._note)
        try:
            if is_sqlite:
                self._count_instructions(engines, partial(call, ledger))
            else:
                call(ledger)
        finally:
            for engine in engines:
                sa.event.remove(engine, "before_cursor_execute", self._note)
        if not is_sqlite:
            self._count_rows(ledger)

    def _note(self, _connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if not re.match(r"BEGIN|COMMIT|PRAGMA|SAVEPOINT", statement):
            self.statements.append((statement, parameters))

    def _count_instructions(self, engines: set[sa.Engine], call: Callable[[], object]) -> None:
        def count() -> int:
            self.amount += 1
            return 0

        drivers: list[Any] = []
        for engine in engines:
            with engine.connect() as connection:  # the only one
                drivers.append(connection.connection.driver_connection)
        for driver in drivers:
            driver.set_progress_handler(count, 1)
        try:
            call()
        finally:
            for driver in drivers:
                driver.set_progress_handler(None, 0)

    def _count_rows(self, ledger: SQLLedger) -> None:
        """With statistics, and as on a table that is too long to be read from end to end."""
        with ledger.store.updating() as connection:
            connection.exec_driver_sql("ANALYZE")
        with ledger.store.reading() as connection:
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            for statement, parameters in self.statements:
                if statement.startswith(("SELECT", "WITH")) and "FOR UPDATE" not in statement:
                    explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"
                    [plan] = connection.exec_driver_sql(explained, parameters).scalar_one()
                    self.amount += _rows(plan["Plan"])


def _rows(node: dict[str, Any]) -> int:
    """The rows that a node of a plan and those below it read."""
    removed = sum(int(number) for name, number in node.items() if name.startswith("Rows Removed"))
    own = (int(node["Actual Rows"]) + removed) * int(node["Actual Loops"])
    return own + sum(map(_rows, node.get("Plans", [])))


READS: dict[str, tuple[int, Callable[[SQLLedger], object]]] = {
    "budget": (1, lambda ledger: ledger.account("ann").budget("adult")),
    "find": (2, lambda ledger: ledger.account("ann").find("adult", "of ann")),
    "find nothing": (3, lambda ledger: ledger.account("ann").find("adult", "nothing")),
    "find, owner": (1, lambda ledger: ledger.find("adult", "of ann")),
    "find nothing, owner": (2, lambda ledger: ledger.find("adult", "nothing")),
    "get": (2, lambda ledger: ledger.account("ann").get("adult", 30)),
    "get another's": (2, lambda ledger: ledger.account("ben").get("adult", "30@ann")),
    "get nothing": (3, lambda ledger: ledger.account("ben").get("adult", 30)),
    "newest page": (3, lambda ledger: ledger.account("ann").history_page("adult", limit=20)),
    "page in the middle": (4, lambda ledger: ledger.account("ann").history_page("adult", 200, 20)),
    "page of one who asked little": (3, lambda ledger: ledger.account("ben").history_page("adult")),
    "page, owner": (1, lambda ledger: ledger.history_page("adult", limit=20)),
    "latest": (2, lambda ledger: ledger.account("ann").latest("adult", "query", "")),
    "latest of a kind that is not there": (
        3,
        lambda ledger: ledger.account("ann").latest("adult", "quality", ""),
    ),
    "latest, owner": (1, lambda ledger: ledger.latest("adult", "query", "other")),
    "latest, any version": (2, lambda ledger: ledger.latest("adult", "query")),
    "preparations": (3, lambda ledger: ledger.account("ann").preparations("adult", "nothing")),
    "preparations, owner": (2, lambda ledger: ledger.preparations("adult", "nothing")),
    "allowances": (7, lambda ledger: ledger.allowances("adult")),
    "failures": (2, lambda ledger: ledger.failures.counted("adult", "ann")),
    "records": (1, lambda ledger: ledger.audit(300, 20)),
}


def test_reading_is_the_same_work_on_a_longer_ledger(long: SQLLedger) -> None:
    before = {name: Work(long, read) for name, (_, read) in READS.items()}
    fill_history(long, "adult", 5 * LINES)
    for name, (most_statements, read) in READS.items():
        after, number = Work(long, read), len(before[name].statements)
        assert len(after.statements) == number <= most_statements, (name, after.statements)
        assert after.amount <= 1.2 * before[name].amount + 20, (name, after.statements)


def test_notices_are_found_among_many_lines_of_the_local_owner(ledger: SQLLedger) -> None:
    ledger.open_dataset("adult", 1_000.0, 1e-6)
    store(ledger, "query", "of the owner")
    amounts = []
    for lines in (LINES, 5 * LINES):
        fill_history(ledger, "adult", lines, analyst="")
        amounts.append(Work(ledger, lambda ledger: ledger.account("ben").history_page("adult")).amount)
    assert len(ledger.account("ben").history("adult")) == 1
    assert amounts[1] <= 1.2 * amounts[0] + 20


def test_a_charge_and_its_release_are_the_same_work_on_a_longer_ledger(long: SQLLedger) -> None:
    def charge(ledger: SQLLedger) -> None:
        key, ann = f"new {next(numbers)}", ledger.account("ann")
        entry = ann.reserve_once("adult", Charge("query", key, Request("SELECT 1"), 0.01))
        assert entry is not None
        ann.release(entry.row, "{}")

    amounts: list[int] = []
    numbers = itertools.count()
    for lines in (LINES, 5 * LINES):
        fill_history(long, "adult", lines)
        charge(long)  # the anchor reads once what others have charged meanwhile
        work = Work(long, charge)
        assert len(work.statements) <= 21
        amounts.append(work.amount)
    assert amounts[1] <= 1.2 * amounts[0] + 20


def test_an_anchor_that_is_missing_or_far_behind_is_written_by_the_same_work_on_a_longer_ledger(
    long: SQLLedger, tmp_path: Path
) -> None:
    behind, missing = (AnchorGuard(tmp_path / f"{name}.anchor", "The ledger") for name in ("old", "none"))
    with long.store.reading() as connection:
        behind.keep(behind.mark(connection))

    def write_mark(ledger: SQLLedger) -> None:
        with ledger.store.reading() as connection:
            last, *others = (guard.mark(connection) for guard in (missing, behind))
            assert [mark.spent for mark in others] == [last.spent]

    amounts = []
    for lines in (5 * LINES, 10 * LINES):
        fill_history(long, "adult", lines)
        amounts.append(Work(long, write_mark).amount)
    assert amounts[1] <= 1.2 * amounts[0] + 20


def test_an_anchor_begins_with_what_everybody_has_spent_of_everything(
    ledger: SQLLedger, tmp_path: Path
) -> None:
    for dataset in ("adult", "Ärzte", "b c"):
        ledger.open_dataset(dataset, 1_000.0, 1e-6)
        for number, name in enumerate(("", "ann", "Zoë", "oidc:ann", "äbc")):
            account = ledger.account(name, default_limit=None)
            for key in ("first", "second"):
                account.reserve(dataset, Charge("query", key, Request("SELECT 1"), 0.25 * (1 + number)))
    of_each = sa.select(ENTRIES.c.dataset, ENTRIES.c.analyst, sa.func.sum(ENTRIES.c.charge_units))
    with ledger.store.reading() as connection:
        mark = AnchorGuard(tmp_path / "new.anchor", "The ledger").mark(connection)
        rows = connection.execute(of_each.group_by(ENTRIES.c.dataset, ENTRIES.c.analyst)).all()
        assert mark is not None
        assert mark.entry == connection.execute(sa.select(sa.func.max(ENTRIES.c.id))).scalar_one()
    assert {(dataset, name): units for dataset, of in mark.spent.items() for name, units in of.items()} == {
        (dataset, name): units for dataset, name, units in rows
    }


@pytest.mark.slow
def test_starting_a_server_is_the_same_work_on_a_longer_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the ledger was charged without its anchor. In SQLite, where its file is checked too."""
    steps = Counter[int]()
    connect, place, config = transactions._connect, tmp_path / "ledger.sqlite", config_of(tmp_path / "data")
    with closing(open_ledger(place)) as ledger:
        ledger.open_dataset("people", 10.0, 1e-6)
        ann = ledger.account("ann", default_limit=None)
        ann.release(reserve(ann, 0.001, dataset="people"), "{}")
    for lines in (5 * LINES, 20 * LINES):
        with closing(open_ledger(place)) as ledger:
            fill_history(ledger, "people", lines)

        def counted(*arguments: Any, lines: int = lines) -> Any:
            connection = connect(*arguments)
            connection.set_progress_handler(lambda: steps.update([lines]), 1)
            return connection

        with monkeypatch.context() as patch:
            patch.setattr(transactions, "_connect", counted)
            with closing(open_ledger(place)) as ledger:
                ledger.recovery.keep_anchor()
                server = create_app(config, ledger).state.server
                str(Opening.of(server))
                server.close()
    few, many = steps.values()
    assert many <= 1.2 * few + 100


def test_a_grown_ledger_is_one_that_the_ledger_could_have_written(long: SQLLedger) -> None:
    assert long.verify_audit().problems == []
    assert len(long.history("adult")) == LINES
    assert reserve(long.account("ann"), 0.01) == LINES + 1
    assert long.verify_audit().problems == []
