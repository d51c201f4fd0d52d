"""Joins of private tables by the person's id: each cut to its max_rows first, and nothing else is joined."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpxplain as dpx
from dpxplain.engines.duckdb import DuckDBJoinEngine
from dpxplain.errors import BadRequest, BudgetExhausted, DataChanged, QueryRefused, SchemaError
from dpxplain.explanation.influence import totals
from dpxplain.model.groups import Groups
from dpxplain.model.process import Stop, Stopped, stoppable
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.schema import Schema, joined_schema, parts
from dpxplain.server import records
from dpxplain.server.registry import identities
from opened import dataset_of
from server_fixture import config_of, running_server

PATIENTS = pd.DataFrame({"patient": range(50), "sex": ["F", "M"] * 25, "age": range(50)})
VISITS = pd.DataFrame(
    {
        "patient": [n % 60 for n in range(300)],
        "ward": ["A", "B", "C"] * 100,
        "cost": [n % 97 for n in range(300)],
        "age": [n % 4 for n in range(300)],
    }
)
DRUGS = pd.DataFrame({"person": [n % 30 for n in range(90)], "drug": ["x", "y", "z"] * 30})
JOIN = "FROM patients JOIN visits USING (patient)"


def declared(most: int = 100, **changes: Any) -> dict[str, Any]:
    columns = {
        "ward": {"values": ["A", "B", "C"]},
        "cost": {"bounds": [0, 100], "step": 1},
        "age": {"values": [0, 1, 2, 3]},
    }
    return {
        "table": {"name": "patients"},
        "privacy": {"rho": 1e6, "unit": "patient", "max_rows": 1},
        "columns": {"sex": {"values": ["F", "M"]}, "age": {"edges": [-1, 20, 100]}},
        "tables": {
            "visits": {"unit": "patient", "max_rows": most, "columns": columns},
            "drugs": {"unit": "person", "max_rows": 5, "columns": {"drug": {"values": ["x", "y", "z"]}}},
        },
        **changes,
    }


def connected(folder: Path, most: int = 100, **options: Any) -> dpx.Session:
    tables = {"visits": VISITS, "drugs": DRUGS}
    return dpx.connect(PATIENTS, declared(most), tables=tables, workspace=folder, **options)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[dpx.Session]:
    with connected(tmp_path, curator=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpx.Session]:
    """The same for statements that are refused."""
    with connected(tmp_path_factory.mktemp("shared"), curator=True) as opened:
        yield opened


# -- Answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT sex, COUNT(*) {JOIN} GROUP BY sex",
        f"SELECT ward, SUM(cost) {JOIN} WHERE sex = 'F' GROUP BY ward",
        "SELECT v.age, COUNT(DISTINCT patient) FROM patients p JOIN visits v ON v.patient = p.patient "
        "GROUP BY v.age",
        "SELECT sex, drug, AVG(cost) FROM patients JOIN visits USING (patient) "
        "JOIN drugs d ON patients.patient = d.person GROUP BY sex, drug",
        f"WITH both_tables AS (SELECT sex, cost {JOIN}) SELECT sex, COUNT(*) FROM both_tables GROUP BY sex",
    ],
)
def test_joins_without_a_cut_are_those_of_a_database(session: dpx.Session, sql: str) -> None:
    answer = session.query(sql, rho=1)
    with closing(duckdb.connect()) as database:
        for name, frame in (("patients", PATIENTS), ("visits", VISITS), ("drugs", DRUGS)):
            database.register(name, frame)
        text = sql.replace("COUNT(DISTINCT patient)", "COUNT(DISTINCT p.patient)")
        expected = {tuple(map(str, row[:-1])): row[-1] for row in database.execute(text).fetchall()}
    records = answer.truth().records()
    found = {tuple(map(str, row.group)): r["true"] for row, r in zip(answer.rows, records, strict=True)}
    assert found == pytest.approx({group: expected.get(group, 0) for group in found})


def test_the_numbers_say_how_the_tables_were_cut_and_joined(tmp_path: Path) -> None:
    with connected(tmp_path, most=3) as session:
        answer = session.query(f"SELECT sex, COUNT(*) {JOIN} GROUP BY sex", rho=1)
        said = answer.shaped_by[0]
        for part in ("1 row of patients", "3 rows of visits"):
            assert part in said
        assert said in session.preview(f"SELECT ward, COUNT(*) {JOIN} GROUP BY ward", rho=1).shaped_by
        assert set(answer.shaped_by) <= set(answer.finding.notes)
        explained = answer.why("F", "M").explain(k=2, rho=1)
        assert said in explained.shaped_by


def test_noise_covers_the_product_of_all_cuts(tmp_path: Path) -> None:
    with connected(tmp_path, most=3) as session:
        alone = session.preview("SELECT sex, COUNT(*) FROM patients GROUP BY sex", rho=1)
        two = session.preview(f"SELECT sex, COUNT(*) {JOIN} GROUP BY sex", rho=1)
        three = session.preview(
            f"SELECT sex, COUNT(*) {JOIN} JOIN drugs ON patients.patient = drugs.person GROUP BY sex", rho=1
        )
    scales = [
        preview.margins[0] if hasattr(preview, "margins") else preview.margin
        for preview in (alone, two, three)
    ]
    assert scales[1] / scales[0] == pytest.approx(3, rel=1e-6)
    assert scales[2] / scales[0] == pytest.approx(15, rel=1e-6)


def test_all_sets_of_tables_share_one_budget_and_keep_their_answers(tmp_path: Path) -> None:
    with connected(tmp_path, most=3) as session:
        first = session.query("SELECT sex, COUNT(*) FROM patients GROUP BY sex", rho=1)
        joined = session.query(f"SELECT sex, COUNT(*) {JOIN} GROUP BY sex", rho=2)
        assert session.budget.spent == 3
        assert joined.release != first.release
    with connected(tmp_path, most=3) as session:  # opened again: both are found
        again = session.query(f"SELECT sex, COUNT(*) {JOIN} GROUP BY sex", rho=2)
        assert again.free
        assert again.release == joined.release
        assert session.answer(joined.id).release == joined.release
        assert session.answer().release == joined.release
    with connected(tmp_path, most=4) as session:  # another cut is another question
        assert not session.query(f"SELECT sex, COUNT(*) {JOIN} GROUP BY sex", rho=2).free
        with pytest.raises(BadRequest, match="schema has changed"):
            session.answer(joined.id)


def test_the_budget_of_the_data_set_bounds_joins_too(tmp_path: Path) -> None:
    schema = declared(3, privacy={"rho": 1, "unit": "patient", "max_rows": 1})
    tables = {"visits": VISITS, "drugs": DRUGS}
    with dpx.connect(PATIENTS, schema, tables=tables, workspace=tmp_path) as session:
        session.query(f"SELECT sex, COUNT(*) {JOIN} GROUP BY sex", rho=0.9)
        with pytest.raises(BudgetExhausted):
            session.query("SELECT sex, COUNT(*) FROM patients GROUP BY sex", rho=0.2)


# -- Privacy -----------------------------------------------------------------------------------------------

SMALL = Schema.load(
    {
        "table": {"name": "t"},
        "privacy": {"rho": 1, "unit": "id", "max_rows": 2},
        "columns": {"a": {"values": ["x", "y"]}},
        "tables": {"u": {"unit": "id", "max_rows": 1, "columns": {"b": {"values": ["p", "q"]}}}},
    }
)
JOINED = joined_schema(SMALL, ["u"])
Pairs = tuple[tuple[Any, str], ...]


@cache
def cells(left: Pairs, right: Pairs) -> tuple[int, ...]:
    """The true joined counts of every (a, b)."""
    tables = {
        "t": pa.table({"id": pa.array([i for i, _ in left], pa.string()), "a": [v for _, v in left]}),
        "u": pa.table({"id": pa.array([i for i, _ in right], pa.string()), "b": [v for _, v in right]}),
    }
    tables = {
        name: table.cast(pa.schema([(c, pa.string()) for c in table.column_names]))
        for name, table in tables.items()
    }
    query = Query("t", ("a", "b"), Aggregate("count"))
    groups = Groups.of(query, JOINED)
    with closing(DuckDBJoinEngine(tables, JOINED)) as engine:
        scanned = engine.grouped(query, ((),)).reveal()
    return tuple(int(n) for n in totals(scanned, groups).count)


class _NoticedStop(Stop):
    has_pass = False

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        with super().interrupting(interrupt):
            self.has_pass = True
            yield


def test_a_request_can_be_stopped_while_tables_are_joined() -> None:
    """Joining takes seconds here, so that the wish comes in its midst; asked again until it is met."""
    rows = pa.table({"id": pa.array(range(3_000_000)).cast(pa.string()), "a": ["x"] * 3_000_000})
    stop, ended = _NoticedStop(), threading.Event()

    def ask_until_it_ends() -> None:
        while not ended.wait(0.01):
            if stop.has_pass:
                stop.request()

    asking = threading.Thread(target=ask_until_it_ends)
    asking.start()
    try:
        with stoppable(stop), pytest.raises(Stopped):
            DuckDBJoinEngine({"t": rows, "u": rows.rename_columns(["id", "b"])}, JOINED)
    finally:
        ended.set()
        asking.join()


def multisets(rows: Sequence[tuple[Any, str]], most: int) -> list[Pairs]:
    return [
        chosen for size in range(most + 1) for chosen in itertools.combinations_with_replacement(rows, size)
    ]


def of(person: str, rows: Pairs) -> Pairs:
    return tuple(row for row in rows if row[0] == person)


def check_worlds(lefts: Sequence[Pairs], rights: Sequence[Pairs]) -> None:
    """In every world the joined rows are the union of each person's own, of which there are few."""
    for left, right in itertools.product(lefts, rights):
        persons = [np.array(cells(of(p, left), of(p, right))) for p in ("1", "2")]
        whole = np.array(cells(left, right))
        assert whole.tolist() == sum(persons).tolist(), (left, right)  # type: ignore[union-attr]
        for own in persons:
            assert own.sum() <= JOINED.privacy.max_rows == 2


