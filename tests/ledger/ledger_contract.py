"""What every ledger must do, whatever its database: the promises that phases rely on."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import ledger_worker
import pytest

from dpxplain.errors import BadRequest, BudgetExhausted, InternalError
from dpxplain.ledger.backup import verified_backup
from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.ledger.protocol import AuditReport, Ledger
from dpxplain.model.charge import Charge, Request, Spend, spend_units


def reserve(ledger: Ledger, rho: float, key: str = "k", dataset: str = "adult") -> int:
    """The row of a new entry."""
    entry = ledger.reserve(
        dataset, Charge("query", key, Request("SELECT COUNT(*) FROM adult"), rho, (Spend("gaussian", rho),))
    )
    return entry.row


def restored(ledger: SQLLedger, file: Path, *, by: str) -> AuditReport:
    """Restores a backup, as the command does."""
    with verified_backup(file) as backup:
        return ledger.recovery.restore(backup, by=by)


def store(ledger: Ledger, kind: str, key: str, subject: str | None = None) -> int:
    """A released entry of this kind."""
    entry = ledger.reserve("adult", Charge(kind, key, Request(key), 0.01, subject=subject))
    ledger.release(entry.row, "{}")
    return entry.row


class LedgerContract:
    """The promises within one process. The fixture `ledger` knows "adult" with a limit of 1."""

    def test_new_data_set_has_its_whole_budget_and_no_history(self, ledger):
        budget = ledger.budget("adult")
        assert (budget.limit, budget.spent, budget.remaining, budget.delta) == (1.0, 0.0, 1.0, 1e-6)
        assert ledger.history("adult") == []

    def test_ten_times_a_tenth_is_exactly_the_limit(self, ledger):
        for _ in range(10):
            reserve(ledger, 0.1)
        assert ledger.budget("adult").spent == 1.0
        assert ledger.budget("adult").remaining == 0.0
        with pytest.raises(BudgetExhausted):
            reserve(ledger, 1e-12)

    def test_odd_shares_of_a_charge_do_not_drift(self, ledger):
        thirds = (Spend("gaussian", 0.1 / 3),) * 3
        for _ in range(10):
            ledger.reserve("adult", Charge("explain", "k", Request("why"), 0.1, thirds))
        assert ledger.budget("adult").remaining == 0.0

    def test_limit_is_met_to_the_last_unit(self, ledger):
        reserve(ledger, 1.0 - 1e-12)
        with pytest.raises(BudgetExhausted):
            reserve(ledger, 2e-12)
        reserve(ledger, 1e-12)
        assert ledger.budget("adult").spent == 1.0

    def test_exhausted_request_says_what_is_left_and_spends_nothing(self, ledger):
        reserve(ledger, 0.7)
        with pytest.raises(BudgetExhausted) as refusal:
            reserve(ledger, 0.5)
        assert "rho 0.5" in refusal.value.problem
        assert "has only 0.3 of its 1 left" in refusal.value.problem
        assert "at most rho=0.3" in refusal.value.remedy
        assert "free" in refusal.value.remedy
        assert "curator" in refusal.value.remedy
        assert ledger.budget("adult").spent == 0.7
        assert len(ledger.history("adult")) == 1
        reserve(ledger, 0.3)
        with pytest.raises(BudgetExhausted) as refusal:
            reserve(ledger, 0.3)
        assert "at most" not in refusal.value.remedy

    @pytest.mark.parametrize(
        "rho", [0.0, -0.1, math.nan, math.inf, -math.inf, 1e-13, 1e300, True, "0.1", None]
    )
    def test_unusable_rho_never_reaches_the_ledger(self, ledger, rho):
        with pytest.raises(BadRequest):
            ledger.reserve("adult", Charge("query", "k", Request("SELECT"), rho))
        with pytest.raises(BadRequest):
            ledger.open_dataset("other", rho, 1e-6)
        assert ledger.history("adult") == []

    @pytest.mark.parametrize("shares", [[0.2], [0.05, 0.06], [-0.1, 0.1], [math.nan], [math.inf]])
    def test_mechanisms_that_cost_more_than_the_charge_are_a_bug(self, ledger, shares):
        parts = tuple(Spend("gaussian", rho) for rho in shares)
        with pytest.raises(InternalError):
            ledger.reserve("adult", Charge("query", "k", Request("SELECT"), 0.1, parts))
        assert ledger.budget("adult").spent == 0.0

    @pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
    def test_unusable_delta_is_refused(self, ledger, delta):
        with pytest.raises(BadRequest, match="delta"):
            ledger.open_dataset("adult", 1.0, delta)

    def test_release_is_found_by_key_and_by_id(self, ledger):
        entry = reserve(ledger, 0.1, key="abc")
        payload = json.dumps({"answer": [1, 2.5, "Zürich\u2028\x00"]}, ensure_ascii=False)
        ledger.release(entry, payload)
        found = ledger.find("adult", "abc")
        assert found == ledger.get("adult", entry)
        line, stored = found
        assert stored == payload
        assert (line.id, line.kind, line.key, line.state) == (entry, "query", "abc", "released")
        assert (line.rho, line.spends) == (0.1, (Spend("gaussian", 0.1),))
        assert line.description == "SELECT COUNT(*) FROM adult"
        assert line.time.utcoffset() == timedelta(0)
        assert abs(line.time - datetime.now(UTC)) < timedelta(minutes=1)

    def test_reserved_but_unreleased_is_charged_and_not_found(self, ledger):
        entry = reserve(ledger, 0.1, key="abc")
        assert ledger.find("adult", "abc") is None
        assert ledger.get("adult", entry) is None
        assert ledger.budget("adult").spent == 0.1
        assert [line.state for line in ledger.history("adult")] == ["reserved"]

    def test_earliest_release_of_a_key_wins(self, ledger):
        entries = [reserve(ledger, 0.1, key="same") for _ in range(3)]
        ledger.release(entries[2], '"third"')
        ledger.release(entries[1], '"second"')
        assert ledger.find("adult", "same")[1] == '"second"'
        assert ledger.find("adult", "other") is None

    @pytest.mark.parametrize("entry", [0, -1, 999, 2**63, -(2**70)])
    def test_unknown_id_is_no_release(self, ledger, entry):
        assert ledger.get("adult", entry) is None

    def test_an_entry_is_read_by_its_id_whether_released_or_not(self, ledger):
        entry = reserve(ledger, 0.1, key="abc")
        assert ledger.entry("adult", entry) == ledger.history("adult")[0]
        assert ledger.entry("adult", entry).state == "reserved"
        ledger.release(entry, "{}")
        assert ledger.entry("adult", entry).state == "released"

    @pytest.mark.parametrize("entry", [0, -1, 999, 2**63, -(2**70)])
    def test_unknown_id_is_no_entry(self, ledger, entry):
        assert ledger.entry("adult", entry) is None

    def test_latest_is_the_newest_release_of_its_kind(self, ledger):
        assert ledger.latest("adult", "query") is None
        store(ledger, "query", "first")
        newest = store(ledger, "query", "second")
        store(ledger, "explain", "other kind")
        reserve(ledger, 0.1, key="never released")
        assert ledger.latest("adult", "query") == ledger.entry("adult", newest)
        assert ledger.latest("adult", "explain").key == "other kind"
        assert ledger.latest("adult", "prepare") is None

    def test_preparations_are_found_by_the_query_they_belong_to(self, ledger):
        store(ledger, "query", "no preparation", subject="this query")
        store(ledger, "prepare", "first", subject="this query")
        store(ledger, "prepare", "another", subject="another query")
        store(ledger, "prepare", "second", subject="this query")
        ledger.reserve("adult", Charge("prepare", "unreleased", Request(""), 0.01, subject="this query"))
        found = ledger.preparations("adult", "this query")
        assert [entry.key for entry in found] == ["first", "second"]
        assert ledger.preparations("adult", "unknown") == []

    def test_release_is_written_once(self, ledger):
        entry = reserve(ledger, 0.1)
        ledger.release(entry, '"first"')
        with pytest.raises(InternalError):
            ledger.release(entry, '"second"')
        assert ledger.get("adult", entry)[1] == '"first"'

    def test_release_without_reservation_is_a_bug(self, ledger):
        with pytest.raises(InternalError):
            ledger.release(999, '"never reserved"')

    def test_history_is_complete_and_in_order(self, ledger):
        entries = [reserve(ledger, 0.1, key=str(number)) for number in range(5)]
        ledger.release(entries[3], "{}")
        history = ledger.history("adult")
        assert [line.id for line in history] == entries
        assert [line.key for line in history] == ["0", "1", "2", "3", "4"]
        assert [line.state for line in history] == ["reserved"] * 3 + ["released", "reserved"]
        assert [line.time for line in history] == sorted(line.time for line in history)

    def test_a_page_of_the_history_has_the_newest_lines_and_says_where_older_ones_begin(self, ledger):
        entries = [reserve(ledger, 0.1, key=str(number)) for number in range(7)]
        newest = ledger.history_page("adult", limit=3)
        assert [line.id for line in newest.entries] == entries[4:]
        assert newest.older == entries[4]
        middle = ledger.history_page("adult", newest.older, limit=3)
        assert [line.id for line in middle.entries] == entries[1:4]
        oldest = ledger.history_page("adult", middle.older, limit=3)
        assert [line.id for line in oldest.entries] == entries[:1]
        assert oldest.older is None
        assert ledger.history_page("adult", entries[0]).entries == []
        assert [line.id for line in ledger.history_page("adult", limit=7).entries] == entries
        assert ledger.history_page("adult", limit=7).older is None

    def test_a_page_knows_the_running_total_without_the_pages_before_it(self, ledger):
        entries = [reserve(ledger, 0.1, key=str(number)) for number in range(7)]
        page = ledger.history_page("adult", before=entries[5], limit=2)
        assert [(line.id, line.total_rho) for line in page.entries] == [(entries[3], 0.4), (entries[4], 0.5)]
        totals = [line.total_rho for line in ledger.history("adult")]
        assert totals == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]

    @pytest.mark.parametrize("limit", [-1, 0, 1, 10**30])
    def test_a_page_is_never_empty_and_never_larger_than_a_page(self, ledger, limit):
        reserve(ledger, 0.1)
        assert len(ledger.history_page("adult", None, limit).entries) == 1
        assert ledger.history_page("adult", 1, limit).entries == []

    @pytest.mark.parametrize("before", [2**70, -5, 2, "1@ann", "one", ""])
    def test_a_page_before_a_line_that_is_not_there_is_refused(self, ledger, before):
        reserve(ledger, 0.1)
        with pytest.raises(BadRequest, match="no line"):
            ledger.history_page("adult", before)

    def test_data_sets_do_not_see_each_other(self, ledger):
        ledger.open_dataset("census", 0.5, 1e-9)
        entry = reserve(ledger, 0.4, dataset="census")
        ledger.release(entry, "{}")
        assert ledger.budget("adult").spent == 0.0
        assert ledger.budget("census").remaining == 0.1
        assert ledger.find("adult", "k") is None
        assert ledger.get("adult", entry) is None
        assert ledger.history("adult") == []

    def test_opening_again_changes_nothing(self, ledger):
        reserve(ledger, 0.4)
        ledger.open_dataset("adult", 1.0, 1e-6)
        assert ledger.budget("adult").spent == 0.4
        assert len(ledger.history("adult")) == 1

    def test_changed_limit_is_recorded_and_holds(self, ledger):
        reserve(ledger, 0.6)
        ledger.open_dataset("adult", 2.0, 1e-7)
        budget = ledger.budget("adult")
        assert (budget.limit, budget.spent, budget.delta) == (2.0, 0.6, 1e-7)
        line = ledger.history("adult")[-1]
        assert (line.kind, line.rho, line.spends, line.state) == ("limit", 0.0, (), "released")
        assert line.description == "limit changed from rho 1 to rho 2"
        assert json.loads(ledger.get("adult", line.id)[1]) == {"old_limit": 1, "new_limit": 2}
        reserve(ledger, 1.4)
        assert ledger.budget("adult").remaining == 0.0

    def test_limit_lowered_below_what_was_spent_leaves_nothing(self, ledger):
        reserve(ledger, 0.6)
        ledger.open_dataset("adult", 0.5, 1e-6)
        assert ledger.budget("adult").remaining == 0.0
        with pytest.raises(BudgetExhausted, match=r"has only 0 of its 0\.5 left"):
            reserve(ledger, 1e-12)

    @pytest.mark.parametrize(
        "use",
        [
            lambda ledger: ledger.budget("nobody"),
            lambda ledger: ledger.history("nobody"),
            lambda ledger: ledger.find("nobody", "k"),
            lambda ledger: ledger.get("nobody", 1),
            lambda ledger: ledger.entry("nobody", 1),
            lambda ledger: ledger.latest("nobody", "query"),
            lambda ledger: ledger.preparations("nobody", "query"),
            lambda ledger: reserve(ledger, 0.1, dataset="nobody"),
        ],
        ids=["budget", "history", "find", "get", "entry", "latest", "preparations", "reserve"],
    )
    def test_unknown_data_set_is_named(self, ledger, use):
        with pytest.raises(BadRequest, match="'nobody'"):
            use(ledger)

    @pytest.mark.parametrize("text", ["a\x00b", "a\ud800b"])
    def test_text_that_a_database_cannot_keep_is_refused_and_spends_nothing(self, ledger, text):
        with pytest.raises(BadRequest, match="description"):
            ledger.reserve("adult", Charge("query", "k", Request(text), 0.1))
        entry = reserve(ledger, 0.1)
        with pytest.raises(BadRequest, match="payload"):
            ledger.release(entry, text)
        assert ledger.budget("adult").spent == 0.1
        assert ledger.get("adult", entry) is None

    def test_what_was_asked_is_kept_so_that_it_can_be_asked_again(self, ledger):
        request = {"sql": "SELECT 'Zürich'", "rho": 0.1, "parts": [1, None, {"a": True}]}
        entry = ledger.reserve("adult", Charge("query", "k", Request("words", request), 0.1)).id
        ledger.release(entry, "{}")
        assert ledger.history("adult")[0].request == request
        assert ledger.find("adult", "k")[0].request == request
        assert ledger.history("adult")[0].analyst == ""

    def test_text_is_never_taken_for_sql(self, ledger):
        nasty = "x'); DROP TABLE entries; -- \" % :name ?"
        ledger.open_dataset(nasty, 1.0, 1e-6)
        entry = ledger.reserve(nasty, Charge(nasty, nasty, Request(nasty), 0.1, (Spend(nasty, 0.1),))).id
        ledger.release(entry, nasty)
        line, payload = ledger.find(nasty, nasty)
        assert {payload, line.kind, line.key, line.description, line.spends[0].event} == {nasty}

    def test_exactly_as_many_threads_succeed_as_the_limit_allows(self, ledger):
        # More threads than a database has connections: they queue, and nobody gets in twice.
        def attempt(number: int) -> int | None:
            try:
                entry = reserve(ledger, 0.04, key=str(number))
            except BudgetExhausted:
                return None
            ledger.release(entry, str(number))
            return number

        with ThreadPoolExecutor(200) as threads:
            outcomes = list(threads.map(attempt, range(200)))
        winners = [number for number in outcomes if number is not None]
        assert len(winners) == 25
        assert all(ledger.find("adult", str(number))[1] == str(number) for number in winners)
        assert ledger.budget("adult").spent == 1.0
        assert sum(spend_units(line.rho) for line in ledger.history("adult")) == spend_units(1.0)

    def test_closed_ledger_refuses_and_may_be_closed_again(self, ledger):
        ledger.close()
        ledger.close()
        with pytest.raises(InternalError, match="closed"):
            ledger.budget("adult")


class SharedLedgerContract:
    """The promises between processes. The fixture `address` is one that a worker can open."""

    def test_what_was_written_is_there_after_opening_again(self, address):
        ledger = open_ledger(address)
        ledger.open_dataset("adult", 1.0, 1e-6)
        entry = reserve(ledger, 0.1)
        ledger.release(entry, '"kept"')
        ledger.close()
        ledger = open_ledger(address)
        assert ledger.get("adult", entry)[1] == '"kept"'
        assert ledger.budget("adult").spent == 0.1
        ledger.close()

    @pytest.mark.process
    def test_exactly_as_many_processes_succeed_as_the_limit_allows(self, address):
        with start_worker("attempt", address) as workers:
            winners = [int(entry) for entry in workers.stdout]
        assert workers.returncode == 0
        assert len(winners) == len(set(winners)) == ledger_worker.ALLOWED
        ledger = open_ledger(address)
        assert sorted(winners) == [line.row for line in ledger.history("adult")]
        assert {line.state for line in ledger.history("adult")} == {"released"}
        assert len({line.analyst for line in ledger.history("adult")}) > 1  # they colluded in vain
        assert ledger.verify_audit().problems == []
        assert ledger.budget("adult").spent == ledger_worker.LIMIT
        ledger.close()


def start_worker(*task: str) -> subprocess.Popen[str]:
    """A fresh interpreter that says "ready" once everything is imported, and begins when told to."""
    return subprocess.Popen(
        [sys.executable, Path(ledger_worker.__file__), *task],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
