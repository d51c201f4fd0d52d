"""A data set whose rows are at a server. Everything public is computed here, by the same code as there."""

from __future__ import annotations

import json
import math
import os
import ssl
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx

from dpxplain.curator import TruthColumns
from dpxplain.errors import (
    BadRequest,
    CuratorOnly,
    Denied,
    DPXPlainError,
    InternalError,
    QueryRefused,
    Unavailable,
)
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import Budget, Entry, EntryId, HistoryPage, Request, whole_history
from dpxplain.model.display import Record
from dpxplain.model.release import R, Released
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset, Progress, ReleasePlan, Show, T
from dpxplain.privacy.mechanisms.noise import OpenDPNoise
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.results.base import Truth, TruthTeller
from dpxplain.results.explanation import Explanation
from dpxplain.results.question import Question
from dpxplain.results.released_answer import why_request
from dpxplain.wire import PROTOCOL, PROTOCOL_HEADER
from dpxplain.wire.shapes import read_entry

# -- Data set ----------------------------------------------------------------------------------------------


class RemoteDataset(OpenDataset):
    """A data set at a server. Plans, prices, verdicts and tables are made here; the server sends releases."""

    def __init__(self, server: DatasetServer, details: Mapping[str, Any], progress: Progress) -> None:
        declared = details["schema"]
        if not isinstance(declared, dict):  # a string would be opened as a file on this machine
            raise not_a_server()
        ledger = RemoteLedger(server)
        if "quality" in details:
            ledger.keep_quality(details["quality"])
        releaser = RemoteReleaser(server, ledger)
        self._server = server
        super().__init__(Schema.load(declared), None, ledger, releaser, OpenDPNoise(), progress)

    def reopened(self, _schema: Schema) -> RemoteDataset:
        """The data set as the server declares it now, with the values that were discovered."""
        return type(self)(self._server, self._server.enter(), self.progress)


class RemoteCuratorDataset(RemoteDataset, TruthTeller):
    """A curator's data set. True values come from the server, which records that they were looked at."""

    def answer_truth(self, answer: Answer) -> Truth:
        # By its expression: the query may have been stored under other names.
        of = quote(answer.expression, safe="")
        return _truth(self._server.get(f"{_truth_path(answer)}&of={of}"))

    def answers_truth(self, answers: Answers) -> Truth:
        return _truth(self._server.get(_truth_path(answers)))

    def question_truth(self, question: Question, choice: FamilyChoice) -> Truth:
        return _truth(
            self._server.post("/why/truth", why_request(question) | {"family": choice.to_request()})
        )

    def table_truth(self, table: Explanation) -> Truth:
        return _truth(self._server.post("/explain/truth", table.request))


def open_remote(
    url: str,
    token: str | None,
    *,
    curator: bool,
    progress: Progress,
    ca: str | Path | None = None,
) -> RemoteDataset:
    """The data set at its address; with true values only if the caller is its curator and asks for them."""
    server = DatasetServer(url, token, ca)
    try:
        details = server.enter()
        if not isinstance(details, dict) or not {"schema", "role"} <= details.keys():
            raise not_a_server()
        if not curator:
            return RemoteDataset(server, details, progress)
        if details["role"] != "curator":
            raise CuratorOnly(
                "This is not a curator's token.", remedy="Leave out curator=True, or use a curator's token."
            )
        return RemoteCuratorDataset(server, details, progress)
    except BaseException:
        server.close()
        raise


def _truth(body: Mapping[str, Any]) -> Truth:
    rows = list(map(_with_infinities, body["rows"]))
    return Truth(body["title"], rows, tuple(body["shaped_by"]))


def _truth_path(answer: Answer | Answers) -> str:
    return f"/answers/{_in_path(answer.id)}/truth?confidence={float(answer.confidence)!r}"


