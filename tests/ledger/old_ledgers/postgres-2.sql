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
INSERT INTO dpxplain.entries VALUES (1, 'adult', '', '2026-11-16T07:09:12.633974+00:00', 'query', 'a', 'SELECT COUNT(*) FROM adult', 100000000000, 100000000000, 100000000000, '[["gaussian",0.1]]', NULL);
INSERT INTO dpxplain.entries VALUES (2, 'adult', '', '2026-11-16T07:09:12.723417+00:00', 'limit', '', 'limit changed from rho 1 to rho 2', 0, 100000000000, 100000000000, '[]', NULL);
INSERT INTO dpxplain.entries VALUES (3, 'adult', '', '2026-11-16T07:09:12.761080+00:00', 'explain', 'b', 'why', 500000000000, 600000000000, 600000000000, '[["top-k",0.25],["gaussian",0.25]]', NULL);
INSERT INTO dpxplain.entries VALUES (4, 'adult', 'ann', '2026-11-16T07:09:12.787097+00:00', 'grant', '', 'allowance set to rho 0.4: thesis', 0, 600000000000, 0, '[]', NULL);
INSERT INTO dpxplain.entries VALUES (5, 'adult', '', '2026-11-16T07:09:12.843774+00:00', 'top-up', '', 'limit raised to rho 2.5: more', 0, 600000000000, 600000000000, '[]', NULL);
INSERT INTO dpxplain.entries VALUES (6, 'adult', 'ann', '2026-11-16T07:09:12.899322+00:00', 'query', 'c', 'SELECT AVG(age) FROM adult', 50000000000, 650000000000, 50000000000, '[["gaussian",0.05]]', '{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}');
INSERT INTO dpxplain.entries VALUES (7, 'adult', 'ann', '2026-11-16T07:09:12.964157+00:00', 'prepare', 'd', 'prepare', 20000000000, 670000000000, 70000000000, '[["gaussian",0.02]]', '{"prepare":{"rho":0.02}}');
INSERT INTO dpxplain.grants VALUES (1, 'adult', 'ann', '2026-11-16T07:09:12.787097+00:00', 400000000000, '2100-01-01T00:00:00+00:00', 'thesis', 'carol');
INSERT INTO dpxplain.jobs VALUES ('job', 'adult', 'ann', 'explain', '{"k":5}', 'done', 'ready', NULL, 7, false, '2026-11-16T07:09:14.416532+00:00', '2026-11-16T07:09:14.445893+00:00');
INSERT INTO dpxplain.limits VALUES (1, 'adult', '2026-11-16T07:09:12.516119+00:00', 1000000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (2, 'census', '2026-11-16T07:09:12.577285+00:00', 500000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (3, 'adult', '2026-11-16T07:09:12.723417+00:00', 2000000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (4, 'adult', '2026-11-16T07:09:12.843774+00:00', 2000000000000, 500000000000, 1e-06, 'more', 'carol');
INSERT INTO dpxplain.log VALUES (1, '2026-11-16T07:09:12.516119+00:00', '', 'data set opened', 'adult', '{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-16T07:09:12.516119+00:00","top_up_units":0}}', '0000000000000000000000000000000000000000000000000000000000000000', 'af6169270369bdd5adc172496bd5928f1cd1eb15c056e4921c6ad3cddd7e3e0d');
INSERT INTO dpxplain.log VALUES (2, '2026-11-16T07:09:12.577285+00:00', '', 'data set opened', 'census', '{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-16T07:09:12.577285+00:00","top_up_units":0}}', 'af6169270369bdd5adc172496bd5928f1cd1eb15c056e4921c6ad3cddd7e3e0d', 'e5bb17e7e06a5373b125d2a7ca2df59f87589cd665a6f07f140daa8ad89b99a6');
INSERT INTO dpxplain.log VALUES (3, '2026-11-16T07:09:12.633974+00:00', '', 'reserved', 'adult', '{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-16T07:09:12.633974+00:00","total_units":100000000000}}', 'e5bb17e7e06a5373b125d2a7ca2df59f87589cd665a6f07f140daa8ad89b99a6', '6c8f230eb9f3bdbe29c22e4b2a18441538c5786f9a0b143d6291c308b6cdd67c');
INSERT INTO dpxplain.log VALUES (4, '2026-11-16T07:09:12.699286+00:00', '', 'released', 'adult', '{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}', '6c8f230eb9f3bdbe29c22e4b2a18441538c5786f9a0b143d6291c308b6cdd67c', '47173ac73fcff1c296f6b617aebb50729c2ec5b7925a9a7a59af9405927dc1a9');
INSERT INTO dpxplain.log VALUES (5, '2026-11-16T07:09:12.723417+00:00', '', 'limit changed', 'adult', '{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","own_units":100000000000,"request":null,"spends":[],"time":"2026-11-16T07:09:12.723417+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-16T07:09:12.723417+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}', '47173ac73fcff1c296f6b617aebb50729c2ec5b7925a9a7a59af9405927dc1a9', '8c2aa54f348410b000b217bece45fc46b8fb105f61856ae1eaefe2edbb3fc8f9');
INSERT INTO dpxplain.log VALUES (6, '2026-11-16T07:09:12.761080+00:00', '', 'reserved', 'adult', '{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-16T07:09:12.761080+00:00","total_units":600000000000}}', '8c2aa54f348410b000b217bece45fc46b8fb105f61856ae1eaefe2edbb3fc8f9', '66985300df8c4fb6ba3b0a431afd14dab049691824e730df4292519908e31f50');
INSERT INTO dpxplain.log VALUES (7, '2026-11-16T07:09:12.787097+00:00', 'carol', 'allowance granted', 'adult', '{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-16T07:09:12.787097+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":"2100-01-01T00:00:00+00:00","id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-16T07:09:12.787097+00:00"},"release":{"entry":4,"sha256":"cc2cae78d2ff9451737f415ca93de80e79ba30dcf85175e049ff3c493aea3cbe"}}', '66985300df8c4fb6ba3b0a431afd14dab049691824e730df4292519908e31f50', '74adb98eaaec2c705683a12df0709008660d507210bbb1b6e92eea1facf29e7a');
INSERT INTO dpxplain.log VALUES (8, '2026-11-16T07:09:12.843774+00:00', 'carol', 'topped up', 'adult', '{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","own_units":600000000000,"request":null,"spends":[],"time":"2026-11-16T07:09:12.843774+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-16T07:09:12.843774+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}', '74adb98eaaec2c705683a12df0709008660d507210bbb1b6e92eea1facf29e7a', '632785cefd3822d1745e288db590c9a4fa43ec9fa45a9902387057e172db83c0');
INSERT INTO dpxplain.log VALUES (9, '2026-11-16T07:09:12.899322+00:00', 'ann', 'reserved', 'adult', '{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-16T07:09:12.899322+00:00","total_units":650000000000}}', '632785cefd3822d1745e288db590c9a4fa43ec9fa45a9902387057e172db83c0', '73f2fb47b61f3119d41dc461edf0d3c3bf9bbbef8a58dfa1621a92330f05adca');
INSERT INTO dpxplain.log VALUES (10, '2026-11-16T07:09:12.943512+00:00', 'ann', 'released', 'adult', '{"release":{"entry":6,"sha256":"829c902747322f4e1abfd8f821775bfac605fffd8249e3ab9fa0417aadca8229"}}', '73f2fb47b61f3119d41dc461edf0d3c3bf9bbbef8a58dfa1621a92330f05adca', 'ef04b72344784dc6f3e8eb24c486093b91d965abe23b7d2a9e12c3276289cdfb');
INSERT INTO dpxplain.log VALUES (11, '2026-11-16T07:09:12.964157+00:00', 'ann', 'reserved', 'adult', '{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","description":"prepare","id":7,"key":"d","kind":"prepare","own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"time":"2026-11-16T07:09:12.964157+00:00","total_units":670000000000}}', 'ef04b72344784dc6f3e8eb24c486093b91d965abe23b7d2a9e12c3276289cdfb', '5f7484ef50c5032dad4e80d97b71516c6a1431a5af5190c118093f37c0536c04');
INSERT INTO dpxplain.log VALUES (12, '2026-11-16T07:09:12.988696+00:00', 'ann', 'released', 'adult', '{"release":{"entry":7,"sha256":"649ddc83544abe3fe9288eabc9ad3ed9abb319ed1425e7e5eaafdc91ccbe0a3c"}}', '5f7484ef50c5032dad4e80d97b71516c6a1431a5af5190c118093f37c0536c04', '933e0c1ee1a3c399312e8d02a2ebf63f5f04e0be9d19996c5634b42b39ef8500');
INSERT INTO dpxplain.log VALUES (13, '2026-11-16T07:09:13.015534+00:00', 'carol', 'shared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-16T07:09:13.015534+00:00"}}', '933e0c1ee1a3c399312e8d02a2ebf63f5f04e0be9d19996c5634b42b39ef8500', '0c169337f67518af596e31a1c9785f1df3ec79c40f28e242dce5bc466c9cb8ef');
INSERT INTO dpxplain.log VALUES (14, '2026-11-16T07:09:13.051407+00:00', 'carol', 'shared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-16T07:09:13.051407+00:00"}}', '0c169337f67518af596e31a1c9785f1df3ec79c40f28e242dce5bc466c9cb8ef', '3d8e33bba39a85ce8c40ad3a8cc1efc948027cd139b6b7999e426238ff1201d4');
INSERT INTO dpxplain.log VALUES (15, '2026-11-16T07:09:13.086675+00:00', 'carol', 'unshared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-16T07:09:13.086675+00:00"}}', '3d8e33bba39a85ce8c40ad3a8cc1efc948027cd139b6b7999e426238ff1201d4', '97302e79610c73032cedf86c723fbe3ef19637d6e783d65de7cea3d9426988e6');
INSERT INTO dpxplain.log VALUES (16, '2026-11-16T07:09:13.103372+00:00', 'carol', 'token created', NULL, '{"token":{"by":"carol","created":"2026-11-16T07:09:13.103372+00:00","expires":"2100-01-01T00:00:00+00:00","id":"32b1c7f5c19f","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"9e51b24ec58d17d32522ddf8c6c4863209f6db222dc155c1119abadb004a6f0d"}}', '97302e79610c73032cedf86c723fbe3ef19637d6e783d65de7cea3d9426988e6', '329facd8a071e776ff29a4f32fa08d573ebde9148cbbde4e9dc856c1157bb484');
INSERT INTO dpxplain.log VALUES (17, '2026-11-16T07:09:13.643860+00:00', 'carol', 'token created', NULL, '{"token":{"by":"carol","created":"2026-11-16T07:09:13.643860+00:00","expires":"2100-01-01T00:00:00+00:00","id":"d66f5da1c12b","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"70f4fcb00f65d3d055b71f6dc582bde0f2b7f4dfbe34faf6e199bf460e94bb84"}}', '329facd8a071e776ff29a4f32fa08d573ebde9148cbbde4e9dc856c1157bb484', '82f37c9e6a9f860f8e587d023bcd4639dac51c0332b6b023fe5d19400980393a');
INSERT INTO dpxplain.log VALUES (18, '2026-11-16T07:09:14.151357+00:00', 'carol', 'token revoked', NULL, '{"revocation":{"by":"carol","time":"2026-11-16T07:09:14.151357+00:00","token":"d66f5da1c12b"}}', '82f37c9e6a9f860f8e587d023bcd4639dac51c0332b6b023fe5d19400980393a', '1c7e86233544f194440387bae3402c1425bcf75389d6a5ca694a5b2faa29361c');
INSERT INTO dpxplain.log VALUES (19, '2026-11-16T07:09:14.179432+00:00', 'ann', 'session created', NULL, '{"token":{"by":"ann","created":"2026-11-16T07:09:14.179432+00:00","expires":"2026-11-16T19:09:14.179396+00:00","id":"e1b60927bd20","name":"ann","parent":"32b1c7f5c19f","role":"analyst","secret_hash_sha256":"ab4c04c15d03ac44a145ed5694fd6b740974d38c540bdeb5a97a66a59929cdd5"}}', '1c7e86233544f194440387bae3402c1425bcf75389d6a5ca694a5b2faa29361c', 'e8500c3ded324cf37aa0f3cef2e3cb5d0278f35522a648b9f59861980fb2b2b3');
INSERT INTO dpxplain.log VALUES (20, '2026-11-16T07:09:14.396662+00:00', 'carol', 'schema edited', 'adult', '{"column":"age"}', 'e8500c3ded324cf37aa0f3cef2e3cb5d0278f35522a648b9f59861980fb2b2b3', 'd59a683fbaf411f06dca8d0caeda7503673c09714d53bd5434d7911b1a9a7b50');
INSERT INTO dpxplain.releases VALUES (1, '{"Zürich": 1}');
INSERT INTO dpxplain.releases VALUES (2, '{"old_limit": 1, "new_limit": 2}');
INSERT INTO dpxplain.releases VALUES (4, '{"analyst": "ann", "limit": 0.4, "expires": "2100-01-01T00:00:00+00:00", "reason": "thesis"}');
INSERT INTO dpxplain.releases VALUES (5, '{"old_limit": 2, "new_limit": 2.5, "reason": "more"}');
INSERT INTO dpxplain.releases VALUES (6, '{"age": 38}');
INSERT INTO dpxplain.releases VALUES (7, '{"marginals": []}');
INSERT INTO dpxplain.revocations VALUES ('d66f5da1c12b', '2026-11-16T07:09:14.151357+00:00', 'carol');
INSERT INTO dpxplain.shares VALUES (1, 'adult', 'ann', 'ben', true, '2026-11-16T07:09:13.015534+00:00', 'together', 'carol');
INSERT INTO dpxplain.shares VALUES (2, 'adult', 'ann', '*', true, '2026-11-16T07:09:13.051407+00:00', 'all', 'carol');
INSERT INTO dpxplain.shares VALUES (3, 'adult', 'ann', '*', false, '2026-11-16T07:09:13.086675+00:00', 'not all', 'carol');
INSERT INTO dpxplain.tokens VALUES ('32b1c7f5c19f', 'ann', 'analyst', 'scrypt-16384-8-1$54b3813a78c432ee57fa0d07d6e4e4c2$03e7e88c56268ea902009859ab1fb9dae7185fc2a9a1753f1a633a9a012d4c1d3f8b1c9d0f99488e9cf3f91a65abaf5201593af59bd0d485a2f3c7a524aec93e', '2026-11-16T07:09:13.103372+00:00', '2100-01-01T00:00:00+00:00', 'carol', NULL);
INSERT INTO dpxplain.tokens VALUES ('d66f5da1c12b', 'ben', 'curator', 'scrypt-16384-8-1$fffebf7a20d719e744990364545fe52f$5fbfb06acd7ecc27730d0d2fb3a770790c1fda6cf17b60d0e163d63d59e4eaaab67fe6a7ba2819c779a5ea8fbf8e9b0811c9a84b6bda768b03c26172005ec96c', '2026-11-16T07:09:13.643860+00:00', '2100-01-01T00:00:00+00:00', 'carol', NULL);
INSERT INTO dpxplain.tokens VALUES ('e1b60927bd20', 'ann', 'analyst', 'scrypt-16384-8-1$af8a141ba7baea05a226b989be6af26d$07d847aa7480f320cb3507d95c3606235807a2388142bd77ae4bb7bcbc5fb5654535c26baa93f5d651015c64f1e799a6f22360906284762740f101f0d330d16a', '2026-11-16T07:09:14.179432+00:00', '2026-11-16T19:09:14.179396+00:00', 'ann', '32b1c7f5c19f');
INSERT INTO dpxplain.turnstile VALUES (1, 2);
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
CREATE INDEX entries_in_order ON dpxplain.entries USING btree (dataset, id);
CREATE INDEX grants_by_analyst ON dpxplain.grants USING btree (dataset, analyst, id);
CREATE INDEX limits_by_dataset ON dpxplain.limits USING btree (dataset, id);
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
