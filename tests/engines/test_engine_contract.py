"""What every engine promises, against an oracle in plain Python. See engine_openers.py for the engines."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from engine_openers import Opener, fits, opener
from engine_oracle import Row, answered, expected
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.engine import Engine
from dpxplain.model.confidential import Confidential
from dpxplain.model.query import (
    Aggregate,
    And,
    Comparison,
    Filter,
    Histogram,
    IsNull,
    Membership,
    Not,
    Or,
    Query,
)
from dpxplain.model.schema import Schema

__all__ = ["opener"]


def examples(count: int) -> settings:
    """So many, or as many times more as `make fuzz` says."""
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(
        max_examples=count * int(os.environ.get("EXAMPLES", "1")),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=quiet,
    )


def declare(columns: dict[str, Any], **privacy: Any) -> Schema:
    return Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1.0, **privacy}, "columns": columns})


TYPES: dict[str, pa.DataType] = {
    "city": pa.string(),
    "sex": pa.string(),
    "kids": pa.float64(),  # whole-number categories in a float column: 3.7 must not become 4
    "member": pa.bool_(),
    "age": pa.float64(),
    "size": pa.float64(),
    "pay": pa.float64(),
    "debt": pa.float64(),
}
SCHEMA = declare(
    {
        "city": {"values": ["north", "it's", 'say "x"', "NULL", ""]},
        "sex": {"values": ["F", "M"], "null": True},
        "kids": {"values": [-1, 0, 2, 4]},
        "member": {"values": [True, False], "null": True},
        "age": {"edges": [0, 10, 20.5, 30], "null": True, "bounds": [0, 40]},
        "size": {"edges": [-2.5, 0, 1e-3, 7]},
        "pay": {"bounds": [-1.5, 3.25], "step": 0.01},
        "debt": {"bounds": [-100, -10]},
    }
)
HUGE = [1e308, -1e308, 2.0**63, math.inf, -math.inf, 5e-324, -0.0]


def _sometimes(usual: st.SearchStrategy[Any], odd: list[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(usual, usual, usual, st.sampled_from([None, *odd]))


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "city": _sometimes(st.sampled_from(["north", "it's", 'say "x"', "NULL", ""]), ["North", "'"]),
            "sex": _sometimes(st.sampled_from(["F", "M"]), ["X", "NULL"]),
            "kids": _sometimes(st.sampled_from([-1.0, 0.0, 2.0, 4.0]), [3.7, 3.0, math.nan, *HUGE]),
            "member": _sometimes(st.booleans(), []),
            "age": _sometimes(st.sampled_from([0.0, 0.1, 10, 10.000001, 20.5, 30, 35]), [math.nan, *HUGE]),
            "size": _sometimes(st.sampled_from([-2.5, -2.4, 0, 1e-3, 7, 7.1]), [math.nan, *HUGE]),
            # Multiples of a thousandth that are no halves of the step: there exact and float rounding agree.
            "pay": _sometimes(
                st.integers(-2000, 4000).filter(lambda n: n % 10 != 5).map(lambda n: n / 1000),
                [math.nan, *HUGE],
            ),
            "debt": _sometimes(st.floats(-120, 10), [math.nan, *HUGE]),
        }
    ),
    max_size=12,
)


def table_of(rows: list[Row]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()})


@st.composite
def _leaves(draw: st.DrawFn) -> Filter:
    name = draw(st.sampled_from(list(TYPES)))
    column = SCHEMA.columns[name]
    if column.values is not None:
        literals = st.sampled_from([v for v in column.values if v is not None])
        ordered = name == "kids"
    else:
        literals = st.sampled_from([-12.34, -10, -1.5, 0, 0.001, 0.01, 0.005, 3, 10, 10.5, 20.5, 30, 1e300])
        ordered = True
    match draw(st.sampled_from(["null", "in", "compare", "compare"])):
        case "null":
            return IsNull(name)
        case "in":
            return Membership(name, tuple(draw(st.lists(literals, min_size=1, max_size=3))))
        case _:
            operators = ["=", "<>", "<", "<=", ">", ">="] if ordered else ["=", "<>"]
            return Comparison(name, draw(st.sampled_from(operators)), draw(literals))


def _branches(parts: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return several.map(And) | several.map(Or) | parts.map(Not)


FILTERS = st.recursive(_leaves(), _branches, max_leaves=6)
AGGREGATES = st.sampled_from(
    [Aggregate("count")]
    + [Aggregate("count", name) for name in TYPES]
    + [Aggregate(kind, name) for kind in ("sum", "avg") for name in ("age", "pay", "debt")]
)
DISCRETE = list(SCHEMA.discrete())


@st.composite
def _queries(draw: st.DrawFn) -> tuple[Query, tuple[tuple[str, ...], ...]]:
    group_by = tuple(draw(st.lists(st.sampled_from(DISCRETE), unique=True, max_size=2)))
    left = [name for name in DISCRETE if name not in group_by]
    size = draw(st.integers(0, 3))
    several = list(itertools.combinations(left, size))
    subsets = tuple(draw(st.lists(st.sampled_from(several), unique=True, min_size=1, max_size=4)))
    return Query("t", group_by, draw(AGGREGATES), draw(st.none() | FILTERS)), subsets


@examples(12)
@given(rows=ROWS, asked=st.lists(_queries(), min_size=3, max_size=3))
def test_counts_and_sums_equal_those_of_an_exact_oracle(opener: Opener, rows: list[Row], asked: Any) -> None:
    engine = opener(table_of(rows), SCHEMA)
    for query, subsets in asked:
        grouped = engine.grouped(query, subsets)
        assert type(grouped) is Confidential
        assert answered(query, subsets, grouped.reveal()) == expected(query, subsets, rows, SCHEMA)
    engine.close()


@pytest.mark.slow
@examples(20)
@given(rows=ROWS, filters=st.lists(FILTERS, min_size=6, max_size=6))
def test_filters_follow_three_valued_logic(opener: Opener, rows: list[Row], filters: list[Filter]) -> None:
    engine = opener(table_of(rows), SCHEMA)
    for where in filters:
        for node in (where, Not(where)):
            query = Query("t", ("sex",), Aggregate("count"), node)
            answer = answered(query, ((),), engine.grouped(query, ((),)).reveal())
            assert answer == expected(query, ((),), rows, SCHEMA)
    engine.close()


ODD_ROWS = [
    {
        "city": ["north", None, "it's", "nowhere"][i % 4],
        "sex": ["F", "M", None, "X"][i % 4],
        "kids": [4.0, 3.7, math.nan, 0.0, None, math.inf][i % 6],
        "member": [True, False, None][i % 3],
        "age": [10.0, math.nan, None, 1e308, -math.inf, 20.5, 30.0][i % 7],
        "size": [-2.5, 0.0, 7.0, math.nan, math.inf, 2.0**63][i % 6],
        "pay": [-1.5, 3.25, 9e99, math.nan, None, 0.29, -math.inf][i % 7],
        "debt": [-55.5, math.inf, None, -1e308, math.nan][i % 5],
    }
    for i in range(84)
]


@pytest.mark.parametrize("aggregate", ["count", "sum"])
def test_every_size_of_attribute_subset_is_counted_in_one_pass(opener: Opener, aggregate: Any) -> None:
    engine = opener(table_of(ODD_ROWS), SCHEMA)
    attributes = [name for name in DISCRETE if name != "sex"]
    for size in (1, 2, 3):
        subsets = tuple(itertools.combinations(attributes, size))
        for group_by in (("sex",), ()):
            query = Query("t", group_by, Aggregate(aggregate, "pay"))
            answer = answered(query, subsets, engine.grouped(query, subsets).reveal())
            assert answer == expected(query, subsets, ODD_ROWS, SCHEMA)
    engine.close()


@pytest.mark.parametrize("rows", [[], [dict.fromkeys(TYPES)] * 3], ids=["empty", "all NULL"])
def test_a_table_of_nothing_is_answered_like_any_other(opener: Opener, rows: list[Row]) -> None:
    engine = opener(table_of(rows), SCHEMA)
    for aggregate in (Aggregate("count"), Aggregate("count", "kids"), Aggregate("avg", "pay")):
        for subsets in (((),), (("city",), ("kids",)), (("city", "kids"),)):
            for group_by in ((), ("sex",), ("sex", "member")):
                query = Query("t", group_by, aggregate)
                answer = answered(query, subsets, engine.grouped(query, subsets).reveal())
                assert answer == expected(query, subsets, rows, SCHEMA)
    engine.close()


def total(opener: Opener, column: dict[str, Any], values: list[Any], kind: pa.DataType) -> tuple[int, int]:
    schema = declare({"x": column})
    engine = opener(pa.table({"x": pa.array(values, kind)}), schema)
    grouped = engine.grouped(Query("t", (), Aggregate("sum", "x")), ((),)).reveal()
    engine.close()
    return int(grouped.count.sum()), int(grouped.total.sum())


def test_values_are_clamped_then_rounded_to_the_declared_step(opener: Opener) -> None:
    column = {"bounds": [-1, 2], "step": 0.01}
    values = [0.29, 0.294, 0.296, -0.29, 1e308, -1e308, math.inf, -math.inf, math.nan, None]
    assert total(opener, column, values, pa.float64()) == (8, 29 + 29 + 30 - 29 + 200 - 100 + 200 - 100)


def test_bounds_off_the_grid_are_drawn_in_to_it(opener: Opener) -> None:
    assert total(opener, {"bounds": [0.2, 1.3], "step": 0.5}, [0.2, 1.3, -5, 5], pa.float64()) == (4, 6)


def test_a_derived_step_keeps_sums_exact_to_the_last_unit(opener: Opener) -> None:
    column = {"bounds": [0, 1]}
    grid = declare({"x": column}).columns["x"].grid
    assert grid.high == 2**30
    rows = 10_000
    values = [1.0 - 2.0**-30] * rows  # floats would lose the units of such a sum only beyond 2^53; ints never
    assert total(opener, column, values, pa.float64()) == (rows, (2**30 - 1) * rows)


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.decimal128(38, 2), pa.bool_()], ids=str
)
def test_every_numeric_type_is_summed(opener: Opener, kind: pa.DataType) -> None:
    values = [True, False, None] if kind == pa.bool_() else [1, 0, None]
    assert total(opener, {"bounds": [0, 100], "step": 1}, values, kind) == (2, 1)


def test_numbers_beyond_64_bits_are_clamped(opener: Opener) -> None:
    column = {"bounds": [-5, 5], "step": 1}
    assert total(opener, column, [2**63 - 1, -(2**63)], pa.int64()) == (2, 0)
    assert total(opener, column, [2**64 - 1], pa.uint64()) == (1, 5)
    assert total(opener, column, [10**37], pa.decimal128(38, 0)) == (1, 5)


def codes(opener: Opener, column: dict[str, Any], source: pa.Array) -> dict[int, int]:
    """Rows per code, as an attribute: code 0 is shown too."""
    engine = opener(pa.table({"x": source}), declare({"x": column}))
    grouped = engine.grouped(Query("t", (), Aggregate("count")), (("x",),)).reveal()
    engine.close()
    return dict(zip(grouped.codes["x"].tolist(), grouped.count.tolist(), strict=True))


def test_only_whole_numbers_are_whole_number_categories(opener: Opener) -> None:
    source = pa.array([3.7, 4.0, 3.5, 4.2, -0.0, 1e300, math.nan, math.inf, None])
    assert codes(opener, {"values": [4, 0, 3]}, source) == {0: 7, 1: 1, 2: 1}


def test_a_decimal_at_the_end_of_its_type_is_read_like_any_other(opener: Opener) -> None:
    values = [Decimal("4"), Decimal("4.5"), *(Decimal(f"{sign}{'9' * 28}.{'9' * 10}") for sign in ("", "-"))]
    assert codes(opener, {"values": [4, 5]}, pa.array(values, pa.decimal128(38, 10))) == {0: 3, 1: 1}


def test_only_zero_and_one_are_numbers_for_true_and_false(opener: Opener) -> None:
    source = pa.array([0.0, 1.0, 2.0, 0.5, -1.0, math.nan, None])
    assert codes(opener, {"values": [True, False]}, source) == {0: 5, 1: 1, 2: 1}


def test_large_whole_numbers_keep_their_last_digit(opener: Opener) -> None:
    source = pa.array([2**53 + 1, 2**53, 2**63 - 1])
    assert codes(opener, {"values": [2**53, 2**53 + 1]}, source) == {0: 1, 1: 1, 2: 1}


def test_bins_are_open_below_and_closed_above_to_the_last_digit(opener: Opener) -> None:
    edge = 0.30000000000000004
    source = pa.array([0.1, math.nextafter(0.1, 1), edge, math.nextafter(edge, 1), math.nextafter(edge, 0)])
    assert codes(opener, {"edges": [0.1, edge, 1]}, source) == {0: 1, 1: 3, 2: 1}


TEXTS = ["straße", "\tGraz ", "1_000", " 12", "7", "t", "yes", "ǆ", "ﬁn", "İ"]


@pytest.mark.parametrize(
    ("expression", "function"),
    [
        ("UPPER(x)", str.upper),
        ("LOWER(TRIM(x))", lambda text: text.strip().lower()),
        ("LENGTH(UPPER(x))", lambda text: len(text.upper())),
        ("x LIKE '%ß%'", lambda text: "ß" in text),
        ("CAST(TRIM(x) AS DOUBLE)", lambda text: {" 12": 12.0, "7": 7.0}.get(text)),
        ("CAST(x AS BOOLEAN)", {"t": True}.get),
        ("CASE WHEN x <> 'yes' THEN UPPER(x) END", lambda text: None if text == "yes" else text.upper()),
    ],
)
def test_functions_of_texts_are_those_that_groups_are_inferred_by(
    opener: Opener, expression: str, function: Callable[[str], Any]
) -> None:
    schema = declare({"x": {"values": TEXTS}, "image": {"expression": expression}})
    engine = opener(pa.table({"x": pa.array([*TEXTS, "İx", None])}), schema)
    grouped = engine.grouped(Query("t", (), Aggregate("count")), (("image",),)).reveal()
    engine.close()
    images = [None, *(value for value in schema.columns["image"].values or () if value is not None)]
    counted = zip(grouped.codes["image"].tolist(), grouped.count.tolist(), strict=True)
    assert {images[code]: count for code, count in counted} == Counter([*map(function, TEXTS), None, None])


@pytest.mark.parametrize(
    ("expression", "image"),
    [
        ("CASE WHEN CAST(x AS DOUBLE) > 1 THEN 1 ELSE 2 END", 2),
        ("COALESCE(CAST(x AS BIGINT), 3)", 3),
        ("COALESCE(CAST(x AS BOOLEAN), TRUE)", True),
        ("COALESCE(EXTRACT(year FROM CAST(x AS DATE)), 5)", 5),
        ("COALESCE(EXTRACT(hour FROM CAST(x AS TIMESTAMP)), 6)", 6),
    ],
)
def test_a_cast_that_no_text_fits_is_null_of_its_type(opener: Opener, expression: str, image: Any) -> None:
    schema = declare({"x": {"values": ["a", "bc"]}, "image": {"expression": expression}})
    engine = opener(pa.table({"x": ["a", "bc", "a"]}), schema)
    grouped = engine.grouped(Query("t", (), Aggregate("count")), (("image",),)).reveal()
    engine.close()
    values = schema.columns["image"].values or ()
    counts = zip(grouped.codes["image"].tolist(), grouped.count.tolist(), strict=True)
    assert {values[code - 1]: count for code, count in counts} == {image: 3}


def test_null_is_a_category_only_where_it_is_declared(opener: Opener) -> None:
    source = pa.array(["a", None, "NULL"])
    assert codes(opener, {"values": ["a"]}, source) == {0: 2, 1: 1}
    assert codes(opener, {"values": ["a"], "null": True}, source) == {0: 1, 1: 1, 2: 1}
    assert codes(opener, {"values": ["a", None]}, source) == {0: 1, 1: 1, 2: 1}
    assert codes(opener, {"values": [None]}, source) == {0: 2, 1: 1}


@pytest.mark.parametrize(
    "name",
    [
        *["select", 'q"uote', "two words", "Größe", "semi;colon--", "a.b", "'", "%s", "?", "row", "source"],
        *["count", "total", "subset", "missing_0", "code_0", "units_0", "encoded", "given", "declared"],
    ],
)
def test_a_column_may_have_any_name(opener: Opener, name: str) -> None:
    columns = {name: {"values": ["a", "b"]}, "other": {"values": ["x"]}, "pay": {"bounds": [0, 9], "step": 1}}
    schema = declare(columns)
    rows = [
        {name: value, "other": other, "pay": pay}
        for value, other, pay in [("a", "x", 5), ("a", "x", 2), ("b", None, 3), ("c", "x", 9)]
    ]
    types = {name: pa.string(), "other": pa.string(), "pay": pa.int64()}
    table = pa.table({n: pa.array([row[n] for row in rows], kind) for n, kind in types.items()})
    engine = opener(table, schema)
    for group_by, subsets in [((name,), (("other",), ())), (("other",), ((name,),)), ((), ((name,), ()))]:
        query = Query("t", group_by, Aggregate("sum", "pay"), Comparison(name, "<>", "b"))
        answer = answered(query, subsets, engine.grouped(query, subsets).reveal())
        assert answer == expected(query, subsets, rows, schema)
    engine.close()


def test_declared_values_are_data_and_never_sql(opener: Opener) -> None:
    values = ["'; DROP TABLE encoded; --", '"', "\\", "%", "?", "$1", "é", "𝔘", " a", "a ", "A", "a", "\n"]
    source = pa.array([*values, "b"])
    expected_codes = {0: 1} | {i + 1: 1 for i in range(len(values))}
    assert codes(opener, {"values": values}, source) == expected_codes


def test_a_domain_may_be_larger_than_a_byte_or_two(opener: Opener) -> None:
    for size in (255, 256, 70_000):
        source = pa.array([size - 1, 0, size])
        assert codes(opener, {"values": list(range(size))}, source) == {0: 1, 1: 1, size: 1}


def test_more_attributes_than_a_machine_word_has_bits_are_told_apart(opener: Opener) -> None:
    names = [f"a{i}" for i in range(70)]
    schema = declare({name: {"values": ["x", "y"]} for name in names})
    rows = [{name: "xy"[(i * (j + 1)) % 2] for j, name in enumerate(names)} for i in range(4)]
    engine = opener(pa.table({n: [row[n] for row in rows] for n in names}), schema)
    subsets = tuple((name,) for name in names)
    query = Query("t", (), Aggregate("count"))
    answer = answered(query, subsets, engine.grouped(query, subsets).reveal())
    assert answer == expected(query, subsets, rows, schema)
    engine.close()


PEOPLE = declare(
    {"g": {"values": ["a", "b"]}, "x": {"bounds": [0, 1000], "step": 1}}, unit="person", max_rows=2
)


def person_table(rows: list[tuple[Any, Any, Any]]) -> pa.Table:
    person, g, x = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"person": pa.array(person, pa.int64()), "g": pa.array(g, pa.string()), "x": pa.array(x, pa.int64())}
    )


def kept(opener: Opener, rows: list[tuple[Any, Any, Any]]) -> dict[tuple[Any, Any], int]:
    """How many rows the engine kept of each content."""
    engine = opener(person_table(rows), PEOPLE)
    found: dict[tuple[Any, Any], int] = {}
    for x in {x for _, _, x in rows}:
        query = Query("t", (), Aggregate("count"), Comparison("x", "=", x))
        grouped = engine.grouped(query, (("g",),)).reveal()
        for place, count in zip(grouped.codes["g"].tolist(), grouped.count.tolist(), strict=True):
            if count:
                found[place, x] = count
    engine.close()
    return found


PERSON_ROWS = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, None]), st.sampled_from(["a", "b", "z", None]), st.integers(0, 6)),
    min_size=1,
    max_size=14,
)


@examples(7)
@given(rows=PERSON_ROWS)
def test_removing_a_person_changes_their_rows_only_and_at_most_max_rows_of_them(
    opener: Opener, rows: list[tuple[Any, Any, Any]]
) -> None:
    everyone = kept(opener, rows)
    for person in {1, 2} & {row[0] for row in rows}:
        without = kept(opener, [row for row in rows if row[0] != person])
        alone = kept(opener, [row for row in rows if row[0] == person])
        assert sum(alone.values()) == min(2, sum(row[0] == person for row in rows))
        both = {key: without.get(key, 0) + alone.get(key, 0) for key in without | alone}
        assert everyone == both


@examples(6)
@given(rows=PERSON_ROWS, order=st.randoms(use_true_random=False))
def test_which_rows_of_a_person_are_kept_does_not_depend_on_their_order(
    opener: Opener, rows: list[tuple[Any, Any, Any]], order: Any
) -> None:
    shuffled = list(rows)
    order.shuffle(shuffled)
    assert kept(opener, rows) == kept(opener, shuffled)


def test_rows_without_a_person_are_left_out(opener: Opener) -> None:
    # As one person they would crowd each other out, so that one row more could move two.
    assert kept(opener, [(None, "a", 1), (None, "b", 2), (None, "a", 3)]) == {}


def test_the_kept_rows_are_not_simply_the_first_or_the_lowest(opener: Opener) -> None:
    rows = [(person, "a", 10 * person + i) for person in range(1, 13) for i in range(4)]
    chosen = [x for _, x in kept(opener, rows)]
    assert len(chosen) == 24
    assert {x % 10 for x in chosen} == {0, 1, 2, 3}


def chosen_by_hand(rows: list[tuple[Any, Any, Any]], max_rows: int) -> dict[tuple[Any, Any], int]:
    """The choice of a person's rows as every engine must make it, in plain Python."""
    found: dict[tuple[Any, Any], int] = {}
    for person in {row[0] for row in rows if row[0] is not None}:
        own = [({"a": 1, "b": 2}.get(g, 0), x) for who, g, x in rows if who == person]

        def order(row: tuple[int, Any]) -> tuple[Any, ...]:
            text = f",{row[0]},{'' if row[1] is None else row[1]}"
            known = (row[1] is not None, row[1] or 0)
            return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), row[0], known

        for content in sorted(own, key=order)[:max_rows]:
            found[content] = found.get(content, 0) + 1
    return found


