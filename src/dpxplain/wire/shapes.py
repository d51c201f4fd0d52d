"""The shapes of the JSON that programs get. The server's OpenAPI document is generated from them.

They hold only released and public values, except `truth`, which is for the curator.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads the standard one from Python 3.12 on

from dpxplain.model.charge import EntryId
from dpxplain.render.snippets import Code

Scalar = str | int | float | bool | None
Record = dict[str, Scalar]


class Amounts(TypedDict):
    limit: float
    spent: float
    remaining: float


class AmountTexts(TypedDict):
    limit: str
    spent: str
    remaining: str


class BudgetFigures(TypedDict):
    rho: Amounts
    epsilon: Amounts
    epsilon_text: AmountTexts
    delta: float
    discovered_delta: float  # the δ that discoveries have spent, or may have spent, beside delta
    total_delta: float  # both together
    expires: str | None
    shared_remaining: float | None
    gaussian: float  # the part of the spent ρ that paid for Gaussian noise


class BudgetPayload(BudgetFigures):
    kind: Literal["budget"]


class SpendPayload(TypedDict):
    event: str
    of: str
    mechanism: str
    rho: float


class TrueValue(TypedDict):
    """The true value of a group or predicate. `covered`: is it in the released interval? Null if unknown."""

    value: float | None
    text: str
    covered: bool | None
    gap_without_text: str


class TruthPayload(TypedDict):
    """`values` has one for each row."""

    private: Literal[False]
    title: str
    shaped_by: list[str]
    rows: list[Record]
    values: list[TrueValue]


class EstimateTexts(TypedDict):
    """A released value and its interval, rounded as people read them."""

    estimate_text: str
    interval_text: str


class GeneralPayload(TypedDict):
    """What holds in the population that the rows were drawn from; of a question with its verdict."""

    low: float | None
    high: float | None
    interval_text: str
    verdict: NotRequired[str]
    finding: NotRequired[str]


class FindingPayload(TypedDict):
    """The answer first: what every face shows before anything else."""

    headline: str
    support: str
    caveat: str
    notes: list[str]


class GroupPayload(EstimateTexts):
    group: list[Scalar]
    label: str
    labels: list[str]  # one for each column of the group, with the value's declared label
    estimate: float
    low: float | None
    high: float | None
    unknown: bool  # such as the average of a group that may be empty; shown blank, without an interval
    noise_scale: float | None
    in_general: NotRequired[GeneralPayload]


class PartWords(TypedDict):
    """The words for one aggregate."""

    name: str
    title: str  # the question as a sentence
    heading: str  # the value's name: the query's own, or words for what it measures
    expression: str  # the value as SQL; requests may use it as its name
    aggregate: Literal[
        "count",
        "sum",
        "avg",
        "var_samp",
        "var_pop",
        "stddev_samp",
        "stddev_pop",
        "persons",
        "quantile",
        "formula",
    ]
    column: str | None
    rows_counted: str  # of a count limited by max_rows: "rows counted, at most 50 per person"; else ""
    percent: bool  # whether the values are shares, which are written in percent


class AnswerPart(PartWords):
    """One aggregate's values, in the order shown."""

    rows: list[GroupPayload]


class AnswerWords(TypedDict):
    """With one aggregate, "value" names its column; with several, "values" names theirs."""

    kind: Literal["answer", "answers"]
    id: EntryId
    address: EntryId  # its number for links, valid for everybody who may see it
    title: str  # the whole question as a sentence, with its filter
    caption: str  # data, cost, date and confidence, for results that leave the page
    finding: FindingPayload
    sql: str
    rho: float
    free: bool
    private: bool
    confidence: float
    columns: list[str]
    headings: list[str]  # what the columns are called
    ordered: bool  # whether the order means something: by ORDER BY, or by bins or dates
    value: NotRequired[str]
    values: NotRequired[list[str]]
    shaped_by: list[str]  # the declarations that shaped the numbers, as sentences
    notes: list[str]  # what HAVING left out, and what was measured but is not shown
    general_notes: NotRequired[list[str]]  # what `population` assumes, if it was asked for
    spends: list[SpendPayload]
    budget: BudgetFigures
    code: Code
    chart: NotRequired[dict[str, Any]]  # Vega-Lite, at a server that was asked for one
    truth: NotRequired[TruthPayload]


class AnswerPayload(AnswerWords):
    """An answer whose groups are rows, each with its fields."""

    rows: list[Record]
    parts: list[AnswerPart]


class WeightPayload(TypedDict):
    group: str
    weight: float


class QuestionPayload(EstimateTexts):
    kind: Literal["question"]
    answer: EntryId
    of: str
    question: str
    weights: list[WeightPayload]
    compare: str  # difference, ratio or share
    measured: str  # what its number is called: gap, value, ratio or share
    at_least: float
    estimate: float
    interval: tuple[float | None, float | None]
    confidence: float
    method: str
    verdict: str
    title: str  # the question as a heading, in the words of the schema
    finding: FindingPayload
    note: str
    sharpened: str  # the number before a preparation made it more precise; empty where none did
    shaped_by: list[str]
    prepared: bool
    attributes: list[str]  # which may explain it
    no_influence: str  # why it cannot be explained; empty where it can
    in_general: NotRequired[GeneralPayload]  # if `population` was asked for and is possible
    general_notes: NotRequired[list[str]]  # what that assumes, or why it is not possible
    chart: NotRequired[dict[str, Any]]  # Vega-Lite, at a server that was asked for one
    truth: NotRequired[TruthPayload]


