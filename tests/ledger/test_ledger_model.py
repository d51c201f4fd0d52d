"""Any sequence of calls leaves the ledger in step with a few lines of plain Python."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dpxplain.errors import BudgetExhausted
from dpxplain.ledger.sqlite import SQLiteLedger
from dpxplain.model.budget import Spend, limit_units, rho_of_units, spend_units

AMOUNTS = st.integers(1, 10**6) | st.integers(1, 10**13)
KEYS = st.sampled_from("abc")


@dataclass
class Line:
    id: int
    units: int
    key: str
    payload: str | None = None


class LedgerAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = SQLiteLedger(None)
        self.limit = 10**12
        self.ledger.open_dataset("adult", 1.0, 1e-6)
        self.lines: list[Line] = []

    @rule(limit=AMOUNTS)
    def set_limit(self, limit: int) -> None:
        self.ledger.open_dataset("adult", rho_of_units(limit), 1e-6)
        if limit != self.limit:
            id = self.ledger.history("adult")[-1].id
            self.lines.append(Line(id, 0, "", self.ledger.get("adult", id)[1]))
        self.limit = limit

    @rule(units=AMOUNTS, key=KEYS)
    def reserve(self, units: int, key: str) -> None:
        rho = rho_of_units(units)
        spends = [Spend("gaussian", rho / 3)] * 3
        if self.spent + units > self.limit:
            with pytest.raises(BudgetExhausted):
                self.ledger.reserve("adult", "query", key, "SELECT", rho, spends)
        else:
            id = self.ledger.reserve("adult", "query", key, "SELECT", rho, spends)
            self.lines.append(Line(id, units, key))

    @precondition(lambda self: self.limit > self.spent)
    @rule(key=KEYS)
    def reserve_all_that_is_left(self, key: str) -> None:
        self.reserve(self.limit - self.spent, key)

    @precondition(lambda self: any(line.payload is None for line in self.lines))
    @rule(data=st.data(), payload=st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
    def release(self, data: st.DataObject, payload: str) -> None:
        line = data.draw(st.sampled_from([line for line in self.lines if line.payload is None]))
        self.ledger.release(line.id, payload)
        line.payload = payload

    @property
    def spent(self) -> int:
        return sum(line.units for line in self.lines)

    @invariant()
    def budget_agrees(self) -> None:
        budget = self.ledger.budget("adult")
        assert (limit_units(budget.limit), spend_units(budget.spent)) == (self.limit, self.spent)

    @invariant()
    def history_agrees(self) -> None:
        history = [(line.id, spend_units(line.rho), line.key) for line in self.ledger.history("adult")]
        assert history == [(line.id, line.units, line.key) for line in self.lines]

    @invariant()
    def releases_agree(self) -> None:
        for key in "abc":
            earliest = next(
                (line for line in self.lines if line.key == key and line.payload is not None), None
            )
            found = self.ledger.find("adult", key)
            assert (found and (found[0].id, found[1])) == (earliest and (earliest.id, earliest.payload))

    def teardown(self) -> None:
        self.ledger.close()


TestLedgerAgainstModel = LedgerAgainstModel.TestCase
TestLedgerAgainstModel.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
