"""Budget does not come back: a ledger behind its anchor is not charged until the loss is declared."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import shutil
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from ledger_contract import reserve, restored

from dpxplain.cli import run
from dpxplain.errors import BadRequest, LedgerBehind, SchemaError, SourceError
from dpxplain.ledger import anchor_guard
from dpxplain.ledger.anchor_guard import AnchorFile, Head, Mark
from dpxplain.ledger.ledger import open_ledger


@pytest.fixture
def anchor(tmp_path: Path) -> Path:
    """A second place for the anchor, on either database."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder / "people.anchor"


@pytest.fixture
def opened(address, anchor):
    """Opens the ledger with the anchor, or another one, and closes it after the test."""
    ledgers = []

    def open_again(file=anchor, **options):
        ledger = open_ledger(address, anchor=file, **options)
        ledgers.append(ledger)
        ledger.open_dataset("adult", 1.0, 1e-6)
        return ledger

    yield open_again
    for ledger in ledgers:
        ledger.close()


def spend(ledger, rho, key="k", analyst=""):
    account = ledger.account(analyst, default_limit=1.0)
    entry = reserve(account, rho, key)
    account.release(entry, json.dumps(key))
    return entry


@pytest.fixture
def rolled_back(opened, tmp_path):
    """A ledger that has forgotten 0.3 of ann and 0.2 of the local owner: 0.1 each is left in it."""
    ledger = opened()
    spend(ledger, 0.1, "first", "ann")
    spend(ledger, 0.1, "first")
    ledger.recovery.backup(tmp_path / "older.sqlite")
    spend(ledger, 0.3, "second", "ann")
    spend(ledger, 0.2, "second")
    restored(ledger, tmp_path / "older.sqlite", by="carol")
    return ledger


def test_restored_backup_is_not_charged_and_the_refusal_tells_no_numbers(rolled_back, caplog):
    with pytest.raises(LedgerBehind) as refusal, caplog.at_level(logging.ERROR):
        spend(rolled_back, 0.3, "second", "ann")
    assert "Nothing was charged" in str(refusal.value)
    assert not any(character.isdigit() for character in str(refusal.value))
    (line,) = caplog.records
    assert line.levelname == "ERROR"
    assert "new queries are blocked" in line.getMessage()
    with pytest.raises(LedgerBehind):
        spend(rolled_back, 0.01, "other", "bob")
    assert len(caplog.records) == 1  # a refused crowd does not fill the log
    assert rolled_back.budget("adult").spent == 0.2
    assert rolled_back.find("adult", "first")[1] == '"first"'  # stored answers stay free
    (problem,) = rolled_back.verify_audit().problems
    assert problem == rolled_back.recovery.anchor_problem()
    assert "older copy" in problem


def test_loss_is_charged_in_full_to_whom_it_was_and_then_the_ledger_goes_on(rolled_back, opened):
    lost = [(loss.dataset, loss.analyst, loss.units) for loss in rolled_back.recovery.losses()]
    assert lost == [("adult", "", 200_000_000_000), ("adult", "ann", 300_000_000_000)]
    rolled_back.recovery.declare_loss(reason="disk failed", by="carol")
    assert rolled_back.budget("adult").spent == 0.7
    ann = rolled_back.account("ann", default_limit=1.0)
    assert ann.budget("adult").spent == 0.4
    (loss,) = [entry for entry in ann.history("adult") if entry.kind == "loss"]
    assert (loss.rho, loss.state, loss.analyst) == (0.3, "released", "ann")
    assert all(entry.analyst == "ann" for entry in ann.history("adult"))
    records = rolled_back.audit()
    assert [record.action for record in records[-3:]] == ["loss charged", "loss charged", "loss declared"]
    assert records[-1].details["reason"] == "disk failed"
    assert rolled_back.failures.counted("adult", "ann") == {}
    spend(rolled_back, 0.1, "second", "ann")  # fresh noise, under the budget that is left
    assert rolled_back.verify_audit().problems == []
    assert opened().recovery.anchor_problem() is None
    with pytest.raises(BadRequest, match=r"Nothing was lost.*older copies.*--everything"):
        rolled_back.recovery.declare_loss(reason="again", by="carol")


def test_declared_loss_leaves_no_delta_and_shows_what_may_have_been_spent(rolled_back):
    delta = rolled_back.budget("adult").delta
    assert rolled_back.budget("adult").discovered_delta == 0
    rolled_back.recovery.declare_loss(reason="disk failed", by="carol")
    assert rolled_back.spent_delta("adult") == math.inf
    assert rolled_back.budget("adult").discovered_delta == delta
    with pytest.raises(SchemaError, match="has already spent"):
        rolled_back.open_dataset("adult", 2.0, delta / 2)


