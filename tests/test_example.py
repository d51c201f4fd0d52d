"""Sessions of `dpx.example` share the encoded rows of one process, and nothing else."""

from __future__ import annotations

import pytest

import dpxplain as dpx
from dpxplain.engines import duckdb as duckdb_engine

SQL = "SELECT sex, COUNT(*) FROM adult GROUP BY sex"


def test_the_table_is_encoded_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    dpx.example("adult").close()
    monkeypatch.setattr(duckdb_engine, "create_tables", lambda *_: pytest.fail("encoded again"))
    with dpx.example("adult") as session, dpx.example("adult", curator=True) as owner:
        assert len(session.query(SQL, rho=0.1)) == 2
        assert owner.query(SQL, rho=0.1).truth() is not None


def test_sessions_have_budgets_and_histories_of_their_own() -> None:
    with dpx.example("adult") as first, dpx.example("adult") as second:
        first.query(SQL, rho=0.1)
        assert (first.budget.spent, second.budget.spent) == (0.1, 0)
        assert len(second.history) == 0


def test_closing_a_session_leaves_the_others_open() -> None:
    first, second = dpx.example("adult"), dpx.example("adult")
    first.query(SQL, rho=0.1)
    first.close()
    with second:
        assert not second.query(SQL, rho=0.1).free
        assert len(second.answer(1).why("Male", "Female").explain(k=1, rho=0.1)) == 1
    with pytest.raises(dpx.InternalError, match="closed"):
        first.query(SQL, rho=0.2)
