"""A start that cannot succeed, or only in part, says what is missing, where, and how to mend it."""

from __future__ import annotations

import logging
import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from test_server_setup import _certificate

import dpxplain as dpx
from dpxplain.errors import BadRequest, SchemaError, SourceError, Unavailable
from dpxplain.ledger.ledger import open_ledger
from dpxplain.server import app as running
from dpxplain.server.app import create_app
from dpxplain.server.config import Config
from server_fixture import SCHEMA, SQL, config_of, running_server, write_people

AT = "/datasets/people"
QUERY = {"sql": SQL, "rho": 0.1}


@pytest.mark.parametrize(
    ("section", "key", "value", "says"),
    [
        ("limits", "memory", "4G", 'did you mean "4GB"?'),
        ("limits", "memory", "4 gb", 'did you mean "4GB"?'),
        ("limits", "memory", 4, 'such as "4GB"'),
        ("limits", "memory", "much", 'such as "4GB"'),
        ("limits", "running", "two", "must be a whole number, without quotes"),
        ("limits", "runing", 2, "did you mean 'running'?"),
        ("limits", "pad_ratio", "fast", "must be a number, without quotes"),
        ("server", "trusted_hosts", "data.example.org", "in square brackets: trusted_hosts = ["),
        ("server", "proxy_addresses", "10.0.0.1", 'must be a list, in square brackets: proxy_addresses = ['),
        ("server", "trusted_hosts", [1], "server.trusted_hosts.0: must be text, in quotes"),
        ("server", "data_folder", 3, "server.data_folder: must be a path, in quotes"),
        ("server", "shared_port", "perhaps", "must be true or false, without quotes"),
        ("server", "datasets", [], "server.datasets: must have at least one item"),
        ("server", "ledger", "mysql://host/db", "server.ledger: mysql:// is not an address"),
        ("oidc", "curator_values", "admin", 'must be a list, in square brackets: curator_values = ['),
        ("oidc", "algorithms", ["HS256"], "must be 'RS256' or 'ES256'"),
    ],
)  # fmt: skip
def test_a_setting_of_the_wrong_kind_says_how_it_is_written(
    section: str, key: str, value: Any, says: str
) -> None:
    raw: dict[str, Any] = {"server": {"datasets": "d"}}
    if section == "oidc":
        raw["oidc"] = {"issuer": "https://x.org", "audience": "a"}
    raw.setdefault(section, {})[key] = value
    with pytest.raises(SchemaError) as refusal:
        Config.load(raw)
    assert f"{section}.{key}" in refusal.value.problem
    assert says in refusal.value.problem
    assert "?." not in refusal.value.problem
    assert "docs/server.md" in refusal.value.remedy


def test_a_section_that_is_no_section_says_so() -> None:
    with pytest.raises(SchemaError, match=r"limits: must be a section of its own: \[limits\]"):
        Config.load({"server": {"datasets": "d"}, "limits": 3})


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ({"datasets": "nowhere"}, "server.datasets: there is no folder or schema file '{}/nowhere'"),
        ({"datasets": ["schemas", "no.toml"]}, "there is no folder or schema file '{}/no.toml'"),
        ({"datasets": "schemas", "data_folder": "gone"}, "server.data_folder: there is no folder '{}/gone'"),
    ],
)  # fmt: skip
def test_a_missing_folder_is_named_with_its_key(tmp_path: Path, server: dict[str, Any], says: str) -> None:
    write_people(tmp_path / "schemas")
    file = tmp_path / "server.toml"
    lines = [f"{key} = {value!r}" for key, value in server.items()]
    file.write_text("\n".join(["[server]", *lines]), encoding="utf-8")
    with pytest.raises(SchemaError) as refusal:
        running.run(Config.load(file))
    assert says.format(tmp_path) in refusal.value.problem
    assert refusal.value.remedy
    assert sorted(path.name for path in tmp_path.iterdir()) == ["schemas", "server.toml"]  # no ledger


def test_a_server_with_an_empty_folder_starts_and_gets_its_first_data_set(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    config = Config.load({"server": {"datasets": str(tmp_path / "empty"), "port": 0}})
    book = open_ledger(tmp_path / "ledger.sqlite")
    with running_server(config, book) as server:
        curator = server.curator()
        assert curator.get("/datasets").json() == {"datasets": []}
        assert curator.get("/admin/datasets").json() == {"datasets": [], "editable": True}
        assert server.anonymous().get("/ready").status_code == 200
        refused = curator.post("/admin/datasets", json={"toml": SCHEMA})
        assert refused.status_code == 400, "its file is not there yet"
        write_people(tmp_path / "elsewhere")
        shutil.copy(tmp_path / "elsewhere/people.parquet", tmp_path / "empty")
        curator.post("/admin/datasets", json={"toml": SCHEMA}).raise_for_status()
        asked = server.client().post("/datasets/people/preview", json={"sql": SQL, "rho": 0.1})
        assert asked.status_code == 200


def test_a_folder_that_lost_its_schemas_is_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path / "data")
    with running_server(config, open_ledger(tmp_path / "ledger.sqlite")):
        pass
    (tmp_path / "data/people.toml").unlink()
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(SchemaError, match=r"there is no schema file in .*, but the ledger has data sets"):
        create_app(config, ledger)
    ledger.close()


