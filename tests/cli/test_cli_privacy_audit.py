"""`dpxplain audit privacy`: its table, its JSON, its exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dpxplain.audit import privacy_audit
from dpxplain.audit.privacy_audit import CurvePoint, DesignFinding, Evidence, designs
from dpxplain.cli import run


def finding(name: str, rho: float) -> DesignFinding:
    design = designs()[name]
    evidence = Evidence(1.0, rho, rho, (CurvePoint(0.5, 0.1, 0.6),), 4_000)
    return DesignFinding(
        name, design.mechanism, design.aggregate, design.unit, design.neighbours, evidence, "", 1.0
    )


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Lower bounds by design, in place of an audit that takes minutes."""
    bounds: dict[str, float] = {}

    def audit(names: list[str], **_: Any) -> Iterator[DesignFinding]:
        yield from (finding(name, bounds.get(name, 0.8)) for name in reversed(names))

    monkeypatch.setattr(privacy_audit, "audit_privacy", audit)
    return bounds


def test_a_promise_that_holds_is_exit_code_0(findings: dict[str, float], capsys: Any) -> None:
    assert run(["audit", "privacy", "--design", "count of", "--seed", "4"]) == 0
    printed = capsys.readouterr()
    assert "1 design, no violation" in printed.out
    assert "80%" in printed.out
    assert "--seed 4" in printed.err


def test_a_broken_promise_is_exit_code_5(findings: dict[str, float], capsys: Any) -> None:
    findings["median"] = 1.5
    assert run(["audit", "privacy", "--design", "median"]) == 5
    assert f"median: {finding('median', 1.5).violation}." in capsys.readouterr().out


def test_json_has_every_figure_in_the_order_of_the_designs(findings: dict[str, float], capsys: Any) -> None:
    findings["count"] = 2.0
    assert run(["audit", "privacy", "--json", "--seed", "9"]) == 5
    payload = json.loads(capsys.readouterr().out)
    assert (payload["kind"], payload["violated"], payload["seed"]) == ("privacy-audit", True, 9)
    assert [row["design"] for row in payload["findings"]] == list(designs())
    first = payload["findings"][0]
    assert first["reached"] == 2.0
    assert first["evidence"]["curve"] == [{"epsilon": 0.5, "delta": 0.1, "allowed": 0.6}]
    assert [row["design"] for row in payload["findings"] if row["violation"]] == ["count"]


def test_designs_are_listed_without_running_any(capsys: Any) -> None:
    assert run(["audit", "privacy", "--list", "--json", "--design", "persons"]) == 0
    names = [design["name"] for design in json.loads(capsys.readouterr().out)["designs"]]
    assert "distinct persons" in names
    assert all("persons" in name for name in names)
    assert run(["audit", "privacy", "--list"]) == 0


def test_an_unknown_design_is_refused_with_the_remedy(capsys: Any) -> None:
    assert run(["audit", "privacy", "--design", "nonsense"]) == 2
    assert "dpxplain audit privacy --list" in capsys.readouterr().err


@pytest.mark.draws
@pytest.mark.process
def test_designs_run_in_processes_of_their_own(capsys: Any) -> None:
    """A few releases of two designs; each alarm is false with probability 1e-6 at most."""
    words = ["--design", "empty group", "--minutes", "0.05", "--workers", "1", "--json"]
    assert run(["audit", "privacy", *words]) == 0
    printed = capsys.readouterr()
    rows = json.loads(printed.out)["findings"]
    assert [row["design"] for row in rows] == ["count of an empty group", "average of an empty group"]
    assert all(row["evidence"]["promised"] == pytest.approx(1.0, rel=1e-5) for row in rows)
    assert '"kind": "progress"' in printed.err
