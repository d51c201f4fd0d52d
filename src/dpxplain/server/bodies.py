"""Request bodies and parameters. Strict: unknown keys, NaN and infinity are refused, and never echoed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dpxplain.model.budget import LARGEST_RHO, UNITS_PER_RHO
from dpxplain.privacy.intervals import DEFAULT_METHOD
from dpxplain.server.identity import proper_name

LARGEST_ID = 2**53  # all JSON readers agree on integers up to this one
LONGEST_WAIT = 60.0
MOST_PREDICATES = 1_000
_MOST_FAMILY_TEXT = 64_000


def _check_no_nul(text: str) -> str:
    if "\x00" in text:  # databases do not accept it
        raise ValueError("must not contain a NUL character")
    return text


def _check_name(text: str) -> str:
    if not proper_name(text):
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
_NUMBER = "The number of a line in the history: 3, or 3@ann for a line of ann's history."
_ID = {"pattern": r"^[0-9]{1,16}(@.{0,600})?$", "max_length": 620}
BeforeEntry = Annotated[str | None, Query(description="Only lines before the one with this number.", **_ID)]
FindQuery = Annotated[
    str,
    Query(
        max_length=200,
        description="Only lines that contain this text. Upper and lower case do not matter.",
    ),
]
PageSize = Annotated[int, Query(ge=1, le=500, description="The largest number of lines to return.")]
EntryId = Annotated[str, Path(description=_NUMBER, **_ID)]
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
