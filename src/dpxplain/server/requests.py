"""Request bodies and parameters, and their translation into calls of a `Session`, whose results become
payloads. Strict: unknown keys, NaN and infinity are refused, and never echoed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dpxplain.errors import QuestionError
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import LARGEST_RHO, UNITS_PER_RHO, EntryId
from dpxplain.model.schema import Schema
from dpxplain.phases.explain import PrecisionGoal
from dpxplain.phases.plan import ExplanationOptions
from dpxplain.privacy.intervals import DEFAULT_METHOD
from dpxplain.privacy.mechanisms.ranking import DEFAULT_SPLIT, LOWER_SHARE
from dpxplain.render.charts import answer_chart, answers_chart, chart, influence_chart
from dpxplain.render.snippets import CodePlace
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers, computed_answer
from dpxplain.results.explanation import Explanation, PlannedExplanation, PlannedStory, Story
from dpxplain.results.preview import PlannedPreparation, Prepared
from dpxplain.results.quality import Discovery, Quality
from dpxplain.results.question import Question
from dpxplain.results.released_answer import AnswerRow
from dpxplain.server.authenticate import is_account_name
from dpxplain.server.limits import check_formula, check_question
from dpxplain.server.problems import Problem, not_found
from dpxplain.session import Session
from dpxplain.wire.payloads import (
    answer_columns,
    answer_payload,
    explanation_payload,
    question_payload,
    story_payload,
)
from dpxplain.wire.shapes import history_line

# -- Bodies and parameters ---------------------------------------------------------------------------------

LARGEST_ID = 2**53  # all JSON readers agree on integers up to this one
LONGEST_WAIT = 60.0
MOST_PREDICATES = 1_000
_MOST_FAMILY_TEXT = 64_000


def _check_no_nul(text: str) -> str:
    if "\x00" in text:  # databases do not accept it
        raise ValueError("must not contain a NUL character")
    return text


def _check_name(text: str) -> str:
    if not is_account_name(text):
        raise ValueError("cannot be used as a person's name")
    return text


def _as_integer(value: Any) -> Any:
    """The value, with 5 for 5.0: JSON does not distinguish them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_is_text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("must be a date and time as text, such as 2030-01-31T12:00:00Z")
    return value


Text = Annotated[str, Field(max_length=10_000), AfterValidator(_check_no_nul)]
Sql = Annotated[str, Field(min_length=1, max_length=100_000), AfterValidator(_check_no_nul)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_name)]
Reason = Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(_check_no_nul)]
_SHARED_ID = r"^[0-9]{1,16}@.{0,600}$"
Id = (
    Annotated[int, Field(ge=1, le=LARGEST_ID), BeforeValidator(_as_integer)]
    | Annotated[str, Field(pattern=_SHARED_ID, max_length=620, examples=["3@ann"])]
)
Rho = Annotated[
    float,
    Field(
        ge=1 / UNITS_PER_RHO,
        le=LARGEST_RHO,
        description="Privacy budget in zCDP, the price of the request.",
        examples=[0.1],
    ),
]
Epsilon = Annotated[
    float,
    Field(
        gt=0,
        description="The price as ε instead of rho. The server converts it to ρ at the declared δ.",
        examples=[0.5],
    ),
]
Confidence = Annotated[float, Field(gt=0, lt=1)]
ChartWidth = Annotated[int, Field(ge=100, le=4_000), BeforeValidator(_as_integer)]
Scalar = Annotated[str, Field(max_length=10_000), AfterValidator(_check_no_nul)] | bool | int | float | None

Moment = Annotated[
    datetime,
    Field(strict=False, description="With a time zone.", examples=["2030-01-31T12:00:00Z"]),
    BeforeValidator(_check_is_text),
]