def _with_infinities(row: Record) -> Record:
    """A row of true values with its infinities (and NaN), which JSON has as null."""
    columns = TruthColumns.of(row)
    if columns is None:
        gap = [row.get("gap_without_low"), row.get("gap_without_high"), row.get("gap_without_covered")]
        knows_gap = any(part is not None for part in gap)  # else null says that nothing is known
        pairs = [("influence_low", "influence_high")] if "influence_low" in row else []
        pairs += [("gap_without_low", "gap_without_high")] if knows_gap else []
        numbers = {}
    else:
        pairs = [(columns.low, columns.high), *([columns.general] if columns.general else [])]
        numbers = {columns.noise_scale: math.nan} if columns.noise_scale else {}
    for low, high in pairs:
        numbers |= {low: -math.inf, high: math.inf}
    return row | {name: number for name, number in numbers.items() if row[name] is None}


# -- Ledger and releases -----------------------------------------------------------------------------------

_PAGE = 500  # lines of the history, as many as the server sends at once


class RemoteLedger:
    """The server's ledger, as one analyst may read it.

    Preparations are fetched once per query and kept. So is the data set's quality, which every displayed
    result looks up.
    """

    def __init__(self, server: DatasetServer) -> None:
        self._server = server
        self._preparations: dict[str, list[Entry]] = {}  # by their subject
        self._releases: dict[EntryId, tuple[Entry, str]] = {}  # kept ones; a release never changes
        self._qualities: list[Entry] | None = None  # the latest, if any; None until it is fetched

    def budget(self, dataset: str) -> Budget:
        body = self._server.get("/budget")
        expires = body["expires"]
        return Budget(
            limit=body["rho"]["limit"],
            spent=body["rho"]["spent"],
            delta=body["delta"],
            expires=None if expires is None else datetime.fromisoformat(expires),
            shared_remaining=body["shared_remaining"],
            gaussian=body["gaussian"],
            discovered_delta=body["total_delta"] - body["delta"],
        )

    def find(self, dataset: str, key: str) -> tuple[Entry, str] | None:
        return self._release(f"/releases?key={quote(key)}")

    def get(self, dataset: str, entry: EntryId) -> tuple[Entry, str] | None:
        return self._releases.get(entry) or self._release(f"/releases/{_in_path(entry)}")

    def entry(self, dataset: str, id: EntryId) -> Entry | None:
        release = self.get(dataset, id)
        return None if release is None else release[0]

    def latest(self, dataset: str, kind: str, version: str | None = None) -> Entry | None:
        """`version` is not sent: the server answers for the version it has."""
        if kind == "quality" and self._qualities is not None:
            return self._qualities[-1] if self._qualities else None
        release = self._release(f"/releases?kind={quote(kind)}")
        latest = None if release is None else release[0]
        if kind == "quality":
            self._qualities = [] if latest is None else [latest]
        return latest

    def preparations(self, dataset: str, subject: str) -> list[Entry]:
        if subject not in self._preparations:
            body = self._server.get(f"/preparations?subject={quote(subject)}")
            self._preparations[subject] = [read_entry(line) for line in body["entries"]]
        return self._preparations[subject]

    def history_page(self, dataset: str, before: EntryId | None = None, limit: int = _PAGE) -> HistoryPage:
        position = "" if before is None else f"&before={_in_path(before)}"
        body = self._server.get(f"/history?limit={max(1, min(limit, _PAGE))}{position}")
        return HistoryPage([read_entry(line) for line in body["entries"]], body["older"])

    def history(self, dataset: str) -> list[Entry]:
        return whole_history(lambda before: self.history_page(dataset, before))

    def discovered(self, dataset: str, key: str) -> None:
        """Always None: the server's schema holds what was discovered."""

    def spent_delta(self, dataset: str, column: str | None = None, *, besides: str = "") -> float:
        """Always 0: the server, which knows all charges, checks δ before it charges."""
        return 0.0

    def keep_preparations(self, preparations: Sequence[Mapping[str, Any]]) -> None:
        """Remembers the preparations that the server names for a query."""
        for prepared in preparations:
            self._preparations[prepared["subject"]] = list(map(read_entry, prepared["entries"]))

    def add_preparation(self, subject: str, entry: Entry, text: str) -> None:
        """Remembers a preparation that this session bought or read."""
        self._releases[entry.id] = entry, text
        preparations = self._preparations.get(subject)
        if preparations is not None and all(other.id != entry.id for other in preparations):
            preparations.append(entry)

    def add_quality(self, entry: Entry, text: str) -> None:
        """Remembers the quality that this session bought or read."""
        self._releases[entry.id] = entry, text
        self._qualities = [entry]

    def keep_quality(self, body: Mapping[str, Any] | None) -> None:
        """Remembers the latest quality, or that there is none."""
        self._qualities = [] if body is None else [self._keep(body)[0]]

    def forget_preparations(self) -> None:
        """Forgets what is prepared, because that has changed at the server."""
        self._preparations.clear()

    def close(self) -> None:
        self._server.close()

    def _release(self, path: str) -> tuple[Entry, str] | None:
        try:
            body = self._server.get(path)
        except Denied:
            return None
        return self._keep(body)

    def _keep(self, body: Mapping[str, Any]) -> tuple[Entry, str]:
        """Remembers a release, and the preparations that the server names with it."""
        release = read_entry(body["entry"]), str(body["release"])
        self._releases[release[0].id] = release
        self.keep_preparations(body.get("preparations", ()))
        return release


