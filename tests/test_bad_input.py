"""Bad input gets one clear sentence with the remedy, spends nothing and loses nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import dpxplain as dpx
from dpxplain.errors import DPXPlainError
from dpxplain.results.answer import Answer
from dpxplain.results.question import Question
from dpxplain.session import Session

SCHEMA: dict[str, Any] = {
    "table": {"name": "people"},
    "privacy": {"rho": 1.0},
    "columns": {
        "sex": {"values": ["F", "M"]},
        "city": {"values": ["north", "south", "east"]},
        "age": {"edges": [0, 30, 60]},
        "pay": {"bounds": [0, 100]},
    },
}
TABLE = pa.table(
    {
        "sex": ["F", "M"] * 20,
        "city": ["north", "south", "east", "north"] * 10,
        "age": [20.0, 40.0] * 20,
        "pay": [10.0, 20.0] * 20,
    }
)
AVERAGE = "SELECT sex, AVG(pay) FROM people GROUP BY sex"
COUNT = "SELECT sex, COUNT(*) FROM people GROUP BY sex"


@dataclass
class Desk:
    """What an analyst has in hand."""

    session: Session
    answer: Answer
    counts: Answer
    question: Question


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with dpx.connect(TABLE, SCHEMA, workspace=tmp_path_factory.mktemp("work")) as session:
        answer = session.query(AVERAGE, rho=0.1)
        yield Desk(session, answer, session.query(COUNT, rho=0.1), answer.why("F", "M"))


def refused(error: DPXPlainError, kind: type[DPXPlainError], *words: str) -> None:
    """One sentence that says what, and one that says how to mend it."""
    assert type(error) is kind
    assert error.problem.endswith((".", "?"))
    assert error.remedy.endswith((".", "?", "FILE")) or error.remedy.endswith("}.")
    assert "\n" not in str(error)
    for word in words:
        assert word in str(error)
    assert error.to_dict()["message"] == error.problem


def ask(sql: Any, rho: Any = 0.1, **options: Any) -> Callable[[Desk], object]:
    return lambda desk: desk.session.query(sql, rho, **options)


def look(sql: Any, rho: Any = 0.1, **options: Any) -> Callable[[Desk], object]:
    return lambda desk: desk.session.preview(sql, rho, **options)


def why(*groups: Any, **options: Any) -> Callable[[Desk], object]:
    return lambda desk: desk.answer.why(*groups, **options)


def explain(**options: Any) -> Callable[[Desk], object]:
    return lambda desk: desk.question.explain(**({"k": 2, "rho": 0.1} | options))


BAD_RHOS = [0, -1, -0.0, math.nan, math.inf, -math.inf, 1e-15, 1e9, 10**400, "0.1", None, True, [0.1]]
NO_CONFIDENCE = [0, 1, -1, 2, 95, math.nan, 1e-17, 1 - 2**-53, "0.95", [0.95]]
CASES: list[tuple[str, Callable[[Desk], object], type[DPXPlainError], tuple[str, ...]]] = [
    *[(f"rho={r!r:.9}", ask(COUNT, r), dpx.BadRequest, ("rho", "0.1")) for r in BAD_RHOS],
    *[(f"preview rho={r!r:.9}", look(COUNT, r), dpx.BadRequest, ("rho",)) for r in BAD_RHOS],
    *[(f"explain rho={r!r:.9}", explain(rho=r), dpx.BadRequest, ("rho",)) for r in BAD_RHOS if r is not None],
    ("explain without a price", explain(rho=None), dpx.ExplanationError, ("needs a price", "prepare")),
    *[
        (f"confidence={c!r}", ask(COUNT, confidence=c), dpx.BadRequest, ("confidence", "0.95"))
        for c in [*NO_CONFIDENCE, None]
    ],
    *[
        (f"preview at {c!r}", look(COUNT, confidence=c), dpx.BadRequest, ("confidence",))
        for c in NO_CONFIDENCE
    ],
    *[(f"why at {c!r}", why("F", "M", confidence=c), dpx.BadRequest, ("confidence",)) for c in NO_CONFIDENCE],
    *[(f"explain at {c!r}", explain(confidence=c), dpx.BadRequest, ("confidence",)) for c in NO_CONFIDENCE],
    ("column", ask("SELECT sx, COUNT(*) FROM people GROUP BY sx"), dpx.QueryRefused, ("sx", "sex", "column")),
    ("summed", ask("SELECT SUM(paid) FROM people"), dpx.QueryRefused, ("paid", "pay")),
    ("unbounded", ask("SELECT SUM(age) FROM people"), dpx.QueryRefused, ("age", "bounds")),
    ("ungroupable", ask("SELECT pay, COUNT(*) FROM people GROUP BY pay"), dpx.QueryRefused, ("pay", "edges")),
    ("table", ask("SELECT COUNT(*) FROM persons"), dpx.QueryRefused, ("people",)),
    ("value", ask("SELECT COUNT(*) FROM people WHERE city = 'west'"), dpx.QueryRefused, ("west", "city")),
    ("clause", ask("SELECT COUNT(*) FROM people TABLESAMPLE (5%)"), dpx.QueryRefused, ("TABLESAMPLE",)),
    ("function", ask("SELECT MAX(pay) FROM people"), dpx.QueryRefused, ("MAX",)),
    ("no text", ask(""), dpx.QueryRefused, ("empty",)),
    ("a number", ask(5), dpx.QueryRefused, ("text",)),
    ("nothing", ask(None), dpx.QueryRefused, ("text",)),
    ("undeclared group", why("F", "X"), dpx.QuestionError, ("X", "sex")),
    ("undeclared in weights", why({"F": 1, "X": -1}), dpx.QuestionError, ("X", "sex")),
    ("list of two for a group", why(["F", "x"], "M"), dpx.QuestionError, ("sex",)),
    ("two for one column", why(("F", "M"), "M"), dpx.QuestionError, ("tuple",)),
    ("itself", why("F", "F"), dpx.QuestionError, ("itself",)),
    ("no weights", why({}), dpx.QuestionError, ("weight",)),
    ("zero weights", why({"F": 0}), dpx.QuestionError, ("weight",)),
    *[
        (f"weight {w!r}", why({"F": w}), dpx.QuestionError, ("weight", "F"))
        for w in [math.nan, math.inf, 1e10, 1e-320, "1", None, True]
    ],
    *[
        (f"at least {c!r}", why("F", "M", at_least=c), dpx.QuestionError, ("constant",))
        for c in [math.nan, math.inf, "0", None]
    ],
    ("method", why("F", "M", method="magic"), dpx.QuestionError, ("magic", "mover")),
    ("list for a method", why("F", "M", method=["mover"]), dpx.QuestionError, ("fieller",)),
    (
        "method for counts",
        lambda desk: desk.counts.why("F", "M", method="magic"),
        dpx.QuestionError,
        ("magic", "mover"),
    ),
    ("unknown group", lambda desk: desk.answer["X"], dpx.QuestionError, ("X", "sex")),
    *[
        (f"k={k!r}", explain(k=k), dpx.ExplanationError, ("k must", "5"))
        for k in [0, -1, 6, 10**9, True, 1.0, "2", None, math.nan]
    ],
    *[
        (f"conjuncts={c!r}", explain(conjuncts=c), dpx.ExplanationError, ("conjuncts",))
        for c in [0, 3, -1, True, 1.0, "1"]
    ],
    ("mechanism", explain(mechanism="magic"), dpx.ExplanationError, ("magic", "one-shot")),
    ("list for a mechanism", explain(mechanism=["auto"]), dpx.ExplanationError, ("one-shot",)),
    ("sensitivity", explain(sensitivity="low"), dpx.ExplanationError, ("low", "tight")),
    ("attribute", explain(attributes=["cty"]), dpx.ExplanationError, ("cty", "city")),
    ("attribute as text", explain(attributes="cty"), dpx.ExplanationError, ("cty", "city")),
    ("grouped attribute", explain(attributes=["sex"]), dpx.ExplanationError, ("sex", "city")),
    ("averaged attribute", explain(attributes=["pay"]), dpx.ExplanationError, ("pay",)),
    ("no attribute", explain(attributes=[]), dpx.ExplanationError, ("No column is left",)),
    ("number for attributes", explain(attributes=5), dpx.ExplanationError, ("city",)),
    ("numbers for attributes", explain(attributes=[5]), dpx.ExplanationError, ("city",)),
    ("lists for attributes", explain(attributes=[["city"]]), dpx.ExplanationError, ("city",)),
    *[
        (f"split={s!r}", explain(split=s), dpx.ExplanationError, ("split", "(1, 1, 2)"))
        for s in [5, None, (1, 1), (1, 1, 0), (1, 1, -1), (1, math.nan, 1), (1, math.inf, 1), ("a", 1, 1)]
    ],
    *[
        (f"lower_share={s!r}", explain(lower_share=s), dpx.ExplanationError, ("lower_share", "0.1"))
        for s in [0, 1, -0.1, 1.5, 1e-9, 1 - 1e-9, math.nan, math.inf, True, "0.1", None]
    ],
    *[
        (f"lower_share of {m}", explain(lower_share=0.2, mechanism=m), dpx.ExplanationError, (m, "one-shot"))
        for m in ["vector", "marginals"]
    ],
    # A share that rounds to nothing used to release the whole family for the price of k of it.
    *[
        (f"split={s!r}", explain(split=s), dpx.ExplanationError, ("split",))
        for s in [(5e-324, 1, 2), (1, 5e-324, 2), (1, 1, 5e-324), (1e308, 1e308, 1e308), (1, 1, 1e300)]
    ],
    ("truth of an answer", lambda desk: desk.answer.truth(), dpx.CuratorOnly, ("curator",)),
    ("truth of a question", lambda desk: desk.question.truth(), dpx.CuratorOnly, ("curator",)),
    ("no such answer", lambda desk: desk.session.answer(99), dpx.BadRequest, ("99",)),
    (("a name for an answer"), lambda desk: desk.session.answer("x"), dpx.BadRequest, ("x",)),  # type: ignore[arg-type]
    ("too dear a query", ask(COUNT, 0.9), dpx.BudgetExhausted, ("0.9", "0.8", "rho=0.8")),
    ("too dear a table", explain(rho=500), dpx.BudgetExhausted, ("500", "0.8")),
]


@pytest.mark.parametrize(("attempt", "kind", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_bad_request_is_refused_and_costs_nothing(
    attempt: Callable[[Desk], object], kind: type[DPXPlainError], words: tuple[str, ...], desk: Desk
) -> None:
    budget, history = desk.session.budget, desk.session.history
    with pytest.raises(DPXPlainError) as caught:
        attempt(desk)
    refused(caught.value, kind, *words)
    assert desk.session.budget == budget
    assert desk.session.history == history
    # The session goes on as before, and what was released can be read again.
    assert desk.session.query(AVERAGE, rho=0.1).records() == desk.answer.records()
    assert desk.session.budget == budget


def test_a_refused_preview_of_a_table_costs_nothing_either(desk: Desk) -> None:
    before = desk.session.budget
    for options in ({"k": 0}, {"rho": -1}, {"conjuncts": 9}, {"mechanism": "magic"}, {"split": (0, 1, 1)}):
        with pytest.raises(dpx.BadRequest):
            desk.question.preview(**options)  # type: ignore[arg-type]
    assert desk.session.budget == before


def test_the_budget_can_be_spent_to_its_last_digit_and_no_further(tmp_path: Path) -> None:
    with dpx.connect(TABLE, SCHEMA, workspace=tmp_path) as session:
        for i in range(10):
            session.query(f"SELECT COUNT(*) FROM people WHERE pay > {i}", rho=0.1)
        assert session.budget.remaining == 0.0
        with pytest.raises(dpx.BudgetExhausted) as caught:
            session.query("SELECT COUNT(*) FROM people", rho=1e-12)
        refused(caught.value, dpx.BudgetExhausted, "curator")
        assert session.query("SELECT COUNT(*) FROM people WHERE pay > 3", rho=0.1).free


def test_an_exhausted_budget_stays_exhausted_in_the_next_session(tmp_path: Path) -> None:
    with dpx.connect(TABLE, SCHEMA, workspace=tmp_path) as session:
        session.query(COUNT, rho=1.0)
    with dpx.connect(TABLE, SCHEMA, workspace=tmp_path) as session:
        with pytest.raises(dpx.BudgetExhausted):
            session.query(AVERAGE, rho=0.1)
        assert session.query(COUNT, rho=1.0).free


def _directory(folder: Path) -> object:
    return folder


def _missing(folder: Path) -> object:
    return folder / "missing.parquet"


def _damaged(folder: Path) -> object:
    (folder / "damaged.parquet").write_bytes(b"PAR1 no PAR1")
    return folder / "damaged.parquet"


def _without_pay(folder: Path) -> object:
    pyarrow.parquet.write_table(TABLE.drop_columns(["pay"]), folder / "less.parquet")
    return str(folder / "less.parquet")


def _text_for_pay(_folder: Path) -> object:
    return TABLE.set_column(3, "pay", pa.array(["CANARY"] * 40))


@pytest.mark.parametrize(
    ("make", "kind", "word"),
    [
        (_missing, dpx.SourceError, "missing.parquet"),
        (_directory, dpx.SourceError, "Parquet"),
        (_damaged, dpx.SourceError, "damaged.parquet"),
        (lambda _: object(), dpx.SourceError, "object"),
        (_without_pay, dpx.SchemaError, "columns.pay"),
        (_text_for_pay, dpx.SchemaError, "columns.pay"),
        (lambda _: None, dpx.SchemaError, "table.source"),
    ],
)
def test_a_source_that_cannot_be_opened_leaves_the_budget_as_it_was(
    make: Callable[[Path], object], kind: type[DPXPlainError], word: str, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    with dpx.connect(TABLE, SCHEMA, workspace=work) as session:
        session.query(COUNT, rho=0.25)
    with pytest.raises(DPXPlainError) as caught:
        dpx.connect(make(tmp_path), SCHEMA, workspace=work)
    refused(caught.value, kind, word)
    assert "CANARY" not in str(caught.value)
    with dpx.connect(TABLE, SCHEMA, workspace=work) as session:
        assert session.budget.spent == 0.25
        assert session.query(COUNT, rho=0.25).free


@pytest.mark.parametrize("schema", [None, 5, "nowhere.toml", {}, {"table": {"name": "t"}}], ids=str)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any, tmp_path: Path) -> None:
    with pytest.raises(DPXPlainError) as caught:
        dpx.connect(TABLE, schema, workspace=tmp_path)
    refused(caught.value, dpx.SchemaError)


def test_an_example_that_is_not_bundled_is_refused() -> None:
    with pytest.raises(DPXPlainError) as caught:
        dpx.example("nothing")
    refused(caught.value, dpx.BadRequest, "adult")
