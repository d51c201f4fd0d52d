"""A generated table in the shape of the paper's IPUMS-CPS table, for benchmarks and experiments.

Rows and mean incomes per value follow the survey's marginals (census_marginals.csv); census.toml is its
schema. The dependence between attributes is made up (`_LIKELIER`). The gaps between men and women are set so
that the paper's case study, why men earn more, has the relative influences that the paper published.
"""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_FOLDER = Path(__file__).parent

FloatArray = npt.NDArray[np.float64]
Codes = dict[str, npt.NDArray[np.int8]]

_YOUNG = {"(10, 20]": 40.0, "(20, 30]": 12.0, "(30, 40]": 2.0}
_OLD = {"(60, 70]": 8.0, "(70, 80]": 12.0, "(80, 90]": 12.0}
_SETTLED = {"(10, 20]": 0.02, "(20, 30]": 0.5}
_MARRIED = {"Married, spouse present": 200.0}
_SINGLE = {"Married, spouse present": 0.02, "Never married/single": 12.0}
_PUPILS = dict.fromkeys(("Grade 9", "Grade 10", "Grade 11"), 12.0)
_PUPILS |= dict.fromkeys(("Bachelor's degree", "Master's degree", "Doctorate degree"), 0.01)
_IMMIGRANTS = {"Not a citizen": 8.0, "Naturalized citizen": 3.0}

# How much likelier a value is given a value of another attribute; attributes are drawn in this order.
_LIKELIER: dict[str, dict[str, dict[str, dict[str, float]]]] = {
    "sex": {},
    "relate": {
        "sex": {"Male": {"Head/householder": 1.3, "Child": 1.3}, "Female": {"Spouse": 1.5, "Parent": 2.0}}
    },
    "age": {
        "relate": {
            **dict.fromkeys(("Child", "Grandchild", "Foster children"), _YOUNG),
            **dict.fromkeys(("Head/householder", "Spouse", "Opposite sex spouse"), _SETTLED),
            "Parent": _OLD,
        }
    },
    "marst": {
        "relate": {
            **dict.fromkeys(("Spouse", "Opposite sex spouse", "Same sex spouse"), _MARRIED),
            **dict.fromkeys(("Child", "Grandchild", "Foster children", "Sibling"), _SINGLE),
            "Unmarried partner": _SINGLE,
        },
        "age": {
            "(10, 20]": {"Never married/single": 30.0},
            "(20, 30]": {"Never married/single": 5.0},
            "(70, 80]": {"Widowed": 8.0},
            "(80, 90]": {"Widowed": 15.0},
        },
    },
    "educ": {
        "age": {
            "(10, 20]": _PUPILS,
            "(70, 80]": {"Grades 7 or 8": 3.0, "None or preschool": 2.0},
            "(80, 90]": {"Grades 7 or 8": 4.0, "None or preschool": 3.0},
        }
    },
    "classwkr": {
        "age": {
            "(10, 20]": {"NIU": 5.0},
            "(60, 70]": {"NIU": 3.0},
            "(70, 80]": {"NIU": 12.0},
            "(80, 90]": {"NIU": 25.0},
        },
        "sex": {
            "Female": {"NIU": 1.4},
            "Male": {"Armed forces": 5.0, "Self-employed, incorporated": 2.0},
        },
        "educ": {"Doctorate degree": {"State government employee": 4.0}},
    },
    "race": {},
    "citizen": {
        "race": {
            "Asian only": {"Not a citizen": 5.0, "Naturalized citizen": 7.0},
            "Hawaiian/Pacific Islander only": _IMMIGRANTS,
        },
        "educ": dict.fromkeys(("None or preschool", "Grades 1, 2, 3, or 4", "Grades 5 or 6"), _IMMIGRANTS),
    },
}

# The true relative influences in the paper's table for "why is Male above Female?".
CASE_STUDY = {
    "relate": {"Head/householder": 0.1241, "Spouse": 0.0601},
    "educ": {"Bachelor's degree": 0.0732},
    "race": {"White": 0.0654},
    "classwkr": {"NIU": 0.0422},
}

