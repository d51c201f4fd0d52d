"""Attacks that a reviewer made work on earlier versions; each must stay closed."""

from __future__ import annotations

import copy
import math
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import InternalError
from dpxplain.explanation.family_choice import Either, FamilyChoice, Recipe
from dpxplain.ledger.ledger import SQLLedger
from dpxplain.model.charge import Request
from dpxplain.model.column import Column, Grid
from dpxplain.model.confidential import Confidential
from dpxplain.model.query import Aggregate, Comparison, Or, Query, identity
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import LocalReleaser, OpenDataset, StoredReleaser
from dpxplain.phases.plan import ExplanationOptions
from dpxplain.privacy.mechanisms.noise import OpenDPNoise, add_gaussian, authorise, gaussian_measurement
from dpxplain.privacy.mechanisms.ranking import OneShotPlan, VectorPlan, bound_ranks, select_top_k
from dpxplain.privacy.mechanisms.samplers import FamilyScores
from dpxplain.results.explanation import plan_by
from opened import dataset_of


def _open(tmp_path: Any, rho: float = 10.0) -> dpx.Session:
    ids = [str(i) for i in range(300)]
    frame = pd.DataFrame({"g": ["A", "B"] * 50, "id": ids[:100], "pay": [30_000.0, 20_000.0] * 50})
    schema = {
        "table": {"name": "t"},
        "privacy": {"rho": rho},
        "columns": {
            "g": {"values": ["A", "B"]},
            "id": {"values": ids},
            "pay": {"bounds": [0, 100_000], "step": 1},
        },
    }
    return dpx.connect(frame, schema=schema, workspace=tmp_path)


def test_noise_so_wide_that_it_would_saturate_is_refused_before_anything_is_charged(tmp_path: Any) -> None:
    session = _open(tmp_path)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0).why("A", "B")
    for k, split in ((299, (1, 1e6, 1e6)), (300, (1, 1e6, 1))):
        with pytest.raises(dpx.ExplanationError, match="too small"):
            question.explain(k=k, rho=1e-12, split=split)
    assert session.budget.spent == 1.0
    session.close()


@pytest.mark.parametrize("tiny", [1e-25, 1e-29])
def test_mechanisms_themselves_refuse_noise_beyond_64_bits(tiny: float) -> None:
    family = Confidential(FamilyScores(np.arange(3), np.array([1, 2, 3]), 1000))
    with pytest.raises(InternalError):
        select_top_k(family, k=2, sensitivity=2**20, rho=tiny, noise=OpenDPNoise())
    with pytest.raises(InternalError):
        bound_ranks(family, [0], sensitivity=2**20, rho=tiny, confidence=0.9, noise=OpenDPNoise())


def test_a_price_is_what_the_number_is_and_not_what_it_prints(tmp_path: Any) -> None:
    class Cheap(float):
        def __repr__(self) -> str:
            return "1e-12"

    session = _open(tmp_path)
    session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=Cheap(2.0))
    assert session.budget.spent == 2.0
    session.query("SELECT g, SUM(pay) FROM t GROUP BY g", rho=np.float64(0.5))
    assert session.budget.spent == 2.5
    session.close()


def test_the_schema_an_analyst_sees_is_a_copy(tmp_path: Any) -> None:
    session = _open(tmp_path)
    with pytest.raises(TypeError):
        session.schema.columns["pay"] = Column(bounds=(0, 1), step=1)
    assert session.schema is not session.schema
    answer = session.query("SELECT g, SUM(pay) FROM t GROUP BY g", rho=0.5)
    assert answer["A"].scale == pytest.approx(100_000)
    session.close()


def test_a_question_cannot_be_given_other_weights_afterwards(tmp_path: Any) -> None:
    session = _open(tmp_path)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0).why("A", "B")
    with pytest.raises(AttributeError):
        question.contrast = None  # type: ignore[misc, assignment]
    with pytest.raises(dpx.QuestionError):
        question.answer.why({"A": 1e-304, "B": -1e-304})
    session.close()


