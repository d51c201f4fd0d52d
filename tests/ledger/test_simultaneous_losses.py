"""What is written to the anchor while a loss is declared is not forgotten by that declaration.

A declaration is committed before it writes the anchor; each test runs something else in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from ledger_contract import reserve, restored

from dpxplain.errors import BadRequest, LedgerBehind
from dpxplain.ledger.anchor_guard import AnchorFile, AnchorGuard, Head, Mark
from dpxplain.ledger.ledger import SQLLedger, open_ledger

TENTH = 100_000_000_000
"""Of rho 1, in the ledger's units."""


@pytest.fixture
def anchor(tmp_path: Path) -> Path:
    return tmp_path / "people.anchor"


@pytest.fixture
def opened(address, anchor):
    """Opens the ledger once more, as another process would, and closes it after the test."""
    ledgers = []

    def open_again() -> SQLLedger:
        ledger = open_ledger(address, anchor=anchor, is_recovery=True)
        ledgers.append(ledger)
        ledger.open_dataset("adult", 1.0, 1e-6)
        return ledger

    yield open_again
    for ledger in ledgers:
        ledger.close()


@pytest.fixture
def older(tmp_path: Path) -> Path:
    return tmp_path / "older.sqlite"


@pytest.fixture
def rolled_back(opened, older):
    """A ledger with 0.1 of ann, which has forgotten another 0.2 of her."""
    ledger = opened()
    spend(ledger, 0.1, "first")
    ledger.recovery.backup(older)
    spend(ledger, 0.2, "lost")
    restored(ledger, older, by="carol")
    return ledger


def spend(ledger: SQLLedger, rho: float, key: str) -> None:
    account = ledger.account("ann", default_limit=10.0)
    account.release(reserve(account, rho, key), json.dumps(key))