# Concentration of the Beta distribution of incomes: a long right tail, standard deviation about 40,000.
_CONCENTRATION = 4.0
# A row's expected income is a product of factors; this share of the upper bound keeps it within bounds.
_HIGHEST_MEAN = 0.9
_FITTING_ROUNDS = 12  # the means then move by less than the noise of the draws
_DRAWN_ROUNDS = 8  # afterwards the drawn incomes themselves are scaled to the means


def schema() -> dict[str, Any]:
    """The declared schema, in the shape of the TOML file.

    >>> [len(column["values"]) for column in schema()["columns"].values() if "values" in column]
    [22, 3, 29, 8, 6, 15, 36, 8]
    """
    return tomllib.loads((_FOLDER / "census.toml").read_text(encoding="utf-8"))


def marginals() -> dict[str, dict[str, tuple[int, float]]]:
    """The survey's rows and mean income of every value that occurs, by attribute.

    >>> marginals()["sex"]
    {'Male': (556230, 45778.39), 'Female': (590322, 31135.78)}
    """
    by_attribute: dict[str, dict[str, tuple[int, float]]] = {}
    with (_FOLDER / "census_marginals.csv").open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            of_value = by_attribute.setdefault(line["attribute"], {})
            of_value[line["value"]] = int(line["rows"]), float(line["mean_income"])
    return by_attribute


def generate(rows: int, seed: int = 0) -> pa.Table:
    """A table of `rows` made-up persons; the same seed gives the same table.

    >>> table = generate(1_000)
    >>> table.num_rows, table.column_names[-2:]
    (1000, ['age', 'income'])
    >>> table.equals(generate(1_000))
    True
    """
    rng = np.random.default_rng(seed)  # seeded: test data, not privacy noise
    columns = schema()["columns"]
    domains = {name: column["values"] for name, column in columns.items() if "values" in column}
    low, high = columns["income"]["bounds"]
    codes: Codes = {}
    for attribute in _LIKELIER:
        codes[attribute] = _draw(attribute, codes, domains, rows, rng)
    cells, targets = _target_means(codes, domains)
    fitted = _scaled(np.ones(rows), cells, targets, _HIGHEST_MEAN * high, _FITTING_ROUNDS)
    share_of_range = (fitted - low) / (high - low)
    drawn = low + (high - low) * rng.beta(
        _CONCENTRATION * share_of_range, _CONCENTRATION * (1 - share_of_range)
    )
    income = np.rint(_scaled(drawn, cells, targets, float(high), _DRAWN_ROUNDS)).astype(np.int64)
    people: dict[str, pa.Array[Any]] = {
        name: pa.DictionaryArray.from_arrays(codes[name], pa.array(values))
        for name, values in domains.items()
    }
    people["income"] = pa.array(income)
    return pa.table(people)


def _draw(
    attribute: str,
    codes: Codes,
    domains: Mapping[str, list[str]],
    rows: int,
    seeded: np.random.Generator,
) -> npt.NDArray[np.int8]:
    """Codes of one attribute, given the attributes drawn before; its marginal stays the survey's."""
    values = domains[attribute]
    parents = _LIKELIER[attribute]
    shares = np.array([marginals()[attribute].get(value, (0, 0.0))[0] for value in values], dtype=np.float64)
    shares /= shares.sum()
    combination = np.zeros(rows, dtype=np.int64)
    odds = np.ones((1, len(values)))
    for parent, likelier in parents.items():
        factors = np.array(
            [[likelier.get(given, {}).get(value, 1.0) for value in values] for given in domains[parent]]
        )
        combination = combination * len(factors) + codes[parent]
        odds = (odds[:, None, :] * factors[None, :, :]).reshape(-1, len(values))
    persons = np.bincount(combination, minlength=len(odds)) / max(rows, 1)
    weight = shares.copy()
    for _ in range(60 if rows else 0):  # until each value has its share over all combinations together
        chances = odds * weight
        chances /= chances.sum(axis=1, keepdims=True)
        reached = persons @ chances
        weight *= np.divide(shares, reached, out=np.ones(len(values)), where=reached > 0)
    chances = odds * weight
    steps = np.cumsum(chances / chances.sum(axis=1, keepdims=True), axis=1)[:, :-1]
    drawn = seeded.random(rows)
    code = np.zeros(rows, dtype=np.int8)
    for step in range(len(values) - 1):
        code += drawn >= steps[combination, step]
    return code


