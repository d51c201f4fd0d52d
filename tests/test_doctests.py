"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import dpxplain

SOURCES = Path(dpxplain.__file__).parent
MODULES = sorted(
    ".".join(("dpxplain", *path.relative_to(SOURCES).with_suffix("").parts)).removesuffix(".__init__")
    for path in SOURCES.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def test_every_example_gives_what_it_says() -> None:
    outcomes = {name: doctest.testmod(importlib.import_module(name)) for name in MODULES}
    assert [name for name, outcome in outcomes.items() if outcome.failed] == []
    assert sum(outcome.attempted for outcome in outcomes.values()) > len(MODULES)
