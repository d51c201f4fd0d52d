"""One server for all tests of a module that do not need a special one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # for server_fixture

from dpxplain.server import metrics, registry
from server_fixture import RunningServer, config_of, running_server


@pytest.fixture(autouse=True)
def patient_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes wait for a busy disk, and requests for an edited data set: a slow machine is no outage."""
    monkeypatch.setattr(metrics, "SECONDS_PER_CHECK", 60.0)
    monkeypatch.setattr(registry, "OPENING_SECONDS", 60.0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    rates = ("requests_per_minute", "anonymous_per_minute", "sign_ins_per_minute")
    generous = dict.fromkeys(rates, 100000) | {"running": 2, "waiting": 8}
    with running_server(config_of(tmp_path_factory.mktemp("server"), limits=generous)) as running:
        yield running
