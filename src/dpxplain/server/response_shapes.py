"""Response bodies beside the shared payloads; the OpenAPI document is made from these types."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from dpxplain.server.precision import Protection
from dpxplain.wire.shapes import (
    BudgetFigures,
    ExplanationPayload,
    HistoryLine,
    PreparedPayload,
    QualityPayload,
    QueryForm,
    WeightPayload,
)


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


class JobLine(TypedDict):
    """A job as a list shows it; `request` and `weights` as in the history."""

    id: str
    kind: Literal["prepare", "explain"]
    state: Literal["queued", "running", "done", "failed", "cancelled", "lost"]
    stage: str
    created: str
    request: dict[str, Any]
    weights: list[WeightPayload]


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


class AllowancePayload(TypedDict):
    analyst: str
    limit: float
    spent: float
    remaining: float
    expires: str | None
    reason: str
    by: str
    time: str | None
    failures: int  # charged requests that failed or were stopped since failures were last forgiven
    blocked: bool  # nothing more is measured for them until that is done again
    why: str  # the failures in words, for the curator


class Analysts(TypedDict):
    analysts: list[AllowancePayload]


class BudgetRequestLine(TypedDict):
    id: NotRequired[int]  # for a curator only
    analyst: str
    rho: float
    reason: str
    time: str


class BudgetRequests(TypedDict):
    """Requests that wait for a curator."""

    requests: list[BudgetRequestLine]


class UseLine(TypedDict):
    """What one analyst was charged on one day, in UTC."""

    day: str
    analyst: str
    rho: float


class Use(TypedDict):
    use: list[UseLine]


class SharePayload(TypedDict):
    owner: str
    reader: str
    reason: str
    by: str
    time: str


class Shares(TypedDict):
    shares: list[SharePayload]


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


class ColumnShares(TypedDict):
    """Shares of all rows, computed from the rows; null where the column declares nothing of that kind."""

    column: str
    rows: int
    null: float
    outside: float | None
    not_numbers: float | None
    clamped_low: float | None
    clamped_high: float | None
    values: int | None
    values_seen: int | None


class ReviewWarning(TypedDict):
    """What does not fit; `toml` has the lines to change, `position` the declaration in the text."""

    where: str
    kind: str
    message: str
    remedy: str
    toml: str
    rows: int
    share: float | None
    examples: list[str]
    position: Position | None


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


class TokenPayload(TypedDict):
    id: str
    name: str
    role: str
    created: str
    expires: str
    by: str
    revoked: str | None
    maker: str | None


class TokenList(TypedDict):
    tokens: list[TokenPayload]


class TokenMade(TypedDict):
    """`token` is shown once."""

    id: str
    name: str
    role: str
    token: str
    expires: str


class AuditLine(TypedDict):
    """A record as it is chained, and in a sentence."""

    id: int
    time: str
    actor: str
    action: str
    dataset: str | None
    details: dict[str, Any]
    previous: str
    hash: str
    sentence: str
    reveals_truth: bool


class AuditPayload(TypedDict):
    records: list[AuditLine]


class AuditVerified(TypedDict):
    records: int
    head: str
    problems: list[str]
    intact: bool
