"""Every field that must enter a request's key: changing only this field is never free."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_tables import (
    AVERAGE,
    BY_TEAM,
    COUNT,
    OF_EVERY_KIND,
    PRIVATE_JOIN,
    PUBLIC_JOIN,
    SEVERAL,
    SUM,
    Ask,
    Change,
    Declarations,
    answer,
    discovered,
    explained,
    explained_ratio,
    opened,
    persons,
    prepared,
    private_visits,
    public_cities,
    putting,
    queried,
    told,
    unknown_team,
)

import dpxplain as dpx

ABOVE_30 = "SELECT sex, COUNT(*) FROM people WHERE age > 30 GROUP BY sex"
PAID_QUERIES = [
    ABOVE_30,
    "SELECT sex, QUANTILE_CONT(pay, 0.9) FROM people GROUP BY sex",
    "SELECT sex, city, COUNT(*) FROM people WHERE age > 30 GROUP BY sex, city",
    "SELECT sex, COUNT(*) FROM people WHERE age > 30 AND city = 'Oslo' GROUP BY sex",
    "SELECT sex, COUNT(*) FROM people WHERE city IN ('Oslo', 'Rome') GROUP BY sex",
    "SELECT sex, SUM(pay * 2) FROM people WHERE age > 30 GROUP BY sex",
    "SELECT sex, VARIANCE(pay) FROM people GROUP BY sex",
    "SELECT sex, STDDEV(pay) FROM people GROUP BY sex",
]
CONDITIONS = ["age > 30", "city = 'Oslo'", "city = 'Rome'"]
AVERAGE_ABOVE_30 = "SELECT sex, AVG(pay) FROM people WHERE age > 30 GROUP BY sex"
HOURS = "SELECT sex, AVG(hours) FROM people GROUP BY sex"


def paid(session: dpx.Session, kind: str) -> int:
    """How many releases of a kind were paid for."""
    return sum(line.kind == kind and line.rho > 0 for line in session.history)


def is_free(session: dpx.Session, kind: str, ask: Ask) -> bool:
    before = paid(session, kind)
    ask(session)
    return paid(session, kind) == before


def cheaply_discovered(session: dpx.Session) -> object:
    """A discovery that leaves most of the declared δ for others."""
    return discovered(session, delta=1e-7)


def copied(workspace: Path, folder: Path) -> Path:
    return shutil.copytree(workspace, folder / "workspace")


IsFree = Callable[[dpx.Session], bool]
"""Whether a request is free, by its price."""


def free_query(sql: str, **options: Any) -> IsFree:
    price = {} if "epsilon" in options else {"rho": 0.5}
    return lambda session: session.preview(sql, **price | options).price.free


def free_explanation(sql: str = AVERAGE, why: tuple[Any, ...] = ("F", "M"), **options: Any) -> IsFree:
    asked = {"k": 2, "rho": 0.5} | options
    return lambda session: answer(session, sql).why(*why).preview(**asked).price.free


def free_ratio(*groups: str, **options: Any) -> IsFree:
    asked = {"k": 2, "rho": 0.5, "mechanism": "one-shot"} | options
    return lambda session: answer(session, COUNT).why_ratio(*groups).preview(**asked).price.free


def free_preparation(sql: str = AVERAGE, **options: Any) -> IsFree:
    return lambda session: answer(session, sql).preview_prepare(**{"rho": 0.5} | options).price.free


def free_story(sql: str = AVERAGE, **options: Any) -> IsFree:
    asked = {"rho": 0.5, "levels": 2} | options
    return lambda session: answer(session, sql).why("F", "M").preview_story(**asked).price.free


CUSTOM: dict[str, Any] = {
    "rho": 50.0,
    "influence": dpx.RatioInfluence(thresholds=(-1.0, 0.0, 1.0)),
    "attributes": ["city"],
}


def free_custom(sql: str = COUNT, why: tuple[Any, ...] = ("F", "M"), **options: Any) -> IsFree:
    return free_explanation(sql, why, **CUSTOM | options)


def of_scored(mechanism: str) -> dict[str, IsFree]:
    """The fields that one-shot and vector have in common."""
    return {
        "where": free_explanation(mechanism=mechanism, sql=AVERAGE_ABOVE_30),
        "aggregate": free_explanation(mechanism=mechanism, sql=SUM),
        "column": free_explanation(mechanism=mechanism, sql=HOURS),
        "groups": free_explanation(mechanism=mechanism, why=("M", "F")),
        "one group": free_explanation(mechanism=mechanism, why=("F",)),
        "weights": free_explanation(mechanism=mechanism, why=({"F": 1, "M": -0.5},)),
        "rho": free_explanation(mechanism=mechanism, rho=0.25),
        "epsilon": free_explanation(mechanism=mechanism, rho=None, epsilon=4.0),
        "k": free_explanation(mechanism=mechanism, k=3),
        "confidence": free_explanation(mechanism=mechanism, confidence=0.9),
        "attributes": free_explanation(mechanism=mechanism, attributes=["city", "age"]),
        "exclude": free_explanation(mechanism=mechanism, exclude=["age"]),
        "conjuncts": free_explanation(mechanism=mechanism, conjuncts=2),
        "recipe": free_explanation(mechanism=mechanism, predicates=dpx.thresholds("age")),
        "condition": free_explanation(mechanism=mechanism, predicates=CONDITIONS[1:]),
        "constant": free_explanation(mechanism=mechanism, predicates=["age > 60", *CONDITIONS[1:]]),
    }


# The kind of the entry, the requests that are paid for first, and changes of one field that must not be free.
KINDS: dict[str, tuple[str, list[Ask], dict[str, IsFree]]] = {
    "query": (
        "query",
        [queried(sql) for sql in PAID_QUERIES],
        {
            "rho": free_query(ABOVE_30, rho=0.25),
            "epsilon": free_query(ABOVE_30, epsilon=1.0),
            "no where": free_query(COUNT),
            "constant": free_query("SELECT sex, COUNT(*) FROM people WHERE age > 60 GROUP BY sex"),
            "operator": free_query("SELECT sex, COUNT(*) FROM people WHERE age <= 30 GROUP BY sex"),
            "column": free_query("SELECT sex, COUNT(*) FROM people WHERE hours > 30 GROUP BY sex"),
            "negation": free_query("SELECT sex, COUNT(*) FROM people WHERE NOT age > 30 GROUP BY sex"),
            "or": free_query("SELECT sex, COUNT(*) FROM people WHERE age > 30 OR city = 'Oslo' GROUP BY sex"),
            "one of two": free_query(
                "SELECT sex, COUNT(*) FROM people WHERE city IN ('Oslo', 'Bonn') GROUP BY sex"
            ),
            "groups": free_query("SELECT city, COUNT(*) FROM people WHERE age > 30 GROUP BY city"),
            "order of groups": free_query(
                "SELECT city, sex, COUNT(*) FROM people WHERE age > 30 GROUP BY city, sex"
            ),
            "no groups": free_query("SELECT COUNT(*) FROM people WHERE age > 30"),
            "aggregate": free_query("SELECT sex, SUM(pay) FROM people WHERE age > 30 GROUP BY sex"),
            "counted column": free_query("SELECT sex, COUNT(pay) FROM people WHERE age > 30 GROUP BY sex"),
            "aggregated column": free_query("SELECT sex, SUM(hours) FROM people WHERE age > 30 GROUP BY sex"),
            "number of an expression": free_query(
                "SELECT sex, SUM(pay * 3) FROM people WHERE age > 30 GROUP BY sex"
            ),
            "filter": free_query("SELECT sex, COUNT(*) FILTER (WHERE age > 30) FROM people GROUP BY sex"),
            "level of a quantile": free_query("SELECT sex, QUANTILE_CONT(pay, 0.8) FROM people GROUP BY sex"),
            "kind of variance": free_query("SELECT sex, VAR_POP(pay) FROM people GROUP BY sex"),
            "kind of deviation": free_query("SELECT sex, STDDEV_POP(pay) FROM people GROUP BY sex"),
        },
    ),
    "query of several aggregates": (
        "query",
        [queried(SEVERAL)],
        {
            "rho": free_query(SEVERAL, rho=0.25),
            "one less": free_query("SELECT sex, COUNT(*), SUM(pay) FROM people GROUP BY sex"),
            "another": free_query("SELECT sex, COUNT(*), SUM(pay), AVG(hours) FROM people GROUP BY sex"),
            "where": free_query(
                "SELECT sex, COUNT(*), SUM(pay), AVG(pay) FROM people WHERE age > 30 GROUP BY sex"
            ),
            "groups": free_query("SELECT city, COUNT(*), SUM(pay), AVG(pay) FROM people GROUP BY city"),
            "one for having": free_query(
                "SELECT sex, COUNT(*), SUM(pay), AVG(pay) FROM people GROUP BY sex HAVING SUM(hours) > 5"
            ),
        },
    ),
    "explain one-shot": (
        "explain",
        [explained(mechanism="one-shot", predicates=each) for each in (None, dpx.ranges("age"), CONDITIONS)],
        {
            **of_scored("one-shot"),
            "mechanism": free_explanation(mechanism="vector"),
            "sensitivity": free_explanation(mechanism="one-shot", sensitivity="paper"),
            "split": free_explanation(mechanism="one-shot", split=(1, 2, 3)),
            "best split": free_explanation(mechanism="one-shot", split="best"),
            "lower_share": free_explanation(mechanism="one-shot", lower_share=0.3),
            "distinct": free_explanation(mechanism="one-shot", predicates=dpx.ranges("age"), distinct=True),
        },
    ),
    "explain vector": (
        "explain",
        [explained(mechanism="vector", predicates=each) for each in (None, dpx.ranges("age"), CONDITIONS)],
        {**of_scored("vector"), "mechanism": free_explanation(mechanism="one-shot")},
    ),
    "explain ratio": (
        "explain",
        [explained_ratio("F", "M")],
        {
            "groups": free_ratio("M", "F"),
            "share": free_ratio("F"),
            "difference": free_explanation(COUNT, mechanism="one-shot"),
            "rho": free_ratio("F", "M", rho=0.25),
            "k": free_ratio("F", "M", k=3),
            "confidence": free_ratio("F", "M", confidence=0.9),
        },
    ),
    "explain custom": (
        "explain",
        [explained(COUNT, **CUSTOM)],
        {
            "where": free_custom(sql=ABOVE_30),
            "groups": free_custom(why=("M", "F")),
            "rho": free_custom(rho=40.0),
            "epsilon": free_custom(rho=None, epsilon=80.0),
            "k": free_custom(k=1),
            "confidence": free_custom(confidence=0.9),
            "attributes": free_custom(attributes=["age"]),
            "conjuncts": free_custom(attributes=["city", "age"], conjuncts=2),
            "predicates": free_custom(attributes=None, predicates=dpx.ranges("age")),
            "thresholds": free_custom(influence=dpx.RatioInfluence(thresholds=(-1.0, 0.0, 2.0))),
        },
    ),
    "prepare": (
        "prepare",
        [prepared(), prepared(predicates=dpx.ranges("age"))],
        {
            "where": free_preparation(AVERAGE_ABOVE_30),
            "aggregate": free_preparation(SUM),
            "column": free_preparation(HOURS),
            "rho": free_preparation(rho=0.25),
            "epsilon": free_preparation(rho=None, epsilon=1.0),
            "attributes": free_preparation(attributes=["city", "age"]),
            "exclude": free_preparation(exclude=["age"]),
            "nested conjuncts": free_story(),
            "conjuncts": free_preparation(conjuncts=2),
            "recipe": free_preparation(predicates=dpx.thresholds("age")),
        },
    ),
    "explain marginals": (
        "prepare",
        [explained(mechanism="marginals")],
        {
            "where": free_explanation(mechanism="marginals", sql=AVERAGE_ABOVE_30),
            "aggregate": free_explanation(mechanism="marginals", sql=SUM),
            "higher rho": free_explanation(mechanism="marginals", rho=0.75),
            "conjuncts": free_explanation(mechanism="marginals", conjuncts=2),
            "predicates": free_explanation(mechanism="marginals", predicates=dpx.ranges("age")),
        },
    ),
    "story": (
        "prepare",
        [told()],
        {
            "where": free_story(AVERAGE_ABOVE_30),
            "aggregate": free_story(SUM),
            "higher rho": free_story(rho=0.75),
            "levels": free_story(levels=3),
        },
    ),
    "quality": (
        "quality",
        [lambda session: session.quality(rho=0.5)],
        {"rho": lambda session: session.preview_quality(0.25).price.free},
    ),
    "tune": (
        "tune",
        [lambda session: session.tune(rho=0.5)],
        {
            "rho": lambda session: session.preview_tune(0.25).price.free,
            "columns": lambda session: session.preview_tune(0.5, columns=["pay"]).price.free,
            "more columns": lambda session: session.preview_tune(0.5, columns=["age", "pay"]).price.free,
        },
    ),
}


@pytest.mark.parametrize("plan", KINDS)
def test_a_request_that_differs_in_one_field_is_not_free(plan: str, tmp_path: Path) -> None:
    kind, paid_for, changed = KINDS[plan]
    with opened(tmp_path) as session:
        for ask in paid_for:
            assert not is_free(session, kind, ask)
        for ask in paid_for:
            assert is_free(session, kind, ask)
        assert [field for field, is_still_free in changed.items() if is_still_free(session)] == []


def ratio_of_rows(counts: Any) -> Any:
    return counts.matching(0) / counts.all(1).at_least(1)


def other_ratio(counts: Any) -> Any:
    return counts.matching(1) / counts.all(0).at_least(1)


def test_a_custom_influence_with_other_code_is_not_free(tmp_path: Path) -> None:
    def asked(name: str, formula: Callable[[Any], Any]) -> dict[str, Any]:
        return CUSTOM | {"influence": dpx.FormulaInfluence(name, formula, (-1.0, 0.0, 1.0))}

    with opened(tmp_path, trusted_code=True) as session:
        assert not is_free(session, "explain", explained(COUNT, **asked("rows", ratio_of_rows)))
        assert free_explanation(COUNT, **asked("rows", ratio_of_rows))(session)
        assert not free_explanation(COUNT, **asked("more rows", ratio_of_rows))(session)
        assert not free_explanation(COUNT, **asked("rows", other_ratio))(session)


# -- What the schema declares ------------------------------------------------------------------------------

DECLARED: dict[str, Change] = {
    "version": putting("table.version", "2025"),
    "unit": putting("privacy.unit", "person"),
    "max_rows": persons,
    "neighbours": putting("privacy.neighbours", "bounded"),
    "values": putting("columns.sex.values", ["F", "M", "X"]),
    "order of values": putting("columns.sex.values", ["M", "F"]),
    "edges": putting("columns.age.edges", [0, 30, 90]),
    "edges of dates": putting("columns.joined.edges", ["2024-01-01", "2024-06-01", "2025-01-01"]),
    "bounds": putting("columns.pay.bounds", [0, 99]),
    "step": putting("columns.pay.step", 2),
    "center": putting("columns.hours.center", 25),
    "expression": putting("columns.south.expression", "city = 'Bonn'"),
    "groups": putting("columns.region.groups", {"North": ["Bonn"], "South": ["Rome", "Oslo"]}),
    "names of groups": putting("columns.region.groups", {"A": ["Bonn", "Oslo"], "South": ["Rome"]}),
    "null": putting("columns.sex.null", True),
    "another column": putting("columns.more", {"expression": "pay * 2"}),
    "name of a column": lambda declared: declared["columns"].update(west=declared["columns"].pop("south")),
    "unknown column": unknown_team,
    "public table": public_cities,
}

WORDS: dict[str, Change] = {
    "rho": putting("privacy.rho", 2000.0),
    "delta": putting("privacy.delta", 1e-5),
    "noise": putting("privacy.noise", "opendp"),
    "default_rho": putting("privacy.default_rho", 1.0),
    "source": putting("table.source", "people.parquet"),
    "cache": putting("table.cache", True),
    "storage": putting("table.storage", "memory"),
    "label": putting("columns.pay.label", "Pay"),
    "unit": putting("columns.pay.unit", "euros"),
    "value_labels": putting("columns.sex.value_labels", {"F": "women", "M": "men"}),
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which one request of every kind was paid for."""
    folder = tmp_path_factory.mktemp("asked")
    with opened(folder) as session:
        for ask in OF_EVERY_KIND.values():
            ask(session)
        assert session.preview(COUNT, rho=0.5).price.free
    return folder


