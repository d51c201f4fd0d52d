SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA dpxplain;
CREATE FUNCTION dpxplain.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'integrity_constraint_violation'; END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE dpxplain.entries (
    id bigint NOT NULL,
    dataset text NOT NULL,
    analyst text NOT NULL,
    "time" text NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    description text NOT NULL,
    charge_units bigint NOT NULL,
    total_units bigint NOT NULL,
    own_units bigint NOT NULL,
    spends text NOT NULL,
    request text,
    subject text,
    version text,
    CONSTRAINT entries_charge_units_check CHECK ((charge_units >= 0))
);
CREATE SEQUENCE dpxplain.entries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dpxplain.entries_id_seq OWNED BY dpxplain.entries.id;
CREATE TABLE dpxplain.file_states (
    version bigint NOT NULL,
    state text NOT NULL
);
CREATE TABLE dpxplain.grants (
    id bigint NOT NULL,
    dataset text NOT NULL,
    analyst text NOT NULL,
    "time" text NOT NULL,
    limit_units bigint NOT NULL,
    expires text,
    reason text NOT NULL,
    by text NOT NULL,
    CONSTRAINT grants_limit_units_check CHECK ((limit_units >= 0))
);
CREATE SEQUENCE dpxplain.grants_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dpxplain.grants_id_seq OWNED BY dpxplain.grants.id;
CREATE TABLE dpxplain.jobs (
    id text NOT NULL,
    dataset text NOT NULL,
    owner text NOT NULL,
    kind text NOT NULL,
    request text NOT NULL,
    state text NOT NULL,
    stage text NOT NULL,
    error text,
    entry bigint,
    cancel_asked boolean NOT NULL,
    created text NOT NULL,
    heard text NOT NULL
);
CREATE TABLE dpxplain.limits (
    id bigint NOT NULL,
    dataset text NOT NULL,
    "time" text NOT NULL,
    declared_units bigint NOT NULL,
    top_up_units bigint NOT NULL,
    delta double precision NOT NULL,
    reason text NOT NULL,
    by text NOT NULL
);
CREATE SEQUENCE dpxplain.limits_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dpxplain.limits_id_seq OWNED BY dpxplain.limits.id;
CREATE TABLE dpxplain.log (
    id bigint NOT NULL,
    "time" text NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    dataset text,
    details text NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL
);
CREATE TABLE dpxplain.releases (
    entry bigint NOT NULL,
    payload text NOT NULL
);
CREATE TABLE dpxplain.revocations (
    token text NOT NULL,
    "time" text NOT NULL,
    by text NOT NULL
);
CREATE TABLE dpxplain.shares (
    id bigint NOT NULL,
    dataset text NOT NULL,
    owner text NOT NULL,
    reader text NOT NULL,
    shared boolean NOT NULL,
    "time" text NOT NULL,
    reason text NOT NULL,
    by text NOT NULL
);
CREATE SEQUENCE dpxplain.shares_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dpxplain.shares_id_seq OWNED BY dpxplain.shares.id;
CREATE TABLE dpxplain.tokens (
    id text NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    secret_hash text NOT NULL,
    created text NOT NULL,
    expires text NOT NULL,
    by text NOT NULL,
    parent text
);
CREATE TABLE dpxplain.turnstile (
    id integer NOT NULL,
    version integer
);
CREATE SEQUENCE dpxplain.turnstile_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dpxplain.turnstile_id_seq OWNED BY dpxplain.turnstile.id;
CREATE TABLE dpxplain.versions (
    id bigint NOT NULL,
    dataset text NOT NULL,
    version text NOT NULL,
    "time" text NOT NULL,
    by text NOT NULL,
    secret text NOT NULL,
    fingerprint text NOT NULL
);
CREATE SEQUENCE dpxplain.versions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dpxplain.versions_id_seq OWNED BY dpxplain.versions.id;
ALTER TABLE ONLY dpxplain.entries ALTER COLUMN id SET DEFAULT nextval('dpxplain.entries_id_seq'::regclass);
ALTER TABLE ONLY dpxplain.grants ALTER COLUMN id SET DEFAULT nextval('dpxplain.grants_id_seq'::regclass);
ALTER TABLE ONLY dpxplain.limits ALTER COLUMN id SET DEFAULT nextval('dpxplain.limits_id_seq'::regclass);
ALTER TABLE ONLY dpxplain.shares ALTER COLUMN id SET DEFAULT nextval('dpxplain.shares_id_seq'::regclass);
ALTER TABLE ONLY dpxplain.turnstile ALTER COLUMN id SET DEFAULT nextval('dpxplain.turnstile_id_seq'::regclass);
ALTER TABLE ONLY dpxplain.versions ALTER COLUMN id SET DEFAULT nextval('dpxplain.versions_id_seq'::regclass);
INSERT INTO dpxplain.entries VALUES (1, 'adult', '', '2026-11-16T13:10:13.159743+00:00', 'query', 'a', 'SELECT COUNT(*) FROM adult', 100000000000, 100000000000, 100000000000, '[["gaussian",0.1]]', NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (2, 'adult', '', '2026-11-16T13:10:13.927617+00:00', 'limit', '', 'limit changed from rho 1 to rho 2', 0, 100000000000, 100000000000, '[]', NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (3, 'adult', '', '2026-11-16T13:10:14.023397+00:00', 'explain', 'b', 'why', 500000000000, 600000000000, 600000000000, '[["top-k",0.25],["gaussian",0.25]]', NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (4, 'adult', 'ann', '2026-11-16T13:10:14.117714+00:00', 'grant', '', 'allowance set to rho 0.4: thesis', 0, 600000000000, 0, '[]', NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (5, 'adult', '', '2026-11-16T13:10:14.268150+00:00', 'top-up', '', 'limit raised to rho 2.5: more', 0, 600000000000, 600000000000, '[]', NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (6, 'adult', 'ann', '2026-11-16T13:10:14.656282+00:00', 'query', 'c', 'SELECT AVG(age) FROM adult', 50000000000, 650000000000, 50000000000, '[["gaussian",0.05]]', '{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}', NULL, '2026-11');
INSERT INTO dpxplain.entries VALUES (7, 'adult', 'ann', '2026-11-16T13:10:15.232031+00:00', 'prepare', 'd', 'prepare', 20000000000, 670000000000, 70000000000, '[["gaussian",0.02]]', '{"prepare":{"rho":0.02}}', 'subject of c', '2026-11');
INSERT INTO dpxplain.grants VALUES (1, 'adult', 'ann', '2026-11-16T13:10:14.117714+00:00', 400000000000, '2100-01-01T00:00:00+00:00', 'thesis', 'carol');
INSERT INTO dpxplain.jobs VALUES ('job', 'adult', 'ann', 'explain', '{"k":5}', 'done', 'ready', NULL, 7, false, '2026-11-16T13:10:16.893756+00:00', '2026-11-16T13:10:16.921996+00:00');
INSERT INTO dpxplain.limits VALUES (1, 'adult', '2026-11-16T13:10:12.583379+00:00', 1000000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (2, 'census', '2026-11-16T13:10:12.925902+00:00', 500000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (3, 'adult', '2026-11-16T13:10:13.927617+00:00', 2000000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (4, 'adult', '2026-11-16T13:10:14.268150+00:00', 2000000000000, 500000000000, 1e-06, 'more', 'carol');
INSERT INTO dpxplain.log VALUES (1, '2026-11-16T13:10:12.583379+00:00', '', 'data set opened', 'adult', '{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-16T13:10:12.583379+00:00","top_up_units":0}}', '0000000000000000000000000000000000000000000000000000000000000000', '67a8d07431bffd2e563ba594d3fc8b7f89d7a07b4e0dac3cc36cd27d7b7e91b4');
INSERT INTO dpxplain.log VALUES (2, '2026-11-16T13:10:12.925902+00:00', '', 'data set opened', 'census', '{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-16T13:10:12.925902+00:00","top_up_units":0}}', '67a8d07431bffd2e563ba594d3fc8b7f89d7a07b4e0dac3cc36cd27d7b7e91b4', 'fe9e1f561d631d066657317dc12aae5d8c983b8ea9cbf968508430f3ef1ce7c0');
INSERT INTO dpxplain.log VALUES (3, '2026-11-16T13:10:13.159743+00:00', '', 'reserved', 'adult', '{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-16T13:10:13.159743+00:00","total_units":100000000000}}', 'fe9e1f561d631d066657317dc12aae5d8c983b8ea9cbf968508430f3ef1ce7c0', '6470496900af3389c3a3c91f162a077b793d7a67e2f4f055bb210dea8b7caf1a');
INSERT INTO dpxplain.log VALUES (4, '2026-11-16T13:10:13.807624+00:00', '', 'released', 'adult', '{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}', '6470496900af3389c3a3c91f162a077b793d7a67e2f4f055bb210dea8b7caf1a', '3eca6413a37f3e054dbec327b3def4f72d99dab29d54696d1bf239c70ecef9fc');
INSERT INTO dpxplain.log VALUES (5, '2026-11-16T13:10:13.927617+00:00', '', 'limit changed', 'adult', '{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","own_units":100000000000,"request":null,"spends":[],"time":"2026-11-16T13:10:13.927617+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-16T13:10:13.927617+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}', '3eca6413a37f3e054dbec327b3def4f72d99dab29d54696d1bf239c70ecef9fc', '3806ff4781aa33d9d09b0874bef3d528dddde6ee3d3d4ac5bd5f6a8b871da570');
INSERT INTO dpxplain.log VALUES (6, '2026-11-16T13:10:14.023397+00:00', '', 'reserved', 'adult', '{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-16T13:10:14.023397+00:00","total_units":600000000000}}', '3806ff4781aa33d9d09b0874bef3d528dddde6ee3d3d4ac5bd5f6a8b871da570', '07bf88b71056d9c40b9330a570cb89164455883e6dfb6ccd9b3cd04dbec98b0c');
INSERT INTO dpxplain.log VALUES (7, '2026-11-16T13:10:14.117714+00:00', 'carol', 'allowance granted', 'adult', '{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-16T13:10:14.117714+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":"2100-01-01T00:00:00+00:00","id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-16T13:10:14.117714+00:00"},"release":{"entry":4,"sha256":"cc2cae78d2ff9451737f415ca93de80e79ba30dcf85175e049ff3c493aea3cbe"}}', '07bf88b71056d9c40b9330a570cb89164455883e6dfb6ccd9b3cd04dbec98b0c', 'a8006cad2f1bf0ff06f0d7600e0475d0f4970fa0d3feacc34a5ffe8c3fec7c4a');
INSERT INTO dpxplain.log VALUES (8, '2026-11-16T13:10:14.268150+00:00', 'carol', 'topped up', 'adult', '{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","own_units":600000000000,"request":null,"spends":[],"time":"2026-11-16T13:10:14.268150+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-16T13:10:14.268150+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}', 'a8006cad2f1bf0ff06f0d7600e0475d0f4970fa0d3feacc34a5ffe8c3fec7c4a', 'ab5b4e1d07bc05280eca244383e730fa75651fe3f1825e381c494dc9c79c8e94');
INSERT INTO dpxplain.log VALUES (9, '2026-11-16T13:10:14.412350+00:00', 'ann', 'data version opened', 'adult', '{"version":{"by":"ann","dataset":"adult","fingerprint":"d6b012d1058cae8f55511607f971c6d9e1a28c39861bf5599034f4b84c42be65","id":1,"secret_sha256":"403a059a7532e1440968992b818205a6a2aa144a20252f8f3bb66f11ccd5b7f0","time":"2026-11-16T13:10:14.412350+00:00","version":"2026-11"}}', 'ab5b4e1d07bc05280eca244383e730fa75651fe3f1825e381c494dc9c79c8e94', '2844484dff9cef805e532ecce256592e35184a1c97c489f96269115f26456feb');
INSERT INTO dpxplain.log VALUES (10, '2026-11-16T13:10:14.656282+00:00', 'ann', 'reserved', 'adult', '{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-16T13:10:14.656282+00:00","total_units":650000000000,"version":"2026-11"}}', '2844484dff9cef805e532ecce256592e35184a1c97c489f96269115f26456feb', '58bd48c94fed0da9862a4e3c8850a564874470a25c5bfbedc34b10016eb0d39b');
INSERT INTO dpxplain.log VALUES (11, '2026-11-16T13:10:14.956227+00:00', 'ann', 'released', 'adult', '{"release":{"entry":6,"sha256":"829c902747322f4e1abfd8f821775bfac605fffd8249e3ab9fa0417aadca8229"}}', '58bd48c94fed0da9862a4e3c8850a564874470a25c5bfbedc34b10016eb0d39b', 'b813d4151db48995da7ae460afd632ed32c6749b6ef70b5534eaed0505594821');
INSERT INTO dpxplain.log VALUES (12, '2026-11-16T13:10:15.232031+00:00', 'ann', 'reserved', 'adult', '{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","description":"prepare","id":7,"key":"d","kind":"prepare","own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"subject":"subject of c","time":"2026-11-16T13:10:15.232031+00:00","total_units":670000000000,"version":"2026-11"}}', 'b813d4151db48995da7ae460afd632ed32c6749b6ef70b5534eaed0505594821', 'df6271bb5dd9d1dec275f75f1b57fb76ee8f9d24b3fa0cdeb47906da8b0996a9');
INSERT INTO dpxplain.log VALUES (13, '2026-11-16T13:10:15.431318+00:00', 'ann', 'released', 'adult', '{"release":{"entry":7,"sha256":"649ddc83544abe3fe9288eabc9ad3ed9abb319ed1425e7e5eaafdc91ccbe0a3c"}}', 'df6271bb5dd9d1dec275f75f1b57fb76ee8f9d24b3fa0cdeb47906da8b0996a9', '9e4b5d6ea0fe3ebbd05e60166e36740a87a5cc95a570bdbc12e2865b585c486c');
INSERT INTO dpxplain.log VALUES (14, '2026-11-16T13:10:15.833376+00:00', 'carol', 'shared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-16T13:10:15.833376+00:00"}}', '9e4b5d6ea0fe3ebbd05e60166e36740a87a5cc95a570bdbc12e2865b585c486c', 'e620cc1fa091eb420b40772fc51c4783b5f9ae8079e1c9d43d84091de5899c10');
INSERT INTO dpxplain.log VALUES (15, '2026-11-16T13:10:16.381156+00:00', 'carol', 'shared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-16T13:10:16.381156+00:00"}}', 'e620cc1fa091eb420b40772fc51c4783b5f9ae8079e1c9d43d84091de5899c10', '48276d6b0b6ca200d50371fcb0d3a2788131516e7a1246ce8900684809b07b10');
INSERT INTO dpxplain.log VALUES (16, '2026-11-16T13:10:16.565030+00:00', 'carol', 'unshared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-16T13:10:16.565030+00:00"}}', '48276d6b0b6ca200d50371fcb0d3a2788131516e7a1246ce8900684809b07b10', '5300f1a56ab577770eafd01c2c5fa73d9e1ce3682ea239b2e9b6261e4cb9dda9');
INSERT INTO dpxplain.log VALUES (17, '2026-11-16T13:10:16.574868+00:00', 'carol', 'token created', NULL, '{"token":{"by":"carol","created":"2026-11-16T13:10:16.574868+00:00","expires":"2100-01-01T00:00:00+00:00","id":"f646da42e3a0","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"30934466f661e9983b04c1553e2e96334329f8bdb7ba7c99ef619ac545906a43"}}', '5300f1a56ab577770eafd01c2c5fa73d9e1ce3682ea239b2e9b6261e4cb9dda9', '6e92b7b33a6f51c715fc0e95cc4d1e5d13845635502a19f43ec484858b7a2c8a');
INSERT INTO dpxplain.log VALUES (18, '2026-11-16T13:10:16.637227+00:00', 'carol', 'token created', NULL, '{"token":{"by":"carol","created":"2026-11-16T13:10:16.637227+00:00","expires":"2100-01-01T00:00:00+00:00","id":"f2f79494bbec","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"eee4b3c009c27cc021aa1853d6b7a21341d7414ef6b29bf2b3b72c791a60a6ed"}}', '6e92b7b33a6f51c715fc0e95cc4d1e5d13845635502a19f43ec484858b7a2c8a', '2a2e051d8c7360c942de7d6e0e78591f825a294810e2dc1f62d1c9ffd4ec115e');
INSERT INTO dpxplain.log VALUES (19, '2026-11-16T13:10:16.810023+00:00', 'carol', 'token revoked', NULL, '{"revocation":{"by":"carol","time":"2026-11-16T13:10:16.810023+00:00","token":"f2f79494bbec"}}', '2a2e051d8c7360c942de7d6e0e78591f825a294810e2dc1f62d1c9ffd4ec115e', 'fdcd3af922ff2980cf37f3f6434024468a3de726b6c43afeb2b968274ae3cec3');
INSERT INTO dpxplain.log VALUES (20, '2026-11-16T13:10:16.860945+00:00', 'ann', 'session created', NULL, '{"token":{"by":"ann","created":"2026-11-16T13:10:16.860945+00:00","expires":"2026-11-17T01:10:16.860892+00:00","id":"ae880b8e7c52","name":"ann","parent":"f646da42e3a0","role":"analyst","secret_hash_sha256":"b82783b88783836fbb585e1bca0d39e155c46590f73516658784439284a8a5cf"}}', 'fdcd3af922ff2980cf37f3f6434024468a3de726b6c43afeb2b968274ae3cec3', '742c1aa7afb67799e521ee30dd5a01721eaf4a75f1e219734d94c9a4969a4ec9');
INSERT INTO dpxplain.log VALUES (21, '2026-11-16T13:10:16.884989+00:00', 'carol', 'schema edited', 'adult', '{"column":"age"}', '742c1aa7afb67799e521ee30dd5a01721eaf4a75f1e219734d94c9a4969a4ec9', 'b8c3cf9ee8543baf3e1d35fd501684a7ef3733a0331bf4a6c4c0c726fe2bde22');
INSERT INTO dpxplain.releases VALUES (1, '{"Zürich": 1}');
INSERT INTO dpxplain.releases VALUES (2, '{"old_limit": 1, "new_limit": 2}');
INSERT INTO dpxplain.releases VALUES (4, '{"analyst": "ann", "limit": 0.4, "expires": "2100-01-01T00:00:00+00:00", "reason": "thesis"}');
INSERT INTO dpxplain.releases VALUES (5, '{"old_limit": 2, "new_limit": 2.5, "reason": "more"}');
INSERT INTO dpxplain.releases VALUES (6, '{"age": 38}');
INSERT INTO dpxplain.releases VALUES (7, '{"marginals": []}');
INSERT INTO dpxplain.revocations VALUES ('f2f79494bbec', '2026-11-16T13:10:16.810023+00:00', 'carol');
INSERT INTO dpxplain.shares VALUES (1, 'adult', 'ann', 'ben', true, '2026-11-16T13:10:15.833376+00:00', 'together', 'carol');
INSERT INTO dpxplain.shares VALUES (2, 'adult', 'ann', '*', true, '2026-11-16T13:10:16.381156+00:00', 'all', 'carol');
INSERT INTO dpxplain.shares VALUES (3, 'adult', 'ann', '*', false, '2026-11-16T13:10:16.565030+00:00', 'not all', 'carol');
INSERT INTO dpxplain.tokens VALUES ('f646da42e3a0', 'ann', 'analyst', 'sha256$4eaf9d1e69ebace8b64e0fe5ead26b48e14793661eae49355da02857fd9e93df', '2026-11-16T13:10:16.574868+00:00', '2100-01-01T00:00:00+00:00', 'carol', NULL);
INSERT INTO dpxplain.tokens VALUES ('f2f79494bbec', 'ben', 'curator', 'sha256$1d96cc1a43b72df182b0fe26cc410a88a16da76335005691903e051424d84ad6', '2026-11-16T13:10:16.637227+00:00', '2100-01-01T00:00:00+00:00', 'carol', NULL);
INSERT INTO dpxplain.tokens VALUES ('ae880b8e7c52', 'ann', 'analyst', 'sha256$c9436df27b1503bfa87e6343a227552fd044ad14030c4ab0cab4cfff73dba4cf', '2026-11-16T13:10:16.860945+00:00', '2026-11-17T01:10:16.860892+00:00', 'ann', 'f646da42e3a0');
INSERT INTO dpxplain.turnstile VALUES (1, 5);
INSERT INTO dpxplain.versions VALUES (1, 'adult', '2026-11', '2026-11-16T13:10:14.412350+00:00', 'ann', '36903d5a64edec773190946aa0be6395a54020d493f31317f4244fe18b86cf10', 'd6b012d1058cae8f55511607f971c6d9e1a28c39861bf5599034f4b84c42be65');
SELECT pg_catalog.setval('dpxplain.entries_id_seq', 7, true);
SELECT pg_catalog.setval('dpxplain.grants_id_seq', 1, true);
SELECT pg_catalog.setval('dpxplain.limits_id_seq', 4, true);
SELECT pg_catalog.setval('dpxplain.shares_id_seq', 3, true);
SELECT pg_catalog.setval('dpxplain.turnstile_id_seq', 1, false);
SELECT pg_catalog.setval('dpxplain.versions_id_seq', 1, true);
ALTER TABLE ONLY dpxplain.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dpxplain.file_states
    ADD CONSTRAINT file_states_pkey PRIMARY KEY (version, state);
ALTER TABLE ONLY dpxplain.grants
    ADD CONSTRAINT grants_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dpxplain.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dpxplain.limits
    ADD CONSTRAINT limits_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dpxplain.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dpxplain.releases
    ADD CONSTRAINT releases_pkey PRIMARY KEY (entry);
ALTER TABLE ONLY dpxplain.revocations
    ADD CONSTRAINT revocations_pkey PRIMARY KEY (token);
ALTER TABLE ONLY dpxplain.shares
    ADD CONSTRAINT shares_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dpxplain.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dpxplain.turnstile
    ADD CONSTRAINT turnstile_pkey PRIMARY KEY (id);
ALTER TABLE ONLY dpxplain.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (id);
CREATE INDEX entries_by_analyst ON dpxplain.entries USING btree (dataset, analyst, id, charge_units, total_units, own_units);
CREATE INDEX entries_by_key ON dpxplain.entries USING btree (dataset, key, id);
CREATE INDEX entries_by_kind ON dpxplain.entries USING btree (dataset, kind, id);
CREATE INDEX entries_by_subject ON dpxplain.entries USING btree (dataset, kind, subject);
CREATE INDEX entries_in_order ON dpxplain.entries USING btree (dataset, id);
CREATE INDEX grants_by_analyst ON dpxplain.grants USING btree (dataset, analyst, id);
CREATE INDEX limits_by_dataset ON dpxplain.limits USING btree (dataset, id);
CREATE INDEX log_by_action ON dpxplain.log USING btree (dataset, action, id);
CREATE INDEX shares_by_reader ON dpxplain.shares USING btree (dataset, reader, id);
CREATE UNIQUE INDEX versions_by_name ON dpxplain.versions USING btree (dataset, version);
CREATE TRIGGER entries_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.entries FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER grants_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.grants FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER limits_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.limits FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER log_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.log FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER releases_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.releases FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER revocations_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.revocations FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER shares_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.shares FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER tokens_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.tokens FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER versions_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.versions FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
ALTER TABLE ONLY dpxplain.file_states
    ADD CONSTRAINT file_states_version_fkey FOREIGN KEY (version) REFERENCES dpxplain.versions(id);
ALTER TABLE ONLY dpxplain.jobs
    ADD CONSTRAINT jobs_entry_fkey FOREIGN KEY (entry) REFERENCES dpxplain.entries(id);
ALTER TABLE ONLY dpxplain.releases
    ADD CONSTRAINT releases_entry_fkey FOREIGN KEY (entry) REFERENCES dpxplain.entries(id);
ALTER TABLE ONLY dpxplain.revocations
    ADD CONSTRAINT revocations_token_fkey FOREIGN KEY (token) REFERENCES dpxplain.tokens(id);
ALTER TABLE ONLY dpxplain.tokens
    ADD CONSTRAINT tokens_parent_fkey FOREIGN KEY (parent) REFERENCES dpxplain.tokens(id);
