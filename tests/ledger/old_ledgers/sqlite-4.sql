PRAGMA application_id = 1146116176;
PRAGMA user_version = 4;
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
	PRIMARY KEY (id)
);
INSERT INTO "entries" VALUES(1,'adult','','2026-11-16T10:42:49.643805+00:00','query','a','SELECT COUNT(*) FROM adult',100000000000,100000000000,100000000000,'[["gaussian",0.1]]',NULL,NULL);
INSERT INTO "entries" VALUES(2,'adult','','2026-11-16T10:42:49.651167+00:00','limit','','limit changed from rho 1 to rho 2',0,100000000000,100000000000,'[]',NULL,NULL);
INSERT INTO "entries" VALUES(3,'adult','','2026-11-16T10:42:49.652958+00:00','explain','b','why',500000000000,600000000000,600000000000,'[["top-k",0.25],["gaussian",0.25]]',NULL,NULL);
INSERT INTO "entries" VALUES(4,'adult','ann','2026-11-16T10:42:49.654183+00:00','grant','','allowance set to rho 0.4: thesis',0,600000000000,0,'[]',NULL,NULL);
INSERT INTO "entries" VALUES(5,'adult','','2026-11-16T10:42:49.657112+00:00','top-up','','limit raised to rho 2.5: more',0,600000000000,600000000000,'[]',NULL,NULL);
INSERT INTO "entries" VALUES(6,'adult','ann','2026-11-16T10:42:49.658904+00:00','query','c','SELECT AVG(age) FROM adult',50000000000,650000000000,50000000000,'[["gaussian",0.05]]','{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}',NULL);
INSERT INTO "entries" VALUES(7,'adult','ann','2026-11-16T10:42:49.660935+00:00','prepare','d','prepare',20000000000,670000000000,70000000000,'[["gaussian",0.02]]','{"prepare":{"rho":0.02}}','subject of c');
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
INSERT INTO "grants" VALUES(1,'adult','ann','2026-11-16T10:42:49.654183+00:00',400000000000,'2100-01-01T00:00:00+00:00','thesis','carol');
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
INSERT INTO "jobs" VALUES('job','adult','ann','explain','{"k":5}','done','ready',NULL,7,0,'2026-11-16T10:42:49.681546+00:00','2026-11-16T10:42:49.685711+00:00');
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
INSERT INTO "limits" VALUES(1,'adult','2026-11-16T10:42:49.631621+00:00',1000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(2,'census','2026-11-16T10:42:49.637240+00:00',500000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(3,'adult','2026-11-16T10:42:49.651167+00:00',2000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(4,'adult','2026-11-16T10:42:49.657112+00:00',2000000000000,500000000000,1.0e-06,'more','carol');
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
INSERT INTO "log" VALUES(1,'2026-11-16T10:42:49.631621+00:00','','data set opened','adult','{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-16T10:42:49.631621+00:00","top_up_units":0}}','0000000000000000000000000000000000000000000000000000000000000000','8176341f1d3bccc5e99a0dc8da20ba78462ac905b8a496f0eeebd7be2fb91fc2');
INSERT INTO "log" VALUES(2,'2026-11-16T10:42:49.637240+00:00','','data set opened','census','{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-16T10:42:49.637240+00:00","top_up_units":0}}','8176341f1d3bccc5e99a0dc8da20ba78462ac905b8a496f0eeebd7be2fb91fc2','e111c35ced4153024d4d774dc392f5112d11a3a2a13901ab0d6d995c08766c2b');
INSERT INTO "log" VALUES(3,'2026-11-16T10:42:49.643805+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-16T10:42:49.643805+00:00","total_units":100000000000}}','e111c35ced4153024d4d774dc392f5112d11a3a2a13901ab0d6d995c08766c2b','bc634e33ff2340551cc367694632cf1581efab9ff457ed034229709805d31022');
INSERT INTO "log" VALUES(4,'2026-11-16T10:42:49.650009+00:00','','released','adult','{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}','bc634e33ff2340551cc367694632cf1581efab9ff457ed034229709805d31022','f7b576b97fbea4af375cf03c64ee51fc0430f3a56a5cb5f348deaad46183ff4e');
INSERT INTO "log" VALUES(5,'2026-11-16T10:42:49.651167+00:00','','limit changed','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","own_units":100000000000,"request":null,"spends":[],"time":"2026-11-16T10:42:49.651167+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-16T10:42:49.651167+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}','f7b576b97fbea4af375cf03c64ee51fc0430f3a56a5cb5f348deaad46183ff4e','e3029c75400ccbaafb4baee3a0e59af17360a219899334b0ca46832ed3006f9d');
INSERT INTO "log" VALUES(6,'2026-11-16T10:42:49.652958+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-16T10:42:49.652958+00:00","total_units":600000000000}}','e3029c75400ccbaafb4baee3a0e59af17360a219899334b0ca46832ed3006f9d','663d8d98db573a791be0f1a36978715461b5fd2cc3e305a73d955f1e00d76692');
INSERT INTO "log" VALUES(7,'2026-11-16T10:42:49.654183+00:00','carol','allowance granted','adult','{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-16T10:42:49.654183+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":"2100-01-01T00:00:00+00:00","id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-16T10:42:49.654183+00:00"},"release":{"entry":4,"sha256":"cc2cae78d2ff9451737f415ca93de80e79ba30dcf85175e049ff3c493aea3cbe"}}','663d8d98db573a791be0f1a36978715461b5fd2cc3e305a73d955f1e00d76692','b35311c486b7d11e9565b6b6d74fd6d16b046111597fabe527a202c7e180a29f');
INSERT INTO "log" VALUES(8,'2026-11-16T10:42:49.657112+00:00','carol','topped up','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","own_units":600000000000,"request":null,"spends":[],"time":"2026-11-16T10:42:49.657112+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-16T10:42:49.657112+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}','b35311c486b7d11e9565b6b6d74fd6d16b046111597fabe527a202c7e180a29f','6306a92f8238ce8cfcc936eeb3df722867daa9febe15f97eb2817964561236ab');
INSERT INTO "log" VALUES(9,'2026-11-16T10:42:49.658904+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-16T10:42:49.658904+00:00","total_units":650000000000}}','6306a92f8238ce8cfcc936eeb3df722867daa9febe15f97eb2817964561236ab','27dd153c406c1d11db8bebc3b858076853ea79070dd455966abcbc2a5546339c');
INSERT INTO "log" VALUES(10,'2026-11-16T10:42:49.660256+00:00','ann','released','adult','{"release":{"entry":6,"sha256":"829c902747322f4e1abfd8f821775bfac605fffd8249e3ab9fa0417aadca8229"}}','27dd153c406c1d11db8bebc3b858076853ea79070dd455966abcbc2a5546339c','048d58d0ae4b94626db4339f5cd1d7a7b075c416151b13baf2c0147f1c14519b');
INSERT INTO "log" VALUES(11,'2026-11-16T10:42:49.660935+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","description":"prepare","id":7,"key":"d","kind":"prepare","own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"subject":"subject of c","time":"2026-11-16T10:42:49.660935+00:00","total_units":670000000000}}','048d58d0ae4b94626db4339f5cd1d7a7b075c416151b13baf2c0147f1c14519b','7e13a9b345d93893649e533cdbe21c3f77b6e8a8cc531fa1abe1367064110e7b');
INSERT INTO "log" VALUES(12,'2026-11-16T10:42:49.662115+00:00','ann','released','adult','{"release":{"entry":7,"sha256":"649ddc83544abe3fe9288eabc9ad3ed9abb319ed1425e7e5eaafdc91ccbe0a3c"}}','7e13a9b345d93893649e533cdbe21c3f77b6e8a8cc531fa1abe1367064110e7b','b85aa6943607714a99a5a323b68ef9fb2c3f1f6b9f92b4b03a29fea368a1b421');
INSERT INTO "log" VALUES(13,'2026-11-16T10:42:49.664666+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-16T10:42:49.664666+00:00"}}','b85aa6943607714a99a5a323b68ef9fb2c3f1f6b9f92b4b03a29fea368a1b421','5744b0aeef1f5720c503102239414f92e38b869731035ffca7a3ee0121055540');
INSERT INTO "log" VALUES(14,'2026-11-16T10:42:49.667284+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-16T10:42:49.667284+00:00"}}','5744b0aeef1f5720c503102239414f92e38b869731035ffca7a3ee0121055540','304245170328978d7d2cc2badbc3d798889322ae6740dbf79b10c7092cda1391');
INSERT INTO "log" VALUES(15,'2026-11-16T10:42:49.668573+00:00','carol','unshared','adult','{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-16T10:42:49.668573+00:00"}}','304245170328978d7d2cc2badbc3d798889322ae6740dbf79b10c7092cda1391','ec495b0926bd8e9b9b08383e9bfef5986493db5efc2b16544c1d41ebd289b347');
INSERT INTO "log" VALUES(16,'2026-11-16T10:42:49.669227+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-16T10:42:49.669227+00:00","expires":"2100-01-01T00:00:00+00:00","id":"cd736166e7c3","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"4c05d503635303e13e6b83bfe30c14e2355c88275e7f0c3ec4048368340eb2ff"}}','ec495b0926bd8e9b9b08383e9bfef5986493db5efc2b16544c1d41ebd289b347','debb3491545480e7255bf488f44a8f84c63dd1ea9dcb7f5c71ace71ef1193eb8');
INSERT INTO "log" VALUES(17,'2026-11-16T10:42:49.671837+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-16T10:42:49.671837+00:00","expires":"2100-01-01T00:00:00+00:00","id":"f183dde0b04e","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"3c29fc1f3dd8e5c60ddda20ae40e13b7098b0adaf0edec4a53e7426bcbf318c9"}}','debb3491545480e7255bf488f44a8f84c63dd1ea9dcb7f5c71ace71ef1193eb8','63dd00a618e54d56a9de4d95f5d006b7eb6d755b109442329be8ced982171394');
INSERT INTO "log" VALUES(18,'2026-11-16T10:42:49.675193+00:00','carol','token revoked',NULL,'{"revocation":{"by":"carol","time":"2026-11-16T10:42:49.675193+00:00","token":"f183dde0b04e"}}','63dd00a618e54d56a9de4d95f5d006b7eb6d755b109442329be8ced982171394','8352507d7ebadd3c679cb9815f48e2063d04b9165670d6b8cdc4c4b1097c91d3');
INSERT INTO "log" VALUES(19,'2026-11-16T10:42:49.680124+00:00','ann','session created',NULL,'{"token":{"by":"ann","created":"2026-11-16T10:42:49.680124+00:00","expires":"2026-11-16T22:42:49.680082+00:00","id":"3e77844b4528","name":"ann","parent":"cd736166e7c3","role":"analyst","secret_hash_sha256":"6af5015beb2c3bcb1141eff53fbe41e03f2c16a5894c48e6fa28b1844042f994"}}','8352507d7ebadd3c679cb9815f48e2063d04b9165670d6b8cdc4c4b1097c91d3','124a6e3af8c58dae5667598d81e4f0e12b7bb05f94272ce0ff076e799e3b8ad0');
INSERT INTO "log" VALUES(20,'2026-11-16T10:42:49.681266+00:00','carol','schema edited','adult','{"column":"age"}','124a6e3af8c58dae5667598d81e4f0e12b7bb05f94272ce0ff076e799e3b8ad0','aa10722f962055d9f1789d6840a5518bc29b530f91c63a30a3da1a2a82aae652');
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
INSERT INTO "revocations" VALUES('f183dde0b04e','2026-11-16T10:42:49.675193+00:00','carol');
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
INSERT INTO "shares" VALUES(1,'adult','ann','ben',1,'2026-11-16T10:42:49.664666+00:00','together','carol');
INSERT INTO "shares" VALUES(2,'adult','ann','*',1,'2026-11-16T10:42:49.667284+00:00','all','carol');
INSERT INTO "shares" VALUES(3,'adult','ann','*',0,'2026-11-16T10:42:49.668573+00:00','not all','carol');
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
INSERT INTO "tokens" VALUES('cd736166e7c3','ann','analyst','sha256$536b0c12ef726e0695669385a75daa35501f4d66f36d76f1d9a137a7d4aff461','2026-11-16T10:42:49.669227+00:00','2100-01-01T00:00:00+00:00','carol',NULL);
INSERT INTO "tokens" VALUES('f183dde0b04e','ben','curator','sha256$f766537a529341c749e2eaa9cfc38f001c80c43bcb867ea25095ef8803dacf3f','2026-11-16T10:42:49.671837+00:00','2100-01-01T00:00:00+00:00','carol',NULL);
INSERT INTO "tokens" VALUES('3e77844b4528','ann','analyst','sha256$8c212795dde08b854de3fb3f2780b4cc20bd0dfaad39f323293db5fd04ec6950','2026-11-16T10:42:49.680124+00:00','2026-11-16T22:42:49.680082+00:00','ann','cd736166e7c3');
CREATE INDEX limits_by_dataset ON limits (dataset, id);
CREATE INDEX grants_by_analyst ON grants (dataset, analyst, id);
CREATE INDEX entries_by_key ON entries (dataset, "key", id);
CREATE INDEX entries_by_subject ON entries (dataset, kind, subject);
CREATE INDEX entries_by_analyst ON entries (dataset, analyst, id, charge_units, total_units, own_units);
CREATE INDEX entries_in_order ON entries (dataset, id);
CREATE INDEX entries_by_kind ON entries (dataset, kind, id);
CREATE INDEX shares_by_reader ON shares (dataset, reader, id);
CREATE INDEX log_by_action ON log (dataset, action, id);
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
