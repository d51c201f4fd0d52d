"""The real command in its own process: one journey through all phases, exit codes, pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

DPXPLAIN = [sys.executable, "-W", "error", "-c", "from dpxplain.cli import main; main()"]
SQL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"
PAIR = ("Married-civ-spouse", "Never-married")


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DPXPLAIN, *words], cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_from_a_query_to_a_report(tmp_path: Path) -> None:
    asked = call(tmp_path, "query", SQL, "--rho", "0.1", "--example", "adult", "--json")
    assert asked.returncode == 0, asked.stderr
    averages = {row["marital_status"]: row["AVG(high_income)"] for row in json.loads(asked.stdout)["rows"]}
    assert averages["Married-civ-spouse"] == pytest.approx(0.446133, abs=0.005)

    why = call(tmp_path, "why", *PAIR, "--example", "adult", "--json")
    assert json.loads(why.stdout)["verdict"] == "real"

    explained = call(
        tmp_path, "explain", *PAIR, "-e", "adult", "--rho", "2", "--report", "why.html", "--json"
    )  # fmt: skip
    assert explained.returncode == 0, explained.stderr
    rows = json.loads(explained.stdout)["rows"]
    assert "occupation = 'Exec-managerial'" in {row["predicate"] for row in rows}
    assert "<html" in (tmp_path / "why.html").read_text()[:500]

    exhausted = call(tmp_path, "explain", *PAIR, "-e", "adult", "--rho", "3", "--json")
    assert exhausted.returncode == 3
    assert json.loads(exhausted.stderr.splitlines()[-1])["code"] == "budget_exhausted"


def test_from_a_data_file_to_an_answer(tmp_path: Path) -> None:
    people = "\n".join(["city,age", *(f"{'Graz' if i % 2 else 'Linz'},{20 + i % 50}" for i in range(500))])
    (tmp_path / "people.csv").write_text(people)
    drafted = call(tmp_path, "schema", "init", "people.csv")
    assert (drafted.returncode, "NOT PRIVATE" in drafted.stderr) == (0, True)
    asked = call(tmp_path, "query", "SELECT city, AVG(age) FROM people GROUP BY city", "--rho", "0.5")
    assert asked.returncode == 0, asked.stderr
    assert "Graz" in asked.stdout
    refused = call(tmp_path, "query", "SELECT MAX(age) FROM people", "--rho", "0.5")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "^" in refused.stderr


@pytest.mark.slow
def test_the_demo_tells_the_whole_story_and_writes_its_report(tmp_path: Path) -> None:
    demo = call(tmp_path, "demo", "--report", "story.html")
    assert demo.returncode == 0, demo.stderr
    for part in ("1  Ask", "2  Is it real?", "3  Prepare", "4  Explain", "5  Ask again", "Your turn",
                 "Price: ρ 0.1", "story.html", "education", "gap without them", "ρ = 0.12 of 5"):  # fmt: skip
        assert part in demo.stdout
    assert "<html" in (tmp_path / "story.html").read_text()[:500]
    assert not (tmp_path / ".dpxplain").exists()


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*DPXPLAIN, "budget", "-e", "adult", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_a_terminal_without_greek_letters_is_still_served(tmp_path: Path) -> None:
    done = subprocess.run(
        [*DPXPLAIN, "budget", "--help"],
        cwd=tmp_path,
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert b"in ? and in" in done.stdout
