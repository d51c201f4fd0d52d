"""An open data set: its declared schema, its engine, its ledger, and its source of noise.

Grouped passes are kept in memory, wrapped, up to `KEPT_PASSES`, so that a second question on the same query
does not scan the data again. They are never written anywhere.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from dpxplain.engines.engine import Engine, JoinedEngines
from dpxplain.errors import InternalError
from dpxplain.explanation.cells import Cells, IntArray, Totals, cells, cover, histogram, marginals, totals
from dpxplain.explanation.dense_cells import BYTES_PER_CELL, LARGEST_PASS, DenseCells, is_dense, pass_bytes
from dpxplain.explanation.family import Family
from dpxplain.explanation.family_choice import FAMILY_BYTES, FamilyChoice, check_choice, chosen_family
from dpxplain.explanation.influence import QuestionCells, of_question
from dpxplain.ledger.protocol import LedgerView, damage_explained
from dpxplain.model.charge import Charge, Request
from dpxplain.model.confidential import Confidential
from dpxplain.model.grouped_pass import BIN, AnyGrouped
from dpxplain.model.groups import Groups
from dpxplain.model.joined_schema import joined_schema
from dpxplain.model.query import Query, identity
from dpxplain.model.release import R, R_co, Release, Released
from dpxplain.model.schema import Schema
from dpxplain.model.schema_fit import FitCounts, FitQuestion
from dpxplain.model.unknown_column import ValueCounts
from dpxplain.phases.concurrency import LatestKeys, SizedMemo
from dpxplain.phases.version_check import VersionCheck, VersionedLedger
from dpxplain.privacy.mechanisms.noise import NoiseSource, RehearsalNoise
from dpxplain.sql.parse import parse_condition

Progress = Callable[[str], None]
"""Gets a description of the current work, to show it to a person."""

T = TypeVar("T")
Show = Callable[[Released[R]], T]
"""Turns a release into the caller's result."""

KEPT_FAMILIES = 4 * FAMILY_BYTES  # in bytes, per data set; for one caller, at most FAMILY_BYTES
KEPT_PASSES = 4 * LARGEST_PASS  # in bytes, per data set
_PASS_BYTES = 1_000  # of a kept pass, besides its cells
KEPT_REHEARSALS = 10_000  # kinds of requests, per data set


def silent(_stage: str) -> None:
    """A progress callback that shows nothing."""


class ReleasePlan(Protocol[R_co]):
    """What one release will measure and cost, from public quantities only."""

    @property
    def schema(self) -> Schema:
        """The declarations that its sensitivities follow from."""
        ...

    def key(self, dataset: OpenDataset) -> str:
        """Identity of the request: equal requests on equal declarations have equal keys."""
        ...

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        """What the ledger reserves before anything is measured."""
        ...

    @property
    def shape(self) -> Hashable:
        """Everything except amounts and constants. Equal shapes fail, or not, for the same reasons."""
        ...

    def measure(self, dataset: OpenDataset) -> R_co:
        """Reads the data and draws the noise: once in a rehearsal without rows, once after the charge."""
        ...

    def read(self, text: str) -> R_co:
        """The release from its stored form."""
        ...


class Releaser(Protocol):
    """The one way to a release: find it, or measure it."""

    def find_or_measure(
        self, plan: ReleasePlan[R], request: Request, dataset: OpenDataset, show: Show[R, T], look: Hashable
    ) -> T:
        """Finds the release of the identical request, which is free; or reserves, measures and stores it.

        `show` turns it into the caller's result, and is rehearsed too. `look` is everything else that `show`
        depends on.
        """
        ...


