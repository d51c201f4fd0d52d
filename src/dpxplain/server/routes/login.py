"""Who am I, and signing in and out of the page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from dpxplain.errors import BadRequest, LedgerUnavailable
from dpxplain.ledger.protocol import Identity
from dpxplain.server.authenticate import PREFIX, AnyCaller
from dpxplain.server.context import Server, ServerDep
from dpxplain.server.limits import check_rate
from dpxplain.server.oidc import Caller
from dpxplain.server.openapi import answers, failures
from dpxplain.server.problems import TOKEN, Refusal
from dpxplain.server.records import Me
from dpxplain.server.requests import SignIn

router = APIRouter(tags=["Entering"], prefix=PREFIX)


@router.get("/me", responses=answers(Me, "Your identity; name is null if you are not signed in."))
async def me(request: Request, server: ServerDep) -> Any:
    """Your name and role, as the server knows them."""
    return JSONResponse(_me(request.state.caller, single_user=server.config.single_user))


@router.post("/session", responses=answers(Me, "Signed in. The response sets a cookie."))
async def sign_in(request: Request, body: SignIn, server: ServerDep) -> Any:
    """Sign a browser in with a token. The session ends when the token expires."""
    authenticator, token = server.authenticator, body.token.strip()
    caller = await run_sync(authenticator.bearer, token, limiter=authenticator.threads_for(token))
    if isinstance(caller, Refusal):
        server.note_refusal(request.scope, caller)
        raise caller.problem()
    if authenticator.single_user:
        response = JSONResponse(_me(caller, single_user=True))
        set_cookie(request, response, server, authenticator.key)
        return response
    check_rate(server.rates.sign_ins, caller.id)
    try:
        text = await run_sync(_open_session, server, caller, limiter=authenticator.threads)
    except LedgerUnavailable:
        raise
    except BadRequest:  # the token has ended since it was verified
        refusal = TOKEN if caller.issuer is None else Refusal("expiry")
        server.note_refusal(request.scope, refusal)
        raise refusal.problem() from None
    response = JSONResponse(_me(caller, single_user=False))
    set_cookie(request, response, server, text)
    return response


def _open_session(server: Server, caller: Caller) -> str:
    """Open a browser session and return its secret."""
    assert caller.expires is not None  # only a single user's key has no end
    identity = Identity(caller.name, caller.role, caller.expires, caller.token, issuer=caller.issuer)
    lifetime = timedelta(hours=server.config.limits.session_hours)
    return server.ledger.sessions.open(identity, lifetime=lifetime)[1]


@router.delete("/session", status_code=204, responses=failures(), response_class=Response)
def sign_out(request: Request, caller: AnyCaller, server: ServerDep) -> Response:
    """End the browser's session."""
    if caller.session is not None:
        server.ledger.sessions.end(caller.session)
    response = Response(status_code=204)
    set_cookie(request, response, server, "", max_age=0)
    return response


def _me(caller: Caller | None, *, single_user: bool) -> Me:
    if caller is None:
        return Me(name=None, role=None, single_user=single_user, signed_in=False)
    name = "you" if single_user else caller.name
    role: Any = caller.role
    return Me(name=name, role=role, single_user=single_user, signed_in=True)


def set_cookie(
    request: Request, response: Response, server: Server, text: str, max_age: int | None = None
) -> None:
    response.set_cookie(
        server.authenticator.cookie_name(request.headers),
        text,
        max_age=max_age,
        path="/",
        secure=server.config.server.secure,
        httponly=True,
        samesite="strict",
    )
