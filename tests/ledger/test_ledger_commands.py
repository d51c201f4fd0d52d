"""`dpxplain token`, `allow` and `audit` on every kind of ledger."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from ledger_contract import reserve

from dpxplain.cli import run
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.protocol import Identity
from dpxplain.model.charge import Charge, Ending, Request


@pytest.fixture
def dpxplain(address, capfd, monkeypatch):
    """The command line, in whose environment a ledger knows "adult"; returns code, out and err."""
    monkeypatch.setenv("DPXPLAIN_LEDGER", address)
    with closing(open_ledger(address)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)

    def call(*words):
        capfd.readouterr()
        code = run(words)
        return (code, *capfd.readouterr())

    return call


def test_token_is_printed_once_and_lets_its_holder_in(dpxplain, address):
    code, out, err = dpxplain("token", "create", "ann", "--expires", "2w", "--by", "carol")
    assert code == 0
    text = out.strip()
    assert re.fullmatch(r"dpx_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", text)
    assert text not in err
    with closing(open_ledger(address)) as ledger:
        identity = ledger.tokens.authenticate(text)
        assert (identity.name, identity.role) == ("ann", "analyst")
        assert timedelta(days=13) < identity.expires - datetime.now(UTC) < timedelta(days=15)
    _, listed, _ = dpxplain("token", "list")
    assert "ann" in listed
    assert text[-43:] not in listed


def test_token_comes_with_an_allowance_if_wanted(dpxplain):
    code, out, _ = dpxplain(
        *("token", "create", "ann", "--dataset", "adult", "--rho", "0.25", "--role", "curator", "--json")
    )
    made = json.loads(out)
    assert code == 0
    assert (made["kind"], made["name"], made["role"]) == ("token", "ann", "curator")
    assert made["token"].startswith(f"dpx_{made['id']}_")
    (ann,) = json.loads(dpxplain("allow", "list", "adult", "--json")[1])["analysts"]
    assert (ann["analyst"], ann["limit"], ann["remaining"]) == ("ann", 0.25, 0.25)


@pytest.mark.parametrize("address", ["file"], indirect=True)
@pytest.mark.parametrize(
    "words",
    [
        ("token", "create", "ann", "--dataset", "adult"),
        ("token", "create", "ann", "--dataset", "nobody", "--rho", "1"),
        ("token", "create", "ann", "--expires", "soon"),
        ("token", "create", "ann", "--expires", "999999w"),
        ("token", "create", "ann", "--expires", "0d"),
        ("token", "create", "ann", "--role", "admin"),
        ("token", "revoke", "nobody"),
        ("allow", "set", "adult", "ann", "--reason", "r"),
        ("allow", "set", "adult", "ann", "--rho", "0.1"),
        ("allow", "set", "adult", "ann", "--rho", "0.1", "--reason", " "),
        ("allow", "set", "nobody", "ann", "--rho", "0.1", "--reason", "r"),
        ("allow", "share", "adult", "ann", "ben", "--stop", "--reason", "r"),
    ],
)
def test_bad_wish_is_refused_and_leaves_no_record(dpxplain, words):
    code, out, err = dpxplain(*words)
    assert (code, out) == (2, "")
    assert "Error" in err
    assert "--dry-run" not in err  # these commands have none
    assert len(json.loads(dpxplain("audit", "show", "--json")[1])["records"]) == 1


def test_sessions_of_an_oidc_curator_are_ended_and_counted(dpxplain, address):
    olga = Identity("oidc:olga", "curator", datetime.now(UTC) + timedelta(hours=1), token=None)
    with closing(open_ledger(address)) as ledger:
        texts = [ledger.sessions.open(olga)[1]]
        code, _, err = dpxplain("token", "revoke", "--made-by", "oidc:olga")
        assert code == 0
        assert "OIDC browser sessions ended: 1." in " ".join(err.split())
        texts.append(ledger.sessions.open(olga)[1])
        _, out, _ = dpxplain("token", "revoke", "--made-by", "oidc:olga", "--json")
        assert json.loads(out) == {"kind": "revoked", "id": None, "ended": [], "oidc_sessions": 1}
        assert [ledger.sessions.authenticate(text) for text in texts] == [None, None]


def test_revoked_token_is_listed_as_such(dpxplain):
    made = json.loads(dpxplain("token", "create", "ann", "--json")[1])
    assert dpxplain("token", "revoke", made["id"], "--by", "carol")[0] == 0
    (token,) = json.loads(dpxplain("token", "list", "--json")[1])["tokens"]
    assert token["id"] == made["id"]
    assert token["revoked"] is not None


def test_allowances_are_set_raised_shared_and_listed(dpxplain):
    why = ("--reason", "study 7", "--by", "carol")
    assert dpxplain("allow", "set", "adult", "ann", "--rho", "0.5", "--expires", "2099-12-31", *why)[0] == 0
    assert dpxplain("allow", "top-up", "adult", "--rho", "0.1", "--analyst", "ann", *why)[0] == 0
    assert dpxplain("allow", "top-up", "adult", "--rho", "1", *why)[0] == 0
    code, out, _ = dpxplain("allow", "share", "adult", "ann", "*", *why)
    assert code == 0
    assert "2 of 2 left" in out
    assert "2099-12-31" in out
    assert "ann shares with *: study 7 (carol)" in out
    listed = json.loads(dpxplain("allow", "list", "adult", "--json")[1])
    assert listed["rho"] == {"limit": 2.0, "spent": 0.0, "remaining": 2.0}
    assert (listed["analysts"][0]["limit"], listed["analysts"][0]["by"]) == (0.6, "carol")
    assert listed["shares"][0]["reader"] == "*"
    assert "shares with" not in dpxplain("allow", "share", "adult", "ann", "*", "--stop", *why)[1]


@pytest.mark.parametrize(
    "words", [("ann", "--role", "analist"), ("ann", "--expires", "2020-01-01"), ("oidc:ann",)]
)
def test_refused_token_leaves_no_allowance(dpxplain, words):
    assert dpxplain("token", "create", *words, "--dataset", "adult", "--rho", "0.5")[0] != 0
    assert json.loads(dpxplain("allow", "list", "adult", "--json")[1])["analysts"] == []


def test_top_up_does_not_guess_what_a_server_allows_without_a_grant(dpxplain, address):
    with closing(open_ledger(address)) as ledger:
        reserve(ledger.account("ann", default_limit=1.0), 0.1)
    more = (
        "allow",
        "top-up",
        "adult",
        "--analyst",
        "ann",
        "--rho",
        "0.5",
        "--reason",
        "more",
        "--by",
        "carol",
    )
    code, _, err = dpxplain(*more)
    assert code != 0
    assert "dpxplain allow set adult ann" in err
    assert "as configured" in dpxplain("allow", "list", "adult")[1]
    (ann,) = json.loads(dpxplain("allow", "list", "adult", "--json")[1])["analysts"]
    assert (ann["analyst"], ann["limit"], ann["remaining"], ann["spent"]) == ("ann", None, None, 0.1)


def test_audit_is_shown_and_verified(dpxplain):
    dpxplain("allow", "set", "adult", "ann", "--rho", "0.5", "--reason", "study 7", "--by", "carol")
    code, out, _ = dpxplain("audit", "show")
    assert code == 0
    assert "granted" in out
    report = json.loads(dpxplain("audit", "verify", "--json")[1])
    assert (report["kind"], report["records"], report["intact"]) == ("audit-report", 2, True)
    code, out, _ = dpxplain("audit", "verify", "--head", report["head"])
    assert code == 0
    assert "2 records, intact" in out
    assert report["head"] in out
    records = json.loads(dpxplain("audit", "show", "--after", "1", "--json")[1])["records"]
    assert [record["hash"] for record in records] == [report["head"]]


def test_broken_log_has_exit_code_2(dpxplain):
    code, out, err = dpxplain("audit", "verify", "--head", "f" * 64)
    assert code == 2
    assert "cut off" in out
    assert "BROKEN" in out
    assert "backup" in err
    code, out, _ = dpxplain("audit", "verify", "--head", "f" * 64, "--json")
    assert (code, json.loads(out)["intact"]) == (2, False)


@pytest.mark.parametrize("address", ["file"], indirect=True)
def test_changed_charge_is_found_from_the_command_line(dpxplain, address):
    with closing(open_ledger(address)) as ledger:
        reserve(ledger, 0.5)
    with closing(sqlite3.connect(address)) as connection:
        connection.execute("DROP TRIGGER entries_keeps_its_rows_on_UPDATE")
        connection.execute("UPDATE entries SET charge_units = 1")
        connection.commit()
    code, out, _ = dpxplain("audit", "verify")
    assert code == 2
    assert "entry 1 was altered" in out


@pytest.mark.parametrize("address", ["file"], indirect=True)
def test_missing_ledger_is_not_made_by_looking_for_it(dpxplain, tmp_path):
    place = tmp_path / "nowhere" / "ledger.sqlite"
    code, _, err = dpxplain("audit", "verify", "--ledger", str(place))
    assert code == 2
    assert "does not exist" in err
    code, _, err = dpxplain("token", "create", "ann", "--ledger", str(place))
    assert (code, "--create" in err) == (2, True)
    assert not place.parent.exists()
    code, _, err = dpxplain("token", "create", "ann", "--ledger", str(place), "--create")
    assert (code, "is new" in err) == (0, True)
    assert place.exists()


@pytest.mark.parametrize("address", ["file"], indirect=True)
def test_password_is_never_shown(dpxplain):
    for words in (("audit", "show"), ("token", "create", "ann"), ("allow", "list", "adult")):
        for address in (
            "postgresql://ann:s3cret@localhost:1/x",
            "postgresql://ann:s3cret@localhost:s3cret/x",
        ):
            code, out, err = dpxplain(*words, "--ledger", address, "--debug")
            assert code == 2
            assert "s3cret" not in out + err
    assert "s3cret" not in "".join(map(str, dpxplain("token", "create", "--help")))


@pytest.mark.parametrize("address", ["file"], indirect=True)
@pytest.mark.parametrize(
    "command",
    [
        *("token create", "token list", "token revoke", "allow set", "allow top-up", "allow list"),
        *("allow share", "audit show", "audit verify"),
    ],
)
def test_every_command_has_help_with_an_example(dpxplain, command):
    code, out, _ = dpxplain(*command.split(), "--help")
    assert code == 0
    assert f"dpxplain {command}" in out
    assert "--json" in out
    assert "--ledger" in out
    assert "create" in dpxplain("token")[1]


def test_list_says_who_is_blocked_why_and_what_helps(dpxplain, address):
    with closing(open_ledger(address)) as ledger:
        ann = ledger.account("ann", default_limit=1.0)
        endings = (Ending.FAILED, Ending.FAILED, Ending.DIED, Ending.STOPPED)
        for number, ending in enumerate(endings):
            entry = ann.reserve_once("adult", Charge("query", str(number), Request("q"), 0.1))
            ann.abandon(entry.row, ending)
    code, out, err = dpxplain("allow", "list", "adult")
    assert code == 0
    reasons = "2 requests failed; the server died once"
    assert f"ann: 2 of 3 failures, if the server has the usual limit of 3. Failures: {reasons}." in " ".join(
        out.split()
    )
    assert "dpxplain allow forgive adult ann --reason WHY" in " ".join(err.split())
    (line,) = json.loads(dpxplain("allow", "list", "adult", "--json")[1])["analysts"]
    assert (line["failures"], line["crashes"], line["why"]) == (2, 1, reasons)
    assert dpxplain("allow", "forgive", "adult", "ann", "--reason", "a bad day")[0] == 0
    assert "blocked" not in dpxplain("allow", "list", "adult")[1]
