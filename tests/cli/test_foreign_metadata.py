"""`schema init` from metadata of others and from a database's catalog: what is taken over, what is said."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from dpxplain.cli.metadata import described_catalog, draft_described
from dpxplain.engines.opening import spark_catalog
from dpxplain.model.schema import Schema

CSVW = {
    "@context": ["http://www.w3.org/ns/csvw", "csvw-eo-context.jsonld"],
    "@type": "Table",
    "privacyUnit": "penguin_id",
    "maxContributions": 3,
    "maxLength": 344,
    "tableSchema": {
        "columns": [
            {"name": "penguin_id", "datatype": "string", "privacyId": True},
            {"name": "species", "datatype": "string",
             "keyValues": ["Adelie", "Gentoo"], "nullableProportion": 0.1},
            {"name": "region", "datatype": "int", "csvw-eo:public.keyValues": [1, 2, 3], "minimum": 1},
            {"name": "bill", "datatype": "float", "minimum": 30.0, "maximum": 65.0, "maxNumPartitions": 9},
            {"name": "born", "datatype": {"base": "date", "minimum": "2000-01-01", "maximum": "2020-12-31"}},
            {"name": "age", "datatype": "int",
             "partitions": [{"csvw-eo:predicate": {"lowerBound": 18, "upperBound": 65}},
                            {"predicate": {"lowerBound": 0, "upperBound": 18}}]},
            {"name": "alive", "datatype": "boolean"},
            {"name": "town", "datatype": "string"},
            {"name": "weight", "datatype": "float"},
        ]
    },
    "additionalInformation": [{"@type": "ColumnGroup", "columnsInGroup": ["species", "region"]}],
}  # fmt: skip
SMARTNOISE = """
Database:
  PUMS:
    PUMS:
      rows: 1000
      max_ids: 4
      censor_dims: True
      age: {type: int, lower: 0, upper: 100}
      sex: {type: string, cardinality: 2}
      married: {type: boolean}
      income: {type: float, lower: 0, upper: 500000}
      debt: {type: float}
      pid: {type: int, private_id: True}
