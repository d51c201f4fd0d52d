"""The generated census: its shape, its declared domains and how closely it follows the survey's marginals."""

from __future__ import annotations

import doctest
import sys
from itertools import combinations
from math import sqrt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # for experiments

from experiments import census

ROWS = 1_146_552
SIZES = {"relate": 22, "sex": 3, "race": 29, "marst": 8, "citizen": 6, "classwkr": 15, "educ": 36, "age": 8}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return census.generate(ROWS).to_pandas()


@pytest.fixture(scope="module")
def some_people() -> pd.DataFrame:
    return census.generate(50_000).to_pandas()


def test_census_has_the_papers_columns(some_people):
    columns = census.schema()["columns"]
    assert some_people.shape == (50_000, 9)
    assert list(some_people.columns) == list(columns)
    assert {name: len(column["values"]) for name, column in columns.items() if "values" in column} == SIZES


def test_every_generated_value_lies_within_the_declared_domain(some_people):
    check_domains(some_people)


def check_domains(people: pd.DataFrame) -> None:
    columns = census.schema()["columns"]
    assert not people.isna().any().any()
    for name in SIZES:
        assert people[name].cat.categories.to_list() == columns[name]["values"]
    assert people["income"].dtype == np.int64
    assert people["income"].between(*columns["income"]["bounds"]).all()


def test_every_marginal_parameter_is_of_a_declared_value():
    columns = census.schema()["columns"]
    for name, of_value in census.marginals().items():
        assert set(of_value) <= set(columns[name]["values"])
        assert sum(rows for rows, _ in of_value.values()) == ROWS


@pytest.mark.slow
def test_rows_and_mean_incomes_follow_the_surveys_marginals(people):
    assert people.shape == (ROWS, 9)
    check_domains(people)
    for name, of_value in census.marginals().items():
        incomes = people.groupby(name, observed=True)["income"].agg(["size", "mean"])
        for value, (rows, mean_income) in of_value.items():
            assert abs(incomes["size"].get(value, 0) - rows) < 5 * sqrt(rows), (name, value)
            if rows >= 1_000:
                assert incomes["mean"][value] == pytest.approx(mean_income, rel=0.03), (name, value)


@pytest.mark.slow
def test_attributes_depend_on_each_other_and_many_conjunctions_are_active(people):
    codes = {name: people[name].cat.codes.to_numpy(np.int64) for name in SIZES}
    active = total = 0
    for names in combinations(SIZES, 3):
        active += len(np.unique(np.ravel_multi_index([codes[n] for n in names], [SIZES[n] for n in names])))
        total += np.prod([SIZES[n] for n in names])
    assert total == 178_469
    assert 30_000 < active < total / 2
    young = people["age"].isin(["(10, 20]", "(20, 30]"])
    assert young[people["relate"] == "Child"].mean() > young.mean() + 0.3
    idle = people["classwkr"] == "NIU"
    assert idle[people["age"] == "(70, 80]"].mean() > idle.mean() + 0.2


@pytest.mark.slow
def test_men_earn_more_for_the_reasons_of_the_papers_case_study(people):
    men, women = people[people["sex"] == "Male"], people[people["sex"] == "Female"]
    gap = men["income"].mean() - women["income"].mean()
    relative = {}
    for name in set(SIZES) - {"sex"}:
        for value in census.marginals()[name]:
            rest = [part[part[name] != value]["income"] for part in (men, women)]
            remaining = min(map(len, rest)) / min(len(men), len(women))
            relative[name, value] = remaining * (1 - (rest[0].mean() - rest[1].mean()) / gap)
    published = {
        (name, value): share
        for name, of_value in census.CASE_STUDY.items()
        for value, share in of_value.items()
    }
    highest = sorted(relative, key=lambda key: -relative[key])[:5]
    assert highest == sorted(published, key=lambda key: -published[key])
    assert {key: relative[key] for key in highest} == pytest.approx(published, abs=0.002)


@pytest.mark.slow
def test_the_surveys_questions_have_the_papers_validity(people):
    relate = people.groupby("relate", observed=True)["income"].mean()
    educ = people.groupby("educ", observed=True)["income"].mean()
    assert relate["Grandchild"] > relate["Foster children"]
    assert relate["Head/householder"] < relate["Spouse"]
    assert educ["Bachelor's degree"] > educ["High school diploma or equivalent"]
    assert educ["Grade 9"] < educ["None or preschool"]


def test_same_seed_same_table_other_seed_other_table():
    assert census.generate(500, seed=3).equals(census.generate(500, seed=3))
    assert not census.generate(500, seed=3).equals(census.generate(500, seed=4))


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_small_tables_can_be_generated(rows):
    assert census.generate(rows).num_rows == rows


def test_the_examples_of_its_docstrings_are_true():
    outcome = doctest.testmod(census)
    assert (outcome.failed, outcome.attempted) == (0, 5)