DatasetName = Annotated[str, Path(alias="dataset", max_length=200, description="The data set's name.")]
_NUMBER_MEANING = "The number of a line in the history: 3, or 3@ann for a line of ann's history."
_ID_FORM = {"pattern": r"^[0-9]{1,16}(@.{0,600})?$", "max_length": 620}
BeforeEntry = Annotated[
    str | None, Query(description="Only lines before the one with this number.", **_ID_FORM)
]
FindQuery = Annotated[
    str,
    Query(
        max_length=200,
        description="Only lines that contain this text. Upper and lower case do not matter.",
    ),
]
PageSize = Annotated[int, Query(ge=1, le=500, description="The largest number of lines to return.")]
EntryNumber = Annotated[str, Path(description=_NUMBER_MEANING, **_ID_FORM)]
JobId = Annotated[
    str,
    Path(
        max_length=64,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="The job's id, as returned when the job began.",
    ),
]
Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the end.")]
ConfidenceQuery = Annotated[float, Query(gt=0, lt=1, description="The confidence of the intervals shown.")]
PopulationQuery = Annotated[
    bool, Query(description="Also show intervals for the population that the rows were drawn from.")
]
_Identity = Annotated[str, AfterValidator(_check_no_nul)]
KeyQuery = Annotated[_Identity | None, Query(max_length=64, description="Identity of the request.")]
KindQuery = Annotated[
    Literal["query", "prepare", "explain", "quality"] | None, Query(description="The latest of a kind.")
]
SubjectQuery = Annotated[_Identity, Query(max_length=64, description="Identity of the query.")]
Form = Annotated[
    Literal["shown", "release"],
    Query(
        description="The form of the result: as the page shows it, or the stored result alone, for a remote "
        "client."
    ),
]
AnswerForm = Annotated[
    Literal["shown", "columns"],
    Query(
        description="The form of the answer: one object per group, or one list per field. Lists are smaller "
        "if there are many groups."
    ),
]
AskForm = Annotated[
    Literal["shown", "columns", "release"],
    Query(
        description="The form of the answer: one object per group, one list per field, or the stored result "
        "alone, for a remote client."
    ),
]
ExpectedKey = Annotated[
    str,
    Field(
        max_length=64,
        description="The request's identity, as the client computed it. If the server computes a different "
        "one, it refuses the request and charges nothing.",
    ),
]
ChartOrder = Literal["given", "high", "low", "name"]
"""The order of a chart's groups: as asked, by their values, or by their names."""
ChartOrderOf = Annotated[
    str | None,
    Query(max_length=1_000, description="If the answer has several values: the one to sort by."),
]
ChartQuery = Annotated[
    int | None,
    Query(ge=100, le=4_000, description="If given, the response includes a Vega-Lite chart of this width."),
]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)  # "1" or true is not a number


class SignIn(Body):
    token: str = Field(max_length=8_000, description="A token, as made by the curator.")


class Spending(Body):
    """A request whose price is given as rho or as epsilon."""

    rho: Rho | None = None
    epsilon: Epsilon | None = None

    @model_validator(mode="after")
    def _check_one_price(self) -> Self:
        if self.rho is not None and self.epsilon is not None:
            raise ValueError("must have either rho or epsilon, not both")
        return self


class Ask(Spending):
    """Without rho and epsilon the price is the schema's default_rho, if that is declared."""

    sql: Sql = Field(examples=["SELECT sex, COUNT(*) FROM adult GROUP BY sex"])
    confidence: Confidence = 0.95
    population: bool = Field(
        default=False,
        description="Also what holds in the population that the rows were drawn from at random.",
    )
    chart_width: ChartWidth | None = None
    expected_key: ExpectedKey | None = None


Prices = Annotated[
    list[Rho], Field(max_length=5, description="Other prices. The response shows the precision of each.")
]


class PreviewQuery(Ask):
    prices: Prices = []


class MeasureQuality(Spending):
    confidence: Confidence = 0.95
    expected_key: ExpectedKey | None = None


class Discover(Spending):
    column: Annotated[str, Field(min_length=1, max_length=1_000)]
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    expected_key: ExpectedKey | None = None


class Weight(Body):
    group: Annotated[list[Scalar], Field(max_length=100)] | Text = Field(
        description="The group's values, one per column, or its label.", examples=[["Male"]]
    )
    weight: float = Field(examples=[1.0])


class Family(Body):
    """Which predicates are looked at; by default equalities on every declared attribute."""

    attributes: list[Text] | None = Field(default=None, max_length=1_000)
    conjuncts: Annotated[int, Field(ge=1, le=100), BeforeValidator(_as_integer)] | None = None
    exclude: list[Text] = Field(default=[], max_length=1_000)
    predicates: list[Text] | None = Field(default=None, max_length=1_000)
    nested: bool = Field(
        default=False, description="Also include combinations of fewer conditions. Stories need this."
    )

    @model_validator(mode="after")
    def _check_length(self) -> Family:
        texts = (*(self.attributes or ()), *self.exclude, *(self.predicates or ()))
        if sum(map(len, texts)) > _MOST_FAMILY_TEXT:
            raise ValueError(f"has more than {_MOST_FAMILY_TEXT:,} characters of text")
        return self


