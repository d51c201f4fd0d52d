"""Stores the figures of load tests between runs, by part and database, each with its date and machine.

Figures are stored after each measurement. So an interrupted run loses only the measurement that was running,
and a run of some parts leaves the others as they were.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE = Path(__file__).with_name("load.json")


@dataclass(frozen=True)
class Line:
    """A promise, and what the test found."""

    what: str
    found: str
    promised: str
    kept: bool


@dataclass(frozen=True)
class Table:
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Result:
    """The figures of one part on one database."""

    part: str
    database: str
    lines: Sequence[Line]
    table: Table | None = None
    sizes: dict[str, float] = field(default_factory=dict)
    """The sizes of the measurement, for the text around the figures."""
    machine: str = ""


def read(path: Path = FILE) -> list[Result]:
    if not path.exists():
        return []
    return [
        Result(
            **result
            | {
                "lines": [Line(**line) for line in result["lines"]],
                "table": result["table"] and Table(**result["table"]),
            }
        )
        for result in json.loads(path.read_text("utf-8"))
    ]


def store(result: Result, path: Path = FILE) -> None:
    """Stores the result in place of the earlier one of the same part and database."""
    results = {(each.part, each.database): each for each in [*read(path), result]}
    text = json.dumps([asdict(results[key]) for key in sorted(results)], indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")
