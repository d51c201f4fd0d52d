"""After the scan, a request does the same work on neighbouring tables: equal calls on arrays of equal sizes.

Seconds would depend on the machine. What is compared is the shape of every array and the length of every list
that the functions between the scan and the release have at hand when they return.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import dpxplain as dpx
from dpxplain.phases import dataset

sys.path.insert(0, str(Path(__file__).parents[2]))  # for benchmarks

from benchmarks.neighbours import SCHEMA, conditions, disjunctions, table

pytestmark = pytest.mark.draws  # the race is the private sampler's; its decimals are needed once in 10^7 runs

SQL = "SELECT team, COUNT(*) FROM t WHERE rare = 'yes' GROUP BY team"
AVERAGE = "SELECT team, AVG(pay) FROM t WHERE rare = 'yes' GROUP BY team"
ROOMS = tuple(f"{Path(dpx.__file__).parent}/{room}/" for room in ("explanation", "privacy", "phases"))
SCAN = {"_laid_out", "totals", "group_index"}  # these lay out what the scan returned, row by row
DRAWS = {  # of privacy/mechanisms/samplers.py: noise, before it meets any value
    "system_words", "one_word", "uniform_below", "flip_coins", "geometric", "exact_geometric", "_exponential",
    "_geometric_thresholds", "_first_bits", "is_below_exponential", "exponential_bounds", "_series",
    "GaussianLaw", "_gaussian_law", "discrete_gaussian", "sample", "_accepted", "saturating_sum",
}  # fmt: skip

# Distinct conditions are chosen one after the other, each from what the released ones left: sizes differ with
# the noise. So those requests are seeded, and too cheap for one person to change what is chosen.
SEED = 7
REQUESTS: dict[str, dict[str, Any]] = {
    "conditions of which 40 hold": {"mechanism": "one-shot", "k": 6, "predicates": conditions(120, 40)},
    "disjunctions": {"mechanism": "one-shot", "k": 5, "predicates": disjunctions(20), "distinct": False},
    "distinct disjunctions": {"mechanism": "one-shot", "k": 5, "predicates": disjunctions(20), "seed": SEED},
    "ranges": {"mechanism": "one-shot", "k": 3, "predicates": [dpx.ranges("age")]},
    "pairs": {"mechanism": "one-shot", "k": 5, "conjuncts": 2, "distinct": False},
    "distinct pairs": {"mechanism": "one-shot", "k": 5, "conjuncts": 2, "seed": SEED},
    "vector": {"mechanism": "vector", "k": 5, "conjuncts": 1},
    "marginals": {"mechanism": "marginals", "k": 5, "conjuncts": 1},
}


def _work(with_target: bool, folder: Path, sql: str, asked: dict[str, Any]) -> Counter[object]:
    """How often each function of the rooms returned with arrays of which sizes."""
    work: Counter[object] = Counter()

    def note(frame: FrameType, event: str, _returned: object) -> None:
        code = frame.f_code
        if event != "return" or not code.co_filename.startswith(ROOMS) or code.co_name in SCAN:
            return
        if not (code.co_filename.endswith("samplers.py") and code.co_qualname.split(".")[0] in DRAWS):
            work[code.co_filename[-40:], code.co_qualname, _sizes(frame)] += 1

    _explain(with_target, folder, sql, asked, note)
    return work


def _explain(with_target: bool, folder: Path, sql: str, asked: dict[str, Any], profile: Any = None) -> None:
    schema = {"table": {"name": "t"}, **SCHEMA}
    rows = table(with_target=with_target, rows=300)
    seed = asked.get("seed")
    with dpx.connect(rows, schema, workspace=folder, insecure_seed=seed) as session:
        answer = session.query(sql, 1e-6)
        question = answer.why("a", "b")
        sys.setprofile(profile)
        try:
            question.explain(
                **{"rho": 1e-9, **{name: value for name, value in asked.items() if name != "seed"}}
            )
        finally:
            sys.setprofile(None)


def _sizes(frame: FrameType) -> tuple[object, ...]:
    at_hand = sorted(frame.f_locals.items())
    return tuple(
        (name, value.shape if isinstance(value, np.ndarray) else len(value))
        for name, value in at_hand
        if isinstance(value, np.ndarray | list)
    )


def _differences(tmp_path: Path, sql: str, asked: dict[str, Any]) -> Counter[object]:
    _explain(False, tmp_path / "first", sql, asked)  # fills the caches of what declarations decide
    present, absent = (_work(included, tmp_path / str(included), sql, asked) for included in (True, False))
    assert sum(present.values()) > 20, "the work was seen"
    return (present - absent) + (absent - present)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(asked, id=name, marks=() if name in ("disjunctions", "pairs") else pytest.mark.slow)
        for name, asked in REQUESTS.items()
    ],
)
def test_one_person_changes_no_size_of_any_array_after_the_scan(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    assert not _differences(tmp_path, SQL, asked)


def test_nor_of_an_average(tmp_path: Path) -> None:
    assert not _differences(tmp_path, AVERAGE, REQUESTS["pairs"])


@pytest.mark.slow
def test_nor_with_the_influence_on_a_ratio(tmp_path: Path) -> None:
    asked = {"influence": dpx.RatioInfluence(), "k": 5, "conjuncts": 2, "rho": 5.0, "distinct": False}
    assert not _differences(tmp_path, SQL, asked)


def test_work_on_occupied_cells_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is how cells too many for memory are handled, and how all were."""
    monkeypatch.setattr(dataset, "is_dense", lambda *_: False)
    asked = {"mechanism": "one-shot", "k": 2, "predicates": conditions(12, 4)}
    assert _differences(tmp_path, SQL, asked)