def test_a_traceback_from_inside_a_mechanism_shows_no_value() -> None:
    class Interrupted(OpenDPNoise):
        def __init__(self, error: BaseException) -> None:
            self.error = error

        def gaussian(self, measurement: Any, values: np.ndarray, scale: float) -> np.ndarray:
            raise self.error

    for error in (KeyboardInterrupt(), ValueError("31337"), MemoryError("31337")):
        with pytest.raises((KeyboardInterrupt, InternalError, MemoryError)) as caught:
            add_gaussian(Confidential(np.array([31337])), sensitivity=1, rho=0.1, noise=Interrupted(error))
        shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
        frames = [line for line in shown.format() if "noise.py" in line]
        assert not frames, "the mechanism's own frames, which hold values, are gone"
        assert caught.value.__context__ is None


def test_a_traceback_of_a_computation_on_a_value_does_not_show_it() -> None:
    with pytest.raises(InternalError) as caught:
        Confidential([31337]).map(lambda values: values[1])
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "31337" not in "".join(shown.format()).replace("[31337]).map", "")


def test_confidential_gives_no_state_away() -> None:
    with pytest.raises(InternalError):
        Confidential(31337).__getstate__()


def _people(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


def _counts(frame: pd.DataFrame) -> dict[int, int]:
    schema = Schema.load(
        {
            "table": {"name": "t"},
            "privacy": {"rho": 1.0, "unit": "person", "max_rows": 1},
            "columns": {
                "x": {"bounds": [0, 100], "step": 1},
                "c": {"values": ["a", "b", "c", "d"]},
                "v": {"edges": [0, 50, 100]},
            },
        }
    )
    engine = DuckDBEngine(frame, schema)
    grouped = engine.grouped(Query("t", ("c", "v"), Aggregate("sum", "x")), ((),)).reveal()
    engine.close()
    keys = grouped.codes["c"] * 10 + grouped.codes["v"]
    return dict(
        zip(keys.tolist(), zip(grouped.count.tolist(), grouped.total.tolist(), strict=True), strict=True)
    )


@pytest.mark.parametrize("kind", ["number becomes float", "category gains a value", "id becomes float"])
def test_one_person_more_never_changes_which_rows_of_the_others_are_kept(kind: str) -> None:
    persons = np.repeat(np.arange(400), 2)
    rng = np.random.default_rng(5)
    frame = _people(
        person=persons,
        x=rng.integers(0, 100, 800),
        c=pd.Categorical(rng.choice(["b", "c"], 800)),
        v=rng.integers(1, 100, 800),
    )
    extra = _people(person=[9999], x=[7], c=["b"], v=[5])
    if kind == "number becomes float":
        extra = extra.assign(v=[np.nan])
    if kind == "category gains a value":
        extra = extra.assign(c=["a"])
        frame["c"] = frame["c"].cat.set_categories(["b", "c"])
    if kind == "id becomes float":
        extra = extra.assign(person=[np.nan])
    more = pd.concat([frame.astype({"c": str}), extra], ignore_index=True)
    more["c"] = pd.Categorical(more["c"])
    before, after = _counts(frame), _counts(more)
    moved = sum(abs(after.get(k, (0, 0))[0] - before.get(k, (0, 0))[0]) for k in before | after)
    assert moved <= 1


def test_no_object_an_analyst_holds_gives_a_schema_that_can_be_changed(tmp_path: Any) -> None:
    session = _open(tmp_path)
    answer = session.query("SELECT g, SUM(pay) FROM t GROUP BY g", rho=0.5)
    table = answer.why("A", "B").explain(k=1, rho=0.5, attributes=["id"])
    live = table.plan.family.schema
    for change in (
        lambda: live.columns.__setitem__("pay", Column(bounds=(0, 1))),
        lambda: live.columns.update(pay=Column(bounds=(0, 1))),
        lambda: live.columns.pop("pay"),
        lambda: live.columns.clear(),
        lambda: setattr(live, "columns", {}),
        lambda: setattr(live.columns["pay"], "bounds", (0, 1)),
    ):
        with pytest.raises((TypeError, AttributeError, ValueError)):
            change()
    assert session.query("SELECT g, SUM(pay) FROM t GROUP BY g", rho=0.25)["A"].scale == pytest.approx(
        100_000 / 0.5**0.5
    )
    session.close()


def test_answers_questions_and_tables_cannot_be_changed(tmp_path: Any) -> None:
    session = _open(tmp_path)
    answer = session.query("SELECT g, SUM(pay) FROM t GROUP BY g", rho=0.5)
    question = answer.why("A", "B")
    table = question.explain(k=1, rho=0.5, attributes=["id"])
    several = session.query("SELECT g, SUM(pay), COUNT(*) FROM t GROUP BY g", rho=0.5)
    for thing, names in (
        (answer, ("statement", "release", "groups", "id", "rows")),
        (question, ("answer", "contrast", "confidence", "estimate")),
        (table, ("plan", "release", "question")),
        (several, ("statement", "release", "answers")),
    ):
        for name in names:
            with pytest.raises(AttributeError):
                setattr(thing, name, getattr(thing, name))
            with pytest.raises(AttributeError):
                delattr(thing, name)
    with pytest.raises(ValueError, match="not an aggregate"):
        Aggregate("AVG", "pay")  # type: ignore[arg-type]
    session.close()


def test_code_of_an_analyst_does_not_run_on_true_counts_unless_the_curator_trusts_it(tmp_path: Any) -> None:
    seen: list[Any] = []

    def spy(counts: Any) -> Any:
        seen.append(counts)
        return counts.matching()

    session = _open(tmp_path)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5).why("A", "B")
    for influence in (dpx.FormulaInfluence("spy", spy), dpx.RatioInfluence(formula=spy)):
        with pytest.raises(dpx.ExplanationError, match="must trust"):
            question.explain(k=1, rho=0.5, influence=influence)
    assert seen == []
    assert session.budget.spent == 0.5
    assert len(question.explain(k=1, rho=0.5, influence=dpx.RatioInfluence())) == 1
    session.close()


