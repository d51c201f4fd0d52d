"""Every block of docs/language.md runs as printed, on data that have the columns it names."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psycopg
import pytest

import dpxplain as dpx
from dpxplain.cli import run
from dpxplain.datasets import path as bundled
from dpxplain.model.schema import Schema
from flights import SCHEMA as FLIGHTS_SCHEMA
from flights import flights
from printed_blocks import ROOT, Block, blocks_of

BLOCKS = blocks_of(ROOT / "docs/language.md")
_SPARK = "sc://"  # needs a Spark server: tests/cli/test_cli_spark.py has one
ANSWERED = {"Questions", "Ratios and shares", "Predicates"}
ADULT = {
    *("Queries", "Expressions", "In these data, and in general", "A story", "Mechanisms"),
    *("Prices", "The ε that is shown", "The answer first"),
}


def of(heading: str, language: str) -> list[Block]:
    return [block for block in BLOCKS if (block.heading, block.language) == (heading, language)]


def python(heading: str, names: dict[str, Any]) -> dict[str, Any]:
    """The section's Python blocks, one after the other, in a namespace that has `names`."""
    namespace = {"dpx": dpx} | names
    for block in of(heading, "python"):
        exec(compile(block.text, block.place, "exec"), namespace)
    return namespace


def sql(heading: str, session: dpx.Session) -> None:
    """The section's statements: apart by semicolons, or a line each."""
    for block in of(heading, "sql"):
        separator = ";" if ";" in block.text else r"\n(?=SELECT)" if "WITH" not in block.text else "$^"
        for statement in filter(str.strip, re.split(separator, block.text)):
            assert len(session.query(statement, rho=0.01)) > 0, block.place  # type: ignore[arg-type]


def declared(heading: str, base: str) -> str:
    """A schema file whose other lines are `base`."""
    return "\n".join([base, *(block.text for block in of(heading, "toml"))])


@pytest.fixture
def adult(tmp_path: Path) -> Iterator[dpx.Session]:
    """The bundled data with a budget for all that is printed."""
    schema = tomllib.loads(bundled("adult.toml").read_text("utf-8"))
    schema["privacy"]["rho"] = 100.0
    with dpx.connect(bundled("adult.parquet"), schema=schema, workspace=tmp_path) as session:
        yield session


@pytest.fixture
def made_up(tmp_path: Path) -> Iterator[dpx.Session]:
    """Groups A to D, persons and trips between zones, as the blocks about questions name them."""
    seeded, rows, zones = np.random.default_rng(4), 4_000, ["Queens", "Brooklyn", "Bronx", "Harlem", "Soho"]
    table = pd.DataFrame(
        {
            "g": seeded.choice(list("ABCD"), rows, p=[0.5, 0.2, 0.2, 0.1]),
            "age": seeded.integers(1, 80, rows),
            "sex": seeded.choice(["Male", "Female"], rows),
            "race": seeded.choice(["White", "Black", "Other"], rows),
            "pickup_zone": seeded.choice(zones, rows),
            "dropoff_zone": seeded.choice(zones, rows),
        }
    )
    schema = {
        "table": {"name": "trips"},
        "privacy": {"rho": 100.0},
        "columns": {
            "g": {"values": list("ABCD")},
            "age": {"edges": [0, 20, 40, 50, 80]},
            "sex": {"values": ["Male", "Female"]},
            "race": {"values": ["White", "Black", "Other"]},
            "pickup_zone": {"values": zones},
            "dropoff_zone": {"values": zones},
        },
    }
    with dpx.connect(table, schema=schema, workspace=tmp_path) as session:
        yield session


def test_queries_and_expressions(adult: dpx.Session) -> None:
    for heading in ("Queries", "Expressions"):
        sql(heading, adult)
    python("Queries", {"session": adult})


def test_expressions_and_groups_are_declared() -> None:
    schema = load(
        declared(
            "Expressions",
            """
            [columns.arr_delay]
            bounds = [-90, 300]
            step = 1
            [columns.state]
            values = ["NY", "NJ", "CA", "OR"]
            """,
        )
    )
    assert list(schema.domain("region")) == ["East", "West"]


