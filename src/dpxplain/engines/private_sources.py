"""The sources of all private tables of a data set, as one source: its version names the state of all of them.

Otherwise a table that changes under an unchanged version would go unnoticed until it is joined.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dpxplain.engines.engine import Source
from dpxplain.errors import DataChanged
from dpxplain.model.confidential import ContentDigest

if TYPE_CHECKING:
    from dpxplain.engines.engine import Engine


class PrivateSources:
    """Sources by the names of their tables."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = dict(sources)

    def check_readable(self) -> None:
        for source in self._sources.values():
            source.check_readable()

    def state(self) -> str | None:
        return _together([source.state() for source in self._sources.values()])

    def digest(self) -> ContentDigest | None:
        return self._digest({})

    def is_replaced(self, fits: Callable[[ContentDigest], bool]) -> bool:
        return any(self._is_replaced(name, fits) for name in self._sources)

    def present_state(self) -> str | None:
        return _together([source.present_state() for source in self._sources.values()])

    def check_same(self, engine: Engine, dataset: str) -> None:
        """Refuses an engine that has read other content of these tables than the one that is guarded."""
        read = engine.source
        if not isinstance(read, PrivateSources):
            return  # a live table, whose version is declared
        for name, source in read._sources.items():
            if source.digest() is None or source.digest() != self._sources[name].digest():
                raise DataChanged.of(dataset, charged=True)

    def _is_replaced(self, name: str, fits: Callable[[ContentDigest], bool]) -> bool:
        def all_fit(digest: ContentDigest) -> bool:
            whole = self._digest({name: digest})
            return whole is not None and fits(whole)

        return self._sources[name].is_replaced(all_fit)

    def _digest(self, known: Mapping[str, ContentDigest]) -> ContentDigest | None:
        """Of all contents in the order of the tables; None if one of them has changed meanwhile."""
        digests = [known.get(name) or source.digest() for name, source in self._sources.items()]
        whole = [digest for digest in digests if digest is not None]
        return ContentDigest.of_all(whole) if len(whole) == len(digests) else None


def _together(states: list[str | None]) -> str | None:
    """The states of all; None if one is unknown."""
    return None if None in states else json.dumps(states)
