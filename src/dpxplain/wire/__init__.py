"""One JSON language for history, server and client."""

PROTOCOL = 4
"""Its version: raised whenever a key, a release or a request changes its meaning; both sides must agree."""

PROTOCOL_HEADER = "DPXPlain-Protocol"
