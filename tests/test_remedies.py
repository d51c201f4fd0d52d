"""Mistakes of the first five minutes: each gets a sentence with the remedy, and costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dpxplain as dpx

SQL = "SELECT sex, race, COUNT(*) FROM adult GROUP BY sex, race"
BY_SEX = "SELECT sex, COUNT(*) FROM adult GROUP BY sex"


@pytest.fixture(scope="module")
def session() -> dpx.Session:
    return dpx.example("adult")


@pytest.fixture(scope="module")
def answer(session: dpx.Session) -> Any:
    return session.query(BY_SEX, rho=0.1)


@pytest.fixture(scope="module")
def table(answer: Any) -> Any:
    answer.prepare(rho=0.1)
    return answer.why("Male", "Female").explain(k=2)


def refusal(call: Callable[[], object]) -> dpx.BadRequest:
    with pytest.raises(dpx.BadRequest) as refused:
        call()
    assert refused.value.problem.endswith(".")
    assert refused.value.remedy.endswith((".", "?"))
    return refused.value


def test_other_spellings_of_epsilon_are_recognised(session: Any, answer: Any) -> None:
    for ask in (lambda: answer.why("Male", "Female").preview(eps=1.0), lambda: session.query(SQL, ε=1.0)):
        assert refusal(ask).remedy == "Did you mean 'epsilon'?"


def test_a_missing_price_is_named_with_the_way_to_look_first(session: Any, answer: Any) -> None:
    assert "rho=0.1" in refusal(lambda: session.query(SQL)).remedy
    assert "Good: ρ 0.1" in refusal(lambda: session.preview(SQL)).problem
    assert "preview_prepare(rho=0.02)" in refusal(lambda: answer.prepare()).remedy
    assert "preview_quality(rho=0.02)" in refusal(lambda: session.quality()).remedy
    assert "preview_tune" in refusal(lambda: session.tune()).remedy
    unprepared = session.query("SELECT race, COUNT(*) FROM adult GROUP BY race", rho=0.1)
    unpaid = refusal(lambda: unprepared.why("White", "Black").explain(k=5))
    assert "ρ 0.5 for this question only" in unpaid.problem
    assert "rho=0.5" in unpaid.remedy
    assert "prepare(rho=0.02)" in unpaid.remedy


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sex, AVG(education) FROM adult GROUP BY sex",
        "SELECT sex, MEDIAN(race) FROM adult GROUP BY sex",
        "SELECT sex, EXTRACT(year FROM race), COUNT(*) FROM adult GROUP BY 1, 2",
    ],
)
def test_an_analyst_is_told_what_the_curator_can_declare(sql: str, session: Any) -> None:
    remedy = refusal(lambda: session.preview(sql, rho=0.1)).remedy
    assert "curator can declare" in remedy
    assert "Declare" not in remedy


def test_swapped_arguments_of_connect_are_put_in_order(tmp_path: Path) -> None:
    refused = refusal(lambda: dpx.connect("flights.toml", "flights.csv"))
    assert "dpx.connect('flights.csv', schema='flights.toml')" in refused.remedy
    assert f"schema={str(tmp_path / 'x.toml')!r}" in refusal(lambda: dpx.connect(tmp_path / "x.toml")).remedy
    refusal(lambda: dpx.connect({"table": {"name": "t"}}, "flights.csv"))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda s, a: s.query(SQL, roh=0.1), "Did you mean 'rho'?"),
        (lambda s, a: s.query(SQL, rho=0.1, confidense=0.9), "Did you mean 'confidence'?"),
        (lambda s, a: s.query(SQL, 0.1, 0.9), "confidence"),
        (lambda s, a: s.query(SQL, 0.1, sql=SQL), "once"),
        (lambda s, a: s.query(rho=0.1), "query(sql)"),
        (lambda s, a: a.why("Male", "Female", atleast=3), "Did you mean 'at_least'?"),
        (lambda s, a: a.why(), "why(group)"),
        (lambda s, a: a.why("Male", "Female").explain(mechanisms="auto"), "Did you mean 'mechanism'?"),
        (lambda s, a: dpx.connect("x.csv", schema="y.toml", work_space="w"), "Did you mean 'workspace'?"),
        (lambda s, a: dpx.connect("x.csv", schema="y.toml", zzz=1), "It takes source, schema"),
        (lambda s, a: dpx.example("adult", curater=True), "Did you mean 'curator'?"),
        (lambda s, a: a.why("male", "Female"), "Did you mean 'Male'?"),
        (lambda s, a: a.why("Male", "Female").explain(attributes=["Age"], rho=1), "Did you mean 'age'?"),
    ],
)
def test_a_mistyped_argument_is_answered_with_the_right_one(
    session: Any, answer: Any, call: Callable[[Any, Any], object], says: str
) -> None:
    spent = session.budget.spent
    assert says in refusal(lambda: call(session, answer)).remedy
    assert session.budget.spent == spent


@pytest.mark.parametrize(
    ("section", "key", "says"),
    [
        ("privacy", "neighbors", "did you mean 'neighbours'?"),
        ("privacy", "epsilon", "did you mean 'rho'?"),
        ("privacy", "maxrows", "did you mean 'max_rows'?"),
        ("table", "Name", "did you mean 'name'?"),
        ("table", "zzz", "known keys: name, source"),
    ],
)
def test_an_unknown_key_of_a_section_is_answered_with_the_right_one(
    section: str, key: str, says: str
) -> None:
    schema: dict[str, Any] = {
        "table": {"name": "t"},
        "privacy": {"rho": 1.0},
        "columns": {"sex": {"values": ["F", "M"]}},
    }
    schema[section][key] = 1
    with pytest.raises(dpx.SchemaError) as refused:
        dpx.Schema.load(schema)
    assert f"{section}.{key}: is not a known key" in refused.value.problem
    assert says in refused.value.problem


@pytest.mark.parametrize(("key", "says"), [("valuse", "values"), ("bins", "edges"), ("range", "bounds")])
def test_an_unknown_key_of_a_column_is_answered_with_the_right_one(key: str, says: str) -> None:
    schema = {"table": {"name": "t"}, "privacy": {"rho": 1.0}, "columns": {"sex": {key: [0, 1]}}}
    with pytest.raises(dpx.SchemaError, match=rf"columns\.sex\.{key}: .*did you mean '{says}'"):
        dpx.Schema.load(schema)


def test_a_report_in_another_format_is_refused_with_those_that_exist(table: Any, tmp_path: Path) -> None:
    refused = refusal(lambda: table.save(tmp_path / "x.docx"))
    assert "HTML" in refused.problem
    assert "x.html" in refused.remedy
    assert "to_csv()" in refused.remedy
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_an_export_without_its_package_says_what_to_install(
    answer: Any, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    refused = refusal(lambda: getattr(answer, f"to_{package}")())
    assert f"pip install {package}" in refused.remedy
    assert "to_arrow()" in refused.remedy
