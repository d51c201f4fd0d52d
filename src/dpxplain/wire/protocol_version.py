"""The version of the JSON language between client and server."""

PROTOCOL = 3
"""Raised whenever a key, a release or a request changes its meaning; both sides must have the same."""

PROTOCOL_HEADER = "DPXPlain-Protocol"
