"""Every recipe is found where people look for it, and its printed code makes the same recipe again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dpxplain as dpx
from dpxplain.explanation.family_choice import RECIPES, Either, Recipe, parse_recipe, python_code, recipe_text
from dpxplain.model.schema import Schema

ROOT = Path(__file__).parents[2]
PLACES = ["docs/language.md", "src/dpxplain/cli/options.py", "page/src/panels/WhyOptions.svelte"]
COLUMNS: dict[str, Any] = {
    "job": {"values": ["x", "y"]},
    "day off": {"values": ["x", "z"]},
    "city, state": {"values": ["x"]},
}


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1}, "columns": COLUMNS})


@pytest.mark.parametrize(
    "recipe",
    [
        *(make("job", "day off") for make in RECIPES.values()),
        *(make(*columns) for make in (dpx.ranges, dpx.thresholds, dpx.differs) for columns in ((), ("job",))),
        dpx.ranges("city, state"),
    ],
    ids=recipe_text,
)
def test_the_code_of_every_recipe_makes_an_equal_one(recipe: Recipe | Either, schema: Schema) -> None:
    text = recipe_text(recipe)
    assert parse_recipe(text, schema) == recipe
    assert eval(python_code(text, schema), {"dpx": dpx}) == recipe


@pytest.mark.parametrize("condition", ["job = 'x'", "either", "\"day off\" <> 'z'"])
def test_the_code_of_a_condition_is_its_text(condition: str, schema: Schema) -> None:
    assert eval(python_code(condition, schema), {}) == condition


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_exported_and_named_in_the_help_the_page_and_the_docs(name: str) -> None:
    assert getattr(dpx, name) is RECIPES[name]
    assert name in dpx.__all__
    assert [place for place in PLACES if name not in (ROOT / place).read_text(encoding="utf-8")] == []
