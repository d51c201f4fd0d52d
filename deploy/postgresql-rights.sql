-- What the server may do in the ledger; after the ledger was made, and again after each upgrade.
-- It can add lines but neither change nor delete one, and it cannot take away the triggers that refuse that.
\set ON_ERROR_STOP on
BEGIN;
SET LOCAL search_path = dpxplain;
REVOKE ALL ON ALL TABLES IN SCHEMA dpxplain FROM dpxplain;
GRANT USAGE ON SCHEMA dpxplain TO dpxplain;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA dpxplain TO dpxplain;
GRANT SELECT ON ALL TABLES IN SCHEMA dpxplain TO dpxplain;
-- Append-only: the history, who may do what, and the audit log.
GRANT INSERT ON limits, grants, entries, releases, shares, tokens, revocations, versions, log TO dpxplain;
-- Working state, which is forgotten when it is done.
GRANT INSERT, UPDATE, DELETE ON jobs, flights, processes, sessions, file_states TO dpxplain;
-- The row that writers lock; a lock needs the right to update.
GRANT UPDATE ON turnstile TO dpxplain;
COMMIT;
