"""A generated table of the shape of the paper's IPUMS-CPS table, for benchmarks and experiments.

Shares and mean incomes per value follow the survey's marginals (census_marginals.csv), one attribute at
a time; everything between attributes is invented. census.toml is its schema.
"""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_FOLDER = Path(__file__).parent

# How much of an attribute's latent score is the person's common advantage. It makes attributes depend on
# each other, as in life: the married are older, the educated have better posts.
_LOADING = 0.5
# Concentration of the Beta distribution of incomes: a long right tail, standard deviation about 40,000.
_CONCENTRATION = 4.0
# A row's expected income is a product of factors; this share of the upper bound keeps it within bounds.
_HIGHEST_MEAN = 0.9
_FITTING_ROUNDS = 12  # the means then move by less than the noise of the draws


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
    low, high = columns["income"]["bounds"]
    advantage = rng.standard_normal(rows)
    people: dict[str, pa.Array[Any]] = {}
    codes: list[npt.NDArray[np.int8]] = []
    targets: list[npt.NDArray[np.float64]] = []
    for attribute, of_value in marginals().items():
        values = columns[attribute]["values"]
        # Worst paid first, so that the common advantage pushes towards the well paid values.
        ladder = sorted(of_value, key=lambda value: of_value[value][1])
        score = _LOADING * advantage + np.sqrt(1 - _LOADING**2) * rng.standard_normal(rows)
        shares = np.array([of_value[value][0] for value in ladder])
        steps = [NormalDist().inv_cdf(share) for share in np.cumsum(shares)[:-1] / shares.sum()]
        rung = np.searchsorted(steps, score)
        code = np.array([values.index(value) for value in ladder], dtype=np.int8)[rung]
        people[attribute] = pa.DictionaryArray.from_arrays(pa.array(code), pa.array(values))
        codes.append(code)
        targets.append(np.array([of_value.get(value, (0, low))[1] for value in values]))
    share_of_range = (_fitted_means(codes, targets, _HIGHEST_MEAN * high) - low) / (high - low)
    drawn = rng.beta(_CONCENTRATION * share_of_range, _CONCENTRATION * (1 - share_of_range))
    people["income"] = pa.array(np.rint(low + (high - low) * drawn).astype(np.int64))
    return pa.table(people)


def _fitted_means(
    codes: list[npt.NDArray[np.int8]], targets: list[npt.NDArray[np.float64]], highest: float
) -> npt.NDArray[np.float64]:
    """Every row's expected income: a product of one factor per attribute, found by raking.

    Each step scales the factors of one attribute until its values have their target means, which
    disturbs the other attributes a little less every round.
    """
    means = np.ones(len(codes[0]))
    for _ in range(_FITTING_ROUNDS):
        for code, target in zip(codes, targets, strict=True):
            rows = np.bincount(code, minlength=len(target))
            total = np.bincount(code, weights=np.minimum(means, highest), minlength=len(target))
            means *= np.divide(target * rows, total, out=np.ones(len(target)), where=rows > 0)[code]
    return np.minimum(means, highest)
