"""Taxi-Imbalance, the use case in the paper's appendix."""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments import charts
from experiments.harness import Cell, Claim, Scale
from experiments.paper.shared import BETTER, LINES, NOT_REPRODUCED, REPRODUCED
from experiments.trials import MARGINALS

NAME = "taxi"
TITLE = "Taxi-Imbalance: Queens to Brooklyn against ten times Brooklyn to Queens"
SENTENCES = (
    "The question compares two counts with weights (1, -10). It is explained by 127 predicates of the form "
    '"pick-up or drop-off in this zone", at ρ = 0.025, 0.025 and 0.95. The trips are generated in the shape '
    "of the paper's two months."
)
RHOS = [0.025, 0.025, 0.95]


def cells(scale: Scale) -> list[Cell]:
    rows = scale.rows_of("trips")
    asked = {"question": "Taxi", "rows": rows, "rho": 0.1, "seed": 1}
    listed = [Cell("trials.question_shown", asked, {"part": "question"})]
    for mechanism in LINES:
        settings = {"question": "Taxi", "rows": rows, "mechanism": mechanism, "rhos": RHOS, "seed": 1}
        listed.append(Cell("trials.shown_table", settings, {"part": "table"}))
    return listed


def chart(frame: pd.DataFrame) -> Any:
    table = frame[frame["part"] == "table"].copy()
    table["predicate"] = table["predicate"].str.extract(r"pickup_zone = '(.*)' OR", expand=False)
    return charts.intervals(table[["predicate", "low", "high", "true", "mechanism"]], "mechanism")


def claims(frame: pd.DataFrame) -> list[Claim]:
    asked = frame[frame["part"] == "question"].iloc[0]
    ours = frame[(frame["part"] == "table") & (frame["mechanism"] == MARGINALS)]
    first = list(ours["predicate"][:2])
    airports = "JFK" in first[0] and "LaGuardia" in first[1]
    width = (ours["high"] - ours["low"]).iloc[:2].mean()
    return [
        Claim(
            "q₁ − 10·q₂ and its interval",
            "11,431 and 121,934 trips, 7,624 in (7580, 7668)",
            f"{asked['second_group']:,.0f} and {asked['first_group']:,.0f} trips, {asked['estimate']:,.0f} "
            f"in "
            f"({asked['low']:,.0f}, {asked['high']:,.0f})",
            REPRODUCED if asked["low"] > 0 else NOT_REPRODUCED,
            "The generator has the paper's proportions.",
        ),
        Claim(
            "JFK and LaGuardia come first, with ranks [1, 1] and [1, 3]",
            "JFK 55% to 72%, LaGuardia 29% to 46%",
            "; ".join(
                f"{row.predicate.split(' OR')[0].split('= ')[1]} {row.low:.1%} to {row.high:.1%}, rank "
                f"{row.first:.0f} to "
                f"{row.last:.0f}"
                for row in ours.head(2).itertuples()
            ),
            REPRODUCED if airports else NOT_REPRODUCED,
            "The share of a borough's rides that start at each airport is invented, so the influences differ "
            "from the paper's.",
        ),
        Claim(
            "Width of their relative influence intervals at the same ρ",
            "17%",
            f"{width:.1%} (marginals)",
            BETTER if width < 0.17 else NOT_REPRODUCED,
            "One release counts all zones. The paper divides two small budgets among five zones each.",
        ),
    ]