@examples(6)
@given(rows=PERSON_ROWS)
def test_a_persons_rows_are_chosen_by_the_same_hash_on_every_engine(
    opener: Opener, rows: list[tuple[Any, Any, Any]]
) -> None:
    assert kept(opener, rows) == chosen_by_hand(rows, PEOPLE.privacy.max_rows)


HARD = declare(
    {
        "city": {"values": ["Zürich", 'say "x"', "O'Hare", "\U0001d518"], "null": True},
        "state": {"groups": {"East": ["NY", "NJ"], "West": ["CA"]}},
        "seats": {"values": [-(2**63), 0, 2**63 - 1]},
        "active": {"values": [True, False]},
        "joined": {"edges": ["2024-02-29", "2025-01-01T12:30:00.000001", "2026-01-01"], "null": True},
        "seen": {"edges": ["2025-01-01", "2025-07-01", "2026-01-01"], "time_zone": "America/New_York"},
        "born": {"values": ["1999-12-31", "2000-01-01"]},
        "size": {"edges": [-1, 0, 1]},
        "pay": {"bounds": [-2, 2], "step": 0.01},
        "cost": {"bounds": [0, 1000], "step": 0.01},
        "late": {
            "expression": "CASE WHEN pay > 0.5 THEN 'late' WHEN city LIKE 'Z%' THEN 'home' ELSE 'no' END"
        },
        "scaled": {"expression": "ROUND(pay * 10) % 7 + FLOOR(cost / 3)"},
        "year": {"expression": "EXTRACT(year FROM joined)"},
        "month": {"expression": "DATE_TRUNC('month', seen)"},
        "days": {"expression": "DATE_DIFF('day', joined, TIMESTAMP '2026-01-01 00:00:00')"},
        "due": {"expression": "born + INTERVAL '2' MONTH"},
        "eve": {"expression": "DATE_TRUNC('month', seen - INTERVAL '36' HOUR)"},
        "loud": {"expression": "UPPER(TRIM(city))"},
    },
    unit="person",
    max_rows=2,
)
UTC = UTC
HARD_TYPES: dict[str, pa.DataType] = {
    "person": pa.string(),
    "city": pa.string(),
    "state": pa.string(),
    "seats": pa.int64(),
    "active": pa.bool_(),
    "joined": pa.timestamp("us"),
    "seen": pa.timestamp("us", "UTC"),
    "born": pa.date32(),
    "size": pa.float64(),
    "pay": pa.float64(),
    "cost": pa.decimal128(38, 20),
}
MOMENTS = [datetime(2024, 2, 29), datetime(2025, 1, 1, 12, 30, 0, 1), datetime(2025, 1, 1, 12, 30, 0, 2)]
HARD_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "person": st.sampled_from(["ann", "Ann", "änn", "", "NaN", None, "bob "]),
            "city": st.sampled_from(["Zürich", "Zu\u0308rich", 'say "x"', "O'Hare", "\U0001d518", "", None]),
            "state": st.sampled_from(["NY", "NJ", "CA", "TX", "ny", None]),
            "seats": st.sampled_from([-(2**63), 0, 2**63 - 1, 2**63 - 2, None]),
            "active": st.sampled_from([True, False, None]),
            "joined": st.sampled_from([*MOMENTS, datetime(1, 1, 1), datetime(9999, 12, 31), None]),
            "seen": st.sampled_from(
                [datetime(2025, 1, 1, 5, tzinfo=UTC), datetime(2025, 7, 1, 3, 59, 59, 999999, UTC), None]
            ),
            "born": st.sampled_from([date(1999, 12, 31), date(2000, 1, 1), date(2000, 1, 2), None]),
            "size": st.sampled_from([-0.0, 0.0, 5e-324, -1.0, 1.0, math.nan, math.inf, -math.inf, None]),
            "pay": st.sampled_from([0.005, -0.005, 1.995, 0.285, 1.005, -1.115, math.nan, math.inf, 2e-320]),
            "cost": st.sampled_from(
                [Decimal("0.005"), Decimal("999.99499999999999999999"), Decimal("9" * 17 + ".5"), None]
            ),
        }
    ),
    max_size=14,
)
MEASURED: list[Aggregate] = [
    Aggregate("count"),
    Aggregate("persons"),
    *(Aggregate("sum", name) for name in ("pay", "cost", "scaled", "days")),
    Aggregate("var_samp", "pay"),
    Aggregate("stddev_pop", "cost"),
    Histogram("quantile", "cost", 1000),
]
HARD_FILTERS: list[Filter | None] = [
    None,
    Comparison("size", "<=", 0),
    Not(Membership("city", ("Zürich", "O'Hare"))),
    And((Comparison("pay", ">=", 0.01), Not(IsNull("late")))),
]


