"""Turns the words of a command line into a session, an answer, a question or a priced request.

A session can measure, or is read-only and opens no data. Groups are written as in the answer.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpxplain.cli import options as o
from dpxplain.cli.options import DEFAULT_SCHEMA
from dpxplain.cli.screen import ERR, Declined, Format, Progress, emit, is_json, present, price_in_words
from dpxplain.datasets import path as bundled
from dpxplain.engines.source_kinds import is_address
from dpxplain.errors import BadRequest, QuestionError, SchemaError
from dpxplain.ledger.address import workspace_folder
from dpxplain.model.process import cached_property

if TYPE_CHECKING:
    from dpxplain.cli.read_only_workspace import WorkspaceLedger
    from dpxplain.model.charge import EntryId
    from dpxplain.model.schema import Schema
    from dpxplain.results.answer import Answer
    from dpxplain.results.answers import Answers
    from dpxplain.results.question import Question
    from dpxplain.session import Session
    from dpxplain.words.prices import Price

# -- Sessions, answers and questions -----------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Options that say where the data set, its schema and its workspace are."""

    data: o.Data = None
    schema: o.SchemaFile = None
    example: o.Example = None
    workspace: o.Workspace = None
    ca: o.CertificateFile = None

    @cached_property
    def server(self) -> str | None:
        """The URL, if the data set is at a server: --data https://host/data-set."""
        address = next(filter(is_address, self.paths), None)
        if address is None:
            return None
        if len(self.paths) > 1:
            raise BadRequest("A server's data set cannot be combined with files.", remedy="Give --data once.")
        if self.schema is not None or self.example is not None:
            raise BadRequest(
                "A data set at a server comes with its own schema.",
                remedy="Leave out --schema and --example, and unset DPXPLAIN_SCHEMA.",
            )
        return address

    @cached_property
    def paths(self) -> list[str]:
        """The paths in `--data` or DPXPLAIN_DATA."""
        data_text = os.environ.get("DPXPLAIN_DATA", "")
        # Typer splits a variable at spaces, which a path may contain.
        return [data_text] if data_text and self.data == data_text.split() else self.data or []

    @cached_property
    def schema_file(self) -> Path:
        if self.example is not None:
            if self.schema is not None or self.paths:
                raise BadRequest(
                    "--example comes with its own data and schema.",
                    remedy="Leave out --example, or leave out --data and --schema and unset DPXPLAIN_DATA "
                    "and DPXPLAIN_SCHEMA.",
                )
            return bundled(f"{self.example}.toml")
        if self.schema is None and not Path(DEFAULT_SCHEMA).exists():
            raise SchemaError(
                f"No schema was given, and this folder has no {DEFAULT_SCHEMA}.",
                remedy="Pass --schema FILE.toml or set DPXPLAIN_SCHEMA. To draft a schema: dpxplain schema "
                "init DATA_FILE. To try bundled data: --example adult.",
            )
        return Path(self.schema or DEFAULT_SCHEMA)

    @cached_property
    def declared(self) -> Schema:
        from dpxplain.model.schema import Schema

        if self.server is not None:
            with self.read_only_session() as session:
                return session.schema
        from dpxplain.engines.opening import with_public_tables

        return with_public_tables(Schema.load(self.schema_file), self.schema_file.parent)

    @property
    def source(self) -> str | Path | list[str] | list[Path] | None:
        """The data: `--data`, or else the schema's table.source, relative to the schema's folder."""
        if self.paths:
            return self.paths[0] if len(self.paths) == 1 else self.paths
        return self.declared.table.paths(self.schema_file.parent)

    @property
    def words(self) -> list[str]:
        """The options that name the same place, for suggested commands."""
        options = [("--example", self.example), ("--schema", self.schema), ("--workspace", self.workspace)]
        options += [("--data", path) for path in self.paths]
        if self.server is not None:
            options.append(("--ca", self.ca))
        return [word for option, value in options if value is not None for word in (option, value)]

    @contextmanager
    def measuring_session(self, progress: Progress, *, curator: bool = False) -> Iterator[Session]:
        """A session on the data, which can spend."""
        from dpxplain.session import connect

        if self.server is not None:
            with connect(self.server, ca=self.ca, curator=curator, progress=progress) as session:
                yield session
            return
        source = self.source
        if source is None:
            raise SchemaError(
                "No data were given.", remedy="Pass --data PATH, or declare table.source in the schema."
            )
        with progress.running(f"Opening {self.declared.table.name}"):
            session = connect(
                source,
                self.schema_file,  # not its content: paths of public tables are relative to its folder
                workspace=self.workspace,
                curator=curator,
                progress=progress,
            )
        with session:
            yield session

    @contextmanager
    def read_only_session(self) -> Iterator[Session]:
        """A session on earlier releases and on prices. Reads no data and cannot spend."""
        from dpxplain.cli.read_only_workspace import read_only_session
        from dpxplain.session import connect

        if self.server is not None:
            with connect(self.server, ca=self.ca) as session:
                yield session
            return
        folder = self.schema_file.parent
        with read_only_session(self.declared, folder, self.workspace, self.source) as session:
            yield session

    @contextmanager
    def ledger(self) -> Iterator[Session | WorkspaceLedger]:
        """The budget and history only, from the workspace or the server."""
        from dpxplain.cli.read_only_workspace import open_workspace_ledger

        if self.server is not None:
            with self.read_only_session() as session:
                yield session
            return
        opened = open_workspace_ledger(self.declared, self.workspace)
        with closing(opened.ledger):
            yield opened

    @property
    def _data_set(self) -> str:
        """The key in last.json: a server's URL, because a local data set may have the same name."""
        return self.server or self.declared.table.name

    @property
    def _last_answers(self) -> Path:
        return workspace_folder(self.workspace) / "last.json"

    @property
    def last_answer(self) -> EntryId | None:
        """The number of the answer shown last, which need not be the newest."""
        with suppress(OSError, ValueError, AttributeError):
            number = json.loads(self._last_answers.read_text(encoding="utf-8")).get(self._data_set)
            return number if isinstance(number, int | str) else None
        return None

    def remember(self, answer: EntryId) -> None:
        """Makes `answer` the default of why and explain. A file that cannot be written is ignored."""
        with suppress(OSError):
            self._last_answers.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            numbers: dict[str, EntryId] = {}
            with suppress(OSError, ValueError, TypeError):
                numbers = dict(json.loads(self._last_answers.read_text(encoding="utf-8")))
            draft = self._last_answers.with_suffix(f".{os.getpid()}.tmp")
            draft.write_text(json.dumps(numbers | {self._data_set: answer}), encoding="utf-8")
            draft.replace(self._last_answers)


