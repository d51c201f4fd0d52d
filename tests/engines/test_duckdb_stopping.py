"""One request's pass is stopped while another's goes on; memory has a bound."""

from __future__ import annotations

import threading

import duckdb
import pyarrow as pa
import pytest

from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import SourceError
from dpxplain.model.process import Stop, Stopped, interruptible, stoppable
from dpxplain.model.schema import Schema
from dpxplain.sql.parse import parse

SCHEMA = Schema.load(
    {"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": {"sex": {"values": ["F", "M"]}}}
)
ENDLESS = "SELECT SUM(x * y) FROM range(3000000) a(x), range(3000000) b(y)"
SHORT = "SELECT SUM(x) FROM range(1000000) a(x)"


def test_stopping_one_pass_leaves_the_others_alone() -> None:
    with duckdb.connect(":memory:") as connection:
        first, second, stop = connection.cursor(), connection.cursor(), Stop()
        begun, ended = threading.Event(), threading.Event()

        def ask_until_it_ends() -> None:
            while not ended.wait(0.05):  # an interrupt just before the query begins is lost
                if begun.is_set():
                    stop.request()

        asking = threading.Thread(target=ask_until_it_ends)
        asking.start()
        try:
            with stoppable(stop), interruptible(first.interrupt):
                begun.set()
                with pytest.raises(duckdb.InterruptException):
                    first.execute(ENDLESS)
        finally:
            ended.set()
            asking.join()
        assert second.execute(SHORT).fetchall() == [(499999500000,)]
        stop.request()  # requested again, it touches nothing that has ended
        assert first.execute(SHORT).fetchall() == [(499999500000,)]


def test_after_the_wish_to_stop_no_pass_begins() -> None:
    stop, query = Stop(), parse("SELECT sex, COUNT(*) FROM t GROUP BY sex", SCHEMA).query
    engine = DuckDBEngine(pa.table({"sex": ["F", "M", "M"]}), SCHEMA)
    stop.request()
    with pytest.raises(Stopped):
        stop.check()
    with stoppable(stop), pytest.raises(Stopped):
        engine.grouped(query, ((),))
    assert engine.grouped(query, ((),)).reveal().count.tolist() == [1, 2]
    engine.close()


def test_data_beyond_the_memory_limit_are_refused_without_a_word_about_them() -> None:
    rows = pa.table({"sex": pa.array(["F", "M"] * 4_000_000)})
    with pytest.raises(SourceError) as refused:
        DuckDBEngine(rows, SCHEMA, memory="1MB")
    assert refused.value.__context__ is None
    DuckDBEngine(rows.slice(0, 1000), SCHEMA, memory="200MB").close()