@pytest.mark.parametrize("change", DECLARED)
def test_a_query_under_another_declaration_is_not_free(change: str, asked: Path, tmp_path: Path) -> None:
    with opened(copied(asked, tmp_path), DECLARED[change]) as session:
        assert not session.preview(COUNT, rho=0.5).price.free


@pytest.mark.parametrize("change", ["version", "bounds"])
def test_no_kind_of_request_is_free_under_another_declaration(
    change: str, asked: Path, tmp_path: Path
) -> None:
    with opened(copied(asked, tmp_path), DECLARED[change]) as session:
        assert [kind for kind, ask in OF_EVERY_KIND.items() if is_free(session, kind, ask)] == []


def test_what_changes_no_number_leaves_every_kind_of_request_free(asked: Path, tmp_path: Path) -> None:
    with opened(copied(asked, tmp_path), *WORDS.values()) as session:
        assert [kind for kind, ask in OF_EVERY_KIND.items() if not is_free(session, kind, ask)] == []


def test_a_seeded_release_is_only_free_for_the_same_seed(tmp_path: Path) -> None:
    requests = {"discover": cheaply_discovered} | OF_EVERY_KIND

    def free(seed: int | None) -> list[str]:
        with opened(tmp_path, unknown_team, insecure_seed=seed) as session:
            return [kind for kind, ask in requests.items() if is_free(session, kind, ask)]

    assert free(seed=7) == []
    assert free(seed=None) == []


