"""The certificate and its key, checked before the server says that it is up."""

from __future__ import annotations

import ssl
from pathlib import Path

from dpxplain.errors import SchemaError
from dpxplain.server.config import Serving


def check_tls_files(serving: Serving) -> None:
    """Refuses files that are missing, are no PEM files, or do not belong together."""
    certificate, key = serving.tls_certificate, serving.tls_key
    if certificate is None or key is None:
        return
    _check_readable("tls_certificate", certificate)
    _check_readable("tls_key", key)
    try:
        # Without the empty password OpenSSL would ask at the terminal for that of an encrypted key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        raise _unusable(certificate, key, getattr(error, "reason", None) or "") from None


def _check_readable(name: str, file: Path) -> None:
    try:
        with file.open("rb"):
            return
    except FileNotFoundError:
        raise SchemaError(
            f"server.{name}: there is no file {str(file)!r}.",
            remedy="Put it there, or mend its path; a relative one begins at the configuration's folder.",
        ) from None
    except OSError as error:
        raise SchemaError(
            f"server.{name}: {str(file)!r} cannot be read: {error.strerror}.",
            remedy="Let the server's user read it.",
        ) from None


def _unusable(certificate: Path, key: Path, reason: str) -> SchemaError:
    if reason == "KEY_VALUES_MISMATCH":
        return SchemaError(
            f"server.tls_key: {str(key)!r} is not the key of the certificate {str(certificate)!r}.",
            remedy="Name the two files that were made together; in a file with a chain, the server's own "
            "certificate comes first.",
        )
    return SchemaError(
        f"server.tls_certificate and tls_key: {str(certificate)!r} and {str(key)!r} cannot be used"
        f"{f' ({reason})' if reason else ''}.",
        remedy="Both are PEM files; the key is not encrypted by a password.",
    )