class Prepare(Spending):
    answer: Id
    of: Text | None = None
    family: Family = Family()
    expected_key: ExpectedKey | None = None


class Why(Body):
    answer: Id
    of: Text | None = None
    weights: list[Weight] = Field(
        min_length=1,
        max_length=10_000,
        examples=[[{"group": ["Male"], "weight": 1}, {"group": ["Female"], "weight": -1}]],
    )
    compare: Literal["difference", "ratio", "share"] = Field(
        default="difference",
        description="A weighted sum; the first group divided by the second (weights 1 and -1); or the share "
        "that one group (weight 1) has in the total of all groups.",
    )
    at_least: float | None = Field(
        default=None,
        description="The number to compare with. Default: 0; for a ratio, 1; for a share, an even share.",
    )
    confidence: Confidence = 0.95
    method: Annotated[str, Field(max_length=50)] = DEFAULT_METHOD
    population: bool = Field(
        default=False,
        description="Also what holds in the population that the rows were drawn from at random.",
    )
    read_from: list[Id] | None = Field(
        default=None,
        alias="from",
        max_length=20,
        description="The numbers of the stored releases to read besides the answer, as `releases` of an "
        "earlier response lists them. null reads the sharpest.",
    )
    chart_width: ChartWidth | None = None


class Explain(Spending, Why):
    k: Annotated[int, Field(ge=1, le=MOST_PREDICATES), BeforeValidator(_as_integer)] = 5
    explain_confidence: Confidence | None = None
    mechanism: Annotated[str, Field(max_length=50)] = "auto"
    split: Annotated[list[float], Field(min_length=3, max_length=3)] | Literal["best"] | None = None
    lower_share: float | None = Field(
        default=None,
        description="The part of the rank budget that goes to lower bounds (η in the paper). null means 0.1.",
    )
    sensitivity: Literal["tight", "paper"] = "tight"
    distinct: bool | None = Field(
        default=None,
        description="Merge nearly identical conditions. null means only if conditions use several columns.",
    )
    family: Family = Family()
    expected_key: ExpectedKey | None = None


class TellStory(Why):
    """Free, once the answer is prepared with nested conjunctions: `prepare` with
    `"family": {"conjuncts": 2, "nested": true}`."""

    levels: Annotated[int, Field(ge=1, le=3), BeforeValidator(_as_integer)] | None = None
    story_confidence: Confidence | None = None
    attributes: list[Text] | None = Field(default=None, max_length=1_000)
    exclude: list[Text] = Field(default=[], max_length=1_000)


class PreviewStory(Spending, TellStory):
    prices: Prices = []


class Report(Explain):
    story: bool = Field(
        default=False,
        description="Also return the story of the question. The answer must be prepared for stories. The "
        "story's conditions use the attributes of the family.",
    )
    order: ChartOrder = Field(default="given", description="The order of the answer's groups in the chart.")


class PreviewExplanation(Explain):
    """With `relative`, `ranks` or `precision` in place of a price: at the least price that gives it."""

    prices: Prices = []
    relative: float | None = Field(
        default=None, gt=0, description="The accuracy of the effects, as a share of the gap: 0.02 is 2%."
    )
    ranks: Annotated[int, Field(ge=1, le=LARGEST_ID), BeforeValidator(_as_integer)] | None = Field(
        default=None,
        description="The average width of the rank intervals, in places. Needs a prepared answer.",
    )
    precision: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="The share of the k conditions shown that should be among the true top k. Needs a "
        "prepared answer.",
    )

    @model_validator(mode="after")
    def _check_price(self) -> PreviewExplanation:
        if self.wants_precision and (self.rho, self.epsilon) != (None, None):
            raise ValueError(
                "must have either a price or a wanted precision (relative, ranks, precision), not both"
            )
        return self

    @property
    def wants_precision(self) -> bool:
        return (self.relative, self.ranks, self.precision) != (None, None, None)


class WhyTruth(Why):
    family: Family = Family()


class Grant(Body):
    rho: float = Field(ge=0, le=LARGEST_RHO, description="What the analyst may spend in all.", examples=[1.0])
    expires: Moment | None = None
    reason: Reason


class Forgive(Body):
    reason: Reason


class TopUp(Body):
    rho: Rho
    reason: Reason
    analyst: Name | None = None