@pytest.mark.parametrize("heading", ["Words for people", "Dates and timestamps"])
def test_columns_are_declared(heading: str) -> None:
    assert load(declared(heading, "")).columns


def load(columns: str) -> Schema:
    head = '[table]\nname = "flights"\n[privacy]\nrho = 5.0\n'
    return Schema.load(tomllib.loads(re.sub(r"(?m)^ +", "", head + columns)))


def test_joins_with_public_tables(tmp_path: Path) -> None:
    seeded, rows = np.random.default_rng(5), 500
    carriers, airports = ["AA", "B6", "DL"], ["EWR", "JFK", "LGA"]
    pd.DataFrame(
        {
            "carrier": seeded.choice(carriers, rows),
            "origin": seeded.choice(airports, rows),
            "dest": seeded.choice(airports, rows),
            "arr_delay": seeded.integers(-20, 60, rows),
        }
    ).to_csv(tmp_path / "flights.csv", index=False)
    alliances = ["Oneworld", "none", "SkyTeam"]
    pd.DataFrame({"carrier": carriers, "alliance": alliances, "fleet": [900, 280, 970]}).to_csv(
        tmp_path / "airlines.csv", index=False
    )
    pd.DataFrame(
        {"faa": airports, "city": ["Newark", "New York", "New York"], "altitude": [18, 13, 21]}
    ).to_parquet(tmp_path / "airports.parquet")
    columns = f"""
[table]
name = "flights"
source = "flights.csv"
[privacy]
rho = 5.0
[columns.carrier]
values = {json.dumps(carriers)}
[columns.origin]
values = {json.dumps(airports)}
[columns.dest]
values = {json.dumps(airports)}
[columns.arr_delay]
bounds = [-90, 300]
"""
    (tmp_path / "flights.toml").write_text(declared("Joins with public tables", columns), "utf-8")
    with dpx.connect(schema=tmp_path / "flights.toml", workspace=tmp_path) as session:
        sql("Joins with public tables", session)


def test_joins_of_private_tables(tmp_path: Path) -> None:
    seeded = np.random.default_rng(6)
    patients = pd.DataFrame({"patient": range(300), "sex": seeded.choice(["F", "M"], 300)})
    patients.to_parquet(tmp_path / "patients.parquet")
    visits = pd.DataFrame(
        {
            "patient": seeded.integers(0, 300, 700),
            "ward": seeded.choice(list("ABC"), 700),
            "cost": seeded.integers(0, 100, 700),
        }
    )
    visits.to_parquet(tmp_path / "visits.parquet")
    table = '[table]\nname = "patients"\nsource = "patients.parquet"\n[columns.sex]\nvalues = ["F", "M"]\n'
    cost = "[tables.visits.columns.cost]\nbounds = [0, 100]\nstep = 1\n"
    text = declared("Joins of private tables", table) + cost
    (tmp_path / "patients.toml").write_text(text, "utf-8")
    with dpx.connect(schema=tmp_path / "patients.toml", workspace=tmp_path) as session:
        sql("Joins of private tables", session)


def test_values_that_nobody_can_list(tmp_path: Path) -> None:
    table = pd.DataFrame({"city": ["Rome"] * 300 + ["Oslo"] * 200 + ["Nowhere"], "sex": "F"})
    head = '[table]\nname = "people"\n[privacy]\nrho = 5.0\n[columns.sex]\nvalues = ["F", "M"]\n'
    schema = tomllib.loads(declared("Values that nobody can list", head))
    with dpx.connect(table, schema=schema, workspace=tmp_path) as session:
        python("Values that nobody can list", {"session": session})


