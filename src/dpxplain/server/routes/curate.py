"""For curators: true values beside released ones, allowances, shares, data sets, tokens and the audit log."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from dpxplain.errors import BadRequest, LedgerUnavailable, SchemaError
from dpxplain.ledger.anchor import last_verified, remember_verified
from dpxplain.ledger.protocol import AuditReport
from dpxplain.model.charge import Ending, failure_number, failure_words
from dpxplain.results.base import Truth
from dpxplain.results.schema_check import SchemaCheck
from dpxplain.server import records, requests
from dpxplain.server.authenticate import PREFIX, AnyCaller, Curator
from dpxplain.server.context import AccessDep, DatasetAccess, Server, ServerDep, outcome
from dpxplain.server.pool import Task
from dpxplain.server.problems import Problem, as_problem, key_position, not_found, schema_problems
from dpxplain.server.records import (
    AnalystLine,
    Analysts,
    AuditLine,
    AuditPayload,
    BudgetRequests,
    DeclaredList,
    RecordResponse,
    Responses,
    ReviewWarning,
    SchemaChecked,
    SchemaRefused,
    SchemaReview,
    SchemaText,
    Shares,
    TokenList,
    TokenMade,
    Use,
    answers,
    failures,
    protection,
)
from dpxplain.server.registry import DataFileLine, DataFileList, DataFiles, FileColumn, FileColumns, schema_of
from dpxplain.server.requests import (
    LARGEST_ID,
    AskForBudget,
    ConfidenceQuery,
    DatasetName,
    EntryNumber,
    Explain,
    Forgive,
    Grant,
    Name,
    NewToken,
    ReviewBody,
    SchemaBody,
    ShareBody,
    TopUp,
    WhyTruth,
)
from dpxplain.wire.payloads import truth_payload
from dpxplain.wire.shapes import TruthPayload
from dpxplain.words.audit_sentences import TRUTH_VIEWED, audit_sentence

# -- Data sets, tokens and the audit log -----------------------------------------------------------------

administering = APIRouter(tags=["Administering"], prefix=f"{PREFIX}/admin")
FileName = Annotated[str, Path(max_length=120, description="A plain name that ends in .csv or .parquet.")]
TokenId = Annotated[str, Path(pattern=r"^[0-9a-f]{1,64}$", description="The id in the list of tokens.")]
Only = Annotated[bool, Query(description="Keep the tokens that were made with this one.")]
After = Annotated[int, Query(ge=0, le=LARGEST_ID, description="The id of the last record already seen.")]
Most = Annotated[int, Query(ge=1, le=5_000, description="The largest number of records to return.")]
Full = Annotated[
    bool, Query(description="Verify the whole log, not only the records added since the last verification.")
]
Head = Annotated[
    str | None, Query(max_length=200, pattern=r"^[0-9a-f]*$", description="A head noted down earlier.")
]


@administering.get("/datasets", responses=answers(DeclaredList))
def declared(_caller: Curator, server: ServerDep) -> Any:
    """Every schema file, also those that could not be taken over, or whose data have changed."""
    return RecordResponse(
        {
            "datasets": [
                {
                    "name": schema_file.name,
                    "file": schema_file.file.name,
                    "editable": server.datasets.editable,
                    "problem": None if problem is None else problem.to_dict(),
                }
                for schema_file in server.datasets.schema_files()
                for problem in [schema_file.problem or schema_file.data_problem]
            ],
            "editable": server.datasets.can_add,
        }
    )


@administering.post("/datasets", responses=answers(SchemaText, "Declared and open.", 409))
def declare(caller: Curator, server: ServerDep, body: SchemaBody) -> Any:
    """Declare a new data set."""
    _check_editable(server)
    name = server.datasets.declare(body.toml, name=None).name
    _note_schema(server, caller.logged_name, "data set declared", name, body.toml)
    return RecordResponse(SchemaText(name=name, toml=body.toml, editable=True))


@administering.get("/datasets/{dataset}", responses=answers(SchemaText))
def schema_text(_caller: Curator, server: ServerDep, dataset: DatasetName) -> Any:
    """A schema file as it is."""
    text = server.datasets.file_of(dataset).read_text(encoding="utf-8")
    return RecordResponse(SchemaText(name=dataset, toml=text, editable=server.datasets.editable))


@administering.put("/datasets/{dataset}", responses=answers(SchemaText, "Changed and open.", 409))
def edit(caller: Curator, server: ServerDep, dataset: DatasetName, body: SchemaBody) -> Any:
    """Change the schema of a data set. Its name and its history stay."""
    _check_editable(server)
    server.datasets.declare(body.toml, name=dataset)
    _note_schema(server, caller.logged_name, "schema edited", dataset, body.toml)
    return RecordResponse(SchemaText(name=dataset, toml=body.toml, editable=True))


@administering.post(
    "/schema/check",
    responses=answers(SchemaChecked) | {400: {"model": SchemaRefused, "description": "Wrong."}},
)
def check(_caller: Curator, server: ServerDep, body: SchemaBody) -> Any:
    """Check a schema, without opening or changing anything."""
    try:
        schema = schema_of(body.toml)
    except SchemaError as error:
        refusal = as_problem(error)
        refusal.shape["problems"] = schema_problems(body.toml, error)
        raise refusal from None
    warnings = [
        f"{name}: has more than 1,000 declared values."
        for name in schema.discrete()
        if len(schema.domain(name)) > 1_000
    ]
    if schema.table.source is None:
        warnings.append("table.source: is missing, so the server could not open the data set.")
    return RecordResponse(
        SchemaChecked(
            name=schema.table.name,
            declared=schema.model_dump(mode="json", exclude_defaults=True),
            protection=protection(schema.privacy.rho, schema.privacy.delta),
            columns=records.columns(schema),
            warnings=warnings,
        )
    )


@administering.post("/schema/review", responses=answers(SchemaReview, "Not private, never cached.", 409, 503))
async def review(caller: Curator, server: ServerDep, body: ReviewBody) -> Any:
    """How the rows fit a schema: rows left out, values capped or misspelt. Not private; audited."""

    def work() -> SchemaCheck:
        schema = schema_of(body.toml)
        digest = hashlib.sha256(body.toml.encode()).hexdigest()
        server.ledger.note(caller.logged_name, TRUTH_VIEWED, body.dataset, {"schema": digest})
        return server.datasets.review(schema, body.dataset)

    if body.dataset is not None:
        server.datasets.get(body.dataset)
    fit = await outcome(server.pool.submit(caller.name, Task(), work))
    warnings = [
        ReviewWarning(**vars(warning), position=key_position(body.toml, warning.where))
        for warning in fit.warnings
    ]
    return RecordResponse(fit.to_dict() | {"warnings": warnings}, headers=NOT_PRIVATE_HEADERS)


@administering.get("/files", responses=answers(DataFileList))
def files(_caller: Curator, server: ServerDep) -> Any:
    """The names of the data files that a new data set can use."""
    data_files = _data_files(server)
    lines = [data_files.line(name) for name in data_files.names()]
    return RecordResponse(DataFileList(files=lines, most_bytes=data_files.most_bytes))


@administering.get("/files/{file}/columns", responses=answers(FileColumns))
def file_columns(_caller: Curator, server: ServerDep, file: FileName) -> Any:
    """Names and types of a file's columns, as it declares them. Reads none of its values."""
    columns, note = _data_files(server).columns(file)
    lines = [FileColumn(name=name, type=type) for name, type in columns]
    return RecordResponse(FileColumns(columns=lines, note=note))


