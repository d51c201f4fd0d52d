PRAGMA application_id = 1146116176;
PRAGMA user_version = 8;
PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE accounts (
	dataset TEXT NOT NULL, 
	analyst TEXT NOT NULL, 
	gaussian_units BIGINT NOT NULL, 
	last_number BIGINT NOT NULL, 
	PRIMARY KEY (dataset, analyst)
);
INSERT INTO "accounts" VALUES('adult','*',0,0);
INSERT INTO "accounts" VALUES('adult','',0,2);
INSERT INTO "accounts" VALUES('adult',' notices',0,2);
INSERT INTO "accounts" VALUES('adult','ann',0,3);
INSERT INTO "accounts" VALUES('census','*',280000000000,0);
INSERT INTO "accounts" VALUES('census','ann',180000000000,3);
INSERT INTO "accounts" VALUES('census','',100000000000,1);
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
	number BIGINT, 
	PRIMARY KEY (id)
);
INSERT INTO "entries" VALUES(1,'adult','','2026-11-18T07:10:11.604507+00:00','query','a','SELECT COUNT(*) FROM adult',100000000000,100000000000,100000000000,'[["gaussian",0.1]]',NULL,NULL,NULL,NULL,1);
INSERT INTO "entries" VALUES(2,'adult','','2026-11-18T07:10:11.607966+00:00','limit','','limit changed from rho 1 to rho 2',0,100000000000,100000000000,'[]',NULL,NULL,NULL,NULL,1);
INSERT INTO "entries" VALUES(3,'adult','','2026-11-18T07:10:11.609152+00:00','explain','b','why',500000000000,600000000000,600000000000,'[["top-k",0.25],["gaussian",0.25]]',NULL,NULL,NULL,NULL,2);
INSERT INTO "entries" VALUES(4,'adult','ann','2026-11-18T07:10:11.609811+00:00','grant','','allowance set to rho 0.4: thesis',0,600000000000,0,'[]',NULL,NULL,NULL,NULL,1);
INSERT INTO "entries" VALUES(5,'adult','','2026-11-18T07:10:11.611159+00:00','top-up','','limit raised to rho 2.5: more',0,600000000000,600000000000,'[]',NULL,NULL,NULL,NULL,2);
INSERT INTO "entries" VALUES(6,'adult','ann','2026-11-18T07:10:11.612369+00:00','query','c','SELECT AVG(age) FROM adult',50000000000,650000000000,50000000000,'[["gaussian",0.05]]','{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}',NULL,NULL,'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',2);
INSERT INTO "entries" VALUES(7,'adult','ann','2026-11-18T07:10:11.618749+00:00','prepare','d','prepare',20000000000,670000000000,70000000000,'[["gaussian",0.02]]','{"prepare":{"rho":0.02}}','subject of c',NULL,'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',3);
INSERT INTO "entries" VALUES(8,'census','ann','2026-11-18T07:10:11.627929+00:00','grant','','allowance set to rho 0.4: thesis',0,0,0,'[]',NULL,NULL,NULL,NULL,1);
INSERT INTO "entries" VALUES(9,'census','','2026-11-18T07:10:11.629134+00:00','query','e','SELECT COUNT(*) FROM census',100000000000,100000000000,100000000000,'[["gaussian.counts",0.1]]','{"rho":0.1}',NULL,NULL,NULL,1);
INSERT INTO "entries" VALUES(10,'census','ann','2026-11-18T07:10:11.631724+00:00','explain','f','why',200000000000,300000000000,200000000000,'[["gumbel.top-k",0.05],["gaussian.influences",0.05],["gaussian.rank-search",0.1]]','{"answer":9,"k":5}',NULL,NULL,NULL,2);
INSERT INTO "entries" VALUES(11,'census','ann','2026-11-18T07:10:11.633972+00:00','query','g','SELECT AVG(age) FROM census',30000000000,330000000000,230000000000,'[["gaussian.sums",0.03]]',NULL,NULL,NULL,NULL,3);
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
INSERT INTO "flights" VALUES('census','ann','g',11,'2026-11-18T07:10:11.634222+00:00');
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
INSERT INTO "grants" VALUES(1,'adult','ann','2026-11-18T07:10:11.609811+00:00',400000000000,NULL,'thesis','carol');
INSERT INTO "grants" VALUES(2,'census','ann','2026-11-18T07:10:11.627929+00:00',400000000000,NULL,'thesis','carol');
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
INSERT INTO "jobs" VALUES('job','adult','ann','prepare','{"rho":0.02}','done','',NULL,7,0,'2026-11-18T07:10:11.637897+00:00','2026-11-18T07:10:11.639971+00:00');
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
INSERT INTO "limits" VALUES(1,'adult','2026-11-18T07:10:11.593749+00:00',1000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(2,'census','2026-11-18T07:10:11.598691+00:00',500000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(3,'adult','2026-11-18T07:10:11.607966+00:00',2000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(4,'adult','2026-11-18T07:10:11.611159+00:00',2000000000000,500000000000,1.0e-06,'more','carol');
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
INSERT INTO "log" VALUES(1,'2026-11-18T07:10:11.593749+00:00','','data set opened','adult','{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-18T07:10:11.593749+00:00","top_up_units":0}}','0000000000000000000000000000000000000000000000000000000000000000','78e3efed3a4d62bcaa53cfba9c3c61975bd4da8ce5926e65882dc234ec199dc3');
INSERT INTO "log" VALUES(2,'2026-11-18T07:10:11.598691+00:00','','data set opened','census','{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-18T07:10:11.598691+00:00","top_up_units":0}}','78e3efed3a4d62bcaa53cfba9c3c61975bd4da8ce5926e65882dc234ec199dc3','f40f05d7480af8b72cf8becaed3d0e424e02960de42fd4d4d127c51013bed0d0');
INSERT INTO "log" VALUES(3,'2026-11-18T07:10:11.604507+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","number":1,"own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-18T07:10:11.604507+00:00","total_units":100000000000}}','f40f05d7480af8b72cf8becaed3d0e424e02960de42fd4d4d127c51013bed0d0','0a5cb0b0d341c94f982351185964ef59d6f65443963914dc0f9ad86a8a2030f4');
INSERT INTO "log" VALUES(4,'2026-11-18T07:10:11.607026+00:00','','released','adult','{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}','0a5cb0b0d341c94f982351185964ef59d6f65443963914dc0f9ad86a8a2030f4','497db9d1927e7c66e0134eacd951b29003c61022e573bedcc8bd3176caaf9276');
INSERT INTO "log" VALUES(5,'2026-11-18T07:10:11.607966+00:00','','limit changed','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","number":1,"own_units":100000000000,"request":null,"spends":[],"time":"2026-11-18T07:10:11.607966+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-18T07:10:11.607966+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}','497db9d1927e7c66e0134eacd951b29003c61022e573bedcc8bd3176caaf9276','6379ffa6830093fcb3de53a44cbffb2ad94334e442baf002ec8088648d842b73');
INSERT INTO "log" VALUES(6,'2026-11-18T07:10:11.609152+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","number":2,"own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-18T07:10:11.609152+00:00","total_units":600000000000}}','6379ffa6830093fcb3de53a44cbffb2ad94334e442baf002ec8088648d842b73','a272bbbb0fd2ae32765f70faefe0e96738a7d799f856d103f99713a2be870912');
INSERT INTO "log" VALUES(7,'2026-11-18T07:10:11.609811+00:00','carol','allowance granted','adult','{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","number":1,"own_units":0,"request":null,"spends":[],"time":"2026-11-18T07:10:11.609811+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":null,"id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-18T07:10:11.609811+00:00"},"release":{"entry":4,"sha256":"419a990a7d74f3f364ef0d0e055cab20a4e4312e649185cee6c587e7a51da7d5"}}','a272bbbb0fd2ae32765f70faefe0e96738a7d799f856d103f99713a2be870912','11af9c7bf94d7c4a45bd4294bea87db04a8d8246c4364d18fd373f9cf34289d2');
INSERT INTO "log" VALUES(8,'2026-11-18T07:10:11.611159+00:00','carol','topped up','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","number":2,"own_units":600000000000,"request":null,"spends":[],"time":"2026-11-18T07:10:11.611159+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-18T07:10:11.611159+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}','11af9c7bf94d7c4a45bd4294bea87db04a8d8246c4364d18fd373f9cf34289d2','3eb7f5bbd704ff67d15a30717ffdf1055c3ab61b03476551d689cc5beb6a627d');
INSERT INTO "log" VALUES(9,'2026-11-18T07:10:11.612369+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","declarations":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","number":2,"own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-18T07:10:11.612369+00:00","total_units":650000000000}}','3eb7f5bbd704ff67d15a30717ffdf1055c3ab61b03476551d689cc5beb6a627d','a854d805fdc249ab511120042d7a92209f30aac6659c2842f19fcea517daf7fc');
INSERT INTO "log" VALUES(10,'2026-11-18T07:10:11.614654+00:00','ann','released','adult','{"release":{"entry":6,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}','a854d805fdc249ab511120042d7a92209f30aac6659c2842f19fcea517daf7fc','db882df387d34f04c696d38f1a421be8fa9c3e1f7acf0b5b8967606988aaedcf');
INSERT INTO "log" VALUES(11,'2026-11-18T07:10:11.618749+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","declarations":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","description":"prepare","id":7,"key":"d","kind":"prepare","number":3,"own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"subject":"subject of c","time":"2026-11-18T07:10:11.618749+00:00","total_units":670000000000}}','db882df387d34f04c696d38f1a421be8fa9c3e1f7acf0b5b8967606988aaedcf','256826f8b6b000fb3099c7e7471d88b493e7b1c6dd937f264c0590494b44a724');
INSERT INTO "log" VALUES(12,'2026-11-18T07:10:11.619577+00:00','ann','released','adult','{"release":{"entry":7,"sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"}}','256826f8b6b000fb3099c7e7471d88b493e7b1c6dd937f264c0590494b44a724','e3943327ef4aaf3c5fb8bae3d7f4918350521f15472b706999f4415589a3d591');
INSERT INTO "log" VALUES(13,'2026-11-18T07:10:11.622978+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-18T07:10:11.622978+00:00"}}','e3943327ef4aaf3c5fb8bae3d7f4918350521f15472b706999f4415589a3d591','1a637d93cc86b1571b5c7755485a3108f73c8fc119e5d00dcd780742b53db645');
INSERT INTO "log" VALUES(14,'2026-11-18T07:10:11.626694+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-18T07:10:11.626694+00:00"}}','1a637d93cc86b1571b5c7755485a3108f73c8fc119e5d00dcd780742b53db645','7e4ca3a87255492ff69ee0ff767a0a0b57bbd739370953cadd1561ba59692fa3');
INSERT INTO "log" VALUES(15,'2026-11-18T07:10:11.627391+00:00','carol','unshared','adult','{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-18T07:10:11.627391+00:00"}}','7e4ca3a87255492ff69ee0ff767a0a0b57bbd739370953cadd1561ba59692fa3','9e470145e3f5e59c97df8a1811e33775f17d65706c3d9e7fc0cfb5c9360b8bc5');
INSERT INTO "log" VALUES(16,'2026-11-18T07:10:11.627929+00:00','carol','allowance granted','census','{"entry":{"analyst":"ann","charge_units":0,"dataset":"census","description":"allowance set to rho 0.4: thesis","id":8,"key":"","kind":"grant","number":1,"own_units":0,"request":null,"spends":[],"time":"2026-11-18T07:10:11.627929+00:00","total_units":0},"grant":{"analyst":"ann","by":"carol","dataset":"census","expires":null,"id":2,"limit_units":400000000000,"reason":"thesis","time":"2026-11-18T07:10:11.627929+00:00"},"release":{"entry":8,"sha256":"419a990a7d74f3f364ef0d0e055cab20a4e4312e649185cee6c587e7a51da7d5"}}','9e470145e3f5e59c97df8a1811e33775f17d65706c3d9e7fc0cfb5c9360b8bc5','8761a34719bbbda9f5072013b09821cf1207594f5848526e771e43ef393667ce');
INSERT INTO "log" VALUES(17,'2026-11-18T07:10:11.629134+00:00','','reserved','census','{"entry":{"analyst":"","charge_units":100000000000,"dataset":"census","description":"SELECT COUNT(*) FROM census","id":9,"key":"e","kind":"query","number":1,"own_units":100000000000,"request":{"rho":0.1},"spends":[["gaussian.counts",0.1]],"time":"2026-11-18T07:10:11.629134+00:00","total_units":100000000000}}','8761a34719bbbda9f5072013b09821cf1207594f5848526e771e43ef393667ce','f1af00d98edfc4704c906d7b4bccec7f473682d291d08425314e1005de46a7d4');
INSERT INTO "log" VALUES(18,'2026-11-18T07:10:11.630295+00:00','','released','census','{"release":{"entry":9,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}','f1af00d98edfc4704c906d7b4bccec7f473682d291d08425314e1005de46a7d4','7a0718729242e013177b263b783c605257e4e696f818fdc807c4928735195967');
INSERT INTO "log" VALUES(19,'2026-11-18T07:10:11.631724+00:00','ann','reserved','census','{"entry":{"analyst":"ann","charge_units":200000000000,"dataset":"census","description":"why","id":10,"key":"f","kind":"explain","number":2,"own_units":200000000000,"request":{"answer":9,"k":5},"spends":[["gumbel.top-k",0.05],["gaussian.influences",0.05],["gaussian.rank-search",0.1]],"time":"2026-11-18T07:10:11.631724+00:00","total_units":300000000000}}','7a0718729242e013177b263b783c605257e4e696f818fdc807c4928735195967','caf0de993739d8ea3652b89e9b44769fa414d8707c15ce3358267fae2bd46071');
INSERT INTO "log" VALUES(20,'2026-11-18T07:10:11.633033+00:00','ann','released','census','{"release":{"entry":10,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}','caf0de993739d8ea3652b89e9b44769fa414d8707c15ce3358267fae2bd46071','684cbde7e09101bf28b155fb75115c1cfed9bdc00c95e5f476955f45e556616b');
INSERT INTO "log" VALUES(21,'2026-11-18T07:10:11.633972+00:00','ann','reserved','census','{"entry":{"analyst":"ann","charge_units":30000000000,"dataset":"census","description":"SELECT AVG(age) FROM census","id":11,"key":"g","kind":"query","number":3,"own_units":230000000000,"request":null,"spends":[["gaussian.sums",0.03]],"time":"2026-11-18T07:10:11.633972+00:00","total_units":330000000000}}','684cbde7e09101bf28b155fb75115c1cfed9bdc00c95e5f476955f45e556616b','d16db5aab6403b2c81b9462117bc67a05948e5a1b66197384b511c2a50b8f97c');
INSERT INTO "log" VALUES(22,'2026-11-18T07:10:11.634861+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-18T07:10:11.634861+00:00","expires":"2100-01-01T00:00:00+00:00","id":"6f9288cbe14f","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"1638cb0a035c4ba8770ce03de66fc6f62748e482b0c4ccfadfcf8561925fcc48"}}','d16db5aab6403b2c81b9462117bc67a05948e5a1b66197384b511c2a50b8f97c','bdf1a612521c97159784c13c67c1c9c51f8dd76fa5fc6bdcd71259af639d58fe');
INSERT INTO "log" VALUES(23,'2026-11-18T07:10:11.635811+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-18T07:10:11.635811+00:00","expires":"2100-01-01T00:00:00+00:00","id":"12e036e169bc","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"b500fcbf0c15fc662680d5cd46f7d2905f6dae2456b33dfc5cd13d344628427d"}}','bdf1a612521c97159784c13c67c1c9c51f8dd76fa5fc6bdcd71259af639d58fe','3ff8720dde06759439588dedfdf2fb4b48f6a06dc2363b4c026695bf536597ec');
INSERT INTO "log" VALUES(24,'2026-11-18T07:10:11.637095+00:00','carol','token revoked',NULL,'{"revocation":{"by":"carol","time":"2026-11-18T07:10:11.637095+00:00","token":"12e036e169bc"}}','3ff8720dde06759439588dedfdf2fb4b48f6a06dc2363b4c026695bf536597ec','039fc2cf5493a1378bd117ce978be28863b4b357c75c7d3ab0432886929cf94b');
INSERT INTO "log" VALUES(25,'2026-11-18T07:10:11.640827+00:00','carol','schema edited','adult','{"column":"age"}','039fc2cf5493a1378bd117ce978be28863b4b357c75c7d3ab0432886929cf94b','61f1a4602c6ee8547f6dbebcac055041527fd0758479268492785f45b108f6f4');
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
INSERT INTO "releases" VALUES(8,'{"analyst": "ann", "limit": 0.4, "expires": null, "reason": "thesis"}');
INSERT INTO "releases" VALUES(9,'{}');
INSERT INTO "releases" VALUES(10,'{}');
CREATE TABLE revocations (
	token TEXT NOT NULL, 
	time TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	PRIMARY KEY (token), 
	FOREIGN KEY(token) REFERENCES tokens (id)
);
INSERT INTO "revocations" VALUES('12e036e169bc','2026-11-18T07:10:11.637095+00:00','carol');
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
INSERT INTO "shares" VALUES(1,'adult','ann','ben',1,'2026-11-18T07:10:11.622978+00:00','together','carol');
INSERT INTO "shares" VALUES(2,'adult','ann','*',1,'2026-11-18T07:10:11.626694+00:00','all','carol');
INSERT INTO "shares" VALUES(3,'adult','ann','*',0,'2026-11-18T07:10:11.627391+00:00','not all','carol');
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
INSERT INTO "tokens" VALUES('6f9288cbe14f','ann','analyst','sha256$a27ac2bc126ce157c125893e8887e45eca86c89ba7ae9fe23bd30ab5ed4e3071','2026-11-18T07:10:11.634861+00:00','2100-01-01T00:00:00+00:00','carol',NULL,NULL);
INSERT INTO "tokens" VALUES('12e036e169bc','ben','curator','sha256$6a79d5ef02126a9452e2647179d3e5b2609be76cc12a5487083083c7d34eeb5a','2026-11-18T07:10:11.635811+00:00','2100-01-01T00:00:00+00:00','carol',NULL,NULL);
CREATE TABLE unreleased (
	entry INTEGER NOT NULL, 
	dataset TEXT NOT NULL, 
	analyst TEXT NOT NULL, 
	PRIMARY KEY (entry)
);
INSERT INTO "unreleased" VALUES(3,'adult','');
INSERT INTO "unreleased" VALUES(11,'census','ann');
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
CREATE INDEX preparations_without_subject ON entries (dataset, kind, subject, analyst) WHERE kind = 'prepare' AND subject IS NULL;
CREATE INDEX entries_by_number ON entries (dataset, analyst, number);
CREATE INDEX entries_in_order ON entries (dataset, id);
CREATE INDEX entries_by_key ON entries (dataset, "key", analyst, id);
CREATE INDEX entries_by_analyst_and_kind ON entries (dataset, analyst, kind, version, id);
CREATE INDEX public_notices ON entries (dataset, analyst, charge_units, id) WHERE analyst = '' AND charge_units = 0;
CREATE INDEX entries_by_analyst_and_subject ON entries (dataset, subject, analyst, charge_units, id) WHERE kind = 'prepare' AND subject IS NOT NULL;
CREATE INDEX entries_by_subject ON entries (dataset, subject, charge_units, id) WHERE kind = 'prepare' AND subject IS NOT NULL;
CREATE INDEX entries_by_analyst ON entries (dataset, analyst, id, charge_units, total_units, own_units);
CREATE INDEX entries_by_kind ON entries (dataset, kind, version, id);
CREATE INDEX grants_by_analyst ON grants (dataset, analyst, id);
CREATE INDEX limits_by_dataset ON limits (dataset, id);
CREATE INDEX log_by_action ON log (dataset, action, id);
CREATE INDEX shares_by_reader ON shares (dataset, reader, id);
CREATE INDEX tokens_by_maker ON tokens (maker);
CREATE INDEX unreleased_by_analyst ON unreleased (dataset, analyst, entry);
CREATE UNIQUE INDEX versions_by_name ON versions (dataset, version);
CREATE INDEX flights_by_entry ON flights (entry);
CREATE INDEX sessions_by_holder ON sessions (name, token);
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
