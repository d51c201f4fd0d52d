"""An open data set: its declared schema, engine, ledger and source of noise; and the one way to a release.

The true counts of grouped passes are kept in memory, as `Confidential` and up to `KEPT_PASSES`. So a second
question on the same query does not scan the data again. They are never written anywhere.
"""

from __future__ import annotations

import copy
import hashlib
import json
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from dpxplain.engines.engine import DataSource, Engine, JoinedEngines, Recognised
from dpxplain.errors import (
    BadRequest,
    ChargeTakenOver,
    DataChanged,
    DPXPlainError,
    InternalError,
    LedgerBehind,
    LedgerUnavailable,
    SourceError,
    SourceLost,
)
from dpxplain.explanation.family import PredicateFamily
from dpxplain.explanation.family_choice import FAMILY_BYTES, FamilyChoice, check_choice, chosen_family
from dpxplain.explanation.influence import (
    BYTES_PER_CELL,
    LARGEST_PASS,
    Cells,
    DenseCells,
    QuestionCells,
    Totals,
    cells,
    cover,
    histogram,
    is_dense,
    marginals,
    pass_bytes,
    question_cells,
    totals,
)
from dpxplain.ledger.protocol import DataVersion, DataVersions, Ledger, LedgerView, damage_explained
from dpxplain.model.charge import (
    Budget,
    Charge,
    DataState,
    Ending,
    Entry,
    EntryId,
    HistoryPage,
    Request,
    Spend,
)
from dpxplain.model.column import ValueCounts
from dpxplain.model.confidential import Confidential, ContentDigest
from dpxplain.model.groups import BIN, AnyGrouped, Groups
from dpxplain.model.process import Stopped, check_stop
from dpxplain.model.query import Query, Subsets, identity
from dpxplain.model.release import IntArray, R, R_co, Release, Released
from dpxplain.model.schema import Schema, joined_schema
from dpxplain.model.schema_fit import FitCounts, FitQuestion
from dpxplain.phases.concurrency import KeyedLocks, LatestKeys, SizedMemo
from dpxplain.privacy.mechanisms.noise import NoiseSource, RehearsalNoise
from dpxplain.sql.parse import parse_condition

# -- Open data set -----------------------------------------------------------------------------------------

Progress = Callable[[str], None]
"""Gets a description of the current work, to show it to a person."""

T = TypeVar("T")
F = TypeVar("F")
Show = Callable[[Released[R]], T]
"""Turns a release into the caller's result."""

KEPT_FAMILIES = 4 * FAMILY_BYTES  # in bytes, per data set; for one caller, at most FAMILY_BYTES
KEPT_PASSES = 4 * LARGEST_PASS  # in bytes, per data set
_PASS_BYTES = 1_000  # of a kept pass, besides its cells
KEPT_REHEARSALS = 10_000  # kinds of requests, per data set


def silent(_stage: str) -> None:
    """A progress callback that shows nothing."""


class ReleasePlan(Protocol[R_co]):
    """The measurement and cost of one release, from public quantities only."""

    @property
    def schema(self) -> Schema:
        """The declarations that its sensitivities follow from."""
        ...

    @property
    def spends(self) -> tuple[Spend, ...]:
        """Its costs, by mechanism."""
        ...

    def key(self, dataset: OpenDataset) -> str:
        """Identity of the request: equal requests on equal declarations have equal keys."""
        ...

    def charge(self, dataset: OpenDataset, request: Request) -> Charge:
        """The charge that the ledger reserves before anything is measured."""
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
        self,
        plan: ReleasePlan[R],
        request: Request,
        dataset: OpenDataset,
        show: Show[R, T],
        look: Hashable,
        found: Released[R] | None = None,
    ) -> T:
        """Finds the release of the identical request, which is free; or reserves, measures and stores it.

        `show` turns it into the caller's result, and is rehearsed too. `look` is everything else that `show`
        depends on. `found` is the release if it was found before: it is not looked up again, and is shown
        only if the data are still those of its version.
        """
        ...


class Lookup(Generic[F]):
    """A stored release, looked up in the ledger until there is one.

    A release never changes, so it is kept, and only the data are checked again. A release that is missing is
    looked up again, because somebody may have stored it meanwhile.
    """

    def __init__(self, dataset: OpenDataset, find: Callable[[], F | None]) -> None:
        self.found: F | None = None
        """The release, if an earlier look-up found it."""
        self._dataset = dataset
        self._find = find

    def find(self) -> F | None:
        """The stored release; None if there is none yet."""
        if self.found is None:
            self.found = self._find()
        else:
            self._dataset.check_data()
        return self.found


