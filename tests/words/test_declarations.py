"""Declarations: a query and the sentences about what is capped, counted and left out."""

from __future__ import annotations

from typing import Any

import pytest

from dpxplain.model.charge import EntryId
from dpxplain.model.schema import Schema, joined_schema
from dpxplain.sql.parse import parse
from dpxplain.words.declarations import footnotes, main_caveat, rows_counted, shaped_by

Share = tuple[float, float]
COLUMNS: dict[str, Any] = {
    "origin": {"values": ["EWR", "JFK", "LGA"]},
    "carrier": {"values": ["UA", "B6"], "null": True, "label": "Airline"},
    "hour": {"edges": [0, 6, 12, 18, 24]},
    "dep_delay": {"bounds": [-90, 300], "label": "Departure delay"},
    "distance": {"bounds": [0, 5000], "step": 0.5},
    "late": {"bounds": [0, 1], "step": 1, "label": "Share of late flights"},
    "km": {"expression": "distance * 2"},
    "is_late": {"expression": "CASE WHEN distance > 9 THEN 1 ELSE 0 END"},
}
KEPT = "At most 50 rows of each tailnum are counted. Rows without a tailnum are not counted."
CAPPED = "Values of departure delay above 300 count as 300, and values below -90 as -90."
MISSING = "Rows without a departure delay are not counted."
ORIGIN = "Rows without a listed origin are not counted."
DISTANCE = "Values of distance above 5,000 count as 5,000, and values below 0 as 0."
UNLISTED = "Rows with an unlisted airline match neither the filter nor its opposite."
UNLISTED_SHARE = (
    "Rows without a listed origin are not counted "
    "(not in the list 5.0% to 6.0%, NULL 0.00% to 0.10% of all rows)."
)
MEASURED = "Each share has its own 95% interval, from data quality measurement 7."
AVERAGE = "SELECT origin, AVG(dep_delay) FROM flights GROUP BY origin"


def declared(**privacy: Any) -> Schema:
    privacy = {"rho": 1.0, **privacy}
    return Schema.load({"table": {"name": "flights"}, "privacy": privacy, "columns": COLUMNS})


BY_ROW, BY_PLANE = declared(), declared(unit="tailnum", max_rows=50)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT COUNT(*) FROM flights", ()),
        ("SELECT origin, COUNT(*) FROM flights GROUP BY origin", (ORIGIN,)),
        (AVERAGE, (CAPPED, MISSING, ORIGIN)),
        ("SELECT COUNT(dep_delay) FROM flights", (MISSING,)),
        ("SELECT COUNT(origin) FROM flights", (ORIGIN,)),
        (
            "SELECT SUM(distance) FROM flights",
            (
                DISTANCE,
                "Values of distance are rounded to multiples of 0.5.",
                "Rows without a distance are not counted.",
            ),
        ),
        ("SELECT AVG(late) FROM flights", ("Rows without a late are not counted.",)),
        (
            "SELECT carrier, COUNT(*) FROM flights GROUP BY carrier",
            ("Rows whose airline is not in the list are not counted.",),
        ),
        (
            "SELECT hour, COUNT(*) FROM flights GROUP BY hour",
            ("Rows whose hour is outside (0, 24] or missing are not counted.",),
        ),
        (
            "SELECT COUNT(*) FROM flights WHERE dep_delay > 15",
            ("The filter sees departure delay capped at -90 and 300.",),
        ),
        ("SELECT COUNT(*) FROM flights WHERE carrier = 'UA'", ()),
        ("SELECT COUNT(*) FROM flights WHERE carrier <> 'UA'", (UNLISTED,)),
        ("SELECT COUNT(*) FROM flights WHERE NOT carrier = 'UA'", (UNLISTED,)),
        (
            "SELECT COUNT(*) FROM flights WHERE origin IS NULL",
            ("In the filter, an origin that is not in the list counts as missing.",),
        ),
        ("SELECT COUNT(*), AVG(dep_delay) FROM flights", (CAPPED, MISSING)),
        (
            "SELECT AVG(km) FROM flights",
            (
                "km lies between 0 and 10,000, because of the declared limits of its columns.",
                DISTANCE,
                "Rows without a km are not counted.",
            ),
        ),
        (
            "SELECT is_late, COUNT(*) FROM flights GROUP BY is_late",
            (
                "is_late has the values 0, 1, as its expression says.",
                DISTANCE,
                "Rows without a listed is_late are not counted.",
            ),
        ),
    ],
)
def test_exactly_the_declarations_that_matter_are_named(sql: str, expected: tuple[str, ...]) -> None:
    assert shaped_by(parse(sql, BY_ROW).queries, BY_ROW) == expected
    assert shaped_by(parse(sql, BY_PLANE).queries, BY_PLANE) == (KEPT, *expected)


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ({"bounds": [0, 10]}, "Values of short above 10 count as 10, and values below 0 as 0."),
        (
            {"bounds": [-5, 200]},
            "short lies between -5 and 200, because of the declared limits of its columns.",
        ),
        ({"values": [0, 1]}, "short has the values 0, 1, as declared."),
    ],
)
def test_what_is_declared_beside_an_expression_is_not_said_to_follow_from_it(
    column: dict[str, list[int]], sentence: str
) -> None:
    columns = {"delay": {"bounds": [0, 100]}, "short": {"expression": "delay"} | column}
    schema = Schema.load({"table": {"name": "flights"}, "privacy": {"rho": 1.0}, "columns": columns})
    queries = parse("SELECT COUNT(short) FROM flights", schema).queries
    assert sentence in shaped_by(queries, schema)