# -- Joined tables and discovered values -------------------------------------------------------------------

VISITS = "tables.visits"


def swap_max_rows(declared: Declarations) -> None:
    """As many rows of a person in the join, but other rows."""
    own, of_visits = declared["privacy"], declared["tables"]["visits"]
    own["max_rows"], of_visits["max_rows"] = of_visits["max_rows"], own["max_rows"]


JOINED: dict[str, Change] = {
    "max_rows": putting(f"{VISITS}.max_rows", 5),
    "values": putting(f"{VISITS}.columns.ward.values", ["A", "B"]),
    "bounds": putting(f"{VISITS}.columns.cost.bounds", [0, 60]),
    "step": putting(f"{VISITS}.columns.cost.step", 2),
    "own max_rows": putting("privacy.max_rows", 2),
    "both max_rows": swap_max_rows,
}


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which a join was paid for, and a query of the data set's own table."""
    folder = tmp_path_factory.mktemp("joined")
    with opened(folder, persons, private_visits) as session:
        queried(COUNT)(session)
        queried(PRIVATE_JOIN)(session)
        assert session.preview(PRIVATE_JOIN, rho=0.5).price.free
    return folder


@pytest.mark.parametrize("change", JOINED)
def test_a_join_under_another_declaration_is_not_free(change: str, joined: Path, tmp_path: Path) -> None:
    with opened(copied(joined, tmp_path), persons, private_visits, JOINED[change]) as session:
        assert not session.preview(PRIVATE_JOIN, rho=0.5).price.free


