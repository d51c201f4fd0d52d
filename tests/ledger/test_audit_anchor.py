"""An anchor kept elsewhere shows what the log alone cannot: a cut end, an older copy, a new chain."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from ledger_contract import reserve
from test_ledger_audit import change, live, recount

from dpxplain.cli import run
from dpxplain.errors import BadRequest
from dpxplain.ledger import audit
from dpxplain.ledger.anchor import Anchor, make_key, read_anchor, read_key, write_anchor
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.tables import LOG

KEY = b"k" * 32
on_disk = pytest.mark.parametrize("place", ["file", "postgres"], indirect=True)


@pytest.fixture
def ledger(place):
    """Without an anchor file of its own, which would refuse what these tests do."""
    with closing(open_ledger(place, anchor="off")) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        yield ledger


@pytest.fixture
def lived(ledger):
    live(ledger)
    return ledger


def cut(ledger, records: int) -> None:
    """Take the last charge, its release and their records out, as if they had never been."""
    change(ledger, "releases", "DELETE FROM releases WHERE entry = (SELECT max(id) FROM entries)")
    change(ledger, "entries", "DELETE FROM entries WHERE id = (SELECT max(id) FROM entries)")
    change(ledger, "log", f"DELETE FROM log WHERE id > (SELECT max(id) FROM log) - {records}")
    recount(ledger)


def rewrite(ledger, since: int) -> None:
    """Change a record and compute the chain anew from there on."""
    with ledger.store.reading() as connection:
        rows = connection.execute(sa.select(LOG).where(LOG.c.id >= since).order_by(LOG.c.id)).all()
    previous, statements = rows[0].previous, []
    for row in rows:
        record = {name: getattr(row, name) for name in ("id", "time", "actor", "action", "dataset")}
        record |= {"details": json.loads(row.details)}
        if row.id == since:
            record["time"] = "2020-01-01T00:00:00+00:00"
        digest = audit.chained(previous, record)
        statements.append(
            f"UPDATE log SET time = '{record['time']}', previous = '{previous}', hash = '{digest}' "
            f"WHERE id = {row.id}"
        )
        previous = digest
    change(ledger, "log", *statements)


def test_log_that_goes_on_from_its_anchor_is_intact(lived):
    anchor = lived.anchor()
    assert lived.verify_audit(anchor=anchor).problems == []
    reserve(lived, 0.1)
    lived.note("carol", "schema edited", "adult")
    assert lived.verify_audit(anchor=anchor).problems == []
    assert lived.anchor().records == anchor.records + 2


def test_anchor_of_a_new_ledger_says_nothing_against_any_log(place, lived):
    with closing(open_ledger(None)) as empty:
        anchor = empty.anchor()
        assert (anchor.records, anchor.head) == (0, audit.GENESIS)
        assert lived.verify_audit(anchor=anchor).problems == []
        assert "The log is empty" in empty.verify_audit(anchor=lived.anchor()).problems[0]


@on_disk
def test_cut_end_is_said_to_be_one_with_the_budget_that_came_back(lived):
    anchor = lived.anchor()
    cut(lived, 2)
    assert lived.verify_audit().problems == []  # the log alone shows nothing
    ending, budget = lived.verify_audit(anchor=anchor).problems
    assert (
        f"ends at record {anchor.records - 2}, but the anchor was made at record {anchor.records}" in ending
    )
    assert "cut off, or an older copy was put back" in ending
    assert "'adult' had spent rho 0.45 when the anchor was made, but only rho 0.2 now" in budget


@on_disk
def test_older_copy_that_went_on_is_noticed_even_when_it_is_longer(lived):
    anchor = lived.anchor()
    cut(lived, 2)
    for _ in range(3):
        reserve(lived, 0.1, key="again")
    [problem] = lived.verify_audit(anchor=anchor).problems
    assert f"Record {anchor.records} differs from the one" in problem
    assert "rewritten, or continued from an older copy" in problem


@on_disk
@pytest.mark.parametrize(("since", "sentence"), [(1, "begins differently"), (12, "Record 14 differs")])
def test_rewritten_log_with_new_hashes_is_noticed(lived, since, sentence):
    anchor = lived.anchor()
    rewrite(lived, since)
    assert not [problem for problem in lived.verify_audit().problems if "Log record" in problem]
    assert sentence in lived.verify_audit(anchor=anchor).problems[0]


def test_anchor_survives_its_file_and_only_its_key_reads_it(lived, tmp_path):
    anchor, file = lived.anchor(), tmp_path / "anchor"
    write_anchor(file, anchor, KEY)
    assert read_anchor(file, KEY) == anchor
    with pytest.raises(BadRequest, match="altered, or signed with a different key"):
        read_anchor(file, b"x" * 32)
    file.write_text(file.read_text().replace(f'"records": {anchor.records}', '"records": 1'))
    with pytest.raises(BadRequest, match="altered"):
        read_anchor(file, KEY)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"anchor": 1, "hmac_sha256": 2}', "[" * 100_000, "\ud800"]
)
def test_what_is_no_anchor_is_refused(text, tmp_path):
    file = tmp_path / "anchor"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadRequest):
        read_anchor(file, KEY)
    with pytest.raises(BadRequest):
        Anchor.read(text, KEY)


def test_no_anchor_of_an_empty_log_is_written(tmp_path):
    file = tmp_path / "anchor"
    with closing(open_ledger(None)) as empty, pytest.raises(BadRequest, match="log is empty"):
        write_anchor(file, empty.anchor(), KEY)
    assert not file.exists()


def test_verifying_tells_when_the_anchor_was_made_so_that_an_old_one_is_noticed(tmp_path, capsys):
    place, file, key = tmp_path / "ledger.sqlite", tmp_path / "anchor", tmp_path / "key"
    with closing(open_ledger(place)) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        made = datetime.now(UTC) - timedelta(days=40, hours=3)
        make_key(key)
        write_anchor(file, replace(ledger.anchor(), time=made.isoformat()), read_key(key))
        ledger.release(reserve(ledger, 0.5), "{}")
    words = ["audit", "verify", "--anchor", str(file), "--ledger", str(place), "--key", str(key)]
    assert run(words) == 0
    sentence = f"anchor at record 1, made {made:%Y-%m-%d %H:%M} UTC, 40 days ago."
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert run([*words, "--json"]) == 0
    anchor = json.loads(capsys.readouterr().out)["anchor"]
    assert (anchor["records"], anchor["time"]) == (1, made.isoformat())
    assert timedelta(days=40) < timedelta(seconds=anchor["age_seconds"]) < timedelta(days=41)
    with closing(open_ledger(place)) as ledger:
        rewrite(ledger, 1)
    assert run(words) == 2
    assert sentence.replace(", made", " was made") in " ".join(capsys.readouterr().err.split())


def test_key_is_for_its_owner_only(tmp_path):
    file = tmp_path / "folder" / "key"
    make_key(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    key = read_key(file)
    make_key(file)  # an existing key is kept
    assert read_key(file) == key
    file.chmod(0o640)
    with pytest.raises(BadRequest, match="read by other users"):
        read_key(file)
    with pytest.raises(BadRequest, match="does not exist, or is not a key"):
        read_key(tmp_path / "missing")


def backup(place: str, folder: Path) -> None:
    """Keep a copy of the whole ledger, or put it back if there is one."""
    if not place.startswith("postgresql"):
        copy = folder / "copy.sqlite"
        origin, target = (copy, Path(place)) if copy.exists() else (Path(place), copy)
        for file in target.parent.glob(f"{target.name}*"):
            file.unlink()
        with closing(sqlite3.connect(origin)) as source, closing(sqlite3.connect(target)) as written:
            source.backup(written)
        return
    with psycopg.connect(place) as connection:
        tables = "entries", "releases", "log", "accounts"
        if connection.execute("SELECT to_regclass('public.log')").fetchone() == (None,):
            for table in tables:
                connection.execute(f"CREATE TABLE public.{table} AS TABLE dpxplain.{table}")
            return
        for table in reversed(tables):
            connection.execute(f"ALTER TABLE dpxplain.{table} DISABLE TRIGGER ALL")
            connection.execute(f"DELETE FROM dpxplain.{table}")
        for table in tables:
            connection.execute(f"INSERT INTO dpxplain.{table} SELECT * FROM public.{table}")
            connection.execute(f"ALTER TABLE dpxplain.{table} ENABLE TRIGGER ALL")
            connection.execute(f"DROP TABLE public.{table}")


def test_commands_tell_of_a_restored_backup_and_do_not_replace_the_anchor(
    address, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("DPXPLAIN_ANCHOR", "off")
    file, key = tmp_path / "elsewhere" / "anchor", tmp_path / "elsewhere" / "key"
    at = ("--ledger", address, "--key", str(key))
    with closing(open_ledger(address, anchor="off")) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        ledger.release(reserve(ledger, 0.25), "{}")
    backup(address, tmp_path)
    with closing(open_ledger(address, anchor="off")) as ledger:
        ledger.release(reserve(ledger, 0.5, key="later"), "{}")
    assert run(["audit", "anchor", str(file), *at]) == 0
    written = file.read_text()
    assert json.loads(written)["anchor"]["spent"] == {"adult": 750_000_000_000}
    assert run(["audit", "anchor", str(file), *at]) == 0  # replaced: the log goes on from it
    assert run(["audit", "verify", "--anchor", str(file), *at]) == 0
    assert "continues from the anchor at record 5" in capsys.readouterr().err

    backup(address, tmp_path)
    written = file.read_text()
    assert run(["audit", "verify", *at]) == 0
    assert run(["audit", "verify", "--anchor", str(file), *at]) == 2
    out = " ".join(capsys.readouterr().out.split())
    with closing(open_ledger(address, anchor="off")) as ledger:
        problems = ledger.verify_audit(anchor=read_anchor(file, read_key(key))).problems
    assert len(problems) == 2
    assert all(problem in out for problem in problems)
    assert run(["audit", "anchor", str(file), *at]) == 2
    assert file.read_text() == written
    assert {path.name for path in file.parent.iterdir()} == {"anchor", "key"}
    shutil.rmtree(file.parent)
    assert run(["audit", "verify", "--anchor", str(file), *at]) == 2
    assert "is not a key" in capsys.readouterr().err


def test_key_that_cannot_be_written_whole_leaves_no_file(tmp_path, monkeypatch):
    file = tmp_path / "key"

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(BadRequest, match="cannot be written"):
            make_key(file)
    assert not file.exists()
    make_key(file)
    assert read_key(file)