def test_a_public_table_is_named_with_what_it_does_not_have() -> None:
    tables = {"airlines": {"key": "carrier", "public": True}}
    schema = Schema.load(
        {
            "table": {"name": "flights"},
            "privacy": {"rho": 1.0},
            "columns": {"carrier": {"values": ["UA", "B6"]}},
            "tables": tables,
        }
    ).with_public({"airlines": {"carrier": ["UA"], "alliance": ["Star"]}})
    sql = "SELECT alliance, COUNT(*) FROM flights JOIN airlines USING (carrier) GROUP BY alliance"
    assert shaped_by([parse(sql, schema).query], schema) == (
        "alliance is looked up in the public table airlines by carrier.",
        "A carrier that is not in its list, or not in airlines, has no alliance.",
        "Rows without a listed alliance are not counted.",
    )


def test_joined_private_tables_are_named_with_the_rows_that_are_joined() -> None:
    schema = Schema.load(
        {
            "table": {"name": "patients"},
            "privacy": {"rho": 1.0, "unit": "patient", "max_rows": 1},
            "columns": {"sex": {"values": ["F", "M"]}},
            "tables": {
                "visits": {"unit": "patient", "max_rows": 3, "columns": {"ward": {"values": ["A", "B"]}}}
            },
        }
    )
    sql = "SELECT sex, COUNT(*) FROM patients JOIN visits USING (patient) GROUP BY sex"
    joined = joined_schema(schema, ["visits"])
    assert shaped_by([parse(sql, joined).query], joined) == (
        "For each patient, at most 1 row of patients, 3 rows of visits are joined: at most 3 rows in all.",
        "A patient without rows in one of these tables is not counted, nor is a row without a patient.",
        "Rows without a listed sex are not counted.",
    )


@pytest.mark.parametrize(
    ("schema", "sql", "notes", "counted"),
    [
        (BY_ROW, "SELECT COUNT(*) FROM flights", (), ""),
        (BY_ROW, AVERAGE, ("departure delay, capped at -90 and 300",), ""),
        (BY_ROW, "SELECT AVG(late) FROM flights", (), ""),
        (
            BY_PLANE,
            "SELECT COUNT(*) FROM flights",
            ("at most 50 rows per tailnum",),
            "rows counted, at most 50 per tailnum",
        ),
        (
            BY_PLANE,
            AVERAGE,
            ("at most 50 rows per tailnum", "departure delay, capped at -90 and 300"),
            "",
        ),
    ],
)
def test_a_chart_says_it_in_a_few_words(
    schema: Schema, sql: str, notes: tuple[str, ...], counted: str
) -> None:
    query = parse(sql, schema).query
    assert footnotes(query, schema) == notes
    assert rows_counted(query, schema) == counted


