"""Small tables with fixed rows, their schemas, and requests of every kind, for the golden tests."""

from __future__ import annotations

import copy
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as parquet
import tomlkit

import dpxplain as dpx
from dpxplain.cli import run
from golden import normal

if TYPE_CHECKING:
    from server_fixture import RunningServer

Ask = Callable[[dpx.Session], object]
Declarations = dict[str, Any]
Change = Callable[[Declarations], object]

ROWS = 60
PEOPLE = pa.table(
    {
        "person": [f"p{row // 2}" for row in range(ROWS)],
        "sex": ["F", "M", "F"] * 20,
        "city": ["Oslo", "Rome", "Bonn", "Oslo", "Atlantis"] * 12,
        "age": [1 + (7 * row) % 89 for row in range(ROWS)],
        "pay": [(13 * row) % 101 for row in range(ROWS)],
        "hours": [row % 41 for row in range(ROWS)],
        "joined": [f"2024-{1 + row % 12:02}-15" for row in range(ROWS)],
        "team": ["red"] * 40 + ["blue"] * 19 + ["only once"],
    }
)
CITIES = pa.table({"city": ["Bonn", "Oslo", "Rome"], "country": ["DE", "NO", "IT"]})
VISITS = pa.table(
    {
        "person": [f"p{row % 30}" for row in range(90)],
        "ward": ["A", "B", "C"] * 30,
        "cost": [row % 50 for row in range(90)],
    }
)


def people(*changes: Change) -> Declarations:
    """The schema of PEOPLE after these changes to it."""
    declared: Declarations = {
        "table": {"name": "people", "version": "2024"},
        "privacy": {"rho": 1000.0, "delta": 1e-6},
        "columns": {
            "sex": {"values": ["F", "M"]},
            "city": {"values": ["Bonn", "Oslo", "Rome"]},
            "age": {"edges": [0, 30, 60, 90]},
            "pay": {"bounds": [0, 100], "step": 1},
            "hours": {"bounds": [0, 40], "step": 0.5, "center": 20},
            "joined": {"edges": ["2024-01-01", "2024-07-01", "2025-01-01"]},
            "south": {"expression": "city = 'Rome'"},
            "region": {"expression": "city", "groups": {"North": ["Bonn", "Oslo"], "South": ["Rome"]}},
        },
    }
    for change in changes:
        change(declared)
    return declared


def putting(place: str, value: Any) -> Change:
    """A change of the schema: `value` at a place such as "columns.pay.bounds"."""
    *outer, last = place.split(".")

    def change(declared: Declarations) -> None:
        for name in outer:
            declared = declared.setdefault(name, {})
        declared[last] = copy.deepcopy(value)

    return change


TABLES = {"cities": CITIES, "visits": VISITS}

persons = putting("privacy", {"rho": 1000.0, "delta": 1e-6, "unit": "person", "max_rows": 3})
unknown_team = putting("columns.team", {"values": "discover"})
default_price = putting("privacy.default_rho", 0.25)
described = putting("columns.sex", {"values": ["F", "M"], "null": True, "description": "As stated."})
many = putting(
    "columns",
    {
        "sex": {"values": ["F", "M"]},
        "pay": {"values": list(range(101))},
        "hours": {"edges": list(range(-1, 44, 4))},
    },
)
public_cities = putting("tables.cities", {"key": "city", "public": True})
private_visits = putting(
    "tables.visits",
    {
        "unit": "person",
        "max_rows": 4,
        "columns": {"ward": {"values": ["A", "B", "C"]}, "cost": {"bounds": [0, 50], "step": 1}},
    },
)


def opened(folder: Path, *changes: Change, **options: Any) -> dpx.Session:
    """PEOPLE with this changed schema, and the tables that it joins."""
    schema = people(*changes)
    options = {"tables": {name: TABLES[name] for name in schema.get("tables", ())}} | options
    return dpx.connect(PEOPLE, schema, workspace=folder, **options)


def command(*words: str) -> int:
    """The exit code of a command line, run in this process."""
    return run(words)


