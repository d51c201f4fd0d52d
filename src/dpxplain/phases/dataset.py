"""An open data set: its declared schema, its engine, its ledger and its source of noise.

Grouped passes are kept, wrapped, for the life of the session, so that a second question on the same
query scans nothing again. They are never written anywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from dpxplain.engines.engine import Engine
from dpxplain.errors import InternalError
from dpxplain.explanation.cells import Cells, Totals, cells, marginals, totals
from dpxplain.explanation.choice import Predicates, choose, chosen_family
from dpxplain.explanation.cover import cover
from dpxplain.explanation.family import Family
from dpxplain.ledger.protocol import Ledger
from dpxplain.model.cancellation import check_stop
from dpxplain.model.charge import Charge, Request, Spend
from dpxplain.model.confidential import Confidential
from dpxplain.model.groups import Groups
from dpxplain.model.query import Query, identity
from dpxplain.model.schema import Schema
from dpxplain.phases.concurrency import Kept, Turns
from dpxplain.privacy.mechanisms.noise import NoiseSource
from dpxplain.sql.parse import parse_condition


class Releasable(Protocol):
    """A released value, as the ledger stores it."""

    def to_json(self) -> str: ...


R = TypeVar("R", bound=Releasable)
Progress = Callable[[str], None]
"""Told what is being worked on; shows it to a person."""

_MOST_PASSES = 16  # kept per session; a pass over triples of a wide table can hold millions of cells


def silent(_stage: str) -> None:
    """Progress that nobody watches."""


@dataclass
class OpenDataset:
    schema: Schema
    engine: Engine
    ledger: Ledger
    noise: NoiseSource
    progress: Progress = silent
    trusted_code: bool = False  # influences that are not the library's may run on true counts
    # Shared by everybody who works on the same data set at the same time.
    _passes: Kept = field(default_factory=lambda: Kept(_MOST_PASSES))
    _families: Kept = field(default_factory=lambda: Kept(_MOST_PASSES))
    _turns: Turns = field(default_factory=Turns)
    _declared: str = ""  # a hash of the declarations, once it is needed
    _fingerprint: str = ""  # of the declarations as they were when the data set was opened

    def __post_init__(self) -> None:
        self._fingerprint = self._fingerprint or self.schema.fingerprint()

    @property
    def name(self) -> str:
        return self.schema.table.name

    @property
    def rows_per_unit(self) -> int:
        """What one privacy unit may change: every sensitivity is multiplied by it (SPEC section 7)."""
        return self.schema.privacy.max_rows

    @property
    def row_changes(self) -> int:
        """Rows added and rows removed, counted one by one, between neighbours."""
        return self.rows_per_unit * (2 if self.schema.privacy.neighbours == "bounded" else 1)

    def totals(self, query: Query) -> Confidential[Totals]:
        """Rows and sums of every declared group."""
        groups = Groups.of(query, self.schema)

        def scan() -> Confidential[Totals]:
            grouped = self.engine.grouped(query, ((),))
            return grouped.map(lambda scanned: totals(scanned, groups.columns, groups.shape))

        return self._passes.get(("totals", query), scan)

    def cells(self, query: Query, family: Family) -> Confidential[Cells]:
        """Rows and sums of every (group, predicate) cell, from one grouped pass."""
        groups = Groups.of(query, self.schema)

        def scan() -> Confidential[Cells]:
            blocks = cover(family.subsets, {n: len(self.schema.domain(n)) for n in family.attributes})
            grouped = self.engine.grouped(query, blocks)
            return grouped.map(lambda scanned: cells(scanned, groups.columns, groups.shape, family, blocks))

        return self._passes.get(("cells", query, family.key), scan)

    def family(
        self,
        query: Query,
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
    ) -> Family:
        """The predicates asked for, from declarations only; kept, as tabulating many takes a while."""
        choice = choose(self.schema, query, attributes, conjuncts, exclude, predicates)
        return self._families.get(
            (query.group_by, query.aggregate.column, choice),
            lambda: chosen_family(choice, self.schema, query, parse_condition),
        )

    def marginals(self, query: Query, family: Family) -> Confidential[Totals]:
        """Rows and sums of every (part, group, cell), from one grouped pass; asked once, so not kept."""
        groups = Groups.of(query, self.schema)
        blocks = cover(family.subsets, {n: len(self.schema.domain(n)) for n in family.attributes})
        grouped = self.engine.grouped(query, blocks)
        return grouped.map(lambda scanned: marginals(scanned, groups.columns, groups.shape, family, blocks))

    def once(
        self,
        kind: str,
        key: str,
        asked: Request,
        rho: float,
        spends: Sequence[Spend],
        measure: Callable[[], R],
        read: Callable[[str], R],
    ) -> tuple[R, int, bool]:
        """The one door to the data: reserve, measure, release; or find the identical request's release.

        Returns the release, its entry in the ledger, and whether it was stored already (then it is free).
        Identical requests take turns, so that those who come together pay once.
        """
        with self._turns.of(key):
            if stored := self.ledger.find(self.name, key):
                return read(stored[1]), stored[0].id, True
            # Plans hand out the schema. It cannot be changed by any usual means; but should it have been,
            # its sensitivities are wrong.
            if self.schema.fingerprint() != self._fingerprint:
                raise InternalError(
                    "The declarations have changed since the data set was opened; nothing was charged.",
                    remedy="Open the data set again.",
                )
            entry = self.ledger.reserve(self.name, Charge(kind, key, asked, rho, tuple(spends)))
            release = measure()
            check_stop()  # nobody waits for it any more; the charge stays
            self.ledger.release(entry, release.to_json())
            return release, entry, False

    def request_key(self, *parts: object) -> str:
        """Identity of a request: equal requests on equal declarations have equal keys.

        The data are not part of it, nor where they lie, because whether a request is free must not depend
        on them; the curator changes table.version when the data change.
        """
        if not self._declared:
            left_out = {"privacy": {"rho", "delta", "noise"}, "table": {"source"}}
            declared = json.dumps(self.schema.model_dump(mode="json", exclude=left_out), sort_keys=True)
            self._declared = hashlib.sha256(declared.encode()).hexdigest()
        seed = getattr(self.noise, "seed", None)  # a seeded experiment never answers a private request
        text = json.dumps([self._declared, seed, *map(identity, parts)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
