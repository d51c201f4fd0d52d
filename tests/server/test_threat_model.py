"""Each line of docs/threat-model.md has a test named by its number; this one sees that none is missing.

They are in test_threat_values.py, test_threat_budget.py, test_threat_sight.py and test_threat_limits.py.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE.parent.parent / "docs" / "threat-model.md"


def numbered_lines() -> list[int]:
    return [int(number) for number in re.findall(r"(?m)^\| T(\d+) \|", DOCUMENT.read_text("utf-8"))]


def numbers_with_tests() -> dict[int, list[str]]:
    """Of every module here that tests threats: the numbers in the names of its tests."""
    found: dict[int, list[str]] = {}
    for file in sorted(HERE.glob("test_threat_*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and (said := re.match(r"test_t(\d+)_", node.name)):
                found.setdefault(int(said[1]), []).append(f"{file.name}::{node.name}")
    return found


def test_the_lines_of_the_threat_model_are_numbered_without_a_gap() -> None:
    lines = numbered_lines()
    assert len(lines) >= 28
    assert lines == list(range(1, len(lines) + 1))


def test_every_line_of_the_threat_model_has_a_test_and_every_test_a_line() -> None:
    lines, tests = set(numbered_lines()), numbers_with_tests()
    assert lines - tests.keys() == set(), "lines without a test"
    assert tests.keys() - lines == set(), "tests without a line"
