"""The opened data of a schema: its own table, and private ones that are joined when they are asked about."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from dpxplain.engines.engine import Engine, Recognised, Source
from dpxplain.engines.opening import check_joinable, guarded_source, lasting, open_engine, private_sources
from dpxplain.engines.private_sources import PrivateSources
from dpxplain.model.schema import Schema


class OpenedTables:
    """The engine of a data set's own table, and one of the tables joined last, shared by all callers."""

    def __init__(
        self,
        source: object,
        schema: Schema,
        *,
        tables: Mapping[str, object] = MappingProxyType({}),
        memory: str | None = None,
        cache: Path | None = None,
        recognised: Recognised = lambda _state: False,
        time_limit: float | None = None,
        lazily: bool = False,
    ) -> None:
        """`tables` are given in place of declared sources; for the other arguments see `open_engine`."""
        others = private_sources(source, schema, tables)
        own = lasting(source) if others else source  # it will be read again

        def open_joined(joined: Schema) -> Engine:
            return open_engine(own, joined, others=others, memory=memory, time_limit=time_limit)

        # A function, as rows may have been given as data frames: no attribute of a result leads to them.
        self._open_joined = open_joined if others else None
        self._joined: Engine | None = None
        self._lock = threading.Lock()
        self.engine = open_engine(
            own,
            schema,
            others=others,
            memory=memory,
            cache=cache,
            recognised=recognised,
            time_limit=time_limit,
            lazily=lazily,
        )
        try:
            self.source: Source = guarded_source(self.engine.source, source, schema, others)
            check_joinable(own, schema, others)
        except BaseException:
            self.engine.close()
            raise

    def joined(self, schema: Schema) -> Engine:
        """The engine of the joined rows that the schema declares, kept until other tables are joined.

        The one before is let go and not closed: passes may still run on it, and the last of them closes it.
        """
        with self._lock:
            if self._joined is None or self._joined.schema.joined != schema.joined:
                self._joined = None  # before the next one needs its memory
                self._joined = self._open(schema)
            return self._joined

    def close(self) -> None:
        """Closes what was opened for joins; whoever has the engine closes that."""
        with self._lock:
            engine, self._joined = self._joined, None
        if engine is not None:
            engine.close()

    def _open(self, schema: Schema) -> Engine:
        assert self._open_joined is not None, "joins are planned of declared private tables only"
        engine = self._open_joined(schema)
        try:
            if isinstance(self.source, PrivateSources):
                self.source.check_same(engine, schema.table.name)
        except BaseException:
            engine.close()
            raise
        return engine