@pytest.mark.slow
def test_a_wider_range_never_gives_a_narrower_result() -> None:
    from dpxplain.explanation.custom import Range

    ends = [-np.inf, -2.0, 0.0, 1.0, 3.0, np.inf]
    narrow = [Range.of(a, b) for a in ends for b in ends if a <= b and np.isfinite(a) and np.isfinite(b)]
    whole = [Range.of(a, b) for a in ends for b in ends if a <= b and (a < np.inf and b > -np.inf)]
    operations = (lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y)
    for x in narrow:
        for wide in whole:
            if not (wide.low <= x.low and x.high <= wide.high):
                continue
            for y in whole:
                for operation in operations:
                    small, large = operation(x, y), operation(wide, y)
                    assert large.low <= small.low
                    assert small.high <= large.high
                    chained, enclosing = small * y / y, large * y / y
                    assert enclosing.low <= chained.low
                    assert chained.high <= enclosing.high


def test_a_group_named_twice_in_a_formula_is_refused() -> None:
    from dpxplain.explanation.custom import Counts
    from dpxplain.explanation.influence import QuestionCells

    cells = QuestionCells(*(np.array(x) for x in ([0], [8, 4], [0, 0], [[4], [1]], [[0], [0]])))
    for groups in ((0, 0), (0, -1), (2,)):
        with pytest.raises(ValueError, match="position"):
            Counts(cells, 1).matching(*groups)


def test_a_preparation_at_any_price_is_found_again(tmp_path: Any) -> None:
    session = _open(tmp_path)
    answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5)
    for rho in (1 / 3, 0.1 + 0.2):
        answer.prepare(rho=rho)
        assert answer.why("A", "B").explain(k=1).free
    before = session.budget.spent
    assert answer.why("A", "B").explain(k=1, rho=0.2, mechanism="marginals").free
    assert session.budget.spent == before
    session.close()


def test_a_condition_that_holds_nowhere_is_explained_like_any_other(tmp_path: Any) -> None:
    session = _open(tmp_path)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5).why("A", "B")
    for mechanism in ("one-shot", "vector", "marginals"):
        table = question.explain(k=1, rho=0.5, predicates=["id = '1' AND id = '2'"], mechanism=mechanism)
        assert len(table) == 1
    session.close()


def _everything_that_is_a_schema(session: dpx.Session) -> list[Schema]:
    answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5)
    several = session.query("SELECT g, COUNT(*), SUM(pay) FROM t GROUP BY g", rho=0.5)
    table = answer.why("A", "B").explain(k=1, rho=0.5, attributes=["id"])
    return [session.schema, answer.schema, several.schema, table.plan.family.schema]


