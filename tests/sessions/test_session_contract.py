"""One suite for both ways to hold a session: the data here, or at a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dpxplain as dpx
from dpxplain.datasets import path as bundled
from dpxplain.privacy.accounting import rho_for_epsilon
from dpxplain.server.config import Config
from dpxplain.session import Session
from opened import dataset_of
from server_fixture import running_server

MARRIED = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
SEX = "SELECT sex, COUNT(*) FROM adult GROUP BY sex"
PAIR = ("Married-civ-spouse", "Never-married")
Opener = Callable[..., Session]


@pytest.fixture(params=["here", "at a server"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens sessions on Adult, all with one budget of ρ = 5."""
    held: list[Session] = []
    if request.param == "here":

        def opener(**options: Any) -> Session:
            source = bundled("adult.parquet")
            held.append(dpx.connect(source, bundled("adult.toml"), workspace=tmp_path, **options))
            return held[-1]

        yield opener
    else:
        config = Config.load(
            {
                "server": {"datasets": str(bundled("adult.toml")), "port": 0},
                "analysts": {"default_rho": 5.0},
                "limits": {"requests_per_minute": 100_000},
            }
        )
        with running_server(config) as server:

            def opener(curator: bool = False, **options: Any) -> Session:
                token = server.token("owner" if curator else "ann", "curator" if curator else "analyst")
                held.append(dpx.connect(f"{server.url}adult", token=token, curator=curator, **options))
                return held[-1]

            yield opener
    for session in held:
        session.close()


@pytest.fixture
def session(opened: Opener) -> Session:
    return opened()


def asked(session: Session, sql: str = MARRIED, rho: float = 0.1) -> dpx.Answer:
    answer = session.query(sql, rho=rho)
    assert isinstance(answer, dpx.Answer)
    return answer


def test_the_schema_and_the_whole_budget_are_there_at_the_start(session: Session) -> None:
    assert (session.budget.limit, session.budget.spent, session.budget.remaining) == (5.0, 0.0, 5.0)
    assert session.schema.table.name == "adult"
    assert len(session.schema.domain("marital_status")) == 7


def test_an_answer_is_charged_once_and_a_repeated_one_is_free(session: Session) -> None:
    first = asked(session)
    again = asked(session)
    assert (first.free, again.free, again.id) == (False, True, first.id)
    assert again.release == first.release
    assert session.budget.spent == 0.1
    assert abs(first[PAIR[0]].estimate - 0.4461) < 0.01


def test_previews_tell_prices_and_spend_nothing(session: Session) -> None:
    preview = session.preview(SEX, rho=0.1)
    assert (preview.price.rho, preview.price.free, preview.price.remaining_after) == (0.1, False, 4.9)
    answer = asked(session)
    assert session.preview(MARRIED, rho=0.1).price.free
    assert answer.preview_prepare(rho=0.1).price.remaining_after == 4.8
    assert answer.why(*PAIR).preview(k=3, rho=0.5).price.remaining_after == 4.4
    assert session.budget.spent == 0.1


def test_a_question_is_assessed_for_free(session: Session) -> None:
    question = asked(session).why(*PAIR)
    assert question.verdict is dpx.Verdict.REAL
    assert abs(question.estimate - 0.4006) < 0.01
    assert "Married-civ-spouse" in question.text
    assert session.budget.spent == 0.1


@pytest.mark.parametrize("mechanism", ["one-shot", "vector", "marginals", "auto"])
def test_every_mechanism_explains_and_a_repeated_explanation_is_free(
    session: Session, mechanism: str
) -> None:
    question = asked(session).why(*PAIR)
    table = question.explain(k=3, rho=1.5, mechanism=mechanism)
    again = question.explain(k=3, rho=1.5, mechanism=mechanism)
    assert (table.free, again.free, len(table), table.family_size) == (False, True, 3, 103)
    assert again.release == table.release
    assert "occupation = 'Exec-managerial'" in [str(row.predicate) for row in table]
    assert session.budget.spent == pytest.approx(1.6)


def test_prepare_once_ask_any_number_of_whys_for_free(session: Session) -> None:
    answer = asked(session)
    prepared = answer.prepare(rho=0.2)
    assert not prepared.free
    assert answer.prepare(rho=0.2).free
    for pair in (PAIR, ("Divorced", "Widowed"), ("Never-married", "Separated")):
        question = answer.why(*pair)
        assert question.prepared
        table = question.explain(k=2)
        assert table.free
        assert table[0].gap_without is not None
    assert session.budget.spent == pytest.approx(0.3)


