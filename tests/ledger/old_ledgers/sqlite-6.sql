PRAGMA application_id = 1146116176;
PRAGMA user_version = 6;
PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE entries (
	id INTEGER NOT NULL, 
	dataset TEXT NOT NULL, 
	analyst TEXT NOT NULL, 
	time TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	description TEXT NOT NULL, 
	charge_units BIGINT NOT NULL CHECK (charge_units >= 0), 
	total_units BIGINT NOT NULL, 
	own_units BIGINT NOT NULL, 
	spends TEXT NOT NULL, 
	request TEXT, 
	subject TEXT, 
	version TEXT, 
	declarations TEXT, 
	PRIMARY KEY (id)
);
INSERT INTO "entries" VALUES(1,'adult','','2026-11-16T16:56:43.329012+00:00','query','a','SELECT COUNT(*) FROM adult',100000000000,100000000000,100000000000,'[["gaussian",0.1]]',NULL,NULL,NULL,NULL);
INSERT INTO "entries" VALUES(2,'adult','','2026-11-16T16:56:43.351393+00:00','limit','','limit changed from rho 1 to rho 2',0,100000000000,100000000000,'[]',NULL,NULL,NULL,NULL);
INSERT INTO "entries" VALUES(3,'adult','','2026-11-16T16:56:43.353852+00:00','explain','b','why',500000000000,600000000000,600000000000,'[["top-k",0.25],["gaussian",0.25]]',NULL,NULL,NULL,NULL);
INSERT INTO "entries" VALUES(4,'adult','ann','2026-11-16T16:56:43.354587+00:00','grant','','allowance set to rho 0.4: thesis',0,600000000000,0,'[]',NULL,NULL,NULL,NULL);
INSERT INTO "entries" VALUES(5,'adult','','2026-11-16T16:56:43.360751+00:00','top-up','','limit raised to rho 2.5: more',0,600000000000,600000000000,'[]',NULL,NULL,NULL,NULL);
INSERT INTO "entries" VALUES(6,'adult','ann','2026-11-16T16:56:43.371779+00:00','query','c','SELECT AVG(age) FROM adult',50000000000,650000000000,50000000000,'[["gaussian",0.05]]','{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}',NULL,'2026-11','ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff');
INSERT INTO "entries" VALUES(7,'adult','ann','2026-11-16T16:56:43.374784+00:00','prepare','d','prepare',20000000000,670000000000,70000000000,'[["gaussian",0.02]]','{"prepare":{"rho":0.02}}','subject of c','2026-11','ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff');
CREATE TABLE file_states (
	version INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	PRIMARY KEY (version, state), 
	FOREIGN KEY(version) REFERENCES versions (id)
);
CREATE TABLE flights (
	dataset TEXT NOT NULL, 
	analyst TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	entry INTEGER NOT NULL, 
	heard TEXT NOT NULL, 
	PRIMARY KEY (dataset, analyst, "key"), 
	FOREIGN KEY(entry) REFERENCES entries (id)
);
CREATE TABLE grants (
	id INTEGER NOT NULL, 
	dataset TEXT NOT NULL, 
	analyst TEXT NOT NULL, 
	time TEXT NOT NULL, 
	limit_units BIGINT NOT NULL CHECK (limit_units >= 0), 
	expires TEXT, 
	reason TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "grants" VALUES(1,'adult','ann','2026-11-16T16:56:43.354587+00:00',400000000000,NULL,'thesis','carol');
CREATE TABLE jobs (
	id TEXT NOT NULL, 
	dataset TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	request TEXT NOT NULL, 
	state TEXT NOT NULL, 
	stage TEXT NOT NULL, 
	error TEXT, 
	entry INTEGER, 
	cancel_asked BOOLEAN NOT NULL, 
	created TEXT NOT NULL, 
	heard TEXT NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(entry) REFERENCES entries (id)
);
INSERT INTO "jobs" VALUES('job','adult','ann','prepare','{"rho":0.02}','done','',NULL,7,0,'2026-11-16T16:56:43.433301+00:00','2026-11-16T16:56:43.551626+00:00');
CREATE TABLE limits (
	id INTEGER NOT NULL, 
	dataset TEXT NOT NULL, 
	time TEXT NOT NULL, 
	declared_units BIGINT NOT NULL, 
	top_up_units BIGINT NOT NULL, 
	delta DOUBLE NOT NULL, 
	reason TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "limits" VALUES(1,'adult','2026-11-16T16:56:43.303419+00:00',1000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(2,'census','2026-11-16T16:56:43.306712+00:00',500000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(3,'adult','2026-11-16T16:56:43.351393+00:00',2000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(4,'adult','2026-11-16T16:56:43.360751+00:00',2000000000000,500000000000,1.0e-06,'more','carol');
CREATE TABLE log (
	id INTEGER NOT NULL, 
	time TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	action TEXT NOT NULL, 
	dataset TEXT, 
	details TEXT NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "log" VALUES(1,'2026-11-16T16:56:43.303419+00:00','','data set opened','adult','{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-16T16:56:43.303419+00:00","top_up_units":0}}','0000000000000000000000000000000000000000000000000000000000000000','9b6ead0eb47318330eb1ab046b3c5762999928a333ddac7053986b6c0fa841a5');
INSERT INTO "log" VALUES(2,'2026-11-16T16:56:43.306712+00:00','','data set opened','census','{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-16T16:56:43.306712+00:00","top_up_units":0}}','9b6ead0eb47318330eb1ab046b3c5762999928a333ddac7053986b6c0fa841a5','da1f3bcc272377de7ce8764f521c6ef6e2b0b7a13f5b1fdfa27d32b0620684ef');
INSERT INTO "log" VALUES(3,'2026-11-16T16:56:43.329012+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-16T16:56:43.329012+00:00","total_units":100000000000}}','da1f3bcc272377de7ce8764f521c6ef6e2b0b7a13f5b1fdfa27d32b0620684ef','fa8c6ffa0f1cdd0b844cb489d643ca0f9a6195d17e05facd3eddc0f6a20d25b6');
INSERT INTO "log" VALUES(4,'2026-11-16T16:56:43.341701+00:00','','released','adult','{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}','fa8c6ffa0f1cdd0b844cb489d643ca0f9a6195d17e05facd3eddc0f6a20d25b6','c9c11b9a0dd5ac711d0e7d5062283877c07d2a922ebec215a60ef06511d07597');
INSERT INTO "log" VALUES(5,'2026-11-16T16:56:43.351393+00:00','','limit changed','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","own_units":100000000000,"request":null,"spends":[],"time":"2026-11-16T16:56:43.351393+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-16T16:56:43.351393+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}','c9c11b9a0dd5ac711d0e7d5062283877c07d2a922ebec215a60ef06511d07597','caa9fefdc3459ad08a5ee9a6f70b2dffdbfcd4cbb261afcb7ac3bf37a146ba25');
INSERT INTO "log" VALUES(6,'2026-11-16T16:56:43.353852+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-16T16:56:43.353852+00:00","total_units":600000000000}}','caa9fefdc3459ad08a5ee9a6f70b2dffdbfcd4cbb261afcb7ac3bf37a146ba25','5bf8611da32b379659a2794c2c2a4ed9099a39cf16a1a171e43e960efecae614');
INSERT INTO "log" VALUES(7,'2026-11-16T16:56:43.354587+00:00','carol','allowance granted','adult','{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-16T16:56:43.354587+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":null,"id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-16T16:56:43.354587+00:00"},"release":{"entry":4,"sha256":"419a990a7d74f3f364ef0d0e055cab20a4e4312e649185cee6c587e7a51da7d5"}}','5bf8611da32b379659a2794c2c2a4ed9099a39cf16a1a171e43e960efecae614','f1c6ed62253fd40b4f225ee9a42f9776a2e52e3185d166fdaf563fa7c9a3095c');
INSERT INTO "log" VALUES(8,'2026-11-16T16:56:43.360751+00:00','carol','topped up','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","own_units":600000000000,"request":null,"spends":[],"time":"2026-11-16T16:56:43.360751+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-16T16:56:43.360751+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}','f1c6ed62253fd40b4f225ee9a42f9776a2e52e3185d166fdaf563fa7c9a3095c','1241a0237929cdad0a85d60da21e75f08a662935c96e6fa4ffd986b3b8257c84');
INSERT INTO "log" VALUES(9,'2026-11-16T16:56:43.369717+00:00','ann','data version opened','adult','{"version":{"by":"ann","dataset":"adult","fingerprint":"0e3668859d4819b9509714193197752e2df99a8189b3c83e7a4183dc435095f1","id":1,"secret_sha256":"130b99a6a7b28f2ebea2f7c3c0e1bd3e0ef1519c9d31541138f00886a9e10179","time":"2026-11-16T16:56:43.369717+00:00","version":"2026-11"}}','1241a0237929cdad0a85d60da21e75f08a662935c96e6fa4ffd986b3b8257c84','fd58ad6d0896191e6c7270755afd20f0a235a39a36241ef379f3e8784daf8e47');
INSERT INTO "log" VALUES(10,'2026-11-16T16:56:43.371779+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","declarations":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-16T16:56:43.371779+00:00","total_units":650000000000,"version":"2026-11"}}','fd58ad6d0896191e6c7270755afd20f0a235a39a36241ef379f3e8784daf8e47','a5d36b9e3d611fb81de7daeb282722a7cc2df75cf02f5d3ae2c162783828013e');
INSERT INTO "log" VALUES(11,'2026-11-16T16:56:43.373400+00:00','ann','released','adult','{"release":{"entry":6,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}','a5d36b9e3d611fb81de7daeb282722a7cc2df75cf02f5d3ae2c162783828013e','844de98ee8e74144ef7bca8fe7eeedc0ece3d4565fd992b3f5559269af43ba18');
INSERT INTO "log" VALUES(12,'2026-11-16T16:56:43.374784+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","declarations":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","description":"prepare","id":7,"key":"d","kind":"prepare","own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"subject":"subject of c","time":"2026-11-16T16:56:43.374784+00:00","total_units":670000000000,"version":"2026-11"}}','844de98ee8e74144ef7bca8fe7eeedc0ece3d4565fd992b3f5559269af43ba18','009a64e84e2e3d78b8391b3c2c6f5df7996c04e0a98387c50214208cb2aa3a61');
INSERT INTO "log" VALUES(13,'2026-11-16T16:56:43.384423+00:00','ann','released','adult','{"release":{"entry":7,"sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"}}','009a64e84e2e3d78b8391b3c2c6f5df7996c04e0a98387c50214208cb2aa3a61','47da0c463679aa494b51736cb3432e0d7cc1223296b8d1b16dabe7f10bfe4606');
INSERT INTO "log" VALUES(14,'2026-11-16T16:56:43.386233+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-16T16:56:43.386233+00:00"}}','47da0c463679aa494b51736cb3432e0d7cc1223296b8d1b16dabe7f10bfe4606','de7a32b2049e840c473a34c0d0dd00cd8a93cab55b1d8213515019ca2809bfe4');
INSERT INTO "log" VALUES(15,'2026-11-16T16:56:43.395528+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-16T16:56:43.395528+00:00"}}','de7a32b2049e840c473a34c0d0dd00cd8a93cab55b1d8213515019ca2809bfe4','4417f37daab8d3c13c6100e1e68269e71b1070a000fe9459fd99fc2a9634f171');
INSERT INTO "log" VALUES(16,'2026-11-16T16:56:43.415666+00:00','carol','unshared','adult','{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-16T16:56:43.415666+00:00"}}','4417f37daab8d3c13c6100e1e68269e71b1070a000fe9459fd99fc2a9634f171','3c80cc15469de93c62c6e5e9cda199325f0ed5f23b945170cf8db5b9e06df011');
INSERT INTO "log" VALUES(17,'2026-11-16T16:56:43.416435+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-16T16:56:43.416435+00:00","expires":"2100-01-01T00:00:00+00:00","id":"76d96dcfb0a6","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"9399b92be9446d90f647f939b0ea06985707a08f0c7539353a68a4523632ce35"}}','3c80cc15469de93c62c6e5e9cda199325f0ed5f23b945170cf8db5b9e06df011','e84d80a95b4fa71f06e183c6bbf920690bf4d7ec1c3df948ca286a65b71827f5');
INSERT INTO "log" VALUES(18,'2026-11-16T16:56:43.424676+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-16T16:56:43.424676+00:00","expires":"2100-01-01T00:00:00+00:00","id":"cff3e29d6413","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"0deb912b2c96572f6d2702e8621f675901e9ce8db207293a1f892201b7d55aa4"}}','e84d80a95b4fa71f06e183c6bbf920690bf4d7ec1c3df948ca286a65b71827f5','a3dd8481e67590ea77d6721a43a4c65818549890f26476b0a6798e6363ac5c23');
INSERT INTO "log" VALUES(19,'2026-11-16T16:56:43.431608+00:00','carol','token revoked',NULL,'{"revocation":{"by":"carol","time":"2026-11-16T16:56:43.431608+00:00","token":"cff3e29d6413"}}','a3dd8481e67590ea77d6721a43a4c65818549890f26476b0a6798e6363ac5c23','5b8d0d88808fb7990ed1d28c482f4fa648100f9c099ef686421228c28223781b');
INSERT INTO "log" VALUES(20,'2026-11-16T16:56:43.553771+00:00','carol','schema edited','adult','{"column":"age"}','5b8d0d88808fb7990ed1d28c482f4fa648100f9c099ef686421228c28223781b','9e74490f4ea0ef7f0ea248a1080c097ccdf01e315fb97ec9ada04340aeb77e4e');
CREATE TABLE processes (
	id TEXT NOT NULL, 
	heard TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE releases (
	entry INTEGER NOT NULL, 
	payload TEXT NOT NULL, 
	PRIMARY KEY (entry), 
	FOREIGN KEY(entry) REFERENCES entries (id)
);
INSERT INTO "releases" VALUES(1,'{"Zürich": 1}');
INSERT INTO "releases" VALUES(2,'{"old_limit": 1, "new_limit": 2}');
INSERT INTO "releases" VALUES(4,'{"analyst": "ann", "limit": 0.4, "expires": null, "reason": "thesis"}');
INSERT INTO "releases" VALUES(5,'{"old_limit": 2, "new_limit": 2.5, "reason": "more"}');
INSERT INTO "releases" VALUES(6,'{}');
INSERT INTO "releases" VALUES(7,'[]');
CREATE TABLE revocations (
	token TEXT NOT NULL, 
	time TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	PRIMARY KEY (token), 
	FOREIGN KEY(token) REFERENCES tokens (id)
);
INSERT INTO "revocations" VALUES('cff3e29d6413','2026-11-16T16:56:43.431608+00:00','carol');
CREATE TABLE sessions (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	role TEXT NOT NULL, 
	secret_hash TEXT NOT NULL, 
	created TEXT NOT NULL, 
	expires TEXT NOT NULL, 
	token TEXT, 
	PRIMARY KEY (id), 
	FOREIGN KEY(token) REFERENCES tokens (id)
);
CREATE TABLE shares (
	id INTEGER NOT NULL, 
	dataset TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	reader TEXT NOT NULL, 
	shared BOOLEAN NOT NULL, 
	time TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "shares" VALUES(1,'adult','ann','ben',1,'2026-11-16T16:56:43.386233+00:00','together','carol');
INSERT INTO "shares" VALUES(2,'adult','ann','*',1,'2026-11-16T16:56:43.395528+00:00','all','carol');
INSERT INTO "shares" VALUES(3,'adult','ann','*',0,'2026-11-16T16:56:43.415666+00:00','not all','carol');
CREATE TABLE tokens (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	role TEXT NOT NULL, 
	secret_hash TEXT NOT NULL, 
	created TEXT NOT NULL, 
	expires TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	parent TEXT, 
	maker TEXT, 
	PRIMARY KEY (id), 
	FOREIGN KEY(parent) REFERENCES tokens (id), 
	FOREIGN KEY(maker) REFERENCES tokens (id)
);
INSERT INTO "tokens" VALUES('76d96dcfb0a6','ann','analyst','sha256$ad4e4fc4e033d96a4b1e605de4c299a02fa104913b6fca1c4aef1e0b04b0cb9e','2026-11-16T16:56:43.416435+00:00','2100-01-01T00:00:00+00:00','carol',NULL,NULL);
INSERT INTO "tokens" VALUES('cff3e29d6413','ben','curator','sha256$a233b5c5fa8af3ebb138628657f5999b1c11973fab682a852a15bead53b314ad','2026-11-16T16:56:43.424676+00:00','2100-01-01T00:00:00+00:00','carol',NULL,NULL);
CREATE TABLE versions (
	id INTEGER NOT NULL, 
	dataset TEXT NOT NULL, 
	version TEXT NOT NULL, 
	time TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	secret TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "versions" VALUES(1,'adult','2026-11','2026-11-16T16:56:43.369717+00:00','ann','e6cde5c57a934e32efceb3c7d61291ef93ebdba58b408f03c32af8249ee19c16','0e3668859d4819b9509714193197752e2df99a8189b3c83e7a4183dc435095f1');
CREATE INDEX limits_by_dataset ON limits (dataset, id);
CREATE INDEX grants_by_analyst ON grants (dataset, analyst, id);
CREATE INDEX entries_by_analyst ON entries (dataset, analyst, id, charge_units, total_units, own_units);
CREATE INDEX entries_by_key ON entries (dataset, "key", id);
CREATE INDEX entries_in_order ON entries (dataset, id);
CREATE INDEX entries_by_subject ON entries (dataset, kind, subject);
CREATE INDEX entries_by_kind ON entries (dataset, kind, id);
CREATE INDEX shares_by_reader ON shares (dataset, reader, id);
CREATE INDEX tokens_by_maker ON tokens (maker);
CREATE INDEX log_by_action ON log (dataset, action, id);
CREATE UNIQUE INDEX versions_by_name ON versions (dataset, version);
CREATE INDEX sessions_by_holder ON sessions (name, token);
CREATE INDEX flights_by_entry ON flights (entry);
CREATE TRIGGER limits_keeps_its_rows_on_UPDATE BEFORE UPDATE ON limits
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER limits_keeps_its_rows_on_DELETE BEFORE DELETE ON limits
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER limits_keeps_its_rows_on_INSERT BEFORE INSERT ON limits
WHEN EXISTS (SELECT 1 FROM limits WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER grants_keeps_its_rows_on_UPDATE BEFORE UPDATE ON grants
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER grants_keeps_its_rows_on_DELETE BEFORE DELETE ON grants
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER grants_keeps_its_rows_on_INSERT BEFORE INSERT ON grants
WHEN EXISTS (SELECT 1 FROM grants WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entries_keeps_its_rows_on_UPDATE BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entries_keeps_its_rows_on_DELETE BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entries_keeps_its_rows_on_INSERT BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER releases_keeps_its_rows_on_UPDATE BEFORE UPDATE ON releases
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER releases_keeps_its_rows_on_DELETE BEFORE DELETE ON releases
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER releases_keeps_its_rows_on_INSERT BEFORE INSERT ON releases
WHEN EXISTS (SELECT 1 FROM releases WHERE entry = NEW.entry OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER shares_keeps_its_rows_on_UPDATE BEFORE UPDATE ON shares
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER shares_keeps_its_rows_on_DELETE BEFORE DELETE ON shares
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER shares_keeps_its_rows_on_INSERT BEFORE INSERT ON shares
WHEN EXISTS (SELECT 1 FROM shares WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER tokens_keeps_its_rows_on_UPDATE BEFORE UPDATE ON tokens
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER tokens_keeps_its_rows_on_DELETE BEFORE DELETE ON tokens
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER tokens_keeps_its_rows_on_INSERT BEFORE INSERT ON tokens
WHEN EXISTS (SELECT 1 FROM tokens WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER revocations_keeps_its_rows_on_UPDATE BEFORE UPDATE ON revocations
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER revocations_keeps_its_rows_on_DELETE BEFORE DELETE ON revocations
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER revocations_keeps_its_rows_on_INSERT BEFORE INSERT ON revocations
WHEN EXISTS (SELECT 1 FROM revocations WHERE token = NEW.token OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER versions_keeps_its_rows_on_UPDATE BEFORE UPDATE ON versions
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER versions_keeps_its_rows_on_DELETE BEFORE DELETE ON versions
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER versions_keeps_its_rows_on_INSERT BEFORE INSERT ON versions
WHEN EXISTS (SELECT 1 FROM versions WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER log_keeps_its_rows_on_UPDATE BEFORE UPDATE ON log
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER log_keeps_its_rows_on_DELETE BEFORE DELETE ON log
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER log_keeps_its_rows_on_INSERT BEFORE INSERT ON log
WHEN EXISTS (SELECT 1 FROM log WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
COMMIT;
