"""Why a credential was refused: a reason code for the log and the metrics, and a sentence for the caller.

For tokens of our own all reasons share one sentence, so that a caller cannot learn which tokens exist. For an
issuer's token the sentence gives the reason, which tells its holder nothing new.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from dpxplain.server.problems import Problem

LOG = logging.getLogger("dpxplain.server")
_ISSUER_RETRY_SECONDS = 10
_NEW_TOKEN = "Get a new token where your organisation signs you in."
_TELL = "Tell the curator. The server's log has the reason."


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
                f"Try again in {seconds} seconds. If it still fails, {_TELL[0].lower()}{_TELL[1:]}",
                headers={"Retry-After": str(seconds)},
            )
        message, remedy = _SENTENCES.get(self.reason, _GENERAL)
        return Problem(401, "unauthorized", message, remedy, headers={"WWW-Authenticate": "Bearer"})


_GENERAL = (
    "This needs a valid token.",
    "Sign in, or send the header Authorization: Bearer TOKEN. The curator can give you a token.",
)
_SENTENCES = {
    "malformed": ("This token comes neither from this server nor from its OIDC issuer.", _NEW_TOKEN),
    "kid": ("The token is signed with a key that the OIDC issuer does not publish.", f"{_NEW_TOKEN} {_TELL}"),
    "algorithm": ("This server does not accept the token's kind of signature.", _TELL),
    "signature": ("The signature of the token is not valid.", _NEW_TOKEN),
    "expiry": ("The token of the OIDC issuer has expired.", _NEW_TOKEN),
    "not_yet": ("The token of the OIDC issuer is not valid yet.", f"Try again in a minute. {_TELL}"),
    "audience": ("The token was made for another application.", f"{_NEW_TOKEN} {_TELL}"),
    "issuer": ("This server does not trust the token's issuer.", _NEW_TOKEN),
    "claim": ("The token lacks a name, an audience or an expiry time.", _TELL),
    "name": ("This server cannot use the token's name as an account name.", _TELL),
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
