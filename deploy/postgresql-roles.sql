-- Two roles and a database for the ledger; once, as PostgreSQL's superuser. docs/operations.md tells when.
-- dpxplain_owner owns the tables: it makes, upgrades and restores them. Nobody signs in as it. dpxplain is the
-- server, signed in by the name of its operating-system user; for such a command it is made a member of the
-- owner (GRANT dpxplain_owner TO dpxplain), until postgresql-rights.sql ends that again. NOINHERIT: even then,
-- only a command that asks for the owner's role has it, and running servers do not.
\set ON_ERROR_STOP on
CREATE ROLE dpxplain_owner NOLOGIN;
CREATE ROLE dpxplain LOGIN NOINHERIT;
CREATE DATABASE dpxplain OWNER dpxplain_owner ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE dpxplain FROM PUBLIC;
GRANT CONNECT ON DATABASE dpxplain TO dpxplain;