def test_predicates_of_every_kind_can_be_asked_for(session: Session) -> None:
    question = asked(session).why(*PAIR)
    for chosen in (
        {"attributes": ["sex", "race"], "conjuncts": 2},
        {"exclude": ["occupation"]},
        {"predicates": [dpx.ranges("age"), dpx.differs("sex"), "race <> 'White'"]},
        {"predicates": (text for text in ["age > 30", "sex = 'Male'"])},
    ):
        table = question.explain(k=2, rho=0.2, **chosen)
        assert len(table) == 2


def test_weights_and_constants_can_be_asked_about(session: Session) -> None:
    question = asked(session).why({"Divorced": 1, "Separated": 1, "Widowed": -1.5}, at_least=0.01)
    assert question.contrast.weights == (1.0, 1.0, -1.5)
    table = question.explain(k=2, rho=0.5, split="best", mechanism="one-shot", lower_share=0.3)
    assert (len(table), table.request["lower_share"]) == (2, 0.3)


def test_a_story_is_paid_for_once_and_told_again_for_nothing(session: Session) -> None:
    question = asked(session).why(*PAIR)
    assert question.preview_story(rho=0.5).price.rho == 0.5
    story = question.story(rho=0.5)
    assert (story.free, len(story.steps) >= 1) == (False, True)
    assert question.story().records() == story.records()
    assert asked(session).why("Divorced", "Never-married").story().free
    assert session.budget.spent == pytest.approx(0.6)


def test_several_aggregates_come_as_answers(session: Session) -> None:
    answers = session.query("SELECT sex, COUNT(*) AS n, AVG(high_income) FROM adult GROUP BY sex", rho=0.2)
    assert isinstance(answers, dpx.Answers)
    assert answers.names == ("n", "AVG(high_income)")
    question = answers.why("Male", "Female", of="AVG(high_income)")
    assert len(question.explain(k=2, rho=0.3)) == 2
    assert session.answer(answers.id).names == answers.names


def test_groups_of_several_columns_and_bins_are_named_as_ever(session: Session) -> None:
    answer = asked(session, "SELECT sex, age, COUNT(*) FROM adult GROUP BY sex, age", 0.5)
    question = answer.why(("Male", "(30, 40]"), ("Female", "(30, 40]"))
    assert question.verdict is dpx.Verdict.REAL
    assert len(question.explain(k=2, rho=0.5)) == 2


def test_stored_answers_and_history_are_read_again(session: Session) -> None:
    answer = asked(session)
    answer.prepare(rho=0.1)
    kinds = [(entry.kind, entry.state, entry.rho) for entry in session.history if entry.rho]
    assert kinds == [("query", "released", 0.1), ("prepare", "released", 0.1)]
    again = session.answer(answer.id)
    assert again.release == answer.release
    assert session.history[-1].request == {
        "answer": answer.id,
        "of": "AVG(high_income)",
        "rho": 0.1,
        "family": {"attributes": None, "conjuncts": None, "exclude": [], "predicates": None},
    }


def test_values_compute_with_intervals(session: Session) -> None:
    answer = asked(session, SEX)
    ratio = answer["Male"] / answer["Female"]
    assert abs(ratio.estimate - 32_650 / 16_192) < 0.02
    assert ratio.interval[0] < ratio.estimate < ratio.interval[1]


def test_groups_that_the_where_rules_out_are_in_no_answer(session: Session) -> None:
    answer = asked(session, "SELECT sex, COUNT(*) FROM adult WHERE sex = 'Male' GROUP BY sex")
    assert [row.label for row in answer] == ["Male"]
    with pytest.raises(dpx.QuestionError, match="WHERE condition excludes Female"):
        answer.why("Male", "Female")


def test_refusals_have_the_same_words_and_position(session: Session) -> None:
    with pytest.raises(dpx.QueryRefused) as refused:
        session.query("SELECT sex, MAX(age) FROM adult GROUP BY sex", rho=0.1)
    assert (refused.value.line, refused.value.column) == (1, 13)
    assert "MAX" in refused.value.problem
    answer = asked(session)
    with pytest.raises(dpx.QuestionError, match="'Married'"):
        answer.why("Married", "Never-married")
    with pytest.raises(dpx.ExplanationError, match="k must be"):
        answer.why(*PAIR).explain(k=0, rho=0.1)
    with pytest.raises(dpx.ExplanationError, match="needs a price"):
        answer.why(*PAIR).explain(k=5)
    with pytest.raises(dpx.BadRequest, match="rho must be"):
        session.query(SEX, rho=-1)
    assert session.budget.spent == 0.1


def test_an_exhausted_budget_refuses_and_past_answers_stay_free(session: Session) -> None:
    answer = asked(session, rho=4.9)
    with pytest.raises(dpx.BudgetExhausted, match=r"0\.1"):
        session.query(SEX, rho=0.2)
    assert asked(session, rho=4.9).free
    assert session.answer(answer.id).free
    assert session.budget.remaining == 0.1


