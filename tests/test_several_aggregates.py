"""Several aggregates in one SELECT: one ρ, one charge, and each can be looked at and asked about."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from call_counts import calls
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import QueryRefused
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import UNITS_PER_RHO, apportion, spend_units
from dpxplain.model.process import cached_property
from dpxplain.model.release import AnswersRelease
from dpxplain.model.schema import Schema
from dpxplain.phases.answer_query import QueriesPlan, plan_queries
from dpxplain.phases.assess import group_estimates
from dpxplain.phases.dataset import LocalReleaser, OpenDataset
from dpxplain.privacy.mechanisms.noise import OpenDPNoise
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.session import Session
from dpxplain.sql.parse import parse
from opened import dataset_of

SCHEMA: dict[str, Any] = {
    "table": {"name": "t"},
    "privacy": {"rho": 100.0},
    "columns": {
        "g": {"values": ["A", "B", "C"]},
        "kind": {"values": ["x", "y", "z"]},
        "pay": {"bounds": [0, 10]},
        "age": {"bounds": [0, 100], "edges": [0, 50, 100]},
    },
}
SQL = "SELECT g, COUNT(*) AS n, AVG(pay), SUM(age) AS total FROM t GROUP BY g"


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    groups = np.repeat(["A", "B"], [600, 300])  # C is declared and empty
    pay = np.where(groups == "A", 7.0, 2.0) + rng.integers(-2, 3, 900)
    pay[::10] = np.nan
    return pd.DataFrame(
        {"g": groups, "kind": rng.choice(["x", "y", "z"], 900), "pay": pay, "age": rng.integers(0, 101, 900)}
    )


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Session]:
    with dpx.connect(frame(), SCHEMA, workspace=tmp_path, curator=True) as session:
        yield session


@pytest.fixture
def answers(owner: Session) -> Answers:
    asked = owner.query(SQL, rho=3.0)
    assert isinstance(asked, Answers)
    return asked


def test_one_aggregate_is_an_answer_as_ever(owner: Session) -> None:
    assert isinstance(owner.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0), Answer)


def test_rows_hold_all_values_by_their_selected_names(answers: Answers) -> None:
    assert [row.label for row in answers] == ["A", "B", "C"]
    assert answers.names == ("n", "AVG(pay)", "total")
    row = next(iter(answers))
    assert list(row.values) == ["n", "AVG(pay)", "total"]
    assert row["AVG(pay)"] == answers["AVG(pay)"]["A"]
    assert abs(row["n"].estimate - 600) < 10
    assert abs(row["AVG(pay)"].estimate - 7) < 0.3


def test_an_aggregate_is_found_by_its_alias_or_as_sql_writes_it(answers: Answers) -> None:
    assert answers["n"] is answers["COUNT(*)"]
    assert answers["total"] is answers["SUM(age)"]
    with pytest.raises(dpx.QuestionError, match=r"'A' is not an aggregate .* n, AVG\(pay\), total"):
        answers["A"]


def test_one_rho_is_charged_once_and_split_over_what_is_measured(owner: Session, answers: Answers) -> None:
    assert owner.budget.spent == 3.0
    (entry,) = owner.history
    assert (entry.kind, entry.rho, entry.spends) == ("query", 3.0, answers.spends)
    assert [str(spend) for spend in answers.spends] == [
        "COUNT(*): counts (Gaussian)",
        "pay: counts (Gaussian)",
        "pay: sums (Gaussian)",
        "age: counts (Gaussian)",
        "age: sums (Gaussian)",
    ]
    assert math.fsum(spend.rho for spend in answers.spends) == 3.0
    assert [(part.rho, part.spends) for part in answers.answers] == [(3.0, answers.spends)] * 3
    alone = 1 / math.sqrt(2 * 3.0)
    assert alone < answers["n"]["A"].scale < math.sqrt(3) * alone  # of a third of the budget


@pytest.mark.parametrize("parts", range(1, 12))
@pytest.mark.parametrize("rho", [0.1, 0.3, 1.0, 1 / 3, 5e-11, 123456.789])
def test_equal_shares_are_all_of_rho_and_not_a_digit_more(rho: float, parts: int) -> None:
    shares = apportion(rho, [1 / parts] * parts)
    assert math.fsum(shares) == rho
    assert sum(map(Fraction, shares)) <= Fraction(rho)
    assert max(shares) <= min(shares) * (1 + 1e-12) + 2 / UNITS_PER_RHO


def test_spends_add_up_to_rho_exactly(owner: Session) -> None:
    for rho in (0.1, 0.7, 1 / 3):
        assert math.fsum(spend.rho for spend in owner.query(SQL, rho=rho).spends) == rho


def test_the_same_request_is_free_in_any_order_and_under_any_names(owner: Session, answers: Answers) -> None:
    again = owner.query("SELECT SUM(age), AVG(pay) AS m, g, COUNT(1) FROM t GROUP BY g LIMIT 1", rho=3.0)
    assert (again.free, again.id, owner.budget.spent) == (True, answers.id, 3.0)
    assert again.names == ("SUM(age)", "m", "COUNT(*)")
    for name in ("SUM(age)", "AVG(pay)", "COUNT(*)"):
        assert again[name]["B"] == answers[name]["B"]
    assert owner.preview(SQL, rho=3.0).price.free
    assert not owner.preview(SQL, rho=2.0).price.free
    assert not owner.query("SELECT g, COUNT(*), AVG(pay) FROM t GROUP BY g", rho=3.0).free


def test_a_stored_answer_is_reopened_by_its_number(owner: Session, answers: Answers) -> None:
    single = owner.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0)
    for reopened in (owner.answer(answers.id), owner.answer(answers.id, confidence=0.95)):
        assert isinstance(reopened, Answers)
        assert reopened.records() == answers.records()
    assert isinstance(owner.answer(), Answer)
    assert owner.answer().records() == single.records()


def test_a_stored_payload_has_a_version_and_others_are_refused(owner: Session, answers: Answers) -> None:
    text = answers.release.to_json()
    assert json.loads(text)["version"] == 3
    assert AnswersRelease.from_json(text) == answers.release
    with pytest.raises(dpx.BadRequest, match="another version"):
        AnswersRelease.from_json(text.replace('"version": 3', '"version": 4'))


def test_all_or_nothing_when_the_budget_does_not_suffice(owner: Session) -> None:
    owner.query(SQL, rho=99.0)
    with pytest.raises(dpx.BudgetExhausted):
        owner.query(SQL, rho=1.5)
    assert owner.budget.spent == 99.0
    assert len(owner.history) == 1


def test_the_whole_rho_is_reserved_before_data_is_read(owner: Session) -> None:
    seen: list[tuple[float, str]] = []

    class Watched:
        is_live = False

        def grouped(self, *args: Any, **options: Any) -> Any:
            if not options["rehearsed"]:
                seen.append((owner.budget.spent, owner.history[-1].state))
            return engine.grouped(*args, **options)

    engine, dataset_of(owner).engine = dataset_of(owner).engine, Watched()
    owner.query(SQL, rho=3.0)
    dataset_of(owner).engine = engine
    assert seen == [(3.0, "reserved")] * 3


def test_a_rho_too_small_to_share_is_refused_and_costs_nothing(owner: Session) -> None:
    with pytest.raises(dpx.BadRequest, match="too small for 3 aggregates"):
        owner.query(SQL, rho=2e-12)
    assert owner.history == []


@pytest.mark.parametrize("name", ["n", "AVG(pay)", "SUM(age)"])
def test_each_can_be_asked_about_and_explained(answers: Answers, name: str) -> None:
    question = answers.why("A", "B", of=name)
    assert question.verdict is dpx.Verdict.REAL
    assert str(answers[name].statement.query.aggregate) in question.text
    alone = answers[name].why("A", "B")
    assert (alone.estimate, alone.interval) == (question.estimate, question.interval)
    table = question.explain(k=2, rho=1.0)
    assert len(table) == 2
    assert len(table.truth().records()) == 2
    with pytest.raises(dpx.QuestionError, match=r"several aggregates.*of='n'"):
        answers.why("A", "B")


def test_order_and_limit_act_on_any_output_and_on_every_part(owner: Session) -> None:
    sql = "SELECT g, COUNT(*), AVG(pay) AS m FROM t GROUP BY g ORDER BY {} LIMIT 2"
    by_mean = sorted("AB", key=lambda group: owner.query(sql.format(1), rho=50.0)["m"][group].estimate)
    for order, labels in (
        ("m", by_mean),  # C is empty, so its average is blank and comes last
        ("AVG(pay) DESC", by_mean[::-1]),
        ("2 DESC", ["A", "B"]),
        ("COUNT(*)", ["C", "B"]),
        ("g DESC", ["C", "B"]),
    ):
        shown = owner.query(sql.format(order), rho=50.0)
        assert [row.label for row in shown] == labels
        assert all([row.label for row in part] == labels for part in shown.answers)
        assert len(shown) == len(shown.records()) == 2
    assert owner.budget.spent == 50.0


def test_exports_have_value_low_and_high_of_each_aggregate(answers: Answers) -> None:
    columns = ["g", "n", "n_low", "n_high", "AVG(pay)", "AVG(pay)_low", "AVG(pay)_high"]
    columns += ["total", "total_low", "total_high"]
    assert list(answers.to_pandas().columns) == columns
    assert answers.to_polars().columns == columns
    assert answers.to_arrow().column_names == columns
    assert answers.to_csv().splitlines()[0] == ",".join([*columns, "shaped_by"])
    record = json.loads(answers.to_json())["rows"][0]
    assert record["AVG(pay)"] == answers["AVG(pay)"]["A"].estimate
    assert (record["n_low"], record["n_high"]) == answers["n"]["A"].interval


def test_an_alias_that_looks_like_our_columns_keeps_its_own(owner: Session) -> None:
    shown = owner.query('SELECT g AS n_low, COUNT(*) AS n, AVG(pay) AS "true" FROM t GROUP BY g', rho=1.0)
    assert shown.records()[0]["n_low"] == "A"
    assert shown.records()[0]["n_low_"] == shown["n"]["A"].interval[0]
    other = owner.query(
        'SELECT g AS "true", kind AS value, COUNT(*), AVG(pay) FROM t GROUP BY g, kind', rho=1.0
    )
    record = other.truth().records()[0]
    assert (record["true"], record["value"], record["aggregate"]) == ("A", "x", "COUNT(*)")


def test_the_curator_sees_the_truth_of_each(owner: Session, answers: Answers, tmp_path: Path) -> None:
    data, truth = frame(), answers.truth().to_pandas().set_index(["g", "aggregate"])
    assert len(truth) == 9
    assert truth.loc[("A", "n"), "true"] == 600
    assert truth.loc[("B", "AVG(pay)"), "true"] == pytest.approx(data.pay.clip(0, 10)[data.g == "B"].mean())
    assert truth.loc[("B", "total"), "true"] == data.age[data.g == "B"].sum()
    assert truth.loc[("C", "AVG(pay)"), "covered"] is None
    with (
        dpx.connect(data, SCHEMA, workspace=tmp_path / "analyst") as analyst,
        pytest.raises(dpx.CuratorOnly),
    ):
        analyst.query(SQL, rho=1.0).truth()


def test_a_preview_has_the_margins_of_each_and_spends_nothing(owner: Session) -> None:
    preview = owner.preview(SQL, rho=3.0)
    assert owner.history == []
    assert (preview.price.rho, preview.groups) == (3.0, 3)
    assert math.fsum(spend.rho for spend in preview.price.spends) == 3.0
    records = preview.records()
    assert [r["aggregate"] for r in records] == ["n", "AVG(pay)", "AVG(pay)", "AVG(pay)", "total"]
    asked = owner.query(SQL, rho=3.0)
    for name in ("n", "total"):
        low, high = asked[name]["A"].interval
        assert preview[name].margin == pytest.approx((high - low) / 2)
    alone, third = (owner.preview("SELECT g, AVG(pay) FROM t GROUP BY g", rho=rho) for rho in (3.0, 1.0))
    for part in zip(*(p.margin_by_group_size for p in (alone, preview["AVG(pay)"], third)), strict=True):
        least, margin, most = (margin for _, margin in part)
        assert least < margin < most


def test_several_aggregates_without_groups(owner: Session) -> None:
    shown = owner.query("SELECT COUNT(*), AVG(pay) FROM t", rho=2.0)
    assert [row.label for row in shown] == ["all rows"]
    assert shown.why("all rows", of="COUNT(*)", at_least=100).verdict is dpx.Verdict.REAL


# -- Privacy -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_aggregate_covers_at_its_level_and_noises_depend_as_they_say(tmp_path: Path) -> None:
    sql = "SELECT g, COUNT(pay), SUM(pay), AVG(pay) FROM t GROUP BY g"
    with dpx.connect(frame(), SCHEMA, workspace=tmp_path, curator=True, insecure_seed=5) as owner:
        truth = owner.query(sql, rho=0.3).truth().to_pandas().set_index(["g", "aggregate"])["true"]
        dataset, schema = dataset_of(owner), dataset_of(owner).schema
        plan, runs, level = plan_queries(parse(sql, schema).queries, schema, 0.3), 1500, 0.9
        covered = dict.fromkeys(map(str, (query.aggregate for query in plan.queries)), 0)
        errors: dict[str, list[float]] = {name: [] for name in covered}
        for _ in range(runs):
            releases = plan.measure(dataset).answers
            for query, release in zip(plan.queries, releases, strict=True):
                name = str(query.aggregate)
                value, (low, high), _ = group_estimates(release, query, schema, level)[0]
                covered[name] += low <= truth["A", name] <= high
                errors[name].append(value - truth["A", name])
    chance = 3.3 * math.sqrt(level * (1 - level) / runs)
    for name, hits in covered.items():
        assert hits / runs >= level - chance - (0.005 if name == "AVG(pay)" else 0), name
        assert hits / runs <= level + chance + 0.01, name
    by_kind = dict(zip((query.aggregate.kind for query in plan.queries), releases, strict=True))
    count, total = dict(by_kind["count"].count_noise), dict(by_kind["sum"].sum_noise)
    shared = sum(count[name] * total[name] for name in count.keys() & total.keys())
    expected = shared / (by_kind["count"].count_scale * by_kind["sum"].sum_scale)
    assert expected > 0.5
    correlation = np.corrcoef(errors["COUNT(pay)"], errors["SUM(pay)"])[0, 1]
    assert abs(correlation - expected) < 4 / math.sqrt(runs)


def test_neighbouring_tables_have_answers_of_one_shape() -> None:
    schema = Schema.load(SCHEMA)
    base = frame()
    more = pd.concat([base, base.iloc[:1].assign(g="C")])
    tables = [base, base.iloc[1:], more, base.iloc[:0], base.assign(pay=np.nan)]
    forms = []
    for table in tables:
        ledger = open_ledger(None)
        ledger.open_dataset("t", 100.0, 1e-6)
        with Session(
            OpenDataset(schema, DuckDBEngine(table, schema), ledger, LocalReleaser(ledger), OpenDPNoise())
        ) as session:
            shown = session.query(SQL, rho=3.0)
            assert all(math.isfinite(value.estimate) for row in shown for value in row.values.values())
            scales = [(part.release.count_scale, part.release.sum_scale) for part in shown.answers]
            records = [list(record) for record in shown.records()]
            forms.append((len(shown), records, shown.spends, scales, session.budget, shown.private))
    assert all(form == forms[0] for form in forms)


def test_an_interrupted_measurement_stays_charged(owner: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = QueriesPlan.measure

    def fail(plan: QueriesPlan, dataset: OpenDataset) -> Any:
        if dataset.is_rehearsal:
            return measure(plan, dataset)
        raise KeyboardInterrupt

    monkeypatch.setattr("dpxplain.phases.answer_query.QueriesPlan.measure", fail)
    with pytest.raises(KeyboardInterrupt):
        owner.query(SQL, rho=3.0)
    assert owner.budget.spent == 3.0
    assert [entry.state for entry in owner.history] == ["reserved"]


# -- Many aggregates ---------------------------------------------------------------------------------------


def many(number: int, template: str = "SUM(pay + {})", rest: str = "") -> str:
    """A SELECT with so many aggregates of different columns."""
    return f"SELECT {', '.join([*([rest] if rest else []), *map(template.format, range(number))])} FROM t"


@pytest.mark.parametrize("number", [50, 51, 54, 57, 100])
@pytest.mark.parametrize("template", ["SUM(pay + {})", "AVG(pay + {})", "COUNT(pay + {})"])
def test_many_equal_aggregates_share_rho_to_the_last_unit(number: int, template: str) -> None:
    schema = Schema.load(SCHEMA)
    queries = parse(many(number, template), schema).queries
    for rho in (1.0, 0.1, 1e-7):
        spends = plan_queries(queries, schema, rho).spends
        units = [round(spend.rho * UNITS_PER_RHO) for spend in spends]
        assert all(
            math.isclose(spend.rho * UNITS_PER_RHO, unit) for spend, unit in zip(spends, units, strict=True)
        )
        assert min(units) >= 1
        assert sum(units) == spend_units(rho)
        assert sum(Fraction(spend.rho) for spend in spends) <= Fraction(rho)
        assert max(units) <= Fraction(11, 5) * min(units)  # a count and a sum in two grains, or one


@pytest.mark.parametrize("number", [51, 100])
def test_many_equal_sums_are_answered(owner: Session, number: int) -> None:
    answers = owner.query(many(number), rho=1.0)
    assert isinstance(answers, Answers)
    assert len(answers.names) == number
    assert math.isclose(owner.budget.spent, 1.0)


def test_planning_a_hundred_aggregates_takes_twice_the_work_of_fifty(owner: Session) -> None:
    def plan(number: int) -> None:
        sql = many(number, "AVG(pay + {} / 7)", rest="COUNT(*)")
        plans = plan_queries(parse(sql, owner.schema).queries, owner.schema, 1.0)
        for query in plans.queries:
            plans.expected(query)

    plan(3)  # what is imported and built once
    fifty, hundred = calls(lambda: plan(50)), calls(lambda: plan(99))
    assert hundred < 2.9 * fifty  # weights of every part in every aggregate are its square
    assert hundred < 1_500_000


def test_more_aggregates_than_can_be_planned_are_refused_before_planning(owner: Session) -> None:
    with pytest.raises(QueryRefused, match="more than 256") as refusal:
        owner.preview(many(257, "SUM(pay+{})"), rho=1.0)
    assert refusal.value.remedy
    assert owner.budget.spent == 0
    with pytest.raises(QueryRefused, match="more than 256"):
        owner.preview(f"SELECT COUNT(*) FROM t HAVING {' + '.join(f'SUM(pay+{i})' for i in range(20))} > 0 "
                      f"ORDER BY {', '.join(f'SUM(pay-{i})' for i in range(1, 250))}", rho=1.0)  # fmt: skip


def test_one_callers_long_computation_holds_up_nobody_else() -> None:
    class Plan:
        def __init__(self, wait: threading.Event | None) -> None:
            self.wait = wait

        @cached_property
        def shares(self) -> int:
            started.set()
            if self.wait is not None:
                assert self.wait.wait(60)
            return 1

    started, release = threading.Event(), threading.Event()
    long, short = Plan(release), Plan(None)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(lambda: long.shares)
        assert started.wait(60)
        try:
            assert pool.submit(lambda: short.shares).result(timeout=30) == 1
            assert not waiting.done()
        finally:
            release.set()
        assert waiting.result(60) == 1
