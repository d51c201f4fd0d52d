"""Widths of intervals against the confidence level."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from experiments import charts
from experiments.harness import Cell, Claim, Scale
from experiments.paper.shared import BETTER, LINES, NOT_REPRODUCED, REPRODUCED, questions, table_settings
from experiments.trials import MARGINALS, PUBLISHED

NAME = "confidence"
TITLE = "Widths of intervals against the confidence level"
SENTENCES = (
    "All budgets stay at the paper's defaults, and γ goes from 0.1 to 0.99. "
    "A change is the width at 0.99 minus the width at 0.1."
)
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
MECHANISMS = (LINES[0], LINES[1], LINES[3])


def cells(scale: Scale) -> list[Cell]:
    return [
        Cell(
            "trials.tables_drawn",
            table_settings(name, rows, mechanism, runs=scale.runs, confidence=level),
            {"level": level},
        )
        for name, rows in questions(scale)
        for mechanism in MECHANISMS
        for level in scale.sweep(LEVELS)
    ]


def chart(frame: pd.DataFrame) -> Any:
    return alt.vconcat(
        charts.lines(
            frame, "level", "influence_width", "mechanism", x_title="γ", y_title="relative width",
            facet="question", x_scale="linear", y_scale="log",
        ),
        charts.lines(
            frame, "level", "rank_width", "mechanism", x_title="γ", y_title="rank width", facet="question",
            x_scale="linear", y_scale="symlog",
        ),
    )  # fmt: skip


def claims(frame: pd.DataFrame) -> list[Claim]:
    found = []
    for column, most, published in (("influence_width", 0.03, 6), ("rank_width", 5.0, 8)):
        wide = frame.pivot_table(index=["mechanism", "question"], columns="level", values=column, sort=False)
        change = wide[max(LEVELS)] - wide[min(LEVELS)]
        small = (change < most).groupby("mechanism", sort=False).sum().to_dict()
        measured = "; ".join(f"{name} {number}" for name, number in small.items())
        verdict = (
            BETTER
            if small[MARGINALS] > published
            else REPRODUCED
            if small[MARGINALS] == published
            else NOT_REPRODUCED
        )
        what = "influence" if column == "influence_width" else "rank"
        found.append(
            Claim(
                f"Questions whose {what} width changes by less than {most:g} ({frame['runs'].max():.0f} "
                f"runs)",
                f"{published} of 10",
                f"of {frame['question'].nunique()}: {measured}",
                verdict,
                f"The count as published is {small[PUBLISHED]} on our tables. Widths grow with the noise, "
                "and the rank bounds of the published search jump once the slack exceeds the gaps between "
                "influences."
                if what == "rank"
                else "",
            )
        )
    return found
