"""Several files as one data set: listed in the schema, or named by --data again and again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dpxplain as dpx
from dpxplain.cli.workspace import Place
from dpxplain.model.schema import Schema
from dpxplain.server.registry import check_allowed, identities


@pytest.fixture
def halves(folder: Path) -> list[str]:
    """The rows in two files, one of them in a folder with a space in its name."""
    header, *rows = (folder / "people.csv").read_text().splitlines()
    (folder / "the rest").mkdir()
    for name, part in (("first.csv", rows[:450]), ("the rest/second.csv", rows[450:])):
        (folder / name).write_text("\n".join([header, *part]) + "\n")
    return ["first.csv", "the rest/second.csv"]


def with_source(folder: Path, source: list[str]) -> str:
    text = (folder / "dpxplain.toml").read_text()
    return text.replace('source = "people.csv"', f"source = {json.dumps(source)}")


def rows_read(dpxplain: Any, *words: str) -> int:
    return int(dpxplain("schema", "check", "--json", *words).json["check"]["rows"])


def test_a_schema_lists_the_files_of_its_source(dpxplain: Any, folder: Path, halves: list[str]) -> None:
    (folder / "dpxplain.toml").write_text(with_source(folder, halves))
    (folder / "people.csv").unlink()
    assert rows_read(dpxplain) == 900
    asked = dpxplain("query", "SELECT COUNT(*) FROM people", "--rho", "1", "--yes", "--json")
    assert asked.json["rows"][0]["COUNT(*)"] == pytest.approx(900, abs=20)
    assert dpxplain("data", "status").code == 0
    with dpx.connect(schema=folder / "dpxplain.toml", workspace=folder / "other") as session:
        assert session.schema.table.source == tuple(halves)


def test_a_changed_file_of_the_list_is_noticed(dpxplain: Any, folder: Path, halves: list[str]) -> None:
    (folder / "dpxplain.toml").write_text(with_source(folder, halves))
    dpxplain("query", "SELECT COUNT(*) FROM people", "--rho", "1", "--yes")
    with (folder / halves[1]).open("a") as file:
        file.write("Male,White,30,50\n")
    assert dpxplain("query", "SELECT COUNT(*) FROM people", "--rho", "0.5", "--yes").code == 2


def test_data_is_given_once_for_each_file(dpxplain: Any, folder: Path, halves: list[str]) -> None:
    assert rows_read(dpxplain, "--data", halves[0]) == 450
    assert rows_read(dpxplain, "--data", halves[0], "--data", halves[1]) == 900
    words = ("--data", halves[0], "--data", halves[1])
    assert (
        dpxplain("query", "SELECT sex, COUNT(*) FROM people GROUP BY sex", *words, "--rho", "1", "--yes").code
        == 0
    )
    assert dpxplain("why", "Male", "Female", *words).code == 0
    assert Place(halves).words == list(words)  # as suggested commands name them


def test_the_variable_names_one_path_which_may_have_spaces(
    dpxplain: Any, folder: Path, halves: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPXPLAIN_DATA", halves[1])
    assert rows_read(dpxplain) == 450


def test_a_server_is_named_alone(dpxplain: Any, folder: Path) -> None:
    outcome = dpxplain("budget", "--data", "people.csv", "--data", "http://127.0.0.1:1/people")
    assert outcome.code == 2
    assert "cannot be combined with files" in outcome.err


def test_an_empty_list_is_no_source(dpxplain: Any, folder: Path) -> None:
    (folder / "dpxplain.toml").write_text(with_source(folder, []))
    assert dpxplain("schema", "check").code == 2


def test_a_server_looks_at_every_file_of_a_list(folder: Path, halves: list[str]) -> None:
    (folder / "dpxplain.toml").write_text(with_source(folder, halves))
    schema = Schema.load(folder / "dpxplain.toml")
    check_allowed(schema, folder, folder, ())
    with pytest.raises(dpx.SourceError, match="outside the server's data folder"):
        check_allowed(schema, folder, folder / "the rest", ())
    one = Schema.load(folder / "dpxplain.toml").model_dump()
    one["table"]["source"] = halves[1]
    assert identities(Schema.load(one), folder) < identities(schema, folder)


def test_a_draft_is_made_of_several_files(dpxplain: Any, folder: Path, halves: list[str]) -> None:
    assert dpxplain("schema", "init", *halves, "--output", "the rest/both.toml").code == 0
    schema = Schema.load(folder / "the rest/both.toml")
    assert schema.table.source == ("../first.csv", "second.csv")
    assert schema.table.name == "data"
    assert int(dpxplain("schema", "check", "the rest/both.toml", "--json").json["check"]["rows"]) == 900
    assert {*schema.columns} == {*Schema.load(folder / "dpxplain.toml").columns}


@pytest.mark.parametrize(
    ("names", "table"),
    [(["flights-2013-01.csv", "flights-2013-02.csv"], "flights_2013"), (["2024.csv", "2025.csv"], "data"),
     (["a/people.csv", "b/people.csv"], "people"), (["january.csv", "february.csv"], "data")],
)  # fmt: skip
def test_a_draft_of_several_files_is_named_after_what_their_names_share(
    dpxplain: Any, folder: Path, names: list[str], table: str
) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text((folder / "people.csv").read_text())
    assert dpxplain("schema", "init", *names, "-o", "-", "--json").json["table"] == table


def test_a_missing_file_among_several_is_told(dpxplain: Any, folder: Path, halves: list[str]) -> None:
    outcome = dpxplain("schema", "init", halves[0], "missing.csv", "-o", "new.toml")
    assert outcome.code == 2
    assert "One of the paths in the list does not exist" in outcome.err
    assert not (folder / "new.toml").exists()