def test_a_declaration_cannot_be_made_again_nor_given_a_grid_or_domain(tmp_path: Any) -> None:
    session = _open(tmp_path)
    thin, short = Grid(Fraction(1), 0, 1), {"bounds": (0, 1), "step": 1}
    for schema in _everything_that_is_a_schema(session):
        pay = schema.columns["pay"]
        for change in (
            lambda pay=pay: setattr(pay, "grid", thin),
            lambda schema=schema: setattr(schema.columns["g"], "domain", ("A",)),
            lambda pay=pay: delattr(pay, "grid"),
            lambda pay=pay: pay.__init__(**short),
            lambda pay=pay: pay.__setstate__({"__dict__": short}),
            lambda schema=schema: schema.columns.__init__({"pay": Column(**short)}),
            lambda schema=schema: schema.privacy.__init__(rho=1e6),
            lambda schema=schema: schema.__init__(**schema.model_dump()),
        ):
            with pytest.raises((TypeError, AttributeError), match="cannot be changed"):
                change()
    assert session.query("SELECT g, SUM(pay) FROM t GROUP BY g", rho=0.5)["A"].scale == pytest.approx(100_000)
    session.close()


def test_copies_of_a_schema_share_nothing_with_it(tmp_path: Any) -> None:
    session = _open(tmp_path)
    original = dataset_of(session).schema
    for other in (session.schema, Schema.load(original), copy.deepcopy(original)):
        assert other == original
        assert type(other.columns) is type(original.columns)
        assert all(other.columns[name] is not column for name, column in original.columns.items())
    vars(session.schema.columns["pay"])["bounds"] = (0, 1)
    assert original.columns["pay"].bounds == (0, 100_000)
    session.close()


@pytest.mark.parametrize(
    "tamper",
    [
        lambda schema: vars(schema.columns["pay"]).update(grid=Grid(Fraction(1), 0, 1)),
        lambda schema: vars(schema.columns["pay"]).update(bounds=(0.0, 1.0)),
        lambda schema: object.__setattr__(schema.columns["pay"].grid, "high", 1),
        lambda schema: object.__setattr__(schema.columns["pay"].grid, "high", type("Odd", (int,), {})(10**5)),
        lambda schema: vars(schema.columns["id"]).update(domain=("1", "2")),
        lambda schema: vars(schema.privacy).update(neighbours="bounded"),
        lambda schema: dict.__setitem__(schema.columns, "pay", Column(bounds=(0, 1))),
    ],
)
def test_declarations_that_were_changed_by_force_are_noticed_before_anything_is_charged(
    tmp_path: Any, tamper: Any
) -> None:
    session = _open(tmp_path)
    answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5)
    tamper(answer.schema)
    for ask in (
        lambda: session.query("SELECT g, SUM(pay) FROM t GROUP BY g", rho=0.5),
        lambda: answer.why("A", "B").explain(k=1, rho=0.5, attributes=["id"]),
        lambda: answer.prepare(rho=0.5),
    ):
        with pytest.raises(InternalError, match="The schema changed"):
            ask()
    assert session.budget.spent == 0.5
    session.close()


def test_a_question_that_weighs_a_group_twice_is_refused_before_the_charge(tmp_path: Any) -> None:
    session = _open(tmp_path)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5).why("A", "B")
    object.__setattr__(question.contrast, "groups", (0, 0))
    for influence in (None, dpx.RatioInfluence()):
        with pytest.raises(dpx.ExplanationError, match="each group only once"):
            question.explain(k=1, rho=0.5, attributes=["id"], influence=influence)
    assert session.budget.spent == 0.5
    session.close()


class _Small(int):
    """2 to whoever compares it, next to nothing to whoever takes its root."""

    def __float__(self) -> float:
        return 1e-18

    def __truediv__(self, _other: Any) -> float:
        return 1e-30

    def __rmul__(self, _other: Any) -> float:
        return 1e-30


class _Fickle(float):
    """1 when it is checked, and a share of its own choice when ρ is split by it."""

    def __rmul__(self, _other: Any) -> float:
        return 1e9

    def __float__(self) -> float:
        return 1e-12

    def __add__(self, other: Any) -> float:
        return 1e-9

    __radd__ = __add__


@pytest.mark.parametrize("mechanism", ["one-shot", "vector", "marginals"])
def test_k_and_split_and_rho_are_what_they_are_and_not_what_a_subclass_computes(
    tmp_path: Any, mechanism: str
) -> None:
    session = _open(tmp_path)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0).why("A", "B")
    honest = question.explain(k=2, rho=0.25, mechanism=mechanism)
    odd = question.explain(
        k=_Small(2),
        rho=_Fickle(0.25),
        confidence=_Fickle(0.95),
        split=(_Fickle(1), 1, 2),
        mechanism=mechanism,
    )
    assert odd.free, "it is the same request, so that nothing else can have been measured"
    assert odd.plan.influence_margin == honest.plan.influence_margin
    assert session.budget.spent == 1.25
    session.close()


