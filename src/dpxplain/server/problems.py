"""Problems: the one shape of every HTTP error body, {code, message, remedy, position}. Never carries data.

An exception that DPXPlain did not raise on purpose may quote the data, so its text is neither sent nor
logged; its class, file and line are logged.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from dpxplain.errors import (
    BadRequest,
    BudgetExhausted,
    CuratorOnly,
    DataChanged,
    DPXPlainError,
    LedgerBehind,
    LedgerUnavailable,
    SchemaError,
    UnknownMeasurement,
)
from dpxplain.server.records import FailureCount, Position, SchemaProblem

# -- Problems ----------------------------------------------------------------------------------------------

LOG = logging.getLogger("dpxplain.server")

Shape = dict[str, Any]
_BUSY_RETRY_SECONDS = 5
_OUTAGE_RETRY_SECONDS = 5
_REPAIR_RETRY_SECONDS = 120  # longer than a client waits, because somebody must repair the ledger first


class Problem(Exception):
    """An HTTP error. A route raises it, and the response is its shape."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        remedy: str = "",
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code)
        self.status = status
        self.shape: Shape = {"code": code, "message": message, "remedy": remedy, "position": None}
        self.headers = dict(headers or {})


def other_version() -> Problem:
    return Problem(
        409,
        "other_version",
        "The server and the client have different versions. Nothing was charged.",
        "Install the same version of DPXPlain as the server.",
    )


def other_plan() -> Problem:
    return Problem(
        409,
        "other_plan",
        "The server and the client plan this request differently. Nothing was charged.",
        "Try again. If it fails again, reconnect: the schema may have changed.",
    )


def not_found(what: str = "page") -> Problem:
    """A 404. Missing things and other callers' things get the same text."""
    return Problem(404, "not_found", f"There is no such {what}.", "Check the address.")


def busy() -> Problem:
    return Problem(
        503,
        "busy",
        "The server is busy. Nothing was charged.",
        f"Try again in {_BUSY_RETRY_SECONDS} seconds.",
        headers={"Retry-After": str(_BUSY_RETRY_SECONDS)},
    )


def too_slow() -> Problem:
    return Problem(
        503,
        "too_slow",
        "The request took longer than this server allows. Nothing was charged.",
        "Ask for fewer conditions, attributes or groups.",
        headers={"Retry-After": str(_BUSY_RETRY_SECONDS)},
    )


def ledger_unavailable(*, may_pass: bool = True) -> Problem:
    """The problem for an unavailable ledger, without the error's text, which names the ledger.

    The request may have been charged already.
    """
    seconds = _OUTAGE_RETRY_SECONDS if may_pass else _REPAIR_RETRY_SECONDS
    return Problem(
        503,
        "ledger_unavailable",
        "The server cannot use its ledger at the moment, so it cannot answer.",
        f"Repeat the request in {seconds} seconds. You will not be charged twice.",
        headers={"Retry-After": str(seconds)},
    )


def unavailable() -> Problem:
    return Problem(
        503,
        "unavailable",
        "The server cannot open this data set at the moment. Nothing was charged.",
        "Try again later, or tell the curator. The server's log has the reason.",
        headers={"Retry-After": "300"},  # longer than our client waits, because somebody must bring the data
    )


def being_opened() -> Problem:
    return Problem(
        503,
        "being_opened",
        "The server is reopening this data set. Nothing was charged.",
        "Try again in 5 seconds.",
        headers={"Retry-After": "5"},
    )


def too_many(seconds: int) -> Problem:
    return Problem(
        429,
        "too_many_requests",
        "Too many requests. Nothing was charged.",
        f"Wait {seconds} seconds and try again.",
        headers={"Retry-After": str(seconds)},
    )


def too_many_at_once() -> Problem:
    return Problem(
        429,
        "too_many_at_once",
        "You have too many requests running at once. Nothing was charged.",
        "Wait until one of them has finished.",
        headers={"Retry-After": str(_BUSY_RETRY_SECONDS)},
    )


def changed() -> Problem:
    return Problem(
        409,
        "declarations_changed",
        "The curator has just changed the schema. Nothing was charged.",
        "Ask again.",
    )


def too_many_failures() -> Problem:
    return Problem(
        409,
        "too_many_failures",
        "Too many of your charged requests on this data set failed or were cancelled. Failures can reveal "
        "something about the data, so your new queries are blocked. Nothing was charged.",
        "Stored answers stay free. Ask the curator, who can forgive the failures.",
    )