def ledger_rows(folder: Path, sql: str) -> list[dict[str, Any]]:
    """What a statement finds in a workspace's ledger, as its file holds it."""
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(sql)]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def chain(folder: Path) -> list[Any]:
    """The audit log of a workspace without what is random, once every hash is found to be right."""
    previous, records = "0" * 64, []
    for row in ledger_rows(folder, "SELECT * FROM log ORDER BY id"):
        details = json.loads(row["details"])
        assert row["details"] == canonical(details)
        assert list(row) == ["id", "time", "actor", "action", "dataset", "details", "previous", "hash"]
        hashed = {name: row[name] for name in ("id", "time", "actor", "action", "dataset")}
        assert row["previous"] == previous
        assert row["hash"] == sha256(previous + canonical(hashed | {"details": details}))
        previous = row["hash"]
        records.append([row["id"], row["actor"], row["action"], row["dataset"], details])
    return normal(records, random_texts(folder))


def random_texts(folder: Path) -> dict[str, str]:
    """Ids, secrets and digests that differ from run to run, each with its name in the records."""
    names = {}
    for row in ledger_rows(folder, "SELECT payload FROM releases"):
        names[sha256(row["payload"])] = "<sha256 of the stored payload>"
    for number, row in enumerate(
        ledger_rows(folder, "SELECT id, secret_hash FROM tokens ORDER BY created"), 1
    ):
        names[row["id"]] = f"<token {number}>"
        names[sha256(row["secret_hash"])] = "<sha256 of its secret_hash>"
    for row in ledger_rows(folder, "SELECT secret, fingerprint FROM versions"):
        names[sha256(row["secret"])] = "<sha256 of its secret>"
        names[row["fingerprint"]] = "<fingerprint>"
    for row in ledger_rows(folder, "SELECT id, details, hash FROM log"):
        names[row["hash"]] = f"<hash of record {row['id']}>"
        details = json.loads(row["details"])
        if process := details.get("process"):
            names[process] = "<process>"
        if (anchor := details.get("anchor")) and anchor["head"] not in names:
            names[anchor["head"]] = "<hash of a lost record>"
    return names


# -- Requests of every kind --------------------------------------------------------------------------------

COUNT = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
SUM = "SELECT sex, SUM(pay) FROM people GROUP BY sex"
AVERAGE = "SELECT sex, AVG(pay) FROM people GROUP BY sex"
SEVERAL = "SELECT sex, COUNT(*), SUM(pay), AVG(pay) FROM people GROUP BY sex"
PUBLIC_JOIN = "SELECT country, COUNT(*) FROM people JOIN cities USING (city) GROUP BY country"
PRIVATE_JOIN = "SELECT ward, AVG(cost) FROM people JOIN visits USING (person) GROUP BY ward"
BY_TEAM = "SELECT team, COUNT(*) FROM people GROUP BY team"


def answer(session: dpx.Session, sql: str = AVERAGE) -> dpx.Answer:
    """The answer that explanations are about; paid at the first call."""
    answered = session.query(sql, rho=2.0)
    assert isinstance(answered, dpx.Answer)
    return answered


def queried(sql: str, **options: Any) -> Ask:
    price = {} if "epsilon" in options else {"rho": 0.5}
    return lambda session: session.query(sql, **price, **options)


def explained(sql: str = AVERAGE, why: tuple[Any, ...] = ("F", "M"), **options: Any) -> Ask:
    return lambda session: answer(session, sql).why(*why).explain(**{"k": 2, "rho": 0.5} | options)


def explained_ratio(*groups: str, **options: Any) -> Ask:
    asked = {"k": 2, "rho": 0.5, "mechanism": "one-shot"} | options
    return lambda session: answer(session, COUNT).why_ratio(*groups).explain(**asked)


def prepared(sql: str = AVERAGE, **options: Any) -> Ask:
    return lambda session: answer(session, sql).prepare(**{"rho": 0.5} | options)


def told(sql: str = AVERAGE, why: tuple[Any, ...] = ("F", "M"), **options: Any) -> Ask:
    return lambda session: answer(session, sql).why(*why).story(**{"rho": 0.5, "levels": 2} | options)


