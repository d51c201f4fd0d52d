"""Small tables with fixed rows, their schemas, and requests of every kind, for the golden tests."""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import dpxplain as dpx

Ask = Callable[[dpx.Session], object]
Declarations = dict[str, Any]

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


def people(*changes: Callable[[Declarations], object]) -> Declarations:
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
    return copy.deepcopy(declared)


def putting(place: str, value: Any) -> Callable[[Declarations], None]:
    """A change of the schema: `value` at a place such as "columns.pay.bounds"."""
    *outer, last = place.split(".")

    def change(declared: Declarations) -> None:
        for name in outer:
            declared = declared.setdefault(name, {})
        declared[last] = value

    return change


persons = putting("privacy", {"rho": 1000.0, "delta": 1e-6, "unit": "person", "max_rows": 3})
unknown_team = putting("columns.team", {"values": "discover"})
public_cities = putting("tables.cities", {"key": "city", "public": True})
private_visits = putting(
    "tables.visits",
    {
        "unit": "person",
        "max_rows": 4,
        "columns": {"ward": {"values": ["A", "B", "C"]}, "cost": {"bounds": [0, 50], "step": 1}},
    },
)


def opened(folder: Path, schema: Declarations | None = None, **options: Any) -> dpx.Session:
    return dpx.connect(options.pop("source", PEOPLE), schema or people(), workspace=folder, **options)


def stored_releases(folder: Path) -> list[tuple[str, str, str]]:
    """Kind, key and stored text of every release in a workspace's ledger, as its file holds them."""
    with sqlite3.connect(folder / "ledger.sqlite") as database:
        rows = database.execute(
            "SELECT entries.kind, entries.key, releases.payload FROM releases "
            "JOIN entries ON entries.id = releases.entry ORDER BY entries.id"
        ).fetchall()
    database.close()
    return [(str(kind), str(key), str(payload)) for kind, key, payload in rows]


# -- Requests of every kind --------------------------------------------------------------------------------

COUNT = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
SUM = "SELECT sex, SUM(pay) FROM people GROUP BY sex"
AVERAGE = "SELECT sex, AVG(pay) FROM people GROUP BY sex"
SEVERAL = "SELECT sex, COUNT(*), SUM(pay), AVG(pay) FROM people GROUP BY sex"
JOIN = "SELECT ward, AVG(cost) FROM people JOIN visits USING (person) GROUP BY ward"


def answer(session: dpx.Session, sql: str = AVERAGE) -> dpx.Answer:
    """The answer that explanations are about; paid at the first call."""
    answered = session.query(sql, rho=2.0)
    assert isinstance(answered, dpx.Answer)
    return answered


def question(session: dpx.Session, sql: str = AVERAGE) -> dpx.Question:
    return answer(session, sql).why("F", "M")


def explained(sql: str = AVERAGE, **options: Any) -> Ask:
    return lambda session: question(session, sql).explain(**{"k": 2, "rho": 0.5} | options)


def queried(sql: str) -> Ask:
    return lambda session: session.query(sql, rho=0.5)


REQUESTS: dict[str, Ask] = {
    "query count": queried(COUNT),
    "query average": queried(AVERAGE),
    "query several": queried(SEVERAL),
    "explain one-shot": explained(mechanism="one-shot"),
    "explain one-shot paper": explained(mechanism="one-shot", sensitivity="paper"),
    "explain one-shot split": explained(mechanism="one-shot", split=(1, 2, 3), lower_share=0.3),
    "explain one-shot distinct": explained(mechanism="one-shot", predicates=dpx.ranges("age"), distinct=True),
    "explain vector": explained(mechanism="vector"),
    "explain marginals": explained(mechanism="marginals"),
    "explain custom": explained(COUNT, influence=dpx.RatioInfluence()),
    "explain ratio": lambda session: (
        answer(session, COUNT).why_ratio("F", "M").explain(k=2, rho=0.5, mechanism="one-shot")
    ),
    "prepare": lambda session: answer(session).prepare(rho=0.5),
    "story": lambda session: question(session).story(rho=0.5, levels=2),
    "quality": lambda session: session.quality(rho=0.5),
    "tune": lambda session: session.tune(rho=0.5),
    "discover": lambda session: session.discover("team", rho=5.0),
}
"""One of every kind that is stored. `unknown_team` must be declared for "discover"."""