def test_in_all_small_worlds_a_person_changes_at_most_the_product_of_rows() -> None:
    """Removing a person from all tables removes exactly that person's joined rows; nobody else's change."""
    lefts = multisets([("1", "x"), ("1", "y"), ("2", "x")], 2)[4:]
    check_worlds(lefts, [(("1", "p"), ("1", "q"), ("2", "q")), (("2", "q"), (None, "p"), ("", "p"))])


@pytest.mark.slow
def test_in_more_small_worlds_a_person_changes_at_most_the_product_of_rows() -> None:
    check_worlds(
        multisets([("1", "x"), ("1", "y"), ("2", "x"), (None, "y")], 3),
        [(), (("1", "p"),), (("1", "p"), ("1", "q"), ("2", "q")), (("2", "q"), (None, "p"), ("nan", "p"))],
    )


@pytest.mark.parametrize("flood", [1, 1000])
def test_a_person_with_many_rows_everywhere_counts_for_the_product_only(flood: int) -> None:
    others = [(str(n), "x") for n in range(5)], [(str(n), "p") for n in range(5)]
    left = (*others[0], *[("me", "xy"[n % 2]) for n in range(flood + 2)])
    right = (*others[1], *[("me", "pq"[n % 2]) for n in range(flood + 2)])
    assert sum(cells(tuple(left), tuple(right))) == 5 + 2


