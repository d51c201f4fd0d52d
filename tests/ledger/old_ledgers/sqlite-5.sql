PRAGMA application_id = 1146116176;
PRAGMA user_version = 5;
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
	PRIMARY KEY (id)
);
INSERT INTO "entries" VALUES(1,'adult','','2026-11-16T13:10:00.225022+00:00','query','a','SELECT COUNT(*) FROM adult',100000000000,100000000000,100000000000,'[["gaussian",0.1]]',NULL,NULL,NULL);
INSERT INTO "entries" VALUES(2,'adult','','2026-11-16T13:10:00.235537+00:00','limit','','limit changed from rho 1 to rho 2',0,100000000000,100000000000,'[]',NULL,NULL,NULL);
INSERT INTO "entries" VALUES(3,'adult','','2026-11-16T13:10:00.239460+00:00','explain','b','why',500000000000,600000000000,600000000000,'[["top-k",0.25],["gaussian",0.25]]',NULL,NULL,NULL);
INSERT INTO "entries" VALUES(4,'adult','ann','2026-11-16T13:10:00.243309+00:00','grant','','allowance set to rho 0.4: thesis',0,600000000000,0,'[]',NULL,NULL,NULL);
INSERT INTO "entries" VALUES(5,'adult','','2026-11-16T13:10:00.247371+00:00','top-up','','limit raised to rho 2.5: more',0,600000000000,600000000000,'[]',NULL,NULL,NULL);
INSERT INTO "entries" VALUES(6,'adult','ann','2026-11-16T13:10:00.254444+00:00','query','c','SELECT AVG(age) FROM adult',50000000000,650000000000,50000000000,'[["gaussian",0.05]]','{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}',NULL,'2026-11');
INSERT INTO "entries" VALUES(7,'adult','ann','2026-11-16T13:10:00.277503+00:00','prepare','d','prepare',20000000000,670000000000,70000000000,'[["gaussian",0.02]]','{"prepare":{"rho":0.02}}','subject of c','2026-11');
CREATE TABLE file_states (
	version INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	PRIMARY KEY (version, state), 
	FOREIGN KEY(version) REFERENCES versions (id)
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
INSERT INTO "grants" VALUES(1,'adult','ann','2026-11-16T13:10:00.243309+00:00',400000000000,'2100-01-01T00:00:00+00:00','thesis','carol');
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
INSERT INTO "jobs" VALUES('job','adult','ann','explain','{"k":5}','done','ready',NULL,7,0,'2026-11-16T13:10:00.587724+00:00','2026-11-16T13:10:00.738017+00:00');
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
INSERT INTO "limits" VALUES(1,'adult','2026-11-16T13:10:00.207371+00:00',1000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(2,'census','2026-11-16T13:10:00.219788+00:00',500000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(3,'adult','2026-11-16T13:10:00.235537+00:00',2000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(4,'adult','2026-11-16T13:10:00.247371+00:00',2000000000000,500000000000,1.0e-06,'more','carol');
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
INSERT INTO "log" VALUES(1,'2026-11-16T13:10:00.207371+00:00','','data set opened','adult','{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-16T13:10:00.207371+00:00","top_up_units":0}}','0000000000000000000000000000000000000000000000000000000000000000','c14cab2a0badb9af211db4ecf69d3d662ff6d9b73dbf3daba21261ad793f7563');
INSERT INTO "log" VALUES(2,'2026-11-16T13:10:00.219788+00:00','','data set opened','census','{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-16T13:10:00.219788+00:00","top_up_units":0}}','c14cab2a0badb9af211db4ecf69d3d662ff6d9b73dbf3daba21261ad793f7563','2132819bf79082641ce0d0047ad45db5559cbb0e6f2da29b6ffd59f0465d38da');
INSERT INTO "log" VALUES(3,'2026-11-16T13:10:00.225022+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-16T13:10:00.225022+00:00","total_units":100000000000}}','2132819bf79082641ce0d0047ad45db5559cbb0e6f2da29b6ffd59f0465d38da','82f1e619c87eb2e746350ea53279326745c461fc43ad25216766271c84590fc8');
INSERT INTO "log" VALUES(4,'2026-11-16T13:10:00.233193+00:00','','released','adult','{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}','82f1e619c87eb2e746350ea53279326745c461fc43ad25216766271c84590fc8','9dea399b6c3ab07ec09e0ab08aefab53333ce902358a13e9e4d4bfce7c2665fc');
INSERT INTO "log" VALUES(5,'2026-11-16T13:10:00.235537+00:00','','limit changed','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","own_units":100000000000,"request":null,"spends":[],"time":"2026-11-16T13:10:00.235537+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-16T13:10:00.235537+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}','9dea399b6c3ab07ec09e0ab08aefab53333ce902358a13e9e4d4bfce7c2665fc','377fe42385134b2e2afcb459d46ce3e0d6724f8ac27751737d411c74a50edd1e');
INSERT INTO "log" VALUES(6,'2026-11-16T13:10:00.239460+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-16T13:10:00.239460+00:00","total_units":600000000000}}','377fe42385134b2e2afcb459d46ce3e0d6724f8ac27751737d411c74a50edd1e','fb44b6015aabc190542aff74505bbb79be542d2a0b687ad9f411740ff301372c');
INSERT INTO "log" VALUES(7,'2026-11-16T13:10:00.243309+00:00','carol','allowance granted','adult','{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-16T13:10:00.243309+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":"2100-01-01T00:00:00+00:00","id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-16T13:10:00.243309+00:00"},"release":{"entry":4,"sha256":"cc2cae78d2ff9451737f415ca93de80e79ba30dcf85175e049ff3c493aea3cbe"}}','fb44b6015aabc190542aff74505bbb79be542d2a0b687ad9f411740ff301372c','cef8995842a2d18453602e46e62e0eabdf99a670fcbd31777063993ea043e0cc');
INSERT INTO "log" VALUES(8,'2026-11-16T13:10:00.247371+00:00','carol','topped up','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","own_units":600000000000,"request":null,"spends":[],"time":"2026-11-16T13:10:00.247371+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-16T13:10:00.247371+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}','cef8995842a2d18453602e46e62e0eabdf99a670fcbd31777063993ea043e0cc','b265062bfb68522b4936f095b7d52fa9f5caf64927c4069dadc8cdd010c5029f');
INSERT INTO "log" VALUES(9,'2026-11-16T13:10:00.252624+00:00','ann','data version opened','adult','{"version":{"by":"ann","dataset":"adult","fingerprint":"d3b7f6e88b807b50e520c28d7cc879cde34d3f95b194c6956b03544d6c92d45e","id":1,"secret_sha256":"0fd73b5eb30def188970c2abf59e90f44568c3167e6c35fe6996b5bf32353a2f","time":"2026-11-16T13:10:00.252624+00:00","version":"2026-11"}}','b265062bfb68522b4936f095b7d52fa9f5caf64927c4069dadc8cdd010c5029f','2f061962c30d6c029e99cb9bd16a4660e7bf7a86dcf99002a74587618ccdbe9b');
INSERT INTO "log" VALUES(10,'2026-11-16T13:10:00.254444+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-16T13:10:00.254444+00:00","total_units":650000000000,"version":"2026-11"}}','2f061962c30d6c029e99cb9bd16a4660e7bf7a86dcf99002a74587618ccdbe9b','42f7937869aa23d2238d76f4b156901490437fada2ff57d89652ae93bd29e63f');
INSERT INTO "log" VALUES(11,'2026-11-16T13:10:00.264410+00:00','ann','released','adult','{"release":{"entry":6,"sha256":"829c902747322f4e1abfd8f821775bfac605fffd8249e3ab9fa0417aadca8229"}}','42f7937869aa23d2238d76f4b156901490437fada2ff57d89652ae93bd29e63f','650e84516915b317c9683fe194516ac4a7adcb06fc73bdff06f840108e1e5847');
INSERT INTO "log" VALUES(12,'2026-11-16T13:10:00.277503+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","description":"prepare","id":7,"key":"d","kind":"prepare","own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"subject":"subject of c","time":"2026-11-16T13:10:00.277503+00:00","total_units":670000000000,"version":"2026-11"}}','650e84516915b317c9683fe194516ac4a7adcb06fc73bdff06f840108e1e5847','8255fb6e901aef6a38b86c702f3ab3eb62616ff1b5db666bea59ee2e3b770482');
INSERT INTO "log" VALUES(13,'2026-11-16T13:10:00.285163+00:00','ann','released','adult','{"release":{"entry":7,"sha256":"649ddc83544abe3fe9288eabc9ad3ed9abb319ed1425e7e5eaafdc91ccbe0a3c"}}','8255fb6e901aef6a38b86c702f3ab3eb62616ff1b5db666bea59ee2e3b770482','359813f758db49a4ec57a4a6f1aba12acaaebe2890d67be2feb2b05d0731ba8a');
INSERT INTO "log" VALUES(14,'2026-11-16T13:10:00.292957+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-16T13:10:00.292957+00:00"}}','359813f758db49a4ec57a4a6f1aba12acaaebe2890d67be2feb2b05d0731ba8a','8e892eef4a9f6d6c31c4865056f796403333e22ea6f6bff2cef9563df6e4a404');
INSERT INTO "log" VALUES(15,'2026-11-16T13:10:00.367302+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-16T13:10:00.367302+00:00"}}','8e892eef4a9f6d6c31c4865056f796403333e22ea6f6bff2cef9563df6e4a404','55d7584b50e5d06d2fb521e59da6a6ecad404705c63ec66e276b788ba4119d3b');
INSERT INTO "log" VALUES(16,'2026-11-16T13:10:00.450595+00:00','carol','unshared','adult','{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-16T13:10:00.450595+00:00"}}','55d7584b50e5d06d2fb521e59da6a6ecad404705c63ec66e276b788ba4119d3b','2dc2afcc106544e14ea6e3ef68015d12232804afb8a9159e8fdb4f7f22df608e');
INSERT INTO "log" VALUES(17,'2026-11-16T13:10:00.462410+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-16T13:10:00.462410+00:00","expires":"2100-01-01T00:00:00+00:00","id":"1079fd18ff73","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"6c3c15fa395887560058a3b0243af0bb1fc18a0591e19250d4bc3470e83ff573"}}','2dc2afcc106544e14ea6e3ef68015d12232804afb8a9159e8fdb4f7f22df608e','a74fc80fe377f306a7e3f8286caf3c457ea091d25a91efae73739314a957f863');
INSERT INTO "log" VALUES(18,'2026-11-16T13:10:00.475917+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-16T13:10:00.475917+00:00","expires":"2100-01-01T00:00:00+00:00","id":"55d665ca48aa","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"76952e6f921a9a720673ad87d72e28aad5f2d7e8fa56a2ed70a8658753711a84"}}','a74fc80fe377f306a7e3f8286caf3c457ea091d25a91efae73739314a957f863','c5948c2460412d377ff83544e2a93ead60ca3cb4ffe9e6f53125cc7585c256b1');
INSERT INTO "log" VALUES(19,'2026-11-16T13:10:00.485045+00:00','carol','token revoked',NULL,'{"revocation":{"by":"carol","time":"2026-11-16T13:10:00.485045+00:00","token":"55d665ca48aa"}}','c5948c2460412d377ff83544e2a93ead60ca3cb4ffe9e6f53125cc7585c256b1','d9707b787a2f13847ed4d425a2a1e6e1f8550213f7d9a2bdb51d7b020e0968bd');
INSERT INTO "log" VALUES(20,'2026-11-16T13:10:00.496088+00:00','ann','session created',NULL,'{"token":{"by":"ann","created":"2026-11-16T13:10:00.496088+00:00","expires":"2026-11-17T01:10:00.496057+00:00","id":"7b037561cc27","name":"ann","parent":"1079fd18ff73","role":"analyst","secret_hash_sha256":"e03ebeb7a0bb8ef8dd808b536ecf8a966a92b4d10f97e87b8ee5347b7bec19f1"}}','d9707b787a2f13847ed4d425a2a1e6e1f8550213f7d9a2bdb51d7b020e0968bd','9a39696f2a4a17aa7f0cd870e87094c2c9ecb6eea28a1ff7bb9b4292eb04cdde');
INSERT INTO "log" VALUES(21,'2026-11-16T13:10:00.499471+00:00','carol','schema edited','adult','{"column":"age"}','9a39696f2a4a17aa7f0cd870e87094c2c9ecb6eea28a1ff7bb9b4292eb04cdde','5c313bbb7a647a8717bf8199e59a1ed7cf9816f9211f9ab7bec69ce2acf06687');
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
INSERT INTO "revocations" VALUES('55d665ca48aa','2026-11-16T13:10:00.485045+00:00','carol');
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
INSERT INTO "shares" VALUES(1,'adult','ann','ben',1,'2026-11-16T13:10:00.292957+00:00','together','carol');
INSERT INTO "shares" VALUES(2,'adult','ann','*',1,'2026-11-16T13:10:00.367302+00:00','all','carol');
INSERT INTO "shares" VALUES(3,'adult','ann','*',0,'2026-11-16T13:10:00.450595+00:00','not all','carol');
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
INSERT INTO "tokens" VALUES('1079fd18ff73','ann','analyst','sha256$669cb451eabeb7eb4fafb120c3071315ee6a7af15e32e5ef82cab1eaf3cb3879','2026-11-16T13:10:00.462410+00:00','2100-01-01T00:00:00+00:00','carol',NULL);
INSERT INTO "tokens" VALUES('55d665ca48aa','ben','curator','sha256$840fb7448b59f5271d28418f5c660a527a56bb85bda5932247c882261e0d4d72','2026-11-16T13:10:00.475917+00:00','2100-01-01T00:00:00+00:00','carol',NULL);
INSERT INTO "tokens" VALUES('7b037561cc27','ann','analyst','sha256$987906a9c9863f6a9d9f5ef6f034e1af0700da70346a96594e7020127391ed9c','2026-11-16T13:10:00.496088+00:00','2026-11-17T01:10:00.496057+00:00','ann','1079fd18ff73');
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
INSERT INTO "versions" VALUES(1,'adult','2026-11','2026-11-16T13:10:00.252624+00:00','ann','f0fd113c90df5be764bdcf70acb5943020e4ca09e4a951bcba940b06386dd1ec','d3b7f6e88b807b50e520c28d7cc879cde34d3f95b194c6956b03544d6c92d45e');
CREATE INDEX limits_by_dataset ON limits (dataset, id);
CREATE INDEX grants_by_analyst ON grants (dataset, analyst, id);
CREATE INDEX entries_in_order ON entries (dataset, id);
CREATE INDEX entries_by_key ON entries (dataset, "key", id);
CREATE INDEX entries_by_kind ON entries (dataset, kind, id);
CREATE INDEX entries_by_subject ON entries (dataset, kind, subject);
CREATE INDEX entries_by_analyst ON entries (dataset, analyst, id, charge_units, total_units, own_units);
CREATE INDEX shares_by_reader ON shares (dataset, reader, id);
CREATE INDEX log_by_action ON log (dataset, action, id);
CREATE UNIQUE INDEX versions_by_name ON versions (dataset, version);
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
