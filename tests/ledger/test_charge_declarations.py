"""Every charge names the declarations it was made under, where nobody can change them unseen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.ledger import LEDGER_FILE
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import Charge, Request
from dpxplain.model.schema import Schema

SCHEMA: dict[str, Any] = {
    "table": {"name": "people"},
    "privacy": {"rho": 10.0},
    "columns": {"sex": {"values": ["F", "M"]}, "age": {"edges": [0, 40, 80]}, "pay": {"bounds": [0, 10]}},
}
TABLE = pa.table({"sex": ["F", "M"] * 20, "age": [10, 50] * 20, "pay": [1, 2] * 20})
SQL = "SELECT sex, AVG(pay) FROM people GROUP BY sex"


def charges(folder: Path) -> list[dict[str, Any]]:
    ledger = open_ledger(folder / LEDGER_FILE)
    try:
        assert ledger.verify_audit().problems == []
        return [record.details["entry"] for record in ledger.audit() if record.action == "reserved"]
    finally:
        ledger.close()


def test_query_preparation_and_explanation_name_the_schema(tmp_path: Path) -> None:
    with dpx.connect(TABLE, SCHEMA, workspace=tmp_path) as session:
        answer = session.query(SQL, rho=0.5)
        answer.prepare(rho=0.5)
        answer.why("F", "M").explain(k=1, rho=0.5, mechanism="vector")
    entries = charges(tmp_path)
    assert [entry["kind"] for entry in entries] == ["query", "prepare", "explain"]
    assert {entry["declarations"] for entry in entries} == {Schema.model_validate(SCHEMA).fingerprint()}


def test_other_bounds_are_another_hash(tmp_path: Path) -> None:
    wider = SCHEMA | {"columns": SCHEMA["columns"] | {"pay": {"bounds": [0, 100]}}}
    for schema in (SCHEMA, wider):
        with dpx.connect(TABLE, schema, workspace=tmp_path) as session:
            session.query(SQL, rho=0.5)
    first, second = (entry["declarations"] for entry in charges(tmp_path))
    assert first != second


@pytest.mark.parametrize("place", ["file", "postgres"], indirect=True)
def test_altered_hash_is_noticed(ledger: Any) -> None:
    ledger.reserve("adult", Charge("query", "k", Request("q"), 0.1, declarations="a" * 64))
    assert ledger.verify_audit().problems == []
    with ledger.store.updating() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TRIGGER entries_keeps_its_rows_on_UPDATE")
        else:
            connection.exec_driver_sql("ALTER TABLE entries DISABLE TRIGGER ALL")
        connection.exec_driver_sql("UPDATE entries SET declarations = 'b'")
    assert any("entry 1 was altered" in problem for problem in ledger.verify_audit().problems)
