"""What `dpxplain` exports, and the public members of every class that a person holds."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from golden_tables import AVERAGE, COUNT, SEVERAL, opened, persons, unknown_team, write_files

import dpxplain as dpx
from golden import check

OPERATORS = {
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__"),
    *("__neg__", "__getitem__", "__iter__", "__len__", "__enter__", "__exit__", "__str__", "_repr_html_"),
}
MADE_BY_PEOPLE = {dpx.Finding, dpx.FormulaInfluence, dpx.RatioInfluence, dpx.Schema}
"""The classes that are not only returned."""


def test_the_exported_names_keep_their_signatures() -> None:
    assert dir(dpx) == sorted([*dpx.__all__, "__version__"])
    check("names", {name: exported(getattr(dpx, name)) for name in dpx.__all__}, "exported")


def exported(value: Any) -> str:
    """A function's signature, an error's bases, or what else it is."""
    if not isinstance(value, type) or value in MADE_BY_PEOPLE:
        return signature(value)
    if issubclass(value, Exception):
        return f"error: {', '.join(base.__name__ for base in value.__bases__)}"
    return "class"


def signature(function: Callable[..., Any]) -> str:
    """Parameters with their kinds and defaults, without types."""
    parameters = [
        part.replace(
            annotation=inspect.Parameter.empty,
            default="<function>" if inspect.isfunction(part.default) else part.default,
        )
        for part in inspect.signature(function).parameters.values()
    ]
    return str(inspect.Signature(parameters)).replace("'<function>'", "<function>")


def test_the_results_that_a_person_holds_keep_their_members(tmp_path: Path) -> None:
    write_files(tmp_path, "people.toml")
    with opened(tmp_path, persons, unknown_team, curator=True) as session:
        check(
            "names", {name: members(value) for name, value in results(session, tmp_path).items()}, "results"
        )


def results(session: dpx.Session, folder: Path) -> dict[str, Any]:
    """One value of every class that a public method returns, by how it is come by."""
    answer = session.query(AVERAGE, rho=5.0)
    count = session.query(COUNT, rho=5.0, population=True)
    answers = session.query(f"{SEVERAL} HAVING SUM(pay) / COUNT(*) > 1", rho=5.0)
    rate = session.query("SELECT sex, SUM(pay) / COUNT(*) AS rate FROM people GROUP BY sex", rho=5.0)
    assert isinstance(answer, dpx.Answer)
    assert isinstance(count, dpx.Answer)
    assert isinstance(answers, dpx.Answers)
    assert isinstance(rate, dpx.Answers)
    question, ratio = answer.why("F", "M"), count.why_ratio("F", "M")
    explanation = question.explain(k=2, rho=0.5, mechanism="one-shot")
    options: dict[str, Any] = {"k": 1, "rho": 5.0, "attributes": ["city"]}
    influence = dpx.RatioInfluence(thresholds=(-1.0, 0.0, 1.0))
    custom = count.why("F", "M").explain(influence=influence, **options)
    return {
        "session": session,
        "session.schema": session.schema,
        "session.schema.columns[...]": session.schema.columns["sex"],
        "session.budget": session.budget,
        "session.history": session.history,
        "session.history[...]": session.history[0],
        "session.history_pages()": next(session.history_pages()),
        "session.plan()": session.plan(COUNT, 1.0),
        "session.preview()": session.preview(COUNT, 1.0),
        "session.preview().price": session.preview(COUNT, 1.0).price,
        "session.preview() of several": session.preview(SEVERAL, 1.0),
        "session.preview_quality()": session.preview_quality(1.0),
        "session.quality()": session.quality(rho=5.0),
        "session.preview_tune()": session.preview_tune(1.0),
        "session.tune()": session.tune(rho=5.0),
        "session.preview_discover()": session.preview_discover("team", 5.0),
        "session.discover()": session.discover("team", 5.0),
        "answer": answer,
        "answer.rows[...]": answer.rows[0],
        "answer.finding": answer.finding,
        "answer[...]": answer["F"],
        "answer[...] - answer[...]": answer["F"] - answer["M"],
        "dpx.log()": dpx.log(answer["F"]),
        "answer.truth()": answer.truth(),
        "answer.preview_prepare()": answer.preview_prepare(1.0),
        "answer.prepare()": answer.prepare(5.0),
        "answers": answers,
        "answers.rows[...]": answers.rows[0],
        "answers.having": answers.having,
        "answers of a formula": rate["rate"],
        "answer.why()": question,
        "answer.why_ratio()": ratio,
        "question.truth()": question.truth(),
        "question.preview()": question.preview(rho=1.0),
        "question.preview() of a custom influence": count.why("F", "M").preview(
            influence=influence, **options
        ),
        "question.explain()": explanation,
        "question.explain().rows[...]": explanation.rows[0],
        "question.explain() of a custom influence": custom,
        "question.explain().rows[...] of a custom influence": custom.rows[0],
        "question.preview_story()": question.preview_story(rho=1.0),
        "question.story()": question.story(rho=5.0, levels=2),
        "check_schema()": dpx.check_schema(folder / "people.parquet", folder / "people.toml"),
        "RatioInfluence()": influence,
        "FormulaInfluence()": dpx.FormulaInfluence("rows", lambda counts: counts.all()),
        "Verdict": dpx.Verdict.REAL,
        "ranges()": dpx.ranges("age"),
        "either()": dpx.either("sex", "city"),
    }


def members(value: Any) -> dict[str, Any]:
    """What is public and ours: methods with their signatures; attributes and properties together."""
    kind = type(value)
    classes = [base for base in kind.__mro__ if base.__module__.startswith("dpxplain")]
    declared = {name for base in classes for name in vars(base)} | {*getattr(value, "__dict__", {})}
    if dataclasses.is_dataclass(value):  # with fields that have no default, and no place in a class
        declared |= {part.name for part in dataclasses.fields(value)}
    names = [name for name in sorted(declared) if name[0] != "_" or name in OPERATORS]
    methods = {name: signature(getattr(value, name)) for name in names if is_method(kind, name)}
    values = [name for name in names if name not in methods and name != "model_config"]
    return {"methods": methods, "values": " ".join(values)}


def is_method(kind: type, name: str) -> bool:
    member = getattr(kind, name, None)
    return inspect.isfunction(member) or inspect.ismethod(member)
