"""The certificates that a server's is checked against, and sentences for when it does not pass."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from dpxplain.errors import BadRequest, Unavailable

CA_VARIABLE = "DPXPLAIN_CA"
_EXPIRED, _NOT_YET, _OTHER_NAME, _OTHER_ADDRESS = 10, 9, 62, 64  # OpenSSL's X509_V_ERR_*
_UNKNOWN_ISSUER = (18, 19, 20, 21)
_HOW = "Pass ca=FILE (or set DPXPLAIN_CA or SSL_CERT_FILE) with the certificate of its issuer, in PEM."


def verification(ca: str | Path | None) -> ssl.SSLContext | bool:
    """How to check a server's certificate: against `ca`, DPXPLAIN_CA or SSL_CERT_FILE, in this order.

    Without any, against the authorities that browsers know. The same for servers on this machine.
    """
    file = ca or os.environ.get(CA_VARIABLE) or os.environ.get("SSL_CERT_FILE")
    folder = os.environ.get("SSL_CERT_DIR")
    if not file and not folder:
        return True
    try:
        return ssl.create_default_context(cafile=file or None, capath=None if file else folder)
    except (OSError, ssl.SSLError):
        raise BadRequest(
            f"The CA file {str(file or folder)!r} cannot be read, or holds no certificate.",
            remedy="Name a file with certificates in PEM, which begin with -----BEGIN CERTIFICATE-----.",
        ) from None


def certificate_problem(error: BaseException, home: str) -> Unavailable | None:
    """What is wrong with the server's certificate, if that is why no connection came about."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    if not isinstance(cause, ssl.SSLCertVerificationError):
        return Unavailable(
            f"{home} does not speak TLS as this client does.",
            remedy="Check the address and its port: is it http:// there?",
        )
    code = cause.verify_code
    if code in _UNKNOWN_ISSUER:
        return Unavailable(f"The certificate of {home} is of an issuer that is not known here.", remedy=_HOW)
    if code in (_OTHER_NAME, _OTHER_ADDRESS):
        return Unavailable(
            f"The certificate of {home} is for another host name.",
            remedy="Use the name that the certificate was made for, or have one made for this name.",
        )
    if code == _EXPIRED:
        return Unavailable(
            f"The certificate of {home} has expired.",
            remedy="Whoever runs the server has to renew it; check this machine's clock, too.",
        )
    if code == _NOT_YET:
        return Unavailable(
            f"The certificate of {home} is not valid yet.", remedy="Check the clock of this machine."
        )
    return Unavailable(f"The certificate of {home} was not accepted.", remedy=_HOW)
