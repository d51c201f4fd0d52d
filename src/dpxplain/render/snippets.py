"""Code that repeats a request, in Python and on the command line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict  # pydantic reads the standard one from Python 3.12 on

from dpxplain.explanation.family_choice import python_code
from dpxplain.model.groups import JOINT
from dpxplain.model.schema import Schema
from dpxplain.privacy.intervals import DEFAULT_METHOD

_USUAL_CONFIDENCE = 0.95


class Code(TypedDict):
    python: str
    cli: str


@dataclass(frozen=True)
class CodePlace:
    """The data set of a repeated request: how Python connects to it, and its command-line options."""

    connect: str
    words: tuple[str, ...]

    @classmethod
    def of_schema(cls, schema: Schema) -> CodePlace:
        file = f"{schema.table.name}.toml"
        return cls(f"dpx.connect(schema={file!r})", ("--schema", file))

    @classmethod
    def of_server(cls, url: str) -> CodePlace:
        """The place of a server. The code leaves out the token, which DPXPLAIN_TOKEN holds."""
        return cls(f"dpx.connect({url!r})", ("--data", url))


def query_code(
    place: CodePlace, sql: str, rho: float, *, confidence: float = _USUAL_CONFIDENCE, population: bool = False
) -> Code:
    """The code of a query (Phase 1).

    >>> place = CodePlace.of_server("https://host/t")
    >>> print(query_code(place, "SELECT COUNT(*) FROM t", 0.1, confidence=0.9)["cli"])
    dpxplain query --data https://host/t 'SELECT COUNT(*) FROM t' --rho 0.1 --confidence 0.9
    """
    asked = {"confidence": confidence, "population": population}
    python = f"import dpxplain as dpx\n\nsession = {place.connect}\n"
    python += (
        f"answer = session.query({_sql_literal(sql)}, rho={rho!r}{_options_python(asked)})\nprint(answer)\n"
    )
    cli = _command("query", *place.words, sql, "--rho", repr(rho), *_options_words(asked))
    return Code(python=python, cli=cli)


def explain_code(
    place: CodePlace, sql: str, rho: float, request: Mapping[str, Any], schema: Schema, *, several: bool
) -> Code:
    """The code of all three phases: answer, question and table; `request` is as the history stores it.

    If the answer has `several` aggregates, the code names the one that the question is about.
    """
    query = query_code(place, sql, rho)
    about = f"answer[{request['of']!r}]" if several else "answer"
    given_options = {name: value for name, value in request["family"].items() if value not in (None, [])}
    options = {"k": request["k"], "rho": request["rho"], "mechanism": request["mechanism"], **given_options}
    if request["split"] is not None:
        options["split"] = tuple(request["split"])
    if request["lower_share"] is not None:
        options["lower_share"] = request["lower_share"]
    options["distinct"] = request["distinct"]
    options |= _changed_table_options(request)
    written = ", ".join(f"{name}={_option_python(name, value, schema)}" for name, value in options.items())
    python = query["python"].removesuffix("print(answer)\n")
    why = "why_ratio" if _is_ratio(request) else "why"
    python += f"question = {about}.{why}({_groups_python(request)}{_options_python(request)})\n"
    python += f"table = question.explain({written})\nprint(table)\n"
    words = ["explain", *place.words, *_groups_words(request), "--rho", repr(request["rho"])]
    words += ["--k", str(request["k"]), "--mechanism", request["mechanism"]]
    words.append("--distinct" if request["distinct"] else "--all-conditions")
    if request["split"] is not None:
        words += ["--split", ",".join(map(repr, request["split"]))]
    if request["lower_share"] is not None:
        words += ["--lower-share", repr(request["lower_share"])]
    for name, value in given_options.items():
        values = [str(value)] if isinstance(value, int) else value
        words += [word for text in values for word in (f"--{name}", text)]
    words += _options_words(request)
    if several:
        words += ["--of", request["of"]]
    return Code(python=python, cli=f"{query['cli']}\n{_command(*words)}")


def _option_python(name: str, value: Any, schema: Schema) -> str:
    if name != "predicates":
        return repr(value)
    return f"[{', '.join(python_code(text, schema) for text in value)}]"


def _changed_options(request: Mapping[str, Any]) -> dict[str, Any]:
    """The question's options that differ from the defaults."""
    usual = {"confidence": _USUAL_CONFIDENCE, "method": DEFAULT_METHOD, "population": False}
    return {name: request[name] for name, value in usual.items() if request.get(name, value) != value}


def _changed_table_options(request: Mapping[str, Any]) -> dict[str, Any]:
    """The explanation's options that differ from the defaults. Its default confidence is the question's."""
    confidence, of_question = request.get("explain_confidence"), request.get("confidence", _USUAL_CONFIDENCE)
    options = {} if confidence in (None, of_question) else {"confidence": confidence}
    sensitivity = request.get("sensitivity", "tight")
    return options if sensitivity == "tight" else options | {"sensitivity": sensitivity}


def _options_python(request: Mapping[str, Any]) -> str:
    return "".join(f", {name}={value!r}" for name, value in _changed_options(request).items())


def _options_words(request: Mapping[str, Any]) -> list[str]:
    """The options on the command line, which has one confidence: the table's, if the question's differs."""
    options = _changed_options(request) | _changed_table_options(request)
    words: list[str] = []
    for name, value in options.items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


def _sql_literal(sql: str) -> str:
    """The SQL as a Python literal, with its line breaks where possible.

    >>> print(_sql_literal("SELECT 1"), _sql_literal("SELECT\\n  1"))
    'SELECT 1' \"\"\"SELECT
      1\"\"\"
    """
    plain = not any(sign in sql for sign in ('"""', "\\", "\r")) and not sql.endswith('"')
    return f'"""{sql}"""' if "\n" in sql and plain else repr(sql)


def _is_ratio(request: Mapping[str, Any]) -> bool:
    return bool(request.get("compare", "difference") != "difference")


def _is_pair(request: Mapping[str, Any]) -> bool:
    weights = [part["weight"] for part in request["weights"]]
    return weights == [1.0, -1.0] and request["at_least"] == 0 and not _is_ratio(request)


def _groups_python(request: Mapping[str, Any]) -> str:
    groups = [part["group"] for part in request["weights"]]
    names = [group[0] if len(group) == 1 else _group_text(group) or tuple(group) for group in groups]
    if _is_pair(request):
        return ", ".join(map(repr, names))
    if _is_ratio(request):
        return f"{', '.join(map(repr, names))}, at_least={request['at_least']!r}"
    weights = {name: part["weight"] for name, part in zip(names, request["weights"], strict=True)}
    return f"{weights!r}, at_least={request['at_least']!r}"


def _groups_words(request: Mapping[str, Any]) -> list[str]:
    groups = [part["group"] for part in request["weights"]]
    names = [_group_text(group) or json.dumps(group, ensure_ascii=False) for group in groups]
    if _is_pair(request):
        return names
    if _is_ratio(request):
        return [*names, f"--{request['compare']}", "--at-least", repr(request["at_least"])]
    weights = zip(names, request["weights"], strict=True)
    words = [word for name, part in weights for word in ("--weight", f"{name}={part['weight']!r}")]
    return [*words, "--at-least", repr(request["at_least"])]


def _group_text(group: Sequence[Any]) -> str | None:
    """The group as it is printed; None if that is ambiguous."""
    texts = [str(value) for value in group]
    if None in group or (len(group) > 1 and any("," in text for text in texts)):
        return None
    return JOINT.join(texts)


def _command(*words: str) -> str:
    return shlex.join(["dpxplain", *words])
