"""Several analysts on one data set: nobody exceeds what they or all of them may spend, or sees too much."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from ledger_contract import reserve, store

from dpxplain.errors import BadRequest, BudgetExhausted, InternalError, SchemaError
from dpxplain.ledger import account as account_module
from dpxplain.ledger.ledger import MOST_OPEN
from dpxplain.model.charge import Charge, Ending, Event, Request, history_pages, spend_units, spends

WHY = {"reason": "study 7", "by": "carol"}


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def kinds(ledger, dataset="adult"):
    return [line.kind for line in ledger.history(dataset)]


def test_the_local_owner_is_limited_by_the_data_set_only(ledger):
    owner = ledger.account("")
    reserve(owner, 0.4)
    assert owner.budget("adult") == ledger.budget("adult")
    assert owner.budget("adult").shared_remaining is None
    assert len(owner.history("adult")) == 1


def test_analyst_without_an_allowance_is_told_to_ask_the_curator(ledger):
    ann = ledger.account("ann")
    assert ann.budget("adult").remaining == 0.0
    with pytest.raises(BudgetExhausted, match="'ann' has no allowance on 'adult'") as refusal:
        reserve(ann, 0.1)
    assert "Ask the curator" in refusal.value.remedy
    assert ledger.budget("adult").spent == 0.0


def test_default_limit_holds_until_something_is_granted(ledger):
    ann = ledger.account("ann", default_limit=0.2)
    reserve(ann, 0.2)
    with pytest.raises(BudgetExhausted):
        reserve(ann, 0.1)
    ledger.grant("adult", "ann", 0.3, **WHY)
    reserve(ann, 0.1)
    assert ann.budget("adult").remaining == 0.0


@pytest.mark.parametrize("unlimited", [None, math.inf])
def test_account_may_be_left_to_the_data_sets_limit(ledger, unlimited):
    carol = ledger.account("carol", sees_all=True, default_limit=unlimited)
    reserve(carol, 1.0)
    budget = carol.budget("adult")
    assert (budget.limit, budget.spent, budget.shared_remaining) == (1.0, 1.0, None)


def test_budget_is_the_analysts_own_and_tells_what_all_have_left(ledger):
    ends = soon()
    ledger.grant("adult", "ann", 0.5, expires=ends, **WHY)
    ann = ledger.account("ann")
    reserve(ann, 0.1)
    reserve(ledger, 0.7)
    budget = ann.budget("adult")
    assert (budget.limit, budget.spent, budget.shared_remaining) == (0.5, 0.1, 0.2)
    assert budget.remaining == 0.2
    assert budget.expires == ends
    assert ledger.budget("adult").spent == 0.8


def test_refusal_says_which_limit_is_the_narrow_one(ledger):
    ledger.grant("adult", "ann", 0.3, **WHY)
    ann = ledger.account("ann")
    with pytest.raises(BudgetExhausted, match=r"'ann' has only 0\.3 of 0\.3 left") as own:
        reserve(ann, 0.4)
    assert "at most rho=0.3" in own.value.remedy
    reserve(ledger, 0.9)
    with pytest.raises(BudgetExhausted, match=r"'adult' has only 0\.1 of its 1 left") as all:
        reserve(ann, 0.2)
    assert "at most rho=0.1" in all.value.remedy
    reserve(ann, 0.1)
    assert [line.rho for line in ann.history("adult") if line.rho] == [0.1]


def test_expired_allowance_leaves_nothing_and_keeps_the_past_readable(ledger):
    ledger.grant("adult", "ann", 0.5, expires=soon(), **WHY)
    ann = ledger.account("ann")
    ann.release(reserve(ann, 0.1), '"kept"')
    ledger.grant("adult", "ann", 0.5, expires=datetime.now(UTC), reason="over", by="carol")
    assert ann.budget("adult").remaining == 0.0
    with pytest.raises(BudgetExhausted, match="expired on") as refusal:
        reserve(ann, 0.1)
    assert "renew" in refusal.value.remedy
    assert ann.find("adult", "k")[1] == '"kept"'
    ledger.grant("adult", "ann", 0.5, reason="again", by="carol")
    reserve(ann, 0.4)


def test_what_was_reserved_before_expiry_may_still_be_released(ledger):
    ledger.grant("adult", "ann", 0.5, expires=soon(), **WHY)
    ann = ledger.account("ann")
    entry = reserve(ann, 0.1)
    ledger.grant("adult", "ann", 0.0, expires=datetime.now(UTC), reason="over", by="carol")
    ann.release(entry, '"late"')
    assert ann.get("adult", entry)[1] == '"late"'


def test_lowered_allowance_gives_nothing_back(ledger):
    ledger.grant("adult", "ann", 0.5, **WHY)
    ann = ledger.account("ann")
    reserve(ann, 0.4)
    ledger.grant("adult", "ann", 0.1, **WHY)
    assert ann.budget("adult").remaining == 0.0
    assert ledger.budget("adult").spent == 0.4


def test_allowances_are_per_data_set(ledger):
    ledger.open_dataset("census", 1.0, 1e-6)
    ledger.grant("adult", "ann", 0.5, **WHY)
    ann = ledger.account("ann")
    with pytest.raises(BudgetExhausted):
        reserve(ann, 0.1, dataset="census")
    reserve(ann, 0.5)
    assert ann.budget("census").spent == 0.0


def test_colluding_analysts_cannot_exceed_the_data_sets_limit(ledger):
    accounts = [ledger.account(f"analyst {number}", default_limit=1.0) for number in range(20)]

    def attempt(number: int) -> bool:
        try:
            reserve(accounts[number % 20], 0.04, key=str(number))
        except BudgetExhausted:
            return False
        return True

    with ThreadPoolExecutor(200) as threads:
        outcomes = list(threads.map(attempt, range(200)))
    assert sum(outcomes) == 25
    assert sum(spend_units(line.rho) for line in ledger.history("adult")) == spend_units(1.0)
    assert sum(spend_units(account.budget("adult").spent) for account in accounts) == spend_units(1.0)
    assert ledger.verify_audit().problems == []


def test_threads_of_one_analyst_cannot_exceed_their_allowance(ledger):
    ledger.grant("adult", "ann", 0.3, **WHY)

    def attempt(_: int) -> bool:
        try:
            reserve(ledger.account("ann"), 0.03)
        except BudgetExhausted:
            return False
        return True

    with ThreadPoolExecutor(50) as threads:
        assert sum(threads.map(attempt, range(50))) == 10
    assert ledger.account("ann").budget("adult").spent == 0.3


def test_closing_an_account_leaves_the_ledger_open(ledger):
    ledger.account("ann").close()
    assert ledger.budget("adult").remaining == 1.0


def test_top_up_of_the_data_set_survives_opening_again_and_a_new_declaration(ledger):
    ledger.top_up("adult", 0.5, reason="second wave", by="carol")
    ledger.open_dataset("adult", 1.0, 1e-6)
    assert ledger.budget("adult").limit == 1.5
    ledger.open_dataset("adult", 2.0, 1e-6)
    assert ledger.budget("adult").limit == 2.5
    told = [(line.kind, line.rho, line.description) for line in ledger.history("adult")]
    assert told == [
        ("top-up", 0.0, "limit raised to rho 1.5: second wave"),
        ("limit", 0.0, "limit changed from rho 1.5 to rho 2.5"),
    ]
    line = ledger.history("adult")[0]
    assert json.loads(ledger.get("adult", line.id)[1]) == {
        "old_limit": 1,
        "new_limit": 1.5,
        "reason": "second wave",
    }


def test_top_up_of_an_analyst_adds_to_their_allowance_and_keeps_its_expiry(ledger):
    ends = soon()
    ledger.grant("adult", "ann", 0.1, expires=ends, **WHY)
    ledger.top_up("adult", 0.2, analyst="ann", reason="more", by="carol")
    ledger.top_up("adult", 0.1, analyst="ben", reason="more", by="carol", default_limit=0.5)
    limits = {one.analyst: (one.limit, one.expires) for one in ledger.allowances("adult")}
    assert limits == {"ann": (0.3, ends), "ben": (0.6, None)}
    assert ledger.budget("adult").limit == 1.0


def test_limit_cannot_outgrow_what_the_ledger_counts(ledger):
    with pytest.raises(BadRequest, match="1,000,000"):
        ledger.top_up("adult", 1_000_000, reason="all of it", by="carol")
    assert ledger.budget("adult").limit == 1.0


def test_allowances_list_everyone_who_was_granted_or_spent_something(ledger):
    ledger.grant("adult", "ann", 0.5, reason="first", by="carol")
    ledger.grant("adult", "ann", 0.6, reason="second", by="dora")
    reserve(ledger.account("ann"), 0.1)
    reserve(ledger.account("ben", default_limit=0.4), 0.3)
    reserve(ledger, 0.2)
    ann, ben = ledger.allowances("adult", default_limit=0.4)
    assert (ann.analyst, ann.limit, ann.spent, ann.remaining) == ("ann", 0.6, 0.1, 0.4)
    assert (ann.reason, ann.by, ann.expires) == ("second", "dora", None)
    assert abs(ann.time - datetime.now(UTC)) < timedelta(minutes=1)
    assert (ben.analyst, ben.limit, ben.spent, ben.remaining, ben.time) == ("ben", 0.4, 0.3, 0.1, None)


def test_analysts_do_not_see_each_other(ledger):
    ann, ben = (ledger.account(name, default_limit=0.5) for name in ("ann", "ben"))
    entry = reserve(ann, 0.1, key="same")
    ann.release(entry, '"ann"')
    ledger.release(reserve(ledger, 0.1, key="same"), '"owner"')
    assert ben.find("adult", "same") is None
    assert ben.get("adult", 1) is None
    assert ben.get("adult", "1@ann") is None
    assert ben.history("adult") == []
    assert ann.find("adult", "same")[0].analyst == "ann"
    assert ledger.find("adult", "same")[1] == '"ann"'
    assert ledger.account("carol", sees_all=True).get("adult", "1@ann")[1] == '"ann"'


def test_nobody_releases_what_another_reserved(ledger):
    entry = reserve(ledger.account("ann", default_limit=0.5), 0.1)
    for other in (ledger, ledger.account("ben", default_limit=0.5)):
        with pytest.raises(InternalError):
            other.release(entry, "{}")


def test_changes_are_told_to_those_whom_they_concern(ledger):
    ledger.grant("adult", "ann", 0.5, **WHY)
    ledger.top_up("adult", 0.1, reason="all", by="carol")
    ledger.top_up("adult", 0.1, analyst="ann", reason="ann", by="carol")
    ledger.open_dataset("adult", 3.0, 1e-6)
    assert kinds(ledger) == ["grant", "top-up", "top-up", "limit"]
    assert kinds(ledger.account("ann")) == ["grant", "top-up", "top-up", "limit"]
    assert kinds(ledger.account("ben")) == ["top-up", "limit"]
    grant = ledger.account("ann").history("adult")[0]
    assert (grant.rho, grant.spends, grant.state) == (0.0, (), "released")
    assert grant.description == "allowance set to rho 0.5: study 7"


@pytest.mark.parametrize("reader", ["ben", "*"])
def test_shared_history_is_seen_until_it_is_unshared(ledger, reader):
    ann, ben = (ledger.account(name, default_limit=0.5) for name in ("ann", "ben"))
    entry = reserve(ann, 0.1)
    ann.release(entry, '"ann"')
    ledger.share("adult", "ann", reader, **WHY)
    assert ben.get("adult", "1@ann")[1] == ben.find("adult", "k")[1] == '"ann"'
    assert ben.get("adult", 1) is None
    assert [line.analyst for line in ben.history("adult")] == ["ann"]
    assert ben.budget("adult").spent == 0.0
    (share,) = ledger.shares("adult")
    assert (share.owner, share.reader, share.reason, share.by) == ("ann", reader, "study 7", "carol")
    ledger.unshare("adult", "ann", reader, reason="over", by="carol")
    assert ledger.shares("adult") == []
    assert ben.get("adult", "1@ann") is None
    ledger.share("adult", "ann", reader, **WHY)
    assert ben.find("adult", "k") is not None


def test_pages_of_a_shared_history_are_merged_and_add_up(ledger):
    """Two owners, notices between them, and another analyst whose charges are neither seen nor added."""
    ann, ben, eve = (ledger.account(name) for name in ("ann", "ben", "eve"))
    for name in ("ann", "ben", "eve"):
        ledger.grant("adult", name, 0.3, **WHY)
    for number in range(5):
        reserve(ann, 0.01, key=f"a{number}")
        reserve(eve, 0.02, key=f"e{number}")
        if number % 2:
            reserve(ben, 0.03, key=f"b{number}")
        if number == 2:
            ledger.open_dataset("adult", 0.9, 1e-6)
    ledger.share("adult", "ann", "ben", **WHY)
    whole = ben.history("adult")
    assert {line.analyst for line in whole} == {"", "ann", "ben"}
    assert [line.row for line in whole] == sorted(line.row for line in whole)
    assert [line.id for line in whole if line.analyst == "ben"] == [1, 2, 3]
    assert [line.id for line in whole if line.analyst == "ann"] == [f"{n}@ann" for n in range(1, 7)]
    assert [line.id for line in whole if line.analyst == ""] == ["1@*"]
    spent = 0
    for line in whole:
        spent += spend_units(line.rho) if line.rho else 0
        assert spend_units(line.total_rho) == spent if spent else line.total_rho == 0
    for limit in range(1, len(whole) + 1):
        pages = list(history_pages(lambda before, limit=limit: ben.history_page("adult", before, limit)))
        lines = [line for page in reversed(pages) for line in page.entries]
        assert [(line.id, line.total_rho) for line in lines] == [(line.id, line.total_rho) for line in whole]
        assert all(len(page.entries) == limit for page in pages[:-1])


def test_a_page_of_the_history_has_at_most_so_many_lines_whatever_is_asked_for(ledger, monkeypatch):
    monkeypatch.setattr(account_module, "LARGEST_PAGE", 3)
    for _ in range(5):
        reserve(ledger, 0.01)
    assert [line.id for line in ledger.history_page("adult", limit=5).entries] == [3, 4, 5]


def test_share_is_one_way_and_for_one_data_set_and_reader(ledger):
    ledger.open_dataset("census", 1.0, 1e-6)
    ann, ben, dan = (ledger.account(name, default_limit=0.5) for name in ("ann", "ben", "dan"))
    ledger.share("adult", "ann", "ben", **WHY)
    reserve(ben, 0.1)
    reserve(ann, 0.1, dataset="census")
    assert ann.history("adult") == []
    reserve(ann, 0.1)
    assert dan.history("adult") == []
    assert ben.history("census") == []


def test_sharing_twice_or_taking_back_what_is_not_shared_is_refused(ledger):
    with pytest.raises(BadRequest, match="is not shared"):
        ledger.unshare("adult", "ann", "ben", **WHY)
    ledger.share("adult", "ann", "ben", **WHY)
    with pytest.raises(BadRequest, match="already shared"):
        ledger.share("adult", "ann", "ben", **WHY)


@pytest.mark.parametrize("name", ["", "*", " ann", "a" * 201])
def test_unusable_names_are_refused(ledger, name):
    with pytest.raises(BadRequest, match="name"):
        ledger.grant("adult", name, 0.1, **WHY)
    if name:
        with pytest.raises(BadRequest, match="name"):
            ledger.account(name)


@pytest.mark.parametrize(
    "decide",
    [
        lambda ledger: ledger.grant("adult", "ann", 0.1, reason=" ", by="carol"),
        lambda ledger: ledger.top_up("adult", 0.1, reason="", by="carol"),
        lambda ledger: ledger.share("adult", "ann", "ben", reason="", by="carol"),
    ],
    ids=["grant", "top up", "share"],
)
def test_decision_without_a_reason_is_refused(ledger, decide):
    with pytest.raises(BadRequest, match="reason"):
        decide(ledger)


@pytest.mark.parametrize("rho", [-0.1, math.nan, math.inf, 1e-13, True, "0.1"])
def test_unusable_amounts_change_nothing(ledger, rho):
    with pytest.raises(BadRequest):
        ledger.grant("adult", "ann", rho, **WHY)
    with pytest.raises(BadRequest):
        ledger.top_up("adult", rho, **WHY)
    assert len(ledger.audit()) == 1


def test_expiry_needs_a_time_zone(ledger):
    with pytest.raises(BadRequest, match="time zone"):
        ledger.grant("adult", "ann", 0.1, expires=datetime(2030, 1, 1), **WHY)


@pytest.mark.parametrize(
    "use",
    [
        lambda ledger: ledger.grant("nobody", "ann", 0.1, **WHY),
        lambda ledger: ledger.top_up("nobody", 0.1, **WHY),
        lambda ledger: ledger.top_up("nobody", 0.1, analyst="ann", **WHY),
        lambda ledger: ledger.allowances("nobody"),
        lambda ledger: ledger.share("nobody", "ann", "ben", **WHY),
        lambda ledger: ledger.shares("nobody"),
        lambda ledger: ledger.account("ann").history("nobody"),
    ],
)
def test_decision_about_an_unknown_data_set_names_it(ledger, use):
    with pytest.raises(BadRequest, match="'nobody'"):
        use(ledger)


def test_single_reads_keep_to_what_the_analyst_may_see(ledger):
    ann = ledger.account("ann", default_limit=None)
    ben, carol = ledger.account("ben"), ledger.account("carol", sees_all=True)
    query, preparation = store(ann, "query", "q"), store(ann, "prepare", "p", subject="q")

    def reads(account):
        found = account.entry("adult", "1@ann"), account.latest("adult", "query")
        return [entry and entry.row for entry in (*found, *account.preparations("adult", "q"))]

    for account in (ann, carol, ledger):
        assert reads(account) == [query, query, preparation]
    assert reads(ben) == [None, None]
    ledger.share("adult", "ann", "ben", **WHY)
    assert reads(ben) == [query, query, preparation]
    ledger.unshare("adult", "ann", "ben", **WHY)
    assert reads(ben) == [None, None]
    ledger.share("adult", "ann", "*", **WHY)
    assert reads(ben) == [query, query, preparation]


def test_numbers_count_per_analyst_and_data_set_whatever_others_do(ledger):
    """Two worlds, in one of which others are busy: ann sees the same numbers in both."""
    ledger.open_dataset("census", 1.0, 1e-6)
    ann, ben = (ledger.account(name, default_limit=0.5) for name in ("ann", "ben"))

    def numbers(dataset, busy):
        seen = []
        for _ in range(3):
            for _ in range(busy):
                reserve(ben, 0.001, dataset=dataset)
                reserve(ledger, 0.001, dataset=dataset)
            entry = ann.reserve(dataset, Charge("query", "k", Request("SELECT"), 0.01))
            seen.append((entry.id, ann.history_page(dataset, limit=2).older))
        return seen, [line.id for line in ann.history(dataset)]

    assert numbers("adult", busy=0) == numbers("census", busy=4)
    assert [line.id for line in ben.history("census")] == list(range(1, 13))


def test_notice_for_everybody_does_not_tell_how_busy_the_owner_is(ledger):
    for _ in range(3):
        reserve(ledger, 0.01)
    ledger.top_up("adult", 0.1, reason="all", by="carol")
    (line,) = ledger.account("ann").history("adult")
    assert line.id == "1@*"
    assert ledger.account("ann").entry("adult", "1@*").kind == "top-up"


def test_request_of_another_names_the_answer_as_its_own(ledger):
    ann, ben = (ledger.account(name, default_limit=0.5) for name in ("ann", "ben"))
    for account in (ben, ann):
        account.release(reserve(account, 0.01, key="q"), "{}")
    why = Charge("explain", "e", Request("why", {"answer": 1, "k": 5}), 0.01)
    ann.release(ann.reserve("adult", why).row, "{}")
    ledger.share("adult", "ann", "ben", **WHY)
    assert ann.history("adult")[-1].request == {"answer": 1, "k": 5}
    shared = ben.history("adult")[-1]
    assert (shared.id, shared.request) == ("2@ann", {"answer": "1@ann", "k": 5})
    assert ben.get("adult", shared.request["answer"])[0].analyst == "ann"
    assert ben.get("adult", 1)[0].analyst == "ben"
    assert ann.get("adult", "1@ann")[0] == ann.get("adult", 1)[0]  # her own link, as everybody opens it
    assert ann.get("adult", 1)[0].identity == ben.get("adult", "1@ann")[0].identity


@pytest.mark.parametrize("name", ["ann@example.org", "r&d/ann #1", "50%", "日本", "1@x"])
def test_any_name_can_be_part_of_a_number(ledger, name):
    account = ledger.account(name, default_limit=0.5)
    account.release(reserve(account, 0.01), "{}")
    (line,) = ledger.history("adult")
    assert "/" not in line.id
    assert ledger.get("adult", line.id)[0].analyst == name


def test_gaussian_noise_is_summed_up_for_each_account_and_for_all(ledger):
    ann = ledger.account("ann", default_limit=0.5)
    ann.reserve(
        "adult", Charge("query", "q", Request("q"), 0.1, spends((Event.COUNTS, 0.06), (Event.SUMS, 0.04)))
    )
    why = spends((Event.TOP_K, 0.05), (Event.INFLUENCES, 0.05), (Event.RANK_SEARCH, 0.1))
    ann.reserve("adult", Charge("explain", "e", Request("e"), 0.2, why))
    discovery = Request("d", {"delta": 1e-7})
    ledger.reserve("adult", Charge("discover", "d", discovery, 0.01, spends((Event.VALUES, 0.01))))
    ledger.reserve("adult", Charge("query", "o", Request("o"), 0.1, spends((Event.COUNTS, 0.1))))
    assert ann.budget("adult").gaussian == pytest.approx(0.25, abs=2e-12)
    assert ledger.budget("adult").gaussian == pytest.approx(0.35, abs=2e-12)
    assert ledger.budget("adult").spent == 0.41
    assert ledger.account("ben").budget("adult").gaussian == 0.0
    assert ledger.verify_audit().problems == []


def test_a_column_is_discovered_by_one_analyst_whoever_is_late(ledger):
    charge = Charge("discover", "city", Request("discover city", {"delta": 1e-7}), 0.1)
    ann, bob = (ledger.account(name, default_limit=1.0) for name in ("ann", "bob"))
    first = ann.reserve_once("adult", charge)
    with pytest.raises(BadRequest, match="are being discovered right now"):
        bob.reserve_once("adult", charge)
    assert bob.budget("adult").spent == 0.0
    ann.abandon(first.row)
    second = bob.reserve_once("adult", charge)
    bob.release(second.row, "{}")
    with pytest.raises(BadRequest, match="already been discovered"):  # it was taken for dead
        ann.release(first.row, "{}")
    assert ann.discovered("adult", "city")[1] == "{}"
    assert ann.find("adult", "city") is None


def test_a_kept_charge_for_a_discovery_is_not_taken_over_once_another_makes_it(ledger):
    charge = Charge("discover", "city", Request("discover city", {"delta": 1e-7}), 0.1)
    ann, bob = (ledger.account(name, default_limit=1.0) for name in ("ann", "bob"))
    ann.abandon(ann.reserve_once("adult", charge).row, Ending.STOPPED)
    second = bob.reserve_once("adult", charge)
    with pytest.raises(BadRequest, match="are being discovered right now"):
        ann.reserve_once("adult", charge)
    bob.release(second.row, "{}")
    with pytest.raises(BadRequest, match="already been discovered"):
        ann.reserve_once("adult", charge)


def test_delta_is_lowered_to_what_discoveries_have_spent_and_no_further(ledger):
    charge = Charge("discover", "city", Request("discover city", {"delta": 1e-7}), 0.1)
    ledger.release(ledger.reserve("adult", charge).row, "{}")
    spent = ledger.spent_delta("adult")
    with pytest.raises(SchemaError, match="cannot be lowered"):
        ledger.open_dataset("adult", 1.0, spent / 2)
    ledger.open_dataset("adult", 1.0, spent)
    assert ledger.budget("adult").delta == spent


def test_the_number_of_a_row_is_nobody_elses(ledger, monkeypatch):
    """An entry from before numbers were each analyst's own has that of its row, and one owner."""
    ann, bob = (ledger.account(name, sees_all=True, default_limit=0.5) for name in ("ann", "bob"))
    monkeypatch.setattr(account_module, "count_entry", lambda *_: None)
    row = reserve(ann, 0.1)
    for reader in (ann, bob):
        assert reader.entry("adult", f"{row}@bob") is None
        assert reader.entry("adult", f"{row}@ann").row == row


def test_a_release_is_read_only_by_who_may_see_it(ledger):
    ann, bob = (ledger.account(name, sees_all=False, default_limit=0.5) for name in ("ann", "bob"))
    store(ann, "query", "k")
    statements = []
    for engine in ledger.store.engines:
        sa.event.listen(engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    assert bob.get("adult", "1@ann") is None
    assert statements
    assert not any("payload" in statement for statement in statements)
    assert ann.get("adult", 1)[1] == "{}"
    assert any("payload" in statement for statement in statements)


def test_requests_at_once_are_as_many_as_may_wait(ledger):
    def ask(number):
        try:
            ledger.analysts.ask("adult", "ann", 0.1, f"Study {number}.")
        except BadRequest:
            return 0
        return 1

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(ask, range(16))) == MOST_OPEN
