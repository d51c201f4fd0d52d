"""Run time in total, by step, by k, by l, by rows and by attributes."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from experiments.harness import Cell, Claim, Scale
from experiments.paper.shared import BETTER, NOT_REPRODUCED, questions
from experiments.questions import TEN

NAME = "run-time"
TITLE = "Run time of Phases 2 and 3"
SENTENCES = (
    "Times are seconds from an answer to its explanation table, the fastest of three on the machine of this "
    "run. They are taken through the public path, with private noise and the ledger's writes. The tables "
    "are already open, as the paper's were in memory."
)
BY_CONJUNCTS = {
    ("I1", 1): 67,
    ("I1", 2): 3078,
    ("I1", 3): 79634,
    ("G1", 1): 40,
    ("G1", 2): 1587,
    ("G1", 3): 39922,
}
COLUMNS = ("question", "value", "seconds", "mechanism")


def cells(scale: Scale) -> list[Cell]:
    listed = []
    for name, rows in questions(scale):
        settings = {"question": name, "rows": rows}
        listed.append(Cell("timing.explanations", settings, {"part": "total", "value": 0}))
        listed.append(Cell("timing.steps", settings, {"part": "step"}))
        if name in ("I1", "G1"):
            for k in scale.sweep((1, 5, 10, 20)):
                listed.append(Cell("timing.explanations", settings | {"k": k}, {"part": "k", "value": k}))
            for conjuncts in scale.conjuncts:
                named = {"part": "l", "value": conjuncts}
                listed.append(Cell("timing.explanations", settings | {"conjuncts": conjuncts}, named))
            listed.append(Cell("timing.pandas_loop", settings, {"part": "loop", "value": 0}))
    for name in ("I1", "G1"):
        whole = scale.rows_of(TEN[name].data)
        for rows in scale.sweep((10_000, 100_000, whole)):
            listed.append(
                Cell("timing.explanations", {"question": name, "rows": rows}, {"part": "rows", "value": rows})
            )
    for attributes in (8, 20):
        settings = {"question": "G1", "rows": scale.rows_of("credit"), "attributes": attributes}
        listed.append(Cell("timing.explanations", settings, {"part": "attributes", "value": attributes}))
    return listed


def chart(frame: pd.DataFrame) -> Any:
    steps = frame[frame["part"] == "step"].groupby("step", sort=False)["seconds"].mean().reset_index()
    total = frame[frame["part"] == "total"]
    bars = (
        alt.Chart(total, title="an explanation, by question")
        .mark_bar()
        .encode(x=alt.X("question:N", sort=None, title=None), y=alt.Y("seconds:Q"))
        .properties(width=220, height=180)
    )
    parts = (
        alt.Chart(steps, title="by step, mean of the questions")
        .mark_bar()
        .encode(y=alt.Y("step:N", sort=None, title=None), x=alt.X("seconds:Q"))
        .properties(width=220, height=180)
    )
    sweeps = [
        alt.Chart(frame[frame["part"] == part][list(COLUMNS)], title=f"by {part}")
        .mark_line(point=True)
        .encode(
            x=alt.X("value:Q", scale=alt.Scale(type="log" if part == "rows" else "linear"), title=part),
            y=alt.Y("seconds:Q", title="seconds"),
            color=alt.Color("question:N", title=None),
        )
        .properties(width=140, height=140)
        for part in ("k", "l", "rows", "attributes")
    ]
    return alt.vconcat(alt.hconcat(bars, parts), alt.hconcat(*sweeps))


def claims(frame: pd.DataFrame) -> list[Claim]:
    total = frame[frame["part"] == "total"]
    mean = total["seconds"].mean()
    loop = frame[frame["part"] == "loop"].set_index("question")["seconds"]
    by_l = frame[frame["part"] == "l"].set_index(["question", "value"])
    steps = frame[frame["part"] == "step"].groupby("step", sort=False)["seconds"].mean()
    share = steps["influences of all predicates"] / steps.sum()
    slow = "" if mean < 0.3 else "Our target of 0.3 s is missed; see the note on the machine. "
    found = [
        Claim(
            "Mean run time of a question",
            "32 s",
            f"{mean:.2f} s ({total['seconds'].min():.2f} to {total['seconds'].max():.2f}); a pandas loop "
            f"over predicates " + " and ".join(f"{seconds:.0f} s ({name})" for name, seconds in loop.items()),
            BETTER,
            slow + "All predicates are counted in one grouped pass instead of one query each.",
        ),
        Claim(
            "Share of the time spent computing all influences",
            "88%",
            f"{share:.0%} of {steps.sum():.2f} s (one-shot, whose steps are the paper's)",
            BETTER if steps.sum() < 32 else NOT_REPRODUCED,
            "It is still the largest step, but the total is much smaller.",
        ),
    ]
    for (name, l), published in BY_CONJUNCTS.items():
        if (name, l) in by_l.index:
            seconds = float(by_l["seconds"][name, l])
            missed = "Our target of 3 s at l = 3 is missed. " if l == 3 and seconds >= 3 else ""
            found.append(
                Claim(
                    f"{name}, l = {l}",
                    f"{published:,} s",
                    f"{seconds:.2f} s ({by_l['mechanism'][name, l]})",
                    BETTER if seconds < published else NOT_REPRODUCED,
                    missed,
                )
            )
    return found