class AskForBudget(Body):
    rho: Rho
    reason: Reason


class ShareBody(Body):
    owner: Name
    reader: Name | Literal["*"]
    reason: Reason


class SchemaBody(Body):
    toml: str = Field(max_length=500_000, examples=['[table]\nname = "visits"\nsource = "visits.csv"'])


class ReviewBody(SchemaBody):
    dataset: str | None = Field(
        default=None,
        max_length=200,
        description="The data set whose schema this is. null means a new data set.",
    )


class NewToken(Body):
    name: Name
    role: Literal["analyst", "curator"] = "analyst"
    expires: Moment


# -- Calls and payloads ------------------------------------------------------------------------------------

Payload = dict[str, Any]
_MOST_DRAWN = 1_000  # groups in a chart that can be exported: as many as an image can hold
_SORT_KEYS: dict[ChartOrder, Callable[[AnswerRow], Any]] = {
    "high": lambda row: -row.estimate,
    "low": lambda row: row.estimate,
    "name": lambda row: _name_order(row.label),
}


def _name_order(label: str) -> list[tuple[int, int, str]]:
    """The sort key of a name, as on the page: numbers in it sort by value, and case is ignored.

    >>> sorted(["zone 10", "Zone 9", "area"], key=_name_order)
    ['area', 'Zone 9', 'zone 10']
    """
    parts = re.split(r"([0-9]+)", label.casefold())
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]


def stored_answer(
    session: Session, number: EntryId, confidence: float, population: bool = False
) -> Answer | Answers:
    """The stored answer with this number. Returns 404 for another caller's answer."""
    answer = session.find_answer(number, confidence=confidence, population=population)
    if answer is None:
        raise not_found("answer")
    return answer


def stored_part(session: Session, number: EntryId, of: str | None, confidence: float = 0.95) -> Answer:
    """The stored answer with this number; if it has several aggregates, the one named `of`."""
    answer = stored_answer(session, number, confidence)
    if of is not None:
        check_formula(of, answer.groups.size)
    if isinstance(answer, Answers):
        if of is None and len(answer.answers) > 1:
            raise QuestionError(
                "This answer has several aggregates.", remedy=f"Name one of them: {list(answer.names)}."
            )
        return answer[answer.names[0] if of is None else of]
    if of not in (None, answer.value_name, answer.expression):
        if (computed := computed_answer(of, [answer])) is not None:
            return computed
        raise QuestionError(
            f"{of!r} is not an aggregate of this answer.",
            remedy=f"This answer is about {answer.value_name!r}.",
        )
    return answer


def question_of(session: Session, why: Why) -> Question:
    """The question in a body, about the stored answer that the body names."""
    check_question(len(why.weights), why.method)
    answer = stored_part(session, why.answer, why.of, why.confidence)
    weights: dict[object, float] = {}
    for part in why.weights:
        group = tuple(part.group) if isinstance(part.group, list) else part.group
        if group in weights:
            raise QuestionError("You named a group twice.", remedy="Give each group one weight.")
        weights[group] = part.weight
    options: Any = {
        "confidence": why.confidence,
        "method": why.method,
        "population": why.population,
        "read_from": why.read_from,
    }
    if why.compare == "difference":
        return answer.why(weights, at_least=why.at_least or 0.0, **options)
    expected = [1.0] if why.compare == "share" else [1.0, -1.0]
    if list(weights.values()) != expected:
        raise QuestionError(
            f"A {why.compare} needs {len(expected)} {'group' if len(expected) == 1 else 'groups'}, with "
            f"weight {' and '.join(f'{weight:g}' for weight in expected)}.",
            remedy="Give weight 1 to one group."
            if why.compare == "share"
            else "Give weight 1 to the first group, and -1 to the second.",
        )
    return answer.why_ratio(*weights, at_least=why.at_least, **options)


def family_choice(family: Family, schema: Schema) -> FamilyChoice:
    return FamilyChoice.from_request(family.model_dump(), schema)


def plan_preparation(session: Session, body: Prepare) -> PlannedPreparation:
    answer = stored_part(session, body.answer, body.of)
    return answer.plan_prepare(body.rho, family_choice(body.family, answer.schema), body.epsilon)


