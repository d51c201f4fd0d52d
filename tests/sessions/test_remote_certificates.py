"""Servers whose certificate is of an issuer of one's own, and certificates that are the problem."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import dpxplain as dpx
from dpxplain.cli.command_line import run
from server_fixture import COUNT, RunningServer, config_of, running_server

DAY = timedelta(days=1)


class Authority:
    """An issuer of certificates that nobody else knows."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = self._builder(self._name, self._key.public_key(), DAY).add_extension(constraints, True)
        self.file = folder / "ca.pem"
        certificate = builder.sign(self._key, hashes.SHA256())
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def certificate(self, host: str = "127.0.0.1", lasts: timedelta = DAY) -> tuple[Path, Path]:
        """The files of a server's certificate and key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a server")])
        try:
            name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        builder = self._builder(subject, key.public_key(), lasts)
        builder = builder.add_extension(x509.SubjectAlternativeName([name]), False)
        files = self._folder / "server.pem", self._folder / "server.key"
        signed = builder.sign(self._key, hashes.SHA256())
        files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        form = serialization.PrivateFormat.PKCS8
        secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        files[1].write_bytes(secret)
        return files

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, lasts: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * DAY)
            .not_valid_after(now + lasts)
        )


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DPXPLAIN_CA", "SSL_CERT_FILE", "SSL_CERT_DIR", "DPXPLAIN_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def secured(folder: Path, certificate: tuple[Path, Path]) -> Iterator[RunningServer]:
    files = {"tls_certificate": str(certificate[0]), "tls_key": str(certificate[1])}
    with running_server(config_of(folder, server=files)) as server:
        assert server.url.startswith("https://127.0.0.1")
        yield server


def test_a_ca_file_lets_the_client_trust_its_own_issuer_also_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "ca")
    with secured(tmp_path / "data", authority.certificate()) as server:
        place, token = f"{server.url}people", server.token("alice")
        with pytest.raises(dpx.Unavailable, match=r"does not know the issuer.*ca=FILE"):
            dpx.connect(place, token=token)
        with dpx.connect(place, token=token, ca=authority.file) as session:
            assert len(session.query(COUNT, rho=0.1).rows) == 2
        for variable in ("SSL_CERT_FILE", "DPXPLAIN_CA"):
            with monkeypatch.context() as patch:
                patch.setenv(variable, str(authority.file))
                with dpx.connect(place, token=token) as session:
                    assert session.budget.spent == 0.1
        stranger = Authority(tmp_path / "other", "another authority")
        with pytest.raises(dpx.Unavailable, match="issuer"):
            dpx.connect(place, token=token, ca=stranger.file)


def test_the_command_line_takes_a_ca_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path / "ca")
    monkeypatch.chdir(tmp_path)
    with secured(tmp_path / "data", authority.certificate()) as server:
        monkeypatch.setenv("DPXPLAIN_TOKEN", server.token("alice"))
        command = ["budget", "--data", f"{server.url}people"]
        assert run(command) == 2
        assert "the issuer" in " ".join(capsys.readouterr().err.split())
        assert run([*command, "--ca", str(authority.file)]) == 0
        monkeypatch.setenv("DPXPLAIN_CA", str(authority.file))
        assert run(command) == 0


@pytest.mark.parametrize(
    ("host", "lasts", "problem"),
    [
        ("data.example.org", DAY, "is for another host name.*Use the host name"),
        ("127.0.0.1", -DAY, "has expired.*renew"),
    ],
)
def test_a_certificate_that_is_the_problem_is_said_to_be(
    tmp_path: Path, host: str, lasts: timedelta, problem: str
) -> None:
    authority = Authority(tmp_path / "ca")
    with (
        secured(tmp_path / "data", authority.certificate(host, lasts)) as server,
        pytest.raises(dpx.Unavailable, match=problem),
    ):
        dpx.connect(f"{server.url}people", token=server.token("alice"), ca=authority.file)


def test_https_to_a_server_without_tls_is_said_to_be_that(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path)) as server:
        place = f"{server.url}people".replace("http://", "https://")
        with pytest.raises(dpx.Unavailable, match="does not use TLS"):
            dpx.connect(place, token=server.token("alice"))


def test_a_ca_file_that_cannot_be_used_is_refused_in_words(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing", encoding="utf-8")
    for file in (empty, tmp_path / "missing.pem"):
        with pytest.raises(dpx.BadRequest, match=r"CA file .* cannot be read"):
            dpx.connect("https://localhost:1/people", token="dpx_x", ca=file)
    with pytest.raises(dpx.BadRequest, match="ca= works only with a server"):
        dpx.connect(tmp_path / "people.parquet", schema={}, ca=empty)
