"""`make mutants` makes valid changes, chooses them by seed, and never touches the checkout."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))  # for mutants
import mutants

MODULE = Path("src/dpxplain/privacy/toy.py")
TOY = '''"""A module with a place for every operator, and 1 number < another in its docstring."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LIMIT = 11


class Box:
    def __init__(self, size: "Literal[12]") -> None:
        self.größe = size; self.empty = not size

    def __repr__(self) -> str:
        return str(13)


def area(box, scale=1):
    if box.empty or scale < 0 and not box:
        raise ValueError(f"{scale + 14} is too small", 15)
    notify(box, scale, loud=True)
    return [part * scale for part in box if part] if box.größe == 2 else request_key("area", (box, scale))
'''.encode()


def _changes(operator: str) -> set[str]:
    return {mutant.change for mutant in mutants.mutants_of(MODULE, TOY) if mutant.operator == operator}


@pytest.mark.parametrize(
    ("operator", "change"),
    [
        ("flip_comparison", "scale < 0 -> scale <= 0"),
        ("flip_comparison", "box.größe == 2 -> box.größe != 2"),
        ("swap_arithmetic", "part * scale -> part / scale"),
        ("swap_and_or", "scale < 0 and (not box) -> scale < 0 or not box"),
        ("negate_condition", "part -> not part"),
        ("increase_number", "2 -> 3"),
        (
            "return_nothing",
            "return [part * scale for part in box if part] if box.größe == 2 els… -> return None",
        ),
        ("drop_keyword", "notify(box, scale, loud=True) -> notify(box, scale)"),
        ("swap_arguments", "notify(box, scale, loud=True) -> notify(scale, box, loud=True)"),
        ("delete_statement", "self.größe = size -> pass"),
        ("delete_statement", "notify(box, scale, loud=True) -> pass"),
        ("drop_part_of_key", "(box, scale) -> (box,)"),
        ("drop_part_of_key", "request_key('area', (box, scale)) -> request_key((box, scale))"),
    ],
)
def test_each_operator_makes_its_change(operator: str, change: str) -> None:
    assert change in _changes(operator)


def test_every_mutant_is_valid_and_differs_from_the_module_and_from_the_others() -> None:
    found = mutants.mutants_of(MODULE, TOY)
    sources = [ast.unparse(ast.parse(mutant.apply(TOY))) for mutant in found]
    assert {mutant.operator for mutant in found} == {operator.__name__ for operator in mutants.OPERATORS}
    assert len({*sources, ast.unparse(ast.parse(TOY))}) == len(sources) + 1


def test_a_mutant_changes_only_its_own_place() -> None:
    mutant = next(m for m in mutants.mutants_of(MODULE, TOY) if m.change == "self.größe = size -> pass")
    assert mutant.apply(TOY) == TOY.replace("self.größe = size".encode(), b"pass")


def test_messages_annotations_repr_and_type_checking_are_left_alone() -> None:
    assert _changes("increase_number") == {"0 -> 1", "1 -> 2", "2 -> 3"}


def test_the_seed_decides_which_mutants_are_tried() -> None:
    found = mutants.mutants_of(MODULE, TOY)
    assert mutants.choose(found, 1) == mutants.choose(found, 1)
    assert mutants.choose(found, 1) != mutants.choose(found, 2)
    assert sorted(map(str, mutants.choose(found, 2))) == sorted(map(str, found))


def test_modules_and_operators_take_turns() -> None:
    other = Path("src/dpxplain/ledger/toy.py")
    order = mutants.choose(mutants.mutants_of(MODULE, TOY) + mutants.mutants_of(other, TOY), 1)
    assert {mutant.path for mutant in order[:2]} == {MODULE, other}
    first_round = [mutant.operator for mutant in order if mutant.path == MODULE][: len(mutants.OPERATORS)]
    assert len(set(first_round)) == len(mutants.OPERATORS)


def test_likely_tests_are_those_that_import_a_module_or_its_user(tmp_path: Path) -> None:
    _write(tmp_path, "src/dpxplain/privacy/inner.py", "def f(): ...\n")
    _write(tmp_path, "src/dpxplain/privacy/outer.py", "from dpxplain.privacy.inner import f\n")
    _write(tmp_path, "tests/privacy/test_one.py", "from dpxplain.privacy.outer import f\n")
    _write(tmp_path, "tests/privacy/test_two.py", "import json\n")
    likely = mutants.LikelyTests(tmp_path)
    assert likely.of(Path("src/dpxplain/privacy/inner.py"), ["tests/privacy"]) == [
        "tests/privacy/test_one.py"
    ]
    assert likely.of(Path("src/dpxplain/privacy/two.py"), ["tests/privacy"]) == ["tests/privacy/test_two.py"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of its own: a function whose test notices a missing result, but not a wrong one."""
    root = tmp_path / "checkout"
    _write(
        root,
        "pyproject.toml",
        '[tool.pytest.ini_options]\nmarkers = ["slow", "database", "spark", "process"]\n',
    )
    _write(root, "src/dpxplain/__init__.py", "")
    _write(root, "src/dpxplain/privacy/__init__.py", "")
    _write(root, "src/dpxplain/privacy/toy.py", "def total(a, b):\n    print(a)\n    return a + b\n")
    test = "from dpxplain.privacy.toy import total\n\n\ndef test_sum():\n    assert total(2, 0) is not None\n"
    _write(root, "tests/privacy/test_toy.py", test)
    return root


def _write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def _files(root: Path) -> dict[Path, tuple[int, bytes]]:
    return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in root.rglob("*") if file.is_file()}


@pytest.mark.process
def test_a_run_tells_killed_from_surviving_mutants_and_leaves_the_checkout_alone(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(mutants.tempfile, "tempdir", str(tmp_path / "scratch"))
    before = _files(checkout)
    arguments = ["--root", str(checkout), "--room", "privacy", "--minutes", "5"]
    assert mutants.main([*arguments, "--strict"]) == 1
    out = capsys.readouterr().out
    assert "killed    src/dpxplain/privacy/toy.py:3  return a + b -> return None" in out
    assert "survived  src/dpxplain/privacy/toy.py:3  a + b -> a - b" in out
    assert out.endswith(
        "survived: 2 of 3\n"
        "  src/dpxplain/privacy/toy.py:2  print(a) -> pass\n"
        "  src/dpxplain/privacy/toy.py:3  a + b -> a - b\n"
    )
    assert _files(checkout) == before
    assert not [*(tmp_path / "scratch").iterdir()]


@pytest.mark.process
def test_a_run_ends_with_an_error_if_the_tests_fail_without_a_change(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(checkout, "tests/privacy/test_broken.py", "def test_broken():\n    assert 1 == 2\n")
    assert mutants.main(["--root", str(checkout), "--room", "privacy", "--minutes", "5"]) == 1
    assert "test_broken" in capsys.readouterr().out
