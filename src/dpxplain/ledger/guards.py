"""Triggers that keep the ledger append-only, whoever asks: made with the tables, and looked for by an audit.

They stop mistakes and the careless. Who owns the database can remove them; the audit log is for that.
"""

from __future__ import annotations

import sqlalchemy as sa

from dpxplain.ledger.tables import APPEND_ONLY

_EVENTS = ("UPDATE", "DELETE", "INSERT")
_REFUSAL = "the ledger is append-only"

_SQLITE_CHANGE = f"""
CREATE TRIGGER {{table}}_keeps_its_rows_on_{{event}} BEFORE {{event}} ON {{table}}
BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END
"""
# INSERT OR REPLACE deletes what is in its way without asking the triggers on DELETE. In its way are rows of
# the same key and, where the key is a text, of the same row number, which a statement may name too.
_SQLITE_REPLACEMENT = f"""
CREATE TRIGGER {{table}}_keeps_its_rows_on_INSERT BEFORE INSERT ON {{table}}
WHEN EXISTS (SELECT 1 FROM {{table}} WHERE {{key}} = NEW.{{key}} OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END
"""

_POSTGRES_BODY = f" BEGIN RAISE EXCEPTION '{_REFUSAL}' USING ERRCODE = 'integrity_constraint_violation'; END "
_POSTGRES_REFUSAL = f"""
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$${_POSTGRES_BODY}$$
"""
# INSERT ... ON CONFLICT DO UPDATE asks the triggers on UPDATE.
_POSTGRES_GUARD = """
CREATE TRIGGER {table}_keeps_its_rows BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()
"""
# As its catalogue keeps them: before (2) delete (8), update (16) and truncate (32), for all columns, without
# a condition, and not switched off.
_POSTGRES_GUARDS = sa.text("""
SELECT relname
FROM pg_catalog.pg_trigger JOIN pg_catalog.pg_proc ON pg_proc.oid = tgfoid
JOIN pg_catalog.pg_class ON pg_class.oid = tgrelid
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = 'dpxplain' AND tgtype = 58 AND tgattr::text = '' AND tgqual IS NULL
AND tgenabled IN ('O', 'A') AND prosrc = :body
""")


def create_guards(connection: sa.Connection) -> None:
    """Make all guards, within the caller's transaction."""
    if connection.dialect.name == "sqlite":
        guards = list(_sqlite_guards().values())
    else:
        guards = [_POSTGRES_REFUSAL, *(_POSTGRES_GUARD.format(table=table.name) for table in APPEND_ONLY)]
    for guard in guards:
        connection.exec_driver_sql(guard)


def create_replacement_guards(connection: sa.Connection) -> None:
    """Make those that a SQLite ledger of version 2 lacks."""
    for table in APPEND_ONLY:
        connection.exec_driver_sql(_sqlite_guards()[_name(table.name, "INSERT")])


def unguarded(connection: sa.Connection) -> list[str]:
    """Tables of which a guard is missing, was changed or is switched off."""
    if connection.dialect.name == "sqlite":
        found = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        there = {row.name: row.sql.strip() for row in found}
        whole = {name for name, guard in _sqlite_guards().items() if there.get(name) == guard.strip()}
        return [
            table.name
            for table in APPEND_ONLY
            if not whole >= {_name(table.name, event) for event in _EVENTS}
        ]
    guarded = connection.execute(_POSTGRES_GUARDS, {"body": _POSTGRES_BODY}).scalars().all()
    return [table.name for table in APPEND_ONLY if table.name not in guarded]


def _name(table: str, event: str) -> str:
    return f"{table}_keeps_its_rows_on_{event}"


def _sqlite_guards() -> dict[str, str]:
    guards = {}
    for table in APPEND_ONLY:
        key = next(iter(table.primary_key.columns)).name
        for event in _EVENTS:
            shape = _SQLITE_REPLACEMENT if event == "INSERT" else _SQLITE_CHANGE
            guards[_name(table.name, event)] = shape.format(table=table.name, event=event, key=key)
    return guards