def test_true_values_are_for_curators_only(session: Session, opened: Opener) -> None:
    answer = asked(session)
    question = answer.why(*PAIR)
    table = question.explain(k=2, rho=0.5)
    for ask in (answer.truth, question.truth, table.truth):
        with pytest.raises(dpx.CuratorOnly):
            ask()


def test_a_curator_compares_with_the_truth(opened: Opener) -> None:
    owner = opened(curator=True)
    answer = asked(owner)
    question = answer.why(*PAIR)
    table = question.explain(k=2, rho=1.0)
    assert answer.truth().rows[0]["true"] == pytest.approx(0.4461, abs=0.0005)
    true = question.truth(attributes=["sex"])
    assert {row["predicate"] for row in true.rows} == {"sex = 'Female'", "sex = 'Male'"}
    assert {row["rank_covered"] for row in table.truth().rows} <= {True, False}
    assert "curator" in repr(owner)


def test_results_are_shown_exported_and_saved(session: Session, tmp_path: Path) -> None:
    answer = asked(session)
    table = answer.why(*PAIR).explain(k=2, rho=0.5)
    assert len(answer.to_pandas()) == 7
    assert len(table.to_arrow()) == 2
    assert "<" in table._repr_html_()
    assert table.save(tmp_path / "report.html").stat().st_size > 1_000
    assert session.budget.spent == pytest.approx(0.6)


def test_quality_is_paid_once_and_then_every_answer_tells_it(session: Session, opened: Opener) -> None:
    answer = asked(session)
    before = answer.shaped_by
    assert session.preview_quality(0.2).price.rho == 0.2
    quality = session.quality(rho=0.2)
    assert (quality.free, session.quality(rho=0.2).free) == (False, True)
    assert session.budget.spent == pytest.approx(0.3)
    assert quality.share("high_income", "bounds", "above")[1] < 0.01
    told = asked(opened()).shaped_by
    assert told == answer.shaped_by != before
    assert told[-1].endswith(f" {quality.id}.")


def test_influences_of_ones_own_run_only_where_the_data_are(session: Session) -> None:
    question = asked(session, SEX).why("Male", "Female")
    if type(dataset_of(session)).__name__ == "RemoteDataset":
        with pytest.raises(dpx.BadRequest, match=r"server does not accept.*why_ratio"):
            question.explain(k=2, rho=0.5, influence=dpx.RatioInfluence())
    else:
        assert len(question.explain(k=2, rho=0.5, influence=dpx.RatioInfluence())) == 2


def test_conditions_that_say_the_same_are_folded_alike_here_and_there(session: Session) -> None:
    answer = asked(session)
    family: dict[str, Any] = {"attributes": ["relationship", "sex"], "conjuncts": 2}
    answer.prepare(rho=1.0, **family)
    question = answer.why(*PAIR)
    folded, every = question.explain(k=8, **family), question.explain(k=8, distinct=False, **family)
    assert folded.distinct
    assert not any(row.folded for row in every)
    husbands = next(
        row for row in folded if "Husband" in str(row.predicate) and "'Male'" in str(row.predicate)
    )
    assert "relationship = 'Husband'" in [str(condition.predicate) for condition in husbands.folded]
    low, high = husbands.folded[0].same_rows or (0.0, 0.0)
    assert 0.9 <= low <= high <= 1.0, "nearly every husband is male"


def test_a_price_in_epsilon_is_the_same_rho_here_and_there(session: Session) -> None:
    answer = session.query(SEX, epsilon=0.5)
    assert isinstance(answer, dpx.Answer)
    assert answer.rho == rho_for_epsilon(0.5, 1e-6, is_gaussian=True)
    assert session.query(SEX, epsilon=0.5).free
    assert answer.prepare(epsilon=0.5).rho == answer.rho
    assert answer.why("Male", "Female").explain(k=2, epsilon=0.5).free
    alone = answer.why("Male", "Female").explain(k=2, epsilon=0.5, mechanism="one-shot")
    assert alone.rho == rho_for_epsilon(0.5, 1e-6, is_gaussian=False)


def test_a_query_without_a_price_names_the_same_three_here_and_there(session: Session) -> None:
    with pytest.raises(dpx.BadRequest) as refused:
        session.query(SEX)
    assert refused.value.problem == (
        "How precise should it be? Rough: ρ 0.02, ±10 rows. Good: ρ 0.1, ±5 rows. Sharp: ρ 0.5, ±2 rows."
    )
    assert session.budget.spent == 0
