"""SQLite ledgers of one test process share SQLAlchemy's compiled statements.

Each engine compiles the same statements anew, which takes a fifth of the time of opening a session and asking
one question, and tests open thousands. A server has one engine, so the program itself does not need this.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

_create_engine = sa.create_engine


def share_compiled_statements() -> None:
    """Gives every SQLite engine that is created from now on the dialect and the cache of the first."""
    first = _create_engine("sqlite://")
    first.connect().close()  # which completes the dialect
    first.dispose()

    def create_engine(*arguments: Any, **options: Any) -> sa.Engine:
        engine = _create_engine(*arguments, **options)
        if engine.dialect.name == first.dialect.name:
            engine.dialect, engine._compiled_cache = first.dialect, first._compiled_cache
        return engine

    sa.create_engine = create_engine