@dataclass(frozen=True)
class AnswerChoice:
    """Options that choose the answer, and one of its aggregates."""

    answer: o.AnswerNumber = None
    of: o.Of = None

    def find(self, session: Session, place: Place, confidence: float = 0.95) -> Answer:
        """The answer with the number given, or else the one shown last."""
        number = self.answer
        if number is None:
            last = place.last_answer
            answer = None if last is None else session.find_answer(last, confidence=confidence)
            if answer is not None:
                return one_aggregate(answer, self.of)
        return one_aggregate(session.answer(number, confidence=confidence), self.of)

    @property
    def words(self) -> tuple[str, ...]:
        """The answer and its aggregate as options, for suggested commands."""
        options = (("--answer", self.answer), ("--of", self.of))
        return tuple(word for option, value in options if value is not None for word in (option, str(value)))


@dataclass(frozen=True)
class QuestionOptions:
    """Options that choose how groups are compared, and for which population."""

    weight: o.Weights = None
    at_least: o.AtLeast = None
    confidence: o.Confidence = 0.95
    method: o.Method = None
    population: o.Population = False
    ratio: o.AsRatio = False
    share: o.AsShare = False
    read_from: o.ReadFrom = None


@dataclass(frozen=True)
class TypedQuestion:
    """A question as typed: two groups, one group with `--at-least`, or weighted groups."""

    groups: Sequence[str]
    choice: AnswerChoice
    options: QuestionOptions

    def ask(self, session: Session, place: Place) -> Question:
        """The question about the answer chosen."""
        options = self.options
        answer = self.choice.find(session, place, options.confidence)
        arguments: dict[str, Any] = {
            "confidence": options.confidence,
            "population": options.population,
            "read_from": options.read_from,
        }
        if options.method is not None:
            arguments["method"] = options.method
        if options.ratio or options.share:
            self._check_ratio()
            return answer.why_ratio(*self.groups, at_least=options.at_least, **arguments)
        group, other = self._sides(answer)
        return answer.why(group, other, at_least=options.at_least or 0.0, **arguments)

    def _check_ratio(self) -> None:
        options = self.options
        if (
            options.weight
            or options.ratio == options.share
            or len(self.groups) != (2 if options.ratio else 1)
        ):
            raise QuestionError(
                "--ratio takes two groups, and --share takes one.",
                remedy="Write A B --ratio, or A --share, without --weight.",
            )

    def _sides(self, answer: Answer) -> tuple[object, object]:
        if self.options.weight:
            if self.groups:
                raise QuestionError(
                    "Groups were named both as A B and with --weight.",
                    remedy="Name the groups in one way only.",
                )
            return _weighted(self.options.weight, answer), None
        if len(self.groups) == 2:
            return self.groups[0], self.groups[1]
        if len(self.groups) == 1 and self.options.at_least is not None:
            return {self.groups[0]: 1.0}, None
        raise QuestionError(
            f"A question compares two groups, not {len(self.groups)}.",
            remedy="Name two groups, or one with --at-least, or several with --weight GROUP=NUMBER.",
        )


