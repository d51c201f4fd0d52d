"""Prints the server's OpenAPI document, from which `make types` generates the page's types."""

from __future__ import annotations

import json

from dpxplain.ledger.ledger import open_ledger
from dpxplain.server.app import create_app, example_config


def document() -> str:
    ledger = open_ledger(None)
    app = create_app(example_config("adult"), ledger)
    try:
        return json.dumps(app.openapi())
    finally:
        app.state.server.close()
        ledger.close()


if __name__ == "__main__":
    print(document())
