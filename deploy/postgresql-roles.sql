-- Two roles and a database for the ledger; once, as PostgreSQL's superuser. docs/operations.md tells when.
-- dpxplain_owner owns the tables: it makes and upgrades them. Nobody signs in as it; the superuser takes the
-- role for a command. dpxplain is the server, signed in by the name of its operating-system user.
\set ON_ERROR_STOP on
CREATE ROLE dpxplain_owner NOLOGIN;
CREATE ROLE dpxplain LOGIN;
CREATE DATABASE dpxplain OWNER dpxplain_owner ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE dpxplain FROM PUBLIC;
GRANT CONNECT ON DATABASE dpxplain TO dpxplain;