class FoldedPayload(TypedDict):
    """A condition that says nearly the same; the share of common rows, where that is known."""

    predicate: str
    label: str
    same_low: float | None
    same_high: float | None


class ExplanationLine(TypedDict):
    """One predicate: as SQL, as people read it, and in a sentence."""

    predicate: str
    influence_low: float | None
    influence_high: float | None
    relative_influence_low: float | None
    relative_influence_high: float | None
    rank_low: int
    rank_high: int
    gap_without_low: float | None
    gap_without_high: float | None
    share_removed: tuple[float, float] | None  # of the gap; null where it is not known
    effect: Literal["shrinks", "widens", "unclear"]  # what leaving the rows out does to the gap
    folded: list[FoldedPayload]
    folded_text: str
    label: str
    unclear: bool
    effect_text: str  # shrinks by 9–11%
    sentence: str
    influence_text: str
    influence_interval_text: str  # of the absolute influence
    gap_without_text: str
    rank_text: str
    drill: str


class ExplanationPayload(TypedDict):
    kind: Literal["explanation"]
    id: EntryId
    title: str  # the question with the filter of its answer
    finding: FindingPayload
    order_note: str  # what it would take to make the order clear; empty if it is clear or not affordable
    caption: str  # data, cost, date and confidence
    question: QuestionPayload
    mechanism: str
    reason: str
    gap: float | None
    gap_interval: tuple[float | None, float | None] | None
    rho: float
    free: bool
    private: bool
    confidence: float
    predicates: int
    relative: bool
    rows: list[ExplanationLine]
    shaped_by: list[str]
    by_influence: bool  # whether rows are sorted by influence, because only that is known
    spends: list[SpendPayload]
    budget: BudgetFigures
    code: Code
    chart: NotRequired[dict[str, Any]]  # Vega-Lite, at a server that was asked for one
    influence_chart: NotRequired[dict[str, Any] | None]  # influence and rank; null where `chart` shows them
    truth: NotRequired[TruthPayload]


class PreparedPayload(TypedDict):
    kind: Literal["prepared"]
    id: EntryId
    answer: EntryId
    of: str
    sql: str
    rho: float
    free: bool
    private: bool
    rows: list[Record]
    shaped_by: list[str]
    spends: list[SpendPayload]
    budget: BudgetFigures


class QualityLine(TypedDict):
    """A share of all rows: outside a column's values, edges or bounds, or clamped to one of the latter."""

    column: str
    misfit: str
    share: float
    low: float
    high: float
    interval_text: str
    rows_low: float
    rows_high: float
    rows_text: str


class UnitsPayload(TypedDict):
    """The share of privacy units with more than max_rows rows, and the rows left out for it."""

    unit: str
    max_rows: int
    low: float
    high: float
    rows_lost_low: float
    rows_lost_high: float | None  # null where nothing bounds it
    misfit: str
    interval_text: str
    rows_text: str


class QualityPayload(TypedDict):
    kind: Literal["quality"]
    id: EntryId
    rho: float
    free: bool
    private: bool
    confidence: float
    rows: list[QualityLine]
    units: UnitsPayload | None  # null where a row is the privacy unit
    notes: list[str]
    spends: list[SpendPayload]
    budget: BudgetFigures


class DiscoveredValuePayload(TypedDict):
    value: str
    units: float  # noisy


class DiscoveryPayload(TypedDict):
    kind: Literal["discovery"]
    id: EntryId
    column: str
    rho: float
    delta: float
    free: bool
    private: bool
    threshold: int  # a value is found if its noisy number of units exceeds this
    values: list[DiscoveredValuePayload]
    spends: list[SpendPayload]
    budget: BudgetFigures


class FormMeasure(TypedDict):
    aggregate: Literal["count", "sum", "avg"]
    column: str | None


class FormFilter(TypedDict):
    """Declared values of a column, by their labels."""

    column: str
    values: list[str]


class QueryForm(TypedDict):
    measures: list[FormMeasure]
    groups: list[str]
    filters: list[FormFilter]


class PreviewPayload(TypedDict):
    """`summary` is the price in a sentence, `expected` the precision; `words` tells the price at length.

    `epsilon` is the price's own ε at the declared δ, however `rho` was chosen.
    `shaped_by` are the declarations that will shape the numbers, with what is inferred of expressions.
    """

    kind: Literal["preview"]
    rho: float
    epsilon: float
    free: bool
    affordable: bool
    remaining: float
    remaining_after: float
    spends: list[SpendPayload]
    confidence: float
    rows: list[Record]
    words: list[str]
    summary: str
    expected: list[str]
    shaped_by: list[str]
    form: NotRequired[QueryForm | None]  # of a query, at a server; null where a form cannot ask it


class HistoryLine(TypedDict):
    id: EntryId
    address: EntryId
    time: str
    analyst: str
    kind: str
    state: str
    stopped: bool  # whether somebody asked to stop it once it was charged
    kept: bool  # whether it ended without a release, and asking the same again costs nothing more
    description: str
    rho: float
    total_rho: float
    spends: list[SpendPayload]
    request: dict[str, Any] | None
    weights: list[WeightPayload]  # the groups that the request compares, by their labels
    key: str
    version: str | None  # of the data, as the curator named it; null for notices and lost records


class HistoryPayload(TypedDict):
    kind: Literal["history"]
    entries: list[HistoryLine]  # oldest first
    older: EntryId | None  # the value of `before` for the preceding page; null if there is none
