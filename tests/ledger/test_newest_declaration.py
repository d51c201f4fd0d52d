"""A declaration replaces the one before it, and a configuration's anchor holds for every kind of ledger."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from dpxplain.ledger import ANCHOR_VARIABLE
from dpxplain.ledger.address import configured_ledger
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.schema import Privacy


def test_a_declared_privacy_unit_can_be_changed_again_before_anything_is_spent(tmp_path: Path) -> None:
    with closing(open_ledger(tmp_path / "ledger.sqlite")) as ledger:
        ledger.open_dataset("adult", 1.0, 1e-6)
        for max_rows in (5, 7, 5):
            privacy = Privacy(rho=1.0, unit="person", max_rows=max_rows)
            ledger.privacy_units.check_and_record("adult", privacy)
            ledger.privacy_units.check_and_record("adult", privacy)  # the newest already: nothing to record
        declared = [record for record in ledger.audit() if record.action == "protection declared"]
        assert len(declared) == 3


@pytest.mark.parametrize("ledger", ["postgresql://db/dpxplain", "ledger.sqlite"])
def test_the_configured_anchor_is_in_the_configuration_folder(
    ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ANCHOR_VARIABLE, raising=False)
    assert configured_ledger(ledger, tmp_path, "kept/anchor").anchor == str(tmp_path / "kept/anchor")
    assert configured_ledger(ledger, tmp_path, "off").anchor == "off"
