"""Response bodies beside the shared payloads, and the functions that fill those about precision and about
data sets. The OpenAPI document is made from these types.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from starlette.responses import JSONResponse
from typing_extensions import TypedDict

from dpxplain.engines.opening import engine_name
from dpxplain.errors import QueryRefused
from dpxplain.ledger.ledger import BudgetAnswer, BudgetRequest, DayOfUse
from dpxplain.ledger.protocol import Allowance, AuditRecord, Job, Share, Token
from dpxplain.model.charge import LARGEST_RHO, Budget, Ending, Entry, EntryId
from dpxplain.model.column import Bin, Column, DomainValue, label
from dpxplain.model.display import as_json, public
from dpxplain.model.expression import sql_literal, sql_name
from dpxplain.model.schema import Schema
from dpxplain.phases.explain_marginals import TYPICAL_ROWS
from dpxplain.privacy.accounting import epsilon
from dpxplain.results.answers import PlannedQuery, PriceLevel, in_unit, typical_margin
from dpxplain.results.explanation import PlannedExplanation, PlannedStory, StoryPreview
from dpxplain.results.preview import ExplanationPreview, QueriesPreview, QueryPreview
from dpxplain.results.schema_check import SchemaFit, SchemaWarning
from dpxplain.sql.parse import parse
from dpxplain.wire.shapes import (
    BudgetFigures,
    BudgetPayload,
    ExplanationPayload,
    HistoryLine,
    PreparedPayload,
    PreviewPayload,
    QualityPayload,
    QueryForm,
    WeightPayload,
    budget_figures,
    query_form,
    request_weights,
)
from dpxplain.words import numbers
from dpxplain.words.numbers import number

# -- Precision before spending -----------------------------------------------------------------------------
#
# The margin that each price buys, in the answer's own unit; how well that price protects; and whether its
# noise would hide the difference in question. Everything is computed from declarations and releases.

LIKELY_SHARE = 0.1  # of a declared range: averages of groups often differ by this much
ENOUGH = 0.5  # of the gap: the largest error at a recommended price
_MOST_PRICES_TRIED = 12  # prices tried to find one that suffices

_PROTECTION_WORDS = (
    (0.5, "very strong"),
    (1.0, "strong"),
    (3.0, "moderate"),
    (10.0, "weak"),
    (math.inf, "very weak"),
)


class Protection(TypedDict):
    """`step` is 5 for the strongest protection; `odds` is how far a guess about one privacy unit may move."""

    epsilon: str
    step: int
    word: str
    odds: str


class Protections(TypedDict):
    """The protection of a request alone, and together with all that its caller has spent."""

    alone: Protection
    together: Protection


class PricedPreview(PreviewPayload):
    """A preview with the prices to compare. `doubt` is a warning to show before spending, or empty."""

    levels: list[PriceLevel]
    protection: Protections
    tells: str
    doubt: str


def protection(rho: float, delta: float) -> Protection:
    """ε in plain words: how far a release may move a guess about one privacy unit.

    >>> protection(0.001, 1e-6)
    {'epsilon': '0.183', 'step': 5, 'word': 'very strong', 'odds': '50:50 becomes 55:45 at most'}
    """
    value = epsilon(rho, delta)
    step = next(index for index, (most, _) in enumerate(_PROTECTION_WORDS) if value <= most)
    percent = min(100 / (1 + math.exp(-min(value, 50.0))), 99.9)
    odds = f"{math.ceil(percent)}:{100 - math.ceil(percent)}" if percent < 99 else "99:1 or more"
    return Protection(
        epsilon=numbers.at_most(value),
        step=len(_PROTECTION_WORDS) - step,
        word=_PROTECTION_WORDS[step][1],
        odds=f"50:50 becomes {odds}{' at most' if percent < 99 else ''}",
    )


def protections(rho: float, budget: Budget) -> Protections:
    """The protection of a request alone, and together with all that its caller has spent."""
    return Protections(
        alone=protection(rho, budget.delta), together=protection(budget.spent + rho, budget.delta)
    )


def story_margin(preview: StoryPreview) -> str:
    """How far off the gap of a story's last step may be."""
    where = "" if preview.rows_in_group is None else f" in groups of {preview.rows_in_group:,}"
    return f"±{preview.unit.number(preview.gap_margin)} on the {preview.measured}{where}"