@administering.put(
    "/files/{file}",
    responses=answers(DataFileLine, "Stored under a new name.", 409),
    openapi_extra={"requestBody": {"content": {"application/octet-stream": {}}, "required": True}},
)
async def upload(request: Request, caller: Curator, server: ServerDep, file: FileName) -> Any:
    """Store a CSV or Parquet file in the server's data folder. Never replaces an existing file."""
    data_files = _data_files(server)
    await data_files.store(file, request.stream())
    await run_sync(server.ledger.note, caller.logged_name, "data file uploaded", None, {"file": file})
    return RecordResponse(data_files.line(file))


@administering.delete("/files/{file}", status_code=204, responses=failures(409), response_class=Response)
def remove_file(caller: Curator, server: ServerDep, file: FileName) -> Response:
    """Delete an uploaded file. Refused while a data set uses it."""
    data_files = _data_files(server)
    identity = data_files.identity(file)
    users = [
        schema.name
        for schema in server.datasets.schema_files()
        if identity in schema.data or file in schema.file.read_text(encoding="utf-8", errors="replace")
    ]
    data_files.remove(file, users)
    server.ledger.note(caller.logged_name, "data file removed", None, {"file": file})
    return Response(status_code=204)


@administering.get("/tokens", responses=answers(TokenList))
def tokens(_caller: Curator, server: ServerDep) -> Any:
    """Every token ever made; their texts are known to their holders only."""
    return RecordResponse(TokenList(tokens=server.ledger.tokens.list()))


