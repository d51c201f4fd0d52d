PRAGMA application_id = 1146116176;
PRAGMA user_version = 3;
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
	PRIMARY KEY (id)
);
INSERT INTO "entries" VALUES(1,'adult','','2026-11-16T07:08:57.146576+00:00','query','a','SELECT COUNT(*) FROM adult',100000000000,100000000000,100000000000,'[["gaussian",0.1]]',NULL);
INSERT INTO "entries" VALUES(2,'adult','','2026-11-16T07:08:57.163997+00:00','limit','','limit changed from rho 1 to rho 2',0,100000000000,100000000000,'[]',NULL);
INSERT INTO "entries" VALUES(3,'adult','','2026-11-16T07:08:57.167814+00:00','explain','b','why',500000000000,600000000000,600000000000,'[["top-k",0.25],["gaussian",0.25]]',NULL);
INSERT INTO "entries" VALUES(4,'adult','ann','2026-11-16T07:08:57.171711+00:00','grant','','allowance set to rho 0.4: thesis',0,600000000000,0,'[]',NULL);
INSERT INTO "entries" VALUES(5,'adult','','2026-11-16T07:08:57.179371+00:00','top-up','','limit raised to rho 2.5: more',0,600000000000,600000000000,'[]',NULL);
INSERT INTO "entries" VALUES(6,'adult','ann','2026-11-16T07:08:57.188131+00:00','query','c','SELECT AVG(age) FROM adult',50000000000,650000000000,50000000000,'[["gaussian",0.05]]','{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}');
INSERT INTO "entries" VALUES(7,'adult','ann','2026-11-16T07:08:57.195963+00:00','prepare','d','prepare',20000000000,670000000000,70000000000,'[["gaussian",0.02]]','{"prepare":{"rho":0.02}}');
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
INSERT INTO "grants" VALUES(1,'adult','ann','2026-11-16T07:08:57.171711+00:00',400000000000,'2100-01-01T00:00:00+00:00','thesis','carol');
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
INSERT INTO "jobs" VALUES('job','adult','ann','explain','{"k":5}','done','ready',NULL,7,0,'2026-11-16T07:08:58.046172+00:00','2026-11-16T07:08:58.100804+00:00');
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
INSERT INTO "limits" VALUES(1,'adult','2026-11-16T07:08:57.015754+00:00',1000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(2,'census','2026-11-16T07:08:57.031938+00:00',500000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(3,'adult','2026-11-16T07:08:57.163997+00:00',2000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(4,'adult','2026-11-16T07:08:57.179371+00:00',2000000000000,500000000000,1.0e-06,'more','carol');
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
INSERT INTO "log" VALUES(1,'2026-11-16T07:08:57.015754+00:00','','data set opened','adult','{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-16T07:08:57.015754+00:00","top_up_units":0}}','0000000000000000000000000000000000000000000000000000000000000000','1e3e2895b5d599debe223dffbf0e29379930061651648d36a12fb945aa938ef1');
INSERT INTO "log" VALUES(2,'2026-11-16T07:08:57.031938+00:00','','data set opened','census','{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-16T07:08:57.031938+00:00","top_up_units":0}}','1e3e2895b5d599debe223dffbf0e29379930061651648d36a12fb945aa938ef1','bcf73997650e060850c0c5555adae4244cbc16542a017a8c158eef9051fb2914');
INSERT INTO "log" VALUES(3,'2026-11-16T07:08:57.146576+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-16T07:08:57.146576+00:00","total_units":100000000000}}','bcf73997650e060850c0c5555adae4244cbc16542a017a8c158eef9051fb2914','3620e45a40413dfcfdbef0b69cf20594ba9c65cfcaa4ac0567d8355aee5e03b1');
INSERT INTO "log" VALUES(4,'2026-11-16T07:08:57.162395+00:00','','released','adult','{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}','3620e45a40413dfcfdbef0b69cf20594ba9c65cfcaa4ac0567d8355aee5e03b1','0f18aa7eb158c09f42b7149463216bbd19ca5981eff0ccaf9dab6de68f9439a7');
INSERT INTO "log" VALUES(5,'2026-11-16T07:08:57.163997+00:00','','limit changed','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","own_units":100000000000,"request":null,"spends":[],"time":"2026-11-16T07:08:57.163997+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-16T07:08:57.163997+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}','0f18aa7eb158c09f42b7149463216bbd19ca5981eff0ccaf9dab6de68f9439a7','6a337db61e5e86306e50f4905544950a286450ff0445f96a6b58b8490bc7ab53');
INSERT INTO "log" VALUES(6,'2026-11-16T07:08:57.167814+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-16T07:08:57.167814+00:00","total_units":600000000000}}','6a337db61e5e86306e50f4905544950a286450ff0445f96a6b58b8490bc7ab53','f4c1f71c51eda6f2559b490ffc55c3f43d0d681e089b9e9e7ea2ef64e2a771ad');
INSERT INTO "log" VALUES(7,'2026-11-16T07:08:57.171711+00:00','carol','allowance granted','adult','{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-16T07:08:57.171711+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":"2100-01-01T00:00:00+00:00","id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-16T07:08:57.171711+00:00"},"release":{"entry":4,"sha256":"cc2cae78d2ff9451737f415ca93de80e79ba30dcf85175e049ff3c493aea3cbe"}}','f4c1f71c51eda6f2559b490ffc55c3f43d0d681e089b9e9e7ea2ef64e2a771ad','29684bcef71bf8a0e1cd91f40948af6417ef7e70d271f7e64e0a84b300ca7b9d');
INSERT INTO "log" VALUES(8,'2026-11-16T07:08:57.179371+00:00','carol','topped up','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","own_units":600000000000,"request":null,"spends":[],"time":"2026-11-16T07:08:57.179371+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-16T07:08:57.179371+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}','29684bcef71bf8a0e1cd91f40948af6417ef7e70d271f7e64e0a84b300ca7b9d','da12152af28a6b17b0ef595ac8cc7d33c3a18e34148ac4b12ca26cca2ca84000');
INSERT INTO "log" VALUES(9,'2026-11-16T07:08:57.188131+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-16T07:08:57.188131+00:00","total_units":650000000000}}','da12152af28a6b17b0ef595ac8cc7d33c3a18e34148ac4b12ca26cca2ca84000','58aecc863af00731fda2462950c89bbfa8f9a7c30b303fa43523bde45b27e003');
INSERT INTO "log" VALUES(10,'2026-11-16T07:08:57.191805+00:00','ann','released','adult','{"release":{"entry":6,"sha256":"829c902747322f4e1abfd8f821775bfac605fffd8249e3ab9fa0417aadca8229"}}','58aecc863af00731fda2462950c89bbfa8f9a7c30b303fa43523bde45b27e003','3587657b40aa60e5e0ed694dffb75dc127bf6c0a5331b5b1bb35fb6a725f7a18');
INSERT INTO "log" VALUES(11,'2026-11-16T07:08:57.195963+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","description":"prepare","id":7,"key":"d","kind":"prepare","own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"time":"2026-11-16T07:08:57.195963+00:00","total_units":670000000000}}','3587657b40aa60e5e0ed694dffb75dc127bf6c0a5331b5b1bb35fb6a725f7a18','b6f9fbc3c4dddcf3cbbdc629b6d2cc711461b15a161e527876d5dc8bf0f78705');
INSERT INTO "log" VALUES(12,'2026-11-16T07:08:57.227989+00:00','ann','released','adult','{"release":{"entry":7,"sha256":"649ddc83544abe3fe9288eabc9ad3ed9abb319ed1425e7e5eaafdc91ccbe0a3c"}}','b6f9fbc3c4dddcf3cbbdc629b6d2cc711461b15a161e527876d5dc8bf0f78705','a15054f504c41f5521fa979055c009a838fc56d1019d29dc0455409bddd79b44');
INSERT INTO "log" VALUES(13,'2026-11-16T07:08:57.236856+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-16T07:08:57.236856+00:00"}}','a15054f504c41f5521fa979055c009a838fc56d1019d29dc0455409bddd79b44','ff97a2eb7edcd4a1b5253831c81e897cbbb6a5d34889af2aefe8673aec4bb9f2');
INSERT INTO "log" VALUES(14,'2026-11-16T07:08:57.252699+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-16T07:08:57.252699+00:00"}}','ff97a2eb7edcd4a1b5253831c81e897cbbb6a5d34889af2aefe8673aec4bb9f2','d2fabc36078ea92f68c29664203bf8a2ec0c5f482737ba6dfe4ce175ce312525');
INSERT INTO "log" VALUES(15,'2026-11-16T07:08:57.272484+00:00','carol','unshared','adult','{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-16T07:08:57.272484+00:00"}}','d2fabc36078ea92f68c29664203bf8a2ec0c5f482737ba6dfe4ce175ce312525','e62dc7b54ee80ecbf59435bcdde9b4323f9b2bb31ad473aeef494468f4463c36');
INSERT INTO "log" VALUES(16,'2026-11-16T07:08:57.286711+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-16T07:08:57.286711+00:00","expires":"2100-01-01T00:00:00+00:00","id":"1319121e2717","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"271163a2ba0ee2e28b8dc244abeee199a70e24d1867aea54dff2f516e509b58c"}}','e62dc7b54ee80ecbf59435bcdde9b4323f9b2bb31ad473aeef494468f4463c36','f0a06d277ccf7a6298cb64a66675b0de54049e7b9ba5f89af53c9227d3f4749d');
INSERT INTO "log" VALUES(17,'2026-11-16T07:08:57.547384+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-16T07:08:57.547384+00:00","expires":"2100-01-01T00:00:00+00:00","id":"9518261adbbc","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"41fd257a1f2c30d4f0050d6e1ef8775fd726845510bb3fe10ada9fc1df7eef56"}}','f0a06d277ccf7a6298cb64a66675b0de54049e7b9ba5f89af53c9227d3f4749d','2af65d301c01d09f4772a882d66397a37cc7a7bb06d57f7a44773cf912d5e016');
INSERT INTO "log" VALUES(18,'2026-11-16T07:08:57.768218+00:00','carol','token revoked',NULL,'{"revocation":{"by":"carol","time":"2026-11-16T07:08:57.768218+00:00","token":"9518261adbbc"}}','2af65d301c01d09f4772a882d66397a37cc7a7bb06d57f7a44773cf912d5e016','8a045362ec556ab95aaa64b36462c5b24f5837ccca6d0d73507f45f96048dce5');
INSERT INTO "log" VALUES(19,'2026-11-16T07:08:57.788057+00:00','ann','session created',NULL,'{"token":{"by":"ann","created":"2026-11-16T07:08:57.788057+00:00","expires":"2026-11-16T19:08:57.788017+00:00","id":"95aa64dd92a4","name":"ann","parent":"1319121e2717","role":"analyst","secret_hash_sha256":"e96e56fc2c5ad9906528d27035ba1251952a361e944e449636e32bd6caae4060"}}','8a045362ec556ab95aaa64b36462c5b24f5837ccca6d0d73507f45f96048dce5','039beddaf6116587a5a2aac9fb24fb78ef69d2a6931310e505f51889773a96de');
INSERT INTO "log" VALUES(20,'2026-11-16T07:08:58.039733+00:00','carol','schema edited','adult','{"column":"age"}','039beddaf6116587a5a2aac9fb24fb78ef69d2a6931310e505f51889773a96de','b53000b8bf1533453fbdef9ff1d8f93999b9f3debed40885c11d8b0b7aadc117');
CREATE TABLE releases (
	entry INTEGER NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (entry),
	FOREIGN KEY(entry) REFERENCES entries (id)
);
INSERT INTO "releases" VALUES(1,'{"Zürich": 1}');
INSERT INTO "releases" VALUES(2,'{"old_limit": 1, "new_limit": 2}');
INSERT INTO "releases" VALUES(4,'{"analyst": "ann", "limit": 0.4, "expires": "2100-01-01T00:00:00+00:00", "reason": "thesis"}');
INSERT INTO "releases" VALUES(5,'{"old_limit": 2, "new_limit": 2.5, "reason": "more"}');
INSERT INTO "releases" VALUES(6,'{"age": 38}');
INSERT INTO "releases" VALUES(7,'{"marginals": []}');
CREATE TABLE revocations (
	token TEXT NOT NULL,
	time TEXT NOT NULL,
	"by" TEXT NOT NULL,
	PRIMARY KEY (token),
	FOREIGN KEY(token) REFERENCES tokens (id)
);
INSERT INTO "revocations" VALUES('9518261adbbc','2026-11-16T07:08:57.768218+00:00','carol');
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
INSERT INTO "shares" VALUES(1,'adult','ann','ben',1,'2026-11-16T07:08:57.236856+00:00','together','carol');
INSERT INTO "shares" VALUES(2,'adult','ann','*',1,'2026-11-16T07:08:57.252699+00:00','all','carol');
INSERT INTO "shares" VALUES(3,'adult','ann','*',0,'2026-11-16T07:08:57.272484+00:00','not all','carol');
CREATE TABLE tokens (
	id TEXT NOT NULL,
	name TEXT NOT NULL,
	role TEXT NOT NULL,
	secret_hash TEXT NOT NULL,
	created TEXT NOT NULL,
	expires TEXT NOT NULL,
	"by" TEXT NOT NULL,
	parent TEXT,
	PRIMARY KEY (id),
	FOREIGN KEY(parent) REFERENCES tokens (id)
);
INSERT INTO "tokens" VALUES('1319121e2717','ann','analyst','scrypt-16384-8-1$c2a8bebe279462fbf1c5f5984f999a92$c206a7bed572edec7fc2fbf576ce7ce3d93bc86b91725f7b5089ee8f2391efb6e9bf99318b4bd69ff89554712a333a5fc0d2d281536224062d9a06aa817b4419','2026-11-16T07:08:57.286711+00:00','2100-01-01T00:00:00+00:00','carol',NULL);
INSERT INTO "tokens" VALUES('9518261adbbc','ben','curator','scrypt-16384-8-1$a9d50af22af3216a890e7b6588cf5d8b$d60ebfcecd1e34df3fe27ebdaed7067f8c685e2fcf345c2c66a28d9349518c6d7f9417d17fa92c60776f35b525e059cd6075e9915c696ddbb9febc3c0a111fdd','2026-11-16T07:08:57.547384+00:00','2100-01-01T00:00:00+00:00','carol',NULL);
INSERT INTO "tokens" VALUES('95aa64dd92a4','ann','analyst','scrypt-16384-8-1$8edf5b08ee3ecf4f355fea43a0fef13a$4e53516c7dabbb947ab8b178a7cdce0ea8ced2015cef2edd6f3fc7f3eb9984e66101a8357052f573c876b6c067ac2d31f24bb1ef41ef5d36a06cd66f4df39128','2026-11-16T07:08:57.788057+00:00','2026-11-16T19:08:57.788017+00:00','ann','1319121e2717');
CREATE INDEX limits_by_dataset ON limits (dataset, id);
CREATE INDEX grants_by_analyst ON grants (dataset, analyst, id);
CREATE INDEX entries_by_key ON entries (dataset, "key", id);
CREATE INDEX entries_in_order ON entries (dataset, id);
CREATE INDEX entries_by_analyst ON entries (dataset, analyst, id, charge_units, total_units, own_units);
CREATE INDEX shares_by_reader ON shares (dataset, reader, id);
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
CREATE TRIGGER log_keeps_its_rows_on_UPDATE BEFORE UPDATE ON log
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER log_keeps_its_rows_on_DELETE BEFORE DELETE ON log
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER log_keeps_its_rows_on_INSERT BEFORE INSERT ON log
WHEN EXISTS (SELECT 1 FROM log WHERE id = NEW.id OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
COMMIT;