def test_rows_are_chosen_by_the_persons_own_rows_whatever_others_have_and_in_any_order() -> None:
    mine, my_visits = tuple(("me", v) for v in "xyxy"), tuple(("me", v) for v in "qpq")
    alone = np.array(cells(mine, my_visits))
    others = tuple((str(n), "x") for n in range(20)), tuple((str(n), "q") for n in range(20))
    crowd = np.array(cells(others[0] + mine[::-1], my_visits[::-1] + others[1]))
    assert (crowd - np.array(cells(*others))).tolist() == alone.tolist()
    assert alone.sum() == 2


@pytest.mark.parametrize("nobody", [None, "", "nan", "NaN"])
def test_rows_without_a_person_never_meet(nobody: str | None) -> None:
    assert sum(cells(((nobody, "x"),) * 3, ((nobody, "p"),) * 3)) == 0


def test_persons_are_told_apart_by_the_bytes_of_their_ids() -> None:
    assert sum(cells((("a", "x"), ("A", "x"), ("é", "y")), (("A", "p"), ("a ", "p"), ("é", "p")))) == 2


def test_a_person_in_one_table_only_has_no_joined_row() -> None:
    assert sum(cells((("1", "x"),), (("2", "p"),))) == 0


def test_each_table_is_cut_as_if_it_was_a_data_set_of_its_own() -> None:
    """The cut of a table does not depend on what it is joined with."""
    own, other = parts(JOINED).values()
    assert (own.privacy.max_rows, other.privacy.max_rows, JOINED.privacy.max_rows) == (2, 1, 2)
    assert own.fingerprint() == SMALL.fingerprint()
    assert list(other.columns) == ["b"]
    assert JOINED.fingerprint() != SMALL.fingerprint()


