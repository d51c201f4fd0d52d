"""The share of the gap that a condition's rows remove, and which way they push, as an analyst reads them."""

from __future__ import annotations

import pytest

import dpxplain as dpx
from dpxplain.model.contrast import Verdict
from dpxplain.wire.payloads import explanation_payload

SQL = "SELECT marital_status, {} FROM adult GROUP BY marital_status"
PAIR = ("Married-civ-spouse", "Never-married")


@pytest.fixture(scope="module")
def session() -> dpx.Session:
    return dpx.example("adult", curator=True, insecure_seed=21)


@pytest.fixture(scope="module")
def answer(session: dpx.Session) -> dpx.Answer:
    asked = session.query(SQL.format("AVG(high_income)"), rho=0.1)
    assert isinstance(asked, dpx.Answer)
    asked.prepare(rho=0.5)
    return asked


@pytest.mark.parametrize("aggregate", ["AVG(high_income)", "COUNT(*)", "SUM(high_income)"])
def test_the_true_share_is_inside_for_every_condition(session: dpx.Session, aggregate: str) -> None:
    answer = session.query(SQL.format(aggregate), rho=0.1)
    assert isinstance(answer, dpx.Answer)
    answer.prepare(rho=0.5)
    values = {record["marital_status"]: record for record in answer.truth().rows}
    for pair in (PAIR, PAIR[::-1]):
        for at_least in (0.0, 0.1):
            table = answer.why(*pair, at_least=at_least).explain(k=103)
            true = [next(v for name, v in values[group].items() if name.startswith("true")) for group in pair]
            gap = true[0] - true[1] - at_least
            for row, truth in zip(table, table.truth().rows, strict=True):
                assert row.share_removed is not None
                share = 1 - (truth["true_gap_without"] - at_least) / gap
                assert row.share_removed[0] <= share <= row.share_removed[1]


def test_the_effect_follows_the_share(answer: dpx.Answer) -> None:
    table = answer.why(*PAIR).explain(k=103)
    effects = set()
    for row in table:
        assert row.share_removed is not None
        low, high = row.share_removed
        assert row.effect == ("shrinks" if low > 0 else "widens" if high < 0 else "unclear")
        effects.add(row.effect)
        if row.influence[0] > 0 or row.influence[1] < 0:
            assert row.effect != ("widens" if row.influence[0] > 0 else "shrinks")
    assert effects == {"shrinks", "widens", "unclear"}


def test_a_gap_that_lies_the_other_way_shrinks_by_the_same_rows(answer: dpx.Answer) -> None:
    there, back = answer.why(*PAIR).explain(k=103), answer.why(*PAIR[::-1]).explain(k=103)
    assert back.question.verdict is Verdict.REVERSED
    shares = {row.index: row.share_removed for row in there}
    for row in back:
        assert row.share_removed == pytest.approx(shares[row.index])


def test_no_share_is_told_of_an_unclear_gap(answer: dpx.Answer) -> None:
    gap = answer["Widowed"].estimate - answer["Divorced"].estimate
    question = answer.why("Widowed", "Divorced", at_least=gap)
    assert question.verdict is Verdict.UNCLEAR
    for row in question.explain(k=5):
        assert (row.share_removed, row.effect) == (None, "unclear")
        assert row.gap_without is not None


def test_without_a_share_the_influence_says_which_way(answer: dpx.Answer) -> None:
    there = answer.why(*PAIR).explain(k=4, rho=0.5, mechanism="vector")
    back = answer.why(*PAIR[::-1]).explain(k=4, rho=0.5, mechanism="one-shot")
    assert {row.share_removed for row in (*there, *back)} == {None}
    assert there[0].influence[0] > 0
    assert there[0].effect == "shrinks"
    assert back[0].influence[0] > 0
    assert back[0].effect == "widens"


def test_a_ratio_has_an_effect_and_no_share(answer: dpx.Answer) -> None:
    table = answer.why_ratio(*PAIR).explain(k=3)
    for row in table:
        assert row.share_removed is None
        assert row.effect == ("shrinks" if row.influence[0] > 0 else "unclear")
    assert table[0].effect == "shrinks"


def test_records_and_json_have_the_share_and_the_effect(session: dpx.Session, answer: dpx.Answer) -> None:
    table = answer.why(*PAIR).explain(k=2)
    assert list(table.records()[0])[-3:] == ["share_removed_low", "share_removed_high", "effect"]
    payload = explanation_payload(table, session.budget)
    for record, row, line in zip(table.records(), table, payload["rows"], strict=True):
        assert (record["share_removed_low"], record["share_removed_high"]) == row.share_removed
        assert line["share_removed"] == row.share_removed
        assert line["effect"] == row.effect
        assert "share_removed_low" not in line
    scored = answer.why(*PAIR).explain(k=2, rho=0.1, mechanism="vector")
    assert scored.records()[0]["share_removed_low"] is None
    assert explanation_payload(scored, session.budget)["rows"][0]["share_removed"] is None
