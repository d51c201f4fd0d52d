"""The server's configuration: one strict TOML file, documented in docs/server.md.

Errors name the key. Secrets come from the environment. A server does not start if other machines could reach
it without TLS, or under names that are not listed.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from dpxplain.errors import BadRequest, SchemaError
from dpxplain.ledger import DEFAULT_LEDGER
from dpxplain.ledger.address import (
    LedgerAddress,
    check_configured,
    configured_ledger,
    find_ledger,
)
from dpxplain.model.hardening import unknown_key
from dpxplain.model.process import check_size
from dpxplain.model.schema import holds_password, is_database

DEFAULT_PORT = 8765


class _Strict(BaseModel):
    # Error messages hide the input: a value under a wrong key may be a password.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)


class Serving(_Strict):
    """[server]"""

    host: str = "127.0.0.1"
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)  # 0: any free port
    shared_port: bool = False
    ledger: str = Field(default=DEFAULT_LEDGER, repr=False)
    anchor: str | None = None
    datasets: tuple[Path, ...] = Field(min_length=1)
    data_folder: Path | None = None
    databases: tuple[str, ...] = ()
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    public_url: str | None = None
    trusted_hosts: tuple[str, ...] = ()
    behind_proxy: bool = False
    proxy_addresses: tuple[str, ...] = ("127.0.0.1", "::1")

    @field_validator("datasets", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str | Path) else value

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str | None) -> str | None:
        if value is not None:
            parts = urlsplit(value)
            local = parts.scheme == "http" and is_loopback(parts.hostname or "")
            if not (parts.scheme == "https" or local) or not parts.hostname or parts.path.strip("/"):
                raise ValueError("must look like https://name or https://name:port")
        return value

    @field_validator("databases")
    @classmethod
    def _check_databases(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        if any(holds_password(address) for address in addresses):
            raise ValueError(
                "must not contain a password; set PGPASSWORD or PGPASSFILE, or use a service file"
            )
        if not all(map(is_database, addresses)):
            raise ValueError("must be addresses such as postgresql://user@host/database")
        return addresses

    @field_validator("ledger")
    @classmethod
    def _check_ledger(cls, value: str) -> str:
        try:
            check_configured(value)
        except BadRequest as refusal:
            raise ValueError(f"{refusal.problem} {refusal.remedy}".rstrip(".")) from None
        return value

    @model_validator(mode="after")
    def _check_exposure(self) -> Serving:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key must be set together")
        if is_loopback(self.host):
            return self
        if self.tls_key is None and not self.behind_proxy:
            raise ValueError(
                "tokens would be sent unencrypted to this host; set tls_certificate and tls_key, or "
                "behind_proxy = true if a proxy adds TLS"
            )
        if self.public_url is None and not self.trusted_hosts:
            raise ValueError(
                'set public_url = "https://..." or trusted_hosts to the host names by which people reach '
                "the server"
            )
        return self

    @property
    def secure(self) -> bool:
        """Whether browsers use TLS. Assumes that a proxy adds it, unless `public_url` says otherwise."""
        if self.public_url is not None:
            return self.public_url.startswith("https://")
        return self.tls_key is not None or self.behind_proxy


class AnalystSettings(_Strict):
    """[analysts]"""

    default_rho: float = Field(default=0.0, ge=0, le=1_000_000)


class Limits(_Strict):
    """[limits]"""

    requests_per_minute: int = Field(default=600, ge=1)
    anonymous_per_minute: int = Field(default=60, ge=1)
    sign_ins_per_minute: int = Field(default=20, ge=1)
    body_bytes: int = Field(default=1_000_000, ge=1_000)
    upload_bytes: int = Field(default=100_000_000, ge=0)
    seconds_per_request: float = Field(default=60.0, gt=0)
    ledger_seconds: float = Field(default=5.0, gt=0, le=600)
    memory: str | None = None
    running: int = Field(default=2, ge=1, le=256)
    waiting: int = Field(default=16, ge=0)
    groups: int = Field(default=20_000, ge=1)
    ranked: int = Field(default=50_000_000, ge=1)
    failures: int = Field(default=3, ge=1)
    pad_seconds: float = Field(default=0.0, ge=0, le=600)
    pad_ratio: float = Field(default=1.25, ge=1, le=10)
    session_hours: float = Field(default=12.0, gt=0, le=24 * 30)

    @field_validator("memory", mode="before")
    @classmethod
    def _check_memory(cls, value: Any) -> Any:
        return check_size(value)

    @field_validator("pad_ratio")
    @classmethod
    def _check_pad_ratio(cls, ratio: float) -> float:
        if 1 < ratio < 1.01:
            raise ValueError("must be 1 (no padding), or at least 1.01")
        return ratio


class Oidc(_Strict):
    """[oidc]"""

    issuer: str
    audience: str = Field(min_length=1)
    jwks_url: str | None = None
    name_claim: str = "sub"
    role_claim: str = "roles"
    curator_values: tuple[str, ...] = ()
    analyst_values: tuple[str, ...] | None = None  # None: every holder of a valid token
    algorithms: tuple[Literal["RS256", "ES256"], ...] = Field(default=("RS256", "ES256"), min_length=1)

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _check_https(cls, value: str | None) -> str | None:
        if value is not None:
            parts = urlsplit(value)
            if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
                raise ValueError("must be an https address")
        return value


class Config(_Strict):
    """The whole file.

    >>> Config.load({"server": {"datasets": "schemas"}}).limits.running
    2
    """

    server: Serving
    analysts: AnalystSettings = AnalystSettings()
    limits: Limits = Limits()
    oidc: Oidc | None = None
    single_user: bool = Field(default=False, exclude=True)  # set by `serve` without a configuration only
    folder: Path = Field(default=Path(), exclude=True)  # of the file

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any]) -> Config:
        if isinstance(source, Mapping):
            return _checked(source, "the configuration", Path())
        file = Path(source)
        try:
            raw = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SchemaError(
                f"The configuration {file} does not exist.",
                remedy='Write one with [server] datasets = "schemas", or try: dpxplain serve --example adult',
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(
                f"{file} cannot be read: {type(error).__name__}.", remedy="Pass a TOML file in UTF-8."
            ) from None
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(
                f"{file} is not valid TOML: {error}.", remedy="Correct the file at this position."
            ) from None
        for key in raw.keys() & {"single_user", "folder"}:
            raise SchemaError(f"{file} has an unknown key: {key}.", remedy="Remove it.")
        return _checked(raw, str(file), file.parent.absolute())

    @property
    def ledger_address(self) -> LedgerAddress:
        """Where the ledger is, by the rule of every command. May hold a password, so it is never shown."""
        return find_ledger(configured=configured_ledger(self.server.ledger, self.folder, self.server.anchor))

    @property
    def hosts(self) -> frozenset[str]:
        """The names that a Host header may have, in lower case and without a port."""
        # Local monitoring uses these names, and no other site's page can have them.
        names = {"localhost", "127.0.0.1", "::1"}
        names |= {host.lower().strip("[]") for host in self.server.trusted_hosts}
        if self.server.public_url is not None:
            names.add((urlsplit(self.server.public_url).hostname or "").lower())
        if is_loopback(self.server.host):
            names.add(self.server.host.lower())
        return frozenset(names)


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(raw: Mapping[str, Any], where: str, folder: Path) -> Config:
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        # Only keys and rules are named: a value under a wrong key could be a secret.
        rules = "; ".join(_explain(e) for e in error.errors(include_input=False, include_url=False))
        raise SchemaError(
            f"In {where}: {rules}{'' if rules.endswith('?') else '.'}",
            remedy="Correct these keys in the configuration. docs/server.md lists all keys.",
        ) from None
    return config.model_copy(update={"server": _with_resolved_paths(config.server, folder), "folder": folder})


def _with_resolved_paths(server: Serving, folder: Path) -> Serving:
    """The settings with paths resolved from the file's folder; `ledger_address` does so for the ledger."""
    paths = {
        name: None if value is None else folder / value
        for name in ("data_folder", "tls_certificate", "tls_key")
        for value in [getattr(server, name)]
    }
    datasets = tuple(folder / path for path in server.datasets)
    return server.model_copy(update={**paths, "datasets": datasets})


_LIST = 'must be a list, in square brackets: {key} = ["..."]'
_EXPECTED = {
    "missing": "is missing",
    "tuple_type": _LIST,
    "list_type": _LIST,
    "too_short": "must have at least one item",
    "string_type": "must be text, in quotes",
    "path_type": "must be a path, in quotes",
    "int_type": "must be a whole number, without quotes",
    "int_parsing": "must be a whole number, without quotes",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number, without quotes",
    "float_parsing": "must be a number, without quotes",
    "bool_type": "must be true or false, without quotes",
    "bool_parsing": "must be true or false, without quotes",
    "model_type": "must be a section of its own: [{key}]",
    "model_attributes_type": "must be a section of its own: [{key}]",
}


def _explain(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"]) or "configuration"
    if error["type"] == "extra_forbidden":
        return f"{key}: {unknown_key(Config, error['loc'])}"
    if error["type"] in _EXPECTED:
        return f"{key}: {_EXPECTED[error['type']].format(key=error['loc'][-1])}"
    message = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{key}: {message[0].lower() + message[1:]}"
