"""What is admitted, and the tree it becomes."""

from __future__ import annotations

import pytest
from sql_printer import SCHEMA

from dpxplain.errors import QueryRefused
from dpxplain.model.query import (
    Aggregate,
    And,
    Comparison,
    IsNull,
    Membership,
    Not,
    Or,
    OrderKey,
    Output,
    Presentation,
    Query,
    filter_columns,
    identity,
)
from dpxplain.model.schema import Schema
from dpxplain.sql.parse import parse


def where(text: str) -> object:
    return parse(f"SELECT COUNT(*) FROM people WHERE {text}", SCHEMA).query.where


def test_a_whole_statement() -> None:
    sql = "SELECT sex, AVG(pay) AS mean FROM people WHERE age > 20 GROUP BY sex ORDER BY mean DESC LIMIT 3"
    statement = parse(sql, SCHEMA)
    assert statement.sql == sql
    assert statement.query == Query("people", ("sex",), Aggregate("avg", "pay"), Comparison("age", ">", 20))
    assert statement.presentation == Presentation(
        (Output("sex", "sex"), Output("mean", None)), (OrderKey(1, descending=True),), 3
    )


def test_a_text_that_claims_to_equal_another_is_parsed_as_written() -> None:
    counted, averaged = "SELECT COUNT(*) FROM people", "SELECT AVG(pay) FROM people"

    class Pretender(str):
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return hash(counted)

    assert parse(counted, SCHEMA).query.aggregate == Aggregate("count")
    assert parse(Pretender(averaged), SCHEMA).query.aggregate == Aggregate("avg", "pay")
    assert parse(counted, SCHEMA).query.aggregate == Aggregate("count")


@pytest.mark.parametrize(
    ("text", "aggregate"),
    [
        ("COUNT(*)", Aggregate("count")),
        ("count(1)", Aggregate("count")),
        ("COUNT(pay)", Aggregate("count", "pay")),
        ("COUNT(SEX)", Aggregate("count", "sex")),
        ("SUM(people.age)", Aggregate("sum", "age")),
        ("Avg((PAY))", Aggregate("avg", "pay")),
    ],
)
def test_aggregates(text: str, aggregate: Aggregate) -> None:
    statement = parse(f"SELECT {text} FROM people", SCHEMA)
    assert statement.query == Query("people", (), aggregate)
    assert statement.presentation.outputs == (Output(str(aggregate), None),)


def test_several_aggregates_are_one_statement_with_a_query_each() -> None:
    sql = "SELECT COUNT(*) n, sex, AVG(pay), SUM(pay) s FROM people GROUP BY sex ORDER BY avg(PAY) DESC, s"
    statement = parse(f"{sql} LIMIT 2", SCHEMA)
    aggregates = [Aggregate("count"), Aggregate("avg", "pay"), Aggregate("sum", "pay")]
    assert statement.queries == tuple(Query("people", ("sex",), aggregate) for aggregate in aggregates)
    outputs = (Output("n", None, 0), Output("sex", "sex"), Output("AVG(pay)", None, 1), Output("s", None, 2))
    assert statement.presentation == Presentation(outputs, (OrderKey(2, descending=True), OrderKey(3)), 2)
    assert statement.names == ("n", "AVG(pay)", "s")


