"""What is sent of a record: the fields that it lists, and nothing else."""

from __future__ import annotations

import importlib
import json
import pkgutil
from dataclasses import dataclass, is_dataclass
from datetime import UTC, datetime

import pytest

import dpxplain
from dpxplain.ledger.protocol import DataVersion
from dpxplain.model.charge import Entry, Spend
from dpxplain.model.display import PUBLIC, as_json, public
from dpxplain.results.base import Truth

# A field that is added to a record is sent only after it is added here.
SENT = {
    "Allowance": "analyst limit spent remaining expires reason by time",
    "AnalystLine": "analyst limit spent remaining expires reason by time failures crashes blocked why",
    "Anchor": "first records head time spent",
    "AuditLine": "id time actor action dataset details previous hash sentence reveals_truth",
    "AuditRecord": "id time actor action dataset details previous hash",
    "AuditReport": "records head problems intact",
    "BoundsProposal": "column keep low high below above average_noise sum_noise sure",
    "BudgetAnswer": "asked_at rho state given decided_at reason",
    "BudgetRequest": "id? analyst rho reason time",
    "ColumnShares": "column rows null outside not_numbers clamped_low clamped_high values values_seen",
    "DayOfUse": "day analyst rho",
    "DiscoveredValue": "value units",
    "Finding": "headline support caveat notes",
    "HistoryLine": "id address time analyst kind state stopped kept description rho total_rho spends request "
    "weights key version",
    "JobLine": "id kind state stage created request weights",
    "Opening": "ledger is_new records head datasets unavailable",
    "ReviewWarning": "where kind message remedy toml rows share examples position",
    "RowsProposal": "unit keep max_rows units_above rows_lost noise sure",
    "SchemaWarning": "where kind message remedy toml rows share examples",
    "Share": "owner reader reason by time",
    "Spend": "event of mechanism rho",
    "Token": "id name role created expires by revoked maker",
}


@public("Made-up", "name time maker?")
@dataclass(frozen=True)
class MadeUp:
    name: str
    time: datetime
    secret: str
    maker: str | None = None


def _own_records() -> list[type]:
    for module in pkgutil.walk_packages(dpxplain.__path__, "dpxplain."):
        if module.name.split(".")[1] in ("ledger", "model", "results", "wire", "server"):
            importlib.import_module(module.name)
    return [record for record in PUBLIC if record.__module__.startswith("dpxplain.")]


def test_exactly_these_fields_are_sent() -> None:
    assert {record.__name__: " ".join(PUBLIC[record]) for record in _own_records()} == SENT


def test_a_record_that_is_sent_cannot_be_changed() -> None:
    assert all(is_dataclass(record) and record.__dataclass_params__.frozen for record in _own_records())  # type: ignore[attr-defined]


def test_a_field_that_is_not_listed_is_not_sent() -> None:
    time = datetime(2030, 1, 1, tzinfo=UTC)
    sent = json.loads(json.dumps([MadeUp("a", time, "hunter2", "b")], default=as_json))
    assert sent == [{"name": "a", "time": "2030-01-01T00:00:00+00:00", "maker": "b"}]


def test_an_optional_field_is_left_out_if_it_is_none() -> None:
    sent = json.loads(json.dumps(MadeUp("a", datetime(2030, 1, 1, tzinfo=UTC), "hunter2"), default=as_json))
    assert sent.keys() == {"name", "time"}


def test_a_record_that_lists_no_fields_is_never_sent() -> None:
    time = datetime(2030, 1, 1, tzinfo=UTC)
    for record in (
        DataVersion(1, "taxis", "1", time, "", "hunter2", "ab"),
        Truth("True values", []),
        Entry(1, time, "query", "SELECT 1", 0.1, (Spend("counts", 0.1),), "released", "key"),
    ):
        with pytest.raises(TypeError, match="does not list public fields"):
            json.dumps(record, default=as_json)


def test_a_record_made_of_another_lists_its_own_fields() -> None:
    @dataclass(frozen=True)
    class Further(MadeUp):
        true_value: float = 0.0

    with pytest.raises(TypeError, match="does not list public fields"):
        as_json(Further("a", datetime(2030, 1, 1, tzinfo=UTC), "hunter2"))