class RemoteReleaser:
    """Sends one request to the server, which finds or measures the release, and sends it back.

    The request carries the key computed here. The server plans the same from the same declarations, and
    refuses before it charges anything if its key differs.
    """

    def __init__(self, server: DatasetServer, ledger: RemoteLedger) -> None:
        self._server = server
        self._ledger = ledger

    def find_or_measure(
        self,
        plan: ReleasePlan[R],
        request: Request,
        dataset: OpenDataset,
        show: Show[R, T],
        look: Hashable,
        found: Released[R] | None = None,
    ) -> T:
        """Asks the server even if the release was `found` before: only the server can check the data."""
        charge = plan.charge(dataset, request)
        if request.body is None:
            raise BadRequest(
                "A server does not accept influence=, because it is code that would run on true counts.",
                remedy='To explain a ratio, use why_ratio("A", "B"), which works here too. For other '
                "influences ask the curator, who can run them next to the data.",
            )
        if charge.kind == "tune":
            raise BadRequest(
                "Bounds can be tuned only next to the schema, not through a server.",
                remedy="Ask the curator to run: dpxplain schema tune",
            )
        body = self._ask(charge.kind, {**request.body, "expected_key": charge.key}, dataset.progress)
        entry, text = read_entry(body["entry"]), str(body["release"])
        if charge.subject is not None:
            self._ledger.add_preparation(charge.subject, entry, text)
        if charge.kind == "quality":
            self._ledger.add_quality(entry, text)
        self._ledger.keep_preparations(body.get("preparations", ()))
        return show(Released(plan.read(text), entry, body["free"]))

    def _ask(self, kind: str, body: Mapping[str, Any], progress: Progress) -> Any:
        try:
            return self._server.release(kind, body, progress)
        except OtherPlan:
            # Somebody may have prepared the answer meanwhile: the next plan looks again.
            self._ledger.forget_preparations()
            raise


def _in_path(id: EntryId) -> str:
    return quote(str(id), safe="@")


# -- Connection --------------------------------------------------------------------------------------------
#
# A request that is answered with 429 or 503 is sent again after the pause that the server asks for. It is
# charged once, since the server finds an earlier charge by the request's key. After a lost connection, a
# GET is sent again, and a release is looked up by its key. It is not requested again: if the server's
# process is gone, its charge stays, and the person decides whether to pay again.

MOST_BYTES = 500_000_000  # a preparation of two million cells is a tenth of it
LONGEST_PATIENCE = 60.0  # seconds that one request spends in pauses
_WAIT = 20  # seconds a request for a job's state stays open
_FIRST_PAUSE, _SECONDS_BETWEEN_LOOKS, _SECONDS_BETWEEN_JOBS = 0.5, 2.0, 5.0
_LEDGER_AWAY = "ledger_unavailable"
_LOCAL = ("localhost", "127.0.0.1", "::1")


