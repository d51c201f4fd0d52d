"""Wrappers that keep true values and digests of the data from leaving by accident.

A `Confidential` true value cannot be printed, compared, pickled or turned into text. `map` computes on it
without opening it; only `privacy/mechanisms` and the curator's view call `reveal`, which
tests/test_architecture.py checks.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import Generic, NoReturn, ParamSpec, TypeVar

from dpxplain.errors import InternalError
from dpxplain.model.process import Stopped

T = TypeVar("T")
U = TypeVar("U")
P = ParamSpec("P")


def sealed(function: Callable[P, T]) -> Callable[P, T]:
    """Decorates a function whose frames hold true values, so that its exceptions carry none of them.

    An exception carries values in its message, its arguments, and the frames of its traceback, which
    debuggers and error trackers print. It is replaced by a new one, raised outside the handler, so that
    neither a cause nor an inner frame is attached.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        failure: BaseException
        try:
            return function(*args, **kwargs)
        except (KeyboardInterrupt, SystemExit) as stop:
            failure = type(stop)()
        except MemoryError:
            failure = MemoryError()
        except Stopped:
            failure = Stopped()
        except Exception:
            failure = InternalError(
                "A computation on confidential values failed.",
                remedy="Please report this. The reserved budget stays spent.",
            )
        del args, kwargs  # this frame is in the new exception's traceback
        raise failure

    return run


class Confidential(Generic[T]):
    """Wraps a true value.

    >>> secret = Confidential(42)
    >>> secret
    <Confidential>
    >>> f"{secret.map(lambda n: n + 1)}"
    '<Confidential>'
    """

    __slots__ = ("__value",)

    def __init__(self, value: T) -> None:
        self.__value = value

    def map(self, function: Callable[[T], U]) -> Confidential[U]:
        """Compute on the value without opening it.

        An exception inside `function` is replaced by one that carries no value.
        """
        return Confidential(sealed(function)(self.__value))

    def zip(self, other: Confidential[U]) -> Confidential[tuple[T, U]]:
        """Both values under one wrapper, to compute on them together."""
        return Confidential((self.__value, other.reveal()))

    def reveal(self) -> T:
        """The true value. Only for `privacy/mechanisms` and the curator's view."""
        return self.__value

    def __repr__(self) -> str:
        return "<Confidential>"

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        return "<Confidential>"

    def _refuse(self, *_args: object) -> NoReturn:
        raise InternalError("A confidential value was about to be compared, tested, iterated or stored.")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __bool__ = __len__ = __iter__ = __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = (
        _refuse
    )
    __hash__ = _refuse


class ContentDigest:
    """SHA-256 of a data set's content, to tell whether two readings are of the same data.

    It could be compared with digests of guessed data, so it cannot be printed or pickled; a ledger stores
    only its HMAC under a secret.

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

    @classmethod
    def of_all(cls, digests: Iterable[ContentDigest]) -> ContentDigest:
        """The digest of several digests, in this order."""
        return cls.of(b"".join(digest._sha256 for digest in digests))

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
        raise TypeError("a digest of the data cannot be copied or pickled")