def test_prices_of_every_phase_are_charged_as_they_are_used(tmp_path: Any) -> None:
    session = _open(tmp_path)
    answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=_Fickle(1.0))
    assert (answer.rho, session.budget.spent) == (1.0, 1.0)
    answer.prepare(rho=_Fickle(0.5), conjuncts=_Small(1))
    assert session.budget.spent == 1.5
    ratio = answer.why("A", "B").explain(k=_Small(2), rho=_Fickle(0.5), influence=dpx.RatioInfluence())
    assert session.budget.spent == 2.0
    assert answer.why("A", "B").explain(k=2, rho=0.5, influence=dpx.RatioInfluence()).id == ratio.id
    assert session.budget.spent == 2.0
    session.close()


def test_weights_are_checked_as_they_are_used(tmp_path: Any) -> None:
    class Sly(float):
        def __float__(self) -> float:
            return 1e-300

    session = _open(tmp_path)
    answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0)
    asked = answer.why({"A": Sly(1.0), "B": -1.0})
    assert [(weight, type(weight)) for weight in asked.contrast.weights] == [(1.0, float), (-1.0, float)]
    with pytest.raises(dpx.QuestionError, match="extremely large or small"):
        answer.why({"A": Sly(1e-300), "B": -1.0})
    for weight in (Sly(1e-300), 1e9, math.nan):
        object.__setattr__(asked.contrast, "weights", (weight, -1.0))  # past the checks of `why`
        for more in ({}, {"influence": dpx.RatioInfluence()}):
            with pytest.raises(dpx.ExplanationError, match="extremely large or small"):
                asked.explain(k=1, rho=0.5, **more)
    assert session.budget.spent == 1.0
    session.close()


@pytest.mark.parametrize("number", [_Small(2), np.int64(2), np.float32(2)])
def test_no_plan_and_no_mechanism_takes_what_is_not_quite_a_number(number: Any) -> None:
    with pytest.raises(InternalError, match="not quite a number"):
        OneShotPlan(number, 10, 1, 0.1, 0.1, 0.1)
    with pytest.raises(InternalError, match="not quite a number"):
        VectorPlan(2, 10, 1, number, 0.1, 0.1)
    with pytest.raises(InternalError, match="not quite a number"):
        authorise(gaussian_measurement, 1.0, 1.0, number)


def test_an_influence_of_ours_is_never_the_object_that_was_handed_in(tmp_path: Any) -> None:
    seen: list[Any] = []

    class Listening(tuple):
        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
            seen.append(args)
            return function(np.asarray(tuple(self)), *args[1:], **kwargs)

    class Comparing(int):
        def __lt__(self, other: Any) -> bool:
            seen.append(other)
            return int(self) < other

        __le__ = __gt__ = __ge__ = __lt__

    usual = dpx.RatioInfluence()
    patched = dpx.RatioInfluence()
    original = patched.bounds
    vars(patched)["bounds"] = lambda cells, d: (seen.append(cells), original(cells, d))[1]
    vars(patched)["refusal"] = lambda *asked: seen.append(asked) or ""
    session = _open(tmp_path)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5).why("A", "B")
    for number, influence in enumerate(
        (
            patched,
            dpx.RatioInfluence(thresholds=Listening(usual.thresholds)),
            dpx.RatioInfluence(thresholds=(Comparing(0), Comparing(1), Comparing(2**70))),
        )
    ):
        table = question.explain(k=1, rho=0.5 + number / 8, influence=influence)
        assert table.plan.influence is not influence
        assert all(type(end) is float for end in table.plan.influence.thresholds)
    assert seen == []
    with pytest.raises(dpx.ExplanationError, match="increasing numbers"):
        question.explain(k=1, rho=0.5, influence=dpx.RatioInfluence(thresholds=(0, 1, 10**400)))
    session.close()


