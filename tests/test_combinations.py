"""Arithmetic on answers as an analyst meets it: free, readable, and careful with what it is given."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.words.sentences import NOISE_ONLY

BY_SEX = "SELECT sex, COUNT(*) FROM adult GROUP BY sex"
BY_STATUS = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
MARRIED, NEVER = "Married-civ-spouse", "Never-married"


@pytest.fixture(scope="module")
def session():
    with dpx.example("adult") as opened:
        yield opened


@pytest.fixture(scope="module")
def counts(session):
    return session.query(BY_SEX, rho=0.5)


@pytest.fixture(scope="module")
def averages(session):
    return session.query(BY_STATUS, rho=0.5)


def test_the_example_of_the_issue_works_and_is_right(counts):
    more = counts["Male"] / counts["Female"] - 1
    assert more.estimate == counts["Male"].estimate / counts["Female"].estimate - 1
    low, high = more.interval_by(confidence=0.999999)
    assert low < 32_650 / 16_192 - 1 < high
    assert high - low < 0.01
    assert more.verdict(at_least=1) is dpx.Verdict.REAL
    assert more.verdict(at_least=2) is dpx.Verdict.REVERSED


def test_arithmetic_spends_nothing(session, counts, averages):
    before = session.budget.spent, len(session.history)
    both = dpx.exp(dpx.log(counts["Male"] / counts["Female"]) * averages[MARRIED]) - sum(averages)
    both.interval, both.interval_by("bootstrap"), str(both), both._repr_html_(), both.verdict()
    assert (session.budget.spent, len(session.history)) == before


def test_a_row_by_itself_keeps_its_estimate_and_interval(counts, averages):
    for row in (*counts, *averages):
        assert (+row).estimate == pytest.approx(row.estimate)
        assert (+row).interval == pytest.approx(row.interval)


def test_a_difference_is_what_a_question_says_of_it(counts, averages):
    for answer, one, other in ((counts, "Male", "Female"), (averages, MARRIED, NEVER)):
        question, difference = answer.why(one, other), answer[one] - answer[other]
        assert difference.estimate == pytest.approx(question.estimate)
        assert difference.interval == pytest.approx(question.interval)


def test_the_same_release_is_one_value_however_it_was_asked_for(session, counts):
    again = session.query(BY_SEX + " ORDER BY sex DESC", rho=0.5)
    assert again.free
    assert (again["Male"] - counts["Male"]).interval == (0.0, 0.0)
    another = session.query(BY_SEX, rho=0.25)
    low, high = (another["Male"] - counts["Male"]).interval
    assert low < high


def test_two_sessions_have_values_of_their_own():
    rows = []
    for _ in range(2):
        with dpx.example("adult", insecure_seed=1) as session:
            rows.append(session.query(BY_SEX, rho=0.5)["Male"])
    assert rows[0].estimate == rows[1].estimate
    low, high = (rows[0] - rows[1]).interval
    assert low < 0.0 < high


def test_two_sessions_on_one_ledger_share_their_releases(tmp_path):
    schema = {
        "table": {"name": "people"},
        "privacy": {"rho": 1.0},
        "columns": {"sex": {"values": ["F", "M"]}},
    }
    people = pa.table({"sex": ["F", "M", "M"]})
    rows = []
    for _ in range(2):
        with dpx.connect(people, schema, workspace=tmp_path) as session:
            rows.append(session.query("SELECT sex, COUNT(*) FROM people GROUP BY sex", rho=0.1)["M"])
    assert (rows[0] - rows[1]).interval == (0.0, 0.0)


def test_several_aggregates_of_one_select_can_be_combined(session):
    answers = session.query(
        "SELECT sex, COUNT(*) AS n, SUM(high_income) AS rich FROM adult GROUP BY sex", rho=0.2
    )
    share = answers["rich"]["Male"] / answers["n"]["Male"]
    low, high = share.interval
    assert low < share.estimate < high
    assert share.formula == "SUM(high_income)[Male] / COUNT(*)[Male]"


def test_every_number_may_be_an_operand_on_either_side(counts):
    male = counts["Male"]
    for number in (2, 2.0, np.float64(2), np.int64(2), np.float32(2), Fraction(2)):
        for made in (
            number * male,
            male * number,
            number + male,
            male - number,
            number - male,
            male / number,
        ):
            assert isinstance(made, dpx.Combination)
        assert (number / male).estimate == pytest.approx(2 / male.estimate)
        assert (male / number).estimate == pytest.approx(male.estimate / 2)
    assert (-male).interval == pytest.approx((-male.interval[1], -male.interval[0]))
    assert male.log().estimate == dpx.log(male).estimate == pytest.approx(math.log(male.estimate))
    assert (male / 1e5).exp().interval == dpx.exp(male / 1e5).interval


@pytest.mark.parametrize("wrong", ["Male", None, True, 1j, [1.0], object()])
def test_an_operand_of_another_kind_is_a_type_error(counts, wrong):
    for compute in (
        lambda: counts["Male"] + wrong,
        lambda: wrong / counts["Male"],
        lambda: (counts["Male"] * 2) - wrong,
        lambda: dpx.log(wrong),
    ):
        with pytest.raises(TypeError):
            compute()


def test_numbers_that_make_no_sense_are_refused_with_a_remedy(counts):
    for compute in (
        lambda: counts["Male"] + math.nan,
        lambda: counts["Male"] * math.inf,
        lambda: counts["Male"] * 10**400,
        lambda: counts["Male"] / 0,
        lambda: dpx.log(-1),
        lambda: (+counts["Male"]).interval_by("magic"),
        lambda: (+counts["Male"]).interval_by(confidence=2),
        lambda: (+counts["Male"]).verdict(at_least=math.nan),
    ):
        with pytest.raises(dpx.BadRequest) as refused:
            compute()
        assert refused.value.remedy


def test_what_is_uncertain_has_no_order_and_no_truth(counts):
    for compare in (
        lambda: counts["Male"] < counts["Female"],
        lambda: counts["Male"] - 1 >= 0,
        lambda: counts["Male"] < 3,
        lambda: bool(counts["Male"] - counts["Female"]),
    ):
        with pytest.raises(TypeError, match="verdict"):
            compare()
    assert counts["Male"] == counts["Male"]
    assert len({counts["Male"], counts["Female"]}) == 2


def test_the_formula_reads_as_it_was_written(counts, averages, session):
    male, female = counts["Male"], counts["Female"]
    for made, text in (
        (male / female - 1, "Male / Female - 1"),
        (male - (female - 1), "Male - (Female - 1)"),
        (male / (female * 2), "Male / (Female * 2)"),
        (male * female / 2, "Male * Female / 2"),
        (-(male + female) * 2, "-(Male + Female) * 2"),
        (dpx.log(male / female), "log(Male / Female)"),
        (sum(counts), "Female + Male"),
        (averages[MARRIED] - averages[NEVER], '"Married-civ-spouse" - "Never-married"'),
    ):
        assert made.formula == text
    sums = session.query("SELECT sex, SUM(high_income) FROM adult GROUP BY sex", rho=0.1)
    assert (sums["Male"] / male).formula == "SUM(high_income)[Male] / COUNT(*)[Male]"
    other = session.query(BY_SEX, rho=0.05)
    assert f"COUNT(*)[Male, answer {other.id}]" in (male / other["Male"]).formula


def test_a_formula_of_any_length_can_be_printed(counts):
    made = counts["Male"] / counts["Female"]
    for _ in range(80):
        made = made + made
    assert len(made.formula) < 1000
    assert len(str(made)) < 2000


def test_it_prints_its_interval_and_says_what_it_speaks_of(counts):
    text = str(counts["Male"] / counts["Female"])
    assert text.splitlines()[0] == "Male / Female"
    assert "95% confidence" in text
    assert NOISE_ONLY in " ".join(text.split())
    assert "<pre>" in (counts["Male"] * 2)._repr_html_()


def test_a_combination_of_seeded_answers_says_that_it_is_not_private(counts):
    with dpx.example("adult", insecure_seed=5) as seeded:
        answer = seeded.query(BY_SEX, rho=0.1)
    made = answer["Male"] / counts["Male"]
    assert not made.private
    assert str(made).startswith("NOT PRIVATE")
    assert (counts["Male"] * 2).private


def test_the_highest_confidence_of_its_answers_is_kept(session, counts):
    sure = session.query(BY_SEX, rho=0.5, confidence=0.99)
    assert (sure["Male"] / counts["Female"]).confidence == 0.99
    narrow, wide = (counts["Male"] / counts["Female"]).interval, (sure["Male"] / counts["Female"]).interval
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_small_groups_give_half_lines_and_never_nan(session):
    small = session.query(
        "SELECT marital_status, COUNT(*) FROM adult WHERE age > 80 GROUP BY marital_status", 1e-4
    )
    for one in small:
        for other in small:
            for made in (one / other, dpx.log(one) - dpx.log(other), one * other, dpx.exp(one)):
                for method in ("image", "bootstrap"):
                    low, high = made.interval_by(method)
                    assert low <= made.estimate <= high
        ratio = one / small["Married-AF-spouse"]
        assert ratio.interval[0] >= 0.0  # counts are never negative


def test_rows_can_still_be_pickled(counts):
    assert pickle.loads(pickle.dumps(counts["Male"])) == counts["Male"]
