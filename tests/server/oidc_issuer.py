"""A small OpenID Connect issuer on a loopback port: discovery, keys, and tokens of any kind a test wants."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "dpxplain"


class Issuer:
    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        self.published = ["rsa", "ec"]
        self.fetches = 0
        self.url = ""

    def keys(self) -> list[dict[str, Any]]:
        known = {
            "rsa": RSAAlgorithm.to_jwk(self.rsa.public_key(), as_dict=True) | {"alg": "RS256", "use": "sig"},
            "ec": ECAlgorithm.to_jwk(self.ec.public_key(), as_dict=True),
            "new": RSAAlgorithm.to_jwk(self.other.public_key(), as_dict=True),
        }
        return [known[name] | {"kid": name} for name in self.published]

    def token(self, key: Any = None, kid: str | None = "rsa", algorithm: str = "RS256", **claims: Any) -> str:
        now = int(time.time())
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "olga", "exp": now + 600, "iat": now}
        given = {name: value for name, value in (usual | claims).items() if value is not None}
        headers = {} if kid is None else {"kid": kid}
        return jwt.encode(given, self.rsa if key is None else key, algorithm=algorithm, headers=headers)


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.fetches += 1
            told: dict[str, Any] = {"keys": issuer.keys()}
            if self.path.endswith("openid-configuration"):
                told = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
            content = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_args: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
