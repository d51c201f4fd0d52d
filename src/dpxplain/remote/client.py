"""A data set whose rows are at a server. Everything public is computed here, by the same code as there."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dpxplain.curator import TruthColumns
from dpxplain.errors import BadRequest, CuratorOnly, Denied
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.budget import Budget
from dpxplain.model.charge import Entry, EntryId, HistoryPage, Request, Spend, whole_history
from dpxplain.model.display import Record
from dpxplain.model.release import R, Released
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset, Progress, ReleasePlan, Show, T
from dpxplain.privacy.mechanisms.noise import OpenDPNoise
from dpxplain.remote.http import DatasetServer, OtherPlan, not_a_server
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.results.base import Truth
from dpxplain.results.explanation import Explanation
from dpxplain.results.question import Question
from dpxplain.results.requests import why_request

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
        if kind == "quality":
            if self._qualities is None:
                release = self._release(f"/releases?kind={quote(kind)}")
                self._qualities = [] if release is None else [release[0]]
            return self._qualities[-1] if self._qualities else None
        release = self._release(f"/releases?kind={quote(kind)}")
        return None if release is None else release[0]

    def preparations(self, dataset: str, subject: str) -> list[Entry]:
        if subject not in self._preparations:
            body = self._server.get(f"/preparations?subject={quote(subject)}")
            self._preparations[subject] = [_entry(line) for line in body["entries"]]
        return self._preparations[subject]

    def history_page(self, dataset: str, before: EntryId | None = None, limit: int = _PAGE) -> HistoryPage:
        position = "" if before is None else f"&before={_in_path(before)}"
        body = self._server.get(f"/history?limit={max(1, min(limit, _PAGE))}{position}")
        return HistoryPage([_entry(line) for line in body["entries"]], body["older"])

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
            self._preparations[prepared["subject"]] = list(map(_entry, prepared["entries"]))

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
        release = _entry(body["entry"]), str(body["release"])
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
        self, plan: ReleasePlan[R], request: Request, dataset: OpenDataset, show: Show[R, T], look: Hashable
    ) -> T:
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
        entry, text = _entry(body["entry"]), str(body["release"])
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


class RemoteCuratorDataset(RemoteDataset):
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


def _in_path(id: EntryId) -> str:
    return quote(str(id), safe="@")


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


def _entry(line: Mapping[str, Any]) -> Entry:
    return Entry(
        id=line["id"],
        time=datetime.fromisoformat(line["time"]),
        kind=line["kind"],
        description=line["description"],
        rho=line["rho"],
        spends=tuple(Spend(spend["event"], spend["rho"], spend["of"]) for spend in line["spends"]),
        state=line["state"],
        key=line["key"],
        analyst=line["analyst"],
        request=line["request"],
        version=line["version"],
        total_rho=line["total_rho"],
    )


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
