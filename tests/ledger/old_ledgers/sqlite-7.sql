PRAGMA application_id = 1146116176;
PRAGMA user_version = 7;
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
INSERT INTO "entries" VALUES(1,'adult','','2026-11-17T00:55:50.705241+00:00','query','a','SELECT COUNT(*) FROM adult',100000000000,100000000000,100000000000,'[["gaussian",0.1]]',NULL,NULL,NULL,NULL);
INSERT INTO "entries" VALUES(2,'adult','','2026-11-17T00:55:50.719450+00:00','limit','','limit changed from rho 1 to rho 2',0,100000000000,100000000000,'[]',NULL,NULL,NULL,NULL);
INSERT INTO "entries" VALUES(3,'adult','','2026-11-17T00:55:50.725687+00:00','explain','b','why',500000000000,600000000000,600000000000,'[["top-k",0.25],["gaussian",0.25]]',NULL,NULL,NULL,NULL);
INSERT INTO "entries" VALUES(4,'adult','ann','2026-11-17T00:55:50.727558+00:00','grant','','allowance set to rho 0.4: thesis',0,600000000000,0,'[]',NULL,NULL,NULL,NULL);
INSERT INTO "entries" VALUES(5,'adult','','2026-11-17T00:55:50.735394+00:00','top-up','','limit raised to rho 2.5: more',0,600000000000,600000000000,'[]',NULL,NULL,NULL,NULL);
INSERT INTO "entries" VALUES(6,'adult','ann','2026-11-17T00:55:50.755120+00:00','query','c','SELECT AVG(age) FROM adult',50000000000,650000000000,50000000000,'[["gaussian",0.05]]','{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"}',NULL,'2026-11','ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff');
INSERT INTO "entries" VALUES(7,'adult','ann','2026-11-17T00:55:50.759783+00:00','prepare','d','prepare',20000000000,670000000000,70000000000,'[["gaussian",0.02]]','{"prepare":{"rho":0.02}}','subject of c','2026-11','ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff');
INSERT INTO "entries" VALUES(8,'census','ann','2026-11-17T00:55:50.775520+00:00','grant','','allowance set to rho 0.4: thesis',0,0,0,'[]',NULL,NULL,NULL,NULL);
INSERT INTO "entries" VALUES(9,'census','','2026-11-17T00:55:50.779531+00:00','query','e','SELECT COUNT(*) FROM census',100000000000,100000000000,100000000000,'[["gaussian.counts",0.1]]','{"rho":0.1,"sql":"SELECT COUNT(*) FROM census"}',NULL,NULL,NULL);
INSERT INTO "entries" VALUES(10,'census','ann','2026-11-17T00:55:50.784951+00:00','explain','f','why',200000000000,300000000000,200000000000,'[["gumbel.top-k",0.05],["gaussian.influences",0.05],["gaussian.rank-search",0.1]]','{"answer":9,"k":5}',NULL,NULL,NULL);
INSERT INTO "entries" VALUES(11,'census','ann','2026-11-17T00:55:50.789282+00:00','query','g','SELECT AVG(age) FROM census',30000000000,330000000000,230000000000,'[["sums (Gaussian)",0.01],["AVG(age): counts (Gaussian)",0.01]]',NULL,NULL,NULL,NULL);
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
INSERT INTO "grants" VALUES(1,'adult','ann','2026-11-17T00:55:50.727558+00:00',400000000000,NULL,'thesis','carol');
INSERT INTO "grants" VALUES(2,'census','ann','2026-11-17T00:55:50.775520+00:00',400000000000,NULL,'thesis','carol');
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
INSERT INTO "jobs" VALUES('job','adult','ann','prepare','{"rho":0.02}','done','',NULL,7,0,'2026-11-17T00:55:50.808547+00:00','2026-11-17T00:55:51.027466+00:00');
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
INSERT INTO "limits" VALUES(1,'adult','2026-11-17T00:55:50.692380+00:00',1000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(2,'census','2026-11-17T00:55:50.697943+00:00',500000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(3,'adult','2026-11-17T00:55:50.719450+00:00',2000000000000,0,1.0e-06,'declared in the schema','');
INSERT INTO "limits" VALUES(4,'adult','2026-11-17T00:55:50.735394+00:00',2000000000000,500000000000,1.0e-06,'more','carol');
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
INSERT INTO "log" VALUES(1,'2026-11-17T00:55:50.692380+00:00','','data set opened','adult','{"limit":{"by":"","dataset":"adult","declared_units":1000000000000,"delta":1e-06,"id":1,"reason":"declared in the schema","time":"2026-11-17T00:55:50.692380+00:00","top_up_units":0}}','0000000000000000000000000000000000000000000000000000000000000000','ec90cea8ec6d9a13add201819371d807082519a3e942b3419f1db7845f09842d');
INSERT INTO "log" VALUES(2,'2026-11-17T00:55:50.697943+00:00','','data set opened','census','{"limit":{"by":"","dataset":"census","declared_units":500000000000,"delta":1e-06,"id":2,"reason":"declared in the schema","time":"2026-11-17T00:55:50.697943+00:00","top_up_units":0}}','ec90cea8ec6d9a13add201819371d807082519a3e942b3419f1db7845f09842d','a9a94cd7e23e0369c8d3d6b78856c71329086a33002c8b0775f721c5f2ec95db');
INSERT INTO "log" VALUES(3,'2026-11-17T00:55:50.705241+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":100000000000,"dataset":"adult","description":"SELECT COUNT(*) FROM adult","id":1,"key":"a","kind":"query","own_units":100000000000,"request":null,"spends":[["gaussian",0.1]],"time":"2026-11-17T00:55:50.705241+00:00","total_units":100000000000}}','a9a94cd7e23e0369c8d3d6b78856c71329086a33002c8b0775f721c5f2ec95db','225bb7b76c7b1d0f8a50edfcece6756c10f2462db7f81b4c7a1357a526849a87');
INSERT INTO "log" VALUES(4,'2026-11-17T00:55:50.716773+00:00','','released','adult','{"release":{"entry":1,"sha256":"b2c4cbffe3e4bf125b810de9b8afbcf48eda6f78222d0e687fdea1c9647fb846"}}','225bb7b76c7b1d0f8a50edfcece6756c10f2462db7f81b4c7a1357a526849a87','5cbef17d5a5b3a6d7bc2c6a522a39507ab64622aeafad1c684510ce0b1246d4b');
INSERT INTO "log" VALUES(5,'2026-11-17T00:55:50.719450+00:00','','limit changed','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit changed from rho 1 to rho 2","id":2,"key":"","kind":"limit","own_units":100000000000,"request":null,"spends":[],"time":"2026-11-17T00:55:50.719450+00:00","total_units":100000000000},"limit":{"by":"","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":3,"reason":"declared in the schema","time":"2026-11-17T00:55:50.719450+00:00","top_up_units":0},"release":{"entry":2,"sha256":"bd70db828598d174187996ef871811f5f67079635172252596a95ca9d4379b83"}}','5cbef17d5a5b3a6d7bc2c6a522a39507ab64622aeafad1c684510ce0b1246d4b','7ef4d9cfe526d949d9cca0b9450a9cab4ff72edd401e453cf4d9b5b822aef510');
INSERT INTO "log" VALUES(6,'2026-11-17T00:55:50.725687+00:00','','reserved','adult','{"entry":{"analyst":"","charge_units":500000000000,"dataset":"adult","description":"why","id":3,"key":"b","kind":"explain","own_units":600000000000,"request":null,"spends":[["top-k",0.25],["gaussian",0.25]],"time":"2026-11-17T00:55:50.725687+00:00","total_units":600000000000}}','7ef4d9cfe526d949d9cca0b9450a9cab4ff72edd401e453cf4d9b5b822aef510','b41afc5254dae2a97ed55e030b666299812f475efd8df58c5b6d8b744f52a1b8');
INSERT INTO "log" VALUES(7,'2026-11-17T00:55:50.727558+00:00','carol','allowance granted','adult','{"entry":{"analyst":"ann","charge_units":0,"dataset":"adult","description":"allowance set to rho 0.4: thesis","id":4,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-17T00:55:50.727558+00:00","total_units":600000000000},"grant":{"analyst":"ann","by":"carol","dataset":"adult","expires":null,"id":1,"limit_units":400000000000,"reason":"thesis","time":"2026-11-17T00:55:50.727558+00:00"},"release":{"entry":4,"sha256":"419a990a7d74f3f364ef0d0e055cab20a4e4312e649185cee6c587e7a51da7d5"}}','b41afc5254dae2a97ed55e030b666299812f475efd8df58c5b6d8b744f52a1b8','fbf40ee4a4fdc70fc2bc11640b9dee818b3a5d2d25ac301b72b5a5a7f08b10e5');
INSERT INTO "log" VALUES(8,'2026-11-17T00:55:50.735394+00:00','carol','topped up','adult','{"entry":{"analyst":"","charge_units":0,"dataset":"adult","description":"limit raised to rho 2.5: more","id":5,"key":"","kind":"top-up","own_units":600000000000,"request":null,"spends":[],"time":"2026-11-17T00:55:50.735394+00:00","total_units":600000000000},"limit":{"by":"carol","dataset":"adult","declared_units":2000000000000,"delta":1e-06,"id":4,"reason":"more","time":"2026-11-17T00:55:50.735394+00:00","top_up_units":500000000000},"release":{"entry":5,"sha256":"b8468cfbf8ffb461e8b34fd77cbf17e8c13d282cbce304b11753cba46a148365"}}','fbf40ee4a4fdc70fc2bc11640b9dee818b3a5d2d25ac301b72b5a5a7f08b10e5','1da29d308150110f3fc1f63d8f3241444e14f817dfb162400ff8910ddd72ea68');
INSERT INTO "log" VALUES(9,'2026-11-17T00:55:50.753339+00:00','ann','data version opened','adult','{"version":{"by":"ann","dataset":"adult","fingerprint":"c40b722f8d860225cfdc8ccbc69ceb008dcd95a487525099f4fdff782a0163f6","id":1,"secret_sha256":"32fad73923971383100f54ce616327e12f8860c5e749c9ef96e6d5be97308d69","time":"2026-11-17T00:55:50.753339+00:00","version":"2026-11"}}','1da29d308150110f3fc1f63d8f3241444e14f817dfb162400ff8910ddd72ea68','673265cc555aa09759d6e9b47e85f345147fe5062344eaa79c1f065ad5ac75a4');
INSERT INTO "log" VALUES(10,'2026-11-17T00:55:50.755120+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":50000000000,"dataset":"adult","declarations":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","description":"SELECT AVG(age) FROM adult","id":6,"key":"c","kind":"query","own_units":50000000000,"request":{"rho":0.05,"sql":"SELECT AVG(age) FROM adult"},"spends":[["gaussian",0.05]],"time":"2026-11-17T00:55:50.755120+00:00","total_units":650000000000,"version":"2026-11"}}','673265cc555aa09759d6e9b47e85f345147fe5062344eaa79c1f065ad5ac75a4','071a036065671ae708e3bd50024c88c4770aefd5ec0c25cffbe7db953a99a799');
INSERT INTO "log" VALUES(11,'2026-11-17T00:55:50.757690+00:00','ann','released','adult','{"release":{"entry":6,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}','071a036065671ae708e3bd50024c88c4770aefd5ec0c25cffbe7db953a99a799','13d0d275aebf69abd5d7c8381785ec7fc80d282583d693715eb621b69fdfedd5');
INSERT INTO "log" VALUES(12,'2026-11-17T00:55:50.759783+00:00','ann','reserved','adult','{"entry":{"analyst":"ann","charge_units":20000000000,"dataset":"adult","declarations":"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff","description":"prepare","id":7,"key":"d","kind":"prepare","own_units":70000000000,"request":{"prepare":{"rho":0.02}},"spends":[["gaussian",0.02]],"subject":"subject of c","time":"2026-11-17T00:55:50.759783+00:00","total_units":670000000000,"version":"2026-11"}}','13d0d275aebf69abd5d7c8381785ec7fc80d282583d693715eb621b69fdfedd5','a01fa32fcce3bcf53ffb66bf8dacc5e8f02d52d036bb2889ce17b132c480f4dd');
INSERT INTO "log" VALUES(13,'2026-11-17T00:55:50.761897+00:00','ann','released','adult','{"release":{"entry":7,"sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"}}','a01fa32fcce3bcf53ffb66bf8dacc5e8f02d52d036bb2889ce17b132c480f4dd','7c1657832211b1f321bd38fced8845b66997e28959e170a807f0dd76a4cbbcde');
INSERT INTO "log" VALUES(14,'2026-11-17T00:55:50.764483+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":1,"owner":"ann","reader":"ben","reason":"together","shared":true,"time":"2026-11-17T00:55:50.764483+00:00"}}','7c1657832211b1f321bd38fced8845b66997e28959e170a807f0dd76a4cbbcde','03c3d8969fefb8aef3d3f7e4214d2d3a6e5bf9aeca1be99059836b6274910e9d');
INSERT INTO "log" VALUES(15,'2026-11-17T00:55:50.768801+00:00','carol','shared','adult','{"share":{"by":"carol","dataset":"adult","id":2,"owner":"ann","reader":"*","reason":"all","shared":true,"time":"2026-11-17T00:55:50.768801+00:00"}}','03c3d8969fefb8aef3d3f7e4214d2d3a6e5bf9aeca1be99059836b6274910e9d','55ddfe9354e455c809df5681a28d0d61cbacff4b700ebd2ba6e598505bdd289a');
INSERT INTO "log" VALUES(16,'2026-11-17T00:55:50.773371+00:00','carol','unshared','adult','{"share":{"by":"carol","dataset":"adult","id":3,"owner":"ann","reader":"*","reason":"not all","shared":false,"time":"2026-11-17T00:55:50.773371+00:00"}}','55ddfe9354e455c809df5681a28d0d61cbacff4b700ebd2ba6e598505bdd289a','a9ed7fa3229311fdbce43c17cfb013d6c5b8a59faee150a72a6c60b2c0e93d1c');
INSERT INTO "log" VALUES(17,'2026-11-17T00:55:50.775520+00:00','carol','allowance granted','census','{"entry":{"analyst":"ann","charge_units":0,"dataset":"census","description":"allowance set to rho 0.4: thesis","id":8,"key":"","kind":"grant","own_units":0,"request":null,"spends":[],"time":"2026-11-17T00:55:50.775520+00:00","total_units":0},"grant":{"analyst":"ann","by":"carol","dataset":"census","expires":null,"id":2,"limit_units":400000000000,"reason":"thesis","time":"2026-11-17T00:55:50.775520+00:00"},"release":{"entry":8,"sha256":"419a990a7d74f3f364ef0d0e055cab20a4e4312e649185cee6c587e7a51da7d5"}}','a9ed7fa3229311fdbce43c17cfb013d6c5b8a59faee150a72a6c60b2c0e93d1c','96c43bc508e7428aa84612434c13d99d51e4addbbc72b0fce9bf79aa0d1dfc8d');
INSERT INTO "log" VALUES(18,'2026-11-17T00:55:50.779531+00:00','','reserved','census','{"entry":{"analyst":"","charge_units":100000000000,"dataset":"census","description":"SELECT COUNT(*) FROM census","id":9,"key":"e","kind":"query","own_units":100000000000,"request":{"rho":0.1,"sql":"SELECT COUNT(*) FROM census"},"spends":[["gaussian.counts",0.1]],"time":"2026-11-17T00:55:50.779531+00:00","total_units":100000000000}}','96c43bc508e7428aa84612434c13d99d51e4addbbc72b0fce9bf79aa0d1dfc8d','d32b25a5e1138bcd5ab85eefae21f9303f06a90ab9a77519aca84b4dfad3b24c');
INSERT INTO "log" VALUES(19,'2026-11-17T00:55:50.782667+00:00','','released','census','{"release":{"entry":9,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}','d32b25a5e1138bcd5ab85eefae21f9303f06a90ab9a77519aca84b4dfad3b24c','a464d2e90e8099b08f2458f5e777f646e33692440ce8d052851ab531a8e6ddab');
INSERT INTO "log" VALUES(20,'2026-11-17T00:55:50.784951+00:00','ann','reserved','census','{"entry":{"analyst":"ann","charge_units":200000000000,"dataset":"census","description":"why","id":10,"key":"f","kind":"explain","own_units":200000000000,"request":{"answer":9,"k":5},"spends":[["gumbel.top-k",0.05],["gaussian.influences",0.05],["gaussian.rank-search",0.1]],"time":"2026-11-17T00:55:50.784951+00:00","total_units":300000000000}}','a464d2e90e8099b08f2458f5e777f646e33692440ce8d052851ab531a8e6ddab','ab98d781b44e6992fa5acaaabc7eebd37ddfc93cb42d5342c8a6a711d539498f');
INSERT INTO "log" VALUES(21,'2026-11-17T00:55:50.787429+00:00','ann','released','census','{"release":{"entry":10,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}}','ab98d781b44e6992fa5acaaabc7eebd37ddfc93cb42d5342c8a6a711d539498f','3873baefb5f577ee3d369fc2ffcf56daa88ae9b5db5fbf00d00b4df28214d5c1');
INSERT INTO "log" VALUES(22,'2026-11-17T00:55:50.789282+00:00','ann','reserved','census','{"entry":{"analyst":"ann","charge_units":30000000000,"dataset":"census","description":"SELECT AVG(age) FROM census","id":11,"key":"g","kind":"query","own_units":230000000000,"request":null,"spends":[["sums (Gaussian)",0.01],["AVG(age): counts (Gaussian)",0.01]],"time":"2026-11-17T00:55:50.789282+00:00","total_units":330000000000}}','3873baefb5f577ee3d369fc2ffcf56daa88ae9b5db5fbf00d00b4df28214d5c1','bc895a32edd032d149de747abd63d6bc9a23443813eef4617394b2ad6626d7fc');
INSERT INTO "log" VALUES(23,'2026-11-17T00:55:50.790884+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-17T00:55:50.790884+00:00","expires":"2100-01-01T00:00:00+00:00","id":"4b766afcba95","name":"ann","parent":null,"role":"analyst","secret_hash_sha256":"3866dab5c07d62637f0845ecf0ec6399ffe18d8a4b21b8f1c2cc058fdf7f8ebd"}}','bc895a32edd032d149de747abd63d6bc9a23443813eef4617394b2ad6626d7fc','227082e37a672822f8b7136716788e34186453df912be32822f47ca00d689f45');
INSERT INTO "log" VALUES(24,'2026-11-17T00:55:50.794750+00:00','carol','token created',NULL,'{"token":{"by":"carol","created":"2026-11-17T00:55:50.794750+00:00","expires":"2100-01-01T00:00:00+00:00","id":"e33dfc321808","name":"ben","parent":null,"role":"curator","secret_hash_sha256":"3b9a7d0a5ca8b8dbd2f01712a79197d1bd215fb7205409fa8150913c2246391f"}}','227082e37a672822f8b7136716788e34186453df912be32822f47ca00d689f45','eb8487026214da4cecac783a646ed171da931d002e595d88726ed2d2940e6f41');
INSERT INTO "log" VALUES(25,'2026-11-17T00:55:50.801419+00:00','carol','token revoked',NULL,'{"revocation":{"by":"carol","time":"2026-11-17T00:55:50.801419+00:00","token":"e33dfc321808"}}','eb8487026214da4cecac783a646ed171da931d002e595d88726ed2d2940e6f41','0f8eeddea7fe20e2ed45ad716b61d86e07f08e4133930924005e803566a17469');
INSERT INTO "log" VALUES(26,'2026-11-17T00:55:51.045930+00:00','carol','schema edited','adult','{"column":"age"}','0f8eeddea7fe20e2ed45ad716b61d86e07f08e4133930924005e803566a17469','4ca70f141efcad3476500bce5a0c78bad611a94f428d829ec46f13282aa14f44');
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
INSERT INTO "revocations" VALUES('e33dfc321808','2026-11-17T00:55:50.801419+00:00','carol');
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
INSERT INTO "shares" VALUES(1,'adult','ann','ben',1,'2026-11-17T00:55:50.764483+00:00','together','carol');
INSERT INTO "shares" VALUES(2,'adult','ann','*',1,'2026-11-17T00:55:50.768801+00:00','all','carol');
INSERT INTO "shares" VALUES(3,'adult','ann','*',0,'2026-11-17T00:55:50.773371+00:00','not all','carol');
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
INSERT INTO "tokens" VALUES('4b766afcba95','ann','analyst','sha256$aae97922c71dd11d53d7e517f419c897123f932a14fd1e48f423124a9366cf2e','2026-11-17T00:55:50.790884+00:00','2100-01-01T00:00:00+00:00','carol',NULL,NULL);
INSERT INTO "tokens" VALUES('e33dfc321808','ben','curator','sha256$a84e3282099da18920aaa558f2a958f983ef8f3d1c4ac571483e1d2430989c0b','2026-11-17T00:55:50.794750+00:00','2100-01-01T00:00:00+00:00','carol',NULL,NULL);
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
INSERT INTO "versions" VALUES(1,'adult','2026-11','2026-11-17T00:55:50.753339+00:00','ann','432aa9b4fc91370893055e8debefc24cd4331d2f51332f086b0db510e126568a','c40b722f8d860225cfdc8ccbc69ceb008dcd95a487525099f4fdff782a0163f6');
CREATE INDEX limits_by_dataset ON limits (dataset, id);
CREATE INDEX grants_by_analyst ON grants (dataset, analyst, id);
CREATE INDEX entries_by_analyst_and_kind ON entries (dataset, analyst, kind, version, id);
CREATE INDEX entries_by_kind ON entries (dataset, kind, version, id);
CREATE INDEX entries_by_subject ON entries (dataset, subject, charge_units, id) WHERE kind = 'prepare' AND subject IS NOT NULL;
CREATE INDEX preparations_without_subject ON entries (dataset, kind, subject, analyst) WHERE kind = 'prepare' AND subject IS NULL;
CREATE INDEX entries_by_analyst ON entries (dataset, analyst, id, charge_units, total_units, own_units);
CREATE INDEX entries_by_key ON entries (dataset, "key", analyst, id);
CREATE INDEX entries_by_analyst_and_subject ON entries (dataset, subject, analyst, charge_units, id) WHERE kind = 'prepare' AND subject IS NOT NULL;
CREATE INDEX public_notices ON entries (dataset, analyst, charge_units, id) WHERE analyst = '' AND charge_units = 0;
CREATE INDEX entries_in_order ON entries (dataset, id);
CREATE INDEX unreleased_by_analyst ON unreleased (dataset, analyst, entry);
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
