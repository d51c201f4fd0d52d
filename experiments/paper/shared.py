"""Shared by several experiments: the ten questions, settings, verdicts and texts of claims."""

from __future__ import annotations

import pandas as pd

from experiments.harness import Claim, Scale
from experiments.questions import TEN
from experiments.trials import CONFIDENCE, CORRECTED, DEFAULT_RHOS, MARGINALS, PUBLISHED, VECTOR, K

REPRODUCED, BETTER, NOT_REPRODUCED = "reproduced", "better", "not reproduced"
LINES = (PUBLISHED, CORRECTED, VECTOR, MARGINALS)
SMALL_GROUP = (
    "One group of I2 has only {rows} foster children. At ρ = 0.1 the noise of their mean income alone has a "
    "standard deviation near the whole gap of about $975, so no mechanism with this guarantee can tell"
)


LABEL_MODEL = (
    "The credit label's model is the one with the least cross-validated log loss on the 1,000 real rows "
    "(learn_credit.py). This rule looks at no question; an earlier run used a model chosen after its "
    "results. The model gives G3 a gap of 0.008 between groups of about 10,000 rows, so the same noise is "
    "a larger share of it."
)


def questions(scale: Scale) -> list[tuple[str, int]]:
    """Names and table sizes of the ten questions, or of those that the scale chooses."""
    return [(name, scale.rows_of(TEN[name].data)) for name in scale.questions or TEN]


def table_settings(
    name: str, rows: int, mechanism: str, rhos: tuple[float, float, float] = DEFAULT_RHOS, *, runs: int,
    k: int = K, confidence: float = CONFIDENCE, conjuncts: int = 1,
) -> dict[str, object]:  # fmt: skip
    return {
        "question": name, "rows": rows, "mechanism": mechanism, "rhos": list(rhos), "k": k,
        "confidence": confidence, "conjuncts": conjuncts, "runs": runs,
    }  # fmt: skip


def count_claim(
    text: str, published: int, goal: int, passed: dict[str, list[str]], asked: int, ours: str, reason: str
) -> Claim:
    """A claim about how many of the ten questions pass; lists the questions that pass by mechanism."""
    measured = "; ".join(f"{name} {len(those)} ({_listed(those)})" for name, those in passed.items())
    best = len(passed[ours])
    verdict = BETTER if best > published else REPRODUCED if best == published else NOT_REPRODUCED
    missed = "" if best >= goal or asked < 10 else f" Our target of {goal} is missed. "
    return Claim(text, f"{published} of 10", f"of {asked}: {measured}", verdict, (missed + reason).strip())


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"


def passing(
    frame: pd.DataFrame, by: str, column: str, *, least: float | None = None, most: float | None = None
):  # type: ignore[no-untyped-def]
    """The questions whose column is at least `least` or at most `most`, for each value of `by`."""
    found: dict[str, list[str]] = {}
    for name, part in frame.groupby(by, sort=False):
        good = part[column] >= least - 1e-9 if least is not None else part[column] <= most + 1e-9
        found[str(name)] = part["question"][good].tolist()
    return found