def declare(ledger: SQLLedger, *, everything: bool = False) -> list[int]:
    losses = ledger.recovery.declare_loss(reason="disk failed", by="carol", everything=everything)
    return [loss.units // TENTH for loss in losses]


def before_renewal(ledger: SQLLedger, act: Callable[[Callable[[], None]], None], patch) -> None:
    """Let `act` run when the ledger is about to renew the anchor; what it is given does that."""
    guard = ledger.store.anchor
    renew = guard.renew
    patch.setattr(guard, "renew", lambda *args: act(partial(renew, *args)))


def check_remembered(ledger: SQLLedger, anchor: Path, backup: Path, tenths: int) -> None:
    """The anchor knows of everything spent, and a copy without the last charge is refused."""
    assert AnchorFile(anchor).read().spent == {"adult": {"ann": tenths * TENTH}}
    assert ledger.recovery.anchor_problem() is None
    restored(ledger, backup, by="carol")
    with pytest.raises(LedgerBehind):
        spend(ledger, 0.1, "again")


def test_charge_after_the_second_declaration_is_not_forgotten_by_the_first(
    rolled_back, opened, anchor, tmp_path, monkeypatch
):
    other = opened()
    declared = []

    def declare_and_spend(renew):
        declared.extend(declare(other))
        other.recovery.backup(tmp_path / "between.sqlite")
        spend(other, 0.3, "between")
        renew()

    before_renewal(rolled_back, declare_and_spend, monkeypatch)
    assert declare(rolled_back) == [2]
    assert declared == []  # what was lost is charged once
    check_remembered(rolled_back, anchor, tmp_path / "between.sqlite", 6)


def test_charge_after_the_first_declaration_is_not_forgotten_by_the_second(
    rolled_back, opened, anchor, tmp_path, monkeypatch
):
    other = opened()
    declared = []

    def renew_and_spend(renew_first, renew_second):
        renew_first()
        rolled_back.recovery.backup(tmp_path / "between.sqlite")
        spend(rolled_back, 0.3, "between")
        renew_second()

    def declare_elsewhere(renew):
        before_renewal(other, partial(renew_and_spend, renew), monkeypatch)
        declared.extend(declare(other))

    before_renewal(rolled_back, declare_elsewhere, monkeypatch)
    assert declare(rolled_back) == [2]
    assert declared == []
    check_remembered(rolled_back, anchor, tmp_path / "between.sqlite", 6)


@pytest.mark.parametrize("is_missing", [False, True])
def test_charge_of_a_budget_raised_meanwhile_is_not_forgotten_when_everything_is_declared(
    opened, anchor, tmp_path, monkeypatch, is_missing
):
    ledger, other = opened(), opened()
    spend(ledger, 0.1, "first")
    if is_missing:
        anchor.unlink()
        ledger = opened()  # which has never read the file

    def spend_elsewhere(renew):
        other.top_up("adult", 1.0, reason="approved", by="carol")
        other.recovery.backup(tmp_path / "between.sqlite")
        spend(other, 0.3, "between")
        renew()

    before_renewal(ledger, spend_elsewhere, monkeypatch)
    assert declare(ledger, everything=True) == [9]
    kept = AnchorFile(anchor).read()
    assert kept.spent == {"adult": {"ann": 4 * TENTH, "": 9 * TENTH}}
    restored(ledger, tmp_path / "between.sqlite", by="carol")
    with pytest.raises(LedgerBehind):
        spend(ledger, 0.1, "again")


@pytest.mark.parametrize("moment", ["before the renewal", "after it"])
def test_charge_restored_away_whose_mark_comes_late_is_declared_by_itself(
    opened, older, anchor, monkeypatch, moment
):
    ledger, slow = opened(), opened()
    spend(ledger, 0.1, "first")
    ledger.recovery.backup(older)
    spend(ledger, 0.2, "lost")
    late: list[Mark] = []
    with monkeypatch.context() as patch:
        patch.setattr(AnchorGuard, "keep", lambda _, mark: late.append(mark))
        reserve(slow.account("ann", default_limit=10.0), 0.3, "slow")
    restored(ledger, older, by="carol")
    for number in range(9):  # so that the log is longer than it was
        ledger.share("adult", "ann", f"analyst {number}", reason="same team", by="carol")

    def write_late(renew):
        if moment == "after it":
            renew()
        slow.store.anchor.keep(late.pop())
        if moment == "before the renewal":
            renew()

    with monkeypatch.context() as patch:
        before_renewal(ledger, write_late, patch)
        assert declare(ledger) == [2]
    with pytest.raises(LedgerBehind):
        spend(ledger, 0.1, "too early")
    assert declare(ledger) == [3]
    assert AnchorFile(anchor).read().spent["adult"]["ann"] == 6 * TENTH
    spend(ledger, 0.1, "next")


def test_anchor_renewed_between_two_looks_at_it_leaves_nothing_to_declare(rolled_back, opened, monkeypatch):
    other = opened()
    problem = AnchorGuard.problem

    def renewed_before(guard, connection, **options):
        monkeypatch.undo()
        renewals.pop()()
        return problem(guard, connection, **options)

    renewals: list[Callable[[], None]] = []
    before_renewal(rolled_back, renewals.append, monkeypatch)
    assert declare(rolled_back) == [2]
    monkeypatch.setattr(AnchorGuard, "problem", renewed_before)
    with pytest.raises(BadRequest, match="Nothing was lost"):
        declare(other)
    assert other.budget("adult").spent == 0.3


def test_renewed_anchor_keeps_the_totals_that_it_knew(anchor):
    file = AnchorFile(anchor)
    file.append(_mark(5, {"ann": 3, "bob": 1}))
    file.replace(_mark(2, {"ann": 2, "bob": 4}), last_read=_mark(5, {}).head)
    kept = AnchorFile(anchor).read()
    assert kept == file.read()
    assert kept.heads == [_mark(2, {}).head]
    assert kept.spent == {"adult": {"ann": 3, "bob": 4}}


def _mark(number: int, spent: dict[str, int]) -> Mark:
    return Mark(Head(number, f"{number:064}"), number, "2030-01-01T00:00:00+00:00", {"adult": spent})
