"""How often every interval contains the true value."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import pandas as pd

from experiments.harness import Cell, Claim, Scale
from experiments.paper.shared import LINES, NOT_REPRODUCED, REPRODUCED, questions, table_settings
from experiments.trials import CONFIDENCE

NAME = "coverage"
TITLE = "Coverage of every interval"
SENTENCES = (
    "Coverage is the share of 95% intervals that contain the true gap (Phase 2), influence or rank (Phase "
    "3). Three other pages test the intervals on grids and random tables: docs/interval-coverage.md, "
    "marginal-coverage.md and coverage.md."
)
TABLES = 5  # times the usual repetitions


def cells(scale: Scale) -> list[Cell]:
    listed = []
    for name, rows in questions(scale):
        for mechanism in LINES:
            settings = table_settings(name, rows, mechanism, runs=TABLES * scale.runs)
            listed.append(Cell("trials.tables_drawn", settings, {"part": "tables"}))
        for method in ("image, as published", "mover", "fieller"):
            settings = {"question": name, "rows": rows, "method": method, "rho": 0.1, "runs": scale.many}
            listed.append(Cell("trials.judgements", settings, {"part": "gap"}))
    return listed


def chart(frame: pd.DataFrame) -> Any:
    gap = frame[frame["part"] == "gap"].assign(what="gap")[["question", "method", "covered", "what"]]
    gap.columns = ["question", "by", "covered", "what"]
    tables = frame[frame["part"] == "tables"]
    parts = [
        tables.assign(what=what, covered=tables[column], by=tables["mechanism"])[
            ["question", "by", "covered", "what"]
        ]
        for what, column in (("influence", "influence_covered"), ("rank", "rank_covered"))
    ]
    points = (
        alt.Chart()
        .mark_point(filled=True)
        .encode(
            x=alt.X("question:N", sort=None, title=None),
            y=alt.Y("covered:Q", scale=alt.Scale(domain=[0.85, 1.0], clamp=True), title="share that holds"),
            color=alt.Color("by:N", sort=None, title=None),
        )
    )
    rule = alt.Chart().mark_rule(strokeDash=[4, 3]).encode(y=alt.datum(CONFIDENCE))
    layered = alt.layer(points, rule, data=pd.concat([gap, *parts])).properties(width=220, height=200)
    return layered.facet(alt.Facet("what:N", title=None))


def claims(frame: pd.DataFrame) -> list[Claim]:
    found = []
    gap = frame[frame["part"] == "gap"]
    tables = frame[frame["part"] == "tables"]
    for what, part, by, column, draws in (
        ("gaps", gap, "method", "covered", gap["runs"].max()),
        ("influences", tables, "mechanism", "influence_covered", tables["runs"].max()),
        ("ranks", tables, "mechanism", "rank_covered", tables["runs"].max()),
    ):
        mean = part.groupby(by, sort=False)[column].mean()
        least = part.groupby(by, sort=False)[column].min()
        # Four standard errors. A table counts as five draws, since its lines are nearly independent.
        number = draws * part["question"].nunique() * (5 if what != "gaps" else 1)
        allowed = CONFIDENCE - 0.005 - 4 * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / number)
        found.append(
            Claim(
                f"95% intervals of {what} hold ({draws:.0f} runs a question)",
                "at least 95%, by proof",
                "; ".join(f"{name} {mean[name]:.3f} (least {least[name]:.3f})" for name in mean.index),
                REPRODUCED if mean.min() > allowed else NOT_REPRODUCED,
                "The intervals of marginals hold for all predicates at once, so each single one holds more "
                "often."
                if what == "influences"
                else "",
            )
        )
    return found