def test_recipes_and_conditions_that_are_not_the_librarys_are_refused(tmp_path: Any) -> None:
    class Wide(Comparison):
        """Prints as `id = i` and holds for `id = 0`."""

        def __eq__(self, other: object) -> bool:
            return self is other

        __hash__ = object.__hash__

    def make(name: str, _schema: Schema) -> Any:
        return (Wide(name, "=", str(i)) for i in range(8))

    class Own(Recipe):
        def conditions(self, schema: Schema, eligible: Any) -> Any:
            return make("id", schema)

    class OwnEither(Either):
        conditions = Own.conditions  # type: ignore[assignment]

    session = _open(tmp_path)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5).why("A", "B")
    ours = dpx.differs("id")
    for recipe in (
        Recipe("mine", ("id",), ours.fits, make),
        Recipe("differs", ("id",), ours.fits, make),
        Recipe("differs", ("id",), lambda *_: True, ours.make),
        Own("differs", ("id",), ours.fits, ours.make),
        OwnEither(("id", "x"), "either"),
        Either(("id", "x"), "differs"),
        Recipe("either", ("id", "x"), ours.fits, ours.make),
        Recipe("differs", (1,), ours.fits, ours.make),  # type: ignore[arg-type]
        Wide("id", "=", "0"),
    ):
        with pytest.raises(dpx.ExplanationError, match="predicates must be"):
            question.explain(k=1, rho=0.5, predicates=recipe)
    with pytest.raises(InternalError, match="identity"):
        identity(Or((Comparison("id", "=", "1"), Wide("id", "=", "0"))))
    assert session.budget.spent == 0.5
    assert question.explain(k=1, rho=0.5, predicates=copy.copy(ours)).family_size == 300
    session.close()


def test_a_family_that_is_kept_depends_on_nothing_that_may_change(tmp_path: Any) -> None:
    class Liar(str):
        def __hash__(self) -> int:
            return hash("id")

        def __eq__(self, other: object) -> bool:
            return True

    columns = {"g": {"values": ["A", "B"]}, "x": {"values": ["u", "v"]}, "z": {"values": [1, 2, 3]}}
    schema = {"table": {"name": "t"}, "privacy": {"rho": 10}, "columns": columns}
    frame = pd.DataFrame({"g": ["A", "B"], "x": ["u", "v"], "z": [1, 2]})
    session = dpx.connect(frame, schema, workspace=tmp_path)
    dataset, query = dataset_of(session), Query("t", ("g",), Aggregate("count"))
    live = {1: "x"}
    names = live.values()
    assert dataset.family(query, FamilyChoice(names)).attributes == ("x",)  # type: ignore[arg-type]
    live[1] = "z"
    assert dataset.family(query, FamilyChoice(names)).attributes == ("z",)  # type: ignore[arg-type]
    assert dataset.family(query, FamilyChoice(iter(["x"]))).attributes == ("x",)  # type: ignore[arg-type]
    assert dataset.family(query, FamilyChoice(exclude=iter(["x"]))).attributes == (("z"),)  # type: ignore[arg-type]
    assert dataset.family(query, FamilyChoice([Liar("z")])).attributes == ("z",)
    assert dataset.family(query, FamilyChoice([Liar("x")])).attributes == ("x",)
    assert {type(name) for name in dataset.family(query, FamilyChoice([Liar("x")])).attributes} == {str}
    assert (
        dataset.family(query, FamilyChoice("x"))
        is dataset.family(query, FamilyChoice(["x"]))
        is dataset.family(query, FamilyChoice(("x", "x")))
    )
    assert (
        dataset.family(query, FamilyChoice(predicates=Liar("x = 'u'"))).key
        == dataset.family(query, FamilyChoice(predicates="x = 'u'")).key
    )
    dataset.family(query, FamilyChoice(conjuncts=1))
    for wrong in ({"conjuncts": True}, {"conjuncts": 1.0}, {"exclude": iter([1])}, {"attributes": iter([1])}):
        with pytest.raises(dpx.ExplanationError):
            dataset.family(query, FamilyChoice(**wrong))  # type: ignore[arg-type]
    session.close()


def _narrower(tmp_path: Any) -> dpx.Session:
    """A data set of the analyst's own: the columns of `_open`, declared so that little noise is needed."""
    columns = {
        "g": {"values": ["A", "B"]},
        "id": {"values": ["0", "1"]},
        "pay": {"bounds": [0, 1], "step": 1},
    }
    schema = {"table": {"name": "t"}, "privacy": {"rho": 10.0}, "columns": columns}
    return dpx.connect(pd.DataFrame({"g": ["A"], "id": ["0"], "pay": [1]}), schema, workspace=tmp_path)


