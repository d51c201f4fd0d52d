"""No accepted SQL yields an un-noised value, a data-dependent error or a data-dependent shape.

The same requests run on neighbouring and on adversarial tables; all an analyst can see of their form must
be equal, all numbers must carry noise, and no value of the data may turn up anywhere.
"""

from __future__ import annotations

import copy
import gc
import io
import logging
import math
import pickle
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpxplain as dpx
from dpxplain.curator import CuratorDataset
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import DPXPlainError, InternalError
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import Spend
from dpxplain.model.confidential import Confidential
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import LocalReleaser, OpenDataset
from dpxplain.privacy.mechanisms.noise import OpenDPNoise
from dpxplain.session import Session

DECLARED: dict[str, Any] = {
    "table": {"name": "t"},
    "privacy": {"rho": 1000.0},
    "columns": {
        "city": {"values": ["north", "it's"], "null": True},
        "kids": {"values": [0, 1, 2]},
        "member": {"values": [True, False]},
        "count": {"values": ["x", "y"]},  # a name that results have for themselves
        "age": {"edges": [0, 30, 60], "bounds": [0, 100]},
        "pay": {"bounds": [-50, 50], "step": 0.5},
    },
}
SCHEMA = Schema.load(DECLARED)
TYPES = {
    "city": pa.string(),
    "kids": pa.float64(),
    "member": pa.bool_(),
    "count": pa.string(),
    "age": pa.float64(),
    "pay": pa.float64(),
}
Row = tuple[Any, ...]
BASE: list[Row] = [
    ("north", 0.0, True, "x", 20.0, 1.5),
    ("north", 1.0, False, "y", 40.0, -3.0),
    ("it's", 2.0, True, "x", 60.0, 50.0),
    (None, 0.0, None, "y", 30.0, 0.0),
    ("it's", 1.0, False, "x", 1.0, 12.25),
    ("north", 2.0, True, "y", 59.0, -50.0),
] * 4
NAN, INF = math.nan, math.inf
TABLES: dict[str, list[Row]] = {
    "base": BASE,
    "one row more": [*BASE, ("north", 1.0, True, "x", 25.0, 7.0)],
    "one row less": BASE[1:],
    "NaN": [("north", NAN, True, "x", NAN, NAN)] * 5,
    "infinities": [("north", INF, True, "x", -INF, INF), ("it's", -INF, False, "y", INF, -INF)],
    "huge": [("north", 1e308, True, "x", 1e308, -1e308), ("it's", 2.0**63, False, "y", 5e-324, 1e308)],
    "unknown categories": [("nowhere", 3.7, None, "z", 61.0, 2.0)] * 5,
    "all NULL": [(None,) * 6] * 3,
    "empty": [],
    "one city only": [("north", 0.0, True, "x", 20.0, 1.0)] * 50,
}


def table_of(rows: Sequence[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(TYPES)
    return pa.table(
        {name: pa.array(list(c), kind) for (name, kind), c in zip(TYPES.items(), columns, strict=True)}
    )


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, DuckDBEngine]]:
    opened = {name: DuckDBEngine(table_of(rows), SCHEMA) for name, rows in TABLES.items()}
    text = tmp_path_factory.mktemp("csv") / "wrong.csv"
    text.write_text(
        "city,kids,member,count,age,pay\nnorth,two,maybe,7,old,much\n,,,,,\n'x',1e999,-1,x,0x1,NaN\n"
    )
    opened["wrong types"] = DuckDBEngine(text, SCHEMA)
    yield opened
    for engine in opened.values():
        engine.close()


def fresh(engine: Any, ledger: Any = None, *, curator: bool = False) -> Session:
    """A session with its own budget on an open engine."""
    ledger = ledger or open_ledger(None)
    ledger.open_dataset(SCHEMA.table.name, SCHEMA.privacy.rho, SCHEMA.privacy.delta)
    kind = CuratorDataset if curator else OpenDataset
    return Session(kind(SCHEMA, engine, ledger, LocalReleaser(ledger), OpenDPNoise()))