@dataclass
class OpenDataset:
    """A data set whose releases can be found and, where its data are at hand, measured."""

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
    quality_readings: dict[tuple[str, ...], Any] | None = None  # by joined tables; None: read each time
    # Shared by everybody who works on the same data set at the same time.
    rehearsed: LatestKeys = field(default_factory=lambda: LatestKeys(KEPT_REHEARSALS))  # kinds of requests
    passes: SizedMemo = field(default_factory=lambda: SizedMemo(KEPT_PASSES, KEPT_PASSES))
    families: SizedMemo = field(default_factory=lambda: SizedMemo(KEPT_FAMILIES, FAMILY_BYTES))
    joined_schemas: dict[tuple[str, ...], Schema] = field(default_factory=dict)
    declaration_hashes: dict[tuple[str, ...], str] = field(default_factory=dict)  # by joined tables
    fingerprint: str = ""  # of the declarations as they were when the data set was opened

    def __post_init__(self) -> None:
        self.fingerprint = self.fingerprint or self.schema.fingerprint()
        if self.version_check is not None and not isinstance(self.ledger, VersionedLedger):
            self.ledger = VersionedLedger(self.ledger, self.version_check)

    @property
    def name(self) -> str:
        return self.schema.table.name

    @property
    def row_changes(self) -> int:
        """The most rows added or removed between neighbours; a replaced row counts as both."""
        privacy = self.schema.privacy
        return privacy.max_rows * (2 if privacy.neighbours == "bounded" else 1)

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
        schema = self.joined_schemas.get(chosen)
        schema = schema or self.joined_schemas.setdefault(chosen, joined_schema(self.schema, chosen))
        joined = copy.copy(self)
        joined.schema, joined.fingerprint = schema, schema.fingerprint()
        return joined

    def find(self, plan: ReleasePlan[R], key: str | None = None) -> Released[R] | None:
        """The stored release of the identical request, if there is one; `key` where it is known already."""
        stored = self.ledger.find(self.name, key or plan.key(self))
        if stored is None:
            return None
        with damage_explained():
            return Released(plan.read(stored[1]), stored[0], free=True)

    def find_or_measure(
        self,
        plan: ReleasePlan[R],
        request: Request,
        show: Show[R, T],
        look: Hashable = None,
        found: Released[R] | None = None,
    ) -> T:
        return self.releaser.find_or_measure(plan, request, self, show, look, found)

    def check_data(self) -> None:
        """Raises if the data at hand are no longer those of the declared version."""
        if self.version_check is not None:
            self.version_check.check()

    def check_unchanged(self) -> None:
        """Refuses a live table whose columns or permissions changed since it was opened. Reads no row."""
        if self.engine is not None and self.engine.is_live:
            self._open_engine.check_unchanged()

    def rehearsal(self, releaser: Releaser) -> OpenDataset:
        """This data set without its rows, with fixed numbers in place of noise. Nothing of it is stored."""
        rehearsal = copy.copy(self)
        rehearsal.is_rehearsal, rehearsal.noise, rehearsal.releaser = True, RehearsalNoise(), releaser
        rehearsal.progress, rehearsal.passes = silent, SizedMemo(KEPT_PASSES, KEPT_PASSES)
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
        if self.schema.fingerprint() != self.fingerprint:
            raise InternalError(
                "The schema changed after this data set was opened. Nothing was charged.",
                remedy="Open it again.",
            )

    def family(self, query: Query, choice: FamilyChoice) -> PredicateFamily:
        """The predicates of a choice, from declarations only; cached, because large families take a while."""
        checked = check_choice(choice, self.schema, query)
        return self.families.get(
            (*self.schema.joined, query.group_by, query.aggregate.column, checked),
            lambda: chosen_family(checked, self.schema, query, parse_condition),
            lambda family: family.bytes,
            self.caller,
        )

    def keep_families_if_accepted(self, caller: str) -> AbstractContextManager[None]:
        """Context manager: drops cached families if the request is refused."""
        return self.families.keep_if_accepted(caller)

    def totals(self, query: Query) -> Confidential[Totals]:
        """Rows and sums of every declared group."""
        groups = Groups.of(query, self.schema)

        def scan() -> Confidential[Totals]:
            return self._grouped(query, ((),)).map(lambda scanned: totals(scanned, groups))

        return self.passes.get(
            self._pass_key("totals", query), scan, lambda _: _PASS_BYTES + BYTES_PER_CELL * groups.size
        )

    def histogram(self, query: Query, name: str, bins: int) -> Confidential[IntArray]:
        """Rows of every (group, bin), with the bins of a declared column or of a `Histogram` query."""
        groups = Groups.of(query, self.schema)
        grouped = self._grouped(query, ((),) if name == BIN else ((name,),))
        return grouped.map(lambda scanned: histogram(scanned, groups, name, bins))

    def question_cells(
        self, query: Query, family: PredicateFamily, groups: tuple[int, ...]
    ) -> Confidential[QuestionCells]:
        """Rows and sums of the groups of a question and of the family's predicates in them."""
        both = self.totals(query).zip(self._cells(query, family))

        def of_groups(pair: tuple[Totals, Cells | DenseCells]) -> QuestionCells:
            totals, counted = pair
            if isinstance(counted, DenseCells):
                return counted.question(totals, groups)
            return question_cells(totals, counted, groups)

        return both.map(of_groups)

    def _cells(self, query: Query, family: PredicateFamily) -> Confidential[Cells | DenseCells]:
        """Rows and sums of every (group, cell), or of every (group, predicate), from one grouped pass."""
        groups = Groups.of(query, self.schema)
        blocks = self._blocks(family)

        def arranged(scanned: AnyGrouped) -> Cells | DenseCells:
            if is_dense(groups, family, blocks):
                return DenseCells.of(scanned, groups, family, blocks)
            return cells(scanned, groups, family, blocks)

        return self.passes.get(
            self._pass_key("cells", query, family.key),
            lambda: self._grouped(query, blocks).map(arranged),
            lambda _: _PASS_BYTES + pass_bytes(groups, family, blocks),
        )

    def marginals(self, query: Query, family: PredicateFamily) -> Confidential[Totals]:
        """Rows and sums of every (part, group, cell), from one grouped pass; asked once, so not kept."""
        groups, blocks = Groups.of(query, self.schema), self._blocks(family)
        grouped = self._grouped(query, blocks)
        if is_dense(groups, family, blocks):
            return grouped.map(lambda scanned: DenseCells.of(scanned, groups, family, blocks).marginals())
        return grouped.map(lambda scanned: marginals(scanned, groups, family, blocks))

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

        A declared column's `description` is part of it, unlike its `label`, although it changes no number: a
        request is charged again when a description changes. To leave it out now would change every key.
        """
        joined = tuple(self.schema.joined)
        if joined not in self.declaration_hashes:
            self.declaration_hashes[joined] = self._declarations_hash()
        hashed = self.declaration_hashes[joined]
        text = json.dumps([hashed, self.seed, *map(identity, parts)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _declarations_hash(self) -> str:
        """A hash of the declarations that change what is released."""
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
        return hashlib.sha256(declared.encode()).hexdigest()

    @property
    def seed(self) -> int | None:
        """The seed of repeatable noise, so that such an experiment never answers a private request."""
        seed: int | None = getattr(self.noise, "seed", None)
        return seed

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

    def _grouped(self, query: Query, subsets: Subsets) -> Confidential[AnyGrouped]:
        return self._open_engine.grouped(query, subsets, rehearsed=self.is_rehearsal)

    @property
    def _open_engine(self) -> Engine:
        if self.engine is None:
            raise InternalError("This session has no data to read.")
        if not self.schema.joined:
            return self.engine
        assert self.joins is not None
        return self.joins.joined(self.schema, rehearsed=self.is_rehearsal)

    def _blocks(self, family: PredicateFamily) -> tuple[tuple[str, ...], ...]:
        codes = {name: len(self.schema.domain(name)) + 1 for name in family.attributes}  # 0: undeclared
        return cover(family.subsets, codes)


# -- Releasers ---------------------------------------------------------------------------------------------
#
# `LocalReleaser` works next to the data: rehearse, reserve, measure, store. `StoredReleaser` only reads. The
# third, `remote.RemoteReleaser`, asks a server.

_FIRST_POLL, _LONGEST_POLL = 0.02, 0.5  # seconds


class LocalReleaser:
    """Measures at most once: identical requests wait for each other, so that together they pay once.

    Within a process they wait for a lock; across processes that share a ledger, for the entry in it.
    """

    def __init__(self, ledger: Ledger, locks: KeyedLocks | None = None) -> None:
        self.ledger = ledger
        self._locks = locks or KeyedLocks()

    def find_or_measure(
        self,
        plan: ReleasePlan[R],
        request: Request,
        dataset: OpenDataset,
        show: Show[R, T],
        look: Hashable,
        found: Released[R] | None = None,
    ) -> T:
        if found is not None:
            dataset.check_data()
            return show(found)
        return show(self._find_or_measure(plan, request, dataset, show, look))

    def _find_or_measure(
        self, plan: ReleasePlan[R], request: Request, dataset: OpenDataset, show: Show[R, T], look: Hashable
    ) -> Released[R]:
        charge = plan.charge(dataset, request)
        with self._locks.hold(charge.key):
            while (stored := dataset.find(plan, charge.key)) is None:
                dataset.check_declarations(plan)
                charge = replace(charge, declarations=dataset.fingerprint)
                if dataset.version_check is not None:
                    charge = replace(charge, data=dataset.version_check.measured_data())
                rehearse(plan, charge, dataset, show, look)
                entry = self.reserve(dataset.name, charge)
                if entry is not None and (released := self._measure(plan, entry, dataset)) is not None:
                    return released
                self._wait_for_other_process(dataset.name, charge.key)
            return stored

    def reserve(self, dataset: str, charge: Charge) -> Entry | None:
        """Charges, and returns the entry in the ledger; None if another process measures the same."""
        return self.ledger.reserve_once(dataset, charge)

    def store(self, entry: Entry, text: str) -> None:
        """Stores the release with its entry, before anybody sees it."""
        self.ledger.release(entry.row, text)

    def abandon(self, entry: Entry, ending: Ending) -> None:
        """Records that no release will follow and why, so that other processes stop waiting for it."""
        self.ledger.abandon(entry.row, ending)

    def ending(self, error: BaseException) -> Ending:
        """Why a measurement ended with this error. If in doubt, FAILED: the data may have caused it."""
        if isinstance(error, LedgerBehind) or (isinstance(error, LedgerUnavailable) and error.may_pass):
            return Ending.LEDGER_LOST
        if isinstance(error, SourceLost):
            return Ending.DATABASE_LOST if error.is_shut_down else Ending.CUT_OFF
        return Ending.FAILED

    def _measure(self, plan: ReleasePlan[R], entry: Entry, dataset: OpenDataset) -> Released[R] | None:
        """Measures and stores the release; None if another process took over the charge and measures it."""
        try:
            value = plan.measure(dataset)
            self.store(entry, value.to_json())
        except ChargeTakenOver:
            return None
        except BaseException as error:
            self.abandon(entry, self.ending(error))
            raise
        return Released(value, replace(entry, state="released"), free=False)

    def _wait_for_other_process(self, dataset: str, key: str) -> None:
        """Waits until the identical request of another process has ended, or that process is gone."""
        seconds = _FIRST_POLL
        while self.ledger.is_measured(dataset, key):
            check_stop()
            time.sleep(seconds)
            seconds = min(2 * seconds, _LONGEST_POLL)


def rehearse(
    plan: ReleasePlan[R], charge: Charge, dataset: OpenDataset, show: Show[R, T], look: Hashable
) -> None:
    """Runs a plan on a table without rows, up to the result, so that a failure costs nothing.

    After the charge, only the data or something that breaks meanwhile can make it fail. Each kind of request
    is rehearsed once. Later requests only check that a live table has kept its columns and permissions.
    """
    parts = repr((type(plan), tuple(dataset.schema.joined), plan.shape, look))
    kind = hashlib.sha256(parts.encode()).hexdigest()  # many are kept, and some are large
    rehearsal = dataset.rehearsal(StoredReleaser())
    try:
        if kind in dataset.rehearsed:
            rehearsal.check_unchanged()
            return
        text = plan.measure(rehearsal).to_json()
        show(Released(plan.read(text), _rehearsed_entry(charge), free=False))
    except SourceError as error:
        if isinstance(error, LedgerUnavailable):
            raise
        raise SourceError(
            "This request cannot read the data that it needs. Nothing was charged.",
            remedy="Ask the curator. The table, or the permission to read it, may have changed.",
        ) from None
    except (BadRequest, MemoryError, Stopped):
        raise
    except Exception as error:  # tells nothing about data: there are no rows
        raise InternalError(
            "This request would fail on any data. Nothing was charged.",
            remedy="Please report this, together with the request.",
        ) from error
    dataset.rehearsed.add(kind)


def _rehearsed_entry(charge: Charge) -> Entry:
    """The entry that the charge would get, outside any ledger."""
    return Entry(
        id=0,
        time=datetime.now(UTC),
        kind=charge.kind,
        description=charge.request.words,
        rho=charge.rho,
        spends=charge.spends,
        state="rehearsed",
        key=charge.key,
        request=charge.request.body,
    )


class StoredReleaser:
    """Finds stored releases and measures nothing, so no request can spend.

    `refusal` makes a new exception for each request: one raised twice would keep the frames of both.
    """

    def __init__(self, refusal: Callable[[], DPXPlainError] | None = None) -> None:
        self._refusal = refusal or partial(InternalError, "A request tried to spend budget, but may not.")

    def find_or_measure(
        self,
        plan: ReleasePlan[R],
        request: Request,
        dataset: OpenDataset,
        show: Show[R, T],
        look: Hashable,
        found: Released[R] | None = None,
    ) -> T:
        if found is not None:
            dataset.check_data()
        stored = found or dataset.find(plan)
        if stored is None:
            raise self._refusal()
        return show(stored)


# -- Version check -----------------------------------------------------------------------------------------
#
# The data must be those of the declared version before a release is read or a charge is made.


class VersionCheck:
    """Compares the data of one open data set with those that its declared version names in the ledger.

    A version names the data of its first charge, for good. Shared by everybody who works on the data set.
    """

    def __init__(self, versions: DataVersions, dataset: str, version: str, source: DataSource) -> None:
        self.version = version
        self._versions = versions
        self._dataset = dataset
        self._source = source
        self._opened: DataVersion | None = None  # the version, once the data were recognised as its own
        self._lock = threading.Lock()

    def check(self) -> None:
        """Refuses unless the data are those of the version, both as they were read and as they are now."""
        if not (self._is_own() and not self.is_replaced()):
            raise DataChanged.of(self._dataset)

    def measured_data(self) -> DataState:
        """The state of the data to be measured. The ledger compares it once more when it charges."""
        self.check()
        self._source.check_readable()
        return DataState(self.version, None if self._opened is not None else self._source.digest())

    def is_replaced(self) -> bool:
        """Whether the source now holds other data than were read."""
        return self._source.is_replaced(self._fits)

    def present_state(self) -> str | None:
        """The present state of the source's files; None if they are missing or still being written."""
        return self._source.present_state()

    def _is_own(self) -> bool:
        """Whether the data read are the version's data; also true if the version has none yet."""
        if self._opened is not None:
            return True
        with self._lock:  # a large file is digested once
            version = self._versions.get(self._dataset, self.version)
            if version is None:
                return True
            state = self._source.state()
            if state is None or not self._versions.recognises(version, state):
                digest = self._source.digest()
                if digest is None or not version.fits(digest):
                    return False
                if state is not None:
                    self._versions.remember(version, state)
            self._opened = version
            return True

    def _fits(self, digest: ContentDigest) -> bool:
        """Whether content found later is the content that was read."""
        if self._opened is not None:
            return self._opened.fits(digest)
        return digest == self._source.digest()


