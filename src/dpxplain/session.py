"""Where an analyst starts: connect to a data set, ask a query, watch the budget.

`Session.query` is phase 1; its answer's `why` is phase 2; the question's `explain` is phase 3.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dpxplain.datasets import path as bundled
from dpxplain.engines.opening import (
    SchemaSource,
    bundled_engine,
    declared_source,
    folder_of,
    refuse_swapped,
    with_public_tables,
)
from dpxplain.engines.source_kinds import is_address
from dpxplain.errors import BadRequest, SchemaError
from dpxplain.ledger.address import find_ledger, workspace_folder
from dpxplain.ledger.ledger import SQLLedger, open_ledger
from dpxplain.model.charge import Budget, EntryId, History, HistoryPage, history_pages
from dpxplain.model.hardening import plain
from dpxplain.model.process import memory_limit
from dpxplain.model.release import AnswerRelease, AnswersRelease, Released
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import LocalReleaser, OpenDataset, Progress, VersionCheck, recognised_by, silent
from dpxplain.phases.measure import with_discovered
from dpxplain.privacy.intervals import check_asked_confidence
from dpxplain.privacy.mechanisms.noise import SeededNoise, private_noise
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers, PlannedQuery, missing_price
from dpxplain.results.base import (
    USUAL_DISCOVERY,
    USUAL_QUALITY,
    USUAL_TUNING,
    TruthTeller,
    asked_rho,
    checked_arguments,
    planned_at_price,
)
from dpxplain.results.preview import QueriesPreview, QueryPreview
from dpxplain.results.quality import (
    KEEP,
    Discovery,
    DiscoveryPreview,
    PlannedDiscovery,
    PlannedQuality,
    PlannedTuning,
    Quality,
    QualityPreview,
    Tuning,
    TuningPreview,
)
from dpxplain.sql.join import private_tables
from dpxplain.sql.parse import parse

if TYPE_CHECKING:
    from dpxplain.engines.engine import Engine
    from dpxplain.results.schema_check import SchemaCheck

LOG = logging.getLogger("dpxplain.session")
_PASS_ADDRESS = 'Pass the server\'s address too: "https://host/data-set".'


@checked_arguments
def connect(
    source: object = None,
    schema: SchemaSource | None = None,
    *,
    tables: Mapping[str, object] | None = None,
    token: str | None = None,
    ca: str | Path | None = None,
    workspace: str | Path | None = None,
    anchor: str | Path | None = None,
    memory: str | None = None,
    curator: bool = False,
    trusted_code: bool = False,
    insecure_seed: int | None = None,
    progress: Progress = silent,
) -> Session:
    """Open a data set: files, a DataFrame, an Arrow table, a DuckDB relation or connection, or a server.

    Files are Parquet, CSV, JSON lines, Feather or Arrow IPC, given as a path, a glob or a list of paths. A
    DuckDB file works too; if it has several tables, write "flights.duckdb::table". With
    "postgresql://user@host/database" the table stays in its database (docs/engines.md).

    For a server, `connect("https://host/data-set", token=...)` is enough: the server has the schema, the
    budget and the history. You can also set the token as DPXPLAIN_TOKEN in the environment. `ca` is a PEM
    file with the issuer of the server's certificate, if that is not a public one. You can also set it as
    DPXPLAIN_CA or SSL_CERT_FILE.

    `schema` is the curator's TOML file or a dict of the same shape. The budget is kept in `workspace`
    (default: `.dpxplain` in the current folder) and survives the session. `tables` replaces the sources of
    joined tables that the schema declares: `{"airlines": DataFrame}`. `anchor` is a file outside the ledger
    that remembers what was charged (default: beside a SQLite ledger), or "off". `memory` limits the memory
    for reading files, such as "4GB" (default: DPXPLAIN_MEMORY, or four fifths of the machine's memory). If a
    row is the privacy unit, larger files are read again in every pass; the schema's `storage` and `cache` can
    change that. `trusted_code` allows influences other than the library's own to run on true counts.
    `insecure_seed` replaces the noise with repeatable noise, for experiments; all results are then marked as
    not private.
    """
    refuse_swapped(source, schema)
    if is_address(source):
        local = (schema, tables, workspace, anchor, memory, insecure_seed)
        if trusted_code or any(argument is not None for argument in local):
            raise BadRequest(
                "A data set at a server comes with the server's schema, budget and noise.",
                remedy="Pass the address and token=... only.",
            )
        from dpxplain.remote import open_remote

        opened = open_remote(str(source), token, curator=curator, progress=progress, ca=ca)
        return Session(opened, opened.reopened)
    if token is not None:
        raise BadRequest("token= works only with a server.", remedy=_PASS_ADDRESS)
    if ca is not None:
        raise BadRequest("ca= works only with a server.", remedy=_PASS_ADDRESS)
    if schema is None:
        raise SchemaError(
            "A data set needs a declared schema.",
            remedy='Pass schema="data.toml"; draft one with: dpxplain schema init DATA_FILE',
        )
    declared = with_public_tables(Schema.load(schema), folder_of(schema), tables)
    limit = memory_limit(memory)
    if source is None:
        source = declared_source(declared, schema)
    address = find_ledger(workspace=workspace)
    ledger = open_ledger(address.place, anchor=anchor or address.anchor, create=address.is_workspace)
    if ledger.store.is_new:
        _announce(f"{ledger.name} is new: nothing was spent in it before.")
    opening = (source, declared, ledger, curator, trusted_code, insecure_seed, progress)
    cache = workspace_folder(workspace) / "cache"
    return _open(*opening, cache=cache, memory=limit, tables=tables, folder=folder_of(schema))


@checked_arguments
def check_schema(source: object = None, schema: SchemaSource | None = None) -> SchemaCheck:
    """Check how the rows fit the schema, for the curator: NOT private. Spends nothing and uses no ledger.

    The warnings say what is left out, capped or misspelt, each with a remedy. `source` and `schema` are as in
    `connect`.
    """
    from dpxplain.engines.opening import source_figures
    from dpxplain.results.schema_check import SchemaCheck

    refuse_swapped(source, schema)
    if schema is None:
        raise SchemaError("There is no schema to check.", remedy='Pass schema="data.toml".')
    declared = with_public_tables(Schema.load(schema), folder_of(schema))
    data = declared_source(declared, schema) if source is None else source
    return SchemaCheck.of(declared, data, source_figures(data, declared))


@checked_arguments
def example(
    name: str = "adult",
    *,
    curator: bool = False,
    trusted_code: bool = False,
    insecure_seed: int | None = None,
    progress: Progress = silent,
) -> Session:
    """Open bundled data with a fresh budget in memory. Sessions of one process share the encoded rows.

    >>> example("adult").budget.remaining
    5.0
    """
    source, declared = bundled(f"{name}.parquet"), bundled(f"{name}.toml")
    return _open(
        source,
        Schema.load(declared),
        open_ledger(None),
        curator,
        trusted_code,
        insecure_seed,
        progress,
        engine=bundled_engine(source, declared, os.getpid()).shared(),
    )


def _announce(text: str) -> None:
    """Logs a notice. A notebook prints it instead, because it puts log lines into a red box."""
    if "ipykernel.kernelapp" in sys.modules:  # in the kernel itself, not in a program that starts one
        sys.stdout.write(f"{text}\n")
    else:
        LOG.warning(text)


class Session:
    """An analyst's access to one data set."""

    def __init__(self, dataset: OpenDataset, reopen: Callable[[Schema], OpenDataset] | None = None) -> None:
        """`reopen` opens the data under a schema with discovered values; None if they are not reopened."""
        self._dataset = dataset
        self._reopen = reopen
        self._earlier: list[OpenDataset] = []  # answers from before a discovery still need them

    def __repr__(self) -> str:
        budget = self.budget
        role = "curator" if isinstance(self._dataset, TruthTeller) else "analyst"
        return f"<Session {self._dataset.name}, {role}, {budget.remaining:g} of {budget.limit:g} ρ left>"

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for dataset in (*self._earlier, self._dataset):
            dataset.close()

    @property
    def schema(self) -> Schema:
        """A copy of the curator's schema, which is public. Sensitivities follow from the original."""
        return self._dataset.schema.model_copy(deep=True)

    @property
    def budget(self) -> Budget:
        """The limit, spent and remaining ρ at this moment: the data set's or, at a server, your own."""
        return self._dataset.ledger.budget(self._dataset.name)

    @property
    def history(self) -> History:
        """Everything asked so far, with its price."""
        return History(self._dataset.ledger.history(self._dataset.name))

    def history_pages(self, limit: int = 100) -> Iterator[HistoryPage]:
        """The history in pages of `limit` lines, the newest page first. A page is read when you reach it."""
        return history_pages(
            lambda before: self._dataset.ledger.history_page(self._dataset.name, before, limit)
        )

    @checked_arguments
    def query(
        self,
        sql: str,
        rho: float | None = None,
        *,
        epsilon: float | None = None,
        confidence: float = 0.95,
        population: bool = False,
    ) -> Answer | Answers:
        """Phase 1: a noisy answer for every declared group. The same query at the same price is then free.

        The price is `rho`, or the largest ρ within `epsilon` at the declared δ, or else the schema's
        `privacy.default_rho`. Without a price the query is refused, and the error says what three usual
        prices would buy. Several aggregates in the SELECT list share the price and are returned as `Answers`.
        `population` adds, at no cost, intervals for a larger population, assuming that the rows were drawn
        from it independently and at random.
        """
        return self.plan(sql, rho, epsilon=epsilon, confidence=confidence, population=population).run()

    @checked_arguments
    def preview(
        self, sql: str, rho: float | None = None, *, epsilon: float | None = None, confidence: float = 0.95
    ) -> QueryPreview | QueriesPreview:
        """What `query` would cost and how noisy its answer would be. Spends nothing."""
        return self.plan(sql, rho, epsilon=epsilon, confidence=confidence).preview()

    def plan(
        self,
        sql: str,
        rho: float | None = None,
        *,
        epsilon: float | None = None,
        confidence: float = 0.95,
        population: bool = False,
    ) -> PlannedQuery:
        """Plan `query` without running it, to price it, look it up or run it later. Spends nothing."""
        dataset = self._joining(plain(sql))
        statement = parse(plain(sql), dataset.schema)
        level = check_asked_confidence(confidence)

        def plan_at(rho: float) -> PlannedQuery:
            return PlannedQuery.of(statement, rho, level, dataset, population).check_shown()

        price = asked_rho(rho, epsilon, dataset, lambda rho: plan_at(rho).plan.spends)
        if price is None:
            price = dataset.schema.privacy.default_rho
        if price is None:
            raise missing_price(plan_at, self.budget)
        return plan_at(price)

    def _joining(self, sql: str) -> OpenDataset:
        """The data set with the private tables that a statement joins."""
        return self._dataset.joining(private_tables(sql, self._dataset.schema))

    @checked_arguments
    def quality(
        self, rho: float | None = None, *, epsilon: float | None = None, confidence: float = 0.95
    ) -> Quality:
        """Measure how well the data fit the schema: how many rows are capped, left out, or beyond max_rows.

        Costs `rho` or `epsilon`. Asking again at the same price is free. From then on, `shaped_by` of every
        answer states these shares.
        """
        return self.plan_quality(rho, epsilon=epsilon, confidence=confidence).run()

    @checked_arguments
    def preview_quality(
        self, rho: float | None = None, *, epsilon: float | None = None, confidence: float = 0.95
    ) -> QualityPreview:
        """What `quality` would cost and how noisy its counts would be. Spends nothing."""
        return self.plan_quality(rho, epsilon=epsilon, confidence=confidence).preview()

    def plan_quality(
        self, rho: float | None = None, *, epsilon: float | None = None, confidence: float = 0.95
    ) -> PlannedQuality:
        """Plan `quality` without running it, to price it, look it up or run it later. Spends nothing."""

        def plan_at(rho: float) -> PlannedQuality:
            return PlannedQuality(rho, confidence, self._dataset)

        return planned_at_price(plan_at, rho, epsilon, self._dataset, "quality", USUAL_QUALITY)

    @checked_arguments
    def discover(
        self,
        column: str,
        rho: float | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> Discovery:
        """Discover the values that enough privacy units have, in a column declared `values = "discover"`.

        Costs ρ (or ε) and, in addition, a δ of its own. By default, all such columns get even shares of the
        declared δ. Once values are found, they are stored for this version of the data, and the column works
        like any other.
        """
        discovery = self.plan_discovery(column, rho, epsilon=epsilon, delta=delta).run()
        if discovery.values and column not in self._dataset.schema.columns and self._reopen is not None:
            self._earlier.append(self._dataset)
            self._dataset = self._reopen(self._dataset.schema.with_discovered({column: discovery.values}))
        return discovery

    @checked_arguments
    def preview_discover(
        self,
        column: str,
        rho: float | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> DiscoveryPreview:
        """What `discover` would cost, and how many units a value needs to be found. Spends nothing."""
        return self.plan_discovery(column, rho, epsilon=epsilon, delta=delta).preview()

    def plan_discovery(
        self,
        column: str,
        rho: float | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> PlannedDiscovery:
        """Plan `discover` without running it, to price it or run it later. Spends nothing."""

        def plan_at(rho: float) -> PlannedDiscovery:
            return PlannedDiscovery(plain(column), rho, delta, self._dataset)

        return planned_at_price(plan_at, rho, epsilon, self._dataset, "discover", USUAL_DISCOVERY)

    @checked_arguments
    def tune(
        self,
        rho: float | None = None,
        *,
        epsilon: float | None = None,
        columns: Sequence[str] = (),
        keep: float = KEEP,
        confidence: float = 0.95,
    ) -> Tuning:
        """Propose narrower bounds and a lower max_rows, and say what they would cap or leave out.

        Costs `rho` or `epsilon`. With the given confidence, proposed bounds keep at least the share `keep` of
        a column's values, and a proposed max_rows leaves at least that share of the privacy units whole. If
        no proposal is sure to, it is the declared one. By default, `columns` are all columns with bounds.
        Asking again for the same columns and price is free, also with another `keep`. The schema is not
        changed.
        """
        return self.plan_tuning(rho, epsilon=epsilon, columns=columns, keep=keep, confidence=confidence).run()

    @checked_arguments
    def preview_tune(
        self,
        rho: float | None = None,
        *,
        epsilon: float | None = None,
        columns: Sequence[str] = (),
        confidence: float = 0.95,
    ) -> TuningPreview:
        """What `tune` would cost and how noisy its counts would be. Spends nothing."""
        return self.plan_tuning(rho, epsilon=epsilon, columns=columns, confidence=confidence).preview()

    def plan_tuning(
        self,
        rho: float | None = None,
        *,
        epsilon: float | None = None,
        columns: Sequence[str] = (),
        keep: float = KEEP,
        confidence: float = 0.95,
    ) -> PlannedTuning:
        """Plan `tune` without running it, to price it or run it later. Spends nothing."""

        def plan_at(rho: float) -> PlannedTuning:
            return PlannedTuning(rho, columns, keep, confidence, self._dataset)

        return planned_at_price(plan_at, rho, epsilon, self._dataset, "tune", USUAL_TUNING)

    def answer(
        self, entry: EntryId | None = None, *, confidence: float = 0.95, population: bool = False
    ) -> Answer | Answers:
        """A stored answer, by its number in the history (default: the latest). Free."""
        latest = self._dataset.ledger.latest(self._dataset.name, "query") if entry is None else None
        number = latest.id if latest is not None else entry
        answer = (
            None if number is None else self.find_answer(number, confidence=confidence, population=population)
        )
        if answer is None:
            raise BadRequest(
                "There is no answer yet." if entry is None else f"There is no answer number {entry}.",
                remedy="Ask a query first. session.history lists the answers.",
            )
        return answer

    def find_answer(
        self, entry: EntryId, *, confidence: float = 0.95, population: bool = False
    ) -> Answer | Answers | None:
        """The stored answer with this number, or None. Reads only one line of the history."""
        if not isinstance(entry, Integral | str):
            return None
        number: EntryId = str(entry) if isinstance(entry, str) else int(entry)
        stored = self._dataset.ledger.get(self._dataset.name, number)
        if stored is None:
            self._refuse_other_version(number)
        if stored is None or stored[0].kind != "query":
            return None
        line, text = stored
        dataset = self._joining(line.description)
        statement = parse(line.description, dataset.schema)
        release = (AnswersRelease if statement.more else AnswerRelease).from_json(text)
        planned = PlannedQuery.of(statement, release.rho, confidence, dataset, population)
        if planned.key != line.key:
            raise BadRequest(
                f"The schema has changed since answer {line.id} was given, so the answer can no longer "
                "be read.",
                remedy="Ask the query again. The curator can restore the earlier schema.",
            )
        released: Any = Released(release, line, free=True)
        return planned.show(released)

    def _refuse_other_version(self, number: EntryId) -> None:
        """Raises if the entry is an answer about another version of the data."""
        entry, version = self._dataset.ledger.entry(self._dataset.name, number), self.schema.table.version
        if entry is not None and entry.kind == "query" and entry.version != version:
            raise BadRequest(
                f"Answer {number} is about version {entry.version!r} of the data. The data are now at "
                f"version {version!r}.",
                remedy="Ask the query again. The curator can declare the earlier version, with its data.",
            )


def _open(
    source: object,
    schema: Schema,
    ledger: SQLLedger,
    curator: bool,
    trusted_code: bool,
    insecure_seed: int | None,
    progress: Progress,
    cache: Path | None = None,
    memory: str | None = None,
    tables: Mapping[str, object] | None = None,
    folder: Path = Path(),
    engine: Engine | None = None,
) -> Session:
    from dpxplain.curator import CuratorDataset
    from dpxplain.engines.opening import EngineOptions, OpenedTables

    name, version = schema.table.name, schema.table.version
    noise = private_noise(schema.privacy.noise) if insecure_seed is None else SeededNoise(insecure_seed)
    kind, releaser = CuratorDataset if curator else OpenDataset, LocalReleaser(ledger)
    recognised = recognised_by(ledger.versions, name, version)
    options = EngineOptions(memory=memory, cache=cache, recognised=recognised)

    def opened(declared: Schema) -> OpenDataset:
        declared = with_public_tables(declared, folder, tables)  # their keys may be discovered now
        data = OpenedTables(source, declared, options, tables=tables or {}, engine=engine)
        check = VersionCheck(ledger.versions, name, version, data.source)
        return kind(declared, data.engine, ledger, releaser, noise, progress, trusted_code, check, data)

    try:
        ledger.open_dataset(name, schema.privacy.rho, schema.privacy.delta)
        progress(f"Opening {name}")
        return Session(opened(with_discovered(schema, ledger, insecure_seed)), opened)
    except BaseException:
        ledger.close()
        raise