def too_many_crashes() -> Problem:
    return Problem(
        409,
        "too_many_crashes",
        "The server crashed too often while it measured for you on this data set. Crashes can reveal "
        "something about the data, so your new queries are blocked. Nothing was charged.",
        "Stored answers stay free. Ask the curator, who can unblock you.",
    )


def failure_count(counted: int, most: int, *, is_blocked: bool) -> FailureCount:
    """The count with a sentence, which is empty before the first failure."""
    if is_blocked and counted < most:
        sentence = too_many_crashes().shape["message"].removesuffix(" Nothing was charged.")
        return FailureCount(counted=counted, most=most, blocked=True, sentence=sentence)
    sentence = (
        f"You have used {counted} of {most} allowed failures (charged requests that failed or were stopped). "
    )
    if counted >= most:
        sentence += "The server blocks your new queries until the curator forgives the failures."
    else:
        sentence += (
            f"After {most}, the server blocks your new queries until the curator forgives the failures."
        )
    return FailureCount(counted=counted, most=most, blocked=is_blocked, sentence=sentence if counted else "")


def stopping(rho: float, failures: FailureCount | None) -> str:
    """A sentence that says what happens if the caller stops a running request."""
    charge = (
        f"The charge of {rho:.6g} stays." if rho > 0 else "If it has already been charged, the charge stays."
    )
    if failures is None:
        return charge
    counted, most = min(failures["counted"] + 1, failures["most"]), failures["most"]
    return f"{charge} A stopped request counts as a failure. This would be number {counted} of {most}."


def too_large() -> Problem:
    return Problem(
        413,
        "too_large",
        "The request is too large for this server. Nothing was charged.",
        "Send less at once.",
        headers={"Connection": "close"},
    )


def failed_after_charge() -> Problem:
    """The problem for a failure after the charge, without its reason, which could depend on the data."""
    return Problem(
        500,
        "failed_after_charge",
        "The request failed after it was charged. The charge stays.",
        "The history shows whether repeating it is free. Tell the curator.",
    )


def not_shown() -> Problem:
    """For a release that is stored, but whose rendering failed or took too long."""
    return Problem(
        500,
        "not_shown",
        "The server charged and stored the result, but could not show it.",
        "Repeat the request, which is free. If it fails again, tell the curator.",
    )


def interrupted(rho: float) -> Problem:
    """For an ending that the data cannot have caused. The client repeats the same request by itself."""
    seconds = _OUTAGE_RETRY_SECONDS
    return Problem(
        503,
        "interrupted",
        "The server, its ledger or a database stopped while it worked on your request. Your request did not "
        f"cause this. ρ {rho:.6g} was charged.",
        f"Repeat the request in {seconds} seconds. You will not be charged again.",
        headers={"Retry-After": str(seconds)},
    )


def cancelled(*, is_charged: bool) -> Problem:
    if not is_charged:
        return Problem(409, "cancelled", "The request was cancelled. Nothing was charged.", "Ask again.")
    return Problem(
        409,
        "cancelled",
        "The request was cancelled after it was charged. The charge stays.",
        "You can see it in the history.",
    )


def lost() -> Problem:
    return Problem(
        500,
        "lost",
        "The server process that worked on this request has stopped. If the request was charged, the charge "
        "stays, and the history shows it.",
        "Repeat the request. You will not be charged again.",
    )


def internal() -> Problem:
    return Problem(
        500,
        "internal",
        "The server failed unexpectedly. It does not show the error, which could quote the data.",
        "Tell the curator when this happened. The server's log shows where it failed.",
    )


def error_location(error: BaseException) -> str:
    """An error's class and the file and line it came from; never its text."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "dpxplain" in Path(frame.filename).parts]
    lines = dict.fromkeys(f"{Path(f.filename).name}:{f.lineno}" for f in (*ours[-1:], *frames[-1:]))
    return f"{type(error).__name__} at {', '.join(lines)}"


def as_problem(error: BaseException) -> Problem:
    """Any exception as a problem; unforeseen ones are logged by class and location."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, LedgerUnavailable):  # logged by LedgerHealth, once for an outage
        return ledger_unavailable(may_pass=error.may_pass)
    if isinstance(error, DPXPlainError):
        status = _http_status(error)
        if status is not None:
            problem = Problem(status, "", "")
            problem.shape = error.to_dict()
            return problem
    LOG.error("unexpected error: %s", error_location(error))
    return internal()