@administering.post("/tokens", responses=answers(TokenMade, "Created. The token's text is shown only once."))
def make_token(caller: Curator, server: ServerDep, body: NewToken) -> Any:
    """Make a token for somebody."""
    id, text = server.ledger.tokens.create(
        body.name, body.role, expires=body.expires, by=caller.logged_name, maker=caller.token
    )
    created = TokenMade(id=id, name=body.name, role=body.role, token=text, expires=body.expires.isoformat())
    return RecordResponse(created)


@administering.delete("/tokens/{token}", status_code=204, responses=failures(), response_class=Response)
def revoke(caller: Curator, server: ServerDep, token: TokenId, only: Only = False) -> Response:
    """End a token, its browser sessions, and the tokens that were made with it."""
    try:
        server.ledger.tokens.revoke(token, caller.logged_name, only=only)
    except LedgerUnavailable:
        raise
    except BadRequest:
        raise not_found("token") from None
    return Response(status_code=204)


@administering.get("/audit", responses=answers(AuditPayload))
def audit(_caller: Curator, server: ServerDep, after: After = 0, limit: Most = 500) -> Any:
    """The audit log, oldest first."""
    names = {token.id: token.name for token in server.ledger.tokens.list()}
    records = [
        AuditLine(
            **vars(record),
            sentence=audit_sentence(record, names),
            reveals_truth=record.action == TRUTH_VIEWED,
        )
        for record in server.ledger.audit(after, limit)
    ]
    return RecordResponse(AuditPayload(records=records))


@administering.get("/audit/verify", responses=answers(AuditReport))
def verify(_caller: Curator, server: ServerDep, head: Head = None, full: Full = False) -> Any:
    """Recompute the log's chain of hashes, and compare the ledger with it.

    A long log is checked only from the last verified record on, unless `full`.
    """
    ledger, key, since = server.ledger, server.ledger.recovery.verification_key, None
    with suppress(BadRequest):  # an unreadable file counts as none
        since = None if full or key is None else last_verified(key, ledger.anchor())
    report = ledger.verify_audit(head or None, since=since, full=full or None)
    with suppress(BadRequest):  # without the file, the next process verifies the whole log
        if key is not None:
            remember_verified(key, ledger.verified)
    return RecordResponse(report)


def _data_files(server: Server) -> DataFiles:
    data_files = server.datasets.data_files(server.config.limits.upload_bytes)
    if data_files is None:
        raise not_editable()
    return data_files


def _check_editable(server: Server) -> None:
    if not server.datasets.editable:
        raise not_editable()


def not_editable() -> Problem:
    return Problem(
        409,
        "not_editable",
        "This server does not allow editing its data sets.",
        "Edit the schema file instead.",
    )


def _note_schema(server: Server, actor: str, action: str, dataset: str, toml: str) -> None:
    """Write an action into the audit log with the schema's hash; the schema itself is in its file."""
    digest = hashlib.sha256(toml.encode()).hexdigest()
    server.ledger.note(actor, action, dataset, {"sha256": digest})


# -- True values, allowances and shares ------------------------------------------------------------------

