PRAGMA application_id = 1146116176;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE datasets (
	name VARCHAR NOT NULL,
	limit_units BIGINT NOT NULL,
	delta FLOAT NOT NULL,
	PRIMARY KEY (name)
);
INSERT INTO "datasets" VALUES('adult',2000000000000,1.0e-06);
INSERT INTO "datasets" VALUES('census',500000000000,1.0e-06);
CREATE TABLE entries (
	id INTEGER NOT NULL,
	dataset VARCHAR NOT NULL,
	time VARCHAR NOT NULL,
	kind VARCHAR NOT NULL,
	"key" VARCHAR NOT NULL,
	description VARCHAR NOT NULL,
	charge_units BIGINT NOT NULL CHECK (charge_units >= 0),
	spends JSON NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(dataset) REFERENCES datasets (name)
);
INSERT INTO "entries" VALUES(1,'adult','2026-11-16T07:08:47.533483+00:00','query','a','SELECT COUNT(*) FROM adult',100000000000,'[["gaussian", 0.1]]');
INSERT INTO "entries" VALUES(2,'adult','2026-11-16T07:08:47.556799+00:00','limit','','limit changed from rho 1 to rho 2',0,'[]');
INSERT INTO "entries" VALUES(3,'adult','2026-11-16T07:08:47.572587+00:00','explain','b','why',500000000000,'[["top-k", 0.25], ["gaussian", 0.25]]');
CREATE TABLE releases (
	entry INTEGER NOT NULL,
	payload TEXT NOT NULL,
	PRIMARY KEY (entry),
	FOREIGN KEY(entry) REFERENCES entries (id)
);
INSERT INTO "releases" VALUES(1,'{"Zürich": 1}');
INSERT INTO "releases" VALUES(2,'{"old_limit": 1, "new_limit": 2}');
CREATE INDEX entries_by_charge ON entries (dataset, charge_units);
CREATE INDEX entries_by_key ON entries (dataset, "key");
COMMIT;