def explanation_margin(preview: ExplanationPreview) -> str:
    """How far off a table's figures may be: in terms of the gap if that is useful, or else of influences."""
    if preview.gap_margin is not None and math.isfinite(preview.gap_margin):
        return f"±{preview.unit.number(preview.gap_margin)} on the {preview.measured}"
    if preview.relative_margin:
        return f"±{numbers.number(100 * preview.relative_margin)}% relative influence"
    return f"±{numbers.number(preview.influence_margin)} influence"


def query_hints(plan: Callable[[float], PlannedQuery], rho: float) -> tuple[str, str]:
    """The differences that a price can show, and a warning if likely differences would be lost in noise."""
    planned = plan(rho)
    preview = planned.preview()
    if isinstance(preview, QueriesPreview) or len(planned.statement.query.group_by) == 0:
        return "", ""
    smallest = _smallest_gap(preview)
    if smallest is None:
        return "", ""
    aggregate, schema = planned.statement.query.aggregate, planned.schema
    of_rows = f" of {TYPICAL_ROWS:,} rows" if preview.margin is None else ""
    reach = in_unit(smallest, aggregate, schema)
    sentence = f"You will be able to tell two groups{of_rows} apart if they differ by about {reach}."
    bounds = schema.column(aggregate.column).bounds if aggregate.column else None
    if aggregate.kind != "avg" or bounds is None or preview.price.free:
        return sentence, ""
    likely_gap = LIKELY_SHARE * (bounds[1] - bounds[0])
    if smallest <= likely_gap:
        return sentence, ""

    def smallest_gap_at(price: float) -> float | None:
        priced = plan(price).preview()
        assert isinstance(priced, QueryPreview)
        return _smallest_gap(priced)

    sufficient = _sufficient_price(smallest_gap_at, rho, likely_gap)
    remedy = "" if sufficient is None else f" About {numbers.rho(sufficient)} would be enough."
    return sentence, (
        f"This is probably too noisy. With groups{of_rows}, you would not see a difference of "
        f"{in_unit(likely_gap, aggregate, schema)}, a tenth of the declared range.{remedy}"
    )


def explanation_doubt(plan: Callable[[float], PlannedExplanation], rho: float) -> str:
    """A warning, with a sufficient price, if the expected error exceeds the gap to be explained."""
    preview = plan(rho).preview()
    return _doubt(lambda price: plan(price).preview().relative_margin, rho, preview)


def story_doubt(plan: Callable[[float], PlannedStory], rho: float) -> str:
    """A warning, with a sufficient price, if the expected error exceeds the gap of a story."""

    def relative_error(price: float) -> float | None:
        planned = plan(price)
        gap = abs(planned.question.estimate)
        return planned.preview().gap_margin / gap if gap else None

    return _doubt(relative_error, rho, plan(rho).preview())


def _doubt(
    relative_error: Callable[[float], float | None], rho: float, preview: ExplanationPreview | StoryPreview
) -> str:
    relative = relative_error(rho)
    if relative is None or relative <= 1 or preview.price.free:
        return ""
    gap = preview.measured
    sufficient = _sufficient_price(relative_error, rho, ENOUGH)
    remedy = ""
    if sufficient is not None:
        remedy = f" About {numbers.rho(sufficient)} would reduce the error to half of the {gap}."
    return f"The expected error is larger than the {gap} itself, so you would learn little.{remedy}"


def _smallest_gap(preview: QueryPreview) -> float | None:
    """The margin of the difference of two groups: √2 times one group's, as their noise is independent."""
    margin, _ = typical_margin(preview)
    return None if margin is None or not math.isfinite(margin) else margin * math.sqrt(2)


def _sufficient_price(error: Callable[[float], float | None], rho: float, wanted: float) -> float | None:
    """A price, to two digits, at which the planner expects the wanted error or less; None if none is near."""
    for _ in range(_MOST_PRICES_TRIED):
        expected = error(rho)
        if expected is None or rho > LARGEST_RHO:
            return None
        if expected <= wanted:
            return rho
        rho = _rounded_up(rho * max(1.05, (expected / wanted) ** 2))
    return None


def _rounded_up(rho: float) -> float:
    power: float = 10.0 ** (1 - math.floor(math.log10(rho)))
    return math.ceil(round(rho * power, 9)) / power