class DatasetServer:
    """One data set's address at a server, with the token that opens it."""

    def __init__(self, url: str, token: str | None, ca: str | Path | None = None) -> None:
        parts = urlsplit(url)
        *path_prefix, self.dataset = [part for part in parts.path.split("/") if part] or [""]
        if not parts.hostname or not self.dataset:
            raise BadRequest(
                "The address does not name a data set.", remedy="Write it as https://host/data-set."
            )
        if parts.username or parts.password:
            raise BadRequest(
                "The address must not contain a user name or password.",
                remedy="Remove the part before @, and pass token=...",
            )
        # A single-user server prints its address with ?key=..., which is of no use at any other server.
        [key] = parse_qs(parts.query).get("key", [None])[:1]
        token = token or key or os.environ.get("DPXPLAIN_TOKEN")
        if token and parts.scheme == "http" and parts.hostname not in _LOCAL:
            raise BadRequest(
                "DPXPlain does not send a token over plain http.",
                remedy="Use https://, so that nobody else can read the token.",
            )
        self._home = f"{parts.scheme}://{parts.netloc}"
        self._was_reached = False
        base = "/".join([self._home, *path_prefix, "api", "v1"])
        headers = {PROTOCOL_HEADER: str(PROTOCOL)}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        # Requests to this machine, and the tokens in them, are not sent through a proxy.
        local = parts.hostname in _LOCAL
        self._client = httpx.Client(
            base_url=base,
            headers=headers,
            timeout=_WAIT + 70.0,
            trust_env=not local,
            verify=verification(ca) if parts.scheme == "https" else True,
            follow_redirects=False,
        )

    def __repr__(self) -> str:
        return f"<{self.dataset} at {self._home}>"

    def enter(self) -> Any:
        """The server's description of the data set, and the caller's role."""
        try:
            return self.get()
        except Denied:
            if "Authorization" in self._client.headers:
                raise
            raise Denied(
                f"{self._home} needs a token.",
                remedy="Pass token=..., or set DPXPLAIN_TOKEN. The curator can give you a token.",
            ) from None

    def close(self) -> None:
        self._client.close()

    def get(self, path: str = "", timer: RetryTimer | None = None) -> Any:
        return self._send("GET", self._dataset_path(path), timer=timer)

    def post(self, path: str, body: Mapping[str, Any], timer: RetryTimer | None = None) -> Any:
        return self._send("POST", self._dataset_path(path), body, timer)

    def release(self, kind: str, body: Mapping[str, Any], progress: Progress) -> Any:
        """A release with its ledger entry. Preparing and explaining run as jobs; this waits for their end."""
        timer = RetryTimer()
        while True:
            try:
                if kind in ("query", "quality", "discover"):
                    return self.post(f"/{kind}?form=release", body, timer)
                return self._run_job(f"/{kind}?form=release&wait={_WAIT}", body, progress, timer)
            except ConnectionLost as lost:
                stored = self._find_stored(str(body["expected_key"]), timer)
                if stored is None:
                    raise Unavailable(lost.problem, remedy=lost.remedy) from None
                return stored | {"free": False}
            except _JobInterrupted as interrupted:
                if not timer.wait(_SECONDS_BETWEEN_JOBS):
                    raise error_of_response(interrupted.shape, body) from None

    def _find_stored(self, key: str, timer: RetryTimer) -> dict[str, Any] | None:
        """The release that was stored under the request's key; None if none appears in time."""
        while True:
            try:
                release: dict[str, Any] = self.get(f"/releases?key={quote(key)}", timer)
                return release
            except Denied:  # nothing is stored yet
                if not timer.wait(_SECONDS_BETWEEN_LOOKS):
                    return None
            except Unavailable:
                return None

    def _dataset_path(self, path: str) -> str:
        return f"/datasets/{quote(self.dataset, safe='')}{path}"

    def _run_job(self, path: str, body: Mapping[str, Any], progress: Progress, timer: RetryTimer) -> Any:
        """Starts a job and waits for its result; an interrupt (Ctrl-C) cancels it."""
        job = self.post(path, body, timer)
        stage = ""
        try:
            while job["state"] in ("queued", "running"):
                if job["stage"] != stage:
                    stage = job["stage"]
                    progress(stage)
                job = self._send("GET", f"/jobs/{job['id']}?form=release&wait={_WAIT}", timer=timer)
        except KeyboardInterrupt:
            self._send("DELETE", f"/jobs/{job['id']}")
            raise
        if job["state"] == "done":
            return job["result"]
        if job["error"]:
            if job["error"].get("code") == _LEDGER_AWAY:
                raise _JobInterrupted(job["error"])
            raise error_of_response(job["error"], body)
        raise Unavailable(
            f"The server could not finish the request ({job['state']}). If it was charged, the charge stays.",
            remedy="The history shows the charge. Repeat the request.",
        )

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timer: RetryTimer | None = None,
    ) -> Any:
        timer = timer or RetryTimer()
        while True:
            try:
                with self._client.stream(method, path, json=body) as response:
                    content = _bounded_body(response)
            except httpx.ConnectError as error:  # nothing was sent
                if (problem := certificate_problem(error, self._home)) is not None:
                    raise problem from None
                if not (self._was_reached and timer.wait()):
                    raise Unavailable(
                        f"{self._home} cannot be reached.", remedy="Check the address. Is the server running?"
                    ) from None
                continue
            except httpx.HTTPError:
                if method == "GET" and timer.wait():
                    continue
                raise ConnectionLost(
                    f"The connection to {self._home} was lost.",
                    remedy="Repeat the request. It is free if the server has already stored the answer.",
                ) from None
            self._was_reached = True
            if response.status_code not in (429, 503) or not timer.wait(_retry_after(response)):
                return _read(response.status_code, content, body)