@dataclass
class OpenDataset:
    schema: Schema
    engine: Engine | None  # of its own table; None where only releases can be read
    ledger: LedgerView
    releaser: Releaser
    noise: NoiseSource
    progress: Progress = silent
    trusted_code: bool = False  # influences that are not the library's may run on true counts
    version_check: VersionCheck | None = None  # None where the data are not at hand: at a server, or nowhere
    joins: JoinedEngines | None = None  # of private tables; None where the data are not at hand
    caller: str = ""  # for whom families are kept; "" where there is one user only
    is_rehearsal: bool = False  # passes run on a table without rows
    # Shared by everybody who works on the same data set at the same time.
    _rehearsed: LatestKeys = field(default_factory=lambda: LatestKeys(KEPT_REHEARSALS))  # kinds of requests
    _passes: SizedMemo = field(default_factory=lambda: SizedMemo(KEPT_PASSES, KEPT_PASSES))
    _families: SizedMemo = field(default_factory=lambda: SizedMemo(KEPT_FAMILIES, FAMILY_BYTES))
    _joined: dict[tuple[str, ...], Schema] = field(default_factory=dict)
    _declared: str = ""  # a hash of the declarations, once it is needed
    _fingerprint: str = ""  # of the declarations as they were when the data set was opened

    def __post_init__(self) -> None:
        self._fingerprint = self._fingerprint or self.schema.fingerprint()
        if self.version_check is not None and not isinstance(self.ledger, VersionedLedger):
            self.ledger = VersionedLedger(self.ledger, self.version_check)

    @property
    def name(self) -> str:
        return self.schema.table.name

    @property
    def rows_per_unit(self) -> int:
        """The most rows that count per privacy unit; sensitivities are multiplied by it.

        See docs/specification.md, privacy units.
        """
        return self.schema.privacy.max_rows

    @property
    def row_changes(self) -> int:
        """The most rows added or removed between neighbours; a replaced row counts as both."""
        return self.rows_per_unit * (2 if self.schema.privacy.neighbours == "bounded" else 1)

    @property
    def declarations_hash(self) -> str:
        """A hash of what was declared when the data set was opened."""
        return self._fingerprint

    def joining(self, tables: Iterable[str]) -> OpenDataset:
        """This data set with the rows of private tables joined to its own, on the same ledger and budget.

        Plans follow from the joined schema, whose max_rows is the product of the tables' max_rows. Reads no
        data: the tables are opened when they are measured, which is after the charge.
        """
        chosen = tuple(name for name in self.schema.private if name in set(tables))
        if chosen == tuple(self.schema.joined):
            return self
        if self.schema.joined:
            raise InternalError("Joined tables cannot be joined again.")
        # One object for all callers, because plans are compared by the identity of their schema.
        schema = self._joined.get(chosen)
        schema = schema or self._joined.setdefault(chosen, joined_schema(self.schema, chosen))
        joined = copy.copy(self)
        joined.schema, joined._declared, joined._fingerprint = schema, "", schema.fingerprint()
        return joined

    def find(self, plan: ReleasePlan[R], key: str | None = None) -> Released[R] | None:
        """The stored release of the identical request, if there is one; `key` where it is known already."""
        stored = self.ledger.find(self.name, key or plan.key(self))
        if stored is None:
            return None
        with damage_explained():
            return Released(plan.read(stored[1]), stored[0], free=True)

    def find_or_measure(
        self, plan: ReleasePlan[R], request: Request, show: Show[R, T], look: Hashable = None
    ) -> T:
        return self.releaser.find_or_measure(plan, request, self, show, look)

    def is_rehearsed(self, kind: Hashable) -> bool:
        """Whether a kind of request was rehearsed."""
        return kind in self._rehearsed

    def check_unchanged(self) -> None:
        """Refuses a live table whose columns or permissions changed since it was opened. Reads no row."""
        if self.engine is not None and self.engine.is_live:
            self._open_engine.check_unchanged()

    def note_rehearsed(self, kind: Hashable) -> None:
        self._rehearsed.add(kind)

    def rehearsal(self, releaser: Releaser) -> OpenDataset:
        """This data set without its rows, with fixed numbers in place of noise. Nothing of it is stored."""
        rehearsal = copy.copy(self)
        rehearsal.is_rehearsal, rehearsal.noise, rehearsal.releaser = True, RehearsalNoise(), releaser
        rehearsal.progress = silent
        rehearsal._passes = SizedMemo(KEPT_PASSES, KEPT_PASSES)
        return rehearsal

    def check_declarations(self, plan: ReleasePlan[Release]) -> None:
        """Refuses a plan whose sensitivities do not follow from the declarations of the opened data.

        A plan of another data set may be run here by mistake. The schema is immutable by all usual means. If
        somebody changed it nevertheless, the sensitivities computed from it would be wrong.
        """
        if plan.schema is not self.schema:
            raise InternalError(
                "This request was planned with a different schema. Nothing was charged.",
                remedy="Plan it on the data set that you want to query.",
            )
        if self.schema.fingerprint() != self._fingerprint:
            raise InternalError(
                "The schema changed after this data set was opened. Nothing was charged.",
                remedy="Open it again.",
            )

    def family(self, query: Query, choice: FamilyChoice) -> Family:
        """The predicates of a choice, from declarations only; cached, because large families take a while."""
        checked = check_choice(choice, self.schema, query)
        return self._families.get(
            (*self.schema.joined, query.group_by, query.aggregate.column, checked),
            lambda: chosen_family(checked, self.schema, query, parse_condition),
            lambda family: family.bytes,
            self.caller,
        )

    def keep_families_if_accepted(self, caller: str) -> AbstractContextManager[None]:
        """Context manager: drops cached families if the request is refused."""
        return self._families.keep_if_accepted(caller)

    def totals(self, query: Query) -> Confidential[Totals]:
        """Rows and sums of every declared group."""
        groups = Groups.of(query, self.schema)

        def scan() -> Confidential[Totals]:
            grouped = self._grouped(query, ((),))
            return grouped.map(lambda scanned: totals(scanned, groups.columns, groups.shape))

        return self._passes.get(
            self._pass_key("totals", query), scan, lambda _: _PASS_BYTES + BYTES_PER_CELL * groups.size
        )

    def histogram(self, query: Query, name: str, bins: int) -> Confidential[IntArray]:
        """Rows of every (group, bin), with the bins of a declared column or of a `Histogram` query."""
        groups = Groups.of(query, self.schema)
        grouped = self._grouped(query, ((),) if name == BIN else ((name,),))
        return grouped.map(lambda scanned: histogram(scanned, groups.columns, groups.shape, name, bins))

    def question_cells(
        self, query: Query, family: Family, groups: tuple[int, ...]
    ) -> Confidential[QuestionCells]:
        """Rows and sums of the groups of a question and of the family's predicates in them."""
        both = self.totals(query).zip(self._cells(query, family))

        def of_groups(pair: tuple[Totals, Cells | DenseCells]) -> QuestionCells:
            totals, counted = pair
            if isinstance(counted, DenseCells):
                return counted.question(totals, groups)
            return of_question(totals, counted, groups)

        return both.map(of_groups)

    def _cells(self, query: Query, family: Family) -> Confidential[Cells | DenseCells]:
        """Rows and sums of every (group, cell), or of every (group, predicate), from one grouped pass."""
        groups = Groups.of(query, self.schema)
        blocks = self._blocks(family)

        def arranged(scanned: AnyGrouped) -> Cells | DenseCells:
            if is_dense(groups, family, blocks):
                return DenseCells.of(scanned, groups, family, blocks)
            return cells(scanned, groups.columns, groups.shape, family, blocks)

        return self._passes.get(
            self._pass_key("cells", query, family.key),
            lambda: self._grouped(query, blocks).map(arranged),
            lambda _: _PASS_BYTES + pass_bytes(groups, family, blocks),
        )

    def marginals(self, query: Query, family: Family) -> Confidential[Totals]:
        """Rows and sums of every (part, group, cell), from one grouped pass; asked once, so not kept."""
        groups, blocks = Groups.of(query, self.schema), self._blocks(family)
        grouped = self._grouped(query, blocks)
        if is_dense(groups, family, blocks):
            return grouped.map(lambda scanned: DenseCells.of(scanned, groups, family, blocks).marginals())
        return grouped.map(lambda scanned: marginals(scanned, groups.columns, groups.shape, family, blocks))

    def fit(self, asked: FitQuestion) -> Confidential[FitCounts]:
        """Where the rows lie in each partition; asked once, so not kept."""
        return self._open_engine.fit(asked, rehearsed=self.is_rehearsal)

    def value_counts(self, column: str, longest: int) -> Confidential[ValueCounts]:
        """How many privacy units have each value of an undeclared column; asked once, so not kept."""
        return self._open_engine.value_counts(column, longest, rehearsed=self.is_rehearsal)

    def request_key(self, *parts: object) -> str:
        """Identity of a request: equal requests on equal declarations have equal keys.

        The declared version of the data is part of it. The data, their source and their cache are not,
        because whether a request is free must not depend on them. `version_check` makes sure that a version
        keeps its data.
        """
        if not self._declared:
            # Left out if unused, as every key should be that is added to the schema: then what was released
            # before is still found.
            optional = ("center", "expression", "groups", "time_zone", "lookup", "joined", "verbatim")
            unused: dict[str, Any] = {
                name: {"label", "unit", "value_labels"}  # words for people, which change no number
                | {key for key in optional if getattr(column, key) is None}
                for name, column in self.schema.columns.items()
            } | dict.fromkeys(self.schema.discovered, True)  # as they are discovered once for each version
            left_out: dict[str, Any] = {
                "privacy": {"rho", "delta", "noise", "default_rho"},
                "table": {"source", "cache", "storage"},
                "columns": unused,
                "unknown": {name: {"label", "description"} for name in self.schema.unknown} or True,
                "tables": True,  # what matters is in the lookups of the columns
                "private": {
                    name: {"source", "columns"} if name in self.schema.joined else True
                    for name in self.schema.private
                },
            } | ({} if self.schema.joined else {"private": True, "joined": True})
            declared = json.dumps(self.schema.model_dump(mode="json", exclude=left_out), sort_keys=True)
            self._declared = hashlib.sha256(declared.encode()).hexdigest()
        seed = getattr(self.noise, "seed", None)  # a seeded experiment never answers a private request
        text = json.dumps([self._declared, seed, *map(identity, parts)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()
        if self.joins is not None:
            self.joins.close()
        self.ledger.close()

    def _pass_key(self, kind: str, query: Query, *more: str) -> str:
        """Identity of a pass, as a digest, because a query may be larger than its kept pass."""
        parts = [kind, *self.schema.joined, identity(query), *more]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _grouped(self, query: Query, subsets: tuple[tuple[str, ...], ...]) -> Confidential[AnyGrouped]:
        return self._open_engine.grouped(query, subsets, rehearsed=self.is_rehearsal)

    @property
    def _open_engine(self) -> Engine:
        if self.engine is None:
            raise InternalError("This session has no data to read.")
        if not self.schema.joined:
            return self.engine
        assert self.joins is not None
        return self.joins.joined(self.schema, rehearsed=self.is_rehearsal)

    def _blocks(self, family: Family) -> tuple[tuple[str, ...], ...]:
        codes = {name: len(self.schema.domain(name)) + 1 for name in family.attributes}  # 0: undeclared
        return cover(family.subsets, codes)
