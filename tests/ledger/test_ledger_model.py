"""Any sequence of calls leaves the ledger in step with a few lines of plain Python, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dpxplain.errors import BudgetExhausted
from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.model.charge import Charge, Request, Spend, limit_units, rho_of_units, spend_units

AMOUNTS = st.integers(1, 10**6) | st.integers(1, 10**13)
KEYS = st.sampled_from("abc")
ANALYSTS = ("ann", "ben")
OWNER = ""
PEOPLE = st.sampled_from([OWNER, *ANALYSTS])
DEFAULT = 10**6
WHY = {"reason": "because", "by": "carol"}


@dataclass
class Line:
    row: int
    analyst: str
    units: int
    key: str
    payload: str | None = None


class LedgerAgainstModel(RuleBasedStateMachine):
    ledger: ClassVar[SQLLedger]
    names: ClassVar[Iterator[int]] = count()

    def __init__(self) -> None:
        super().__init__()
        self.dataset = f"adult {next(self.names)}"  # afresh in a ledger that goes on
        self.declared, self.added = 10**12, 0
        self.allowed = dict.fromkeys(ANALYSTS, DEFAULT)
        self.shared: set[tuple[str, str]] = set()
        self.ledger.open_dataset(self.dataset, 1.0, 1e-6)
        self.lines: list[Line] = []

    def account(self, who: str):
        return self.ledger.account(who, default_limit=rho_of_units(DEFAULT))

    def told(self, who: str) -> None:
        """A change has left a line in the history, for `who` or for all."""
        line = self.ledger.history(self.dataset)[-1]
        self.lines.append(Line(line.row, who, 0, "", self.ledger.get(self.dataset, line.id)[1]))

    @rule(limit=AMOUNTS)
    def declare(self, limit: int) -> None:
        self.ledger.open_dataset(self.dataset, rho_of_units(limit), 1e-6)
        if limit != self.declared:
            self.told(OWNER)
        self.declared = limit

    @rule(units=AMOUNTS)
    def top_up_the_data_set(self, units: int) -> None:
        self.ledger.top_up(self.dataset, rho_of_units(units), **WHY)
        self.added += units
        self.told(OWNER)

    @rule(who=st.sampled_from(ANALYSTS), units=AMOUNTS | st.just(0))
    def grant(self, who: str, units: int) -> None:
        self.ledger.grant(self.dataset, who, rho_of_units(units), **WHY)
        self.allowed[who] = units
        self.told(who)

    @rule(who=st.sampled_from(ANALYSTS), units=AMOUNTS)
    def top_up_an_analyst(self, who: str, units: int) -> None:
        default = rho_of_units(DEFAULT)
        self.ledger.top_up(self.dataset, rho_of_units(units), analyst=who, default_limit=default, **WHY)
        self.allowed[who] += units
        self.told(who)

    @rule(owner=PEOPLE, reader=st.sampled_from([*ANALYSTS, "*"]))
    def share_or_take_back(self, owner: str, reader: str) -> None:
        change = self.ledger.unshare if (owner, reader) in self.shared else self.ledger.share
        change(self.dataset, owner, reader, **WHY)
        self.shared ^= {(owner, reader)}

    @rule(who=PEOPLE, units=AMOUNTS, key=KEYS)
    def reserve(self, who: str, units: int, key: str) -> None:
        rho = rho_of_units(units)
        asked = (
            self.dataset,
            Charge("query", key, Request("SELECT", {"rho": rho}), rho, (Spend("gaussian", rho / 3),) * 3),
        )
        if units > self.left(who):
            with pytest.raises(BudgetExhausted):
                self.account(who).reserve(*asked)
        else:
            self.lines.append(Line(self.account(who).reserve(*asked).row, who, units, key))

    @rule(who=PEOPLE, key=KEYS)
    def reserve_all_that_is_left(self, who: str, key: str) -> None:
        if left := self.left(who):
            self.reserve(who, left, key)

    @precondition(lambda self: any(line.payload is None for line in self.lines))
    @rule(data=st.data(), payload=st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
    def release(self, data: st.DataObject, payload: str) -> None:
        line = data.draw(st.sampled_from([line for line in self.lines if line.payload is None]))
        self.account(line.analyst).release(line.row, payload)
        line.payload = payload

    def spent(self, *who: str) -> int:
        return sum(line.units for line in self.lines if line.analyst in who)

    def left(self, who: str) -> int:
        left = self.declared + self.added - self.spent(OWNER, *ANALYSTS)
        own = left if who == OWNER else self.allowed[who] - self.spent(who)
        return max(0, min(left, own))

    def seen(self, who: str) -> list[Line]:
        owners = {who} | {owner for owner, reader in self.shared if reader in (who, "*")}
        return [
            line
            for line in self.lines
            if who == OWNER or line.analyst in owners or (line.analyst == OWNER and not line.units)
        ]

    @invariant()
    def budgets_agree(self) -> None:
        budget = self.ledger.budget(self.dataset)
        total = (self.declared + self.added, self.spent(OWNER, *ANALYSTS))
        assert (limit_units(budget.limit), spend_units(budget.spent)) == total
        for who in ANALYSTS:
            budget = self.account(who).budget(self.dataset)
            own = (self.allowed[who], self.spent(who), self.left(who))
            assert (*map(spend_units, (budget.limit, budget.spent)), limit_units(budget.remaining)) == own

    @invariant()
    def history_agrees(self) -> None:
        for who in (OWNER, *ANALYSTS):
            history = self.account(who).history(self.dataset)
            lines = [(line.row, line.analyst, spend_units(line.rho), line.key) for line in history]
            assert lines == [(line.row, line.analyst, line.units, line.key) for line in self.seen(who)]
            assert len({line.id for line in history}) == len(history)
            own = [line.id for line in history if line.analyst == who and (who or line.rho)]
            assert own == list(range(1, len(own) + 1))  # whatever the others do

    @invariant()
    def releases_agree(self) -> None:
        for who in (OWNER, *ANALYSTS):
            for key in "abc":
                released = [line for line in self.seen(who) if line.key == key and line.payload is not None]
                found = self.account(who).find(self.dataset, key)
                expected = (released[0].row, released[0].payload) if released else None
                assert (found and (found[0].row, found[1])) == expected

    def teardown(self) -> None:
        assert self.ledger.verify_audit().problems == []


@pytest.mark.parametrize(
    ("database", "examples", "steps"),
    [
        ("sqlite", 10, 20),
        pytest.param("sqlite", 30, 25, marks=pytest.mark.slow),
        pytest.param("postgres", 8, 15, marks=pytest.mark.slow),
    ],
)
def test_ledger_agrees_with_its_model(database, examples, steps, request):
    place = request.getfixturevalue("postgres_address") if database == "postgres" else None
    LedgerAgainstModel.ledger = open_ledger(place)
    few = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    try:
        run_state_machine_as_test(LedgerAgainstModel, settings=few)
    finally:
        LedgerAgainstModel.ledger.close()
