"""What a caller writes takes bounded work: patterns, casts of extreme texts, lists of conditions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from call_counts import calls
from dpxplain.engines.duckdb_source import DuckDBDialect
from dpxplain.engines.encoding import Encoding, Rows
from dpxplain.explanation import distinct
from dpxplain.explanation.distinct import fold_implied, nested_with, nesting_work
from dpxplain.explanation.family import Listed, PredicateFamily
from dpxplain.model.query import Comparison, Or
from dpxplain.model.release import ReleasedLine
from dpxplain.model.schema import Schema
from dpxplain.model.value_domain import like_matcher
from dpxplain.server.problems import key_positions
from dpxplain.session import Session
from dpxplain.sql.parse import parse
from dpxplain.sql.render import expressions

NUMBERS = ["1", "2.5", "1e400", "-1e999", "12345678901234567890", "4611686018427387904", "1e300", "x"]
SCHEMA: dict[str, Any] = {
    "table": {"name": "t"},
    "privacy": {"rho": 1e6},
    "columns": {
        "city": {"values": ["aaaaa", "bbbbb", "Newark"]},
        "g": {"values": NUMBERS},
        "k": {"values": [1, 2, 2**62]},
    },
}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    rows = 24
    frame = pd.DataFrame(
        {"city": ["aaaaa", "bbbbb", "Newark"] * 8, "g": NUMBERS * 3, "k": [1, 2, 2**62] * (rows // 3)}
    )
    with dpx.connect(frame, SCHEMA, workspace=tmp_path, curator=True) as session:
        yield session


# -- Patterns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["city", "LOWER(city)"])
def test_a_pattern_of_many_percent_signs_takes_little_work(session: Session, column: str) -> None:
    pattern = "a".join(["%"] * 110)
    sql = f"SELECT COUNT(*) FROM t WHERE {column} LIKE '{pattern}' OR city = 'Newark'"

    def preview() -> None:
        with pytest.raises(dpx.DPXPlainError) if column == "city" else nullcontext():
            session.preview(sql, rho=1.0)

    assert calls(preview, most=200_000) > 0
    many_ways = like_matcher("%_" * 50 + "%b", False)
    assert calls(lambda: many_ways("a" * 2_000)) < 10_000


def test_patterns_match_as_sql_says() -> None:
    letters = ["", *("".join(p) for n in (1, 2, 3, 4) for p in itertools.product("aB%", repeat=n))]
    patterns = ["".join(p) for n in (0, 1, 2, 3, 4) for p in itertools.product("ab%_", repeat=n)]
    for pattern, ignores_case in itertools.product(patterns, (False, True)):
        matches = like_matcher(pattern, ignores_case)
        words = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in pattern)
        expected = re.compile(words, re.DOTALL | (re.IGNORECASE if ignores_case else 0))
        for text in letters:
            assert matches(text) == (expected.fullmatch(text) is not None), (pattern, text)


def test_the_case_of_every_letter_is_ignored_as_before() -> None:
    for code in (*range(0xD800), *range(0xE000, 0x20000)):
        letter = chr(code)
        relatives = {letter, letter.lower(), letter.upper(), letter.swapcase(), letter.lower()[:1]}
        for other in (relative for relative in relatives if len(relative) == 1):
            expected = re.fullmatch(re.escape(letter), other, re.IGNORECASE) is not None
            assert like_matcher(letter, True)(other) == expected or letter in "%_", (letter, other)


def test_finding_the_keys_of_a_long_schema_grows_with_its_lines() -> None:
    def work(lines: int) -> int:
        text = "[columns]\n" + "\n".join(f"k{number} = 1" for number in range(lines))
        return calls(lambda: key_positions(text))

    assert work(4_000) < 5 * work(1_000)  # the square would be 16 times


# -- Casts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("CAST(g AS BIGINT)", 6),
        ("CAST(g AS DOUBLE)", 12),
        ("CAST(CAST(g AS BIGINT) AS VARCHAR)", 6),
        ("CAST(k AS BIGINT)", 16),
        ("k + 1", 24),
        ("CAST(k AS DOUBLE)", 24),
    ],
)
def test_what_a_cast_cannot_hold_is_null(session: Session, expression: str, count: int) -> None:
    answer = session.query(f"SELECT COUNT({expression}) AS n FROM t", rho=1e5)
    assert round(answer.records()[0]["n"]) == count  # noise of 0.002


def test_a_sum_of_numbers_that_no_integer_holds_is_refused(session: Session) -> None:
    with pytest.raises(dpx.DPXPlainError, match="too large for SUM"):
        session.preview("SELECT SUM(k) FROM t", rho=1.0)


# -- Conditions that imply each other ----------------------------------------------------------------------


def _conditions(number: int) -> PredicateFamily:
    """Lists a <= 0, a <= 1, ... each of which implies the next, half of them in more words."""
    declared = {"a": {"values": list(range(number))}}
    schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": declared})
    listed = tuple(
        Or(tuple(Comparison("a", "=", value) for value in range(i - i % 2, i + 1)))
        if i % 2
        else Comparison("a", "=", i)
        for i in range(number)
    )
    return PredicateFamily(schema, (Listed(schema, ("a",), listed),))


def test_folding_grows_with_the_lines_and_not_with_their_pairs() -> None:
    def work(number: int) -> int:
        family = _conditions(number)
        nested_with(family, 0)  # tabulates the conditions, once
        lines = [ReleasedLine(i, 1.0, (0.0, 2.0), (1, number)) for i in range(number)]
        folded = fold_implied(family, lines)
        assert [len(line.folded) for line in folded] == [1] * (number // 2)
        return calls(lambda: fold_implied(family, lines), most=1_000_000)

    assert work(400) < 2.5 * work(200)


def test_a_table_that_takes_too_long_to_fold_is_shown_unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    family = _conditions(200)
    lines = [ReleasedLine(i, 1.0, (0.0, 2.0), (1, 200)) for i in range(200)]
    monkeypatch.setattr(distinct, "_FOLDING_WORK", 50 * nesting_work(family))
    folded = fold_implied(family, lines)
    assert [len(line.folded) for line in folded] == [1] * 25 + [0] * 150
    monkeypatch.setattr(distinct, "_FOLDING_WORK", 1)
    assert fold_implied(family, lines) == tuple(lines)


def test_conditions_are_nested_where_one_holds_in_all_cells_of_the_other() -> None:
    family, rng = _conditions(40), np.random.default_rng(0)
    (part,) = family.parts
    for predicate in rng.integers(0, 40, 20).tolist():
        own = set(part.cells_of(predicate))
        cells = {other: set(part.cells_of(other)) for other in range(40) if other != predicate}
        expected = [other for other, there in cells.items() if own <= there or there <= own]
        assert nested_with(family, predicate) == expected


def test_the_sql_of_computed_conditions_grows_with_their_number_and_not_with_its_square() -> None:
    def length(conditions: int) -> int:
        schema = Schema.load(SCHEMA)
        text = " OR ".join(f"k + {number} > 9" for number in range(conditions))
        names = expressions(parse(f"SELECT COUNT(*) FROM t WHERE {text}", schema).query, schema)
        assert len(names) == conditions
        rows = Rows("SELECT * FROM encoded", ("code_2", "units_2"))
        return len(Encoding(schema, {}, DuckDBDialect()).with_derived(names, rows).sql)

    assert length(200) < 2.5 * length(100)


def test_hundreds_of_computed_conditions_are_answered(session: Session) -> None:
    conditions = " OR ".join(f"k + {number} > 9" for number in range(500))
    answer = session.query(f"SELECT COUNT(*) FROM t WHERE {conditions}", rho=1e5)
    assert round(answer.rows[0].estimate) == 24


def test_a_statement_of_too_many_computed_columns_is_refused_before_it_is_planned(session: Session) -> None:
    conditions = " OR ".join(f"k + {number} > 9" for number in range(600))
    with pytest.raises(dpx.BadRequest, match="600 computed columns"):
        session.preview(f"SELECT COUNT(*) FROM t WHERE {conditions}", rho=1.0)


def test_subqueries_cannot_multiply_a_statement(session: Session) -> None:
    """Each name of a long expression stands for all of it."""
    doubled = ", ".join(f"c{i + 1} AS (SELECT x + x AS x FROM c{i})" for i in range(6))
    ctes = f"WITH c0 AS (SELECT k AS x FROM t), {doubled}"
    names = ", ".join(f"x AS a{i}" for i in range(1_500))
    for sql in (
        f"{ctes} SELECT COUNT(*) FROM c6 WHERE " + " OR ".join(f"x > {i}" for i in range(1_500)),
        f"{ctes}, d AS (SELECT {names} FROM c6) SELECT COUNT(*) FROM d",
        f"{ctes} SELECT {', '.join(f'SUM(x + {i})' for i in range(1_000))} FROM c6",
    ):

        def preview(statement: str = sql) -> None:
            with pytest.raises(dpx.BadRequest, match="too long when"):
                session.preview(statement, rho=1.0)

        assert calls(preview, most=3_000_000)