def test_whole_numbers_and_texts_name_the_same_persons_but_decimals_are_refused(tmp_path: Path) -> None:
    texts = VISITS.assign(patient=VISITS.patient.astype(str).astype("string"))
    tables = {"visits": texts, "drugs": DRUGS}
    with dpx.connect(PATIENTS, declared(), tables=tables, workspace=tmp_path, curator=True) as session:
        answer = session.query(f"SELECT sex, COUNT(*) {JOIN} GROUP BY sex", rho=1)
        assert sum(r["true"] for r in answer.truth().records()) == 250
    tables["visits"] = VISITS.assign(patient=VISITS.patient * 1.0)
    with pytest.raises(SchemaError, match="different types in different tables"):
        dpx.connect(PATIENTS, declared(), tables=tables, workspace=tmp_path)


# -- The data ----------------------------------------------------------------------------------------------

TOML = """[table]
name = "patients"
source = "patients.parquet"

[privacy]
rho = 10.0
unit = "patient"
max_rows = 1

[columns.sex]
values = ["F", "M"]

[tables.visits]
source = "visits.parquet"
unit = "patient"
max_rows = 3

[tables.visits.columns.ward]
values = ["A", "B", "C"]

[tables.visits.columns.cost]
bounds = [0, 100]
step = 1
"""


def written(folder: Path) -> Path:
    pq.write_table(pa.Table.from_pandas(PATIENTS), folder / "patients.parquet")
    pq.write_table(pa.Table.from_pandas(VISITS), folder / "visits.parquet")
    (folder / "patients.toml").write_text(TOML, encoding="utf-8")
    return folder / "patients.toml"


def test_files_are_found_beside_the_schema_and_a_changed_one_is_noticed(tmp_path: Path) -> None:
    schema = written(tmp_path)
    with dpx.connect(schema=schema, workspace=tmp_path / "ledger") as session:
        session.query(f"SELECT ward, COUNT(*) {JOIN} GROUP BY ward", rho=1)
    pq.write_table(pa.Table.from_pandas(VISITS[:200]), tmp_path / "visits.parquet")
    with dpx.connect(schema=schema, workspace=tmp_path / "ledger") as session:
        for sql in (f"SELECT ward, SUM(cost) {JOIN} GROUP BY ward", "SELECT COUNT(*) FROM patients"):
            with pytest.raises(DataChanged):
                session.query(sql, rho=1)
        assert session.budget.spent == 1


def test_files_are_found_beside_a_schema_with_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    written(tmp_path / "sub")
    monkeypatch.chdir(tmp_path)
    with dpx.connect(schema="sub/patients.toml", workspace=tmp_path / "ledger") as session:
        assert session.query(f"SELECT ward, COUNT(*) {JOIN} GROUP BY ward", rho=1).rows


def test_one_set_of_joined_tables_is_kept_at_a_time(session: dpx.Session) -> None:
    kept = dataset_of(session).joins
    assert kept is not None
    first = weakref.ref(kept.joined(joined_schema(session.schema, ["visits"])))
    assert kept.joined(joined_schema(session.schema, ["visits"])) is first()
    kept.joined(joined_schema(session.schema, ["drugs"]))
    assert first() is None


def test_a_table_that_changes_before_it_is_first_joined_is_noticed(tmp_path: Path) -> None:
    visits = VISITS.copy()
    with dpx.connect(
        PATIENTS, declared(), tables={"visits": visits, "drugs": DRUGS}, workspace=tmp_path
    ) as session:
        session.query("SELECT sex, COUNT(*) FROM patients GROUP BY sex", rho=1)
        visits.loc[0, "ward"] = "C"
        with pytest.raises(DataChanged, match="The charge stays"):
            session.query(f"SELECT sex, COUNT(*) {JOIN} GROUP BY sex", rho=1)
        assert session.budget.spent == 2


