"""How often Phase 2 judges a question correctly, against the query's budget."""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments import charts
from experiments.harness import Cell, Claim, Scale
from experiments.paper.shared import SMALL_GROUP, count_claim, passing, questions

NAME = "validation"
TITLE = "Is the question valid? Correctness against ρ_q"
SENTENCES = (
    "By the paper's rule, Phase 2 judges a question valid only if its whole 95% interval is positive. The "
    "image interval is the paper's and does not centre its sums. Mover is the product's default."
)
RHOS = (0.001, 0.01, 0.1, 1.0, 10.0)
IMAGE, OURS = "image, as published", "mover"


def cells(scale: Scale) -> list[Cell]:
    return [
        Cell(
            "trials.judgements",
            {"question": name, "rows": rows, "method": method, "rho": rho, "runs": scale.many},
        )
        for name, rows in questions(scale)
        for method in (IMAGE, OURS, "fieller")
        for rho in scale.sweep(RHOS)
    ]


def chart(frame: pd.DataFrame) -> Any:
    return charts.lines(
        frame,
        "rho",
        "correct",
        "method",
        x_title="ρ of the query",
        y_title="judged rightly",
        facet="question",
    )


def claims(frame: pd.DataFrame) -> list[Claim]:
    default = frame[frame["rho"] == (0.1 if 0.1 in set(frame["rho"]) else frame["rho"].max())]
    passed = passing(default, "method", "correct", least=1.0)
    right = default.set_index(["question", "method"])["correct"].to_dict()
    detail = ""
    if ("I2", OURS) in right:
        share, theirs = right["I2", OURS], right["I2", IMAGE]
        detail = f"I2 is judged rightly in {share:.0%} of runs ({theirs:.1%} as published). "
    rows = default[default["question"] == "I2"]["smallest_group"]
    small = SMALL_GROUP.format(rows=int(rows.iloc[0]) if len(rows) else 278)
    return [
        count_claim(
            f"Questions judged rightly in all runs at ρ_q = 0.1 ({default['runs'].max():.0f} runs each)",
            8,
            9,
            passed,
            default["question"].nunique(),
            OURS,
            f"{detail}{small}. The paper failed on I5 too; I5 is invalid in truth, and a wide interval "
            "judges it so.",
        )
    ]