def recognised_by(versions: DataVersions, dataset: str, version: str) -> Recognised:
    """Makes a test whether files in a state are known as the version's data and need not be digested."""
    opened = versions.get(dataset, version)
    return lambda state: opened is not None and versions.recognises(opened, state)


class VersionedLedger:
    """A ledger or account whose releases are read only while the data are those of the declared version."""

    def __init__(self, ledger: LedgerView, version_check: VersionCheck) -> None:
        self._ledger = ledger
        self._version_check = version_check

    def budget(self, dataset: str) -> Budget:
        return self._ledger.budget(dataset)

    def history_page(self, dataset: str, before: EntryId | None = None, limit: int = 100) -> HistoryPage:
        return self._ledger.history_page(dataset, before, limit)

    def history(self, dataset: str) -> list[Entry]:
        return self._ledger.history(dataset)

    def discovered(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        return self._ledger.discovered(dataset, key)

    def spent_delta(self, dataset: str, column: str | None = None, *, besides: str = "") -> float:
        return self._ledger.spent_delta(dataset, column, besides=besides)

    def entry(self, dataset: str, id: EntryId) -> Entry | None:
        return self._ledger.entry(dataset, id)

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        """Finds entries of the declared version only, because the version is part of the key."""
        self._version_check.check()
        return self._ledger.find(dataset, key)

    def get(self, dataset: str, entry: EntryId) -> tuple[Entry, str] | None:
        self._version_check.check()
        stored = self._ledger.get(dataset, entry)
        return stored if stored is not None and self._is_of_version(stored[0]) else None

    def latest(self, dataset: str, kind: str, version: str | None = None) -> Entry | None:
        self._version_check.check()
        return self._ledger.latest(dataset, kind, self._version_check.version)

    def preparations(self, dataset: str, subject: str) -> list[Entry]:
        self._version_check.check()
        return [entry for entry in self._ledger.preparations(dataset, subject) if self._is_of_version(entry)]

    def close(self) -> None:
        self._ledger.close()

    def _is_of_version(self, entry: Entry) -> bool:
        """Whether an entry is of the version, or of none, as notices and charges for lost records are."""
        return entry.version in (None, self._version_check.version)