class RetryTimer:
    """Limits the time that one request spends in pauses, which double unless the server sets them."""

    def __init__(self) -> None:
        self._left = LONGEST_PATIENCE
        self._next_pause = _FIRST_PAUSE

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for the given seconds or the next pause; returns False at once if that is too long."""
        if seconds is None:
            seconds, self._next_pause = self._next_pause, 2 * self._next_pause
        if seconds > self._left:
            return False
        self._left -= seconds
        time.sleep(seconds)
        return True


def _retry_after(response: httpx.Response) -> float:
    try:
        return max(0.1, float(response.headers.get("Retry-After", 1)))
    except ValueError:
        return 1.0


def _bounded_body(response: httpx.Response) -> bytes:
    """The body of a response; refuses one that is larger than a DPXPlain server sends."""
    received = bytearray()
    for part in response.iter_bytes():
        received += part
        if len(received) > MOST_BYTES:
            raise Unavailable(
                f"The server's response has more than {MOST_BYTES:,} bytes.",
                remedy="Ask for fewer groups or cells.",
            )
    return bytes(received)


def _read(status: int, received: bytes, body: Mapping[str, Any] | None) -> Any:
    try:
        content = json.loads(received)
    except ValueError:
        raise not_a_server(status) from None
    if 200 <= status < 300:
        return content
    if isinstance(content, dict) and {"code", "message", "remedy"} <= content.keys():
        raise error_of_response(content, body or {})
    raise not_a_server(status)


# -- Errors ------------------------------------------------------------------------------------------------
#
# The server's errors as our own exceptions.


class OtherPlan(BadRequest):
    """The server planned the request differently and charged nothing."""


class ConnectionLost(Unavailable):
    """A request was sent, but its response did not arrive."""


class _JobInterrupted(Exception):
    """A job ended because the server's ledger was unavailable; asking again charges nothing twice."""

    def __init__(self, shape: Mapping[str, Any]) -> None:
        super().__init__()
        self.shape = shape


def not_a_server(status: int | None = None) -> Unavailable:
    detail = "" if status is None else f" (status {status})"
    return Unavailable(
        f"The answer does not come from a DPXPlain server{detail}.",
        remedy="Check the address. It should look like https://host/data-set.",
    )