def test_numbers_of_lost_entries_are_not_given_again(rolled_back):
    rolled_back.recovery.declare_loss(reason="disk failed", by="carol")
    assert min(e.id for e in rolled_back.history("adult") if e.kind == "loss") > 4
    assert spend(rolled_back, 0.01, "new") > 6


def test_declaring_again_after_a_crash_before_the_new_anchor_charges_nothing_twice(rolled_back, monkeypatch):
    def crash(*_, **__):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(AnchorFile, "replace", crash)
        with pytest.raises(SourceError, match="Declare it again"):
            rolled_back.recovery.declare_loss(reason="disk failed", by="carol")
    with pytest.raises(LedgerBehind):
        spend(rolled_back, 0.1)
    assert rolled_back.recovery.declare_loss(reason="disk failed", by="carol") == []
    spend(rolled_back, 0.1)
    assert rolled_back.budget("adult").spent == 0.8
    assert rolled_back.verify_audit().problems == []


def test_machines_with_anchors_of_their_own_accept_a_ledger_that_is_ahead(opened, anchor, tmp_path):
    here, there = opened(), opened(tmp_path / "there.anchor")
    for number in range(3):
        spend(here, 0.01, f"here {number}", "ann")
        spend(there, 0.01, f"there {number}", "bob")
    assert here.recovery.anchor_problem() is None
    spend(here, 0.01, "last", "ann")
    kept = AnchorFile(anchor).read()
    assert kept.spent == {"adult": {"ann": 40_000_000_000, "bob": 30_000_000_000}}  # also what others charged


def test_what_the_ledger_charged_after_it_was_put_back_is_charged_on_top_of_the_loss(opened, tmp_path):
    here, there = opened(), opened(tmp_path / "there.anchor")
    spend(there, 0.1, "first", "ann")
    spend(here, 0.1, "second", "ann")
    here.recovery.backup(tmp_path / "older.sqlite")
    spend(here, 0.3, "third", "ann")
    restored(here, tmp_path / "older.sqlite", by="carol")
    spend(there, 0.2, "fourth", "ann")  # whose anchor is older than the backup
    with pytest.raises(LedgerBehind):
        spend(here, 0.1, "fifth", "ann")
    here.recovery.declare_loss(reason="disk failed", by="carol")
    assert here.account("ann", default_limit=1.0).budget("adult").spent == 0.7
    assert here.verify_audit().problems == []
    spend(there, 0.1, "sixth", "ann")


def test_shared_anchor_of_several_writers_ends_at_the_last_charge(opened, address, anchor):
    failures = []

    def work(number):
        try:
            with closing(open_ledger(address, anchor=anchor)) as own:
                for _ in range(10):
                    spend(own, 0.001, str(number), f"analyst {number}")
        except Exception as error:
            failures.append(error)

    ledger = opened()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    kept = AnchorFile(anchor).read()
    assert kept.spent == {"adult": {f"analyst {number}": 10_000_000_000 for number in range(4)}}
    assert ledger.recovery.anchor_problem() is None


DYING = """
import os, sys
from dpxplain.ledger.anchor_guard import AnchorFile
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import Charge, Request
ledger = open_ledger(sys.argv[1], anchor=sys.argv[2])
AnchorFile.append = lambda *_: os._exit(9)
ledger.reserve("adult", Charge("query", "dying", Request("q"), 0.25))
"""


@pytest.mark.process
def test_process_killed_between_its_charge_and_the_anchor_leaves_a_ledger_that_goes_on(
    opened, address, anchor, tmp_path
):
    ledger = opened()
    spend(ledger, 0.1)
    ledger.recovery.backup(tmp_path / "older.sqlite")
    before = anchor.read_text()
    died = subprocess.run([sys.executable, "-c", DYING, address, str(anchor)], check=False)
    assert died.returncode == 9
    assert anchor.read_text() == before
    assert ledger.budget("adult").spent == 0.35  # charged; nothing was measured for it
    # An older copy without that charge is no loss, as no answer came out of it.
    restored(ledger, tmp_path / "older.sqlite", by="carol")
    assert ledger.recovery.anchor_problem() is None
    spend(ledger, 0.1, "next")
    assert ledger.recovery.anchor_problem() is None
    assert len(anchor.read_text().splitlines()) == len(before.splitlines()) + 1


def test_line_cut_short_by_a_crash_is_ignored_and_replaced(opened, anchor):
    ledger = opened()
    spend(ledger, 0.1)
    whole = anchor.read_bytes()
    with anchor.open("ab") as stream:
        stream.write(b'{"records": 99, "head": "ab')
    for user in (ledger, opened()):
        assert user.recovery.anchor_problem() is None
        spend(user, 0.1, "again")
    lines = anchor.read_bytes()
    assert lines.startswith(whole)
    assert b"99" not in lines.splitlines()[2][:15]
    assert all(json.loads(line) for line in lines.splitlines())


