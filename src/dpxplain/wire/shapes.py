"""The shapes of the JSON that programs get, from which the server's OpenAPI document is generated.

All values are released or public, except `truth`, which is for the curator. Payloads that need no results are
built here too, so that they print at once: budget, history, discovered values and the form of a query.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads the standard one from Python 3.12 on

from dpxplain.model.charge import Budget, Entry, EntryId, HistoryPage, Spend
from dpxplain.model.column import Bin, DiscoveredValue, comparable, label
from dpxplain.model.display import PUBLIC, Finding, public
from dpxplain.model.query import And, Comparison, Filter, IsNull, Membership, Or, Statement, filter_columns
from dpxplain.model.schema import Schema
from dpxplain.privacy.accounting import epsilons
from dpxplain.render.snippets import Code
from dpxplain.words import numbers, prices

if TYPE_CHECKING:
    from dpxplain.results.quality import Discovery

# -- Budget ------------------------------------------------------------------------------------------------

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
    explained: str  # what ε means here, and what discoveries have added to δ, in sentences


class BudgetPayload(BudgetFigures):
    kind: Literal["budget"]


def budget_payload(budget: Budget) -> BudgetPayload:
    return BudgetPayload(kind="budget", **budget_figures(budget))


def budget_figures(budget: Budget) -> BudgetFigures:
    """Limit, spent and remaining, in ρ and in ε."""
    epsilon = epsilons(budget)
    return BudgetFigures(
        rho=Amounts(limit=budget.limit, spent=budget.spent, remaining=budget.remaining),
        epsilon=Amounts(limit=epsilon.limit, spent=epsilon.spent, remaining=epsilon.remaining),
        epsilon_text=AmountTexts(
            limit=numbers.at_most(epsilon.limit),
            spent=numbers.at_most(epsilon.spent),
            remaining=numbers.at_most(epsilon.remaining),
        ),
        delta=budget.delta,
        discovered_delta=budget.discovered_delta,
        total_delta=budget.total_delta,
        gaussian=budget.gaussian,
        expires=None if budget.expires is None else budget.expires.isoformat(),
        shared_remaining=budget.shared_remaining,
        explained=" ".join(prices.budget_notes(budget.discovered_delta, budget.total_delta)),
    )


# -- True values -------------------------------------------------------------------------------------------


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


# -- Answers -----------------------------------------------------------------------------------------------


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
    finding: Finding
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
    spends: tuple[Spend, ...]
    budget: BudgetFigures
    code: Code
    chart: NotRequired[dict[str, Any]]  # Vega-Lite, at a server that was asked for one
    truth: NotRequired[TruthPayload]


class AnswerPayload(AnswerWords):
    """An answer whose groups are rows, each with its fields."""

    rows: list[Record]
    parts: list[AnswerPart]


# -- Questions and explanations ----------------------------------------------------------------------------


class WeightPayload(TypedDict):
    group: str
    weight: float


def request_weights(request: Mapping[str, Any] | None) -> list[WeightPayload]:
    """The groups that a stored request compares, labelled as its answer labels them."""
    weights = (request or {}).get("weights", ())
    if not weights:
        return []
    from dpxplain.model.groups import group_label  # brings in NumPy

    return [
        WeightPayload(
            group=group_label(group) if isinstance(group := term["group"], list) else group,
            weight=term["weight"],
        )
        for term in weights
    ]


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
    finding: Finding
    note: str
    sharpened: str  # the number before a preparation made it more precise; empty where none did
    releases: list[EntryId]  # what it was read off besides the answer; the same as `from` reads it again
    sharper: bool  # whether `from` left out something more precise
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


class AdvicePayload(TypedDict):
    """What to change if nothing is clear; at most one is given."""

    exclude: str | None  # a column to leave out
    conjuncts: int | None  # how many columns a condition should combine
    rho: float | None  # what to spend


class ExplanationPayload(TypedDict):
    kind: Literal["explanation"]
    id: EntryId
    title: str  # the question with the filter of its answer
    finding: Finding
    order_note: str  # what it would take to make the order clear; empty if it is clear or not affordable
    advice: AdvicePayload | None  # null if a condition is clear
    releases: list[EntryId]  # what it was read off besides the answer; the same as `from` reads it again
    sharper: bool  # whether `from` left out something more precise
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
    spends: tuple[Spend, ...]
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
    spends: tuple[Spend, ...]
    budget: BudgetFigures


# -- Data quality and discovery ----------------------------------------------------------------------------


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
    spends: tuple[Spend, ...]
    budget: BudgetFigures


class DiscoveryPayload(TypedDict):
    kind: Literal["discovery"]
    id: EntryId
    column: str
    rho: float
    delta: float
    free: bool
    private: bool
    threshold: int  # a value is found if its noisy number of units exceeds this
    values: tuple[DiscoveredValue, ...]
    spends: tuple[Spend, ...]
    budget: BudgetFigures


def discovery_payload(discovery: Discovery, budget: Budget) -> DiscoveryPayload:
    return DiscoveryPayload(
        kind="discovery",
        id=discovery.id,
        column=discovery.column,
        rho=discovery.rho,
        delta=discovery.delta,
        free=discovery.free,
        private=discovery.private,
        threshold=discovery.threshold,
        values=discovery.rows,
        spends=discovery.spends,
        budget=budget_figures(budget),
    )


# -- History -----------------------------------------------------------------------------------------------


@public(
    "HistoryLine",
    "id address time analyst kind state stopped kept description rho total_rho spends request weights key "
    "version",
)
@dataclass(frozen=True, kw_only=True)
class HistoryLine(Entry):
    """An entry as a history shows it."""

    stopped: bool = False
    """Whether somebody asked to stop it once it was charged."""
    kept: bool = False
    """Whether it ended without a release, and asking the same again costs nothing more."""

    @property
    def weights(self) -> list[WeightPayload]:
        """The groups that the request compares, by their labels."""
        return request_weights(self.request)


class HistoryPayload(TypedDict):
    kind: Literal["history"]
    entries: list[HistoryLine]  # oldest first
    older: EntryId | None  # the value of `before` for the preceding page; null if there is none


def history_payload(
    page: HistoryPage, stopped: Collection[int] = (), kept: Collection[int] = ()
) -> HistoryPayload:
    """A page of entries with their running totals, oldest first.

    `stopped` and `kept` are ledger rows: somebody asked to stop the former; the identical request takes over
    the charges of the latter.
    """
    lines = [
        history_line(
            entry,
            stopped=entry.row in stopped,
            kept=entry.row in kept and entry.state == "reserved",
        )
        for entry in page.entries
    ]
    return HistoryPayload(kind="history", entries=lines, older=page.older)


def history_line(entry: Entry, **marks: bool) -> HistoryLine:
    """The entry as a line; `marks` are `stopped` and `kept`."""
    return HistoryLine(**vars(entry) | {"total_rho": entry.total_rho or entry.rho} | marks)


_SENT_FIELDS = [
    field.name
    for field in fields(Entry)
    if field.name in PUBLIC[HistoryLine] and field.name not in ("time", "spends")
]


def read_entry(line: Mapping[str, Any]) -> Entry:
    """The entry in a line that a server sent."""
    spends = tuple(Spend(spend["event"], spend["rho"], spend["of"]) for spend in line["spends"])
    read = {"time": datetime.fromisoformat(line["time"]), "spends": spends}
    return Entry(**{name: line[name] for name in _SENT_FIELDS} | read)


# -- Query form --------------------------------------------------------------------------------------------
#
# A parsed query as the fields of a form: measures, groups, and declared values per filtered column.


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


def query_form(statement: Statement, schema: Schema) -> QueryForm | None:
    """The form of the same query; None if a form cannot express it, as with ORDER BY or expressions."""
    query, presentation = statement.query, statement.presentation
    aggregates = [query.aggregate for query in statement.queries]
    plain = [*query.group_by, *map(str, aggregates)]
    columns = {*query.group_by, *(a.column for a in aggregates if a.column), *filter_columns(query.where)}
    if not columns <= schema.columns.keys():
        return None
    filters = _filters(query.where, schema)
    if (
        statement.is_computed
        or not all(aggregate.has_influence for aggregate in aggregates)
        or any(output.digits is not None for output in presentation.values)
        or presentation.order
        or presentation.limit is not None
        or [o.name for o in presentation.outputs] != plain
        or filters is None
    ):
        return None
    return QueryForm(
        measures=[FormMeasure(aggregate=a.explained, column=a.column) for a in aggregates],
        groups=list(query.group_by),
        filters=filters,
    )


def _filters(where: Filter | None, schema: Schema) -> list[FormFilter] | None:
    """One filter per column, in the order written; None if a condition is not a choice of declared values."""
    parts: dict[str, list[Filter]] = {}
    for part in () if where is None else where.parts if isinstance(where, And) else (where,):
        column = _column(part)
        if column is None:
            return None
        parts.setdefault(column, []).append(part)
    filters = []
    for column, conditions in parts.items():
        labels = _labels(column, conditions, schema)
        if not labels:
            return None
        filters.append(FormFilter(column=column, values=labels))
    return filters


def _column(part: Filter) -> str | None:
    """The column that a condition is about; None if there is not exactly one."""
    match part:
        case Comparison() | Membership() | IsNull():
            return part.column
        case Or(parts):
            columns = {_column(alternative) for alternative in parts}
            return columns.pop() if len(columns) == 1 else None
    return None


def _labels(column: str, conditions: list[Filter], schema: Schema) -> list[str]:
    """The declared values that the conditions choose, in declared order; empty if they do not list any."""
    domain, is_binned = schema.columns[column].domain or (), schema.columns[column].edges is not None
    match conditions:
        case [Comparison(_, ">", low), Comparison(_, "<=", high)]:
            bins = [value for value in domain if isinstance(value, Bin)]
            ends = comparable(low), comparable(high)
            inside = [b for b in bins if ends[0] <= comparable(b.low) and comparable(b.high) <= ends[1]]
            is_whole = bool(inside) and (inside[0].low, inside[-1].high) == (low, high)
            return [label(b) for b in inside] if is_whole else []
        case [Comparison() | Membership() | IsNull() as condition]:
            values = _values((condition,))
        case [Or(parts)]:
            values = _values(parts)
        case _:
            return []
    if values is None or is_binned or any(value not in domain for value in values):
        return []
    return [label(value) for value in domain if value in values]


def _values(alternatives: Iterable[Filter]) -> list[object] | None:
    values: list[object] = []
    for part in alternatives:
        match part:
            case Comparison(_, "=", value):
                values.append(value)
            case Membership(_, members):
                values.extend(members)
            case IsNull():
                values.append(None)
            case _:
                return None
    return values


# -- Previews ----------------------------------------------------------------------------------------------


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
    spends: tuple[Spend, ...]
    confidence: float
    rows: list[Record]
    words: list[str]
    summary: str
    expected: list[str]
    shaped_by: list[str]
    form: NotRequired[QueryForm | None]  # of a query, at a server; null where a form cannot ask it
