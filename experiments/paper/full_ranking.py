"""Kendall's τ of the full ranking (k = |P|), against ρ_topk and l."""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments import charts
from experiments.harness import Cell, Claim, Scale
from experiments.paper.shared import BETTER, NOT_REPRODUCED, REPRODUCED
from experiments.questions import TEN
from experiments.trials import CORRECTED, PUBLISHED, RHO_TOP_K, VECTOR

NAME = "full-ranking"
TITLE = "Full ranking: Kendall's τ against ρ_topk and l"
SENTENCES = (
    "The paper's selection with k = |P| orders all predicates. So does one Gaussian release of all "
    "influences, whose noise does not grow with k. τ is Kendall's τ-b, which adjusts for ties (predicates "
    "that no row satisfies)."
)
RHOS = (0.001, 0.01, 0.1, 0.5, 1.0, 10.0)
LINES = (PUBLISHED, CORRECTED, VECTOR)
BY_CONJUNCTS = {
    ("I1", 1): 0.513,
    ("I1", 2): 0.029,
    ("I1", 3): 0.001,
    ("G1", 1): 0.947,
    ("G1", 2): 0.466,
    ("G1", 3): 0.060,
}


def cells(scale: Scale) -> list[Cell]:
    listed = []
    for name in ("I1", "G1"):
        rows = scale.rows_of(TEN[name].data)
        for mechanism in LINES:
            common = {"question": name, "rows": rows, "mechanism": mechanism, "runs": scale.runs}
            for rho in scale.sweep(RHOS):
                listed.append(
                    Cell("trials.full_rankings", common | {"rho": rho, "conjuncts": 1}, {"part": "rho"})
                )
            for conjuncts in scale.conjuncts:
                settings = common | {"rho": RHO_TOP_K, "conjuncts": conjuncts}
                listed.append(Cell("trials.full_rankings", settings, {"part": "l"}))
    return listed


def chart(frame: pd.DataFrame) -> Any:
    return charts.lines(
        frame[frame["part"] == "rho"], "rho", "tau", "mechanism", x_title="ρ of the ranking",
        y_title="Kendall's τ", facet="question", goal=0.4,
    )  # fmt: skip


def claims(frame: pd.DataFrame) -> list[Claim]:
    budget = frame[frame["part"] == "rho"]
    by_l = frame[frame["part"] == "l"].set_index(["question", "l", "mechanism"])["tau"].to_dict()

    def first_above(name: str, mechanism: str) -> str:
        part = budget[
            (budget["question"] == name) & (budget["mechanism"] == mechanism) & (budget["tau"] > 0.4)
        ]
        return f"{part['rho'].min():g}" if len(part) else "none"

    found = [
        Claim(
            f"{name}: the least ρ_topk with τ above 0.4 ({frame['runs'].max():.0f} runs)",
            f"{published:g}",
            "; ".join(f"{mechanism} {first_above(name, mechanism)}" for mechanism in LINES),
            BETTER
            if first_above(name, VECTOR) != "none" and float(first_above(name, VECTOR)) < published
            else REPRODUCED
            if first_above(name, VECTOR) == f"{published:g}"
            else NOT_REPRODUCED,
            "The budgets tried are " + ", ".join(f"{rho:g}" for rho in sorted(set(budget["rho"]))) + ".",
        )
        for name, published in (("I1", 0.1), ("G1", 0.001))
    ]
    for name in ("I1", "G1"):
        levels = [l for (question, l, mechanism) in by_l if question == name and mechanism == PUBLISHED]
        measured = "; ".join(
            f"{mechanism} " + ", ".join(f"{by_l[name, l, mechanism]:.3f}" for l in levels)
            for mechanism in LINES
        )
        better = all(by_l[name, l, VECTOR] >= BY_CONJUNCTS[name, l] for l in levels)
        found.append(
            Claim(
                f"{name}: τ at ρ_topk = {RHO_TOP_K:g} for l = " + ", ".join(f"{l:.0f}" for l in levels),
                ", ".join(f"{BY_CONJUNCTS[name, l]:.3f}" for l in levels),
                measured,
                BETTER if better else NOT_REPRODUCED,
                "τ falls with l as in the paper. The noise of the selection grows with |P|, that of one "
                "release only with the number of predicates a row satisfies.",
            )
        )
    return found
