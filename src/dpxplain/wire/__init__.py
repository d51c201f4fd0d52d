"""The JSON format that history, server and client share."""

PROTOCOL = 4
"""Its version, raised whenever a key, a release or a request changes its meaning. Both sides must agree."""

PROTOCOL_HEADER = "DPXPlain-Protocol"
