"""Every experiment of the paper in its short form, and the harness that runs them; no figure is judged."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # for experiments

from experiments.__main__ import main
from experiments.harness import FULL, SHORT, Cell
from experiments.paper import EXPERIMENTS

from experiments import harness, report, trials

VERDICTS = {"reproduced", "better", "not reproduced"}
JUDGED = Cell("trials.judgements", {"question": "I1", "rows": 500, "method": "mover", "rho": 0.1, "runs": 20})


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tables and cells of these tests only."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPXPLAIN_EXPERIMENT_CACHE", str(folder))
        yield folder


@pytest.mark.draws  # run times are taken with private noise
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "adult" else pytest.mark.slow) for name in EXPERIMENTS]
)
def test_the_short_form_has_rows_a_chart_and_claims(name: str, tmp_path: Path) -> None:
    experiment = EXPERIMENTS[name]
    cells = experiment.cells(SHORT)
    assert harness.run(cells, workers=1, minutes=10) == []
    section = report.section_of(experiment, harness.frame_of(experiment, SHORT))
    assert len(section.frame) >= len(cells)
    assert section.claims
    assert {claim.verdict for claim in section.claims} <= VERDICTS
    assert all(claim.published and claim.measured for claim in section.claims)
    page = report.write([section], tmp_path, SHORT, 1.0).read_text("utf-8")
    assert "<svg" in page
    assert "http-equiv" not in page
    assert "<script" not in page
    assert (tmp_path / f"{name}.csv").read_text("utf-8").count("\n") == len(section.frame) + 1
    report.write_document([section], tmp_path, tmp_path, SHORT, 1.0)
    document = (tmp_path / "experiments.md").read_text("utf-8")
    assert document.count("\n| ") == len(section.claims) + 1


def test_the_full_form_varies_the_papers_three_budgets_one_by_one_at_its_defaults() -> None:
    settings = [cell.settings["rhos"] for cell in EXPERIMENTS["widths"].cells(FULL)]
    default = [0.5, 0.5, 1.0]
    assert all(sum(a != b for a, b in zip(rhos, default, strict=True)) <= 1 for rhos in settings)
    assert all(rhos[0] == 0.5 for rhos in settings)
    assert {cell.settings["question"] for cell in EXPERIMENTS["widths"].cells(FULL)} == {
        f"{letter}{number}" for letter in "IG" for number in range(1, 6)
    }


def test_a_run_that_had_no_time_names_what_is_missing_and_a_later_one_resumes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DPXPLAIN_EXPERIMENT_CACHE", str(tmp_path))
    other = Cell(JUDGED.work, JUDGED.settings | {"rho": 1.0})
    assert harness.run([JUDGED, other], workers=1, minutes=0) == [JUDGED, other]
    assert harness.run([JUDGED], workers=1, minutes=1) == []
    computed = []
    monkeypatch.setattr(harness, "compute", computed.append)
    harness.run([JUDGED, other, other], workers=1, minutes=1)
    assert computed == [other]


def test_changed_code_is_computed_again_and_changed_comments_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = tmp_path / "experiments" / "trials.py"
    module.parent.mkdir()
    monkeypatch.setattr(harness.tables, "ROOT", tmp_path)
    identities = []
    for text in ('"""One."""\nx = 1\n', '"""Two."""\nx = 1  # a comment\n', "x = 2\n"):
        module.write_text(text)
        harness.code_identity.cache_clear()
        identities.append(harness.code_identity("experiments/trials.py"))
    harness.code_identity.cache_clear()
    assert identities[0] == identities[1] != identities[2]


def test_the_same_seeds_give_the_same_tables() -> None:
    settings = {
        "question": "G1", "rows": 500, "rhos": [0.5, 0.5, 1.0], "k": 5, "confidence": 0.95, "conjuncts": 1,
        "runs": 2,
    }  # fmt: skip
    for mechanism in trials.MECHANISMS:
        drawn = [trials.tables_drawn(mechanism=mechanism, **settings) for _ in range(2)]
        assert drawn[0] == drawn[1], mechanism


@pytest.mark.slow  # each process imports and opens everything for itself
@pytest.mark.process
def test_cells_are_computed_by_several_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPXPLAIN_EXPERIMENT_CACHE", str(tmp_path))
    cells = [Cell(JUDGED.work, JUDGED.settings | {"runs": 20 + number}) for number in range(3)]
    done: list[int] = []
    assert harness.run(cells, workers=2, minutes=5, done=lambda: done.append(1)) == []
    assert len(done) == 3
    assert [cell.rows()[0]["runs"] for cell in cells] == [20, 21, 22]


def test_one_experiment_can_be_run_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["questions", "--short", "--workers", "1", "--out", str(tmp_path)]) == 0
    assert "Validity of each question on the true data" in capsys.readouterr().out
    assert (tmp_path / "report.html").exists()