def lost_request(entry: Entry, ending: Ending, *, is_free: bool) -> LostRequest:
    """A charged request that broke off, with sentences on what that means; `is_free`: if asked again."""
    stopped = ending in (Ending.DIED, Ending.STOPPED)
    reason = "The server stopped while it measured this" if stopped else "The server could not finish this"
    again = " Asking again costs nothing more." if is_free else ""
    return LostRequest(
        id=entry.id,
        kind=entry.kind,
        description=entry.description,
        rho=entry.rho,
        time=entry.time.isoformat(),
        request=None if entry.request is None else dict(entry.request),
        words=f"{reason}. {numbers.rho(entry.rho)} was charged.{again}",
    )


# -- Response bodies ---------------------------------------------------------------------------------------


class RecordResponse(JSONResponse):
    """A JSON response whose records are sent with their public fields."""

    def render(self, content: Any) -> bytes:
        return json.dumps(
            content, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=as_json
        ).encode()


class Position(TypedDict):
    line: int
    column: int
    start: int
    end: int | None


class Failure(TypedDict):
    """The one shape of everything that goes wrong."""

    code: str
    message: str
    remedy: str
    position: Position | None


Responses = dict[int | str, dict[str, Any]]
_MEANINGS = {
    400: (
        "The request is wrong. The message gives the reason. If the mistake is in the SQL, it also gives the "
        "position."
    ),
    401: "No valid token.",
    403: "Your role may not do this, or another website sent the request.",
    404: "The requested item does not exist, or belongs to somebody else.",
    409: "The budget is too small, the result is not stored, or the data changed. Nothing was charged.",
    413: "The body is too large.",
    429: "Too many requests. See Retry-After.",
    500: "The server failed. If the request was charged, the message says so, and the charge stays.",
    503: (
        "The server is busy, or cannot use its ledger. See Retry-After. Repeating the request is not "
        "charged twice."
    ),
}


def answers(model: Any, description: str = "The result.", *also: int) -> Responses:
    """The response 200 with this shape, and the failures of any route that takes input."""
    return {200: {"model": model, "description": description}, **failures(*also)}


def failures(*also: int) -> Responses:
    return {
        status: {"model": Failure, "description": _MEANINGS[status]}
        for status in sorted({400, 401, 403, 404, 413, 429, 503, *also})
    }


class Health(TypedDict):
    status: Literal["ok"]
    version: str


CheckState = Literal["ok", "partly", "failed"]


class ReadyChecks(TypedDict):
    """`datasets` is "partly" if some data sets cannot be queried now."""

    ledger: CheckState
    datasets: CheckState
    requests: CheckState


class Ready(TypedDict):
    status: Literal["ready", "not ready"]
    checks: ReadyChecks


class Me(TypedDict):
    name: str | None
    role: Literal["analyst", "curator"] | None
    single_user: bool
    signed_in: bool
    waiting_requests: int  # for more budget, on all data sets; 0 for an analyst, who cannot answer them
    datasets: list[Summary] | None  # as at /datasets; null if you are not signed in or the ledger is away


class Summary(TypedDict):
    """`available` is false where the data cannot be opened at the moment; then requests get 503."""

    name: str
    available: bool
    description: str
    engine: str  # what holds the data, such as "PostgreSQL" or "files"
    columns: int
    budget: BudgetFigures


class Datasets(TypedDict):
    datasets: list[Summary]


class ColumnPayload(TypedDict):
    """`sql_name` and `sql_values` are the name and the declared values as SQL writes them; a bin has none."""

    name: str
    sql_name: str
    kind: Literal["discrete", "numeric", "both"]
    values: list[str] | None
    sql_values: list[str | None] | None
    bounds: list[float] | None
    bounds_text: str | None
    description: str


class Example(TypedDict):
    title: str
    sql: str
    form: QueryForm | None
    groups: list[str]


class DatasetPayload(TypedDict):
    name: str
    sql_name: str
    description: str
    engine: str  # what holds the data, such as "PostgreSQL"
    schema: dict[str, Any]
    columns: list[ColumnPayload]
    examples: list[Example]
    budget: BudgetFigures
    role: Literal["analyst", "curator"]  # yours
    failures: NotRequired[FailureCount | None]  # null for a curator, whose failures do not count
    lost: NotRequired[list[LostRequest]]  # the newest first
    quality: NotRequired[ReleasePayload | None]  # the latest; left out while the data are not the version's


class FailureCount(TypedDict):
    """Your charged requests that failed or were stopped; after `most` nothing more is measured."""

    counted: int
    most: int
    blocked: bool  # by these, or by crashes of the server, which are not counted among them
    sentence: str


class LostRequest(TypedDict):
    """A charged request of yours that broke off without a result. `words` say if it is free to repeat."""

    id: EntryId
    kind: str
    description: str
    rho: float
    time: str
    request: dict[str, Any] | None  # what to send again
    words: str


