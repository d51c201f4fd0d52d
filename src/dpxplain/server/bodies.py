"""Request bodies and parameters. Strict: unknown keys, NaN and infinity are refused, and never echoed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dpxplain.model.budget import LARGEST_RHO, UNITS_PER_RHO
from dpxplain.privacy.intervals import DEFAULT_METHOD
from dpxplain.server.identity import proper_name

LARGEST_ID = 2**53  # all JSON readers agree on integers up to here
LONGEST_WAIT = 60.0
MOST_PREDICATES = 1_000
_MOST_FAMILY_TEXT = 64_000


def _check_no_nul(text: str) -> str:
    if "\x00" in text:  # databases do not take it
        raise ValueError("must not contain a NUL character")
    return text


def _check_name(text: str) -> str:
    if not proper_name(text):
        raise ValueError("is not a name that somebody may have")
    return text


def _as_integer(value: Any) -> Any:
    """5 for 5.0, which JSON does not tell apart."""
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
Confidence = Annotated[float, Field(gt=0, lt=1)]
ChartWidth = Annotated[int, Field(ge=100, le=4_000), BeforeValidator(_as_integer)]
Scalar = Annotated[str, Field(max_length=10_000), AfterValidator(_check_no_nul)] | bool | int | float | None

Moment = Annotated[
    datetime,
    Field(strict=False, description="With a time zone.", examples=["2030-01-31T12:00:00Z"]),
    BeforeValidator(_check_is_text),
]

DatasetName = Annotated[str, Path(alias="dataset", max_length=200, description="The data set's name.")]
_NUMBER = "A number of the history, as its line has it: 3, or 3@ann for one of ann's."
_ID = {"pattern": r"^[0-9]{1,16}(@.{0,600})?$", "max_length": 620}
BeforeEntry = Annotated[str | None, Query(description="Only lines before the one with this number.", **_ID)]
FindQuery = Annotated[
    str, Query(max_length=200, description="Only lines that contain this text, in any case of letters.")
]
PageSize = Annotated[int, Query(ge=1, le=500, description="At most so many lines.")]
EntryId = Annotated[str, Path(description=_NUMBER, **_ID)]
JobId = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$", description="As told when it began.")]
Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the end.")]
ConfidenceQuery = Annotated[float, Query(gt=0, lt=1, description="Of the intervals shown.")]
PopulationQuery = Annotated[
    bool, Query(description="Also what holds in the population that the rows were drawn from.")
]
_Identity = Annotated[str, AfterValidator(_check_no_nul)]
KeyQuery = Annotated[_Identity | None, Query(max_length=64, description="Identity of the request.")]
KindQuery = Annotated[
    Literal["query", "prepare", "explain", "quality"] | None, Query(description="The latest of a kind.")
]
SubjectQuery = Annotated[_Identity, Query(max_length=64, description="Identity of the query.")]
Form = Annotated[
    Literal["shown", "release"],
    Query(description="The result as a page shows it, or the bare release as a remote client reads it."),
]
AnswerForm = Annotated[
    Literal["shown", "columns"],
    Query(description="Each group with its fields, or a list for each field: smaller for many groups."),
]
AskForm = Annotated[
    Literal["shown", "columns", "release"],
    Query(description="The answer by groups, by columns, or its bare release as a remote client reads it."),
]
ExpectedKey = Annotated[
    str,
    Field(
        max_length=64,
        description="The identity that the client computed; another one at the server is refused uncharged.",
    ),
]
ChartOrder = Literal["given", "high", "low", "name"]
"""The order of a chart's groups: as asked, by their values, or by their names."""
ChartOrderOf = Annotated[
    str | None, Query(max_length=1_000, description="Of several values, by whose a chart is ordered.")
]
ChartQuery = Annotated[
    int | None, Query(ge=100, le=4_000, description="If given, a Vega-Lite chart of this width comes along.")
]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)  # "1" or true is no number


