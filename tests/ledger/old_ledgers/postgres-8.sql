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
CREATE TABLE dpxplain.accounts (
    dataset text NOT NULL,
    analyst text NOT NULL,
    gaussian_units bigint NOT NULL,
    last_number bigint NOT NULL
);
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
    number bigint,
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
INSERT INTO dpxplain.accounts VALUES ('adult', '*', 0, 0);
INSERT INTO dpxplain.accounts VALUES ('adult', '', 0, 2);
INSERT INTO dpxplain.accounts VALUES ('adult', ' notices', 0, 2);
INSERT INTO dpxplain.accounts VALUES ('adult', 'ann', 0, 3);
INSERT INTO dpxplain.accounts VALUES ('census', '', 100000000000, 1);
INSERT INTO dpxplain.accounts VALUES ('census', 'ann', 180000000000, 3);
INSERT INTO dpxplain.accounts VALUES ('census', '*', 280000000000, 0);
INSERT INTO dpxplain.entries VALUES (1, 'adult', '', '2026-11-18T07:10:12.531779+00:00', 'query', 'a', 'SELECT COUNT(*) FROM adult', 100000000000, 100000000000, 100000000000, '[["gaussian",0.1]]', NULL, NULL, NULL, NULL, 1);
INSERT INTO dpxplain.entries VALUES (2, 'adult', '', '2026-11-18T07:10:12.537892+00:00', 'limit', '', 'limit changed from rho 1 to rho 2', 0, 100000000000, 100000000000, '[]', NULL, NULL, NULL, NULL, 1);
INSERT INTO dpxplain.entries VALUES (3, 'adult', '', '2026-11-18T07:10:12.540898+00:00', 'explain', 'b', 'why', 500000000000, 600000000000, 600000000000, '[["top-k",0.25],["gaussian",0.25]]', NULL, NULL, NULL, NULL, 2);
INSERT INTO dpxplain.entries VALUES (4, 'adult', 'ann', '2026-11-18T07:10:12.542416+00:00', 'grant', '', 'allowance set to rho 0.4: thesis', 0, 600000000000, 0, '[]', NULL, NULL, NULL, NULL, 1);
INSERT INTO dpxplain.entries VALUES (5, 'adult', '', '2026-11-18T07:10:12.545281+00:00', 'top-up', '', 'limit raised to rho 2.5: more', 0, 600000000000, 600000000000, '[]', NULL, NULL, NULL, NULL, 2);
INSERT INTO dpxplain.entries VALUES (6, 'adult', 'ann', '2026-11-18T07:10:12.547838+00:00', 'query', 'c', 'SELECT AVG(age) FROM adult', 50000000000, 650000000000, 50000000000, '[["gaussian",0.05]]', '{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}', NULL, NULL, 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff', 2);
INSERT INTO dpxplain.entries VALUES (7, 'adult', 'ann', '2026-11-18T07:10:12.551000+00:00', 'prepare', 'd', 'prepare', 20000000000, 670000000000, 70000000000, '[["gaussian",0.02]]', '{"prepare":{"rho":0.02}}', 'subject of c', NULL, 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff', 3);
INSERT INTO dpxplain.entries VALUES (8, 'census', 'ann', '2026-11-18T07:10:12.558112+00:00', 'grant', '', 'allowance set to rho 0.4: thesis', 0, 0, 0, '[]', NULL, NULL, NULL, NULL, 1);
INSERT INTO dpxplain.entries VALUES (9, 'census', '', '2026-11-18T07:10:12.560687+00:00', 'query', 'e', 'SELECT COUNT(*) FROM census', 100000000000, 100000000000, 100000000000, '[["gaussian.counts",0.1]]', '{"rho":0.1}', NULL, NULL, NULL, 1);
INSERT INTO dpxplain.entries VALUES (10, 'census', 'ann', '2026-11-18T07:10:12.564983+00:00', 'explain', 'f', 'why', 200000000000, 300000000000, 200000000000, '[["gumbel.top-k",0.05],["gaussian.influences",0.05],["gaussian.rank-search",0.1]]', '{"answer":9,"k":5}', NULL, NULL, NULL, 2);
INSERT INTO dpxplain.entries VALUES (11, 'census', 'ann', '2026-11-18T07:10:12.573006+00:00', 'query', 'g', 'SELECT AVG(age) FROM census', 30000000000, 330000000000, 230000000000, '[["gaussian.sums",0.03]]', NULL, NULL, NULL, NULL, 3);
INSERT INTO dpxplain.flights VALUES ('census', 'ann', 'g', 11, '2026-11-18T07:10:12.573853+00:00');
INSERT INTO dpxplain.grants VALUES (1, 'adult', 'ann', '2026-11-18T07:10:12.542416+00:00', 400000000000, NULL, 'thesis', 'carol');
INSERT INTO dpxplain.grants VALUES (2, 'census', 'ann', '2026-11-18T07:10:12.558112+00:00', 400000000000, NULL, 'thesis', 'carol');
INSERT INTO dpxplain.jobs VALUES ('job', 'adult', 'ann', 'prepare', '{"rho":0.02}', 'done', '', NULL, 7, false, '2026-11-18T07:10:12.578954+00:00', '2026-11-18T07:10:12.580576+00:00');
INSERT INTO dpxplain.limits VALUES (1, 'adult', '2026-11-18T07:10:12.526388+00:00', 1000000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (2, 'census', '2026-11-18T07:10:12.528750+00:00', 500000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (3, 'adult', '2026-11-18T07:10:12.537892+00:00', 2000000000000, 0, 1e-06, 'declared in the schema', '');
INSERT INTO dpxplain.limits VALUES (4, 'adult', '2026-11-18T07:10:12.545281+00:00', 2000000000000, 500000000000, 1e-06, 'more', 'carol');
INSERT INTO dpxplain.log VALUES (1, '2026-11-18T07:10:12.526388+00:00', '', 'data set opened', 'adult', '{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-18T07:10:12.526388+00:00","top_up_units":0}}', '0000000000000000000000000000000000000000000000000000000000000000', '4638ab01067d88a2681e839dfa1f5c1dc9e51feb70c669fc38382c8c315e5ea2');
INSERT INTO dpxplain.log VALUES (2, '2026-11-18T07:10:12.528750+00:00', '', 'data set opened', 'census', '{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-18T07:10:12.528750+00:00","top_up_units":0}}', '4638ab01067d88a2681e839dfa1f5c1dc9e51feb70c669fc38382c8c315e5ea2', 'ca47f30877c9d32bdc925e0d01357a6dc6d3da0f9b94f2ab34584d72b89c7b36');
INSERT INTO dpxplain.log VALUES (3, '2026-11-18T07:10:12.531779+00:00', '', 'reserved', 'adult', '{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","number":1,"own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-18T07:10:12.531779+00:00","total_units":100000000000}}', 'ca47f30877c9d32bdc925e0d01357a6dc6d3da0f9b94f2ab34584d72b89c7b36', '4fa4211c737018a5a7ce68466a631c49d8013e15a53f51421d3de325df6dbf00');
INSERT INTO dpxplain.log VALUES (4, '2026-11-18T07:10:12.536225+00:00', '', 'released', 'adult', '{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}', '4fa4211c737018a5a7ce68466a631c49d8013e15a53f51421d3de325df6dbf00', '317ab381aa869f055fe68fbd235019e7a2582c5c73fa1be811804cbee45d4ffb');
INSERT INTO dpxplain.log VALUES (5, '2026-11-18T07:10:12.537892+00:00', '', 'limit changed', 'adult', '{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","number":1,"own_units":100000000000,"request":null,"spends":[],"time":"2026-11-18T07:10:12.537892+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-18T07:10:12.537892+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}', '317ab381aa869f055fe68fbd235019e7a2582c5c73fa1be811804cbee45d4ffb', '126a3f0f1721e7ac6499afaa972dbdf78a5f89a140ad71b83f76b1fc1cdb1b46');
INSERT INTO dpxplain.log VALUES (6, '2026-11-18T07:10:12.540898+00:00', '', 'reserved', 'adult', '{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","number":2,"own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-18T07:10:12.540898+00:00","total_units":600000000000}}', '126a3f0f1721e7ac6499afaa972dbdf78a5f89a140ad71b83f76b1fc1cdb1b46', 'c4b6cea69e20b1e306466e4cad1da98e9367661d4c57f908ee028e79006c6a90');
INSERT INTO dpxplain.log VALUES (7, '2026-11-18T07:10:12.542416+00:00', 'carol', 'allowance granted', 'adult', '{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","number":1,"own_units":0,"request":null,"spends":[],"time":"2026-11-18T07:10:12.542416+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":null,"id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-18T07:10:12.542416+00:00"},"release":{"entry":4,"sha256":"419a990a7d74f3f364ef0d0e055cab20a4e4312e649185cee6c587e7a51da7d5"}}', 'c4b6cea69e20b1e306466e4cad1da98e9367661d4c57f908ee028e79006c6a90', '319ad1b76956dccc1b74c4c176b6ff901590b873e493f5f3f922896ecd20de68');
INSERT INTO dpxplain.log VALUES (8, '2026-11-18T07:10:12.545281+00:00', 'carol', 'topped up', 'adult', '{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","number":2,"own_units":600000000000,"request":null,"spends":[],"time":"2026-11-18T07:10:12.545281+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-18T07:10:12.545281+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}', '319ad1b76956dccc1b74c4c176b6ff901590b873e493f5f3f922896ecd20de68', 'e157a18d07a1b63379a945735cc70953551e95b45212420d61ee4a84fa4eed60');
INSERT INTO dpxplain.log VALUES (9, '2026-11-18T07:10:12.547838+00:00', 'ann', 'reserved', 'adult', '{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","declarations":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","number":2,"own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-18T07:10:12.547838+00:00","total_units":650000000000}}', 'e157a18d07a1b63379a945735cc70953551e95b45212420d61ee4a84fa4eed60', '9a2578b9b1b248abe4e2d32fabe4e78bb9c2f2586b5b7f03bb69918d07acbe32');
INSERT INTO dpxplain.log VALUES (10, '2026-11-18T07:10:12.549640+00:00', 'ann', 'released', 'adult', '{"release":{"entry":6,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}', '9a2578b9b1b248abe4e2d32fabe4e78bb9c2f2586b5b7f03bb69918d07acbe32', 'f9bdea7446b0510efaadde3ab4b7f2c0265a6e9852da75956a274b769546f573');
INSERT INTO dpxplain.log VALUES (11, '2026-11-18T07:10:12.551000+00:00', 'ann', 'reserved', 'adult', '{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","declarations":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","description":"prepare","id":7,"key":"d","kind":"prepare","number":3,"own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"subject":"subject of c","time":"2026-11-18T07:10:12.551000+00:00","total_units":670000000000}}', 'f9bdea7446b0510efaadde3ab4b7f2c0265a6e9852da75956a274b769546f573', '29d2f92ea2c79ced21a3beb0b2f8fb2015d338f83a947327b0d725f689d7dddb');
INSERT INTO dpxplain.log VALUES (12, '2026-11-18T07:10:12.552846+00:00', 'ann', 'released', 'adult', '{"release":{"entry":7,"sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"}}', '29d2f92ea2c79ced21a3beb0b2f8fb2015d338f83a947327b0d725f689d7dddb', '0bbc477ea9dc52f0824c06a530a36ce837f0e84d09cc7aa896ea57b6312b142e');
INSERT INTO dpxplain.log VALUES (13, '2026-11-18T07:10:12.554354+00:00', 'carol', 'shared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-18T07:10:12.554354+00:00"}}', '0bbc477ea9dc52f0824c06a530a36ce837f0e84d09cc7aa896ea57b6312b142e', '090c05c0d5b06a8e6537a0a7ed04b96c0b60b1413ac299245ffc1842cbfbaf56');
INSERT INTO dpxplain.log VALUES (14, '2026-11-18T07:10:12.555952+00:00', 'carol', 'shared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-18T07:10:12.555952+00:00"}}', '090c05c0d5b06a8e6537a0a7ed04b96c0b60b1413ac299245ffc1842cbfbaf56', '784497ac73b9067e312df50ab1d2d2579834802d819657c79998cef86c880f5a');
INSERT INTO dpxplain.log VALUES (15, '2026-11-18T07:10:12.557213+00:00', 'carol', 'unshared', 'adult', '{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-18T07:10:12.557213+00:00"}}', '784497ac73b9067e312df50ab1d2d2579834802d819657c79998cef86c880f5a', 'f5c2523c0772492ebbb9a0d72ec47586b13bca711a08103b5a36e3d8eac0adb3');
INSERT INTO dpxplain.log VALUES (16, '2026-11-18T07:10:12.558112+00:00', 'carol', 'allowance granted', 'census', '{"entry":{"analyst":"ann","charge_units":0,"dataset":"census","description":"allowance set to rho 0.4: thesis","id":8,"key":"","kind":"grant","number":1,"own_units":0,"request":null,"spends":[],"time":"2026-11-18T07:10:12.558112+00:00","total_units":0},"grant":{"analyst":"ann","by":"carol","dataset":"census","expires":null,"id":2,"limit_units":400000000000,"reason":"thesis","time":"2026-11-18T07:10:12.558112+00:00"},"release":{"entry":8,"sha256":"419a990a7d74f3f364ef0d0e055cab20a4e4312e649185cee6c587e7a51da7d5"}}', 'f5c2523c0772492ebbb9a0d72ec47586b13bca711a08103b5a36e3d8eac0adb3', 'e718ebb2c3ecfde25a6cb991f6c79d7742c30c0e67c486417135d06c31b661ad');
INSERT INTO dpxplain.log VALUES (17, '2026-11-18T07:10:12.560687+00:00', '', 'reserved', 'census', '{"entry":{"analyst":"","charge_units":100000000000,"dataset":"census","description":"SELECT COUNT(*) FROM census","id":9,"key":"e","kind":"query","number":1,"own_units":100000000000,"request":{"rho":0.1},"spends":[["gaussian.counts",0.1]],"time":"2026-11-18T07:10:12.560687+00:00","total_units":100000000000}}', 'e718ebb2c3ecfde25a6cb991f6c79d7742c30c0e67c486417135d06c31b661ad', 'f5191aa03c9bf1ac37cb01f360ee3a8bc14e76e0c5e5621f132645e7bbc71005');
INSERT INTO dpxplain.log VALUES (18, '2026-11-18T07:10:12.562807+00:00', '', 'released', 'census', '{"release":{"entry":9,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}', 'f5191aa03c9bf1ac37cb01f360ee3a8bc14e76e0c5e5621f132645e7bbc71005', '661404914026a5949b87ff9b95dcec1191820383ef893ee877c0787aefc0cbb5');
INSERT INTO dpxplain.log VALUES (19, '2026-11-18T07:10:12.564983+00:00', 'ann', 'reserved', 'census', '{"entry":{"analyst":"ann","charge_units":200000000000,"dataset":"census","description":"why","id":10,"key":"f","kind":"explain","number":2,"own_units":200000000000,"request":{"answer":9,"k":5},"spends":[["gumbel.top-k",0.05],["gaussian.influences",0.05],["gaussian.rank-search",0.1]],"time":"2026-11-18T07:10:12.564983+00:00","total_units":300000000000}}', '661404914026a5949b87ff9b95dcec1191820383ef893ee877c0787aefc0cbb5', '9bc03e5c9f4f7a228cee0d4c74b5ccf79c8895ab0fe3baae45ad8e7f630b749c');
INSERT INTO dpxplain.log VALUES (20, '2026-11-18T07:10:12.571379+00:00', 'ann', 'released', 'census', '{"release":{"entry":10,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}', '9bc03e5c9f4f7a228cee0d4c74b5ccf79c8895ab0fe3baae45ad8e7f630b749c', '78fb89d9479b7c5513552fa1a6fad21ca166d2c916ad86697f601d0da3ad4734');
INSERT INTO dpxplain.log VALUES (21, '2026-11-18T07:10:12.573006+00:00', 'ann', 'reserved', 'census', '{"entry":{"analyst":"ann","charge_units":30000000000,"dataset":"census","description":"SELECT AVG(age) FROM census","id":11,"key":"g","kind":"query","number":3,"own_units":230000000000,"request":null,"spends":[["gaussian.sums",0.03]],"time":"2026-11-18T07:10:12.573006+00:00","total_units":330000000000}}', '78fb89d9479b7c5513552fa1a6fad21ca166d2c916ad86697f601d0da3ad4734', '22c4575a88b8013196f177f1678e7a96c85ec87935f22ddda4e0b4c32ab984b3');
INSERT INTO dpxplain.log VALUES (22, '2026-11-18T07:10:12.574451+00:00', 'carol', 'token created', NULL, '{"token":{"by":"carol","created":"2026-11-18T07:10:12.574451+00:00","expires":"2100-01-01T00:00:00+00:00","id":"280f96fe68b2","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"f2875d76ec395e868cfae6ed7e97daa884e818fa2f0adb2d165f10c88e42a024"}}', '22c4575a88b8013196f177f1678e7a96c85ec87935f22ddda4e0b4c32ab984b3', 'aad1a6aac7575beed6ed3a57233cfbf6325fb484eef900461e9370462016b956');
INSERT INTO dpxplain.log VALUES (23, '2026-11-18T07:10:12.575804+00:00', 'carol', 'token created', NULL, '{"token":{"by":"carol","created":"2026-11-18T07:10:12.575804+00:00","expires":"2100-01-01T00:00:00+00:00","id":"5fdf80eb0600","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"02c08841a7594718c51a23678c8ba64441449aace16a0d0d5e1c368e5710d0bf"}}', 'aad1a6aac7575beed6ed3a57233cfbf6325fb484eef900461e9370462016b956', '5f031ff41202b793329fd5948dfb23b91eac36b8354cb05d8596ebffdfa6c131');
INSERT INTO dpxplain.log VALUES (24, '2026-11-18T07:10:12.577735+00:00', 'carol', 'token revoked', NULL, '{"revocation":{"by":"carol","time":"2026-11-18T07:10:12.577735+00:00","token":"5fdf80eb0600"}}', '5f031ff41202b793329fd5948dfb23b91eac36b8354cb05d8596ebffdfa6c131', 'd712f0081b2b413a3696e20c0de719b0a9680fc9466c5c088b0e7e98a420fefd');
INSERT INTO dpxplain.log VALUES (25, '2026-11-18T07:10:12.581786+00:00', 'carol', 'schema edited', 'adult', '{"column":"age"}', 'd712f0081b2b413a3696e20c0de719b0a9680fc9466c5c088b0e7e98a420fefd', 'e4db5d94685f57be78ebbf8f939f66451fe70c4e9a587188ead91c2dfe3a5f80');
INSERT INTO dpxplain.releases VALUES (1, '{"Zürich": 1}');
INSERT INTO dpxplain.releases VALUES (2, '{"old_limit": 1, "new_limit": 2}');
INSERT INTO dpxplain.releases VALUES (4, '{"analyst": "ann", "limit": 0.4, "expires": null, "reason": "thesis"}');
INSERT INTO dpxplain.releases VALUES (5, '{"old_limit": 2, "new_limit": 2.5, "reason": "more"}');
INSERT INTO dpxplain.releases VALUES (6, '{}');
INSERT INTO dpxplain.releases VALUES (7, '[]');
INSERT INTO dpxplain.releases VALUES (8, '{"analyst": "ann", "limit": 0.4, "expires": null, "reason": "thesis"}');
INSERT INTO dpxplain.releases VALUES (9, '{}');
INSERT INTO dpxplain.releases VALUES (10, '{}');
INSERT INTO dpxplain.revocations VALUES ('5fdf80eb0600', '2026-11-18T07:10:12.577735+00:00', 'carol');
INSERT INTO dpxplain.shares VALUES (1, 'adult', 'ann', 'ben', true, '2026-11-18T07:10:12.554354+00:00', 'together', 'carol');
INSERT INTO dpxplain.shares VALUES (2, 'adult', 'ann', '*', true, '2026-11-18T07:10:12.555952+00:00', 'all', 'carol');
INSERT INTO dpxplain.shares VALUES (3, 'adult', 'ann', '*', false, '2026-11-18T07:10:12.557213+00:00', 'not all', 'carol');
INSERT INTO dpxplain.tokens VALUES ('280f96fe68b2', 'ann', 'analyst', 'sha256$e540dd34164443050d2c5582ffca749e27e4d33e5f38cc6d18be8da4e2a4cfa8', '2026-11-18T07:10:12.574451+00:00', '2100-01-01T00:00:00+00:00', 'carol', NULL, NULL);
INSERT INTO dpxplain.tokens VALUES ('5fdf80eb0600', 'ben', 'curator', 'sha256$1ad94a09c08bc477b74c5352a775d3424534e394e535889fc2d1a7a6f4beb35d', '2026-11-18T07:10:12.575804+00:00', '2100-01-01T00:00:00+00:00', 'carol', NULL, NULL);
INSERT INTO dpxplain.turnstile VALUES (1, 8);
INSERT INTO dpxplain.unreleased VALUES (3, 'adult', '');
INSERT INTO dpxplain.unreleased VALUES (11, 'census', 'ann');
SELECT pg_catalog.setval('dpxplain.entries_id_seq', 11, true);
SELECT pg_catalog.setval('dpxplain.grants_id_seq', 2, true);
SELECT pg_catalog.setval('dpxplain.limits_id_seq', 4, true);
SELECT pg_catalog.setval('dpxplain.shares_id_seq', 3, true);
SELECT pg_catalog.setval('dpxplain.turnstile_id_seq', 1, false);
SELECT pg_catalog.setval('dpxplain.versions_id_seq', 1, false);
ALTER TABLE ONLY dpxplain.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (dataset, analyst);
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
CREATE INDEX entries_by_number ON dpxplain.entries USING btree (dataset, analyst, number);
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
