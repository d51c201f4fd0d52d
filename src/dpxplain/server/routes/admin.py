"""For curators: declaring data sets, handing out tokens, reading the audit log."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from dpxplain.errors import BadRequest, LedgerUnavailable, SchemaError
from dpxplain.ledger.anchor import last_verified, remember_verified
from dpxplain.ledger.protocol import AuditReport
from dpxplain.results.schema_check import SchemaCheck
from dpxplain.server import records
from dpxplain.server.authenticate import PREFIX, Curator
from dpxplain.server.context import Server, ServerDep, outcome
from dpxplain.server.openapi import answers, failures
from dpxplain.server.pool import Task
from dpxplain.server.problems import Problem, as_problem, key_position, not_found, schema_problems
from dpxplain.server.records import (
    AuditLine,
    AuditPayload,
    DeclaredList,
    RecordResponse,
    ReviewWarning,
    SchemaChecked,
    SchemaRefused,
    SchemaReview,
    SchemaText,
    TokenList,
    TokenMade,
    protection,
)
from dpxplain.server.registry import DataFileLine, DataFileList, DataFiles, FileColumn, FileColumns, schema_of
from dpxplain.server.requests import LARGEST_ID, DatasetName, NewToken, ReviewBody, SchemaBody
from dpxplain.server.routes.curate import NOT_PRIVATE_HEADERS
from dpxplain.words.audit_sentences import TRUTH_VIEWED, audit_sentence

router = APIRouter(tags=["Administering"], prefix=f"{PREFIX}/admin")
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


@router.get("/datasets", responses=answers(DeclaredList))
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


@router.post("/datasets", responses=answers(SchemaText, "Declared and open.", 409))
def declare(caller: Curator, server: ServerDep, body: SchemaBody) -> Any:
    """Declare a new data set."""
    _check_editable(server)
    name = server.datasets.declare(body.toml, name=None).name
    _note(server, server.actor(caller), "data set declared", name, body.toml)
    return RecordResponse(SchemaText(name=name, toml=body.toml, editable=True))


@router.get("/datasets/{dataset}", responses=answers(SchemaText))
def schema_text(_caller: Curator, server: ServerDep, dataset: DatasetName) -> Any:
    """A schema file as it is."""
    text = server.datasets.file_of(dataset).read_text(encoding="utf-8")
    return RecordResponse(SchemaText(name=dataset, toml=text, editable=server.datasets.editable))


@router.put("/datasets/{dataset}", responses=answers(SchemaText, "Changed and open.", 409))
def edit(caller: Curator, server: ServerDep, dataset: DatasetName, body: SchemaBody) -> Any:
    """Change the schema of a data set. Its name and its history stay."""
    _check_editable(server)
    server.datasets.declare(body.toml, name=dataset)
    _note(server, server.actor(caller), "schema edited", dataset, body.toml)
    return RecordResponse(SchemaText(name=dataset, toml=body.toml, editable=True))


@router.post(
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
        f"{name}: has more than 1,000 declared values." for name in schema.discrete()
        if len(schema.domain(name)) > 1_000
    ]  # fmt: skip
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


@router.post("/schema/review", responses=answers(SchemaReview, "Not private, never cached.", 409, 503))
async def review(caller: Curator, server: ServerDep, body: ReviewBody) -> Any:
    """How the rows fit a schema: rows left out, values capped or misspelt. Not private; audited."""

    def work() -> SchemaCheck:
        schema = schema_of(body.toml)
        digest = hashlib.sha256(body.toml.encode()).hexdigest()
        server.ledger.note(server.actor(caller), TRUTH_VIEWED, body.dataset, {"schema": digest})
        return server.datasets.review(schema, body.dataset)

    if body.dataset is not None:
        server.datasets.get(body.dataset)
    fit = await outcome(server.pool.submit(caller.name, Task(), work))
    warnings = [
        ReviewWarning(**vars(warning), position=key_position(body.toml, warning.where))
        for warning in fit.warnings
    ]
    return RecordResponse(fit.to_dict() | {"warnings": warnings}, headers=NOT_PRIVATE_HEADERS)


@router.get("/files", responses=answers(DataFileList))
def files(_caller: Curator, server: ServerDep) -> Any:
    """The names of the data files that a new data set can use."""
    data_files = _data_files(server)
    lines = [data_files.line(name) for name in data_files.names()]
    return RecordResponse(DataFileList(files=lines, most_bytes=data_files.most_bytes))


@router.get("/files/{file}/columns", responses=answers(FileColumns))
def file_columns(_caller: Curator, server: ServerDep, file: FileName) -> Any:
    """Names and types of a file's columns, as it declares them. Reads none of its values."""
    columns, note = _data_files(server).columns(file)
    lines = [FileColumn(name=name, type=type) for name, type in columns]
    return RecordResponse(FileColumns(columns=lines, note=note))


@router.put(
    "/files/{file}",
    responses=answers(DataFileLine, "Stored under a new name.", 409),
    openapi_extra={"requestBody": {"content": {"application/octet-stream": {}}, "required": True}},
)
async def upload(request: Request, caller: Curator, server: ServerDep, file: FileName) -> Any:
    """Store a CSV or Parquet file in the server's data folder. Never replaces an existing file."""
    data_files = _data_files(server)
    await data_files.store(file, request.stream())
    await run_sync(server.ledger.note, server.actor(caller), "data file uploaded", None, {"file": file})
    return RecordResponse(data_files.line(file))


@router.delete("/files/{file}", status_code=204, responses=failures(409), response_class=Response)
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
    server.ledger.note(server.actor(caller), "data file removed", None, {"file": file})
    return Response(status_code=204)


@router.get("/tokens", responses=answers(TokenList))
def tokens(_caller: Curator, server: ServerDep) -> Any:
    """Every token ever made; their texts are known to their holders only."""
    return RecordResponse(TokenList(tokens=server.ledger.tokens.list()))


@router.post("/tokens", responses=answers(TokenMade, "Created. The token's text is shown only once."))
def make_token(caller: Curator, server: ServerDep, body: NewToken) -> Any:
    """Make a token for somebody."""
    id, text = server.ledger.tokens.create(
        body.name, body.role, expires=body.expires, by=server.actor(caller), maker=caller.token
    )
    created = TokenMade(id=id, name=body.name, role=body.role, token=text, expires=body.expires.isoformat())
    return RecordResponse(created)


@router.delete("/tokens/{token}", status_code=204, responses=failures(), response_class=Response)
def revoke(caller: Curator, server: ServerDep, token: TokenId, only: Only = False) -> Response:
    """End a token, its browser sessions, and the tokens that were made with it."""
    try:
        server.ledger.tokens.revoke(token, server.actor(caller), only=only)
    except LedgerUnavailable:
        raise
    except BadRequest:
        raise not_found("token") from None
    return Response(status_code=204)


@router.get("/audit", responses=answers(AuditPayload))
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


@router.get("/audit/verify", responses=answers(AuditReport))
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


def _note(server: Server, actor: str, action: str, dataset: str, toml: str) -> None:
    """Write an action into the audit log with the schema's hash; the schema itself is in its file."""
    digest = hashlib.sha256(toml.encode()).hexdigest()
    server.ledger.note(actor, action, dataset, {"sha256": digest})
