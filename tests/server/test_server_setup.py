"""Setting a server up: its configuration, TLS, and a single user without login."""

from __future__ import annotations

import datetime
import ipaddress
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dpxplain.errors import BadRequest, DPXPlainError
from dpxplain.ledger.ledger import open_ledger
from dpxplain.server.app import example_config, listening, single_user_config
from dpxplain.server.config import Config, Serving
from server_fixture import SCHEMA, SQL, config_of, running_server, write_people

AT = "/datasets/people"
OIDC = {"issuer": "https://x.org", "audience": "a"}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({}, "server: is missing"),
        ({"server": {}}, "server.datasets: is missing"),
        ({"server": {"datasets": "d", "colour": 1}}, "server.colour: is not a known key"),
        ({"server": {"datasets": []}}, "server.datasets"),
        ({"server": {"datasets": "d", "port": 70000}}, "server.port"),
        ({"server": {"datasets": "d", "host": "0.0.0.0"}}, "unencrypted"),
        ({"server": {"datasets": "d", "host": "0.0.0.0", "behind_proxy": True}}, (
            "the host names by which people reach"
        )),
        ({"server": {"datasets": "d", "tls_key": "k"}}, "must be set together"),
        ({"server": {"datasets": "d", "public_url": "ftp://x"}}, "server.public_url"),
        ({"server": {"datasets": "d", "ledger": "postgresql://u:hunter2@h/d"}}, (
            "server.ledger: the configuration file must not contain the ledger's password"
        )),
        ({"server": {"datasets": "d"}, "limits": {"memory": "lots"}}, "limits.memory"),
        ({"server": {"datasets": "d"}, "limits": {"running": 0}}, "limits.running"),
        ({"server": {"datasets": "d"}, "oidc": {"issuer": "http://x.org", "audience": "a"}}, "oidc.issuer"),
        ({"server": {"datasets": "d"}, "oidc": OIDC | {"algorithms": ["HS256"]}}, "oidc.algorithms"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_is_refused_by_its_key(raw: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest) as refused:
        Config.load(raw)
    assert says in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_paths_are_relative_to_the_file_and_the_environment_names_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.toml"
    file.write_text('[server]\ndatasets = ["a", "b.toml"]\ndata_folder = "data"\n', encoding="utf-8")
    config = Config.load(file)
    assert config.server.datasets == (tmp_path / "a", tmp_path / "b.toml")
    assert config.server.data_folder == tmp_path / "data"
    assert config.ledger_address.place == str(tmp_path / ".dpxplain" / "ledger.sqlite")
    monkeypatch.setenv("DPXPLAIN_LEDGER", "postgresql://elsewhere/db")
    assert config.ledger_address.place == "postgresql://elsewhere/db"
    file.write_text("single_user = true\n[server]\ndatasets = 'a'\n", encoding="utf-8")
    with pytest.raises(BadRequest, match="single_user"):
        Config.load(file)


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return files


def test_with_a_certificate_everything_is_https_and_cookies_are_bound_to_it(tmp_path: Path) -> None:
    certificate, key = _certificate(tmp_path)
    server = {"tls_certificate": str(certificate), "tls_key": str(key)}
    trusted = ssl.create_default_context(cafile=str(certificate))
    with running_server(config_of(tmp_path / "data", server=server), verify=trusted) as running:
        assert running.url.startswith("https://")
        browser = running.browser()
        response = browser.get(f"{AT}/budget")
        assert response.status_code == 200
        assert response.headers["strict-transport-security"].startswith("max-age=")
        signed_in = running.anonymous().post("/session", json={"token": running.token("alice")})
        cookie = signed_in.headers["set-cookie"]
        assert cookie.startswith("__Host-dpxplain=")
        assert "Secure" in cookie
        assert browser.post(f"{AT}/preview", json={"sql": SQL, "rho": 0.1}).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(running.url.replace("https", "http"))


def test_a_single_user_needs_the_key_and_the_servers_own_page(tmp_path: Path) -> None:
    config = single_user_config(write_people(tmp_path) / "people.toml")
    with running_server(config) as running:
        client = running.anonymous()
        entered = client.get(running.door)
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        me = client.get("/me").json()
        assert (me["single_user"], me["signed_in"], me["role"]) == (True, True, "curator")
        query = {"sql": SQL, "rho": 0.1}
        assert client.post(f"{AT}/query", json=query).json()["code"] == "foreign_origin"
        client.headers["Origin"] = running.url.rstrip("/")
        answer = client.post(f"{AT}/query", json=query).json()
        assert client.get(f"{AT}/answers/{answer['id']}/truth").status_code == 200
        foreign = client.post(f"{AT}/query", json=query, headers={"Origin": "https://evil.example"})
        assert foreign.status_code == 403
        assert client.get(f"{AT}/history", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        edit = client.put("/admin/datasets/people", json={"toml": SCHEMA})
        assert (edit.status_code, edit.json()["code"]) == (409, "not_editable")


def test_without_login_the_server_stays_on_this_machine() -> None:
    for host in ("0.0.0.0", "192.168.1.5", "example.org", "::"):
        with pytest.raises(BadRequest, match="only this machine"):
            example_config("adult", host=host)


@pytest.mark.process
def test_the_command_prints_its_address_and_ends_in_order(tmp_path: Path) -> None:
    code = "import sys, typer; from dpxplain.cli.admin_commands import serve; typer.run(serve)"
    schema = write_people(tmp_path) / "people.toml"
    command = [sys.executable, "-c", code, "--schema", str(schema), "--port", "0",
               "--workspace", str(tmp_path / "workspace")]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = [process.stderr.readline()]
        while said[-1] and not said[-1].startswith("DPXPlain is at"):
            said.append(process.stderr.readline())
        line = said[-1]
        assert "ledger.sqlite' is new: 2 records, head " in " ".join("".join(said).split())
        url, key = line.split()[-1].split("?key=")
        assert line.startswith("DPXPlain is at http://127.0.0.1:")
        signed_in = {"Authorization": f"Bearer {key}"}
        with httpx.Client(base_url=f"{url}api/v1", headers=signed_in, timeout=120) as client:
            client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).raise_for_status()
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in rest) == (0, False)
    finally:
        process.kill()
        process.wait()
    book = open_ledger(tmp_path / "workspace" / "ledger.sqlite")
    assert book.budget("people").spent == 0.1
    book.close()


def test_two_files_for_one_table_or_no_folder_at_all_do_not_start(tmp_path: Path) -> None:
    write_people(tmp_path / "twice")
    (tmp_path / "twice" / "again.toml").write_text(SCHEMA, encoding="utf-8")
    for folder in ("twice", "missing"):
        config = Config.load({"server": {"datasets": str(tmp_path / folder)}})
        book = open_ledger(None)
        with pytest.raises(DPXPlainError), running_server(config, book):
            pass
        book.close()


def test_processes_listen_on_one_port_only_where_the_configuration_shares_it() -> None:
    alone = Serving(datasets=(Path("d"),), port=0)
    with listening(alone) as first:
        taken = alone.model_copy(update={"port": first.getsockname()[1]})
        with pytest.raises(DPXPlainError, match="cannot listen"):
            listening(taken)
    shared = alone.model_copy(update={"shared_port": True})
    with listening(shared) as first:
        same = shared.model_copy(update={"port": first.getsockname()[1]})
        with listening(same) as second:
            assert second.getsockname() == first.getsockname()
