"""Ledgers written by older versions are migrated in either database: nothing is lost or rewritten."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from ledger_contract import reserve

from dpxplain.cli import run
from dpxplain.errors import BudgetExhausted, SourceError
from dpxplain.ledger import FORMAT, migrations
from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.model.charge import Charge, Ending, Event, Request, Spend

DUMPS = sorted((Path(__file__).parent / "old_ledgers").glob("*.sql"))
VERSION_1 = [dump for dump in DUMPS if dump.stem == "sqlite-1"]
WITH_ACCOUNTS = [dump for dump in DUMPS if dump not in VERSION_1]
WITHOUT_NUMBERS = [dump for dump in WITH_ACCOUNTS if not dump.stem.endswith("-8")]
# Their heads and the text of a token of theirs, noted down when they were written.
HEADS = {
    "sqlite-2": "5f35cd366506efa0e6310504bda00874b0d8933cfa2f03a1e4d50d988a341708",
    "sqlite-3": "b53000b8bf1533453fbdef9ff1d8f93999b9f3debed40885c11d8b0b7aadc117",
    "sqlite-4": "aa10722f962055d9f1789d6840a5518bc29b530f91c63a30a3da1a2a82aae652",
    "postgres-2": "d59a683fbaf411f06dca8d0caeda7503673c09714d53bd5434d7911b1a9a7b50",
    "postgres-4": "54ba66b10b8d3dab1c86b934dc64f714c9fb8305011cb0f578626a68ef637564",
    "sqlite-5": "5c313bbb7a647a8717bf8199e59a1ed7cf9816f9211f9ab7bec69ce2acf06687",
    "sqlite-6": "9e74490f4ea0ef7f0ea248a1080c097ccdf01e315fb97ec9ada04340aeb77e4e",
    "postgres-6": "9efc42f4acf832aae4a8ef50a1034729776d8fe5ef2bf304d164f77a26839165",
    "postgres-5": "b8c3cf9ee8543baf3e1d35fd501684a7ef3733a0331bf4a6c4c0c726fe2bde22",
    "sqlite-7": "4ca70f141efcad3476500bce5a0c78bad611a94f428d829ec46f13282aa14f44",
    "postgres-7": "6fd4cde67b922d1fc66ef36b964d314a540a03be8dc8fa8c68c3166d608403f1",
    "sqlite-8": "61f1a4602c6ee8547f6dbebcac055041527fd0758479268492785f45b108f6f4",
    "postgres-8": "e4db5d94685f57be78ebbf8f939f66451fe70c4e9a587188ead91c2dfe3a5f80",
}
TOKENS = {
    "sqlite-2": "dpx_ce6c79164159_05nAd2xc_XQUXKaveOJTmleMw4dFX_GnayfEhx5c57A",
    "sqlite-3": "dpx_1319121e2717_9L0VNObNeJAIKewrzjUDjVCLdBgh46AWKWclYRkqS-Y",
    "sqlite-4": "dpx_cd736166e7c3__4G8CeW0tq6YaPeeB8Y2kAfRv3ag7M5jOV75-QTDIRQ",
    "postgres-2": "dpx_32b1c7f5c19f_TrqgvWVXULDkkI2UDfGfwmL-tmOqNVfaScs7VXYA_Bw",
    "postgres-4": "dpx_44c47648adf3_Psro2hoeplsGupjdcNDwpsHAUcCwIOX7xsxqdrf-LIY",
    "sqlite-5": "dpx_1079fd18ff73_ehEXiyNEsaAgaN4kGkk4J2G6S7KJr0vlJ50bh1RGe3M",
    "sqlite-6": "dpx_76d96dcfb0a6_xLdIOcCn868xD0isqc7nesRUxU-aWNqZWxzztTHsveM",
    "postgres-6": "dpx_4cea2ebdd3a8_4dwRwqXWioAtZwEfHjaQ-Gwom8Dtw9ruychJ6noLDv8",
    "postgres-5": "dpx_f646da42e3a0_k0Zduavrw-fDZ4bi87fDOmH49POv6KEFjNpmb1oGfgk",
    "sqlite-7": "dpx_4b766afcba95_ZTH12Rn_5nvTNrSo1MphhB180NqFvQLCaaSzlyelMVU",
    "postgres-7": "dpx_1c9c9b11e589_JonoaPajYsQU3zquqBgZxZ7LSBSbZ_7Ic7q2gGkcyVY",
    "sqlite-8": "dpx_6f9288cbe14f_EJuZ4NGgolG5pYhP2QpYt7ZBba82uj_hpZDzrlXYoD8",
    "postgres-8": "dpx_280f96fe68b2_VC49zQIBI1LtCpLyqLIEIY70DcZETOMkWDyPNXXPxr4",
}


@pytest.fixture(params=DUMPS, ids=lambda dump: dump.stem)
def dump(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def old(dump: Path, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the ledger of the dump lies."""
    if dump.stem.startswith("postgres"):
        address: str = request.getfixturevalue("postgres_address")
        with psycopg.connect(address) as connection:
            connection.execute(dump.read_bytes())
        return address
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(dump.read_text())
    return str(path)


