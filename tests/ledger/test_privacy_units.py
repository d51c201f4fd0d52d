"""What a budget protects is compared with what was spent under the lock of the writers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from ledger_contract import reserve

from dpxplain.errors import SchemaError
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.schema import Privacy


def test_a_charge_between_look_and_lock_is_protected_as_it_was_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_ledger(tmp_path / "ledger.sqlite")) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        ledger.privacy_units.check_and_record("adult", Privacy(rho=1.0))
        look = ledger.store.reading

        @contextmanager
        def look_and_charge() -> Iterator[sa.Connection]:
            with look() as connection:
                yield connection
            reserve(ledger, 0.1)

        monkeypatch.setattr(ledger.store, "reading", look_and_charge)
        by_person = Privacy(rho=1.0, unit="person", max_rows=5)
        with pytest.raises(SchemaError, match="cannot be changed to promise more"):
            ledger.privacy_units.check_and_record("adult", by_person)