def discovered(session: dpx.Session, column: str = "team", **options: Any) -> object:
    """A discovery whose noise rounds to nothing: values are counted, and get their noise, in any order."""
    return session.discover(column, **{"rho": 100.0} | options)


@dataclass(frozen=True)
class Requests:
    """Requests that are asked one after the other of one data set, and how it is opened for them.

    Noise continues from one to the next, so further requests come last.
    """

    asked: dict[str, Ask]
    changes: tuple[Change, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


QUERIES = Requests(
    {
        "count": queried(COUNT),
        "sum": queried(SUM),
        "average": queried(AVERAGE),
        "several": queried(SEVERAL),
        "variance": queried("SELECT sex, VARIANCE(hours), STDDEV_POP(pay) FROM people GROUP BY sex"),
        "quantile": queried("SELECT sex, QUANTILE_CONT(age, 0.9) FROM people GROUP BY sex"),
        "without groups": queried("SELECT COUNT(*) FROM people"),
        "where": queried(
            "SELECT city, COUNT(*) FROM people WHERE (age > 30 AND NOT sex = 'F') OR hours <= 12.5 "
            "OR joined >= DATE '2024-07-01' OR city IN ('Bonn', 'Rome') OR region IS NULL GROUP BY city"
        ),
        "expression": queried(
            "SELECT CASE WHEN age > 30 THEN 'older' ELSE 'younger' END AS half, "
            "SUM(pay * 2) FILTER (WHERE sex = 'F') FROM people GROUP BY half"
        ),
        "derived columns": queried("SELECT region, south, COUNT(*) FROM people GROUP BY region, south"),
        "dates": queried("SELECT joined, COUNT(*) FROM people GROUP BY joined"),
        "computed": queried(
            "SELECT sex, SUM(pay) / COUNT(*) AS rate FROM people GROUP BY sex "
            "HAVING COUNT(hours) > 5 ORDER BY rate DESC LIMIT 1"
        ),
        "epsilon": queried(COUNT, epsilon=1.0),
    }
)

ONE_SHOT = Requests(
    {
        "usual": explained(mechanism="one-shot"),
        "paper": explained(mechanism="one-shot", sensitivity="paper"),
        "split": explained(mechanism="one-shot", split=(1, 2, 3), lower_share=0.3),
        "distinct": explained(mechanism="one-shot", predicates=dpx.ranges("age"), distinct=True),
        "count": explained(COUNT, mechanism="one-shot"),
        "sum": explained(SUM, mechanism="one-shot"),
        "epsilon": explained(mechanism="one-shot", rho=None, epsilon=5.0),
        "weights": explained(why=({"F": 1, "M": -0.5},), mechanism="one-shot"),
        "one group": explained(why=("F",), mechanism="one-shot"),
        "all conditions": explained(mechanism="one-shot", attributes=["city"], k=3),
        "pairs": explained(mechanism="one-shot", conjuncts=2, exclude=["joined"], confidence=0.9),
        "conditions": explained(
            mechanism="one-shot",
            predicates=[
                "age > 30 AND city = 'Oslo'",
                dpx.ranges("age"),
                dpx.thresholds("joined"),
                dpx.differs("city"),
                dpx.either("city", "town"),
            ],
        ),
        "ratio": explained_ratio("F", "M"),
        "share": explained_ratio("F"),
    },
    (putting("columns.town", {"expression": "city"}),),
)

OTHER_MECHANISMS = Requests(
    {
        "vector": explained(mechanism="vector"),
        "vector, count": explained(COUNT, mechanism="vector"),
        "custom": explained(COUNT, influence=dpx.RatioInfluence(), rho=5.0),
        "custom, other thresholds": explained(
            COUNT,
            influence=dpx.RatioInfluence(thresholds=(-1.0, 0.0, 1.0)),
            predicates=dpx.ranges("age"),
            k=1,
            rho=5.0,
        ),
        "marginals": explained(mechanism="marginals"),
    }
)

PREPARATIONS = Requests(
    {
        "usual": prepared(),
        "count": prepared(COUNT),
        "sum": prepared(SUM),
        "pairs": prepared(attributes=["age", "city"], conjuncts=2),
        "conditions": prepared(predicates=["age > 30 AND city = 'Oslo'", dpx.ranges("age")]),
        "epsilon": prepared(rho=None, epsilon=1.0),
    }
)

STORIES = Requests(
    {"two levels": told(), "three levels": told(COUNT, levels=3, attributes=["city", "age", "joined"])}
)

MEASUREMENTS = Requests(
    {
        "quality": lambda session: session.quality(rho=0.5),
        "tune": lambda session: session.tune(rho=0.5),
        "tune columns": lambda session: session.tune(rho=0.5, columns=["age", "pay"]),
    }
)

OF_EVERY_KIND: dict[str, Ask] = {
    "query": queried(COUNT),
    "explain": explained(mechanism="one-shot"),
    "prepare": prepared(),
    "quality": lambda session: session.quality(rho=0.5),
    "tune": lambda session: session.tune(rho=0.5),
}

REQUESTS: dict[str, Requests] = {
    "query": QUERIES,
    "explain one-shot": ONE_SHOT,
    "explain otherwise": OTHER_MECHANISMS,
    "prepare": PREPARATIONS,
    "story": STORIES,
    "measure": MEASUREMENTS,
    "persons": Requests(
        OF_EVERY_KIND
        | {"count of persons": queried("SELECT sex, COUNT(DISTINCT person) FROM people GROUP BY sex")},
        (persons,),
    ),
    "bounded neighbours": Requests(
        {"query": queried(AVERAGE), "explain": explained(mechanism="one-shot"), "prepare": prepared()},
        (putting("privacy.neighbours", "bounded"),),
    ),
    "seeded": Requests({"discover": discovered} | OF_EVERY_KIND, (unknown_team,), {"insecure_seed": 7}),
    "default price": Requests({"query": lambda session: session.query(COUNT)}, (default_price,)),
    "described columns": Requests({"query": queried(COUNT)}, (described,)),
    "public join": Requests(
        {
            "query": queried(PUBLIC_JOIN),
            "explain": explained(mechanism="one-shot", attributes=["country"], k=1),
        },
        (public_cities,),
    ),
    "private join": Requests(
        {
            "query": queried(PRIVATE_JOIN),
            "explain": explained(PRIVATE_JOIN, ("A", "B"), mechanism="one-shot"),
        },
        (persons, private_visits),
    ),
    "discover": Requests(
        {
            "discover": discovered,
            "query": queried(BY_TEAM),
            "quality": lambda session: session.quality(rho=0.5),
        },
        (unknown_team,),
    ),
    "discover persons": Requests({"discover": discovered}, (unknown_team, persons)),
    "discover again": Requests(
        {
            "nothing": lambda session: discovered(session, rho=0.0005, delta=1e-7),
            "values": lambda session: discovered(session, delta=1e-7),
        },
        (unknown_team,),
    ),
    "many groups and conditions": Requests(
        {
            "query": queried("SELECT pay, hours, COUNT(*) FROM people GROUP BY pay, hours"),
            "explain": explained(COUNT, mechanism="vector", attributes=["pay", "hours"], conjuncts=2, k=1000),
        },
        (many,),
    ),
}
"""One of every kind that is stored, and whatever else enters a key."""


# -- Files, and a server of them -----------------------------------------------------------------------------


def write_files(folder: Path, schema: str, *changes: Change) -> None:
    """The table as a file, and its schema under this name."""
    parquet.write_table(PEOPLE, folder / "people.parquet")
    declared = people(putting("table.source", "people.parquet"), *changes)
    (folder / schema).write_text(tomlkit.dumps(declared), encoding="utf-8")


@contextmanager
def served(folder: Path) -> Iterator[RunningServer]:
    """A server of PEOPLE on this machine, with an unknown column and persons to protect."""
    from dpxplain.server.config import Config
    from server_fixture import running_server

    write_files(folder, "people.toml", persons, unknown_team)
    config = Config.load({"server": {"datasets": str(folder), "port": 0}, "analysts": {"default_rho": 500.0}})
    with running_server(config) as server:
        yield server