def refusal(error: DPXPlainError) -> tuple[Any, ...]:
    assert not isinstance(error, InternalError)
    return (type(error).__name__, error.problem, error.remedy)


def explained_form(question: Any, options: dict[str, Any]) -> list[Any]:
    expected = question.preview(rho=0.5, **options)
    table = question.explain(rho=0.5, **options)
    assert len({row.index for row in table}) == len(table) == options["k"]
    assert all(1 <= row.rank[0] <= row.rank[1] <= table.family_size for row in table)
    assert all(math.isfinite(bound) for row in table for bound in row.influence)
    form = [expected.k, expected.family_size, expected.price.rho, expected.price.free]
    if options["mechanism"] != "marginals":  # which shares ρ by the means that phase 1 released
        form += [expected.price, expected.influence_margin, table.spends]
    return [*form, ("table", len(table), table.family_size, [list(r) for r in table.records()])]


def visible_form(session: Session, sql: str, options: dict[str, Any]) -> list[Any]:
    """Everything an analyst sees of a request through all three phases, but for the noisy numbers."""
    form: list[Any] = []
    try:
        preview = session.preview(sql, 0.5)
        form.append(("preview", preview.records()))
        answer = session.query(sql, 0.5)
        form.append(("answer", len(answer), [list(record) for record in answer.records()], answer.spends))
        if answer.statement.presentation.limit is None:
            form.append(sorted(row.label for row in answer))
        for part in (answer.release.noisy_count, answer.release.noisy_sum):
            form.append(None if part is None else len(part))
        assert all(math.isfinite(row.estimate) and not math.isnan(row.scale) for row in answer)
        assert all(row.interval[0] <= row.estimate <= row.interval[1] for row in answer)
        if answer.groups.size > 1:
            question = answer.why(answer.groups.key(0), answer.groups.key(answer.groups.size - 1))
        else:
            question = answer.why("all rows")
        assert math.isfinite(question.estimate)
        for mechanism in ("one-shot", "vector", "marginals"):
            form += explained_form(question, options | {"mechanism": mechanism})
    except DPXPlainError as error:
        form.append(refusal(error))
    form.append(session.budget)
    for e in session.history:
        spends = e.spends if e.kind != "prepare" else len(e.spends)
        form.append((e.kind, e.description, e.rho, spends, e.state, e.key))
    return form


NAMES = ["city", "kids", "member", '"count"', "age"]
CONDITIONS = [
    *["city = 'north'", "city <> 'it''s'", "city IS NULL", "city IN ('north', 'it''s')", "kids >= 1"],
    *["kids = 2", "kids IS NOT NULL", "member", "NOT member", "age > 30", "age BETWEEN 10 AND 59.5"],
    *["pay < 0", "pay = 0.25", "pay >= 1e300", "-50 <= pay", "\"count\" = 'x'", "pay IS NULL"],
]
AGGREGATES = [
    "COUNT(*)",
    "COUNT(pay)",
    "COUNT(kids)",
    "COUNT(age)",
    "SUM(pay)",
    "SUM(age)",
    "AVG(pay)",
    "AVG(age)",
]


@st.composite
def queries(draw: st.DrawFn) -> str:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=2))
    sql = f"SELECT {', '.join([*names, draw(st.sampled_from(AGGREGATES))])} FROM t"
    conditions = draw(st.lists(st.sampled_from(CONDITIONS), max_size=3))
    if conditions:
        joined = conditions[0]
        for condition in conditions[1:]:
            joined = f"({joined}) {draw(st.sampled_from(['AND', 'OR', 'AND NOT']))} ({condition})"
        sql += f" WHERE {joined}"
    if names:
        sql += f" GROUP BY {', '.join(names)}"
    order = draw(st.sampled_from(["", "", " ORDER BY 1", f" ORDER BY {len(names) + 1} DESC LIMIT 2"]))
    return sql + order


