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
    CONSTRAINT entries_charge_units_check CHECK ((charge_units >= 0))
);
CREATE SEQUENCE dpxplain.entries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE dpxplain.entries_id_seq OWNED BY dpxplain.entries.id;
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
ALTER TABLE ONLY dpxplain.entries ALTER COLUMN id SET DEFAULT nextval('dpxplain.entries_id_seq'::regclass);
ALTER TABLE ONLY dpxplain.grants ALTER COLUMN id SET DEFAULT nextval('dpxplain.grants_id_seq'::regclass);
ALTER TABLE ONLY dpxplain.limits ALTER COLUMN id SET DEFAULT nextval('dpxplain.limits_id_seq'::regclass);
ALTER TABLE ONLY dpxplain.shares ALTER COLUMN id SET DEFAULT nextval('dpxplain.shares_id_seq'::regclass);
ALTER TABLE ONLY dpxplain.turnstile ALTER COLUMN id SET DEFAULT nextval('dpxplain.turnstile_id_seq'::regclass);
INSERT INTO dpxplain.entries VALUES (1, 'adult', '', '2026-11-16T10:42:51.016556+00:00', 'query', 'a', 'SELECT COUNT(*) FROM adult', 100000000000, 100000000000, 100000000000, '[["gaussian",0.1]]', NULL, NULL);
INSERT INTO dpxplain.entries VALUES (2, 'adult', '', '2026-11-16T10:42:51.030351+00:00', 'limit', '', 'limit changed from rho 1 to rho 2', 0, 100000000000, 100000000000, '[]', NULL, NULL);
INSERT INTO dpxplain.entries VALUES (3, 'adult', '', '2026-11-16T10:42:51.036200+00:00', 'explain', 'b', 'why', 500000000000, 600000000000, 600000000000, '[["top-k",0.25],["gaussian",0.25]]', NULL, NULL);
INSERT INTO dpxplain.entries VALUES (4, 'adult', 'ann', '2026-11-16T10:42:51.039629+00:00', 'grant', '', 'allowance set to rho 0.4: thesis', 0, 600000000000, 0, '[]', NULL, NULL);
INSERT INTO dpxplain.entries VALUES (5, 'adult', '', '2026-11-16T10:42:51.046164+00:00', 'top-up', '', 'limit raised to rho 2.5: more', 0, 600000000000, 600000000000, '[]', NULL, NULL);
INSERT INTO dpxplain.entries VALUES (6, 'adult', 'ann', '2026-11-16T10:42:51.055685+00:00', 'query', 'c', 'SELECT AVG(age) FROM adult', 50000000000, 650000000000, 50000000000, '[["gaussian",0.05]]', '{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}', NULL);
INSERT INTO dpxplain.entries VALUES (7, 'adult', 'ann', '2026-11-16T10:42:51.065355+00:00', 'prepare', 'd', 'prepare', 20000000000, 670000000000, 70000000000, '[["gaussian",0.02]]', '{"prepare":{"rho":0.02}}', 'subject of c');
INSERT INTO dpxplain.grants VALUES (1, 'adult', 'ann', '2026-11-16T10:42:51.039629+00:00', 400000000000, '2100-01-01T00:00:00+00:00', 'thesis', 'carol');
INSERT INTO dpxplain.jobs VALUES ('job', 'adult', 'ann', 'explain', '{"k":5}', 'done', 'ready', NULL, 7, false, '2026-11-16T10:42:51.107560+00:00', '2026-11-16T10:42:51.112329+00:00');
INSERT INTO dpxplain.limits VALUES (1, 'adult', '2026-11-16T10:42:50.997849+00:00', 1000000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (2, 'census', '2026-11-16T10:42:51.006972+00:00', 500000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (3, 'adult', '2026-11-16T10:42:51.030351+00:00', 2000000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (4, 'adult', '2026-11-16T10:42:51.046164+00:00', 2000000000000, 500000000000, 1e-06, 'more', 'carol');
INSERT INTO dpxplain.log VALUES (1, '2026-11-16T10:42:50.997849+00:00', '', 'data set opened', 'adult', '{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-16T10:42:50.997849+00:00","top_up_units":0}}', '0000000000000000000000000000000000000000000000000000000000000000', 'ee6cbaf240336a5026172a4216023a5692c813795c08c0dfac5bdafdf26a98af');
INSERT INTO dpxplain.log VALUES (2, '2026-11-16T10:42:51.006972+00:00', '', 'data set opened', 'census', '{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-16T10:42:51.006972+00:00","top_up_units":0}}', 'ee6cbaf240336a5026172a4216023a5692c813795c08c0dfac5bdafdf26a98af', 'ecb6c1de5d6db30e77406b82cf6bbfcd390363da619298935494f0e9d35249c8');
INSERT INTO dpxplain.log VALUES (3, '2026-11-16T10:42:51.016556+00:00', '', 'reserved', 'adult', '{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-16T10:42:51.016556+00:00","total_units":100000000000}}', 'ecb6c1de5d6db30e77406b82cf6bbfcd390363da619298935494f0e9d35249c8', 'e50a6461119fbcc43a815f2e6b951a0649395f0d9b0e49279ded3f1de5e730b8');
INSERT INTO dpxplain.log VALUES (4, '2026-11-16T10:42:51.026929+00:00', '', 'released', 'adult', '{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}', 'e50a6461119fbcc43a815f2e6b951a0649395f0d9b0e49279ded3f1de5e730b8', '73ace91ea0b7e0bff1387ccb4884def57775f406a70f3a2ee1999edf3f03811a');
INSERT INTO dpxplain.log VALUES (5, '2026-11-16T10:42:51.030351+00:00', '', 'limit changed', 'adult', '{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","own_units":100000000000,"request":null,"spends":[],"time":"2026-11-16T10:42:51.030351+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-16T10:42:51.030351+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}', '73ace91ea0b7e0bff1387ccb4884def57775f406a70f3a2ee1999edf3f03811a', '32c2ca87a36642fb4bb426c9006828e63ccfaab2399c3d36ed80688c447cb2d1');
INSERT INTO dpxplain.log VALUES (6, '2026-11-16T10:42:51.036200+00:00', '', 'reserved', 'adult', '{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-16T10:42:51.036200+00:00","total_units":600000000000}}', '32c2ca87a36642fb4bb426c9006828e63ccfaab2399c3d36ed80688c447cb2d1', '3b81b9431d6877cb081f66e1b11087f54749060623c651709fe875bb19dec832');
INSERT INTO dpxplain.log VALUES (7, '2026-11-16T10:42:51.039629+00:00', 'carol', 'allowance granted', 'adult', '{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-16T10:42:51.039629+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":"2100-01-01T00:00:00+00:00","id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-16T10:42:51.039629+00:00"},"release":{"entry":4,"sha256":"cc2cae78d2ff9451737f415ca93de80e79ba30dcf85175e049ff3c493aea3cbe"}}', '3b81b9431d6877cb081f66e1b11087f54749060623c651709fe875bb19dec832', '1927a4362d9a93a71533e496c72bc64113e8abb1f51cf5c056de1bf0062bbbf6');
INSERT INTO dpxplain.log VALUES (8, '2026-11-16T10:42:51.046164+00:00', 'carol', 'topped up', 'adult', '{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","own_units":600000000000,"request":null,"spends":[],"time":"2026-11-16T10:42:51.046164+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-16T10:42:51.046164+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}', '1927a4362d9a93a71533e496c72bc64113e8abb1f51cf5c056de1bf0062bbbf6', 'a4b17d575a6cdc3f9a02b761a1622ed547f9b8067223ba24e8310775af789ad9');
INSERT INTO dpxplain.log VALUES (9, '2026-11-16T10:42:51.055685+00:00', 'ann', 'reserved', 'adult', '{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-16T10:42:51.055685+00:00","total_units":650000000000}}', 'a4b17d575a6cdc3f9a02b761a1622ed547f9b8067223ba24e8310775af789ad9', 'b5da9814a8c658bc45be42a105de22a96a08bbe597be4754aa3ca8fa2493ccfc');
INSERT INTO dpxplain.log VALUES (10, '2026-11-16T10:42:51.062368+00:00', 'ann', 'released', 'adult', '{"release":{"entry":6,"sha256":"829c902747322f4e1abfd8f821775bfac605fffd8249e3ab9fa0417aadca8229"}}', 'b5da9814a8c658bc45be42a105de22a96a08bbe597be4754aa3ca8fa2493ccfc', '84231c72207a128c74810056b20799434e348e41e18f5f51e1e51e4dcb0f24bd');
INSERT INTO dpxplain.log VALUES (11, '2026-11-16T10:42:51.065355+00:00', 'ann', 'reserved', 'adult', '{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","description":"prepare","id":7,"key":"d","kind":"prepare","own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"subject":"subject of c","time":"2026-11-16T10:42:51.065355+00:00","total_units":670000000000}}', '84231c72207a128c74810056b20799434e348e41e18f5f51e1e51e4dcb0f24bd', 'a2210b9f92f7ded34d4c23909d45ca806800ffb8605e7794dc84360bf5ca127c');
INSERT INTO dpxplain.log VALUES (12, '2026-11-16T10:42:51.070983+00:00', 'ann', 'released', 'adult', '{"release":{"entry":7,"sha256":"649ddc83544abe3fe9288eabc9ad3ed9abb319ed1425e7e5eaafdc91ccbe0a3c"}}', 'a2210b9f92f7ded34d4c23909d45ca806800ffb8605e7794dc84360bf5ca127c', 'a9b60ff894d8e61e0f76bfed7a1f19e22f35dc780e9f4286bbdfeea6838907ac');
INSERT INTO dpxplain.log VALUES (13, '2026-11-16T10:42:51.074156+00:00', 'carol', 'shared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-16T10:42:51.074156+00:00"}}', 'a9b60ff894d8e61e0f76bfed7a1f19e22f35dc780e9f4286bbdfeea6838907ac', 'eb69d6c68c388aa5f83d53f8688ce5bb1f1e06166dddaf538777e2ed76583aa7');
INSERT INTO dpxplain.log VALUES (14, '2026-11-16T10:42:51.078131+00:00', 'carol', 'shared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-16T10:42:51.078131+00:00"}}', 'eb69d6c68c388aa5f83d53f8688ce5bb1f1e06166dddaf538777e2ed76583aa7', '596e4347ba91f522cb09a2f13c2fc037dbea4cb7a59f01d857a44e3a60012339');
INSERT INTO dpxplain.log VALUES (15, '2026-11-16T10:42:51.081547+00:00', 'carol', 'unshared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-16T10:42:51.081547+00:00"}}', '596e4347ba91f522cb09a2f13c2fc037dbea4cb7a59f01d857a44e3a60012339', '131b03a8c18332bfce4c63f6a98823e25746dcfb3e9ef2667611dbc65de54a83');
INSERT INTO dpxplain.log VALUES (16, '2026-11-16T10:42:51.082938+00:00', 'carol', 'token created', NULL, '{"token":{"by":"carol","created":"2026-11-16T10:42:51.082938+00:00","expires":"2100-01-01T00:00:00+00:00","id":"44c47648adf3","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"884d0f6206df3459756608cb68aa014d8797a54a3e3909fba4493bc91b313555"}}', '131b03a8c18332bfce4c63f6a98823e25746dcfb3e9ef2667611dbc65de54a83', '5136add92f044e774a077f7c69168e7f9617b401e20c8e676370a234286d5032');
INSERT INTO dpxplain.log VALUES (17, '2026-11-16T10:42:51.086865+00:00', 'carol', 'token created', NULL, '{"token":{"by":"carol","created":"2026-11-16T10:42:51.086865+00:00","expires":"2100-01-01T00:00:00+00:00","id":"14b30898ea4d","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"6a93fc3e2e4918bb610356f1033ede767c7e10eca0a3e3de578817b702eeffce"}}', '5136add92f044e774a077f7c69168e7f9617b401e20c8e676370a234286d5032', '45be73c0fcb87b5ab7c5bd40ed53d517b0f65b60078057b32494aec935d04d21');
INSERT INTO dpxplain.log VALUES (18, '2026-11-16T10:42:51.096597+00:00', 'carol', 'token revoked', NULL, '{"revocation":{"by":"carol","time":"2026-11-16T10:42:51.096597+00:00","token":"14b30898ea4d"}}', '45be73c0fcb87b5ab7c5bd40ed53d517b0f65b60078057b32494aec935d04d21', '2aa9c5b358d528795b6d52e314f874d726fad585d81461470fd1e0d8976abe06');
INSERT INTO dpxplain.log VALUES (19, '2026-11-16T10:42:51.103325+00:00', 'ann', 'session created', NULL, '{"token":{"by":"ann","created":"2026-11-16T10:42:51.103325+00:00","expires":"2026-11-16T22:42:51.103286+00:00","id":"43cceb2e3f37","name":"ann","parent":"44c47648adf3","role":"analyst","secret_hash_sha256":"dc61645aaa3a5102b4cdf7cbffac1e283853290dc33a73109f037830f4d87444"}}', '2aa9c5b358d528795b6d52e314f874d726fad585d81461470fd1e0d8976abe06', '5e8e7490ff8cc6aa3b97e950bebee0fa96b325148cad5baf2328147c42737bd2');
INSERT INTO dpxplain.log VALUES (20, '2026-11-16T10:42:51.106871+00:00', 'carol', 'schema edited', 'adult', '{"column":"age"}', '5e8e7490ff8cc6aa3b97e950bebee0fa96b325148cad5baf2328147c42737bd2', '54ba66b10b8d3dab1c86b934dc64f714c9fb8305011cb0f578626a68ef637564');
INSERT INTO dpxplain.releases VALUES (1, '{"Zürich": 1}');
INSERT INTO dpxplain.releases VALUES (2, '{"old_limit": 1, "new_limit": 2}');
INSERT INTO dpxplain.releases VALUES (4, '{"analyst": "ann", "limit": 0.4, "expires": "2100-01-01T00:00:00+00:00", "reason": "thesis"}');
INSERT INTO dpxplain.releases VALUES (5, '{"old_limit": 2, "new_limit": 2.5, "reason": "more"}');
INSERT INTO dpxplain.releases VALUES (6, '{"age": 38}');
INSERT INTO dpxplain.releases VALUES (7, '{"marginals": []}');
INSERT INTO dpxplain.revocations VALUES ('14b30898ea4d', '2026-11-16T10:42:51.096597+00:00', 'carol');
INSERT INTO dpxplain.shares VALUES (1, 'adult', 'ann', 'ben', true, '2026-11-16T10:42:51.074156+00:00', 'together', 'carol');
INSERT INTO dpxplain.shares VALUES (2, 'adult', 'ann', '*', true, '2026-11-16T10:42:51.078131+00:00', 'all', 'carol');
INSERT INTO dpxplain.shares VALUES (3, 'adult', 'ann', '*', false, '2026-11-16T10:42:51.081547+00:00', 'not all', 'carol');
INSERT INTO dpxplain.tokens VALUES ('44c47648adf3', 'ann', 'analyst', 'sha256$595a2999dbd6a66a1792087ec1cb9c43efc9bb05b2b3ecfc22a24fcca3dbdc43', '2026-11-16T10:42:51.082938+00:00', '2100-01-01T00:00:00+00:00', 'carol', NULL);
INSERT INTO dpxplain.tokens VALUES ('14b30898ea4d', 'ben', 'curator', 'sha256$0bbf29c07867e33e068b83fc1129ae3b233b2dd7bf76d4dd488ba1ad6ea03a8b', '2026-11-16T10:42:51.086865+00:00', '2100-01-01T00:00:00+00:00', 'carol', NULL);
INSERT INTO dpxplain.tokens VALUES ('43cceb2e3f37', 'ann', 'analyst', 'sha256$adc6d9caa3cddd0120b44c7469ad25bfcfc68d4b58cfc62d38d4c5340ca0d35a', '2026-11-16T10:42:51.103325+00:00', '2026-11-16T22:42:51.103286+00:00', 'ann', '44c47648adf3');
INSERT INTO dpxplain.turnstile VALUES (1, 4);
SELECT pg_catalog.setval('dpxplain.entries_id_seq', 7, true);
SELECT pg_catalog.setval('dpxplain.grants_id_seq', 1, true);
SELECT pg_catalog.setval('dpxplain.limits_id_seq', 4, true);
SELECT pg_catalog.setval('dpxplain.shares_id_seq', 3, true);
SELECT pg_catalog.setval('dpxplain.turnstile_id_seq', 1, false);
ALTER TABLE ONLY dpxplain.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (id);
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
CREATE INDEX entries_by_analyst ON dpxplain.entries USING btree (dataset, analyst, id, charge_units, total_units, own_units);
CREATE INDEX entries_by_key ON dpxplain.entries USING btree (dataset, key, id);
CREATE INDEX entries_by_kind ON dpxplain.entries USING btree (dataset, kind, id);
CREATE INDEX entries_by_subject ON dpxplain.entries USING btree (dataset, kind, subject);
CREATE INDEX entries_in_order ON dpxplain.entries USING btree (dataset, id);
CREATE INDEX grants_by_analyst ON dpxplain.grants USING btree (dataset, analyst, id);
CREATE INDEX limits_by_dataset ON dpxplain.limits USING btree (dataset, id);
CREATE INDEX log_by_action ON dpxplain.log USING btree (dataset, action, id);
CREATE INDEX shares_by_reader ON dpxplain.shares USING btree (dataset, reader, id);
CREATE TRIGGER entries_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.entries FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER grants_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.grants FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER limits_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.limits FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER log_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.log FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER releases_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.releases FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER revocations_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.revocations FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER shares_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.shares FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
CREATE TRIGGER tokens_keeps_its_rows BEFORE DELETE OR UPDATE OR TRUNCATE ON dpxplain.tokens FOR EACH STATEMENT EXECUTE FUNCTION dpxplain.refuse_change();
ALTER TABLE ONLY dpxplain.jobs
    ADD CONSTRAINT jobs_entry_fkey FOREIGN KEY (entry) REFERENCES dpxplain.entries(id);
ALTER TABLE ONLY dpxplain.releases
    ADD CONSTRAINT releases_entry_fkey FOREIGN KEY (entry) REFERENCES dpxplain.entries(id);
ALTER TABLE ONLY dpxplain.revocations
    ADD CONSTRAINT revocations_token_fkey FOREIGN KEY (token) REFERENCES dpxplain.tokens(id);
ALTER TABLE ONLY dpxplain.tokens
    ADD CONSTRAINT tokens_parent_fkey FOREIGN KEY (parent) REFERENCES dpxplain.tokens(id);