def plan_explanation(session: Session, body: Explain) -> PlannedExplanation:
    """The plan of an explanation, at its price or at the lowest price that gives the wanted precision."""
    question = question_of(session, body)
    choice = family_choice(body.family, question.answer.schema)
    if isinstance(body, PreviewExplanation) and body.wants_precision:
        asked = ExplanationOptions(
            choice, body.k, mechanism=body.mechanism, confidence=body.explain_confidence
        )
        return question.plan_for(PrecisionGoal(body.relative, body.ranks, body.precision), asked)
    split: Any = body.split
    if not isinstance(split, str):
        split = DEFAULT_SPLIT if split is None else tuple(split)
    options = ExplanationOptions(
        choice,
        body.k,
        body.rho,
        body.mechanism,
        body.explain_confidence,
        split,
        body.sensitivity,
        body.distinct,
        LOWER_SHARE if body.lower_share is None else body.lower_share,
        body.epsilon,
    )
    return question.plan_explain(options)


def stored_explanation(session: Session, body: Explain) -> Explanation:
    """The explanation, if it spends nothing. Raises if it would have to be measured."""
    planned = plan_explanation(session, body)
    price = planned.preview().price
    if not price.free and price.rho > 0:
        raise Problem(
            409, "not_stored", "This explanation has not been computed yet.", "Request it with explain first."
        )
    return planned.run()


def plan_story(session: Session, body: TellStory) -> PlannedStory:
    """The plan of a story. Without a price, the story comes from a preparation, or is refused."""
    choice = FamilyChoice(body.attributes, None, body.exclude)
    rho, epsilon = (body.rho, body.epsilon) if isinstance(body, PreviewStory) else (None, None)
    return question_of(session, body).plan_story(choice, rho, body.levels, body.story_confidence, epsilon)


def stored_report(session: Session, body: Report) -> str:
    """The report of an explanation that spends nothing, as HTML; with the story if requested."""
    from dpxplain.render.report import report

    table, story = stored_explanation(session, body), None
    if body.story:
        choice = FamilyChoice(body.family.attributes, None, body.family.exclude)
        story = question_of(session, body).plan_story(choice, confidence=body.explain_confidence).run()
    return report(table, story, _SORT_KEYS.get(body.order))


def show_story(session: Session, story: Story, chart_width: int | None) -> Payload:
    return _with_chart(story_payload(story, session.budget), story, chart_width)


def show_release(result: Answer | Answers | Explanation | Prepared | Quality | Discovery) -> Payload:
    """What a remote client needs: the release itself, from which the client makes the same result."""
    entry = result.released.entry if isinstance(result, Prepared) else result.entry
    return {"entry": history_line(entry), "free": result.free, "release": result.release.to_json()}


def show_answer(
    session: Session,
    answer: Answer | Answers,
    place: CodePlace,
    chart_width: int | None,
    order: ChartOrder = "given",
    form: str = "shown",
    order_of: str | None = None,
) -> Payload:
    """The payload, with code for the same query at `place`; `order_of` is the value that orders a chart."""
    if form == "columns":
        payload: Payload = {**answer_columns(answer, session.budget, place)}
    else:
        payload = {**answer_payload(answer, session.budget, place=place)}
    if chart_width is None:
        return payload
    if isinstance(answer, Answer):
        rows = _ordered_rows(answer, order)
        payload["chart"] = answer_chart(answer, rows=rows, width=chart_width, most=_MOST_DRAWN)
    else:
        part = answer[order_of if order_of in answer.names else answer.names[0]]
        groups = [row.group for row in _ordered_rows(part, order)]
        payload["chart"] = answers_chart(answer, groups=groups, width=chart_width, most=_MOST_DRAWN)
    return payload


def _ordered_rows(answer: Answer, order: ChartOrder) -> Sequence[AnswerRow]:
    return answer.rows if order == "given" else sorted(answer.rows, key=_SORT_KEYS[order])


def show_question(question: Question, chart_width: int | None) -> Payload:
    return _with_chart(question_payload(question), question, chart_width)


def show_explanation(
    session: Session, table: Explanation, place: CodePlace, chart_width: int | None
) -> Payload:
    payload = _with_chart(explanation_payload(table, session.budget, place=place), table, chart_width)
    if chart_width is not None:
        ranked = None if table.by_influence else table.sorted_by_influence()
        payload["influence_chart"] = None if ranked is None else influence_chart(ranked, width=chart_width)
    return payload


def _with_chart(payload: Mapping[str, Any], result: object, width: int | None) -> Payload:
    """The payload, with a chart if its width is given."""
    return {**payload} if width is None else {**payload, "chart": chart(result, width=width)}