def _target_means(
    codes: Codes, domains: Mapping[str, list[str]]
) -> tuple[list[npt.NDArray[np.int16]], list[FloatArray]]:
    """For each attribute, every row's (value, sex) cell, and the target mean income of each cell."""
    of_sex = marginals()["sex"]
    sexes = [domains["sex"].index(name) for name in ("Male", "Female")]
    means = np.array([of_sex["Male"][1], of_sex["Female"][1]])
    cells, targets = [], []
    for attribute, values in domains.items():
        if attribute == "sex":
            continue
        width = len(domains["sex"])
        cell = codes[attribute].astype(np.int16) * width + codes["sex"]
        rows = np.bincount(cell, minlength=len(values) * width).reshape(-1, width)[:, sexes]
        of_value = np.array([marginals()[attribute].get(value, (0, 1.0))[1] for value in values])
        influences = {values.index(v): share for v, share in CASE_STUDY.get(attribute, {}).items()}
        target = np.ones((len(values), width))
        target[:, sexes] = _means_by_sex(rows.astype(np.float64), of_value, means, influences)
        cells.append(cell)
        targets.append(target.ravel())
    return cells, targets


def _means_by_sex(
    rows: FloatArray, of_value: FloatArray, means: FloatArray, influences: Mapping[int, float]
) -> FloatArray:
    """Mean incomes of (value, man or woman) that keep the means of the values and of the sexes.

    A value of the case study gets the gap between men and women that gives it its relative influence,
    m/min(n)·(1 − gap without it/gap). All other values share one gap, which makes the overall means agree.
    """
    if not np.all(rows.sum(axis=0) > 0):
        return np.repeat(of_value[:, None], 2, axis=1)
    whole = rows.sum(axis=0)
    both = np.maximum(rows.sum(axis=1), 1)
    pull = rows.prod(axis=1) / both  # by how much a value's gap moves the men's total, and the women's
    gap = np.full(len(of_value), np.nan)
    for value, influence in influences.items():
        rest = whole - rows[value]
        if pull[value] <= 0 or rest.min() <= 0:
            continue
        without = (means[0] - means[1]) * (1 - influence * whole.min() / rest.min())
        level = np.subtract(*((whole * means - rows[value] * of_value[value]) / rest))
        gap[value] = (level - without) / (pull[value] * np.sum(1 / rest))
    free = np.isnan(gap)
    missing = whole[0] * means[0] - rows[:, 0] @ of_value - np.nansum(gap * pull)
    gap[free] = missing / max(pull[free].sum(), 1.0)
    men = of_value + gap * rows[:, 1] / both
    women = of_value - gap * rows[:, 0] / both
    clipped: FloatArray = np.clip(
        np.stack([men, women], axis=1), 0.02 * of_value[:, None], 4.0 * of_value[:, None]
    )
    return clipped


def _scaled(
    income: FloatArray,
    cells: list[npt.NDArray[np.int16]],
    targets: list[FloatArray],
    highest: float,
    rounds: int,
) -> FloatArray:
    """Incomes multiplied by one factor per attribute's cell, found by raking.

    Each step scales the cells of one attribute to their target means, which disturbs the other attributes a
    little less every round.
    """
    income = income.copy()
    for _ in range(rounds):
        for cell, target in zip(cells, targets, strict=True):
            rows = np.bincount(cell, minlength=len(target))
            total = np.bincount(cell, weights=np.minimum(income, highest), minlength=len(target))
            income *= np.divide(target * rows, total, out=np.ones(len(target)), where=total > 0)[cell]
    return np.minimum(income, highest)
