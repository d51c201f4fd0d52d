"""Groups that the WHERE rules out are measured as before, and are in no answer, order, chart or payload."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.wire.payloads import answer_columns, answer_payload

ROWS = pa.table(
    {
        "sex": ["F", "M", "M"] * 40,
        "race": ["White", "Black", None, "Black"] * 30,
        "pay": [float(i % 50) for i in range(120)],
    }
)
SCHEMA: dict[str, Any] = {
    "table": {"name": "people"},
    "privacy": {"rho": 1000},
    "columns": {
        "sex": {"values": ["F", "M"]},
        "race": {"values": ["White", "Black"], "null": True},
        "pay": {"bounds": [0, 100]},
    },
}
MEN = "SELECT sex, AVG(pay) FROM people WHERE sex = 'M' GROUP BY sex"


@pytest.fixture
def session(tmp_path):
    with dpx.connect(ROWS, SCHEMA, workspace=tmp_path, curator=True) as opened:
        yield opened


def labels(answer: Any) -> list[str]:
    return [row.label for row in answer]


def test_only_the_groups_that_the_where_leaves_are_shown_exported_and_sent(session):
    answer = session.query(MEN, rho=1)
    assert labels(answer) == ["M"]
    assert [record["sex"] for record in answer.records()] == ["M"]
    assert [record["sex"] for record in answer.truth().records()] == ["M"]
    assert "F " not in str(answer)
    assert [row["label"] for row in answer_payload(answer, session.budget)["parts"][0]["rows"]] == ["M"]
    assert answer_columns(answer, session.budget)["groups"] == [1]
    values = answer.chart().to_dict()["datasets"]
    assert {row["group"] for rows in values.values() for row in rows if "group" in row} <= {"M"}
    assert session.preview(MEN, rho=1).groups == 1


def test_the_highest_group_is_never_one_that_the_where_rules_out(session):
    sql = (
        "SELECT race, SUM(pay) AS r FROM people WHERE race IS NOT NULL GROUP BY race ORDER BY r DESC LIMIT 1"
    )
    # Each ρ is a request of its own, with noise of its own: at 1e-6 it hides every difference.
    tops = [labels(session.query(sql, rho=1e-6 * (1 + i / 100))) for i in range(60)]
    assert {top for (top,) in tops} == {"White", "Black"}


def test_prices_keys_and_releases_are_those_of_all_declared_groups(session):
    planned = session.plan(MEN, rho=1)
    # As computed before ruled-out groups were left out of answers: what is stored stays free.
    assert planned.key == "c5d4f5b69f55ec7943e2660ed59c2d2246136b1c575323a644c3fbe335752832"
    several = session.plan(
        "SELECT race, COUNT(*), SUM(pay) FROM people WHERE race = 'Black' GROUP BY race", 1
    )
    assert several.key == "e79cc881e480c7c07d2bea4b4e683aba7856c67849cf1c2535fd542b54f2f95a"
    assert planned.group_count == 2
    assert several.group_count == 3
    assert session.preview(MEN, rho=1).price.rho == 1
    answer = session.query(MEN, rho=1)
    assert len(answer.release.noisy_count) == 2
    assert session.budget.spent == 1
    again = session.answer(answer.id)
    assert (again.free, labels(again)) == (True, ["M"])
    assert again["M"].estimate == answer["M"].estimate


def test_a_group_that_is_ruled_out_is_refused_wherever_it_is_named(session):
    answer = session.query(MEN, rho=1)
    several = session.query(
        "SELECT sex, COUNT(*), SUM(pay) / COUNT(*) AS m FROM people WHERE sex = 'M' GROUP BY 1", 1
    )
    for ask in (
        lambda: answer["F"],
        lambda: answer.why("M", "F"),
        lambda: answer.why({"F": 1}),
        lambda: answer.why_ratio("M", "F"),
        lambda: several["COUNT(*)"].why("M", "F"),
        lambda: several["m"]["F"],
        lambda: several["SUM(pay) - COUNT(*)"]["F"],
    ):
        with pytest.raises(
            dpx.QuestionError, match=r"WHERE condition excludes F, so .*\. Choose one of: M\."
        ):
            ask()


def test_having_and_computed_values_act_on_the_groups_that_are_left(session):
    sql = (
        "SELECT race, COUNT(*) AS n, SUM(pay) / COUNT(*) AS m FROM people WHERE race IS NOT NULL "
        "GROUP BY race HAVING COUNT(*) > 40 ORDER BY m DESC"
    )
    answers = session.query(sql, rho=100)
    assert labels(answers) == ["Black"]
    assert [group.label for group in answers.having.dropped] == ["White"]
    assert answers.notes == answers.having.sentences
    assert [labels(part) for part in answers.answers] == [["Black"]] * 2
    assert labels(answers["SUM(pay) + COUNT(*)"]) == ["Black"]


def test_an_even_share_is_one_of_the_groups_that_are_left(session):
    answer = session.query("SELECT race, COUNT(*) FROM people WHERE race IS NOT NULL GROUP BY race", rho=100)
    share = answer.why_ratio("Black")  # None is not the name of a group here
    assert share.ratio.at_least == 0.5
    assert share.verdict is dpx.Verdict.REAL
    assert 0.6 < share.estimate < 0.72
    assert answer.why("Black").interval[0] > 0
    alone = session.query("SELECT sex, COUNT(*) FROM people WHERE sex = 'M' GROUP BY sex", rho=1)
    with pytest.raises(dpx.QuestionError, match="at least two groups"):
        alone.why_ratio("M")


def test_a_share_is_explained_as_the_same_request_as_before(session):
    """The total keeps the declared groups that are ruled out: the share is part of the explanation's key."""
    answer = session.query("SELECT race, COUNT(*) FROM people WHERE race IS NOT NULL GROUP BY race", rho=100)
    assert set(answer.why_ratio("Black").contrast.groups) == {0, 1, 2}


def test_a_where_that_rules_out_every_group_is_refused_before_it_costs_anything(session):
    for sql in (
        "SELECT sex, COUNT(*) FROM people WHERE sex IS NULL GROUP BY sex",
        "SELECT sex, COUNT(*) FROM people WHERE sex = 'M' AND sex = 'F' GROUP BY sex",
    ):
        for ask in (session.preview, session.query):
            with pytest.raises(dpx.QueryRefused, match="excludes every listed group of sex") as caught:
                ask(sql, rho=1)
            assert sql[caught.value.start : caught.value.end] == "WHERE"
    assert session.budget.spent == 0