@public(
    "JobLine",
    "id kind state stage created request weights",
    description="A job as a list shows it; `request` and `weights` as in the history.",
)
@dataclass(frozen=True)
class JobLine(Job):
    """A job as a list shows it."""

    @property
    def weights(self) -> list[WeightPayload]:
        """The groups that the request compares, by their labels."""
        return request_weights(self.request)


class JobList(TypedDict):
    jobs: list[JobLine]  # the newest first


class JobPayload(TypedDict):
    id: str
    kind: Literal["prepare", "explain"]
    dataset: str
    state: Literal["queued", "running", "done", "failed", "cancelled", "lost"]
    stage: str
    rho: float
    stopping: str  # what stopping it would mean, in a sentence; "" once it has ended
    result: ExplanationPayload | PreparedPayload | ClientRelease | None
    error: Failure | None


class ReleasePayload(TypedDict):
    entry: HistoryLine
    release: str
    preparations: NotRequired[list[PreparationsOfQuery]]  # of a query


class BoughtQuality(TypedDict):
    quality: QualityPayload | None


class PreparationsOfQuery(TypedDict):
    subject: str
    entries: list[HistoryLine]


class ClientRelease(TypedDict):
    """What a remote client makes its result from."""

    entry: HistoryLine
    free: bool
    release: str
    preparations: NotRequired[list[PreparationsOfQuery]]


@public(
    "AllowancePayload",
    "analyst limit spent remaining expires reason by time failures crashes blocked why",
)
@dataclass(frozen=True)
class AnalystLine(Allowance):
    """An analyst as the list of a data set's analysts shows them."""

    failures: int
    """Charged requests that failed or were stopped since failures were last forgiven."""
    crashes: int
    """How often the server died while it measured for them, since then."""
    blocked: bool
    """Whether the server measures nothing more for them until a curator forgives their failures."""
    why: str
    """The failures and crashes in words, for the curator."""


class Analysts(TypedDict):
    analysts: list[AnalystLine]


class OwnBudget(BudgetPayload):
    request: BudgetAnswer | None  # your newest request for more, and what became of it


class BudgetRequests(TypedDict):
    """Requests that wait for a curator."""

    requests: list[BudgetRequest]


class Use(TypedDict):
    use: list[DayOfUse]


class Shares(TypedDict):
    shares: list[Share]


class DeclaredPayload(TypedDict):
    """`problem` says why a changed file was not taken over; the data set then stays as it was."""

    name: str
    file: str
    editable: bool
    problem: Failure | None


class DeclaredList(TypedDict):
    datasets: list[DeclaredPayload]
    editable: bool  # whether data sets can be added


class SchemaText(TypedDict):
    name: str
    toml: str
    editable: bool


class SchemaProblem(TypedDict):
    """A refused key; `position` is null where neither it nor a table around it is in the text."""

    key: str
    message: str
    position: Position | None


class SchemaRefused(Failure):
    """`problems` is empty where the refusal is about no key."""

    problems: list[SchemaProblem]


class SchemaChecked(TypedDict):
    """`declared` is the schema as it was read, `protection` what its whole budget means."""

    name: str
    declared: dict[str, Any]
    protection: Protection
    columns: list[ColumnPayload]
    warnings: list[str]


@public(
    "ReviewWarning",
    "where kind message remedy toml rows share examples position",
    description="What does not fit; `toml` has the lines to change, `position` the declaration in the text.",
)
@dataclass(frozen=True)
class ReviewWarning(SchemaWarning):
    """A warning with the position of its declaration in the curator's text; None if it is not there."""

    position: Position | None = None


class SchemaReview(SchemaFit):
    """How the rows fit a schema: NOT private."""

    warnings: list[ReviewWarning]


class TokenList(TypedDict):
    tokens: list[Token]


class TokenMade(TypedDict):
    """`token` is shown once."""

    id: str
    name: str
    role: str
    token: str
    expires: str


@public(
    "AuditLine",
    "id time actor action dataset details previous hash sentence reveals_truth",
    description="A record as it is chained, and in a sentence.",
)
@dataclass(frozen=True)
class AuditLine(AuditRecord):
    """A record of the audit log, and in a sentence."""

    sentence: str
    reveals_truth: bool


class AuditPayload(TypedDict):
    records: list[AuditLine]


# -- Description of a data set -----------------------------------------------------------------------------
#
# Its declarations, which are public, and example questions.