def test_a_private_table_changes_no_key_of_requests_that_do_not_join_it(joined: Path, tmp_path: Path) -> None:
    with opened(copied(joined, tmp_path), persons, private_visits, JOINED["max_rows"]) as session:
        assert is_free(session, "query", queried(COUNT))


def test_a_join_with_another_public_table_is_not_free(tmp_path: Path) -> None:
    ask = queried(PUBLIC_JOIN)
    moved = pa.table({"city": ["Bonn", "Oslo", "Rome"], "country": ["DE", "NO", "VA"]})
    with opened(tmp_path, public_cities) as session:
        ask(session)
        assert is_free(session, "query", ask)
    with opened(tmp_path, public_cities, tables={"cities": moved}) as session:
        assert not is_free(session, "query", ask)


DISCOVERED: dict[str, Change] = {
    "version": putting("table.version", "2025"),
    "unit": putting("privacy.unit", "person"),
    "max_rows": persons,
    "neighbours": putting("privacy.neighbours", "bounded"),
    "longest": putting("columns.team.longest", 50),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which values were discovered."""
    folder = tmp_path_factory.mktemp("found")
    with opened(folder, unknown_team) as session:
        cheaply_discovered(session)
        assert session.preview_discover("team", 5.0, delta=1e-7).price.free
    return folder


@pytest.mark.parametrize("change", DISCOVERED)
def test_a_discovery_under_another_declaration_is_not_free(change: str, found: Path, tmp_path: Path) -> None:
    with opened(copied(found, tmp_path), unknown_team, DISCOVERED[change]) as session:
        assert not session.preview_discover("team", 5.0, delta=1e-7).price.free


def test_a_discovery_stays_free_whatever_else_is_declared(found: Path, tmp_path: Path) -> None:
    others = (DECLARED["bounds"], DECLARED["values"], DECLARED["another column"])
    label = putting("columns.team.label", "Team")
    with opened(copied(found, tmp_path), unknown_team, *others, label, *WORDS.values()) as session:
        assert session.preview_discover("team", 5.0, delta=1e-7).price.free


def test_the_discovery_of_another_column_is_not_free(tmp_path: Path) -> None:
    person = putting("columns.person", {"values": "discover"})
    with opened(tmp_path, unknown_team, person) as session:
        discovered(session)
        assert not is_free(session, "discover", lambda session: discovered(session, "person"))


def test_after_a_discovery_only_what_uses_the_column_is_paid_again(tmp_path: Path) -> None:
    quality: Ask = lambda session: session.quality(rho=0.5)  # noqa: E731
    with opened(tmp_path, unknown_team) as session:
        for ask in (queried(COUNT), quality, prepared()):
            ask(session)
        discovered(session)
        assert is_free(session, "query", queried(COUNT))
        assert not is_free(session, "query", queried(BY_TEAM))
        assert not is_free(session, "quality", quality)
        assert not is_free(session, "prepare", prepared())


# -- What must not enter a key -----------------------------------------------------------------------------

FREE: dict[str, tuple[str, Ask, dict[str, Ask]]] = {
    "query": (
        "query",
        queried(COUNT),
        {
            "confidence": queried(COUNT, confidence=0.5),
            "population": queried(COUNT, population=True),
            "alias": queried("SELECT sex AS s, COUNT(*) AS n FROM people GROUP BY s"),
            "order and limit": queried(f"{COUNT} ORDER BY COUNT(*) DESC LIMIT 1"),
            "having": queried(f"{COUNT} HAVING COUNT(*) > 3"),
            "round": queried("SELECT sex, ROUND(COUNT(*), 1) FROM people GROUP BY sex"),
            "subquery": queried(
                "WITH p AS (SELECT sex AS s FROM people) SELECT s, COUNT(*) FROM p GROUP BY s"
            ),
            "letters and spaces": queried("select  sex, count(*) from people group by sex"),
        },
    ),
    "query of several aggregates": (
        "query",
        queried(SEVERAL),
        {
            "order of aggregates": queried(
                "SELECT sex, AVG(pay), COUNT(*), SUM(pay) FROM people GROUP BY sex"
            ),
            "computed": queried("SELECT sex, SUM(pay) / COUNT(*) FROM people GROUP BY sex ORDER BY AVG(pay)"),
        },
    ),
    "explain one-shot": (
        "explain",
        explained(mechanism="one-shot"),
        {
            "method": lambda session: (
                answer(session).why("F", "M", method="image").explain(k=2, rho=0.5, mechanism="one-shot")
            ),
            "constant": lambda session: (
                answer(session).why("F", "M", at_least=1.0).explain(k=2, rho=0.5, mechanism="one-shot")
            ),
            "price of the answer": lambda session: (
                session.query(AVERAGE, rho=1.0).why("F", "M").explain(k=2, rho=0.5, mechanism="one-shot")
            ),
        },
    ),
    "explain marginals": (
        "prepare",
        explained(mechanism="marginals"),
        {
            "k": explained(mechanism="marginals", k=3),
            "groups": explained(mechanism="marginals", why=("M", "F")),
            "confidence": explained(mechanism="marginals", confidence=0.9),
            "distinct": explained(mechanism="marginals", distinct=True),
            "lower rho": explained(mechanism="marginals", rho=0.1),
            "fewer attributes": explained(mechanism="marginals", attributes=["age", "city"], rho=0.1),
            "no price": explained(mechanism="auto", rho=None),
            "prepare": prepared(),
        },
    ),
    "story": (
        "prepare",
        told(),
        {
            "groups": told(why=("M", "F")),
            "confidence": told(confidence=0.9),
            "fewer levels": told(levels=1, rho=0.1),
            "no price": told(rho=None),
            "pairs": explained(mechanism="marginals", conjuncts=2, rho=0.1),
        },
    ),
    "order of attributes": (
        "explain",
        explained(mechanism="one-shot", attributes=["age", "city"]),
        {"turned round": explained(mechanism="one-shot", attributes=["city", "age"])},
    ),
    "quality": (
        "quality",
        lambda session: session.quality(rho=0.5),
        {"confidence": lambda session: session.quality(rho=0.5, confidence=0.9)},
    ),
    "tune": (
        "tune",
        lambda session: session.tune(rho=0.5, columns=["age", "pay"]),
        {
            "keep": lambda session: session.tune(rho=0.5, columns=["age", "pay"], keep=0.9),
            "confidence": lambda session: session.tune(rho=0.5, columns=["age", "pay"], confidence=0.9),
            "order of columns": lambda session: session.tune(rho=0.5, columns=["pay", "age"]),
        },
    ),
}


@pytest.mark.parametrize("plan", FREE)
def test_a_request_that_differs_in_how_it_is_shown_is_free(plan: str, tmp_path: Path) -> None:
    kind, ask, changed = FREE[plan]
    with opened(tmp_path) as session:
        assert not is_free(session, kind, ask)
        assert [field for field, other in changed.items() if not is_free(session, kind, other)] == []
