"""A backup is a consistent, verified copy, taken and put back while the ledger is in use."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
import threading
from contextlib import closing

import pytest
from ledger_contract import reserve, restored
from test_ledger_audit import change, live

from dpxplain.cli import run
from dpxplain.errors import BadRequest, BudgetExhausted, InternalError
from dpxplain.ledger.ledger import open_ledger

on_disk = pytest.mark.parametrize("place", ["file", "postgres"], indirect=True)


@pytest.fixture
def ledger(place):
    """Without an anchor, which would stop charges once a backup is restored."""
    with closing(open_ledger(place, anchor="off")) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        yield ledger


def contents(ledger):
    """What analysts and curators see of a ledger."""
    entries = ledger.history("adult")
    releases = [ledger.get("adult", entry.id) for entry in entries]
    return entries, releases, ledger.budget("adult"), ledger.shares("adult"), ledger.tokens.list()


def test_backup_of_every_ledger_is_a_ledger_with_the_same_rows_and_head(ledger, tmp_path):
    live(ledger)
    file = tmp_path / "copy.sqlite"
    report = ledger.recovery.backup(file)
    assert report.intact
    assert report == ledger.verify_audit()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob("*copy*")] == ["copy.sqlite"]
    with closing(open_ledger(file)) as copy:
        assert contents(copy) == contents(ledger)
        assert copy.verify_audit(report.head).intact


@on_disk
def test_restored_ledger_has_the_rows_of_the_backup_and_one_record_more(ledger, tmp_path):
    live(ledger)
    before = contents(ledger)
    report = ledger.recovery.backup(tmp_path / "copy.sqlite")
    lost = reserve(ledger, 0.01, "later")
    assert restored(ledger, tmp_path / "copy.sqlite", by="carol") == report
    assert contents(ledger) == before
    verified = ledger.verify_audit(report.head)
    assert verified.intact  # the triggers are back, too
    assert verified.records == report.records + 1
    (record,) = ledger.audit(after=report.records)
    assert (record.actor, record.action) == ("carol", "ledger restored")
    assert record.details == {"records": report.records, "head": report.head}
    with pytest.raises(InternalError, match="never reserved"):
        ledger.release(lost, "{}")


def test_backup_goes_from_one_database_to_the_other(ledger, tmp_path, postgres_address):
    live(ledger)
    ledger.recovery.backup(tmp_path / "copy.sqlite")
    with closing(open_ledger(postgres_address if "sqlite" in repr(ledger) else tmp_path / "new")) as other:
        restored(other, tmp_path / "copy.sqlite", by="carol")
        assert contents(other) == contents(ledger)
        assert reserve(other, 0.001, "fresh") > max(entry.row for entry in ledger.history("adult"))
        assert other.verify_audit().intact


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_number_of_a_lost_entry_is_not_given_again(ledger, tmp_path):
    ledger.release(reserve(ledger, 0.1), "{}")
    ledger.recovery.backup(tmp_path / "copy.sqlite")
    lost = reserve(ledger, 0.1, "in flight")
    restored(ledger, tmp_path / "copy.sqlite", by="carol")
    assert reserve(ledger, 0.1, "another") > lost


@on_disk
def test_backups_under_load_are_consistent_and_restoring_does_not_stop_the_load(ledger, place, tmp_path):
    """Four threads on connections of their own charge, release and read while backups come and go."""
    ledger.open_dataset("adult", 1000.0, 1e-6)
    done, failures, charged = threading.Event(), [], threading.Semaphore(0)

    def work(number: int) -> None:
        with closing(open_ledger(place, anchor="off")) as own:
            account = own.account(f"analyst {number}", default_limit=1000.0)
            while not done.is_set():
                try:
                    entry = reserve(account, 0.001, str(number))
                    account.budget("adult")
                    account.release(entry, "{}")
                    charged.release()
                except InternalError as error:  # of an entry that the restored ledger does not know
                    if "never reserved" not in str(error):
                        failures.append(error)
                except Exception as error:
                    failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        reports = []
        for number in range(3):
            for _ in range(10):
                assert charged.acquire(timeout=60)
            reports.append(ledger.recovery.backup(tmp_path / f"{number}.sqlite"))
        restored(ledger, tmp_path / "1.sqlite", by="carol")
        for _ in range(30):
            assert charged.acquire(timeout=60)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert all(report.intact for report in reports)
    assert [report.records for report in reports] == sorted({report.records for report in reports})
    verified = ledger.verify_audit(reports[1].head)
    assert verified.intact
    assert not ledger.verify_audit(reports[2].head).intact


@on_disk
def test_broken_ledger_is_copied_but_called_broken_and_is_not_restored(ledger, tmp_path):
    live(ledger)
    change(ledger, "entries", "UPDATE entries SET description = 'other' WHERE id = 1")
    report = ledger.recovery.backup(tmp_path / "copy.sqlite")
    assert any("entry 1 was altered" in problem for problem in report.problems)
    before = contents(ledger)
    with pytest.raises(BadRequest, match="is broken"):
        restored(ledger, tmp_path / "copy.sqlite", by="carol")
    assert contents(ledger) == before


def test_plain_copy_of_a_running_ledger_without_its_journal_is_refused(tmp_path):
    place = tmp_path / ".dpxplain" / "ledger.sqlite"
    with closing(open_ledger(place)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        reserve(ledger, 0.5)
        shutil.copyfile(place, tmp_path / "copy.sqlite")
        with pytest.raises(BadRequest, match="is empty"):
            restored(ledger, tmp_path / "copy.sqlite", by="carol")
        shutil.copyfile(f"{place}-wal", tmp_path / "copy.sqlite-wal")
        restored(ledger, tmp_path / "copy.sqlite", by="carol")
        assert ledger.budget("adult").spent == 0.5


def test_what_is_no_backup_is_refused_and_backups_are_not_overwritten(ledger, tmp_path):
    (tmp_path / "text").write_text("no ledger")
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as other:
        other.execute("CREATE TABLE log (id)")
    for name, words in {
        "text": "not a backup",
        "other.sqlite": "not a backup",
        "none": "cannot be read",
    }.items():
        with pytest.raises(BadRequest, match=words):
            restored(ledger, tmp_path / name, by="carol")
    with pytest.raises(BadRequest, match="already exists"):
        ledger.recovery.backup(tmp_path / "text")
    assert (tmp_path / "text").read_text() == "no ledger"
    with pytest.raises(BadRequest, match="cannot be written"):
        ledger.recovery.backup(tmp_path / "no folder" / "copy.sqlite")


def test_commands_back_up_into_a_folder_and_restore_only_when_told_to_replace(address, tmp_path, capsys):
    backups = tmp_path / "backups"
    backups.mkdir()
    at = ("--ledger", address)
    with closing(open_ledger(address)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        ledger.release(reserve(ledger, 0.25), "{}")
        head = ledger.verify_audit().head
    assert run(["ledger", "backup", str(backups), *at, "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    (file,) = backups.iterdir()
    assert written["file"] == str(file)
    assert (written["records"], written["head"], written["intact"]) == (3, head, True)
    assert run(["audit", "verify", "--head", head, "--ledger", str(file)]) == 0
    with closing(open_ledger(address)) as ledger, pytest.raises(BudgetExhausted):
        reserve(ledger, 0.8)
    assert run(["ledger", "restore", str(file), *at]) == 2
    assert "3 records, which would be lost" in capsys.readouterr().err
    assert run(["ledger", "restore", str(file), *at, "--replace", "--by", "carol"]) == 0
    assert f"Restored 3 records, head {head}" in " ".join(capsys.readouterr().err.split())
    new = tmp_path / "new" / "ledger.sqlite"
    assert run(["ledger", "restore", str(file), "--ledger", str(new)]) == 0
    assert run(["audit", "verify", "--head", head, "--ledger", str(new)]) == 0