def test_a_missing_file_is_refused_when_the_data_are_opened(tmp_path: Path) -> None:
    schema = written(tmp_path)
    (tmp_path / "visits.parquet").unlink()
    with pytest.raises(BadRequest, match="no file"):
        dpx.connect(schema=schema, workspace=tmp_path / "ledger")


@pytest.mark.parametrize("kept", [["patient", "ward"], ["ward", "cost", "age"]])
def test_a_table_without_its_declared_columns_or_unit_is_refused_when_the_data_are_opened(
    tmp_path: Path, kept: list[str]
) -> None:
    tables = {"visits": VISITS[kept], "drugs": DRUGS}
    with pytest.raises(SchemaError, match=f"The source has: {', '.join(kept)}"):
        dpx.connect(PATIENTS, declared(), tables=tables, workspace=tmp_path)


# -- Refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT sex, COUNT(*) FROM patients LEFT JOIN visits USING (patient) GROUP BY sex", "LEFT JOIN"),
        ("SELECT sex, COUNT(*) FROM patients JOIN visits USING (age) GROUP BY sex", "not the key of visits"),
        (
            "SELECT sex, COUNT(*) FROM patients p JOIN visits v ON p.age = v.patient GROUP BY sex",
            "only be joined by the person's id",
        ),
        (f"SELECT sex, COUNT(*) {JOIN} JOIN visits w USING (patient) GROUP BY sex", "joins visits twice"),
        ("SELECT sex, COUNT(*) FROM patients JOIN patients USING (patient) GROUP BY sex", "called patients"),
        ("SELECT ward, COUNT(*) FROM visits GROUP BY ward", "table visits"),
        (
            "SELECT ward, COUNT(*) FROM visits JOIN patients USING (patient) GROUP BY ward",
            "follow FROM patients",
        ),
        ("SELECT ward, COUNT(*) FROM patients, visits GROUP BY ward", "list of tables"),
        ("SELECT ward, COUNT(*) FROM patients CROSS JOIN visits GROUP BY ward", "CROSS JOIN"),
        ("SELECT ward, COUNT(*) FROM patients GROUP BY ward", "column ward"),
        (
            "SELECT ward, COUNT(*) FROM patients JOIN visits ON patients.patient = visits.patient "
            "AND cost > 3 GROUP BY ward",
            "one condition",
        ),
        (
            "SELECT ward, COUNT(*) FROM patients JOIN visits v USING (patient) "
            "JOIN drugs ON v.patient = drugs.person GROUP BY ward",
            "A join compares a column",
        ),
        (
            f"WITH a AS (SELECT sex {JOIN}), b AS (SELECT sex FROM patients) "
            "SELECT sex, COUNT(*) FROM b GROUP BY sex",
            "different private tables",
        ),
        (
            f"WITH patients AS (SELECT sex, patient {JOIN}) SELECT sex, COUNT(*) {JOIN} GROUP BY sex",
            "A WITH query has the name of the table, patients",
        ),
    ],
)
def test_other_joins_of_private_tables_are_refused_with_the_reason(
    shared_session: dpx.Session, sql: str, reason: str
) -> None:
    with pytest.raises(QueryRefused, match=reason) as refused:
        shared_session.query(sql, rho=1)
    assert refused.value.remedy
    assert shared_session.budget.spent == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"privacy": {"rho": 1}}, "privacy.unit must name"),
        (
            {"tables": {"patients": {"unit": "p", "max_rows": 1, "columns": {"a": {"values": ["x"]}}}}},
            "same name as another table",
        ),
        (
            {"tables": {"v": {"unit": "p", "columns": {"a": {"values": ["x"]}}}}},
            "tables.v.max_rows: is missing",
        ),
        ({"tables": {"v": {"unit": "p", "max_rows": 1}}}, "tables.v.columns: is missing"),
        (
            {"tables": {"v": {"unit": "p", "max_rows": 1, "columns": {"a": {"values": "discover"}}}}},
            "cannot be discovered",
        ),
        (
            {"tables": {"v": {"unit": "p", "max_rows": 1, "columns": {"a": {"expression": "1"}}}}},
            "write the expression in the query",
        ),
        (
            {
                "tables": {
                    "v": {
                        "unit": "p",
                        "max_rows": 1,
                        "source": "postgresql://a:b@h/d",
                        "columns": {"a": {"values": ["x"]}},
                    }
                }
            },
            "must not contain a password",
        ),
        (
            {"tables": {"v": {"unit": "row", "max_rows": 1, "columns": {"a": {"values": ["x"]}}}}},
            "tables.v.unit must name",
        ),
        (
            {
                "tables": {
                    "a": {"unit": "p", "max_rows": 1, "columns": {"b.c": {"values": ["x"]}}},
                    "a.b": {"unit": "p", "max_rows": 1, "columns": {"c": {"values": ["x"]}}},
                }
            },
            "two columns called a.b.c",
        ),
        ({"joined": {"visits": {"ward": "sex"}}}, "for internal use"),
    ],
)
def test_declarations_that_cannot_be_joined_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason) as refused:
        Schema.load(declared(**changes))
    assert "a:b" not in str(refused.value)


