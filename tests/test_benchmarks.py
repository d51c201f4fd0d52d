"""The benchmarks run at toy size and write what they measured; no figure is judged here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # for benchmarks

from benchmarks import __main__ as benchmarks
from benchmarks import document, explaining
from benchmarks.contenders import Contenders
from benchmarks.tables import Shape, uniform

ROWS = 600
SCHEMA: dict[str, Any] = {
    "table": {"name": "toy"},
    "privacy": {"rho": 1e6},
    "columns": {
        "sex": {"values": ["Male", "Female"]},
        **{f"attribute_{number}": {"values": ["a", "b", "c"]} for number in range(4)},
        "income": {"bounds": [0, 1000], "step": 1},
    },
}
SHAPES = [
    Shape("8 attributes", False, SCHEMA, lambda rows: uniform(SCHEMA, rows, rows)),
    Shape("8 attributes", True, SCHEMA, lambda rows: uniform(SCHEMA, rows, rows // 10)),
]


@pytest.mark.slow
@pytest.mark.process
def test_a_toy_run_writes_the_document_its_charts_and_the_readme_s_sentence(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("Before.\n<!-- speed -->\n<!-- /speed -->\nAfter.\n")
    results = benchmarks.run(SHAPES, ROWS, ROWS, rounds=1, cells=500)
    document.write(results, tmp_path)
    text = (tmp_path / "docs" / "performance.md").read_text("utf-8")
    for words in ("8 attributes", "hardly repeating", "OpenDP's own sampler", "`CREATE TABLE AS`", "cells"):
        assert words in text
    for chart in ("predicates", "rows"):
        assert (tmp_path / "docs" / "performance" / f"{chart}.svg").read_text("utf-8").startswith("<svg")
    readme = (tmp_path / "README.md").read_text("utf-8")
    assert readme.startswith("Before.")
    assert "12, 54 and 108 predicates of 600 rows" in readme
    assert readme.endswith("After.\n")


def test_the_readme_has_a_place_for_its_sentence_on_speed() -> None:
    assert len(document._README.findall((document.ROOT / "README.md").read_text("utf-8"))) == 1


def test_every_mechanism_competes_and_is_charged_in_every_turn() -> None:
    shape = SHAPES[0]
    contenders = Contenders(shape.make(ROWS), shape.schema)
    case = explaining.measure(contenders, shape, ROWS, 2, 1, explaining.MECHANISMS)
    assert {*explaining.MECHANISMS, explaining.BARE} <= set(case.timings)
    for _ in range(2):  # nothing that an earlier turn released makes a later one free
        preview = contenders.preview(mechanism="marginals", conjuncts=2)
        assert preview is not None
        assert preview.price.rho > 0
    contenders.close()
