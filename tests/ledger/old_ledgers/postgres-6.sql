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
    declarations text,
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

CREATE TABLE dpxplain.flights (
    dataset text NOT NULL,
    analyst text NOT NULL,
    key text NOT NULL,
    entry bigint NOT NULL,
    heard text NOT NULL
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

CREATE TABLE dpxplain.processes (
    id text NOT NULL,
    heard text NOT NULL
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

CREATE TABLE dpxplain.sessions (
    id text NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    secret_hash text NOT NULL,
    created text NOT NULL,
    expires text NOT NULL,
    token text
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
    parent text,
    maker text
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

INSERT INTO dpxplain.entries VALUES (1, 'adult', '', '2026-11-16T16:56:47.386363+00:00', 'query', 'a', 'SELECT COUNT(*) FROM adult', 100000000000, 100000000000, 100000000000, '[["gaussian",0.1]]', NULL, NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (2, 'adult', '', '2026-11-16T16:56:47.433196+00:00', 'limit', '', 'limit changed from rho 1 to rho 2', 0, 100000000000, 100000000000, '[]', NULL, NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (3, 'adult', '', '2026-11-16T16:56:47.450244+00:00', 'explain', 'b', 'why', 500000000000, 600000000000, 600000000000, '[["top-k",0.25],["gaussian",0.25]]', NULL, NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (4, 'adult', 'ann', '2026-11-16T16:56:47.463805+00:00', 'grant', '', 'allowance set to rho 0.4: thesis', 0, 600000000000, 0, '[]', NULL, NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (5, 'adult', '', '2026-11-16T16:56:47.484428+00:00', 'top-up', '', 'limit raised to rho 2.5: more', 0, 600000000000, 600000000000, '[]', NULL, NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (6, 'adult', 'ann', '2026-11-16T16:56:47.520441+00:00', 'query', 'c', 'SELECT AVG(age) FROM adult', 50000000000, 650000000000, 50000000000, '[["gaussian",0.05]]', '{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}', NULL, '2026-11', 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff');
INSERT INTO dpxplain.entries VALUES (7, 'adult', 'ann', '2026-11-16T16:56:47.547748+00:00', 'prepare', 'd', 'prepare', 20000000000, 670000000000, 70000000000, '[["gaussian",0.02]]', '{"prepare":{"rho":0.02}}', 'subject of c', '2026-11', 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff');

INSERT INTO dpxplain.grants VALUES (1, 'adult', 'ann', '2026-11-16T16:56:47.463805+00:00', 400000000000, NULL, 'thesis', 'carol');

INSERT INTO dpxplain.jobs VALUES ('job', 'adult', 'ann', 'prepare', '{"rho":0.02}', 'done', '', NULL, 7, false, '2026-11-16T16:56:47.644306+00:00', '2026-11-16T16:56:47.667785+00:00');

INSERT INTO dpxplain.limits VALUES (1, 'adult', '2026-11-16T16:56:47.357063+00:00', 1000000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (2, 'census', '2026-11-16T16:56:47.375239+00:00', 500000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (3, 'adult', '2026-11-16T16:56:47.433196+00:00', 2000000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (4, 'adult', '2026-11-16T16:56:47.484428+00:00', 2000000000000, 500000000000, 1e-06, 'more', 'carol');

INSERT INTO dpxplain.log VALUES (1, '2026-11-16T16:56:47.357063+00:00', '', 'data set opened', 'adult', '{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-16T16:56:47.357063+00:00","top_up_units":0}}', '0000000000000000000000000000000000000000000000000000000000000000', 'c1f40be5a1d13ac49758d832181b0f70999b329f488bc8a57c7e97179da0dd02');
INSERT INTO dpxplain.log VALUES (2, '2026-11-16T16:56:47.375239+00:00', '', 'data set opened', 'census', '{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-16T16:56:47.375239+00:00","top_up_units":0}}', 'c1f40be5a1d13ac49758d832181b0f70999b329f488bc8a57c7e97179da0dd02', '496e1cf0bef2d09da8930d834a75cab5e5aec680387da9329678352a85a6a04a');
INSERT INTO dpxplain.log VALUES (3, '2026-11-16T16:56:47.386363+00:00', '', 'reserved', 'adult', '{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-16T16:56:47.386363+00:00","total_units":100000000000}}', '496e1cf0bef2d09da8930d834a75cab5e5aec680387da9329678352a85a6a04a', 'fd1c21f24f2d23a5d5d61a1adf11f8f4348be510fa92099af7537828ceefdc1c');
INSERT INTO dpxplain.log VALUES (4, '2026-11-16T16:56:47.419441+00:00', '', 'released', 'adult', '{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}', 'fd1c21f24f2d23a5d5d61a1adf11f8f4348be510fa92099af7537828ceefdc1c', '4d2391d4f6aa675b79e962d204f43f8c6d983ef117c43a7250f213cd5b889e03');
INSERT INTO dpxplain.log VALUES (5, '2026-11-16T16:56:47.433196+00:00', '', 'limit changed', 'adult', '{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","own_units":100000000000,"request":null,"spends":[],"time":"2026-11-16T16:56:47.433196+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-16T16:56:47.433196+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}', '4d2391d4f6aa675b79e962d204f43f8c6d983ef117c43a7250f213cd5b889e03', 'efa735561a3fe54120fd59509c8c33f867e55a8debb043501c54b9eba7c03b82');
INSERT INTO dpxplain.log VALUES (6, '2026-11-16T16:56:47.450244+00:00', '', 'reserved', 'adult', '{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-16T16:56:47.450244+00:00","total_units":600000000000}}', 'efa735561a3fe54120fd59509c8c33f867e55a8debb043501c54b9eba7c03b82', '0b23021c5440f06ba44f8e58cfa6112c5e303c02408f9ea2bb9d6207fe037ebd');
INSERT INTO dpxplain.log VALUES (7, '2026-11-16T16:56:47.463805+00:00', 'carol', 'allowance granted', 'adult', '{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-16T16:56:47.463805+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":null,"id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-16T16:56:47.463805+00:00"},"release":{"entry":4,"sha256":"419a990a7d74f3f364ef0d0e055cab20a4e4312e649185cee6c587e7a51da7d5"}}', '0b23021c5440f06ba44f8e58cfa6112c5e303c02408f9ea2bb9d6207fe037ebd', '7c42b5767523b4a6dd36e80aaafd1b22253273e838dbc6cd60cc01bd5ae343dc');
INSERT INTO dpxplain.log VALUES (8, '2026-11-16T16:56:47.484428+00:00', 'carol', 'topped up', 'adult', '{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","own_units":600000000000,"request":null,"spends":[],"time":"2026-11-16T16:56:47.484428+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-16T16:56:47.484428+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}', '7c42b5767523b4a6dd36e80aaafd1b22253273e838dbc6cd60cc01bd5ae343dc', '5ccdbf459beb82befe7ba65eddc2851148de172f2caddecbf36943f98832f8a0');
INSERT INTO dpxplain.log VALUES (9, '2026-11-16T16:56:47.509409+00:00', 'ann', 'data version opened', 'adult', '{"version":{"by":"ann","dataset":"adult","fingerprint":"9929bd0e3cfb7cd251df1524548914dcb693ae1a2ed1023ae73c370a767a69bc","id":1,"secret_sha256":"b1ac2d51edf25cd7bef736843bc2062bcc7c60fbca3144bbe811d76bb1853029","time":"2026-11-16T16:56:47.509409+00:00","version":"2026-11"}}', '5ccdbf459beb82befe7ba65eddc2851148de172f2caddecbf36943f98832f8a0', '783c25a0b605c0429c971cd30302dfc6fce13baee17d30709f9a437c00a2b230');
INSERT INTO dpxplain.log VALUES (10, '2026-11-16T16:56:47.520441+00:00', 'ann', 'reserved', 'adult', '{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","declarations":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-16T16:56:47.520441+00:00","total_units":650000000000,"version":"2026-11"}}', '783c25a0b605c0429c971cd30302dfc6fce13baee17d30709f9a437c00a2b230', 'b18ee8a69f7c5247253a015a873d54e8c49d2d679c68a1abf966b576d88ef670');
INSERT INTO dpxplain.log VALUES (11, '2026-11-16T16:56:47.534734+00:00', 'ann', 'released', 'adult', '{"release":{"entry":6,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}', 'b18ee8a69f7c5247253a015a873d54e8c49d2d679c68a1abf966b576d88ef670', '7977aa81a4a7a906c421faaa881591d932ef23a41ee044361d03589c6e8bc2c9');
INSERT INTO dpxplain.log VALUES (12, '2026-11-16T16:56:47.547748+00:00', 'ann', 'reserved', 'adult', '{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","declarations":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","description":"prepare","id":7,"key":"d","kind":"prepare","own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"subject":"subject of c","time":"2026-11-16T16:56:47.547748+00:00","total_units":670000000000,"version":"2026-11"}}', '7977aa81a4a7a906c421faaa881591d932ef23a41ee044361d03589c6e8bc2c9', 'bc4bd12bb7eae2f8bd3f06fffa6262cb9488996314da032da18a5fc7964df7bd');
INSERT INTO dpxplain.log VALUES (13, '2026-11-16T16:56:47.563213+00:00', 'ann', 'released', 'adult', '{"release":{"entry":7,"sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"}}', 'bc4bd12bb7eae2f8bd3f06fffa6262cb9488996314da032da18a5fc7964df7bd', '69c9fd52f7b6c6f24c5f8b51ae188bd20951b4158b03436b0a9ac3862cd5bd87');
INSERT INTO dpxplain.log VALUES (14, '2026-11-16T16:56:47.573787+00:00', 'carol', 'shared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-16T16:56:47.573787+00:00"}}', '69c9fd52f7b6c6f24c5f8b51ae188bd20951b4158b03436b0a9ac3862cd5bd87', 'bed54a7670ebd10c768dfefafbc85df6e20674612dd37bc2ac933399f0f18723');
INSERT INTO dpxplain.log VALUES (15, '2026-11-16T16:56:47.587714+00:00', 'carol', 'shared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-16T16:56:47.587714+00:00"}}', 'bed54a7670ebd10c768dfefafbc85df6e20674612dd37bc2ac933399f0f18723', '7ad0981630bb19162159c6bf713e7eab5cb0ce0bf11bd6185dad198460b91e21');
INSERT INTO dpxplain.log VALUES (16, '2026-11-16T16:56:47.597732+00:00', 'carol', 'unshared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-16T16:56:47.597732+00:00"}}', '7ad0981630bb19162159c6bf713e7eab5cb0ce0bf11bd6185dad198460b91e21', '2512ca872be6703357dd3867dd593174f1495e95d6fc326f915af52b9428bd6a');
INSERT INTO dpxplain.log VALUES (17, '2026-11-16T16:56:47.605803+00:00', 'carol', 'token created', NULL, '{"token":{"by":"carol","created":"2026-11-16T16:56:47.605803+00:00","expires":"2100-01-01T00:00:00+00:00","id":"4cea2ebdd3a8","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"97f0a316291988a0c24db56297bcebdf51ce074e8b5d0ada6ded00b78007024e"}}', '2512ca872be6703357dd3867dd593174f1495e95d6fc326f915af52b9428bd6a', '54d01c8878bf97e4b3f7b01accd489925ce897d3a47271279823b6e8e121d89a');
INSERT INTO dpxplain.log VALUES (18, '2026-11-16T16:56:47.617320+00:00', 'carol', 'token created', NULL, '{"token":{"by":"carol","created":"2026-11-16T16:56:47.617320+00:00","expires":"2100-01-01T00:00:00+00:00","id":"ed8a8e791621","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"bf87496c9cbd465170e937fe366673f935160c9e3a29dd1f6ad04db3ab1e2842"}}', '54d01c8878bf97e4b3f7b01accd489925ce897d3a47271279823b6e8e121d89a', '9331095442a34af59d5fc974331c9c36cf26e33b203be3590334995d7fdfed07');
INSERT INTO dpxplain.log VALUES (19, '2026-11-16T16:56:47.637291+00:00', 'carol', 'token revoked', NULL, '{"revocation":{"by":"carol","time":"2026-11-16T16:56:47.637291+00:00","token":"ed8a8e791621"}}', '9331095442a34af59d5fc974331c9c36cf26e33b203be3590334995d7fdfed07', '6886173624d93e12ef5ca72fec18d2a2b91146cf0839a5b431759dc11674ce04');
INSERT INTO dpxplain.log VALUES (20, '2026-11-16T16:56:47.684363+00:00', 'carol', 'schema edited', 'adult', '{"column":"age"}', '6886173624d93e12ef5ca72fec18d2a2b91146cf0839a5b431759dc11674ce04', '9efc42f4acf832aae4a8ef50a1034729776d8fe5ef2bf304d164f77a26839165');

INSERT INTO dpxplain.releases VALUES (1, '{"Zürich": 1}');
INSERT INTO dpxplain.releases VALUES (2, '{"old_limit": 1, "new_limit": 2}');
INSERT INTO dpxplain.releases VALUES (4, '{"analyst": "ann", "limit": 0.4, "expires": null, "reason": "thesis"}');
INSERT INTO dpxplain.releases VALUES (5, '{"old_limit": 2, "new_limit": 2.5, "reason": "more"}');
INSERT INTO dpxplain.releases VALUES (6, '{}');
INSERT INTO dpxplain.releases VALUES (7, '[]');

INSERT INTO dpxplain.revocations VALUES ('ed8a8e791621', '2026-11-16T16:56:47.637291+00:00', 'carol');

INSERT INTO dpxplain.shares VALUES (1, 'adult', 'ann', 'ben', true, '2026-11-16T16:56:47.573787+00:00', 'together', 'carol');
INSERT INTO dpxplain.shares VALUES (2, 'adult', 'ann', '*', true, '2026-11-16T16:56:47.587714+00:00', 'all', 'carol');
INSERT INTO dpxplain.shares VALUES (3, 'adult', 'ann', '*', false, '2026-11-16T16:56:47.597732+00:00', 'not all', 'carol');

INSERT INTO dpxplain.tokens VALUES ('4cea2ebdd3a8', 'ann', 'analyst', 'sha256$1512ebbdb5f2210bbd66913839ed50c0fe803eb48e2667457c5964668f502105', '2026-11-16T16:56:47.605803+00:00', '2100-01-01T00:00:00+00:00', 'carol', NULL, NULL);
INSERT INTO dpxplain.tokens VALUES ('ed8a8e791621', 'ben', 'curator', 'sha256$14d72fad1e82d33a37d1a52720ccc53ee30d95c43ca558e642166418749777d9', '2026-11-16T16:56:47.617320+00:00', '2100-01-01T00:00:00+00:00', 'carol', NULL, NULL);

INSERT INTO dpxplain.turnstile VALUES (1, 6);

INSERT INTO dpxplain.versions VALUES (1, 'adult', '2026-11', '2026-11-16T16:56:47.509409+00:00', 'ann', '67e3e530ed9e8cdea6579fea4a0a35b1520e51392b3ccfbd0f1a9ea20015275e', '9929bd0e3cfb7cd251df1524548914dcb693ae1a2ed1023ae73c370a767a69bc');

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

ALTER TABLE ONLY dpxplain.flights
    ADD CONSTRAINT flights_pkey PRIMARY KEY (dataset, analyst, key);

ALTER TABLE ONLY dpxplain.grants
    ADD CONSTRAINT grants_pkey PRIMARY KEY (id);

ALTER TABLE ONLY dpxplain.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);

ALTER TABLE ONLY dpxplain.limits
    ADD CONSTRAINT limits_pkey PRIMARY KEY (id);

ALTER TABLE ONLY dpxplain.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (id);

ALTER TABLE ONLY dpxplain.processes
    ADD CONSTRAINT processes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY dpxplain.releases
    ADD CONSTRAINT releases_pkey PRIMARY KEY (entry);

ALTER TABLE ONLY dpxplain.revocations
    ADD CONSTRAINT revocations_pkey PRIMARY KEY (token);

ALTER TABLE ONLY dpxplain.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);

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

CREATE INDEX flights_by_entry ON dpxplain.flights USING btree (entry);

CREATE INDEX grants_by_analyst ON dpxplain.grants USING btree (dataset, analyst, id);

CREATE INDEX limits_by_dataset ON dpxplain.limits USING btree (dataset, id);

CREATE INDEX log_by_action ON dpxplain.log USING btree (dataset, action, id);

CREATE INDEX sessions_by_holder ON dpxplain.sessions USING btree (name, token);

CREATE INDEX shares_by_reader ON dpxplain.shares USING btree (dataset, reader, id);

CREATE INDEX tokens_by_maker ON dpxplain.tokens USING btree (maker);

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

ALTER TABLE ONLY dpxplain.flights
    ADD CONSTRAINT flights_entry_fkey FOREIGN KEY (entry) REFERENCES dpxplain.entries(id);

ALTER TABLE ONLY dpxplain.jobs
    ADD CONSTRAINT jobs_entry_fkey FOREIGN KEY (entry) REFERENCES dpxplain.entries(id);

ALTER TABLE ONLY dpxplain.releases
    ADD CONSTRAINT releases_entry_fkey FOREIGN KEY (entry) REFERENCES dpxplain.entries(id);

ALTER TABLE ONLY dpxplain.revocations
    ADD CONSTRAINT revocations_token_fkey FOREIGN KEY (token) REFERENCES dpxplain.tokens(id);

ALTER TABLE ONLY dpxplain.sessions
    ADD CONSTRAINT sessions_token_fkey FOREIGN KEY (token) REFERENCES dpxplain.tokens(id);

ALTER TABLE ONLY dpxplain.tokens
    ADD CONSTRAINT tokens_maker_fkey FOREIGN KEY (maker) REFERENCES dpxplain.tokens(id);

ALTER TABLE ONLY dpxplain.tokens
    ADD CONSTRAINT tokens_parent_fkey FOREIGN KEY (parent) REFERENCES dpxplain.tokens(id);
