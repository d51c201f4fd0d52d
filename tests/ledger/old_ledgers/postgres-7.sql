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
CREATE TABLE dpxplain.unreleased (
    entry bigint NOT NULL,
    dataset text NOT NULL,
    analyst text NOT NULL
);
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
INSERT INTO dpxplain.entries VALUES (1, 'adult', '', '2026-11-17T00:55:58.028477+00:00', 'query', 'a', 'SELECT COUNT(*) FROM adult', 100000000000, 100000000000, 100000000000, '[["gaussian",0.1]]', NULL, NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (2, 'adult', '', '2026-11-17T00:55:58.042274+00:00', 'limit', '', 'limit changed from rho 1 to rho 2', 0, 100000000000, 100000000000, '[]', NULL, NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (3, 'adult', '', '2026-11-17T00:55:58.048763+00:00', 'explain', 'b', 'why', 500000000000, 600000000000, 600000000000, '[["top-k",0.25],["gaussian",0.25]]', NULL, NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (4, 'adult', 'ann', '2026-11-17T00:55:58.056036+00:00', 'grant', '', 'allowance set to rho 0.4: thesis', 0, 600000000000, 0, '[]', NULL, NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (5, 'adult', '', '2026-11-17T00:55:58.061356+00:00', 'top-up', '', 'limit raised to rho 2.5: more', 0, 600000000000, 600000000000, '[]', NULL, NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (6, 'adult', 'ann', '2026-11-17T00:55:58.071612+00:00', 'query', 'c', 'SELECT AVG(age) FROM adult', 50000000000, 650000000000, 50000000000, '[["gaussian",0.05]]', '{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}', NULL, '2026-11', 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff');
INSERT INTO dpxplain.entries VALUES (7, 'adult', 'ann', '2026-11-17T00:55:58.079847+00:00', 'prepare', 'd', 'prepare', 20000000000, 670000000000, 70000000000, '[["gaussian",0.02]]', '{"prepare":{"rho":0.02}}', 'subject of c', '2026-11', 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff');
INSERT INTO dpxplain.entries VALUES (8, 'census', 'ann', '2026-11-17T00:55:58.146705+00:00', 'grant', '', 'allowance set to rho 0.4: thesis', 0, 0, 0, '[]', NULL, NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (9, 'census', '', '2026-11-17T00:55:58.152282+00:00', 'query', 'e', 'SELECT COUNT(*) FROM census', 100000000000, 100000000000, 100000000000, '[["gaussian.counts",0.1]]', '{"rho":0.1,"sql":"SELECT COUNT(*) FROM census"}', NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (10, 'census', 'ann', '2026-11-17T00:55:58.159722+00:00', 'explain', 'f', 'why', 200000000000, 300000000000, 200000000000, '[["gumbel.top-k",0.05],["gaussian.influences",0.05],["gaussian.rank-search",0.1]]', '{"answer":9,"k":5}', NULL, NULL, NULL);
INSERT INTO dpxplain.entries VALUES (11, 'census', 'ann', '2026-11-17T00:55:58.171277+00:00', 'query', 'g', 'SELECT AVG(age) FROM census', 30000000000, 330000000000, 230000000000, '[["sums (Gaussian)",0.01],["AVG(age): counts (Gaussian)",0.01]]', NULL, NULL, NULL, NULL);
INSERT INTO dpxplain.grants VALUES (1, 'adult', 'ann', '2026-11-17T00:55:58.056036+00:00', 400000000000, NULL, 'thesis', 'carol');
INSERT INTO dpxplain.grants VALUES (2, 'census', 'ann', '2026-11-17T00:55:58.146705+00:00', 400000000000, NULL, 'thesis', 'carol');
INSERT INTO dpxplain.jobs VALUES ('job', 'adult', 'ann', 'prepare', '{"rho":0.02}', 'done', '', NULL, 7, false, '2026-11-17T00:55:58.186040+00:00', '2026-11-17T00:55:58.214329+00:00');
INSERT INTO dpxplain.limits VALUES (1, 'adult', '2026-11-17T00:55:58.014750+00:00', 1000000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (2, 'census', '2026-11-17T00:55:58.021878+00:00', 500000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (3, 'adult', '2026-11-17T00:55:58.042274+00:00', 2000000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (4, 'adult', '2026-11-17T00:55:58.061356+00:00', 2000000000000, 500000000000, 1e-06, 'more', 'carol');
INSERT INTO dpxplain.log VALUES (1, '2026-11-17T00:55:58.014750+00:00', '', 'data set opened', 'adult', '{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-17T00:55:58.014750+00:00","top_up_units":0}}', '0000000000000000000000000000000000000000000000000000000000000000', 'e28cc1ba9fbce53209411196a0961d193d2e1b49e6d125c57361f442fc295121');
INSERT INTO dpxplain.log VALUES (2, '2026-11-17T00:55:58.021878+00:00', '', 'data set opened', 'census', '{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-17T00:55:58.021878+00:00","top_up_units":0}}', 'e28cc1ba9fbce53209411196a0961d193d2e1b49e6d125c57361f442fc295121', 'ed07c2fcfd40acbf586ef47dd318839e120fcc8416430401fb13439707ad470e');
INSERT INTO dpxplain.log VALUES (3, '2026-11-17T00:55:58.028477+00:00', '', 'reserved', 'adult', '{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-17T00:55:58.028477+00:00","total_units":100000000000}}', 'ed07c2fcfd40acbf586ef47dd318839e120fcc8416430401fb13439707ad470e', 'b8869cbdfbc9c579cb601b1edaa50c0f251e1d823b03d7315caa31ae2532e65e');
INSERT INTO dpxplain.log VALUES (4, '2026-11-17T00:55:58.037743+00:00', '', 'released', 'adult', '{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}', 'b8869cbdfbc9c579cb601b1edaa50c0f251e1d823b03d7315caa31ae2532e65e', '22a919d3de11d3b8de3e4095f4e0c353542950116ebb2863de1eec61f864dcad');
INSERT INTO dpxplain.log VALUES (5, '2026-11-17T00:55:58.042274+00:00', '', 'limit changed', 'adult', '{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","own_units":100000000000,"request":null,"spends":[],"time":"2026-11-17T00:55:58.042274+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-17T00:55:58.042274+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}', '22a919d3de11d3b8de3e4095f4e0c353542950116ebb2863de1eec61f864dcad', '1aa2d5cc513857e3408fcde9033071176975a5b7342fc1acf101ab0b64031069');
INSERT INTO dpxplain.log VALUES (6, '2026-11-17T00:55:58.048763+00:00', '', 'reserved', 'adult', '{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-17T00:55:58.048763+00:00","total_units":600000000000}}', '1aa2d5cc513857e3408fcde9033071176975a5b7342fc1acf101ab0b64031069', '8b010b9805361bf881d35907a36e2adc5da0a2e3c34051edbd490da29a1686ee');
INSERT INTO dpxplain.log VALUES (7, '2026-11-17T00:55:58.056036+00:00', 'carol', 'allowance granted', 'adult', '{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-17T00:55:58.056036+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":null,"id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-17T00:55:58.056036+00:00"},"release":{"entry":4,"sha256":"419a990a7d74f3f364ef0d0e055cab20a4e4312e649185cee6c587e7a51da7d5"}}', '8b010b9805361bf881d35907a36e2adc5da0a2e3c34051edbd490da29a1686ee', '1bd01e8b51a9e370ad51cb1741925e221305853b32826de75c4cdac7f0d24821');
INSERT INTO dpxplain.log VALUES (8, '2026-11-17T00:55:58.061356+00:00', 'carol', 'topped up', 'adult', '{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","own_units":600000000000,"request":null,"spends":[],"time":"2026-11-17T00:55:58.061356+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-17T00:55:58.061356+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}', '1bd01e8b51a9e370ad51cb1741925e221305853b32826de75c4cdac7f0d24821', '507fd21477b701b4ea7f206f4f62134df3ff1d08ba974b91398fe3bc9fb9a604');
INSERT INTO dpxplain.log VALUES (9, '2026-11-17T00:55:58.069332+00:00', 'ann', 'data version opened', 'adult', '{"version":{"by":"ann","dataset":"adult","fingerprint":"d9d56e99538c490b4929581f42ffc41a77ee0ae3597302b0a0b30460ee4c6b58","id":1,"secret_sha256":"cd66a2760078849e9a6bd635306657393ccc54e36bdbbffa55086158294530a6","time":"2026-11-17T00:55:58.069332+00:00","version":"2026-11"}}', '507fd21477b701b4ea7f206f4f62134df3ff1d08ba974b91398fe3bc9fb9a604', '48eabd4f8463ea39991a42fa1cf871dbb81fe6d15f10195b0bd3bc9c55c00371');
INSERT INTO dpxplain.log VALUES (10, '2026-11-17T00:55:58.071612+00:00', 'ann', 'reserved', 'adult', '{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","declarations":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-17T00:55:58.071612+00:00","total_units":650000000000,"version":"2026-11"}}', '48eabd4f8463ea39991a42fa1cf871dbb81fe6d15f10195b0bd3bc9c55c00371', 'a4abdde18673773b13ae8ad83cc36628d423c2c5c4dced92285707fc8c4a824b');
INSERT INTO dpxplain.log VALUES (11, '2026-11-17T00:55:58.075770+00:00', 'ann', 'released', 'adult', '{"release":{"entry":6,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}', 'a4abdde18673773b13ae8ad83cc36628d423c2c5c4dced92285707fc8c4a824b', '456ebcd8cba24a256a8d85d82e1a062571ab1dc1d5a9e58424c9bdfae89e2bcd');
INSERT INTO dpxplain.log VALUES (12, '2026-11-17T00:55:58.079847+00:00', 'ann', 'reserved', 'adult', '{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","declarations":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","description":"prepare","id":7,"key":"d","kind":"prepare","own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"subject":"subject of c","time":"2026-11-17T00:55:58.079847+00:00","total_units":670000000000,"version":"2026-11"}}', '456ebcd8cba24a256a8d85d82e1a062571ab1dc1d5a9e58424c9bdfae89e2bcd', '3bb5095ec975785de03f2c6139e54d85c08e31f869f6363ffa8e72f1e0163b08');
INSERT INTO dpxplain.log VALUES (13, '2026-11-17T00:55:58.088170+00:00', 'ann', 'released', 'adult', '{"release":{"entry":7,"sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"}}', '3bb5095ec975785de03f2c6139e54d85c08e31f869f6363ffa8e72f1e0163b08', 'ecc0bac8a48b7a0e0c4a351a3f829783588a3c636373abb6fc38d159dd76a76d');
INSERT INTO dpxplain.log VALUES (14, '2026-11-17T00:55:58.092468+00:00', 'carol', 'shared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-17T00:55:58.092468+00:00"}}', 'ecc0bac8a48b7a0e0c4a351a3f829783588a3c636373abb6fc38d159dd76a76d', '9fbd112dcf0951bd55d2f4a4812b0390a215474eb127b0fcd291fc16d4ff90f1');
INSERT INTO dpxplain.log VALUES (15, '2026-11-17T00:55:58.097401+00:00', 'carol', 'shared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-17T00:55:58.097401+00:00"}}', '9fbd112dcf0951bd55d2f4a4812b0390a215474eb127b0fcd291fc16d4ff90f1', '61b95a0f6550e9974ef947ed82f9cfc7f53012adfab5c23ddbcf08efc2dfdb63');
INSERT INTO dpxplain.log VALUES (16, '2026-11-17T00:55:58.101054+00:00', 'carol', 'unshared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-17T00:55:58.101054+00:00"}}', '61b95a0f6550e9974ef947ed82f9cfc7f53012adfab5c23ddbcf08efc2dfdb63', '5eeb54ff4d8889ae35195d74ccce29a08ca8ba0705a00159785ef0e2c4662146');
INSERT INTO dpxplain.log VALUES (17, '2026-11-17T00:55:58.146705+00:00', 'carol', 'allowance granted', 'census', '{"entry":{"analyst":"ann","charge_units":0,"dataset":"census","description":"allowance set to rho 0.4: thesis","id":8,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-17T00:55:58.146705+00:00","total_units":0},"grant":{"analyst":"ann","by":"carol","dataset":"census","expires":null,"id":2,"limit_units":400000000000,"reason":"thesis","time":"2026-11-17T00:55:58.146705+00:00"},"release":{"entry":8,"sha256":"419a990a7d74f3f364ef0d0e055cab20a4e4312e649185cee6c587e7a51da7d5"}}', '5eeb54ff4d8889ae35195d74ccce29a08ca8ba0705a00159785ef0e2c4662146', 'f76c947c105a4fd033f6e3e8ee974a59b8363850998a707734364accb4f8fa8b');
INSERT INTO dpxplain.log VALUES (18, '2026-11-17T00:55:58.152282+00:00', '', 'reserved', 'census', '{"entry":{"analyst":"","charge_units":100000000000,"dataset":"census","description":"SELECT COUNT(*) FROM census","id":9,"key":"e","kind":"query","own_units":100000000000,"request":{"rho":0.1,"sql":"SELECT COUNT(*) FROM census"},"spends":[["gaussian.counts",0.1]],"time":"2026-11-17T00:55:58.152282+00:00","total_units":100000000000}}', 'f76c947c105a4fd033f6e3e8ee974a59b8363850998a707734364accb4f8fa8b', '27da4ec83a61fc9a320650198aef7de4db7a93f67badf66a56e42ff7947df59e');
INSERT INTO dpxplain.log VALUES (19, '2026-11-17T00:55:58.156165+00:00', '', 'released', 'census', '{"release":{"entry":9,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}', '27da4ec83a61fc9a320650198aef7de4db7a93f67badf66a56e42ff7947df59e', '2563d91e43c14b666abd979da8c90c82f6863cca8d42b6810236708c60240653');
INSERT INTO dpxplain.log VALUES (20, '2026-11-17T00:55:58.159722+00:00', 'ann', 'reserved', 'census', '{"entry":{"analyst":"ann","charge_units":200000000000,"dataset":"census","description":"why","id":10,"key":"f","kind":"explain","own_units":200000000000,"request":{"answer":9,"k":5},"spends":[["gumbel.top-k",0.05],["gaussian.influences",0.05],["gaussian.rank-search",0.1]],"time":"2026-11-17T00:55:58.159722+00:00","total_units":300000000000}}', '2563d91e43c14b666abd979da8c90c82f6863cca8d42b6810236708c60240653', '4d1e23cf737cae714892079313ee0dea5b8c2b70d7212daf39715f0439a4fa0d');
INSERT INTO dpxplain.log VALUES (21, '2026-11-17T00:55:58.168486+00:00', 'ann', 'released', 'census', '{"release":{"entry":10,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}', '4d1e23cf737cae714892079313ee0dea5b8c2b70d7212daf39715f0439a4fa0d', '59f176adf3f9db1ae5d63c09f19e0b64cc1139fd7416c38889083ca5d2b8cf2b');
INSERT INTO dpxplain.log VALUES (22, '2026-11-17T00:55:58.171277+00:00', 'ann', 'reserved', 'census', '{"entry":{"analyst":"ann","charge_units":30000000000,"dataset":"census","description":"SELECT AVG(age) FROM census","id":11,"key":"g","kind":"query","own_units":230000000000,"request":null,"spends":[["sums (Gaussian)",0.01],["AVG(age): counts (Gaussian)",0.01]],"time":"2026-11-17T00:55:58.171277+00:00","total_units":330000000000}}', '59f176adf3f9db1ae5d63c09f19e0b64cc1139fd7416c38889083ca5d2b8cf2b', '71d391f6b44d2b3591be4532c9ff91dcdd13a1beb191150e0faf8a7f7a2f8161');
INSERT INTO dpxplain.log VALUES (23, '2026-11-17T00:55:58.174488+00:00', 'carol', 'token created', NULL, '{"token":{"by":"carol","created":"2026-11-17T00:55:58.174488+00:00","expires":"2100-01-01T00:00:00+00:00","id":"1c9c9b11e589","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"febd6555b7ed8ed302f2b4da5ef7c601cab9285c3eea3a3059d37c8d5cf6d3ec"}}', '71d391f6b44d2b3591be4532c9ff91dcdd13a1beb191150e0faf8a7f7a2f8161', '6cc06be4dafcffe1e8b5735e1ae0ddc084ce06322378bbf4931e14c853484553');
INSERT INTO dpxplain.log VALUES (24, '2026-11-17T00:55:58.177495+00:00', 'carol', 'token created', NULL, '{"token":{"by":"carol","created":"2026-11-17T00:55:58.177495+00:00","expires":"2100-01-01T00:00:00+00:00","id":"0c01bb0d40d9","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"fd6f22013b0a8ab2b5dbbff7e8558748994ba0127038f60ad8f23d3badccedb1"}}', '6cc06be4dafcffe1e8b5735e1ae0ddc084ce06322378bbf4931e14c853484553', 'dd312ddae1393f2e274b1179918d20d0769f60bc98e3b91d62b245451fa2c817');
INSERT INTO dpxplain.log VALUES (25, '2026-11-17T00:55:58.182611+00:00', 'carol', 'token revoked', NULL, '{"revocation":{"by":"carol","time":"2026-11-17T00:55:58.182611+00:00","token":"0c01bb0d40d9"}}', 'dd312ddae1393f2e274b1179918d20d0769f60bc98e3b91d62b245451fa2c817', 'eed3157a59d8f532eb46e28d7d50692a44e11ea72dac15c85b89139a292dd08d');
INSERT INTO dpxplain.log VALUES (26, '2026-11-17T00:55:58.261488+00:00', 'carol', 'schema edited', 'adult', '{"column":"age"}', 'eed3157a59d8f532eb46e28d7d50692a44e11ea72dac15c85b89139a292dd08d', '6fd4cde67b922d1fc66ef36b964d314a540a03be8dc8fa8c68c3166d608403f1');
INSERT INTO dpxplain.releases VALUES (1, '{"Zürich": 1}');
INSERT INTO dpxplain.releases VALUES (2, '{"old_limit": 1, "new_limit": 2}');
INSERT INTO dpxplain.releases VALUES (4, '{"analyst": "ann", "limit": 0.4, "expires": null, "reason": "thesis"}');
INSERT INTO dpxplain.releases VALUES (5, '{"old_limit": 2, "new_limit": 2.5, "reason": "more"}');
INSERT INTO dpxplain.releases VALUES (6, '{}');
INSERT INTO dpxplain.releases VALUES (7, '[]');
INSERT INTO dpxplain.releases VALUES (8, '{"analyst": "ann", "limit": 0.4, "expires": null, "reason": "thesis"}');
INSERT INTO dpxplain.releases VALUES (9, '{}');
INSERT INTO dpxplain.releases VALUES (10, '{}');
INSERT INTO dpxplain.revocations VALUES ('0c01bb0d40d9', '2026-11-17T00:55:58.182611+00:00', 'carol');
INSERT INTO dpxplain.shares VALUES (1, 'adult', 'ann', 'ben', true, '2026-11-17T00:55:58.092468+00:00', 'together', 'carol');
INSERT INTO dpxplain.shares VALUES (2, 'adult', 'ann', '*', true, '2026-11-17T00:55:58.097401+00:00', 'all', 'carol');
INSERT INTO dpxplain.shares VALUES (3, 'adult', 'ann', '*', false, '2026-11-17T00:55:58.101054+00:00', 'not all', 'carol');
INSERT INTO dpxplain.tokens VALUES ('1c9c9b11e589', 'ann', 'analyst', 'sha256$fc0e307020204c26da6eb7c1cd22ab46769296f66bae4e71961ea908dbf1826e', '2026-11-17T00:55:58.174488+00:00', '2100-01-01T00:00:00+00:00', 'carol', NULL, NULL);
INSERT INTO dpxplain.tokens VALUES ('0c01bb0d40d9', 'ben', 'curator', 'sha256$6b14482c2ebaa8e8d6f011428cfa331021dd2f8b2c7d74448d29ad2e0e5e0aab', '2026-11-17T00:55:58.177495+00:00', '2100-01-01T00:00:00+00:00', 'carol', NULL, NULL);
INSERT INTO dpxplain.turnstile VALUES (1, 7);
INSERT INTO dpxplain.unreleased VALUES (3, 'adult', '');
INSERT INTO dpxplain.unreleased VALUES (11, 'census', 'ann');
INSERT INTO dpxplain.versions VALUES (1, 'adult', '2026-11', '2026-11-17T00:55:58.069332+00:00', 'ann', '4c11fabb65ed769f80fca63763ddef56a78945510ca1b81a5619111cd7bb91d8', 'd9d56e99538c490b4929581f42ffc41a77ee0ae3597302b0a0b30460ee4c6b58');
SELECT pg_catalog.setval('dpxplain.entries_id_seq', 11, true);
SELECT pg_catalog.setval('dpxplain.grants_id_seq', 2, true);
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
ALTER TABLE ONLY dpxplain.unreleased
    ADD CONSTRAINT unreleased_pkey PRIMARY KEY (entry);
ALTER TABLE ONLY dpxplain.versions
    ADD CONSTRAINT versions_pkey PRIMARY KEY (id);
CREATE INDEX entries_by_analyst ON dpxplain.entries USING btree (dataset, analyst, id, charge_units, total_units, own_units);
CREATE INDEX entries_by_analyst_and_kind ON dpxplain.entries USING btree (dataset, analyst, kind, version, id);
CREATE INDEX entries_by_analyst_and_subject ON dpxplain.entries USING btree (dataset, subject, analyst, charge_units, id) WHERE ((kind = 'prepare'::text) AND (subject IS NOT NULL));
CREATE INDEX entries_by_key ON dpxplain.entries USING btree (dataset, key, analyst, id);
CREATE INDEX entries_by_kind ON dpxplain.entries USING btree (dataset, kind, version, id);
CREATE INDEX entries_by_subject ON dpxplain.entries USING btree (dataset, subject, charge_units, id) WHERE ((kind = 'prepare'::text) AND (subject IS NOT NULL));
CREATE INDEX entries_in_order ON dpxplain.entries USING btree (dataset, id);
CREATE INDEX flights_by_entry ON dpxplain.flights USING btree (entry);
CREATE INDEX grants_by_analyst ON dpxplain.grants USING btree (dataset, analyst, id);
CREATE INDEX limits_by_dataset ON dpxplain.limits USING btree (dataset, id);
CREATE INDEX log_by_action ON dpxplain.log USING btree (dataset, action, id);
CREATE INDEX preparations_without_subject ON dpxplain.entries USING btree (dataset, kind, subject, analyst) WHERE ((kind = 'prepare'::text) AND (subject IS NULL));
CREATE INDEX public_notices ON dpxplain.entries USING btree (dataset, analyst, charge_units, id) WHERE ((analyst = ''::text) AND (charge_units = 0));
CREATE INDEX sessions_by_holder ON dpxplain.sessions USING btree (name, token);
CREATE INDEX shares_by_reader ON dpxplain.shares USING btree (dataset, reader, id);
CREATE INDEX tokens_by_maker ON dpxplain.tokens USING btree (maker);
CREATE INDEX unreleased_by_analyst ON dpxplain.unreleased USING btree (dataset, analyst, entry);
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
