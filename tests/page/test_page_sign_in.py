"""Signing in with an organisation's token: it opens a session, and a refused one says why."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_steps import Visit
from playwright.sync_api import expect

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))  # for oidc_issuer

from oidc_issuer import AUDIENCE, Issuer, running_issuer

from server_fixture import RunningServer, config_of, running_server


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer() as running:
        yield running


@pytest.fixture
def organisation(issuer: Issuer, tmp_path: Path) -> Iterator[RunningServer]:
    settings = {"issuer": issuer.url, "audience": AUDIENCE, "analyst_values": ["science"]}
    with running_server(config_of(tmp_path, oidc=settings)) as server:
        yield server


def test_an_organisations_token_opens_a_session_and_a_refused_one_says_why(
    organisation: RunningServer, issuer: Issuer, visit: Visit
) -> None:
    page = visit(organisation, expecting=("status of 401",))
    field, button = page.get_by_label("Access token"), page.get_by_role("button", name="Sign in")
    refused = {
        issuer.token(exp=int(time.time()) - 120, roles=["science"]): "has expired",
        issuer.token(aud="other", roles=["science"]): "made for another application",
        issuer.token(roles=["cook"]): "none of its roles may use this server",
        "nonsense": "This token is not valid",
    }
    for token, sentence in refused.items():
        field.fill(token)
        button.click()
        expect(page.get_by_role("alert")).to_contain_text(sentence)
    field.fill(issuer.token(roles=["science"]))
    button.click()
    expect(page.get_by_text("oidc:olga").first).to_be_visible()
