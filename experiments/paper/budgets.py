"""Widths of influence and rank intervals against the budget of each."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from experiments import charts
from experiments.harness import Cell, Claim, Scale
from experiments.paper.shared import LABEL_MODEL, LINES, count_claim, passing, questions, table_settings
from experiments.trials import DEFAULT_RHOS, MARGINALS

NAME = "widths"
TITLE = "Widths of influence and rank intervals against ρ_influence and ρ_rank"
SENTENCES = (
    "Each sweep varies one of the paper's three budgets and keeps the others at the paper's defaults (0.5, "
    "0.5, 1). Vector and marginals spend the sum of the three on one release. Relative widths are divided by "
    "the true gap and by the rows of the smaller group."
)
INFLUENCE = (0.005, 0.05, 0.1, 0.5, 1.0, 5.0)
RANK = (0.01, 0.1, 0.5, 1.0, 5.0, 10.0)


def cells(scale: Scale) -> list[Cell]:
    listed = []
    for name, rows in questions(scale):
        for mechanism in LINES:
            for part, place, values in (("influence", 1, INFLUENCE), ("rank", 2, RANK)):
                for rho in scale.sweep(values):
                    rhos = (*DEFAULT_RHOS[:place], rho, *DEFAULT_RHOS[place + 1 :])
                    settings = table_settings(name, rows, mechanism, rhos, runs=scale.runs)
                    listed.append(Cell("trials.tables_drawn", settings, {"part": part, "rho": rho}))
    return listed


def chart(frame: pd.DataFrame) -> Any:
    widths = frame[frame["part"] == "influence"]
    ranks = frame[frame["part"] == "rank"]
    return alt.vconcat(
        charts.lines(
            widths, "rho", "influence_width", "mechanism",
            x_title="ρ of the influences", y_title="relative width", facet="question", y_scale="log",
        ),
        charts.lines(
            ranks, "rho", "rank_width", "mechanism",
            x_title="ρ of the ranks", y_title="rank width", facet="question", y_scale="symlog",
        ),
    )  # fmt: skip


def claims(frame: pd.DataFrame) -> list[Claim]:
    asked = frame["question"].nunique()
    runs = int(frame["runs"].max())
    widths = _at(frame, "influence", 0.5)
    ranks = _at(frame, "rank", 1.0)
    wide = widths[widths["mechanism"] == MARGINALS].sort_values("influence_width")
    named = ", ".join(f"{row.question} {row.influence_width:.4f}" for row in wide.itertuples())
    rank_named = ", ".join(
        f"{row.question} {row.rank_width:.1f}"
        for row in ranks[ranks["mechanism"] == MARGINALS].sort_values("rank_width").itertuples()
    )
    return [
        count_claim(
            f"Questions with a mean relative influence width of at most 0.015 at the defaults ({runs} runs)",
            6, 8, passing(widths, "mechanism", "influence_width", most=0.015), asked, MARGINALS,
            f"Widths of marginals: {named}. A relative width is the noise divided by the product of the gap "
            f"and the rows of the smaller group. I2 and I5 have the smallest groups. {LABEL_MODEL}",
        ),
        count_claim(
            f"Questions with a mean rank width of at most 10 at the defaults ({runs} runs)",
            6, 8, passing(ranks, "mechanism", "rank_width", most=10.0), asked, MARGINALS,
            f"Widths of marginals: {rank_named}.",
        ),
        count_claim(
            "Questions with a mean rank width of at most 2 at the defaults",
            2, 2, passing(ranks, "mechanism", "rank_width", most=2.0), asked, MARGINALS, "",
        ),
    ]  # fmt: skip


def _at(frame: pd.DataFrame, part: str, rho: float) -> pd.DataFrame:
    chosen = frame[frame["part"] == part]
    return chosen[chosen["rho"] == (rho if rho in set(chosen["rho"]) else chosen["rho"].max())]
