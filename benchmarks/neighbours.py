"""Two neighbouring tables that differ in one person, and requests whose time may reveal which table it is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

ROWS = 20_000
_BINS = 60  # bins of the age, one year each
_TARGET = {"team": "a", "rare": "yes", "age": 30.5, "pay": 500, **{f"code_{n}": "v0" for n in range(6)}}
_DOMAINS = {"team": ["a", "b", "c"], "rare": ["no", "yes"]} | {
    f"code_{n}": [f"v{value}" for value in range(4 + 2 * n)] for n in range(6)
}

SCHEMA: dict[str, Any] = {
    "privacy": {"rho": 1_000_000},
    "columns": {
        **{name: {"values": values} for name, values in _DOMAINS.items()},
        "age": {"edges": list(range(_BINS + 1))},
        "pay": {"bounds": [0, 1000], "step": 1},
    },
}


def table(*, with_target: bool, rows: int = ROWS) -> pa.Table:
    """Random people with `rare = 'no'`. The target, if included, is the only person with `rare = 'yes'`."""
    random = np.random.default_rng(7)
    columns: dict[str, Any] = {
        name: random.choice(values, rows).tolist() for name, values in _DOMAINS.items() if name != "rare"
    }
    columns |= {
        "rare": ["no"] * rows,
        "age": random.uniform(0.0, _BINS, rows).tolist(),
        "pay": random.integers(0, 1001, rows).tolist(),
    }
    people = pa.table({name: columns[name] for name in _TARGET})
    return (
        pa.concat_tables([people, pa.table({k: [v] for k, v in _TARGET.items()})]) if with_target else people
    )


def conditions(number: int, holding: int) -> tuple[str, ...]:
    """Ranges of the age, of which `holding` contain the target's age."""
    ranges = list(itertools.combinations(range(_BINS + 1), 2))
    hold = [(low, high) for low, high in ranges if low < 30.5 <= high]
    others = [(low, high) for low, high in ranges if not low < 30.5 <= high]
    chosen = sorted([*hold[:holding], *others[: number - holding]])
    return tuple(f"age > {low} AND age <= {high}" for low, high in chosen)


def disjunctions(number: int) -> tuple[str, ...]:
    """Alternatives over two attributes. The target satisfies 23 of the first 140."""
    pairs = itertools.product(_DOMAINS["code_4"], _DOMAINS["code_5"])
    texts = [f"code_4 = '{left}' OR code_5 = '{right}'" for left, right in pairs]
    return tuple(texts[:number])


ISSUE = conditions(719, 250)
ISOLATED, EVERYBODY = "rare = 'yes'", "rare IN ('no', 'yes')"


@dataclass(frozen=True)
class Probe:
    """A request that is timed on both tables. The query that it builds on is asked before, untimed."""

    name: str
    kind: Literal["explain", "query", "prepare", "quality"]
    select: str = "team, COUNT(*)"
    where: str = ISOLATED
    family: dict[str, Any] = field(default_factory=dict)
    mechanism: str = "auto"
    k: int = 5
    rho: float = 1e-9
    is_fresh: bool = True
    """Whether each run has a different query, so that it scans the rows again."""

    def sql(self, number: int) -> str:
        group = self.select.split(",")[0]
        fresh = f" AND pay <> {number % 1001}.5" if self.is_fresh else ""
        return f"SELECT {self.select} FROM {{table}} WHERE {self.where}{fresh} GROUP BY {group}"

    def price(self, number: int) -> float:
        """A slightly different ρ each time, because a repeated request would be free and not measured."""
        return self.rho * (1 + (number + 1) / 2**20)


def issue_probe(*, is_fresh: bool = False) -> Probe:
    """The request of the outside audit whose time revealed the person."""
    name = "719 conditions, 250 of the target, k = 718" + (", new scan" if is_fresh else "")
    family = {"predicates": list(ISSUE)}
    return Probe(name, "explain", family=family, mechanism="one-shot", k=718, is_fresh=is_fresh)


def probes() -> Iterator[Probe]:
    """The outside audit's request, and similar requests that the search tries."""
    yield issue_probe()
    yield issue_probe(is_fresh=True)
    families: dict[str, dict[str, Any]] = {
        "1 conjunct": {"conjuncts": 1},
        "2 conjuncts": {"conjuncts": 2},
        "3 conjuncts": {"conjuncts": 3},
        "719 conditions": {"predicates": list(ISSUE)},
        "140 disjunctions": {"predicates": list(disjunctions(140))},
        "ranges": {"predicates": ["ranges:age"]},
    }
    for (text, family), mechanism in itertools.product(families.items(), ("one-shot", "vector", "auto")):
        rho = 1e-6 if mechanism == "auto" else 1e-9
        for k, is_fresh in ((5, True), (40 if "1 conj" in text else 130, False)):
            scan = "new scan" if is_fresh else "same scan"
            yield Probe(
                f"{mechanism}, {text}, k = {k}, {scan}",
                "explain",
                family=family,
                mechanism=mechanism,
                k=k,
                rho=rho,
                is_fresh=is_fresh,
            )
    pairs, everybody = families["2 conjuncts"], "one-shot, everybody, 2 conjuncts"
    for select in ("team, AVG(pay)", "code_5, SUM(pay)"):
        yield Probe(f"one-shot, 2 conjuncts, {select}", "explain", select, family=pairs, mechanism="one-shot")
    for text in ("1 conjunct", "2 conjuncts", "719 conditions"):
        yield Probe(f"prepare, {text}", "prepare", family=families[text], rho=2e-6)
    for select in ("team, COUNT(*)", "age, AVG(pay)", "age, MEDIAN(pay)", "team, STDDEV(pay)"):
        for where, people in ((ISOLATED, "one person"), (EVERYBODY, "everybody")):
            yield Probe(f"query, {select}, {people}", "query", select, where, rho=1e-6)
    yield Probe("quality", "quality", rho=1e-6)
    yield Probe(everybody, "explain", where=EVERYBODY, family=pairs, mechanism="one-shot")