class Bought:
    """The quality of a data set: the share of rows in each category, and of planes with many rows."""

    id: EntryId = 7
    confidence = 0.95
    rows_lost = (120.0, 150.0)

    def __init__(self, units: Share = (0.0, 0.01), **shares: Share) -> None:
        self.units_above = units
        self._shares = shares

    def covers(self, column: str) -> bool:
        return True

    def share(self, column: str, domain: str, category: str) -> Share:
        return self._shares.get(category, (0.0, 0.001))

    def most_left_out(self, column: str, domain: str) -> float:
        return 30.0


@pytest.mark.parametrize(
    ("quality", "caveat"),
    [
        (Bought(), ""),
        (Bought(above=(0.0, 0.5)), ""),  # perhaps many, and perhaps none
        (Bought(above=(0.021, 0.029)), "2.10–2.90% of rows have dep_delay above 300, counted as 300."),
        (Bought(below=(0.021, 0.029)), "2.10–2.90% of rows have dep_delay below -90, counted as -90."),
        (
            Bought(above=(0.02, 0.03), undeclared=(0.05, 0.06)),
            "5.0–6.0% of rows have no listed origin and are not counted.",
        ),
        (
            Bought((0.1, 0.2), above=(0.02, 0.03)),
            "10–20% of tailnum values have over 50 rows; further rows are cut.",
        ),
    ],
)
def test_the_caveat_is_the_declaration_that_surely_touches_most_rows(quality: Bought, caveat: str) -> None:
    assert main_caveat([parse(AVERAGE, BY_PLANE).query], BY_PLANE, quality) == caveat
    assert main_caveat([parse(AVERAGE, BY_PLANE).query], BY_PLANE, None) == ""


def test_a_caveat_has_at_most_15_words_whatever_the_names() -> None:
    name = "a column whose name is a whole sentence"
    privacy = {"rho": 1.0, "unit": "the person whose rows these are", "max_rows": 50}
    columns = {name: {"values": ["x", "y"]}, f"{name} too": {"bounds": [0, 9]}}
    schema = Schema.load({"table": {"name": "t"}, "privacy": privacy, "columns": columns})
    query = parse(f'SELECT "{name}", AVG("{name} too") FROM t GROUP BY "{name}"', schema).query
    for quality in (Bought((0.1, 0.2)), Bought(above=(0.1, 0.2)), Bought(undeclared=(0.1, 0.2))):
        assert 8 < len(main_caveat([query], schema, quality).split()) <= 15


def test_bought_quality_says_how_much_of_the_data_each_declaration_touches() -> None:
    quality = Bought((0.1, 0.2), above=(0.02, 0.03), undeclared=(0.05, 0.06))
    told = shaped_by([parse(AVERAGE, BY_PLANE).query], BY_PLANE, quality)
    assert told == (
        KEPT,
        "10% to 20% of the tailnum values have more rows. At least 120 rows are left out that way.",
        CAPPED,
        "0.00% to 0.10% of all rows are below -90, and 2.0% to 3.0% above 300. "
        "How much this changed the numbers is not known.",
        "Rows without a departure delay are not counted (0.00% to 0.10% of all rows).",
        UNLISTED_SHARE,
        MEASURED,
    )
    counts = parse("SELECT origin, COUNT(*) FROM flights GROUP BY origin", BY_ROW).query
    assert shaped_by([counts], BY_ROW, quality) == (
        UNLISTED_SHARE,
        "With these rows, no group would grow by more than 30.",
        MEASURED,
    )