curating = APIRouter(tags=["Curating"], prefix=PREFIX)
MOST_ROWS = 10_000
NOT_PRIVATE_HEADERS = {"X-DPXPlain-Private": "false", "Cache-Control": "no-store"}
_TRUTH: Responses = answers(TruthPayload, "True values: not private, never cached.", 409, 503)

RequestId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="The id in the list of requests.")]
ValueQuery = Annotated[
    str | None,
    Query(max_length=2_000, description="One value of the answer, as SQL writes it; leave out for all."),
]
AnalystName = Annotated[Name, Path(description="The analyst's name.")]


@curating.get("/datasets/{dataset}/answers/{entry}/truth", responses=_TRUTH)
async def answer_truth(
    access: AccessDep,
    _caller: Curator,
    entry: EntryNumber,
    confidence: ConfidenceQuery = 0.95,
    of: ValueQuery = None,
) -> Any:
    """The true values beside the released ones. Audited."""

    def work(_task: Task) -> Truth:
        session = access.curator_session()
        if of is None:
            answer = requests.stored_answer(session, entry, confidence)
        else:
            answer = requests.stored_part(session, entry, of, confidence)
        _note(access, {"answer": entry})
        return answer.truth()

    return _truth_response(await access.measure(work))


@curating.post("/datasets/{dataset}/why/truth", responses=_TRUTH)
async def why_truth(access: AccessDep, _caller: Curator, body: WhyTruth) -> Any:
    """True influence and rank of every condition. Audited."""

    def work(_task: Task) -> Truth:
        session = access.curator_session()
        question = requests.question_of(session, body)
        _note(access, {"answer": body.answer, "question": question.text})
        return question.truth_of(requests.family_choice(body.family, question.answer.schema))

    return _truth_response(await access.measure(work))


@curating.post("/datasets/{dataset}/explain/truth", responses=_TRUTH)
async def explain_truth(access: AccessDep, _caller: Curator, body: Explain) -> Any:
    """True influences and ranks beside an explanation that is stored or free. Audited."""

    def work(_task: Task) -> Truth:
        session = access.curator_session()
        table = requests.stored_explanation(session, body)
        _note(access, {"explanation": table.id, "question": table.question.text})
        return table.truth()

    return _truth_response(await access.measure(work))


@curating.get("/datasets/{dataset}/analysts", responses=answers(Analysts))
def analysts(access: AccessDep, _caller: Curator) -> Any:
    """What each analyst may spend, and did."""
    return RecordResponse(Analysts(analysts=_allowances(access)))


@curating.put("/datasets/{dataset}/analysts/{analyst}", responses=answers(AnalystLine))
def grant(access: AccessDep, caller: Curator, analyst: AnalystName, body: Grant) -> Any:
    """Set what an analyst may spend on the data set in all."""
    access.server.ledger.grant(
        access.name,
        analyst,
        body.rho,
        expires=body.expires,
        reason=body.reason,
        by=caller.logged_name,
    )
    return RecordResponse(next(line for line in _allowances(access) if line.analyst == analyst))


@curating.post(
    "/datasets/{dataset}/analysts/{analyst}/forgive",
    status_code=204,
    responses=failures(),
    response_class=Response,
)
def forgive(access: AccessDep, caller: Curator, analyst: AnalystName, body: Forgive) -> Response:
    """Unblock an analyst whose charged requests failed too often. The charges stay."""
    access.server.ledger.failures.forgive(access.name, analyst, reason=body.reason, by=caller.logged_name)
    return Response(status_code=204)


@curating.post("/datasets/{dataset}/top-up", responses=answers(Analysts))
def top_up(access: AccessDep, caller: Curator, body: TopUp) -> Any:
    """Add to the data set's limit, or to one analyst's."""
    access.server.ledger.top_up(
        access.name,
        body.rho,
        analyst=body.analyst,
        reason=body.reason,
        by=caller.logged_name,
        default_limit=access.server.config.analysts.default_rho,
    )
    return RecordResponse(Analysts(analysts=_allowances(access)))