def one_aggregate(answer: Answer | Answers, name: str | None) -> Answer:
    """The answer for the aggregate in `--of`, which may be left out if there is only one."""
    from dpxplain.results.answers import Answers, computed_answer

    if isinstance(answer, Answers):
        if name is not None or len(answer.answers) == 1:
            return answer[answer.names[0] if name is None else name]
        raise QuestionError(
            f"Answer {answer.id} has several aggregates: {', '.join(answer.names)}.",
            remedy=f"Choose one: --of {shlex.quote(answer.names[0])}",
        )
    if name not in (None, answer.value_name, answer.expression):
        if (computed := computed_answer(name, [answer])) is not None:
            return computed
        raise QuestionError(
            f"{name!r} is not an aggregate of answer {answer.id}.",
            remedy=f"Answer {answer.id} has {answer.value_name}. Leave out --of, or choose another answer "
            "with --answer.",
        )
    return answer


def _weighted(texts: Sequence[str], answer: Answer) -> dict[str, float]:
    weights: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            equals = ""
        if not equals or name in weights:
            raise QuestionError(
                f"--weight takes GROUP=NUMBER and each group only once, not {text!r}.",
                remedy=f"Write --weight '{answer.groups.written(answer.groups.first)}=1'.",
            )
        weights[name] = weight
    return weights


# -- Priced commands ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PricedCommand:
    """A command that costs something: its data set, and the user's choices for price and output."""

    stage: str  # what the command does, for the spinner: "Answering"
    place: Place
    approval: o.Approval
    output: o.OutputFormat
    curator: bool = False
    always_opens_data: bool = False  # even to show a stored result

    def run(
        self,
        *,
        preview: Callable[[Session], Any],
        ask: Callable[[Session, Price], Any],
        payload: Callable[..., object],
        finish: Callable[[Any, Progress], object] = lambda _result, _progress: None,
    ) -> None:
        """Shows the price and asks for approval, then asks the request and prints its result.

        `ask` gets the price that was shown. `payload` makes JSON of the result, the budget and, for a
        curator, the true values. `finish` is called last, while the session is open.
        """
        progress, output = Progress(), self.output
        with self.place.read_only_session() as session:
            previewed = preview(session)
        if self.approval.dry_run:
            from dpxplain.wire.payloads import preview_payload

            present(previewed, lambda: preview_payload(previewed), output.form, notes=output.notes)
            return
        _approve(previewed, yes=self.approval.yes, format=output.form)
        with self._session(previewed.price, progress) as session:
            with progress.running(self.stage):
                result = ask(session, previewed.price)
                truths = [result.truth()] if self.curator else []
            present(
                result,
                lambda: payload(result, session.budget, *truths),
                output.form,
                *truths,
                notes=output.notes,
            )
            finish(result, progress)

    def _session(self, price: Price, progress: Progress) -> AbstractContextManager[Session]:
        """A session that can measure, or a read-only one if the result is stored."""
        if price.free and not self.curator and not self.always_opens_data:
            return self.place.read_only_session()
        return self.place.measuring_session(progress, curator=self.curator)


def _approve(preview: Any, *, yes: bool, format: Format) -> None:
    """Prints the price, in ρ and for discoveries in δ too, and asks for confirmation at a terminal.

    The preview's forecast says what the price will buy; a stored result needs none.

    For a request beyond the budget it does not ask, because the ledger refuses the request.
    """
    price: Price = preview.price
    delta: float | None = getattr(preview, "delta", None)
    forecast = "" if price.free else getattr(preview, "forecast", "")
    words = price_in_words(price)
    if delta is not None and not price.free:
        from dpxplain.words.prices import delta_text

        words += f" It also takes {delta_text(delta)}."
    if is_json():
        remaining = {"remaining": price.remaining, "remaining_after": price.remaining_after}
        further: dict[str, object] = {} if delta is None else {"delta": delta}
        further |= {"forecast": forecast} if forecast else {}
        amounts = {"rho": price.rho, "epsilon": price.epsilon}
        emit("price", message=words, **amounts, free=price.free, **remaining, **further)
        return
    ERR.print(words)
    if forecast:
        ERR.print(forecast)
    settled = price.free or not price.affordable or yes or format is Format.JSON
    if settled or not (sys.stdin.isatty() and ERR.is_terminal):
        return
    if not typer.confirm("Spent budget never comes back. Go ahead?", err=True):
        raise Declined
