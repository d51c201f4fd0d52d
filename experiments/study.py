"""Compares four ways to explain; writes docs/study.md and its charts.

    python -m experiments.study             200 seeded runs per point, on Adult and on a census-like table
    python -m experiments.study --runs 20   a quick look
    python -m experiments.study --ranking   only the last section: Kendall's τ of full rankings

Noise comes from a seeded source, so the figures repeat. Nothing here is private.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

import dpxplain as dpx
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.phases.explain import true_scores
from dpxplain.phases.plan import ExplanationOptions
from dpxplain.privacy.mechanisms.noise import SeededNoise
from dpxplain.privacy.mechanisms.ranking import select_top_k
from experiments import census
from experiments.tables import new_workspace

DOCS = Path(__file__).parent.parent / "docs"
PRICES = (0.001, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
MECHANISMS = {
    "as published": {"mechanism": "one-shot", "sensitivity": "paper"},
    "one-shot": {"mechanism": "one-shot", "sensitivity": "tight"},
    "vector": {"mechanism": "vector", "sensitivity": "tight"},
    "marginals": {"mechanism": "marginals", "sensitivity": "tight"},
}
K = 5
RANKING_PRICES = (0.001, 0.01, 0.1, 0.5, 1.0, 10.0)  # as in the paper's figure
RANKING_RUNS = 50
SELECTION, TABLE = "selection", "table"
RANKING = "## Full ranking"


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
                workspace=new_workspace(),
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
    influence, rank = truth(question)
    rows = []
    for label, how in MECHANISMS.items():
        for rho in PRICES:
            plan: Any = question.plan_explain(
                ExplanationOptions(
                    FamilyChoice(), K, rho, how["mechanism"], 0.95, sensitivity=how["sensitivity"]
                )
            ).plan
            points = []
            for seed in range(runs):
                dataset.noise = SeededNoise(seed)
                lines = release(plan, dataset).lines
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


def truth(question: dpx.Question) -> tuple[Any, Any]:
    """The true influence and rank of every predicate, in the family's order."""
    family = question._family(FamilyChoice())
    true = {row["predicate"]: row for row in question.truth().records()}
    listed = [true[str(family.predicate(i))] for i in range(family.size)]
    return np.array([row["influence"] for row in listed]), np.array([row["rank"] for row in listed])


def release(plan: Any, dataset: Any) -> Any:
    """Draw one table by the plan, even if a table is stored already."""
    if plan.mechanism == "marginals":
        return plan.read(plan.preparation.measure(dataset))
    return plan.measure(dataset)


def rankings(case: Case, runs: int) -> list[dict[str, Any]]:
    """Kendall's τ-b between the true order of all predicates and the order of the product's own mechanisms.

    Two orders are compared: that of the paper's selection with k = |P| (as published and one-shot only), and
    that of the influences in a table of |P| lines.
    """
    from scipy.stats import kendalltau

    question = case.session.query(case.sql, rho=0.1).why(*case.groups)
    dataset: Any = question._dataset
    influence, _ = truth(question)
    rows = []
    for label, how in MECHANISMS.items():
        for rho in RANKING_PRICES:
            plan: Any = question.plan_explain(
                ExplanationOptions(
                    FamilyChoice(),
                    len(influence),
                    rho,
                    how["mechanism"],
                    0.95,
                    sensitivity=how["sensitivity"],
                )
            ).plan
            taus: dict[str, list[float]] = {TABLE: []}
            if how["mechanism"] == "one-shot":
                taus = {SELECTION: [], TABLE: []}
                scores = true_scores(plan.terms, plan.scoring, dataset)
            for seed in range(runs):
                dataset.noise = SeededNoise(seed)
                noisy = np.zeros(len(influence))
                for line in release(plan, dataset).lines:
                    noisy[line.predicate] = line.influence
                taus[TABLE].append(kendalltau(noisy, influence).statistic)
                if SELECTION in taus:
                    order = select_top_k(
                        scores,
                        k=len(influence),
                        sensitivity=plan.scoring.of_one,
                        rho=rho,
                        noise=SeededNoise(seed),
                    )
                    taus[SELECTION].append(kendalltau(-np.arange(len(order)), influence[order]).statistic)
            for by, found in taus.items():
                tau = float(np.mean(found))
                rows.append({"data": case.name, "mechanism": label, "by": by, "rho": rho, "tau": tau})
                print(case.name, label, by, rho, f"{tau:.3f}")
    return rows


def write_rankings(frame: pd.DataFrame, runs: int) -> None:
    """Rewrite the last section of the page."""
    page = DOCS / "study.md"
    text = [
        page.read_text().partition(RANKING)[0].rstrip() + f"\n\n{RANKING}\n",
        "The paper orders all predicates by its selection with k = |P| and spends all of ρ on that "
        "(*selection*). `explain(k=|P|)` makes a *table* of all predicates instead. It skips the selection, "
        "because there is nothing to choose, and orders the predicates by their measured influences. With "
        "one-shot, a third of ρ pays for the influences and the rest for rank intervals. One release of all "
        "influences (vector, which spends half of ρ on fresh noise) or of marginals does not get noisier as "
        f"k grows. The figures are Kendall's τ-b with the true order, the mean of {runs} seeded runs. The "
        "paper calls 0.4 moderate and 0.7 strong. `python -m experiments.study --ranking` writes this "
        "section. [experiments.md](experiments.md) has the paper's questions and conjunctions.\n",
        "| data | mechanism | order by | " + " | ".join(f"ρ = {rho:g}" for rho in RANKING_PRICES) + " |",
        "|---" * (3 + len(RANKING_PRICES)) + "|",
    ]
    for names, part in frame.groupby(["data", "mechanism", "by"], sort=False):
        text.append(f"| {' | '.join(names)} | {' | '.join(f'{tau:.3f}' for tau in part['tau'])} |")
    page.write_text("\n".join(text) + "\n")


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
        f"Each figure is the mean of {runs} seeded runs with k = {K} and 95% intervals, after one query at "
        "ρ = 0.1. `python -m experiments.study` writes this page.\n",
        "*As published* is the paper's mechanism with the paper's sensitivities. *One-shot* is the same "
        "mechanism with the sensitivities of [proofs/sensitivity.md](proofs/sensitivity.md). *Vector* and "
        "*marginals* are new ([proofs/vector.md](proofs/vector.md), "
        "[proofs/marginals.md](proofs/marginals.md)). A marginals preparation also answers every other "
        "question on the same query.\n",
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
            "| mechanism | ρ | precision@5 | influence width | rank width | "
            "influence covered | rank covered |"
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
    parser.add_argument("--ranking", action="store_true", help="only the section of full rankings")
    asked = parser.parse_args()
    studied = cases()
    if not asked.ranking:
        write(pd.DataFrame([row for case in studied for row in measure(case, asked.runs)]), asked.runs)
    runs = min(asked.runs, RANKING_RUNS)
    write_rankings(pd.DataFrame([row for case in studied for row in rankings(case, runs)]), runs)


if __name__ == "__main__":
    main()