_FEW, _MANY = 2, 12  # an example is easy to read with a number of groups in this range


def summary(schema: Schema, budget: Budget, *, available: bool = True) -> Summary:
    return Summary(
        name=schema.table.name,
        available=available,
        description=description(schema),
        engine=engine_name(schema.table.source),
        columns=len(schema.columns),
        budget=budget_figures(budget),
    )


def details(schema: Schema, budget: Budget, role: Literal["analyst", "curator"]) -> DatasetPayload:
    return DatasetPayload(
        role=role,
        name=schema.table.name,
        sql_name=sql_name(schema.table.name),
        description=description(schema),
        engine=engine_name(schema.table.source),
        schema=schema.model_dump(
            mode="json",
            exclude={
                "table": {"source", "cache", "storage"},
                "tables": {"__all__": {"source"}},
                "private": {"__all__": {"source"}},
            },
            exclude_defaults=True,
        ),  # the place of the data is not public
        columns=columns(schema),
        examples=examples(schema),
        budget=budget_figures(budget),
    )


def description(schema: Schema) -> str:
    """The data set in words, from the declarations."""
    privacy = schema.privacy
    unit = "row" if privacy.unit == "row" else f"{privacy.unit} (up to {privacy.max_rows} rows each)"
    engine = engine_name(schema.table.source)
    place = "" if engine == "files" else f" The data are in {engine}."
    columns = len(schema.columns)
    return f"{columns} column{'' if columns == 1 else 's'}. Protects each {unit}.{place}"


def columns(schema: Schema) -> list[ColumnPayload]:
    return [
        ColumnPayload(
            name=name,
            sql_name=sql_name(name),
            kind=_column_kind(column),
            values=None if column.domain is None else [label(value) for value in column.domain],
            sql_values=None if column.domain is None else [_sql_value(value) for value in column.domain],
            bounds=list(column.bounds) if column.bounds is not None and column.is_summable else None,
            bounds_text=_bounds_text(column),
            description=column.meaning,
        )
        for name, column in schema.columns.items()
    ]


def examples(schema: Schema) -> list[Example]:
    """Questions that the schema can answer; their groups come from the declarations, not from the data."""
    questions: list[Example] = []
    if schema.table.name == "adult" and {"marital_status", "high_income"} <= schema.columns.keys():
        questions.append(
            _example(
                "Why do married people earn more?",
                _select_statement("marital_status", "AVG(high_income)", schema),
                ["Married-civ-spouse", "Never-married"],
                schema,
            )
        )
    grouping = _easiest_to_group(schema)
    if grouping is None:
        return questions
    first_two = [label(value) for value in schema.domain(grouping)[:2]]
    sql = _select_statement(grouping, "COUNT(*)", schema)
    with suppress(QueryRefused):  # a column may be named COUNT(*)
        questions.append(_example(f"How many rows by {grouping}?", sql, first_two, schema))
    measured = next((n for n, c in schema.columns.items() if c.is_summable and n != grouping), None)
    if measured is not None:
        sql = _select_statement(grouping, f"AVG({sql_name(measured)})", schema)
        with suppress(QueryRefused):
            questions.append(_example(f"Does {measured} differ by {grouping}?", sql, first_two, schema))
    return questions


def _example(title: str, sql: str, groups: list[str], schema: Schema) -> Example:
    return Example(title=title, sql=sql, form=query_form(parse(sql, schema), schema), groups=groups)


def _select_statement(column: str, aggregate: str, schema: Schema) -> str:
    name = sql_name(column)
    return f"SELECT {name}, {aggregate} FROM {sql_name(schema.table.name)} GROUP BY {name}"


def _easiest_to_group(schema: Schema) -> str | None:
    sizes = {name: len(schema.domain(name)) for name in schema.discrete()}
    readable = [name for name, size in sizes.items() if _FEW <= size <= _MANY]
    groupable = [name for name, size in sizes.items() if size >= _FEW]
    return min(readable, key=sizes.__getitem__, default=min(groupable, key=sizes.__getitem__, default=None))


def _sql_value(value: DomainValue) -> str | None:
    if value is None:
        return "NULL"
    return None if isinstance(value, Bin) else sql_literal(value)


def _bounds_text(column: Column) -> str | None:
    if column.bounds is None:
        return None
    return " to ".join(map(str if column.is_temporal else number, column.bounds))


def _column_kind(column: Column) -> Any:
    if column.is_summable:
        return "numeric" if column.domain is None else "both"
    return "discrete"