def quick(count: int) -> settings:
    quiet = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    return settings(
        max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=quiet
    )


@quick(7)
@given(sql=queries(), k=st.integers(1, 3), conjuncts=st.integers(1, 2))
def test_no_table_changes_the_form_of_anything_an_analyst_sees(
    sql: str, k: int, conjuncts: int, engines: dict[str, DuckDBEngine]
) -> None:
    options = {"k": k, "conjuncts": conjuncts}
    forms = {name: visible_form(fresh(engine), sql, options) for name, engine in engines.items()}
    for name, form in forms.items():
        assert form == forms["base"], name
    assert "answer" in {part[0] for part in forms["base"] if isinstance(part, tuple)}


WORDS = [
    *["HAVING", "JOIN", "DISTINCT", "MIN(pay)", "MAX(pay)", "(SELECT COUNT(*) FROM t)", "UNION", "OVER ()"],
    *["*", "pay", "city", "FROM", "WHERE", "GROUP BY", ",", "(", ")", "AND", "1/0", "CAST(pay AS INT)", "''"],
    *[
        "SUM(pay)",
        "COUNT(*)",
        ";",
        "--",
        "NULL",
        "1e999",
        "'north",
        "LIMIT 1",
        "encoded",
        "code_0",
        "units_5",
    ],
]


@pytest.mark.slow
@quick(150)
@given(sql=queries(), seed=st.randoms(use_true_random=False))
def test_mutated_sql_is_refused_or_answered_alike_on_every_table(
    sql: str, seed: Any, engines: dict[str, DuckDBEngine]
) -> None:
    tokens = sql.split(" ")
    for _ in range(seed.randint(1, 3)):
        place = seed.randrange(len(tokens))
        match seed.randrange(3):
            case 0:
                tokens.insert(place, seed.choice(WORDS))
            case 1:
                tokens[place] = seed.choice(WORDS)
            case _ if len(tokens) > 1:
                tokens.pop(place)
    mutated = " ".join(tokens)
    outcomes = []
    for name in ("base", "one row more", "NaN", "all NULL", "empty", "wrong types"):
        session = fresh(engines[name])
        try:
            answer = session.query(mutated, 0.5)
            outcomes.append((answer.groups, len(answer), answer.value_name, session.budget.spent))
            assert answer.release.noisy_count or answer.release.noisy_sum
        except DPXPlainError as error:
            outcomes.append(refusal(error))
            assert (session.budget.spent, session.history) == (0.0, [])
    assert all(outcome == outcomes[0] for outcome in outcomes)


@pytest.mark.parametrize("name", ["base", "empty", "all NULL", "NaN", "one city only"])
@pytest.mark.parametrize("aggregate", ["COUNT(*)", "COUNT(kids)", "SUM(pay)", "AVG(pay)"])
def test_every_cell_of_every_release_carries_noise(
    name: str, aggregate: str, engines: dict[str, DuckDBEngine]
) -> None:
    # Noise lies on a lattice of at least 1024 points per σ, so three equal draws in one cell have a chance
    # of less than 1e-7. A cell without noise, or equal to the truth, would be equal every time.
    releases, influences, marginals = [], [], []
    for _ in range(3):
        session = fresh(engines[name], curator=True)
        answer = session.query(f"SELECT city, {aggregate} FROM t GROUP BY city", rho=0.5)
        parts = [part for part in (answer.release.noisy_count, answer.release.noisy_sum) if part is not None]
        releases.append(np.concatenate([np.array(part) for part in parts]))
        question = answer.why("north", "it's")
        family = question.preview(k=1, rho=1.0).family_size
        for mechanism in ("one-shot", "vector"):
            table = question.explain(k=family, rho=1.0, mechanism=mechanism)
            influences.append(np.array([row.estimate for row in sorted(table, key=lambda row: row.index)]))
        prepared = answer.prepare(rho=1.0).release
        cells = [part for part in (prepared.noisy_count, prepared.noisy_total) if part is not None]
        marginals.append(np.concatenate(cells))
    for drawn in (
        np.array(releases),
        np.array(influences[::2]),
        np.array(influences[1::2]),
        np.array(marginals),
    ):
        assert drawn.shape[1] >= 3
        assert (np.ptp(drawn, axis=0) > 0).all()


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(pay)"])
def test_released_values_are_not_the_true_ones(aggregate: str, engines: dict[str, DuckDBEngine]) -> None:
    equal = np.ones(4, dtype=bool)
    for _ in range(3):
        session = fresh(engines["base"], curator=True)
        answer = session.query(
            f"SELECT kids, member, {aggregate} FROM t GROUP BY kids, member LIMIT 4", rho=0.5
        )
        equal &= np.array([r[answer.value_name] == r["true"] for r in answer.truth().records()])
    assert not equal.any()


