"""A data set whose rows are at a server. Everything public is computed here, by the same code as there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpxplain.engines.engine import NoData
from dpxplain.errors import BadRequest, CuratorOnly, InternalError
from dpxplain.explanation.choice import Predicates
from dpxplain.explanation.family import Family
from dpxplain.model.charge import Request, Spend
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset, Progress, R
from dpxplain.privacy.mechanisms.noise import OpenDPNoise
from dpxplain.remote.http import Wire, not_a_server
from dpxplain.remote.ledger import RemoteLedger
from dpxplain.results.requests import family_request, why_request

if TYPE_CHECKING:
    from dpxplain.results.answer import Answer
    from dpxplain.results.answers import Answers
    from dpxplain.results.explanation import Explanation
    from dpxplain.results.question import Question
from dpxplain.results.truth import Truth


class RemoteDataset(OpenDataset):
    """Plans, prices, verdicts and tables are made here; `once`, the door to the data, is the server's."""

    def __init__(self, wire: Wire, progress: Progress) -> None:
        declared = wire.get(wire.of_dataset())["schema"]
        if not isinstance(declared, dict):  # a text would be opened as a file of this machine
            raise not_a_server()
        schema = Schema.load(declared)
        super().__init__(schema, NoData(schema), RemoteLedger(wire), OpenDPNoise(), progress)
        self.wire = wire

    def once(
        self,
        kind: str,
        key: str,
        asked: Request,
        rho: float,
        spends: Sequence[Spend],
        measure: Callable[[], R],
        read: Callable[[str], R],
    ) -> tuple[R, int, bool]:
        """Ask the server, which plans the same again from the same declarations before it charges."""
        if asked.body is None:
            raise BadRequest(
                "An influence of your own is code on true counts, which a server does not run.",
                remedy="Ask the curator to run it where the data are.",
            )
        if kind == "query":
            told = self.wire.post("/query", asked.body)
        else:
            told = self.wire.finished(f"/{kind}", asked.body, self.progress)
        stored = self.ledger.get(self.name, told["id"])
        if stored is None or stored[0].key != key:
            raise InternalError(
                "The server understood another request than this one; what it charged stays.",
                remedy="Use the same version of DPXPlain on both sides; the server's history has the answer.",
            )
        return read(stored[1]), told["id"], told["free"]


class RemoteCuratorDataset(RemoteDataset):
    """A curator's: true values come from the server, which writes down that they were looked at."""

    def __init__(self, wire: Wire, progress: Progress) -> None:
        super().__init__(wire, progress)
        self._requests: dict[object, dict[str, Any]] = {}  # by the family they asked for

    def family(
        self,
        query: Query,
        attributes: Sequence[str] | None = None,
        conjuncts: int | None = None,
        exclude: Sequence[str] = (),
        predicates: Predicates | None = None,
    ) -> Family:
        family = super().family(query, attributes, conjuncts, exclude, predicates)
        self._requests[family.key] = family_request(attributes, conjuncts, exclude, predicates)
        return family

    def answer_truth(self, answer: Answer) -> Truth:
        told = self.wire.get(self.wire.of_dataset(f"/answers/{answer.id}/truth"))
        several = "aggregate" in (told["rows"] or [{}])[0]
        rows = [row for row in told["rows"] if not several or row["aggregate"] == answer.value_name]
        return Truth(told["title"], rows)

    def answers_truth(self, answers: Answers) -> Truth:
        return _truth(self.wire.get(self.wire.of_dataset(f"/answers/{answers.id}/truth")))

    def question_truth(self, question: Question, family: Family) -> Truth:
        asked = why_request(question) | {"family": self._requests[family.key]}
        return _truth(self.wire.post("/why/truth", asked))

    def table_truth(self, table: Explanation) -> Truth:
        return _truth(self.wire.post("/explain/truth", table.request))


def _truth(told: Mapping[str, Any]) -> Truth:
    return Truth(told["title"], told["rows"])


def open_remote(url: str, token: str | None, *, curator: bool, progress: Progress) -> RemoteDataset:
    """The data set at its address; a curator's powers only for who has them and asks for them."""
    wire = Wire(url, token)
    try:
        role = wire.enter()
        if not curator:
            return RemoteDataset(wire, progress)
        if role != "curator":
            raise CuratorOnly(
                "This token is not a curator's.", remedy="Leave curator=True out, or use a curator's token."
            )
        return RemoteCuratorDataset(wire, progress)
    except BaseException:
        wire.close()
        raise