def test_a_table_of_postgresql_is_known_by_both_of_its_names() -> None:
    schema = declared(table={"name": "patients", "source": "postgresql://h/db::patients", "version": "1"})
    other = declared(table={"name": "visits", "source": "postgresql://h/db::public.visits", "version": "1"})
    del other["tables"]
    assert identities(Schema.load(other), Path()) < identities(Schema.load(schema), Path())


# -- At a server -------------------------------------------------------------------------------------------


def test_at_a_server_joins_are_charged_to_the_analyst_and_no_place_is_told(tmp_path: Path) -> None:
    config = config_of(tmp_path / "data")
    written(tmp_path / "data")
    sql = f"SELECT ward, COUNT(*) {JOIN} GROUP BY ward"
    with running_server(config) as server:
        address = f"{server.url}/patients"
        with dpx.connect(address, token=server.token("alice")) as session:
            assert "visits.parquet" not in str(session.schema.model_dump())
            answer = session.query(sql, rho=1)
            assert any("3 rows of visits" in text for text in answer.shaped_by)
            table = answer.why("A", "B").explain(k=2, rho=1)
            assert len(table.rows) == 2
            assert session.budget.spent == 2
            assert session.query(sql, rho=1).free
            assert session.answer(answer.id).release == answer.release
            with pytest.raises(BudgetExhausted):
                session.query(sql, rho=4.5)
        shown = server.client("bob").post("/datasets/patients/query", json={"sql": sql, "rho": 1})
        assert any("3 rows of visits" in text for text in shown.json()["shaped_by"])
        curator = server.curator()
        truth = curator.get(f"/datasets/patients/answers/{answer.id}@alice/truth").json()
        assert sum(row["true"] for row in truth["rows"]) == 150


def test_a_damaged_private_table_keeps_its_data_set_from_being_asked_and_charged(tmp_path: Path) -> None:
    """A line with too many values: only a pass over all rows finds it."""
    config = config_of(tmp_path / "data")
    written(tmp_path / "data")
    (tmp_path / "data" / "visits.csv").write_text("patient,ward,cost\n1,A,2\n2,B,3,4\n", encoding="utf-8")
    schema = TOML.replace("visits.parquet", "visits.csv")
    (tmp_path / "data" / "patients.toml").write_text(schema, encoding="utf-8")
    ask = {"sql": f"SELECT ward, COUNT(*) {JOIN} GROUP BY ward", "rho": 1}
    with running_server(config) as server:
        refused = server.client("alice").post("/datasets/patients/query", json=ask)
        assert refused.json()["code"] == "unavailable", refused.text
        assert "visits" not in refused.text


def test_what_people_see_of_a_data_set_names_no_file_of_a_private_table(tmp_path: Path) -> None:
    written(tmp_path)
    schema = Schema.load(tmp_path / "patients.toml")
    with dpx.connect(schema=tmp_path / "patients.toml", workspace=tmp_path / "w") as session:
        shown = records.details(session.schema, session.budget, "analyst")
    assert "parquet" not in str(shown)
    assert Schema.load(shown["schema"]).private["visits"].max_rows == schema.private["visits"].max_rows