class SignIn(Body):
    token: str = Field(max_length=8_000, description="A token, as made by the curator.")


class Ask(Body):
    sql: Sql = Field(examples=["SELECT sex, COUNT(*) FROM adult GROUP BY sex"])
    rho: Rho
    confidence: Confidence = 0.95
    population: bool = Field(
        default=False,
        description="Also what holds in the population that the rows were drawn from at random.",
    )
    chart_width: ChartWidth | None = None
    expected_key: ExpectedKey | None = None


Prices = Annotated[
    list[Rho], Field(max_length=5, description="Other prices, to be told what each would buy.")
]


class PreviewQuery(Ask):
    prices: Prices = []


class MeasureQuality(Body):
    rho: Rho
    confidence: Confidence = 0.95
    expected_key: ExpectedKey | None = None


class Discover(Body):
    column: Annotated[str, Field(min_length=1, max_length=1_000)]
    rho: Rho
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
        default=False, description="Conjunctions of fewer conditions too: what a story is prepared with."
    )

    @model_validator(mode="after")
    def _check_length(self) -> Family:
        texts = (*(self.attributes or ()), *self.exclude, *(self.predicates or ()))
        if sum(map(len, texts)) > _MOST_FAMILY_TEXT:
            raise ValueError(f"has more than {_MOST_FAMILY_TEXT:,} characters of text")
        return self


class Prepare(Body):
    answer: Id
    of: Text | None = None
    rho: Rho
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
        default=None, description="What it is compared with: 0, for a ratio 1, for a share an even one."
    )
    confidence: Confidence = 0.95
    method: Annotated[str, Field(max_length=50)] = DEFAULT_METHOD
    population: bool = Field(
        default=False,
        description="Also what holds in the population that the rows were drawn from at random.",
    )
    chart_width: ChartWidth | None = None


class Explain(Why):
    k: Annotated[int, Field(ge=1, le=MOST_PREDICATES), BeforeValidator(_as_integer)] = 5
    rho: Rho | None = None
    explain_confidence: Confidence | None = None
    mechanism: Annotated[str, Field(max_length=50)] = "auto"
    split: Annotated[list[float], Field(min_length=3, max_length=3)] | Literal["best"] | None = None
    lower_share: float | None = Field(
        default=None,
        description="Of the ρ for ranks, the part for their lower bounds; null: 0.1, the paper's η.",
    )
    sensitivity: Literal["tight", "paper"] = "tight"
    distinct: bool | None = Field(
        default=None,
        description="Fold conditions that say nearly the same; null: where they have several columns.",
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


class PreviewStory(TellStory):
    rho: Rho | None = None
    prices: Prices = []


class Report(Explain):
    story: bool = Field(
        default=False,
        description="Also the story of the question, which the answer must be prepared for; its conditions "
        "are on the attributes of the family.",
    )
    order: ChartOrder = Field(default="given", description="Of the answer's groups.")


class PreviewExplanation(Explain):
    """With `relative`, `ranks` or `precision` in place of `rho`: at the least price that gives it."""

    prices: Prices = []
    relative: float | None = Field(
        default=None, gt=0, description="Influences within so much of the gap: 0.02 for 2%."
    )
    ranks: Annotated[int, Field(ge=1, le=LARGEST_ID), BeforeValidator(_as_integer)] | None = Field(
        default=None, description="Rank intervals of so many places on average; needs a preparation."
    )
    precision: float | None = Field(
        default=None, gt=0, le=1, description="The share of the k that is right; needs a preparation."
    )

    @model_validator(mode="after")
    def _check_price(self) -> PreviewExplanation:
        if self.wants_precision and self.rho is not None:
            raise ValueError("has rho, or what it must give (relative, ranks, precision), not both")
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
    dataset: str | None = Field(default=None, max_length=200, description="Whose schema; null: a new one's.")


class NewToken(Body):
    name: Name
    role: Literal["analyst", "curator"] = "analyst"
    expires: Moment
