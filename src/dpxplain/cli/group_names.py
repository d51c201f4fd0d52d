"""From words on the command line to a question about an answer; groups are named as they are printed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpxplain.cli import options as o
from dpxplain.errors import QuestionError

if TYPE_CHECKING:
    from dpxplain.cli.workspace import Place
    from dpxplain.results.answer import Answer
    from dpxplain.results.answers import Answers
    from dpxplain.results.question import Question
    from dpxplain.session import Session


@dataclass(frozen=True)
class AnswerChoice:
    """Options that say which answer a command is about, and which of its aggregates."""

    answer: o.AnswerNumber = None
    of: o.Of = None

    def find(self, session: Session, place: Place, confidence: float = 0.95) -> Answer:
        """The answer with the number given, or else the one shown last."""
        number = self.answer
        if number is None:
            queries = {entry.id for entry in session.history if entry.kind == "query"}
            number = place.last_answer if place.last_answer in queries else None
        return one_aggregate(session.answer(number, confidence=confidence), self.of)

    @property
    def words(self) -> tuple[str, ...]:
        """The aggregate as an option, for suggested commands."""
        return () if self.of is None else ("--of", self.of)


@dataclass(frozen=True)
class TypedQuestion:
    """A question as typed: two groups, one group with `--at-least`, or weighted groups."""

    groups: Sequence[str]
    choice: AnswerChoice
    confidence: float
    weights: Sequence[str] = ()
    at_least: float | None = None
    method: str | None = None

    def ask(self, session: Session, place: Place) -> Question:
        """The question about the answer chosen."""
        answer = self.choice.find(session, place, self.confidence)
        group, other = self._sides(answer)
        constant = 0.0 if self.at_least is None else self.at_least
        method = {} if self.method is None else {"method": self.method}
        return answer.why(group, other, at_least=constant, confidence=self.confidence, **method)

    def _sides(self, answer: Answer) -> tuple[object, object]:
        if self.weights:
            if self.groups:
                raise QuestionError(
                    "Groups were named twice.", remedy="Use either A B or --weight, not both."
                )
            return _weighted(self.weights, answer), None
        if len(self.groups) == 2:
            return self.groups[0], self.groups[1]
        if len(self.groups) == 1 and self.at_least is not None:
            return {self.groups[0]: 1.0}, None
        raise QuestionError(
            f"A question compares two groups, not {len(self.groups)}.",
            remedy="Name two groups, one group with --at-least, or several with --weight GROUP=NUMBER.",
        )


def one_aggregate(answer: Answer | Answers, name: str | None) -> Answer:
    """The answer about the aggregate named by `--of`, which is optional where there is only one."""
    from dpxplain.results.answers import Answers
    from dpxplain.results.formula_answer import computed_answer

    if isinstance(answer, Answers):
        if name is not None or len(answer.answers) == 1:
            return answer[answer.names[0] if name is None else name]
        raise QuestionError(
            f"Answer {answer.id} has several aggregates: {', '.join(answer.names)}.",
            remedy=f"Say which one is meant: --of {shlex.quote(answer.names[0])}",
        )
    if name not in (None, answer.value_name, answer.expression):
        if (computed := computed_answer(name, [answer])) is not None:
            return computed
        raise QuestionError(
            f"{name!r} is not an aggregate of answer {answer.id}.",
            remedy=f"It is about {answer.value_name}; leave out --of, or name another answer with --answer.",
        )
    return answer


def _weighted(texts: Sequence[str], answer: Answer) -> dict[str, float]:
    weights: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            equals = ""
        if not equals or name in weights:
            raise QuestionError(
                f"--weight takes GROUP=NUMBER, each group once, not {text!r}.",
                remedy=f"Write --weight '{answer.groups.written(0)}=1'.",
            )
        weights[name] = weight
    return weights