"""


Init = Callable[..., str]


@pytest.fixture
def init(dpxplain: Any) -> Init:
    """Drafts to stdout."""
    return lambda *arguments: str(dpxplain("schema", "init", *arguments, "-o", "-").out)


def test_csvw_metadata_become_a_schema(init: Init) -> None:
    Path("penguin_metadata.json").write_text(json.dumps(CSVW))
    text = init("penguin_metadata.json")
    schema = Schema.load(tomllib.loads(text))
    assert schema.table.name == "penguin"
    assert (schema.privacy.unit, schema.privacy.max_rows) == ("penguin_id", 3)
    columns = schema.columns
    assert columns["species"].domain == ("Adelie", "Gentoo", None)
    assert columns["region"].values == (1, 2, 3)
    assert columns["bill"].bounds == (30, 65)
    assert columns["born"].is_temporal
    assert columns["age"].edges == (0, 18, 65)
    assert columns["alive"].values == (False, True)
    assert list(schema.unknown) == ["town"]
    assert "penguin_id" not in columns
    for said in (
        "Not used: maxLength = 344",
        "maxNumPartitions = 9",
        "Groups of columns",
        "No row was read",
    ):
        assert said in text
    assert "# [columns.weight]" in text


def test_smartnoise_metadata_become_a_schema(init: Init) -> None:
    Path("PUMS.yaml").write_text(SMARTNOISE)
    text = init("PUMS.yaml", "--from", "smartnoise")
    schema = Schema.load(tomllib.loads(text))
    assert schema.table.name == "pums"
    assert (schema.privacy.unit, schema.privacy.max_rows) == ("pid", 4)
    assert schema.columns["age"].bounds == (0, 100)
    assert schema.columns["age"].step == 1
    assert schema.columns["married"].values == (False, True)
    assert list(schema.unknown) == ["sex"]
    for said in (
        "Not used: censor_dims = true",
        "rows = 1000",
        "cardinality = 2",
        "# [columns.debt]",
    ):
        assert said in text


def test_row_privacy_protects_a_row_although_there_is_an_id(init: Init) -> None:
    Path("PUMS.yaml").write_text(SMARTNOISE.replace("rows: 1000", "row_privacy: True"))
    schema = Schema.load(tomllib.loads(init("PUMS.yaml")))
    assert schema.privacy.unit == "row"


def test_one_of_several_tables_is_named(init: Init, dpxplain: Any) -> None:
    two = SMARTNOISE + "    other:\n      age: {type: int, lower: 0, upper: 9}\n"
    Path("two.yaml").write_text(two)
    assert "two.yaml::TABLE" in dpxplain("schema", "init", "two.yaml", "-o", "-").err
    assert 'name = "other"' in init("two.yaml::other")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.json", "{", "not valid JSON"),
        ("a.json", "[1]", "neither CSVW-EO nor SmartNoise"),
        ("a.json", '{"tableSchema": {}}', "neither CSVW-EO nor SmartNoise"),
        ("a.yaml", "a: [", "not valid YAML"),
        ("a.yaml", "a: 1", "neither CSVW-EO nor SmartNoise"),
    ],
)
def test_what_is_no_metadata_is_refused(dpxplain: Any, name: str, content: str, problem: str) -> None:
    Path(name).write_text(content)
    refused = dpxplain("schema", "init", name, "-o", "-")
    assert refused.code == 2
    assert problem in " ".join(refused.err.split())


def test_a_postgresql_table_is_drafted_from_its_catalog_alone(
    postgres_address: str, init: Init, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(postgres_address, autocommit=True) as database:
        database.execute("CREATE SCHEMA dpxplain")  # what the fixture removes
        database.execute(
            'CREATE TABLE dpxplain.visits (id bigint, city text, "Odd name" varchar(9), age smallint, '
            "pay numeric(9, 2), at timestamptz, well boolean, extra jsonb)"
        )
        database.execute("INSERT INTO dpxplain.visits (city) VALUES ('A secret city')")
    secret = str(psycopg.conninfo.conninfo_to_dict(postgres_address)["password"])
    monkeypatch.setenv("PGPASSWORD", secret)
    text = init(f"{postgres_address.replace(f':{quote(secret)}@', '@')}::dpxplain.visits")
    schema = Schema.load(tomllib.loads(text))
    assert schema.table.name == "visits"
    assert list(schema.unknown) == ["city", "Odd name"]
    assert schema.columns["well"].values == (False, True)
    assert "secret" not in text
    assert secret not in text
    assert str(schema.table.source).endswith("::dpxplain.visits")
    assert schema.table.version  # without it, the table would not be opened
    for name, kind in (("age", "numbers"), ("pay", "numbers"), ("at", "dates"), ("extra", "jsonb")):
        assert f"# [columns.{name}]\n# Left out: it contains {kind}" in text


def test_a_database_that_cannot_be_reached_is_told_without_its_password(dpxplain: Any) -> None:
    for address, problem in (
        ("postgresql://ann:hunter2@127.0.0.1:1/db", "must not contain a password"),
        ("postgresql://ann@127.0.0.1:1/db", "cannot be reached"),
    ):
        refused = dpxplain("schema", "init", address, "-o", "-")
        assert refused.code == 2
        assert problem in " ".join(refused.err.split())
        assert "hunter2" not in refused.err + refused.out


def test_a_spark_schema_is_drafted_from_its_types() -> None:
    def field(name: str, type_name: str) -> Any:
        return SimpleNamespace(
            name=name, nullable=True, dataType=SimpleNamespace(simpleString=lambda: type_name)
        )

    fields = [
        field("city", "string"),
        field("age", "int"),
        field("at", "timestamp_ntz"),
        field("ok", "boolean"),
    ]
    table = spark_catalog(fields, "people")
    draft = draft_described(described_catalog(table, "the types of a Spark table"), 1.0)
    assert draft.schema is not None
    assert list(draft.schema.unknown) == ["city"]
    assert [omitted.name for omitted in draft.left_out] == ["age", "at"]


def test_a_catalog_without_any_domain_is_drafted_as_a_form() -> None:
    fields = [
        SimpleNamespace(name="age", nullable=True, dataType=SimpleNamespace(simpleString=lambda: "bigint"))
    ]
    table = spark_catalog(fields, "people")
    draft = draft_described(described_catalog(table, "the types of a Spark table"), 1.0)
    assert draft.schema is None
    assert "Declare bounds = [low, high] or edges" in draft.text


def test_a_code_book_says_what_a_catalog_does_not(dpxplain: Any, folder: Path) -> None:
    (folder / "penguins.json").write_text(json.dumps(CSVW))
    (folder / "book.csv").write_text(
        "column,value,label,low,high\nregion,01,North,,\nregion,02,South,,\ntown,Graz,,,\ntown,Linz,,,\n"
        "weight,,Body mass,,\nweight,,,1,9\nage,,,0,30\n"
    )
    words = ("schema", "init", "penguins.json", "-o", "p.toml", "--codebook", "book.csv")
    assert dpxplain(*words).code == 0
    columns = Schema.load(folder / "p.toml").columns
    assert (columns["region"].values, columns["region"].value_labels["1"]) == ((1, 2), "North")
    assert columns["town"].values == ("Graz", "Linz")
    assert (columns["weight"].bounds, columns["weight"].label) == ((1, 9), "Body mass")
    assert columns["age"].bounds == (0, 30)
    assert columns["bill"].bounds == (30, 65)


@pytest.mark.parametrize(
    ("book", "problem"),
    [
        ("column,value\nbeak,1\n", "None of the columns in the code book"),
        ("column,value\nregion,1\nregion,01\n", "'1' twice"),
        ("column,low,high\nborn,2000,2020\n", "born, which does not contain numbers"),
    ],
)
def test_a_code_book_that_does_not_fit_is_refused(
    dpxplain: Any, folder: Path, book: str, problem: str
) -> None:
    (folder / "penguins.json").write_text(json.dumps(CSVW))
    (folder / "book.csv").write_text(book)
    outcome = dpxplain("schema", "init", "penguins.json", "-o", "p.toml", "--codebook", "book.csv")
    assert outcome.code == 2
    assert problem in " ".join(outcome.err.split())
    assert not (folder / "p.toml").exists()