def test_a_plan_made_under_other_declarations_is_not_measured(tmp_path: Any) -> None:
    session, own = _open(tmp_path / "theirs"), _narrower(tmp_path / "own")
    dataset = dataset_of(session)
    answer = own.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5)
    question = answer.why("A", "B")
    influence, foreign = dpx.RatioInfluence(), "planned with a different schema"
    family = dataset_of(own).family(answer.statement.query, FamilyChoice())
    for planned in (
        own.plan("SELECT g, SUM(pay) FROM t GROUP BY g", rho=0.5),
        own.plan("SELECT g, SUM(pay), COUNT(*) FROM t GROUP BY g", rho=0.5),
        answer.plan_prepare(0.5, FamilyChoice()),
        *(
            question.plan_explain(ExplanationOptions(FamilyChoice(), k=1, rho=0.5, mechanism=mechanism))
            for mechanism in ("one-shot", "vector", "marginals")
        ),
        plan_by(influence, question, family, dataset_of(own), ExplanationOptions(k=1, rho=0.5)),
    ):
        with pytest.raises(InternalError, match=foreign):
            planned.run(dataset)
    assert (session.budget.spent, len(session.history)) == (0.0, 0)
    session.close()
    own.close()


def test_what_is_planned_cannot_be_given_another_plan(tmp_path: Any) -> None:
    session = _open(tmp_path)
    answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5)
    query = session.plan("SELECT g, SUM(pay) FROM t GROUP BY g", rho=0.5)
    for planned, cheaper in (
        (query, replace(query.plan, rho=1e-6)),
        (answer.plan_prepare(0.5, FamilyChoice()), None),
        (answer.why("A", "B").plan_explain(ExplanationOptions(FamilyChoice(), k=1, rho=0.5)), None),
    ):
        with pytest.raises(AttributeError):
            planned.plan = cheaper or planned.plan
        with pytest.raises(TypeError):
            replace(planned, plan=cheaper or planned.plan)
    session.close()


def _public_parts(thing: Any) -> Iterator[Any]:
    if isinstance(thing, tuple | list):
        yield from thing[:5]
    elif isinstance(thing, dict):
        yield from thing.values()
    elif type(thing).__module__.startswith("dpxplain."):
        for name in dir(thing):
            if not name.startswith("_"):
                with suppress(Exception):
                    yield getattr(thing, name)


def test_no_object_an_analyst_holds_leads_to_the_data_by_a_public_name(tmp_path: Any) -> None:
    session = _open(tmp_path)
    planned = session.plan("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5)
    answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=0.5)
    question, choice = answer.why("A", "B"), FamilyChoice()
    waiting = [
        session,
        planned,
        planned.preview(),
        answer,
        session.query("SELECT g, COUNT(*), SUM(pay) FROM t GROUP BY g", rho=0.5),
        question,
        answer.plan_prepare(0.5, choice),
        question.plan_explain(ExplanationOptions(choice, k=1, rho=0.5)),
        question.explain(k=1, rho=0.5, mechanism="vector"),
        question.explain(k=1, rho=0.5, influence=dpx.RatioInfluence()),
        answer.prepare(rho=0.5),
    ]
    seen: dict[int, Any] = {}
    while waiting:
        thing = waiting.pop()
        if id(thing) not in seen:
            seen[id(thing)] = thing
            kinds = (OpenDataset, DuckDBEngine, Confidential, SQLLedger, LocalReleaser, OpenDPNoise)
            assert not isinstance(thing, kinds)
            waiting += _public_parts(thing)
    session.close()


def test_a_releaser_that_measures_nothing_refuses_each_request_anew() -> None:
    """An exception raised again would keep the frames, and so the requests, of all it was raised for."""

    class Nothing:
        def find(self, _plan: Any) -> None:
            return None

    releaser = StoredReleaser(lambda: InternalError("No."))
    caught = []
    for _ in range(2):
        with pytest.raises(InternalError, match="No") as error:
            releaser.find_or_measure(None, Request("why?"), Nothing(), str, None)  # type: ignore[arg-type, type-var]
        caught.append(error.value)
    assert caught[0] is not caught[1]