def _refused_tls(folder: Path, certificate: Path, key: Path) -> SchemaError:
    """The refusal of a start with these files, before which nothing was opened or announced."""
    announced: list[str] = []
    server = {"tls_certificate": str(certificate), "tls_key": str(key)}
    config = config_of(folder / "data", server=server)
    with pytest.raises(SchemaError) as refusal:
        running.run(config, create=True, announce=announced.append)
    assert announced == []
    assert refusal.value.remedy
    return refusal.value


def test_tls_files_that_are_missing_or_do_not_match_are_refused_before_the_start(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
    certificate, key = _certificate(tmp_path / "one")
    _, foreign = _certificate(tmp_path / "other")
    gone, rubbish = tmp_path / "gone.pem", tmp_path / "rubbish.pem"
    rubbish.write_text("no PEM at all")
    assert f"server.tls_certificate: there is no file '{gone}'" in str(_refused_tls(tmp_path, gone, key))
    assert f"server.tls_key: there is no file '{gone}'" in str(_refused_tls(tmp_path, certificate, gone))
    assert f"'{foreign}' is not the key of the certificate" in str(
        _refused_tls(tmp_path, certificate, foreign)
    )
    assert "PEM" in str(_refused_tls(tmp_path, rubbish, key))
    assert "PEM" in str(_refused_tls(tmp_path, certificate, rubbish))


def _two_datasets(folder: Path) -> tuple[Config, Path]:
    """A configuration of people and of wages, whose data are missing; and where they belong."""
    schemas = write_people(folder / "schemas")
    wages = SCHEMA.replace('name = "people"', 'name = "wages"').replace("people.", "wages.")
    assert 'source = "wages.' in wages
    (schemas / "wages.toml").write_text(wages, encoding="utf-8")
    source = next(path for path in schemas.iterdir() if path.stem == "people" and path.suffix != ".toml")
    return config_of(folder / "unused", server={"datasets": str(schemas)}), source.with_stem("wages")


def test_one_missing_source_is_said_and_the_other_data_sets_are_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, missing = _two_datasets(tmp_path)
    with running_server(config) as server:
        opening = running.Opening.of(server.state)
        assert opening.datasets == ("people",)
        assert missing.name in opening.unavailable["wages"]
        ann = server.client("ann")
        listed = {d["name"]: d["available"] for d in ann.get("/datasets").json()["datasets"]}
        assert listed == {"people": True, "wages": False}
        assert ann.post(f"{AT}/query", json=QUERY).status_code == 200
        for path in ("/datasets/wages", "/datasets/wages/budget", "/datasets/wages/history"):
            refused = ann.get(path)
            assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
            assert "curator" in refused.json()["remedy"]
            assert str(tmp_path) not in refused.text
        with pytest.raises(Unavailable, match="cannot open this data set at the moment"):
            dpx.connect(f"{server.url}wages", token=server.token("ben"))
        carol = server.client("carol", "curator")
        problems = {d["name"]: d["problem"] for d in carol.get("/admin/datasets").json()["datasets"]}
        assert (problems["people"], problems["wages"]["code"]) == (None, "source_error")
        assert carol.get("/admin/datasets/wages").status_code == 200

        shutil.copy(missing.with_stem("people"), missing)
        deadline = time.monotonic() + 120  # it is opened once it is certain that nobody writes to it
        while (served := ann.get("/datasets/wages")).status_code == 503 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert served.status_code == 200
        assert ann.get("/datasets").json()["datasets"][1]["available"] is True
        assert running.Opening.of(server.state).unavailable == {}


def test_a_server_without_any_data_does_not_start(tmp_path: Path) -> None:
    config, _ = _two_datasets(tmp_path)
    (tmp_path / "schemas" / "people.toml").unlink()
    with closing(open_ledger(None)) as ledger, pytest.raises(SourceError), running_server(config, ledger):
        pass


def test_a_start_logs_the_ledger_its_head_and_the_data_sets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, missing = _two_datasets(tmp_path)
    monkeypatch.setattr(running.GracefulServer, "run", lambda *_args, **_kwargs: None)  # starts and ends
    steps: list[object] = []
    server = config.server.model_copy(update={"ledger": str(tmp_path / "budgets.sqlite")})
    named = config.model_copy(update={"server": server})
    with pytest.raises(BadRequest, match="does not exist"):
        running.run(named, announce=steps.append)
    assert steps == []
    for is_new in (True, False):
        steps.clear()
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="dpxplain.server"):
            running.run(named, create=is_new, report=steps.append, announce=steps.append)
        opening, address = steps
        assert isinstance(opening, running.Opening)
        assert str(address).startswith("http://")
        with closing(open_ledger(tmp_path / "budgets.sqlite", create=False)) as ledger:
            assert (opening.records, opening.head) == ledger.head()
        assert (opening.is_new, opening.datasets) == (is_new, ("people",))
        assert f"budgets.sqlite' is {'new' if is_new else 'open'}: {opening.records} records" in caplog.text
        assert f"head {opening.head}. Data sets: people." in caplog.text
        assert "wages is not available" in caplog.text
        assert missing.name in caplog.text
