"""The paper's questions: the ten of its table, two of its introduction, and Taxi-Imbalance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dpxplain as dpx
from dpxplain.explanation.family_choice import FamilyChoice

Group = str | tuple[str, str]


@dataclass(frozen=True)
class PaperQuestion:
    name: str
    data: str
    sql: str
    weights: tuple[tuple[Group, float], ...]
    valid: bool  # on the true data, as the paper's table says
    either: tuple[str, ...] = ()  # explain by predicates "one of these columns has the value"

    @property
    def contrast(self) -> dict[Group, float]:
        return dict(self.weights)

    @property
    def text(self) -> str:
        (first, _), (second, weight) = self.weights
        times = "" if weight == -1 else f"{-weight:g} × "
        return f"{first} > {times}{second}"

    def choice(self, conjuncts: int = 1) -> FamilyChoice:
        if self.either:
            return FamilyChoice(predicates=dpx.either(*self.either))
        return FamilyChoice(conjuncts=conjuncts)


def _pair(name: str, data: str, column: str, measured: str, first: str, second: str, valid: bool) -> Any:
    sql = f"SELECT {column}, AVG({measured}) FROM {data} GROUP BY {column}"
    return PaperQuestion(name, data, sql, ((first, 1.0), (second, -1.0)), valid)


TEN: dict[str, PaperQuestion] = {
    question.name: question
    for question in (
        _pair("I1", "census", "sex", "income", "Male", "Female", True),
        _pair("I2", "census", "relate", "income", "Grandchild", "Foster children", True),
        _pair("I3", "census", "relate", "income", "Head/householder", "Spouse", False),
        _pair(
            "I4", "census", "educ", "income", "Bachelor's degree", "High school diploma or equivalent", True
        ),
        _pair("I5", "census", "educ", "income", "Grade 9", "None or preschool", False),
        _pair("G1", "credit", "status", "good_credit", "no balance", "no checking account", True),
        _pair("G2", "credit", "purpose", "good_credit", "car (new)", "car (used)", True),
        _pair("G3", "credit", "purpose", "good_credit", "business", "vacation", False),
        _pair("G4", "credit", "residence", "good_credit", "< 1 yr", ">= 7 yrs", True),
        _pair("G5", "credit", "residence", "good_credit", "[1, 4) yrs", "[4, 7) yrs", False),
    )
}
MARRIED = _pair(
    "Adult", "adult", "marital_status", "high_income", "Married-civ-spouse", "Never-married", True
)
ARMED_FORCES = _pair(
    "Adult-noise",
    "adult",
    "marital_status",
    "high_income",
    "Married-AF-spouse",
    "Married-civ-spouse",
    False,
)
TAXI = PaperQuestion(
    "Taxi",
    "trips",
    "SELECT pickup_borough, dropoff_borough, COUNT(*) FROM trips GROUP BY pickup_borough, dropoff_borough",
    ((("Queens", "Brooklyn"), 1.0), (("Brooklyn", "Queens"), -10.0)),
    True,
    either=("pickup_zone", "dropoff_zone"),
)
QUESTIONS = TEN | {question.name: question for question in (MARRIED, ARMED_FORCES, TAXI)}