def test_a_repeated_request_gives_the_stored_noise_and_not_a_second_draw(engines: Any) -> None:
    session = fresh(engines["base"])
    sql = "SELECT city, AVG(pay) FROM t GROUP BY city"
    first, again = session.query(sql, 0.5), session.query(sql, 0.5)
    tables = [answer.why("north", "it's").explain(k=2, rho=0.5) for answer in (first, again)]
    assert first.release == again.release
    assert tables[0].release == tables[1].release
    assert (again.free, tables[1].free, session.budget.spent) == (True, True, 1.0)


CANARY = "CANARY"
CANARY_NUMBER = 31337.125
CANARY_SCHEMA = Schema.load(
    {
        "table": {"name": "secrets"},
        "privacy": {"rho": 10.0},
        "columns": {
            "city": {"values": ["north", "south"]},
            "kids": {"values": [0, 1]},
            "pay": {"bounds": [0, 100_000]},
        },
    }
)
CANARY_UNITS = int(CANARY_NUMBER / CANARY_SCHEMA.columns["pay"].grid.step)
CANARIES = (CANARY, "31337.125", str(CANARY_UNITS))


def canary_table() -> pa.Table:
    return pa.table(
        {
            "city": ["north", "south", CANARY, None],
            "kids": pa.array([0.0, CANARY_NUMBER, 1.0, None]),
            "pay": [CANARY_NUMBER] + [0.0] * 3,
        }
    )


