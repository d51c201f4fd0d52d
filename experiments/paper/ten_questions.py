"""Tests whether each of the paper's ten questions is valid on the true data as the paper says."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from experiments.harness import Cell, Claim, Scale
from experiments.paper.shared import NOT_REPRODUCED, REPRODUCED, questions
from experiments.questions import TEN

NAME = "questions"
TITLE = "The ten questions and their validity"
SENTENCES = (
    "Five questions are about a table shaped like the survey, and five about a table shaped like the German "
    "credit data. Each is shown with its true gap and the result of one run of Phases 1 and 2 at ρ = 0.1. "
    "The rows are generated: the survey's to match its published marginals, the credit data's by a learnt "
    "network and boosted trees, as in the paper."
)


def cells(scale: Scale) -> list[Cell]:
    return [
        Cell("trials.question_shown", {"question": name, "rows": rows, "rho": 0.1, "seed": 1})
        for name, rows in questions(scale)
    ]


def chart(frame: pd.DataFrame) -> Any:
    frame = frame.copy()
    for column in ("low", "high", "true_gap"):
        frame[column] = frame[column] / frame["true_gap"].abs()
    base = alt.Chart(frame).encode(y=alt.Y("question:N", sort=None, title=None))
    scale = alt.Scale(domain=[-4, 4], clamp=True)
    bars = base.mark_bar(height=8, opacity=0.6).encode(
        x=alt.X("low:Q", scale=scale, title="interval of the gap, in units of its true size"), x2="high:Q"
    )
    truth = base.mark_tick(color="black", thickness=2).encode(x=alt.X("true_gap:Q", scale=scale))
    return alt.layer(bars, truth).properties(width=420, height=200)


def claims(frame: pd.DataFrame) -> list[Claim]:
    valid = {row.question: row.true_gap > 0 for row in frame.itertuples()}
    wrong = [name for name, is_valid in valid.items() if is_valid != TEN[name].valid]
    expected = "Yes for I1, I2, I4, G1, G2, G4; No for I3, I5, G3, G5"
    return [
        Claim(
            "Validity of each question on the true data",
            expected,
            f"the same for {len(valid) - len(wrong)} of {len(valid)}"
            + (f", other for {wrong}" if wrong else ""),
            NOT_REPRODUCED if wrong else REPRODUCED,
            "The survey's marginals decide the validity of its questions. For the credit questions the 1,000 "
            "real rows decide it, through the learnt model.",
        )
    ]
