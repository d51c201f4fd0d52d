"""What an answer's headline claims holds for all groups together, also for those that noise has chosen."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import dpxplain as dpx
from dpxplain.words.findings import answer_finding

EQUAL = pd.DataFrame({"g": [group for group in range(600) for _ in range(100)]})
SCHEMA = {
    "table": {"name": "t"},
    "privacy": {"rho": 10},
    "columns": {"g": {"values": list(range(600))}},
}
TAILS = "SELECT g, COUNT(*) FROM t GROUP BY g HAVING COUNT(*) > 127 OR COUNT(*) < 73"


def test_groups_that_noise_has_chosen_are_not_put_in_an_order(tmp_path: Path) -> None:
    ordered = 0
    for seed in range(8):
        with dpx.connect(EQUAL, schema=SCHEMA, workspace=tmp_path / str(seed), insecure_seed=seed) as session:
            answer = session.query(TAILS, rho=0.005)
            ordered += len({row.estimate > 100 for row in answer}) == 2
            assert "highest" not in answer.finding.headline
    assert ordered >= 4, "all groups are equal, and noise puts some of them into both tails"


def test_a_limit_is_said_in_the_headline(tmp_path: Path) -> None:
    rows = pd.DataFrame({"g": [group for group in range(10) for _ in range(100 * group)]})
    schema = SCHEMA | {"columns": {"g": {"values": list(range(10))}}}
    with dpx.connect(rows, schema=schema, workspace=tmp_path, insecure_seed=1) as session:
        answer = session.query("SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n LIMIT 3", rho=9.0)
        assert [row.group for row in answer] == [(0,), (1,), (2,)]
        groups = answer._answered_groups()
        of_all, of_shown = (
            answer_finding("n", groups, hides_groups=hidden).headline for hidden in (False, True)
        )
        assert answer.finding.headline == of_shown != of_all
