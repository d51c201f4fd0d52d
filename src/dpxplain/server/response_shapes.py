"""Response bodies beside the shared payloads; the OpenAPI document is made from these types."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from starlette.responses import JSONResponse
from typing_extensions import TypedDict

from dpxplain.ledger.analysts import BudgetRequest, DayOfUse
from dpxplain.ledger.protocol import Allowance, AuditRecord, Job, Share, Token
from dpxplain.model.public import as_json, public
from dpxplain.results.check_warnings import SchemaWarning
from dpxplain.results.schema_check import ColumnShares
from dpxplain.server.precision import Protection
from dpxplain.wire.account_payloads import HistoryLine, request_weights
from dpxplain.wire.shapes import (
    BudgetFigures,
    ExplanationPayload,
    PreparedPayload,
    QualityPayload,
    QueryForm,
    WeightPayload,
)


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
    quality: NotRequired[ReleasePayload | None]  # the latest; left out while the data are not the version's


class FailureCount(TypedDict):
    """Your charged requests that failed or were stopped; after `most` nothing more is measured."""

    counted: int
    most: int
    sentence: str


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
    "analyst limit spent remaining expires reason by time failures blocked why",
)
@dataclass(frozen=True)
class AnalystLine(Allowance):
    """An analyst as the list of a data set's analysts shows them."""

    failures: int
    """Charged requests that failed or were stopped since failures were last forgiven."""
    blocked: bool
    """Nothing more is measured for them until that is done again."""
    why: str
    """The failures in words, for the curator."""


class Analysts(TypedDict):
    analysts: list[AnalystLine]


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


class SchemaReview(TypedDict):
    """How the rows fit a schema: NOT private."""

    private: Literal[False]
    warning: str
    rows: int
    rows_without_unit: int
    units: int | None
    fits: bool
    figures: list[ColumnShares]
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