def respond(error: BaseException) -> Response:
    problem = as_problem(error)
    return JSONResponse(problem.shape, problem.status, headers=problem.headers)


def install(app: FastAPI, methods: Callable[[dict[str, Any], str], str]) -> None:
    """Installs handlers for problems and for the errors that FastAPI and Starlette raise themselves."""

    async def handle_own_error(_request: Request, error: Exception) -> Response:
        return respond(error)

    async def handle_http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        problem = _http_problem(error)
        if problem.status == 405:  # Starlette names the methods of one route, not of the address
            problem.headers = {"Allow": methods(app.openapi(), request.url.path)}
        return respond(problem)

    async def handle_invalid_request(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        message = _validation_message(error.errors())
        return respond(Problem(400, "bad_request", message, "See the API's documentation."))

    app.add_exception_handler(Problem, handle_own_error)
    app.add_exception_handler(DPXPlainError, handle_own_error)
    app.add_exception_handler(HTTPException, handle_http_error)
    app.add_exception_handler(RequestValidationError, handle_invalid_request)


def _http_status(error: DPXPlainError) -> int | None:
    if isinstance(error, BudgetExhausted | DataChanged | LedgerBehind):
        return 409
    if isinstance(error, CuratorOnly):
        return 403
    if isinstance(error, UnknownMeasurement):
        return 404
    return 400 if isinstance(error, BadRequest) else None


def _http_problem(error: HTTPException) -> Problem:
    status = error.status_code
    if status == 404:
        return not_found()
    if status == 405:
        return Problem(
            405,
            "method_not_allowed",
            "This address does not support this method.",
            "See the API's documentation.",
        )
    if status == 413:
        return too_large()
    if status >= 500:
        return internal()
    code = HTTPStatus(status).phrase.lower().replace(" ", "_")
    return Problem(
        status, code, "The request could not be read.", "Send JSON in UTF-8.", headers=error.headers
    )


def _validation_message(errors: Sequence[Any]) -> str:
    """Which keys are wrong and why, without their values, which could be secrets."""
    mistakes = []
    for error in errors[:5]:
        keys = [str(part) for part in error["loc"] if part != "body"]
        key = ".".join(keys) if keys and error["type"] != "json_invalid" else "the body"
        messages = {
            "missing": "is missing",
            "extra_forbidden": "is not a known key",
            "json_invalid": "is not valid JSON",
        }
        if error["type"] == "extra_forbidden" and keys and keys[-1] in ("epsilon", "eps"):
            mistakes.append(f"{key[:100]}: is not a known key; use rho")
            continue
        message = messages.get(error["type"]) or str(error["msg"]).removeprefix("Value error, ")
        mistakes.append(f"{key[:100]}: {message[0].lower() + message[1:]}")
    return f"In the request: {'; '.join(mistakes)}."


# -- Positions in a schema ---------------------------------------------------------------------------------

_KEY_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_KEY_PATH = rf"{_KEY_NAME}(?:[ \t]*\.[ \t]*{_KEY_NAME})*"
_HEADER_OR_KEY = re.compile(
    rf"[ \t]*(?:\[\[?[ \t]*(?P<table>{_KEY_PATH})[ \t]*\]|(?P<key>{_KEY_PATH})[ \t]*=)"
)
_TOML_UNREADABLE = "cannot be read here; a quote or bracket may be missing, or a key may be given twice"


def schema_problems(text: str, error: SchemaError) -> list[SchemaProblem]:
    """One problem per refused key, or one at the place where the text stops being TOML."""
    if error.place is not None:
        return [
            SchemaProblem(key="TOML", message=_TOML_UNREADABLE, position=_rest_of_line(text, *error.place))
        ]
    positions = key_positions(text) if error.mistakes else {}
    return [
        SchemaProblem(key=key, message=message, position=_nearest_position(positions, key))
        for key, message in error.mistakes
    ]


def key_position(text: str, key: str) -> Position | None:
    """Where a key of the schema is declared, or the innermost table around it."""
    return _nearest_position(key_positions(text), key)


def key_positions(text: str) -> dict[str, Position]:
    """The position of every table and key of a TOML text, by full name; a table without a header is at its
    first key.

    >>> key_positions("[columns.pay]\\nbounds = [9, 1]")["columns.pay.bounds"]
    {'line': 2, 'column': 1, 'start': 14, 'end': 29}
    """
    positions: dict[str, Position] = {}
    table: list[str] = []
    line_start = 0
    for line, content in enumerate(text.split("\n"), start=1):
        position = _line_position(content, line, line_start, 1)
        line_start += len(content) + 1
        match = _HEADER_OR_KEY.match(content)
        if match is None:
            continue
        names = [name.strip("\"'") for name in re.findall(_KEY_NAME, match["table"] or match["key"])]
        if match["table"]:
            table = path = names
        else:
            path = [*table, *names]
        for length in range(1, len(path) + 1):
            positions.setdefault(".".join(path[:length]), position)
    return positions


def _nearest_position(positions: dict[str, Position], key: str) -> Position | None:
    """The position of a key, or of the innermost table around a missing one."""
    while key and key not in positions:
        key = key.rpartition(".")[0]
    return positions.get(key)


def _rest_of_line(text: str, line: int, column: int) -> Position:
    """The position from a column to the end of its line; the whole line if nothing is left to mark."""
    lines = text.split("\n")
    line = min(line, len(lines))
    content = lines[line - 1]
    return _line_position(content, line, sum(len(other) + 1 for other in lines[: line - 1]), column)


def _line_position(content: str, line: int, line_start: int, column: int) -> Position:
    indent = len(content) - len(content.lstrip())
    end = len(content.rstrip())
    first = max(column - 1, indent) if column - 1 < end else min(indent, end)
    return Position(line=line, column=first + 1, start=line_start + first, end=line_start + end)


# -- Refused credentials -----------------------------------------------------------------------------------
#
# A reason code for the log and the metrics, and a sentence for the caller.
#
# For tokens of our own all reasons share one sentence, so that a caller cannot learn which tokens exist.
# For an issuer's token the sentence gives the reason, which tells its holder nothing new.

_ISSUER_RETRY_SECONDS = 10
_NEW_TOKEN = "Get a new token where your organisation signs you in."
_TELL_CURATOR = "Tell the curator. The server's log has the reason."


class Refusal(NamedTuple):
    """Why a credential was refused."""

    reason: str

    def problem(self) -> Problem:
        if self.reason == "keys":
            seconds = _ISSUER_RETRY_SECONDS
            return Problem(
                503,
                "issuer_unavailable",
                "The server cannot check your token: it cannot fetch the OIDC issuer's keys at the moment.",
                f"Try again in {seconds} seconds. If it still fails, "
                f"{_TELL_CURATOR[0].lower()}{_TELL_CURATOR[1:]}",
                headers={"Retry-After": str(seconds)},
            )
        message, remedy = _SENTENCES.get(self.reason, _GENERAL_SENTENCES)
        return Problem(401, "unauthorized", message, remedy, headers={"WWW-Authenticate": "Bearer"})


_GENERAL_SENTENCES = (
    "This needs a valid token.",
    "Sign in, or send the header Authorization: Bearer TOKEN. The curator can give you a token.",
)
_SENTENCES = {
    "malformed": ("This token comes neither from this server nor from its OIDC issuer.", _NEW_TOKEN),
    "kid": (
        "The token is signed with a key that the OIDC issuer does not publish.",
        f"{_NEW_TOKEN} {_TELL_CURATOR}",
    ),
    "algorithm": ("This server does not accept the token's kind of signature.", _TELL_CURATOR),
    "signature": ("The signature of the token is not valid.", _NEW_TOKEN),
    "expiry": ("The token of the OIDC issuer has expired.", _NEW_TOKEN),
    "not_yet": ("The token of the OIDC issuer is not valid yet.", f"Try again in a minute. {_TELL_CURATOR}"),
    "audience": ("The token was made for another application.", f"{_NEW_TOKEN} {_TELL_CURATOR}"),
    "issuer": ("This server does not trust the token's issuer.", _NEW_TOKEN),
    "claim": ("The token lacks a name, an audience or an expiry time.", _TELL_CURATOR),
    "name": ("This server cannot use the token's name as an account name.", _TELL_CURATOR),
    "role": (
        "The token is valid, but none of its roles may use this server.",
        "Ask your organisation, or the curator, for a role that may use it.",
    ),
    "oidc_off": (
        "This server accepts only its own tokens, which begin with dpx_.",
        "Ask the curator for one.",
    ),
}
NONE = Refusal("none")
"""No credential was sent."""
FORM = Refusal("form")
"""Not a bearer token, empty or too long."""
TOKEN = Refusal("token")
"""A token of ours that is unknown, expired or revoked, or a wrong key of a single user's server."""
SESSION = Refusal("session")
"""A browser session that has ended, or of an issuer that is not trusted any more."""
