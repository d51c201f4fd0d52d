"""A price asked for in ε, and a query without a price: what is charged, what is refused, what is said."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dpxplain as dpx
from dpxplain.datasets import path as bundled
from dpxplain.model.schema import Schema
from dpxplain.privacy.accounting import epsilon, rho_for_epsilon
from dpxplain.results import base

SQL = "SELECT sex, AVG(high_income) FROM adult GROUP BY sex"
DELTA = 1e-6
GAUSSIAN = rho_for_epsilon(0.5, DELTA, is_gaussian=True)
ANY_NOISE = rho_for_epsilon(0.5, DELTA, is_gaussian=False)


@pytest.fixture
def session() -> Any:
    return dpx.example("adult")


@pytest.fixture
def answer(session: Any) -> Any:
    return session.query(SQL, rho=0.1)


@pytest.fixture
def question(answer: Any) -> Any:
    return answer.why("Male", "Female")


def test_the_same_epsilon_again_is_the_same_request_and_free(session: Any) -> None:
    first, again = session.query(SQL, epsilon=0.5), session.query(SQL, epsilon=0.5)
    assert (first.rho, again.free, again.id) == (GAUSSIAN, True, first.id)
    assert session.query(SQL, rho=GAUSSIAN).free
    assert session.budget.spent == GAUSSIAN
    assert session.history[0].request == {"sql": SQL, "rho": GAUSSIAN}


def test_every_call_with_a_rho_takes_an_epsilon_and_spends_no_more(session: Any, question: Any) -> None:
    answer, counted = question.answer, session.query("SELECT sex, COUNT(*) FROM adult GROUP BY sex", rho=0.1)
    previews = {
        "query": session.preview("SELECT race, COUNT(*) FROM adult GROUP BY race", epsilon=0.5),
        "prepare": answer.preview_prepare(epsilon=0.5),
        "explain": question.preview(epsilon=0.5),
        "one-shot": question.preview(epsilon=0.5, mechanism="one-shot"),
        "custom": counted.why("Male", "Female").preview(epsilon=0.5, influence=dpx.RatioInfluence()),
        "story": question.preview_story(epsilon=0.5),
        "quality": session.preview_quality(epsilon=0.5),
        "tune": session.preview_tune(epsilon=0.5, columns=["age"]),
    }
    for name, preview in previews.items():
        price = preview.price
        assert price.rho == (ANY_NOISE if name in ("one-shot", "custom") else GAUSSIAN), name
        assert price.epsilon <= 0.5, name
    before = session.budget.spent
    assert answer.prepare(epsilon=0.5).rho == GAUSSIAN
    assert session.quality(epsilon=0.5).rho == GAUSSIAN
    assert session.tune(epsilon=0.5, columns=["age"]).rho == GAUSSIAN
    assert session.budget.spent == pytest.approx(before + 3 * GAUSSIAN)  # type: ignore[operator]


def test_a_selection_gets_the_rho_that_holds_for_any_noise(session: Any, question: Any) -> None:
    before = session.budget
    table = question.explain(k=2, epsilon=0.5, mechanism="one-shot")
    assert table.rho == ANY_NOISE
    spent, gaussian = session.budget.spent - before.spent, session.budget.gaussian - before.gaussian
    assert epsilon(spent, DELTA, gaussian) <= 0.5
    assert question.explain(k=2, epsilon=0.5, mechanism="one-shot").free


def test_an_explanation_and_a_story_are_bought_by_epsilon_once(session: Any, question: Any) -> None:
    assert question.explain(k=2, epsilon=0.5).rho == GAUSSIAN
    assert question.explain(k=3, epsilon=0.5).free
    story = question.story(epsilon=1.0)
    spent = session.budget.spent
    assert story.rho == rho_for_epsilon(1.0, DELTA, is_gaussian=True)
    assert question.story(epsilon=1.0).free
    assert session.budget.spent == spent


def test_values_are_discovered_for_an_epsilon_that_holds_for_any_noise(tmp_path: Path) -> None:
    rows = tmp_path / "visits.csv"
    rows.write_text("city,age\n" + "".join(f"{'Bern' if n % 2 else 'Basel'},{n % 90}\n" for n in range(4000)))
    schema = {
        "table": {"name": "visits"},
        "privacy": {"rho": 5.0},
        "columns": {"city": {"values": "discover"}, "age": {"bounds": [0, 90]}},
    }
    with dpx.connect(rows, schema, workspace=tmp_path / "work") as session:
        assert session.preview_discover("city", epsilon=0.5).price.rho == ANY_NOISE
        assert session.discover("city", epsilon=0.5).values == ("Basel", "Bern")


LONG = pytest.param(10**5000, id="long")


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf, True, "1", [1], LONG])
def test_an_epsilon_that_is_no_positive_number_is_refused(session: Any, question: Any, wrong: Any) -> None:
    spent = session.budget.spent
    for call in (
        lambda: session.query(SQL, epsilon=wrong),
        lambda: question.answer.prepare(epsilon=wrong),
        lambda: question.explain(epsilon=wrong),
        lambda: session.quality(epsilon=wrong),
    ):
        with pytest.raises(dpx.BadRequest, match="epsilon must be a positive number"):
            call()
    assert session.budget.spent == spent


def test_an_epsilon_below_what_can_be_spent_is_refused_with_the_least(tmp_path: Path) -> None:
    with (
        dpx.connect(bundled("adult.parquet"), adult(delta=1e-12), workspace=tmp_path) as session,
        pytest.raises(dpx.BadRequest, match=r"the least that can be spent is ρ 1e-12 \(ε .* at δ 1e-12\)"),
    ):
        session.query(SQL, epsilon=1e-9)


def test_rho_and_epsilon_together_are_refused(session: Any, question: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: session.query(SQL, 0.1, epsilon=1.0),
        lambda: session.preview(SQL, 0.1, epsilon=1.0),
        lambda: question.answer.prepare(0.1, epsilon=1.0),
        lambda: question.explain(5, 0.1, epsilon=1.0),
        lambda: question.story(0.1, epsilon=1.0),
        lambda: session.quality(0.1, epsilon=1.0),
        lambda: session.tune(0.1, epsilon=1.0),
    ]
    for call in calls:
        with pytest.raises(dpx.BadRequest, match="Both rho and epsilon were given"):
            call()


def test_a_query_without_a_price_is_refused_with_what_three_prices_buy_of_it(session: Any) -> None:
    with pytest.raises(dpx.BadRequest) as refused:
        session.query(SQL)
    pattern = r"(Rough|Good|Sharp): ρ ([\d.]+), ±([\d.]+) percentage points"
    margins = re.findall(pattern, refused.value.problem)
    assert [(name, rho) for name, rho, _ in margins] == [("Rough", "0.02"), ("Good", "0.1"), ("Sharp", "0.5")]
    for _, rho, margin in margins:
        by_size = dict(session.preview(SQL, rho=float(rho)).margin_by_group_size)
        assert 100 * by_size[1000] == pytest.approx(float(margin), rel=0.01)
    assert refused.value.problem.count("in a group of 1,000") == 1
    assert session.budget.spent == 0


def test_prices_that_are_paid_or_out_of_reach_say_so(session: Any) -> None:
    session.query(SQL, rho=0.1)
    session.query("SELECT race, COUNT(*) FROM adult GROUP BY race", rho=4.8)
    with pytest.raises(dpx.BadRequest) as refused:
        session.query(SQL)
    assert "Good: free, because it was asked before" in refused.value.problem
    assert "Sharp: ρ 0.5, more than the ρ 0.1 left" in refused.value.problem


def test_three_prices_are_those_of_the_page() -> None:
    script = (Path(__file__).parents[2] / "page" / "src" / "lib" / "precision.ts").read_text()
    names = ", ".join(f"'{name}'" for name in base.PRICE_NAMES)
    assert f"[{names}]" in script
    assert f"FACTOR = {base._FACTOR};" in script
    assert f"SHARE = {base._SHARE};" in script


def adult(**privacy: Any) -> dict[str, Any]:
    declared = Schema.load(bundled("adult.toml")).model_dump(exclude_defaults=True)
    return declared | {"privacy": declared["privacy"] | privacy}


def test_a_declared_default_is_the_price_of_a_query_that_names_none(tmp_path: Path) -> None:
    data = bundled("adult.parquet")
    with dpx.connect(data, adult(default_rho=0.2), workspace=tmp_path) as session:
        assert session.preview(SQL).price.rho == 0.2
        assert session.query(SQL).rho == 0.2
        assert session.query(SQL, rho=0.1).rho == 0.1
        assert session.query(SQL, epsilon=0.5).rho == GAUSSIAN


def test_a_default_may_come_change_and_go_without_touching_what_is_stored(tmp_path: Path) -> None:
    data = bundled("adult.parquet")
    with dpx.connect(data, adult(), workspace=tmp_path) as session:
        first = session.query(SQL, rho=0.2)
        first.prepare(rho=0.02)
        fingerprint = session.schema.fingerprint()
    for default in (0.2, 0.3, None):
        privacy = {} if default is None else {"default_rho": default}
        with dpx.connect(data, adult(**privacy), workspace=tmp_path) as session:
            again = session.query(SQL, rho=0.2)
            assert (again.free, again.id) == (True, first.id)
            assert session.answer(first.id).why("Male", "Female").explain(k=1).free
            assert session.schema.fingerprint() == fingerprint
            assert session.budget.spent == 0.22


@pytest.mark.parametrize("wrong", [0, -0.1, 1e-13, math.nan, math.inf, 6.0, "much"])
def test_a_default_is_a_price_within_the_whole_budget(wrong: Any) -> None:
    with pytest.raises(dpx.SchemaError, match="default_rho"):
        Schema.load(adult(default_rho=wrong))