def error_of_response(shape: Mapping[str, Any], body: Mapping[str, Any]) -> DPXPlainError:
    """The server's error as the exception that local use would have raised."""
    code, message, remedy = (_printable(shape[name]) for name in ("code", "message", "remedy"))
    position = shape.get("position")
    if code == QueryRefused.code():
        if not position:
            return QueryRefused(message, remedy=remedy)
        prefix = f"line {position['line']}, column {position['column']}: "
        return QueryRefused(
            message.removeprefix(prefix),
            remedy=remedy,
            sql=body.get("sql", ""),
            start=position["start"],
            end=position["end"],
        )
    own_errors: dict[str, type[DPXPlainError]] = {kind.code(): kind for kind in _subclasses(DPXPlainError)}
    server_errors: dict[str, type[DPXPlainError]] = {
        "not_found": Denied,
        "unauthorized": Denied,
        "forbidden": Denied,
        "busy": Unavailable,
        _LEDGER_AWAY: Unavailable,
        "too_slow": Unavailable,
        "cancelled": Unavailable,
        "failed_after_charge": InternalError,
        "not_shown": InternalError,
        "lost": InternalError,
        "too_many_requests": Unavailable,
        "too_many_at_once": Unavailable,
        "issuer_unavailable": Unavailable,
        "internal": InternalError,
        "other_plan": OtherPlan,
    }
    kind = (own_errors | server_errors).get(code, BadRequest)
    return kind(message, remedy=remedy)


def _printable(text: object) -> str:
    """The text without control characters, which a terminal would obey."""
    return "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in str(text))


def _subclasses(root: type[DPXPlainError]) -> Iterator[type[DPXPlainError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from _subclasses(kind)


# -- Certificates ------------------------------------------------------------------------------------------

CA_VARIABLE = "DPXPLAIN_CA"
_EXPIRED, _NOT_YET, _OTHER_NAME, _OTHER_ADDRESS = 10, 9, 62, 64  # OpenSSL's X509_V_ERR_*
_UNKNOWN_ISSUER = (18, 19, 20, 21)
_CA_REMEDY = "Pass ca=FILE, or set DPXPLAIN_CA or SSL_CERT_FILE, with the issuer's certificate in PEM format."


def verification(ca: str | Path | None) -> ssl.SSLContext | bool:
    """How to check a server's certificate: against `ca`, DPXPLAIN_CA or SSL_CERT_FILE, in this order.

    Without any of these, SSL_CERT_DIR is used, or else the authorities that browsers know. Servers on this
    machine are checked in the same way.
    """
    file = ca or os.environ.get(CA_VARIABLE) or os.environ.get("SSL_CERT_FILE")
    folder = os.environ.get("SSL_CERT_DIR")
    if not file and not folder:
        return True
    try:
        return ssl.create_default_context(cafile=file or None, capath=None if file else folder)
    except (OSError, ssl.SSLError):
        raise BadRequest(
            f"The CA file {str(file or folder)!r} cannot be read, or contains no certificate.",
            remedy="Name a file with certificates in PEM format, which begin with -----BEGIN "
            "CERTIFICATE-----.",
        ) from None


def certificate_problem(error: BaseException, home: str) -> Unavailable | None:
    """The error about the server's TLS or certificate, if that is why the connection failed; else None."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    if not isinstance(cause, ssl.SSLCertVerificationError):
        return Unavailable(
            f"{home} does not use TLS, or uses a version that this client does not support.",
            remedy="Check the address and the port. Does the server use http://?",
        )
    code = cause.verify_code
    if code in _UNKNOWN_ISSUER:
        return Unavailable(
            f"This machine does not know the issuer of the certificate of {home}.", remedy=_CA_REMEDY
        )
    if code in (_OTHER_NAME, _OTHER_ADDRESS):
        return Unavailable(
            f"The certificate of {home} is for another host name.",
            remedy="Use the host name in the certificate, or ask for a certificate with this name.",
        )
    if code == _EXPIRED:
        return Unavailable(
            f"The certificate of {home} has expired.",
            remedy="The server's operator must renew it. Also check the clock of this machine.",
        )
    if code == _NOT_YET:
        return Unavailable(
            f"The certificate of {home} is not valid yet.", remedy="Check the clock of this machine."
        )
    return Unavailable(f"This machine does not accept the certificate of {home}.", remedy=_CA_REMEDY)
