"""The ten-second test: twelve findings, each with four statements of which one is right.

`python experiments/ten_seconds.py` prints them without the answers, for a reader who has seen nothing else.
`--answers` prints the right letters. Tables are generated with a planted cause, or bundled. Noise is real.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import numpy as np
import pandas as pd

import dpxplain as dpx

_REGIONS = ["North", "South", "East", "West"]
_CAUSES = ["Fire", "Theft", "Water", "Storm"]
_CLAIMS: dict[str, Any] = {
    "table": {"name": "claims"},
    "privacy": {"rho": 2},
    "columns": {
        "region": {"values": _REGIONS, "label": "Region"},
        "cause": {"values": _CAUSES, "label": "Cause"},
        "channel": {"values": ["web", "agent", "phone"], "label": "Channel"},
        "broker": {"values": list(range(2000)), "label": "Broker"},
        "amount": {"bounds": [0, 5000], "label": "Claim", "unit": "$"},
        "late": {"bounds": [0, 1], "step": 1, "label": "Share paid late"},
    },
}


def _claims(rows: int, extra: dict[tuple[str, str], float], seed: int) -> pd.DataFrame:
    """A table of claims. `extra` raises the amounts in the South for given values of a column."""
    made_up = np.random.default_rng(seed)  # a seed for the rows, not for privacy noise
    table = pd.DataFrame(
        {
            "region": made_up.choice(_REGIONS, rows),
            "cause": made_up.choice(_CAUSES, rows),
            "channel": made_up.choice(["web", "agent", "phone"], rows),
            "broker": made_up.integers(0, 2000, rows),
            "amount": made_up.gamma(2, 300, rows),
        }
    )
    for (column, value), more in extra.items():
        table.loc[(table[column] == value) & (table.region == "South"), "amount"] += more
    table["late"] = (made_up.random(rows) < np.where(table.region == "West", 0.4, 0.2)).astype(int)
    table["amount"] = table.amount.clip(0, 5000)
    return table


def _session(extra: dict[tuple[str, str], float], rows: int = 50_000, seed: int = 1) -> dpx.Session:
    folder = tempfile.mkdtemp()
    return dpx.connect(_claims(rows, extra, seed), schema=_CLAIMS, workspace=folder)


_AVERAGE = "SELECT region, AVG(amount) FROM claims GROUP BY region"
_MARITAL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"


def situations() -> list[tuple[dpx.Finding, tuple[str, str, str, str], str]]:
    """Each finding with four statements, and the letter of the right one."""
    few = ["broker"]
    storm = _session({("cause", "Storm"): 800.0})
    claims = storm.query(_AVERAGE, rho=0.1)
    south = claims.why("South", "North")
    rough = storm.query(_AVERAGE.replace(" GROUP", " WHERE channel = 'web' GROUP"), rho=0.0005)
    half = _session({("cause", "Storm"): 500.0, ("channel", "web"): 250.0, ("cause", "Fire"): 100.0}, seed=2)
    mixed = half.query(_AVERAGE, rho=0.1).why("South", "North")
    even = _session(
        {("channel", "web"): 200.0, ("channel", "agent"): 200.0, ("channel", "phone"): 200.0}, seed=3
    )
    alike = even.query(_AVERAGE, rho=0.1).why("South", "North")
    adult = dpx.example("adult")
    answer = adult.query(_MARITAL, rho=0.1)
    married = answer.why("Married-civ-spouse", "Never-married")
    against = _session(
        {("channel", "web"): -250.0, ("channel", "agent"): 250.0, ("channel", "phone"): 250.0}, seed=4
    )
    widened = against.query(_AVERAGE, rho=0.1).why("South", "North")
    return [
        (south.explain(rho=0.2, exclude=few).finding, (
            "Storm claims make the South higher; without them it would not be clearly above.",
            "Storms matter a little, but most of the gap remains without them.",
            "It is not known whether the South is higher.",
            "Several causes matter about equally."), "a"),
        (mixed.explain(rho=0.2, exclude=few).finding, (
            "Nothing explains the gap.",
            "One condition alone removes a large part of the gap, and part of it remains.",
            "Without this condition the gap would grow.",
            "The gap may be only noise."), "b"),
        (married.explain(k=5, rho=0.02).finding, (
            "One condition clearly matters most.",
            "The gap is only noise.",
            "Several conditions each explain a small part; their order is uncertain.",
            "Together the conditions explain the whole gap."), "c"),
        (alike.explain(rho=0.002, exclude=few).finding, (
            "Each of the conditions shown removes the whole gap.",
            "The South is not really higher.",
            "The reason is the fire claims.",
            "No condition that was looked at clearly explains why the South is higher."), "d"),
        (alike.explain(rho=0.05).finding, (
            "Brokers explain the gap.",
            "Nothing is clear here, because one column has very many values; leave it out.",
            "A larger budget is the only way.",
            "The South has more brokers."), "b"),
        (widened.explain(rho=0.2, exclude=few).finding, (
            "Some claims, if left out, would change the gap clearly.",
            "There is no gap.",
            "Nothing is known about the gap.",
            "The North is higher than the South."), "a"),
        (rough.why("East", "North").explain(rho=0.0005, exclude=few).finding, (
            "East is clearly above North.",
            "It cannot be said whether East is above North.",
            "North is clearly above East.",
            "Storms explain why East is above North."), "b"),
        (claims.why("North", "South").finding, (
            "North is above South.",
            "It is unclear which is higher.",
            "North is below South, and noise is not the reason.",
            "The difference could be zero."), "c"),
        (married.finding, (
            "The difference of 40 points may be noise.",
            "Never-married people have high incomes more often.",
            "About 40% of the married have a high income.",
            "Married people have high incomes more often, by about 40 points, for certain."), "d"),
        (answer.finding, (
            "Never-married people have the lowest share of high incomes.",
            "Widowed people have the highest share of high incomes.",
            "All groups are about the same.",
            "The shares are only known to about 10 points."), "a"),
        (claims.finding, (
            "It is not known which region has the highest average claim.",
            "South has the highest average claim; which is lowest is not clear.",
            "North has the lowest average claim for certain.",
            "All regions have the same average claim."), "b"),
        (married.explain(k=3, rho=2.0, mechanism="one-shot", attributes=["education", "sex"]).finding, (
            "The gap is not real.",
            "It says exactly how far the gap falls without each condition.",
            "It names what shrinks the gap, but not by how much.",
            "Nothing shrinks the gap."), "c"),
    ]  # fmt: skip


def main() -> None:
    for number, (finding, statements, letter) in enumerate(situations(), 1):
        if "--answers" in sys.argv:
            print(number, letter)
            continue
        print(f"{number}. {finding.headline}\n   {finding.support}\n   {finding.caveat}")
        for name, statement in zip("abcd", statements, strict=True):
            print(f"      {name}) {statement}")
        print()


if __name__ == "__main__":
    main()
