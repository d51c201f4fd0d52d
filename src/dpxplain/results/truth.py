"""True values as the curator sees them, and how a result asks its data set for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from dpxplain.errors import CuratorOnly
from dpxplain.explanation.choice import FamilyChoice
from dpxplain.model.display import Displayed, Record, Tabular


@dataclass(frozen=True)
class Truth(Displayed, Tabular):
    """True values. Never shown to an analyst; displaying it shows a warning too."""

    title: str
    rows: list[Record]
    shaped_by: tuple[str, ...] = ()

    def records(self) -> list[Record]:
        return self.rows


@runtime_checkable
class TruthTeller(Protocol):
    """A data set that also reveals what is true, here or at a server.

    The parameters are an `Answer`, `Answers`, a `Question` and an `Explanation`, which import this module.
    """

    def answer_truth(self, answer: Any) -> Truth: ...

    def answers_truth(self, answers: Any) -> Truth: ...

    def question_truth(self, question: Any, choice: FamilyChoice) -> Truth: ...

    def table_truth(self, table: Any) -> Truth: ...


def require_curator(dataset: object) -> TruthTeller:
    """The data set, if it is a curator's; raises CuratorOnly otherwise."""
    if isinstance(dataset, TruthTeller):
        return dataset
    raise CuratorOnly(
        "True values are for the curator only.",
        remedy="Analysts work with released values; the curator opens the data with curator=True.",
    )