def test_full_disk_wastes_one_charge_and_then_refuses_before_charging(opened, monkeypatch):
    ledger = opened()
    spend(ledger, 0.1)

    def full(_):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(anchor_guard.os, "fsync", full)
        with pytest.raises(SourceError, match="The charge stays"):
            reserve(ledger, 0.1, "wasted")
        for _ in range(3):
            with pytest.raises(SourceError, match="Nothing was charged"):
                reserve(ledger, 0.1, "refused")
    assert ledger.budget("adult").spent == 0.2
    spend(ledger, 0.1, "better")
    assert ledger.recovery.anchor_problem() is None


def test_anchor_in_a_folder_that_is_missing_is_refused_before_anything_is_charged(opened, tmp_path):
    ledger = opened(tmp_path / "not mounted" / "people.anchor")
    with pytest.raises(SourceError, match="Nothing was charged") as refusal:
        reserve(ledger, 0.1)
    assert str(tmp_path) not in str(refusal.value)
    assert ledger.budget("adult").spent == 0.0
    with pytest.raises(SourceError):
        ledger.recovery.keep_anchor()


def test_anchor_that_cannot_be_read_stops_charges_until_everything_is_charged(opened, anchor):
    ledger = opened()
    spend(ledger, 0.1)
    anchor.write_text(anchor.read_text() + "nonsense\n")
    other = opened(is_recovery=True)
    with pytest.raises(LedgerBehind):
        spend(other, 0.1, "next")
    with pytest.raises(BadRequest, match="nobody can know"):
        other.recovery.declare_loss(reason="damaged", by="carol")
    (loss,) = other.recovery.declare_loss(reason="damaged", by="carol", everything=True)
    assert (loss.dataset, loss.analyst, loss.units) == ("adult", "", 900_000_000_000)
    assert other.budget("adult").remaining == 0.0
    other.top_up("adult", 0.5, reason="approved", by="carol")
    spend(other, 0.5, "next")
    assert other.verify_audit().problems == []


def test_anchor_that_was_deleted_under_a_running_ledger_is_written_again(opened, anchor, tmp_path):
    ledger = opened()
    spend(ledger, 0.1)
    ledger.recovery.backup(tmp_path / "older.sqlite")
    spend(ledger, 0.1, "second")
    anchor.unlink()
    spend(ledger, 0.1, "third")
    assert AnchorFile(anchor).read().spent == {"adult": {"": 300_000_000_000}}
    anchor.unlink()
    restored(ledger, tmp_path / "older.sqlite", by="carol")
    with pytest.raises(LedgerBehind):
        spend(ledger, 0.1, "fourth")


def test_switched_off_anchor_leaves_no_file(opened, tmp_path):
    ledger = opened("off")
    spend(ledger, 0.1)
    assert ledger.recovery.anchor_file is None
    assert not list(tmp_path.rglob("*.anchor"))
    with pytest.raises(BadRequest, match="Without an anchor"):
        ledger.recovery.losses()


def test_anchor_is_for_its_owner_only(opened, anchor):
    spend(opened(), 0.1, analyst="ann")
    assert stat.S_IMODE(anchor.stat().st_mode) == 0o600


