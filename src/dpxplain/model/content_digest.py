"""A digest of a data set's content, to tell whether two readings are of the same data.

The digest itself could be compared with digests of guessed data, so it is never shown or stored: only its
HMAC under a secret of the ledger is.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import NoReturn


class ContentDigest:
    """SHA-256 of some content. Cannot be printed or pickled.

    >>> ContentDigest.of(b"rows"), ContentDigest.of(b"rows") == ContentDigest.of(b"rows")
    (<ContentDigest>, True)
    """

    __slots__ = ("_sha256",)

    def __init__(self, sha256: bytes) -> None:
        self._sha256 = sha256

    @classmethod
    def of(cls, content: bytes) -> ContentDigest:
        return cls(hashlib.sha256(content).digest())

    @classmethod
    def of_parts(cls, parts: list[bytes]) -> ContentDigest:
        """The digest of several digests of one length, in any order."""
        return cls.of(b"".join(sorted(parts)))

    def keyed(self, secret: str) -> str:
        """The fingerprint that a ledger stores."""
        return hmac.new(secret.encode(), self._sha256, hashlib.sha256).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContentDigest) and hmac.compare_digest(self._sha256, other._sha256)

    def __hash__(self) -> int:
        return hash(self._sha256)

    def __repr__(self) -> str:
        return "<ContentDigest>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a digest of the data is neither copied nor written")


@dataclass(frozen=True)
class DataState:
    """The data that a charge is about to be measured on."""

    version: str
    """As the curator declares it."""
    digest: ContentDigest | None
    """None: recognised as the version's data without being read again."""