def test_one_of_several_aggregates_reads_as_if_it_were_alone() -> None:
    statement = parse("SELECT COUNT(*), sex, AVG(pay) FROM people GROUP BY sex ORDER BY 1 LIMIT 1", SCHEMA)
    alone = statement.alone(1)
    assert alone.query == parse("SELECT sex, AVG(pay) FROM people GROUP BY sex", SCHEMA).query
    assert alone.presentation == Presentation((Output("sex", "sex"), Output("AVG(pay)", None)))
    assert alone.more == ()


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("10 < pay", Comparison("pay", ">", 10)),
        ("10 >= pay", Comparison("pay", "<=", 10)),
        ("pay != 3", Comparison("pay", "<>", 3)),
        ("pay == 3", Comparison("pay", "=", 3)),
        ("pay = 3.0", Comparison("pay", "=", 3)),
        ("pay = 3e1", Comparison("pay", "=", 30)),
        ("pay > .5", Comparison("pay", ">", 0.5)),
        ("pay > -1.5", Comparison("pay", ">", -1.5)),
        ("pay > 9007199254740993", Comparison("pay", ">", 9007199254740993)),
        ("kids < 2.5", Comparison("kids", "<", 2.5)),
        ("kids = 2.0", Comparison("kids", "=", 2)),
        ("sex = 'Male'", Comparison("sex", "=", "Male")),
        ("education = 'it''s'", Comparison("education", "=", "it's")),
        ("active", Comparison("active", "=", True)),
        ("NOT active", Not(Comparison("active", "=", True))),
        ("active = FALSE", Comparison("active", "=", False)),
        ("NOT NOT active", Comparison("active", "=", True)),
        ("sex IS NULL", IsNull("sex")),
        ("sex IS NOT NULL", Not(IsNull("sex"))),
        ("kids IN (2, 1, 2.0)", Membership("kids", (1, 2))),
        ("kids IN (2)", Comparison("kids", "=", 2)),
        ("kids NOT IN (1, 2)", Not(Membership("kids", (1, 2)))),
        ("pay BETWEEN 1 AND 2", And((Comparison("pay", ">=", 1), Comparison("pay", "<=", 2)))),
        (
            "pay NOT BETWEEN -2 AND 2",
            Not(And((Comparison("pay", ">=", -2), Comparison("pay", "<=", 2)))),
        ),
        (
            "active AND (pay > 1 AND (sex IS NULL))",
            And((Comparison("active", "=", True), Comparison("pay", ">", 1), IsNull("sex"))),
        ),
        (
            "sex IS NULL OR pay > 1 AND active OR (kids = 1 OR kids = 2)",
            Or(
                (
                    IsNull("sex"),
                    And((Comparison("pay", ">", 1), Comparison("active", "=", True))),
                    Comparison("kids", "=", 1),
                    Comparison("kids", "=", 2),
                )
            ),
        ),
    ],
)
def test_conditions(text: str, tree: object) -> None:
    assert where(text) == tree
    assert type(getattr(where(text), "value", None)) is type(getattr(tree, "value", None))  # 1 is not TRUE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("kids BETWEEN 1 AND 2 AND active", "(kids >= 1 AND 2 >= kids) AND active = TRUE"),
        ("pay <> 1.50", "1.5 != PAY"),
        ("kids IN (3, 1)", "Kids in (1,3,3) -- the same"),
    ],
)
def test_two_spellings_of_one_query_have_one_identity(one: str, other: str) -> None:
    assert identity(where(one)) == identity(where(other))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sex, COUNT(*) FROM people GROUP BY sex",
        "select Sex, count(*) from PEOPLE group by SEX;",
        "SELECT sex, COUNT(*) FROM people GROUP BY 1 ;;",
        'SELECT "sex", COUNT(*) FROM "people" GROUP BY "sex"',
        "SELECT p.sex, COUNT(*) FROM people AS p GROUP BY p.sex",
        "SELECT people.sex, COUNT(*) FROM people p GROUP BY P.sex",
        "SELECT sex AS s, COUNT(*) n FROM people GROUP BY s",
        "SELECT COUNT(*), (sex) FROM people GROUP BY (sex)",
        "/* a */ SELECT sex, -- b\n COUNT(*)\nFROM people\nGROUP\n BY sex -- c; d",
        "SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY COUNT(*), sex ASC LIMIT 2",
    ],
)
def test_spellings_of_a_grouped_count(sql: str) -> None:
    assert parse(sql, SCHEMA).query == Query("people", ("sex",), Aggregate("count"))


def test_group_by_takes_several_columns_in_its_own_order() -> None:
    statement = parse('SELECT age, COUNT(*) n, sex, "Group" g FROM people GROUP BY g, sex, 1', SCHEMA)
    assert statement.query.group_by == ("Group", "sex", "age")
    assert [o.name for o in statement.presentation.outputs] == ["age", "n", "sex", "g"]


def test_order_by_prefers_the_shown_name() -> None:
    sql = (
        "SELECT sex AS kids, kids AS sex, COUNT(*) FROM people GROUP BY sex, kids ORDER BY kids, people.kids"
    )
    assert parse(sql, SCHEMA).presentation.order == (OrderKey(0), OrderKey(1))


def test_quoted_names_are_exact_and_unquoted_ones_need_not_be() -> None:
    schema = Schema.load(
        {
            "table": {"name": "t"},
            "privacy": {"rho": 1},
            "columns": {"Pay": {"bounds": [0, 1]}, "pay": {"bounds": [0, 2]}, "Sex": {"values": ["F"]}},
        }
    )
    assert parse("SELECT SUM(pay) FROM t", schema).query.aggregate.column == "pay"
    assert parse('SELECT SUM("Pay") FROM t', schema).query.aggregate.column == "Pay"
    assert parse("SELECT COUNT(sEX) FROM t", schema).query.aggregate.column == "Sex"
    with pytest.raises(QueryRefused, match=r'several columns\. Write "Pay" or "pay"'):
        parse("SELECT SUM(PAY) FROM t", schema)
    with pytest.raises(QueryRefused, match="Did you mean Sex"):
        parse('SELECT COUNT("sex") FROM t', schema)


def test_a_long_chain_of_conditions_is_no_deep_one() -> None:
    tree = where(" AND ".join(f"pay <> {i}" for i in range(1200)))
    assert isinstance(tree, And)
    assert len(tree.parts) == 1200
    assert filter_columns(tree) == {"pay"}