@pytest.fixture
def workspace(tmp_path):
    """A SQLite ledger at its usual place with something spent, and its anchor beside it."""
    place = tmp_path / ".dpxplain" / "ledger.sqlite"
    with closing(open_ledger(place)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        spend(ledger, 0.4)
        shutil.copyfile(place, tmp_path / "cp.sqlite")  # without its journal
    assert (place.parent / "ledger.anchor").exists()
    return place


def test_plain_copy_that_is_empty_or_behind_is_not_taken_for_the_ledger(workspace, tmp_path, capsys):
    shutil.copyfile(tmp_path / "cp.sqlite", workspace)
    with pytest.raises(SourceError, match=r"is empty, but its anchor was written at record 2") as refusal:
        open_ledger(workspace)
    assert run(["audit", "verify", "--ledger", str(workspace)]) == 2
    out = capsys.readouterr().out
    assert "".join(refusal.value.problem.split()) in "".join(out.split())  # a path may be wrapped
    assert "0 records, BROKEN" in " ".join(out.split())


def test_plain_copy_that_is_empty_is_not_called_intact_where_no_anchor_tells_of_it(
    workspace, tmp_path, capsys
):
    elsewhere = tmp_path / "elsewhere" / "cp.sqlite"
    elsewhere.parent.mkdir()
    shutil.copyfile(tmp_path / "cp.sqlite", elsewhere)
    assert run(["audit", "verify", "--ledger", str(elsewhere)]) == 2
    said = capsys.readouterr()
    assert "the log is empty" in said.out
    assert "intact" not in said.out
    assert "dpxplain ledger backup" in " ".join(said.err.split())
    assert run(["audit", "verify", "--json", "--ledger", str(elsewhere)]) == 2
    assert json.loads(capsys.readouterr().out)["intact"] is False


def test_ledger_that_is_gone_is_not_made_anew_until_the_loss_is_declared(workspace, capsys):
    workspace.unlink()
    with pytest.raises(SourceError, match="is gone, but its anchor"):
        open_ledger(workspace)
    assert not workspace.exists()
    at = ("--ledger", str(workspace))
    assert run(["ledger", "declare-loss", "--reason", "no backup", *at]) == 0
    with closing(open_ledger(workspace)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        assert ledger.budget("adult").spent == 0.4
        spend(ledger, 0.1)
        assert ledger.verify_audit().problems == []


def test_commands_tell_what_a_restored_backup_lacks_and_declare_it(address, anchor, tmp_path, capsys):
    at = ("--ledger", address, "--anchor", str(anchor))
    with closing(open_ledger(address, anchor=anchor)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        spend(ledger, 0.25, "first", "ann")
        assert run(["ledger", "backup", str(tmp_path / "older.sqlite"), *at]) == 0
        spend(ledger, 0.5, "second", "ann")
        assert run(["ledger", "status", *at]) == 0
        assert run(["ledger", "declare-loss", "--reason", "none", *at]) == 2
        capsys.readouterr()
        assert run(["ledger", "restore", str(tmp_path / "older.sqlite"), "--replace", *at, "--json"]) == 0
        restored = json.loads(capsys.readouterr().out)
        assert restored["lost"] == [{"dataset": "adult", "analyst": "ann", "rho": 0.5}]
        assert "older copy" in restored["behind"]
        assert run(["ledger", "status", *at]) == 2
        assert "0.5" in capsys.readouterr().out
        assert run(["audit", "verify", *at]) == 2
        assert run(["ledger", "backup", str(tmp_path / "behind.sqlite"), *at]) == 2
        with pytest.raises(LedgerBehind):
            spend(ledger, 0.5, "second", "ann")
        declaration = ("ledger", "declare-loss", "--reason", "disk failed", *at, "--json")
        capsys.readouterr()
        assert run([*declaration, "--dry-run"]) == 0
        assert json.loads(capsys.readouterr().out)["charged"] is False
        assert ledger.budget("adult").spent == 0.25
        assert run(declaration) == 0
        assert json.loads(capsys.readouterr().out)["lost"] == restored["lost"]
        assert ledger.budget("adult").spent == 0.75
        spend(ledger, 0.25, "third", "ann")
    assert run(["audit", "verify", *at]) == 0


def test_long_history_is_compacted_and_still_says_the_same(anchor, monkeypatch):
    monkeypatch.setattr(anchor_guard, "_BYTES_BEFORE_COMPACTION", 2_000)
    monkeypatch.setattr(anchor_guard, "_NEWEST_HEADS", 10)
    file = AnchorFile(anchor)
    reader = AnchorFile(anchor)
    for number in range(1, 300):
        spent = {"adult": {f"analyst {number % 3}": number}}
        file.append(Mark(Head(number, f"{number:064}"), number, "2030-01-01T00:00:00+00:00", spent))
        kept = reader.read()
        assert kept.head == Head(number, f"{number:064}")
    assert kept == AnchorFile(anchor).read() == file.read()
    assert kept.spent == {"adult": {"analyst 0": 297, "analyst 1": 298, "analyst 2": 299}}
    assert kept.heads[-10:] == [Head(number, f"{number:064}") for number in range(290, 300)]
    assert anchor.stat().st_size < 20_000
    assert [path.name for path in anchor.parent.iterdir()] == [anchor.name]


def test_charge_does_not_take_longer_with_a_longer_history(tmp_path):
    """Counted in the steps of SQLite's virtual machine, which do not depend on how busy the machine is."""
    with closing(open_ledger(tmp_path / "ledger.sqlite")) as ledger:
        ledger.open_dataset("adult", 1000.0, 1e-6)

        def steps() -> int:
            count = 0

            def step() -> None:
                nonlocal count
                count += 1

            with ledger.store.reading() as connection:
                driver = connection.connection.driver_connection
            driver.set_progress_handler(step, 1)
            spend(ledger, 0.001, "counted")
            driver.set_progress_handler(None, 1)
            return count

        spend(ledger, 0.001)
        few = steps()
        for _ in range(300):
            spend(ledger, 0.001)
        assert steps() <= 1.1 * few
        file = ledger.recovery.anchor_file
        assert file.stat().st_size < 302 * 300
    assert os.path.exists(file)