def exact_cells(engine: Engine, query: Query, subsets: tuple[tuple[str, ...], ...]) -> dict[Any, Any]:
    """The cells as they are, those of no group included."""
    grouped = engine.grouped(query, subsets).reveal()
    names = list(grouped.codes)
    columns = zip(*(grouped.codes[name].tolist() for name in names), strict=True)
    keys = columns if names else itertools.repeat(())
    figures = zip(grouped.subset.tolist(), keys, grouped.count.tolist(), grouped.total.tolist(), strict=False)
    return {(s, *key): (count, total) for s, key, count, total in figures if count}


@examples(3)
@given(rows=HARD_ROWS, place=st.integers(0, 10**6))
def test_hard_values_give_bit_equal_cells_on_every_engine(
    opener: Opener, rows: list[Row], place: int
) -> None:
    """DuckDB, which is compared with the oracle above, is what the others are compared with."""
    if opener is DuckDBEngine:
        return
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in HARD_TYPES.items()})
    engine, reference = opener(table, HARD), DuckDBEngine(table, HARD)
    discrete = list(HARD.discrete())
    for number, aggregate in enumerate(MEASURED):
        group = discrete[(place + number) % len(discrete)]
        others = [name for name in discrete if name != group]
        # Only what has an influence is counted by attributes.
        subsets = tuple((name,) for name in others) if aggregate.has_influence else ((),)
        query = Query("t", (group,), aggregate, HARD_FILTERS[(place + number) % len(HARD_FILTERS)])
        assert exact_cells(engine, query, subsets) == exact_cells(reference, query, subsets)
    assert fits(engine) == fits(reference)
    engine.close()
    reference.close()


def test_an_engine_prints_nothing_of_its_data(opener: Opener) -> None:
    engine = opener(pa.table({"x": [31337.125]}), declare({"x": {"bounds": [0, 1e6]}}))
    assert "31337" not in f"{engine!r} {engine} {vars(engine)}"
    grouped = engine.grouped(Query("t", (), Aggregate("sum", "x")), ((),))
    assert repr(grouped) == "<Confidential>"
    engine.close()