def test_metadata_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    columns = [{"name": "species", "datatype": "string", "keyValues": ["Adelie", "Gentoo"]}]
    Path("penguin_metadata.json").write_text(
        json.dumps({"@type": "Table", "tableSchema": {"columns": columns}}), "utf-8"
    )
    Path("PUMS.yaml").write_text("Database:\n  PUMS:\n    PUMS:\n      sex: {type: string}\n", "utf-8")
    files = [words for words in commands("Metadata of others") if "://" not in words[-1]]
    assert len(files) == 2
    for words in files:
        assert run(words) == 0
        Path("dpxplain.toml").unlink()


def test_metadata_of_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with psycopg.connect(postgres_address, autocommit=True) as database:
        database.execute("CREATE TABLE public.flights (carrier text, arr_delay integer)")
    monkeypatch.setenv("PGPASSWORD", str(psycopg.conninfo.conninfo_to_dict(postgres_address)["password"]))
    own = re.sub(r":[^:@/]*@", "@", postgres_address)
    [words] = (words for words in commands("Metadata of others") if words[-1].startswith("postgresql"))
    assert run([word.replace("postgresql://reader@host/db", own) for word in words]) == 0
    assert 'values = "discover"' in Path("dpxplain.toml").read_text("utf-8")


def commands(heading: str) -> list[list[str]]:
    """The words of each line behind `dpxplain`; those of Spark are left out."""
    lines = [line for block in of(heading, "sh") for line in block.text.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    assert all(line[0] == "dpxplain" for line in words)
    return [line[1:] for line in words if not line[-1].startswith(_SPARK)]


def test_what_the_numbers_are_of(tmp_path: Path) -> None:
    with dpx.connect(flights(), schema=FLIGHTS_SCHEMA, workspace=tmp_path) as session:
        answer = session.query("SELECT origin, AVG(dep_delay) FROM flights GROUP BY origin", rho=0.1)
        names = python("How the numbers were counted", {"session": session, "answer": answer})
        assert names["answer"].shaped_by[0] in " ".join(printed_comment("answer.shaped_by"))
        python("Choosing bounds", {"session": session})


def printed_comment(call: str) -> list[str]:
    """What a block says that a line prints."""
    [block] = (block for block in BLOCKS if block.text.startswith(f"{call}\n# "))
    return [line.lstrip('# ("') for line in block.text.splitlines()[1:]]


@pytest.mark.parametrize("heading", sorted(ANSWERED))
def test_questions_of_groups(
    heading: str, made_up: dpx.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer: Any = made_up.query("SELECT g, COUNT(*) FROM trips GROUP BY g", rho=1.0)
    answer.prepare(rho=1.0, conjuncts=2)
    python(heading, {"session": made_up, "answer": answer, "question": answer.why("A", "B")})


@pytest.mark.parametrize("heading", sorted(ADULT - {"Queries", "Expressions"}))
def test_questions_of_the_bundled_data(
    heading: str, adult: dpx.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer: Any = adult.query(
        "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status", rho=0.1
    )
    question = answer.why("Married-civ-spouse", "Never-married")
    python(heading, {"session": adult, "answer": answer, "question": question})


def test_a_query_without_a_price_is_refused_as_printed_or_costs_the_declared_default() -> None:
    session: Any = python("Prices", {})["session"]
    (printed,), (toml,) = of("Prices", "text"), of("Prices", "toml")
    with pytest.raises(dpx.BadRequest) as refused:
        session.query("SELECT sex, AVG(high_income) FROM adult GROUP BY sex")
    assert refused.value.problem == printed.text.strip()
    columns = {"sex": {"values": ["F", "M"]}}
    declared = Schema.load({"table": {"name": "t"}, "columns": columns, **tomllib.loads(toml.text)})
    assert declared.privacy.default_rho == 0.1


def test_every_block_is_run_by_one_of_these() -> None:
    run_here = ANSWERED | ADULT | {"Joins with public tables", "Joins of private tables"}
    run_here |= {"Values that nobody can list", "Metadata of others", "Words for people"}
    run_here |= {"Dates and timestamps", "How the numbers were counted", "Choosing bounds"}
    assert {block.heading for block in BLOCKS} == run_here
    assert {block.language for block in BLOCKS} == {"sql", "python", "toml", "sh", "text"}
