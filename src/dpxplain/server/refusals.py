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
_TELL = "Tell the curator of this server; its log has the reason."


class Refusal(NamedTuple):
    """Why a credential was refused."""

    reason: str

    def problem(self) -> Problem:
        if self.reason == "keys":
            seconds = _ISSUER_RETRY_SECONDS
            return Problem(
                503,
                "issuer_unavailable",
                "The server cannot fetch the OIDC issuer's keys just now, so it cannot check your token.",
                f"Try again in {seconds} seconds. If that does not help: {_TELL}",
                headers={"Retry-After": str(seconds)},
            )
        message, remedy = _SENTENCES.get(self.reason, _GENERAL)
        return Problem(401, "unauthorized", message, remedy, headers={"WWW-Authenticate": "Bearer"})


_GENERAL = (
    "This needs a valid token.",
    "Sign in, or send the header Authorization: Bearer TOKEN; the curator makes tokens.",
)
_SENTENCES = {
    "malformed": ("This is neither a token of this server nor one of its OIDC issuer.", _NEW_TOKEN),
    "kid": ("The token is signed with a key that the OIDC issuer does not publish.", f"{_NEW_TOKEN} {_TELL}"),
    "algorithm": ("The token is signed in a way that this server does not accept.", _TELL),
    "signature": ("The signature of the token is not valid.", _NEW_TOKEN),
    "expiry": ("The token of the OIDC issuer has expired.", _NEW_TOKEN),
    "not_yet": ("The token of the OIDC issuer is not valid yet.", f"Try again in a minute. {_TELL}"),
    "audience": ("The token was made for another application than this server.", f"{_NEW_TOKEN} {_TELL}"),
    "issuer": ("The token is of another issuer than the one that this server trusts.", _NEW_TOKEN),
    "claim": ("The token lacks something that this server needs: a name, an audience or an expiry.", _TELL),
    "name": ("The token's name cannot be the name of an account here.", _TELL),
    "role": (
        "The token is genuine, but none of its roles may use this server.",
        "Ask for a role where your organisation gives them, or ask the curator.",
    ),
    "oidc_off": (
        "This server takes tokens of its own only, which begin with dpx_.",
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
