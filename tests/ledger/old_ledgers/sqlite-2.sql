PRAGMA application_id = 1146116176;
PRAGMA user_version = 2;
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
INSERT INTO "entries" VALUES(1,'adult','','2026-11-16T07:08:51.313101+00:00','query','a','SELECT COUNT(*) FROM adult',100000000000,100000000000,100000000000,'[["gaussian",0.1]]',NULL);
INSERT INTO "entries" VALUES(2,'adult','','2026-11-16T07:08:51.362387+00:00','limit','','limit changed from rho 1 to rho 2',0,100000000000,100000000000,'[]',NULL);
INSERT INTO "entries" VALUES(3,'adult','','2026-11-16T07:08:51.379867+00:00','explain','b','why',500000000000,600000000000,600000000000,'[["top-k",0.25],["gaussian",0.25]]',NULL);
INSERT INTO "entries" VALUES(4,'adult','ann','2026-11-16T07:08:51.388950+00:00','grant','','allowance set to rho 0.4: thesis',0,600000000000,0,'[]',NULL);
INSERT INTO "entries" VALUES(5,'adult','','2026-11-16T07:08:51.415688+00:00','top-up','','limit raised to rho 2.5: more',0,600000000000,600000000000,'[]',NULL);
INSERT INTO "entries" VALUES(6,'adult','ann','2026-11-16T07:08:51.429888+00:00','query','c','SELECT AVG(age) FROM adult',50000000000,650000000000,50000000000,'[["gaussian",0.05]]','{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}');
INSERT INTO "entries" VALUES(7,'adult','ann','2026-11-16T07:08:51.446956+00:00','prepare','d','prepare',20000000000,670000000000,70000000000,'[["gaussian",0.02]]','{"prepare":{"rho":0.02}}');
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
INSERT INTO "grants" VALUES(1,'adult','ann','2026-11-16T07:08:51.388950+00:00',400000000000,'2100-01-01T00:00:00+00:00','thesis','carol');
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
INSERT INTO "jobs" VALUES('job','adult','ann','explain','{"k":5}','done','ready',NULL,7,0,'2026-11-16T07:08:52.557337+00:00','2026-11-16T07:08:52.572900+00:00');
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
INSERT INTO "limits" VALUES(1,'adult','2026-11-16T07:08:51.149139+00:00',1000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(2,'census','2026-11-16T07:08:51.283322+00:00',500000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(3,'adult','2026-11-16T07:08:51.362387+00:00',2000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(4,'adult','2026-11-16T07:08:51.415688+00:00',2000000000000,500000000000,1.0e-06,'more','carol');
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
INSERT INTO "log" VALUES(1,'2026-11-16T07:08:51.149139+00:00','','data set opened','adult','{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-16T07:08:51.149139+00:00","top_up_units":0}}','0000000000000000000000000000000000000000000000000000000000000000','57b71eaef2c2178df79d194ae0a004a0e33ff31d0cbdc8d3d60a280a682835f4');
INSERT INTO "log" VALUES(2,'2026-11-16T07:08:51.283322+00:00','','data set opened','census','{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-16T07:08:51.283322+00:00","top_up_units":0}}','57b71eaef2c2178df79d194ae0a004a0e33ff31d0cbdc8d3d60a280a682835f4','39058c534a847d7d9d03191099edf671f57c64f6ea929d7cc148f3f1c077db22');
INSERT INTO "log" VALUES(3,'2026-11-16T07:08:51.313101+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-16T07:08:51.313101+00:00","total_units":100000000000}}','39058c534a847d7d9d03191099edf671f57c64f6ea929d7cc148f3f1c077db22','96e0d3acea4b01b18664d4c43c57a7cda3d0d1c25e71f4b48ddd3031a23d2009');
INSERT INTO "log" VALUES(4,'2026-11-16T07:08:51.338164+00:00','','released','adult','{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}','96e0d3acea4b01b18664d4c43c57a7cda3d0d1c25e71f4b48ddd3031a23d2009','b3486681c7139c74d42315d0cf3e7f3109c6484e0bfca993181385d36b8e0e87');
INSERT INTO "log" VALUES(5,'2026-11-16T07:08:51.362387+00:00','','limit changed','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","own_units":100000000000,"request":null,"spends":[],"time":"2026-11-16T07:08:51.362387+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-16T07:08:51.362387+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}','b3486681c7139c74d42315d0cf3e7f3109c6484e0bfca993181385d36b8e0e87','c3bacf7ac99f20f911ad8ed25962215a49fe850e0fd848f9f957f03dc36806ee');
INSERT INTO "log" VALUES(6,'2026-11-16T07:08:51.379867+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-16T07:08:51.379867+00:00","total_units":600000000000}}','c3bacf7ac99f20f911ad8ed25962215a49fe850e0fd848f9f957f03dc36806ee','28f818eef11a67d9eee273d7a3ec4db1744d8f6d4225347e385ac2311ac9982a');
INSERT INTO "log" VALUES(7,'2026-11-16T07:08:51.388950+00:00','carol','allowance granted','adult','{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-16T07:08:51.388950+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":"2100-01-01T00:00:00+00:00","id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-16T07:08:51.388950+00:00"},"release":{"entry":4,"sha256":"cc2cae78d2ff9451737f415ca93de80e79ba30dcf85175e049ff3c493aea3cbe"}}','28f818eef11a67d9eee273d7a3ec4db1744d8f6d4225347e385ac2311ac9982a','3ff426888ae0534c39c96a8b85db3b669d98aa2314a45164fe61cf4629c2cfa2');
INSERT INTO "log" VALUES(8,'2026-11-16T07:08:51.415688+00:00','carol','topped up','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","own_units":600000000000,"request":null,"spends":[],"time":"2026-11-16T07:08:51.415688+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-16T07:08:51.415688+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}','3ff426888ae0534c39c96a8b85db3b669d98aa2314a45164fe61cf4629c2cfa2','3ad01ff01339217a130405d5a325c3a87a45c33abb7db9e5d0fec0ab8e2a36c5');
INSERT INTO "log" VALUES(9,'2026-11-16T07:08:51.429888+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-16T07:08:51.429888+00:00","total_units":650000000000}}','3ad01ff01339217a130405d5a325c3a87a45c33abb7db9e5d0fec0ab8e2a36c5','3b3b212c1dbbdb608d12faa640407c5a094773d5ce1abb8b2d3ee994c9dd9040');
INSERT INTO "log" VALUES(10,'2026-11-16T07:08:51.437646+00:00','ann','released','adult','{"release":{"entry":6,"sha256":"829c902747322f4e1abfd8f821775bfac605fffd8249e3ab9fa0417aadca8229"}}','3b3b212c1dbbdb608d12faa640407c5a094773d5ce1abb8b2d3ee994c9dd9040','7f7f5ffed93c58e85704dd676d90813240280576101e40a900dfc0f454b44719');
INSERT INTO "log" VALUES(11,'2026-11-16T07:08:51.446956+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","description":"prepare","id":7,"key":"d","kind":"prepare","own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"time":"2026-11-16T07:08:51.446956+00:00","total_units":670000000000}}','7f7f5ffed93c58e85704dd676d90813240280576101e40a900dfc0f454b44719','468e7de837ebd47ec1338ed4cd74d6e4a878bf5a3b655657c2fb33f66bd283c3');
INSERT INTO "log" VALUES(12,'2026-11-16T07:08:51.459188+00:00','ann','released','adult','{"release":{"entry":7,"sha256":"649ddc83544abe3fe9288eabc9ad3ed9abb319ed1425e7e5eaafdc91ccbe0a3c"}}','468e7de837ebd47ec1338ed4cd74d6e4a878bf5a3b655657c2fb33f66bd283c3','4bf873b238b3a80942a54063c6e4c5e983432c0289e230ee9324b5361bb63971');
INSERT INTO "log" VALUES(13,'2026-11-16T07:08:51.469601+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-16T07:08:51.469601+00:00"}}','4bf873b238b3a80942a54063c6e4c5e983432c0289e230ee9324b5361bb63971','c3e1c7dde175a28451effc256af89a627b3ea7b377924a84dcb823412fa10973');
INSERT INTO "log" VALUES(14,'2026-11-16T07:08:51.488767+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-16T07:08:51.488767+00:00"}}','c3e1c7dde175a28451effc256af89a627b3ea7b377924a84dcb823412fa10973','43b6aff123bef2fb3754ce7d96026d07f34b27d72b720a17596c7a0e49c230b9');
INSERT INTO "log" VALUES(15,'2026-11-16T07:08:51.503728+00:00','carol','unshared','adult','{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-16T07:08:51.503728+00:00"}}','43b6aff123bef2fb3754ce7d96026d07f34b27d72b720a17596c7a0e49c230b9','65963a67522aa46a7a0c31631ead6b9686ac9a76219d7ae6718d41468d15c6a9');
INSERT INTO "log" VALUES(16,'2026-11-16T07:08:51.516174+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-16T07:08:51.516174+00:00","expires":"2100-01-01T00:00:00+00:00","id":"ce6c79164159","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"df7f9f943c0e064c12b45caf107931145bdda1eb71ecd178bfbb8c21fa34972b"}}','65963a67522aa46a7a0c31631ead6b9686ac9a76219d7ae6718d41468d15c6a9','4a7ade03b0984c349907969e4500e16ce798168e3066452bc0d094f74c7510f4');
INSERT INTO "log" VALUES(17,'2026-11-16T07:08:51.827569+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-16T07:08:51.827569+00:00","expires":"2100-01-01T00:00:00+00:00","id":"4bf6725bdf97","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"7f8e0aa35f50ce9e2f3a1ddf4d5d288bf637ebf56cd0965e8b4997b52bc9924e"}}','4a7ade03b0984c349907969e4500e16ce798168e3066452bc0d094f74c7510f4','11738dfedc4cb42de68b438219d16a5261563eb4f12eca089cc48c3f55730979');
INSERT INTO "log" VALUES(18,'2026-11-16T07:08:52.225209+00:00','carol','token revoked',NULL,'{"revocation":{"by":"carol","time":"2026-11-16T07:08:52.225209+00:00","token":"4bf6725bdf97"}}','11738dfedc4cb42de68b438219d16a5261563eb4f12eca089cc48c3f55730979','b6a6ccc0d56bcc85f4fbbd917fbaedbf1a5f737a657b2f414cd08d0ced0f8f1c');
INSERT INTO "log" VALUES(19,'2026-11-16T07:08:52.251348+00:00','ann','session created',NULL,'{"token":{"by":"ann","created":"2026-11-16T07:08:52.251348+00:00","expires":"2026-11-16T19:08:52.251308+00:00","id":"67abcb2b3a7e","name":"ann","parent":"ce6c79164159","role":"analyst","secret_hash_sha256":"8bf9a13485133135fb890fde5b938eb42bbe90e00234b1e34d823cb268344943"}}','b6a6ccc0d56bcc85f4fbbd917fbaedbf1a5f737a657b2f414cd08d0ced0f8f1c','bbeb4124d9fbd6c13a636300d42e565b3b5edbc9b374798191a0703301b9c4f7');
INSERT INTO "log" VALUES(20,'2026-11-16T07:08:52.552817+00:00','carol','schema edited','adult','{"column":"age"}','bbeb4124d9fbd6c13a636300d42e565b3b5edbc9b374798191a0703301b9c4f7','5f35cd366506efa0e6310504bda00874b0d8933cfa2f03a1e4d50d988a341708');
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
INSERT INTO "revocations" VALUES('4bf6725bdf97','2026-11-16T07:08:52.225209+00:00','carol');
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
INSERT INTO "shares" VALUES(1,'adult','ann','ben',1,'2026-11-16T07:08:51.469601+00:00','together','carol');
INSERT INTO "shares" VALUES(2,'adult','ann','*',1,'2026-11-16T07:08:51.488767+00:00','all','carol');
INSERT INTO "shares" VALUES(3,'adult','ann','*',0,'2026-11-16T07:08:51.503728+00:00','not all','carol');
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
INSERT INTO "tokens" VALUES('ce6c79164159','ann','analyst','scrypt-16384-8-1$c96464320e3b887d40dc35aa69872cf2$76fe83cc19893ff5f7f3e4658f2b1f762ddea1e9849e9906c9fe61fe3a69cdf9bac6a26fea2d4c087b8ce2543068da2b2cd7e245fbb630a9c369351020af8568','2026-11-16T07:08:51.516174+00:00','2100-01-01T00:00:00+00:00','carol',NULL);
INSERT INTO "tokens" VALUES('4bf6725bdf97','ben','curator','scrypt-16384-8-1$cde54f23a50c62f750d65a443bde47c0$b2964159d374d4490220b8a7f855727e6474e520a1d08c0ebe31f9aa16d6f657e5a334a48d7b6825f37caf2b1716b5cfe79f0bebf7f4b4f8babc5c0c71d66d25','2026-11-16T07:08:51.827569+00:00','2100-01-01T00:00:00+00:00','carol',NULL);
INSERT INTO "tokens" VALUES('67abcb2b3a7e','ann','analyst','scrypt-16384-8-1$dd204ea99a875d602f48b35de7c0abb5$901e485e93f2a0d0eacefe21da2c27104f0d9fba4945d9e040780041c0cc346f4306e6e02dd311f698928140471c9cc58f8fab5c7a314630894d87628bb14da8','2026-11-16T07:08:52.251348+00:00','2026-11-16T19:08:52.251308+00:00','ann','ce6c79164159');
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
CREATE TRIGGER grants_keeps_its_rows_on_UPDATE BEFORE UPDATE ON grants
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER grants_keeps_its_rows_on_DELETE BEFORE DELETE ON grants
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entries_keeps_its_rows_on_UPDATE BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entries_keeps_its_rows_on_DELETE BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER releases_keeps_its_rows_on_UPDATE BEFORE UPDATE ON releases
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER releases_keeps_its_rows_on_DELETE BEFORE DELETE ON releases
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER shares_keeps_its_rows_on_UPDATE BEFORE UPDATE ON shares
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER shares_keeps_its_rows_on_DELETE BEFORE DELETE ON shares
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER tokens_keeps_its_rows_on_UPDATE BEFORE UPDATE ON tokens
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER tokens_keeps_its_rows_on_DELETE BEFORE DELETE ON tokens
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER revocations_keeps_its_rows_on_UPDATE BEFORE UPDATE ON revocations
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER revocations_keeps_its_rows_on_DELETE BEFORE DELETE ON revocations
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER log_keeps_its_rows_on_UPDATE BEFORE UPDATE ON log
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER log_keeps_its_rows_on_DELETE BEFORE DELETE ON log
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
COMMIT;