@curating.get("/datasets/{dataset}/use", responses=answers(Use))
def use(access: AccessDep, _caller: Curator) -> Any:
    """What each analyst was charged on each day."""
    return RecordResponse(Use(use=access.server.ledger.analysts.use(access.name)))


@curating.post("/datasets/{dataset}/budget/requests", responses=answers(BudgetRequests))
def ask_for_budget(access: AccessDep, caller: AnyCaller, body: AskForBudget) -> Any:
    """Ask the curator for more budget. Returns your waiting requests."""
    name = caller.logged_name
    access.server.ledger.analysts.ask(access.name, name, body.rho, body.reason)
    return RecordResponse(_requests(access, name))


@curating.get("/datasets/{dataset}/budget/requests", responses=answers(BudgetRequests))
def budget_requests(access: AccessDep, caller: AnyCaller) -> Any:
    """Waiting requests for more budget: yours or, for a curator, everybody's."""
    return RecordResponse(_requests(access, None if caller.is_curator else caller.logged_name))


@curating.post("/datasets/{dataset}/budget/requests/{request}/decline", responses=answers(BudgetRequests))
def decline(access: AccessDep, caller: Curator, request: RequestId, body: Forgive) -> Any:
    """Decline a request; a grant to its analyst answers it too."""
    access.server.ledger.analysts.decline(access.name, request, body.reason, caller.logged_name)
    return RecordResponse(_requests(access, None))


@curating.get("/datasets/{dataset}/shares", responses=answers(Shares))
def shares(access: AccessDep, _caller: Curator) -> Any:
    """Who may see what others asked."""
    return RecordResponse(_shares(access))


@curating.post("/datasets/{dataset}/shares", responses=answers(Shares))
def share(access: AccessDep, caller: Curator, body: ShareBody) -> Any:
    """Let a reader ("*": everyone) see what an analyst asked and will ask."""
    access.server.ledger.share(
        access.name, body.owner, body.reader, reason=body.reason, by=caller.logged_name
    )
    return RecordResponse(_shares(access))


@curating.delete("/datasets/{dataset}/shares", responses={**answers(Shares), **failures()})
def unshare(access: AccessDep, caller: Curator, body: ShareBody) -> Any:
    """Take a share back."""
    access.server.ledger.unshare(
        access.name, body.owner, body.reader, reason=body.reason, by=caller.logged_name
    )
    return RecordResponse(_shares(access))


def _note(access: DatasetAccess, details: dict[str, Any]) -> None:
    """Records in the audit log what will be looked at. The record holds no true values."""
    access.server.ledger.note(access.caller.logged_name, TRUTH_VIEWED, access.name, details)


def _truth_response(truth: Truth) -> Response:
    """True values, at most `MOST_ROWS`, marked as not private."""
    payload = truth_payload(truth)
    if len(payload["rows"]) > MOST_ROWS:
        payload["title"] += f", the first {MOST_ROWS:,}"
        payload["rows"] = payload["rows"][:MOST_ROWS]
    return RecordResponse(payload, headers=NOT_PRIVATE_HEADERS)


def _allowances(access: DatasetAccess) -> list[AnalystLine]:
    default = access.server.config.analysts.default_rho
    limit, lines = access.server.failures, []
    for allowance in access.server.ledger.allowances(access.name, default_limit=default):
        endings = limit.counted(access.name, allowance.analyst)
        lines.append(
            AnalystLine(
                **vars(allowance),
                failures=failure_number(endings),
                crashes=endings[Ending.DIED],
                blocked=limit.blocks(endings),
                why=failure_words(endings),
            )
        )
    return lines


def _requests(access: DatasetAccess, analyst: str | None) -> BudgetRequests:
    """Waiting requests of everybody, or of one analyst without ids, which count everybody's requests."""
    waiting = access.server.ledger.analysts.requests(access.name)
    if analyst is None:
        return BudgetRequests(requests=waiting)
    return BudgetRequests(
        requests=[replace(request, id=None) for request in waiting if request.analyst == analyst]
    )


def _shares(access: DatasetAccess) -> Shares:
    return Shares(shares=access.server.ledger.shares(access.name))


ROUTERS = (curating, administering)
