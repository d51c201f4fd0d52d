"""Four ways to explain, compared: writes docs/study.md and its charts.

    python experiments/study.py             200 seeded runs per point, on Adult and on a census-like table
    python experiments/study.py --runs 20   a quick look

Noise comes from a seeded source, so the figures repeat; nothing here is private.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

import dpxplain as dpx
from dpxplain.datasets import census
from dpxplain.explanation.choice import FamilyChoice
from dpxplain.privacy.mechanisms.noise import SeededNoise

DOCS = Path(__file__).parent.parent / "docs"
PRICES = (0.001, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
MECHANISMS = {
    "as published": {"mechanism": "one-shot", "sensitivity": "paper"},
    "one-shot": {"mechanism": "one-shot", "sensitivity": "tight"},
    "vector": {"mechanism": "vector", "sensitivity": "tight"},
    "marginals": {"mechanism": "marginals", "sensitivity": "tight"},
}
K = 5


@dataclass(frozen=True)
class Case:
    name: str
    session: dpx.Session
    sql: str
    groups: tuple[str, str]


def cases() -> list[Case]:
    schema = census.schema() | {"privacy": {"rho": 1e6}}
    return [
        Case(
            "Adult",
            dpx.example("adult", curator=True, insecure_seed=0),
            "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status",
            ("Married-civ-spouse", "Never-married"),
        ),
        Case(
            "Census-like",
            dpx.connect(
                census.generate(1_146_552),
                schema=schema,
                workspace=tempfile.mkdtemp(prefix="dpxplain-study-"),
                curator=True,
                insecure_seed=0,
            ),
            "SELECT sex, AVG(income) FROM census GROUP BY sex",
            ("Male", "Female"),
        ),
    ]


def measure(case: Case, runs: int) -> list[dict[str, Any]]:
    question = case.session.query(case.sql, rho=0.1).why(*case.groups)
    dataset: Any = question._dataset
    family = question._family(FamilyChoice())
    truth = {row["predicate"]: row for row in question.truth().records()}
    names = [str(family.predicate(i)) for i in range(family.size)]
    influence = np.array([truth[name]["influence"] for name in names])
    rank = np.array([truth[name]["rank"] for name in names])
    rows = []
    for label, how in MECHANISMS.items():
        for rho in PRICES:
            plan: Any = question.plan_explain(
                FamilyChoice(), K, rho, how["mechanism"], 0.95, sensitivity=how["sensitivity"]
            ).plan
            points = []
            for seed in range(runs):
                dataset.noise = SeededNoise(seed)
                release = (
                    plan.read(plan.preparation.measure(dataset))
                    if plan.mechanism == "marginals"
                    else plan.measure(dataset)
                )
                lines = release.lines
                chosen = [line.predicate for line in lines]
                low, high = np.array([line.influence_interval for line in lines]).T
                first, last = np.array([line.rank for line in lines]).T
                points.append(
                    (
                        np.mean(rank[chosen] <= K),
                        np.mean(high - low),
                        np.mean(last - first),
                        np.mean((low <= influence[chosen]) & (influence[chosen] <= high)),
                        np.mean((first <= rank[chosen]) & (rank[chosen] <= last)),
                    )
                )
            mean = np.mean(points, axis=0)
            rows.append(
                {
                    "data": case.name,
                    "mechanism": label,
                    "rho": rho,
                    "precision": mean[0],
                    "influence_width": mean[1],
                    "rank_width": mean[2],
                    "influence_coverage": mean[3],
                    "rank_coverage": mean[4],
                }
            )
            print(*(f"{v:.4g}" if isinstance(v, float) else v for v in rows[-1].values()))
    return rows


def chart(frame: pd.DataFrame, column: str, title: str, log: bool) -> alt.Chart:
    base = alt.Chart(frame, title=title, width=300, height=220)
    return base.mark_line(point=True).encode(
        x=alt.X("rho:Q", scale=alt.Scale(type="log"), title="ρ of the explanation"),
        y=alt.Y(f"{column}:Q", scale=alt.Scale(type="symlog" if log else "linear"), title=None),
        color=alt.Color("mechanism:N", sort=list(MECHANISMS), scale=alt.Scale(scheme="tableau10")),
        shape=alt.Shape("mechanism:N", sort=list(MECHANISMS)),
    )


def write(frame: pd.DataFrame, runs: int) -> None:
    (DOCS / "study").mkdir(exist_ok=True)
    text = [
        "# Four mechanisms, measured\n",
        f"Mean of {runs} seeded runs per point, k = {K}, 95% intervals, one query at ρ = 0.1 before. "
        "Made by `python experiments/study.py`.\n",
        "*As published* is the paper's mechanism with its own sensitivities; *one-shot* the same with those "
        "of [proofs/sensitivity.md](proofs/sensitivity.md); *vector* and *marginals* are new "
        "([proofs/vector.md](proofs/vector.md), [proofs/marginals.md](proofs/marginals.md)). A marginals "
        "preparation answers every other question on the same query too.\n",
    ]
    for name, part in frame.groupby("data", sort=False):
        slug = str(name).lower().replace("-", "_")
        drawn = alt.hconcat(
            chart(part, "precision", "precision at 5", log=False),
            chart(part, "influence_width", "width of influence intervals", log=True),
            chart(part, "rank_width", "width of rank intervals", log=True),
        )
        drawn.save(str(DOCS / "study" / f"{slug}.svg"))
        text.append(f"## {name}\n\n![{name}](study/{slug}.svg)\n")
        text.append(
            "| mechanism | ρ | precision@5 | influence width | rank width | infl. covered | rank covered |"
        )
        text.append("|---|---|---|---|---|---|---|")
        for row in part.itertuples():
            text.append(
                f"| {row.mechanism} | {row.rho:g} | {row.precision:.3f} | {row.influence_width:,.4g} | "
                f"{row.rank_width:.2f} | {row.influence_coverage:.3f} | {row.rank_coverage:.3f} |"
            )
        text.append("")
    (DOCS / "study.md").write_text("\n".join(text) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    rows = [row for case in cases() for row in measure(case, runs)]
    write(pd.DataFrame(rows), runs)


if __name__ == "__main__":
    main()