def reachable(start: object) -> Iterator[object]:
    """All that hangs on an object by its attributes and items; a Confidential stays closed."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type | Confidential):
            continue
        seen.add(id(thing))
        yield thing
        if isinstance(thing, dict):
            waiting += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            waiting += thing
        elif type(thing).__module__.startswith("dpxplain"):
            waiting += vars(thing).values() if hasattr(thing, "__dict__") else []
            slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
            waiting += [getattr(thing, name) for name in slots if hasattr(thing, name)]


def clean(text: str) -> None:
    assert not [canary for canary in CANARIES if canary in text]


def test_no_value_of_the_data_turns_up_anywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    out, err = io.StringIO(), io.StringIO()
    errors: list[BaseException] = []
    shown: list[str] = []
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        stages: list[str] = []
        session = dpx.connect(canary_table(), CANARY_SCHEMA, workspace=tmp_path, progress=stages.append)
        results: list[Any] = [session]
        for aggregate in ("COUNT(*)", "SUM(pay)", "AVG(pay)"):
            sql = f"SELECT city, {aggregate} FROM secrets GROUP BY city"
            results.append(session.preview(sql, 0.01))
            answer = session.query(sql, 0.01)
            question = answer.why("north", "south")
            results += [answer, question, question.preview(k=1, rho=0.01), question.explain(k=2, rho=0.01)]
        for attempt in (
            lambda: session.query("SELECT MAX(pay) FROM secrets", 0.01),
            lambda: session.query("SELECT COUNT(*) FROM secrets", 1e5),
            lambda: session.query("SELECT COUNT(*) FROM secrets", -1),
            lambda: answer.why("north", "west"),
            lambda: question.explain(k=99, rho=0.01),
            lambda: answer.truth(),
            lambda: pickle.dumps(session),
            lambda: pickle.dumps(answer),
            lambda: copy.deepcopy(session),
            lambda: copy.deepcopy(question),
        ):
            with pytest.raises(Exception) as caught:
                attempt()
            errors.append(caught.value)
        for result in results:
            shown += [repr(result), str(result)]
            for form in ("_repr_html_", "to_json", "to_csv"):
                if hasattr(result, form):
                    shown.append(getattr(result, form)())
        for result in results:
            for thing in reachable(result):
                shown.append(repr(thing) if not isinstance(thing, pa.Table) else CANARY)
                assert not isinstance(thing, int | float) or thing not in (CANARY_NUMBER, CANARY_UNITS)
        session.close()
    for error in errors:
        behind: BaseException | None = error
        while behind is not None:
            shown += [
                repr(behind),
                str(behind.args),
                str(vars(behind)),
                str(getattr(behind, "__notes__", "")),
            ]
            behind = behind.__cause__ or behind.__context__
        shown.append("".join(traceback.format_exception(error)))
    for text in [*shown, *stages, caplog.text, out.getvalue(), err.getvalue(), *(str(w) for w in warned)]:
        clean(text)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    for path in files:
        content = path.read_bytes()
        assert not [canary for canary in CANARIES if canary.encode() in content]


REHEARSED = "rehearsed pass"  # over no rows


class Recorded:
    """Passes every call on to the real thing, and notes it."""

    def __init__(self, real: Any, name: str, calls: list[str]) -> None:
        self._real, self._name, self._calls = real, name, calls

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._real, attribute)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            is_rehearsed = named.get("rehearsed", False)
            self._calls.append(REHEARSED if is_rehearsed else f"{self._name}.{attribute}")
            return found(*arguments, **named)

        return call


def watched(engine: Any) -> tuple[Session, list[str]]:
    calls: list[str] = []
    session = fresh(Recorded(engine, "engine", calls), Recorded(open_ledger(None), "ledger", calls))
    calls.clear()
    return session, calls


def test_budget_is_reserved_before_data_is_read_in_every_phase(engines: dict[str, DuckDBEngine]) -> None:
    session, calls = watched(engines["base"])
    answer = session.query("SELECT city, AVG(pay) FROM t GROUP BY city", 0.5)
    order = ["ledger.find", "ledger.reserve_once", "engine.grouped", "ledger.release"]
    assert calls[:5] == [order[0], REHEARSED, *order[1:]]
    assert "engine.grouped" not in calls[5:]
    calls.clear()
    question = answer.why("north", "it's")
    assert calls == ["ledger.preparations"]  # which a preparation would make more precise
    calls.clear()
    for mechanism in ("one-shot", "vector", "marginals"):
        for conjuncts in (1, 2):
            calls.clear()
            question.explain(k=2, rho=0.5, conjuncts=conjuncts, mechanism=mechanism)
            before = calls[: calls.index("ledger.reserve_once")]
            assert "engine.grouped" not in before
            assert REHEARSED not in calls[len(before) :]
            free = ("ledger.preparations", "ledger.budget", REHEARSED)
            spending = [call for call in calls if call not in free]
            # The second mechanism finds the grouped pass of the first still in memory.
            assert spending in (order, [call for call in order if call != "engine.grouped"])
        if mechanism == "one-shot":
            assert spending == order


def test_previews_refusals_and_repeats_read_no_data(engines: dict[str, DuckDBEngine]) -> None:
    session, calls = watched(engines["base"])
    sql = "SELECT city, COUNT(*) FROM t GROUP BY city"
    question = session.query(sql, 0.5).why("north", "it's")
    question.explain(k=1, rho=0.5)
    calls.clear()
    session.preview(sql, 0.25)
    question.preview(k=2, rho=0.25)
    session.query(sql, 0.5)
    session.answer()
    question.explain(k=1, rho=0.5)
    for refused in (lambda: session.query(sql, 1e5), lambda: session.query("SELECT 1", 1.0)):
        with pytest.raises(DPXPlainError):
            refused()
    with pytest.raises(DPXPlainError):
        question.explain(k=0, rho=0.5)
    assert "engine.grouped" not in calls
    assert "ledger.release" not in calls
    assert session.budget.spent == 1.0


_SWALLOWED = CANARY_NUMBER  # a traceback shows the line it is used in, so its name is no canary


class Failing:
    """An engine that breaks in the middle of a pass, with the data in its mouth."""

    schema = SCHEMA
    is_live = False

    def grouped(self, query: Query, subsets: Any, *, rehearsed: bool = False) -> Confidential[Any]:
        if rehearsed:
            return DuckDBEngine(table_of([]), SCHEMA).grouped(query, subsets)
        return Confidential(_SWALLOWED).map(lambda value: {}[value])

    def close(self) -> None: ...


def test_the_charge_of_a_failed_pass_stays_and_its_error_says_nothing() -> None:
    session, calls = watched(Failing())
    with pytest.raises(InternalError) as caught:
        session.query("SELECT COUNT(*) FROM t", 0.5)
    clean("".join(traceback.format_exception(caught.value)))
    order = ["ledger.find", REHEARSED, "ledger.reserve_once", "engine.grouped", "ledger.abandon"]
    assert calls == order
    assert session.budget.spent == 0.5
    assert [(entry.state, entry.rho) for entry in session.history] == [("reserved", 0.5)]
    with pytest.raises(InternalError):  # nothing was stored, so asking again is charged again
        session.query("SELECT COUNT(*) FROM t", 0.5)
    assert session.budget.spent == 1.0


def test_a_tiny_share_never_buys_the_whole_family(engines: dict[str, DuckDBEngine]) -> None:
    question = (
        fresh(engines["base"]).query("SELECT city, COUNT(*) FROM t GROUP BY city", 0.5).why("north", "it's")
    )
    with pytest.raises(dpx.ExplanationError):
        question.explain(k=1, rho=0.5, split=(5e-324, 1, 2))


def test_spends_never_add_up_to_more_than_what_was_asked(engines: dict[str, DuckDBEngine]) -> None:
    session = fresh(engines["base"])
    answer = session.query("SELECT city, AVG(pay) FROM t GROUP BY city", 0.3)
    table = answer.why("north", "it's").explain(k=3, rho=0.7)
    for rho, spends in ((0.3, answer.spends), (0.7, table.spends)):
        assert all(isinstance(spend, Spend) and spend.rho > 0 for spend in spends)
        assert math.fsum(spend.rho for spend in spends) == pytest.approx(rho, abs=1e-12)
    gc.collect()


def test_tables_that_joins_read_again_are_out_of_reach(tmp_path: Path) -> None:
    schema = {
        "table": {"name": "people"},
        "privacy": {"rho": 10.0, "unit": "id", "max_rows": 1},
        "columns": {"city": {"values": ["north", "south"]}},
        "tables": {
            "visits": {"unit": "id", "max_rows": 2, "columns": {"ward": {"values": ["a", "b"]}}},
        },
    }
    people = pa.table({"id": [CANARY, "2"], "city": ["north", "south"]})
    visits = pa.table({"id": [CANARY, "2"], "ward": ["a", "b"]})
    sql = "SELECT ward, COUNT(*) FROM people JOIN visits USING (id) GROUP BY ward"
    with dpx.connect(people, schema, tables={"visits": visits}, workspace=tmp_path) as session:
        answer = session.query(sql, 0.1)
        question = answer.why("a", "b")
        for result in (session, answer, question, question.explain(k=1, rho=0.1)):
            for thing in reachable(result):
                assert not isinstance(thing, pa.Table)
                clean(repr(thing))