def execute(address: str, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement on the ledger's database behind the ledger's back."""
    if address.startswith("postgresql"):
        with psycopg.connect(address, options="-c search_path=dpxplain") as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(address)) as connection, connection:
        return connection.execute(statement).fetchall()


def stored_version(address: str) -> int:
    statement = "SELECT version FROM turnstile" if "postgresql" in address else "PRAGMA user_version"
    [(version,)] = execute(address, statement)
    return int(version)


def shape(ledger: SQLLedger) -> dict[str, Any]:
    """Columns, keys and indexes of all tables as the database knows them."""
    with ledger._store.reading() as connection:
        inspector = sa.inspect(connection)
        return {
            table: {
                "columns": [
                    (column["name"], str(column["type"]), column["nullable"])
                    for column in inspector.get_columns(table)
                ],
                "indexes": sorted(
                    (index["name"], index["column_names"]) for index in inspector.get_indexes(table)
                ),
                "key": inspector.get_pk_constraint(table)["constrained_columns"],
                "foreign": sorted(
                    str(key["constrained_columns"]) for key in inspector.get_foreign_keys(table)
                ),
            }
            for table in inspector.get_table_names()
        }


@pytest.fixture
def fresh(old: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SQLLedger]:
    """A new ledger in a database of the same kind."""
    if not old.startswith("postgresql"):
        with closing(open_ledger(tmp_path / "new.sqlite")) as ledger:
            yield ledger
        return
    server = request.getfixturevalue("postgres_server")
    with server.new_database() as address, closing(open_ledger(address)) as ledger:
        yield ledger


def test_every_version_but_the_present_one_is_stored_here():
    versions = {int(dump.stem.partition("-")[2]) for dump in DUMPS}
    assert versions == set(range(1, FORMAT))


def test_everything_is_still_there(old):
    for _ in range(2):  # migrated, and opened again
        with closing(open_ledger(old)) as ledger:
            assert ledger.budget("adult").delta == 1e-6
            assert ledger.budget("census").limit == 0.5
            query, limit, explanation = ledger.history("adult")[:3]
            assert (query.id, query.kind, query.state, query.analyst) == (1, "query", "released", "")
            assert query.spends == (Spend("gaussian", 0.1),)
            assert (limit.kind, limit.state) == ("limit", "released")
            assert (explanation.kind, explanation.state, explanation.rho) == ("explain", "reserved", 0.5)
            assert ledger.find("adult", "a")[1] == '{"Zürich": 1}'
            assert ledger.verify_audit().problems == []
        assert stored_version(old) == FORMAT


@pytest.mark.parametrize("dump", WITH_ACCOUNTS, ids=lambda dump: dump.stem, indirect=True)
def test_accounts_shares_tokens_and_jobs_are_still_there(old, dump):
    with closing(open_ledger(old)) as ledger:
        budget = ledger.budget("adult")
        assert (budget.limit, budget.spent) == (2.5, 0.67)
        assert ledger.account("ann").budget("adult").remaining == 0.33
        assert [entry.kind for entry in ledger.account("ben").history("adult")] == [
            *("limit", "grant", "top-up", "query", "prepare")
        ]
        assert ledger.account("ann").history("adult")[-1].request == {"prepare": {"rho": 0.02}}
        assert [(share.owner, share.reader) for share in ledger.shares("adult")] == [("ann", "ben")]
        assert ledger.jobs.get("job").entry == 7
        assert [token.name for token in ledger.tokens.list() if token.revoked] == ["ben"]
        identity = ledger.tokens.authenticate(TOKENS[dump.stem])
        assert identity.name == "ann"
        assert [token.maker for token in ledger.tokens.list()] == [None, None]  # its session is none of them
        _, text = ledger.sessions.open(identity)
        assert ledger.sessions.authenticate(text).token == identity.token
        assert ledger.verify_audit().problems == []


@pytest.mark.parametrize("dump", WITH_ACCOUNTS, ids=lambda dump: dump.stem, indirect=True)
def test_old_records_of_the_log_are_verified_unchanged(old, dump):
    records = execute(old, "SELECT * FROM log ORDER BY id")
    with closing(open_ledger(old)) as ledger:
        assert execute(old, "SELECT * FROM log ORDER BY id")[: len(records)] == records
        assert ledger.verify_audit(head=HEADS[dump.stem]).problems == []
        reserve(ledger, 0.1)
        assert ledger.verify_audit(head=HEADS[dump.stem]).problems == []


@pytest.mark.parametrize("dump", WITH_ACCOUNTS, ids=lambda dump: dump.stem, indirect=True)
def test_log_tells_of_every_step(old, dump):
    version = stored_version(old)
    with closing(open_ledger(old)) as ledger:
        steps = [record.details for record in ledger.audit() if record.action == "ledger upgraded"]
    assert steps == [{"from_version": start, "to_version": start + 1} for start in range(version, FORMAT)]


def test_altered_row_of_an_old_ledger_is_noticed(old):
    open_ledger(old).close()
    if old.startswith("postgresql"):
        execute(old, "ALTER TABLE entries DISABLE TRIGGER ALL")
    else:
        execute(old, "DROP TRIGGER entries_keeps_its_rows_on_UPDATE")
    execute(old, "UPDATE entries SET subject = 'other' WHERE id = 1")
    with closing(open_ledger(old)) as ledger:
        assert any("entry 1 was altered" in problem for problem in ledger.verify_audit().problems)


def test_migrated_ledger_has_the_tables_of_a_new_one_and_goes_on(old, fresh):
    with closing(open_ledger(old)) as ledger:
        assert shape(ledger) == shape(fresh)
        last, left = ledger.history("adult")[-1].row, ledger.budget("adult").remaining
        assert reserve(ledger, left) > last
        with pytest.raises(BudgetExhausted):
            reserve(ledger, 1e-12)
        assert ledger.verify_audit().problems == []


@pytest.mark.parametrize("dump", VERSION_1, ids=["sqlite-1"], indirect=True)
def test_log_of_version_1_begins_with_what_was_found(old):
    with closing(open_ledger(old)) as ledger:
        *found, last = ledger.audit()
        assert [record.action for record in found] == ["found"] * 5
        assert last.action == "ledger upgraded"
        assert last.details == {
            "from_version": 1,
            "to_version": FORMAT,
            "found": {"datasets": 2, "entries": 3, "releases": 2},
        }
        assert {entry.analyst for entry in ledger.history("adult")} == {""}
        assert [entry.kind for entry in ledger.account("ann").history("adult")] == ["limit"]


def test_no_row_of_a_migrated_ledger_can_be_replaced(old):
    open_ledger(old).close()
    if old.startswith("postgresql"):
        statement = "INSERT INTO entries SELECT * FROM entries ON CONFLICT (id) DO UPDATE SET kind = 'x'"
    else:
        statement = "INSERT OR REPLACE INTO entries SELECT * FROM entries"
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.IntegrityError), match="append-only"):
        execute(old, statement)


def test_failed_step_changes_nothing(old, monkeypatch):
    version = stored_version(old)
    tables = "SELECT * FROM entries ORDER BY id"
    before = execute(old, tables)

    def fail_at_the_end(connection: sa.Connection) -> dict[str, Any]:
        last.run(connection)
        raise KeyboardInterrupt

    last = migrations._STEPS[1 if version == 1 else FORMAT - 1]
    steps = migrations._STEPS | {last.start: last._replace(run=fail_at_the_end)}
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "_STEPS", steps)
        with pytest.raises(KeyboardInterrupt):
            open_ledger(old)
    assert stored_version(old) == version
    assert execute(old, tables) == before
    with closing(open_ledger(old)) as ledger:
        assert ledger.verify_audit().problems == []


def test_processes_that_open_it_together_migrate_it_once(old):
    version = stored_version(old)
    with ThreadPoolExecutor(4) as threads:
        ledgers = list(threads.map(open_ledger, [old] * 4))
    for ledger in ledgers:
        actions = [record.action for record in ledger.audit()]
        assert actions.count("ledger upgraded") == (1 if version == 1 else FORMAT - version)
        assert ledger.verify_audit().problems == []
        ledger.close()


@pytest.mark.parametrize(
    ("version", "sentence"), [(FORMAT + 1, "newer version of DPXPlain"), (0, "is damaged")]
)
def test_unknown_version_is_refused_and_left_alone(address, version, sentence):
    open_ledger(address).close()
    postgres = address.startswith("postgresql")
    execute(
        address,
        f"UPDATE turnstile SET version = {version}" if postgres else f"PRAGMA user_version = {version}",
    )
    with pytest.raises(SourceError, match=sentence) as refusal:
        open_ledger(address)
    assert refusal.value.remedy
    assert stored_version(address) == version


WITH_EVENTS = [dump for dump in DUMPS if dump.stem.endswith("-7")]


@pytest.mark.parametrize("dump", WITH_EVENTS, ids=lambda dump: dump.stem, indirect=True)
def test_gaussian_spend_of_an_old_ledger_is_known_where_its_events_tell(old):
    """On adult the events are of no vocabulary, and count as anything; on census they say what they were."""
    with closing(open_ledger(old)) as ledger:
        assert ledger.budget("adult").gaussian == 0.0
        assert ledger.budget("census").gaussian == pytest.approx(0.1 + 0.15 + 0.03, abs=5e-12)
        assert ledger.account("ann").budget("census").gaussian == pytest.approx(0.18, abs=5e-12)


@pytest.mark.parametrize("dump", WITHOUT_NUMBERS, ids=lambda dump: dump.stem, indirect=True)
def test_old_numbers_stay_and_new_ones_meet_none_of_them(old):
    with closing(open_ledger(old)) as ledger:
        ann, ben = (ledger.account(name, default_limit=0.2) for name in ("ann", "ben"))
        before = [(line.id, line.key) for line in ann.history("adult")]
        highest = max(line.id for line in ledger.history("adult"))
        assert ann.get("adult", 6)[0].key == ben.get("adult", 6)[0].key == "c"  # shared with ben
        assert ann.get("adult", "6@ann")[0].key == "c"
        numbers = [account.reserve("adult", Charge("query", "n", Request("n"), 0.01)).id
                   for account in (ann, ben, ann)]  # fmt: skip
        assert numbers == [highest + 1, highest + 1, highest + 2]
        assert [(line.id, line.key) for line in ann.history("adult")][: len(before)] == before
        assert ann.get("adult", 6)[0].key == "c"
        assert ben.entry("adult", f"{highest + 1}@ann").analyst == "ann"
        assert ledger.verify_audit().problems == []


WITH_FLIGHTS = [dump for dump in DUMPS if dump.stem.endswith("-8")]


@pytest.mark.parametrize("dump", WITH_FLIGHTS, ids=lambda dump: dump.stem, indirect=True)
def test_a_request_that_an_old_process_measured_is_found_and_taken_over(old):
    with closing(open_ledger(old)) as ledger:
        ledger.failures.find_interrupted()
        assert ledger.failures.counted("census", "ann") == {Ending.DIED: 1}
        charge = Charge(
            "query", "g", Request("SELECT AVG(age) FROM census"), 0.03, (Spend(Event.SUMS, 0.03),)
        )
        spent = ledger.budget("census").spent
        entry = ledger.account("ann").reserve_once("census", charge)
        assert (entry.row, ledger.budget("census").spent) == (11, spent)
        assert ledger.verify_audit().problems == []


@pytest.mark.parametrize("dump", WITH_FLIGHTS, ids=lambda dump: dump.stem, indirect=True)
def test_verifying_says_that_it_has_upgraded_the_ledger(old, capfd):
    assert run(("audit", "verify", "--ledger", old, "--json")) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["upgraded"] is True
    assert f"to format {FORMAT}, which older versions" in " ".join(err.split())
    assert run(("audit", "verify", "--ledger", old)) == 0
    assert "upgraded" not in "".join(capfd.readouterr())
