-- What the server may do in the ledger; after the ledger was made, and again after each upgrade
-- or restore.
-- It can add lines but neither change nor delete one, and it cannot take away the triggers that refuse that.
\set ON_ERROR_STOP on
BEGIN;
SET LOCAL search_path = dpxplain;
REVOKE ALL ON ALL TABLES IN SCHEMA dpxplain FROM dpxplain;
GRANT USAGE ON SCHEMA dpxplain TO dpxplain;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA dpxplain TO dpxplain;
-- Working state, which is forgotten when it is done, and the row that writers lock.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dpxplain TO dpxplain;
REVOKE INSERT, DELETE ON turnstile FROM dpxplain;
-- Append-only: the history, who may do what, and the audit log.
REVOKE UPDATE, DELETE ON limits, grants, entries, releases, shares, tokens, revocations, versions, log FROM dpxplain;
REVOKE dpxplain_owner FROM dpxplain;
COMMIT;
