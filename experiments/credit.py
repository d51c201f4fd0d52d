"""Generates a table shaped like the paper's German-Credit table.

As in the paper (QUAIL), rows are drawn from a model of the 1,000 persons in the Statlog German credit data: a
Bayesian network for the attributes and boosted trees for the label. learn_credit.py learns the model.
The values are named as in Groemping's corrected code table (South German credit).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MODEL = Path(__file__).parent / "credit_model.json"
ROWS = 1_000_000

_YEARS = ["< 1 yr", "[1, 4) yrs", "[4, 7) yrs", ">= 7 yrs"]

# In the order of Statlog's columns and codes.
VALUES: dict[str, list[str]] = {
    "status": ["no checking account", "no balance", "[0, 200) DM", ">= 200 DM or salary"],
    "duration": [f"({low}, {low + 12}]" for low in range(0, 72, 12)],
    "credit_history": [
        "delay in paying off in the past",
        "critical account/other credits elsewhere",
        "no credits taken/all credits paid back duly",
        "existing credits paid back duly till now",
        "all credits at this bank paid back duly",
    ],
    "purpose": [
        "others",
        "car (new)",
        "car (used)",
        "furniture/equipment",
        "radio/television",
        "domestic appliances",
        "repairs",
        "education",
        "vacation",
        "retraining",
        "business",
    ],
    "credit_amount": ["(0, 500]", *(f"({low}, {low + 2000}]" for low in range(500, 18500, 2000))],
    "savings": ["unknown/no savings account", "< 100 DM", "[100, 500) DM", "[500, 1000) DM", ">= 1000 DM"],
    "employment": ["unemployed", *_YEARS],
    "installment_rate": [">= 35%", "[25, 35)%", "[20, 25)%", "< 20%"],
    "sex_marst": [
        "male : divorced/separated",
        "female : non-single or male : single",
        "male : married/widowed",
        "female : single",
    ],
    "other_debtors": ["none", "co-applicant", "guarantor"],
    "residence": _YEARS,
    "property": ["unknown/no property", "car or other", "savings agreement/life insurance", "real estate"],
    "age": [f"({low}, {low + 10}]" for low in range(10, 80, 10)],
    "installment_plans": ["bank", "stores", "none"],
    "housing": ["for free", "rent", "own"],
    "existing_credits": ["1", "2-3", "4-5", ">= 6"],
    "job": [
        "unemployed/unskilled - non-resident",
        "unskilled - resident",
        "skilled employee/official",
        "manager/self-employed/highly qualified",
    ],
    "people_liable": ["0 to 2", "3 or more"],
    "telephone": ["no", "yes"],
    "foreign_worker": ["no", "yes"],
}


def schema() -> dict[str, Any]:
    """The declared schema, in the shape of the TOML file.

    >>> sizes = [len(column["values"]) for column in schema()["columns"].values() if "values" in column]
    >>> len(sizes), min(sizes), max(sizes)
    (20, 2, 11)
    """
    return {
        "table": {"name": "credit"},
        "privacy": {"rho": 5.0},
        "columns": {name: {"values": values} for name, values in VALUES.items()}
        | {"good_credit": {"bounds": [0, 1], "step": 1}},
    }


def generate(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """A table of `rows` generated customers; the same seed gives the same table.

    >>> generate(100).equals(generate(100))
    True
    """
    model = json.loads(MODEL.read_text(encoding="utf-8"))
    rng = np.random.default_rng(seed)  # seeded: test data, not privacy noise
    codes: dict[str, NDArray[np.int8]] = {}
    for node in model["network"]:
        codes[node["attribute"]] = _draw(node, codes, rows, rng)
    columns = {
        name: pa.DictionaryArray.from_arrays(pa.array(codes[name]), pa.array(values))
        for name, values in VALUES.items()
    }
    good = rng.random(rows) < chances([codes[name] for name in VALUES], model)
    return pa.table({**columns, "good_credit": pa.array(good.astype(np.int8))})


def _draw(
    node: dict[str, Any], codes: dict[str, NDArray[np.int8]], rows: int, rng: np.random.Generator
) -> NDArray[np.int8]:
    """Draw the node's codes given its parents'. `chances` has a row per combination of parents' codes."""
    combination = np.zeros(rows, dtype=np.int64)
    for parent in node["parents"]:
        combination = combination * len(VALUES[parent]) + codes[parent]
    steps = np.cumsum(np.array(node["chances"]), axis=1)
    drawn = rng.random(rows)
    code = np.zeros(rows, dtype=np.int8)
    for step in range(steps.shape[1] - 1):
        code += drawn >= steps[combination, step]
    return code


def chances(columns: list[NDArray[np.int8]], model: dict[str, Any]) -> NDArray[np.float64]:
    """Each row's chance of good credit: the logistic function of the sum over the trees."""
    score = np.full(len(columns[0]), model["base_score"])
    rows = np.arange(len(score), dtype=np.int32)
    for tree in model["trees"]:
        _add_leaves(tree, columns, rows, score)
    return 1 / (1 + np.exp(-score))


def _add_leaves(tree: Any, columns: list[NDArray[np.int8]], rows: NDArray[np.int32], score: Any) -> None:
    """Add a tree's leaves to the score. A tree is a number or [column, code, tree if equal, tree if not]."""
    if not isinstance(tree, list):
        score[rows] += tree
        return
    column, code, there, elsewhere = tree
    holds = columns[column][rows] == code
    _add_leaves(there, columns, rows[holds], score)
    _add_leaves(elsewhere, columns, rows[~holds], score)
