"""What the documents say about the repository is true: files exist, decisions have a status."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import dpxplain

ROOT = Path(__file__).parent.parent
PLACES = [ROOT, ROOT / "src/dpxplain", ROOT / "page/src", ROOT / "src/dpxplain/server"]
GUIDES = [ROOT / "CONTRIBUTING.md", ROOT / "docs/walkthrough.md"]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DECISIONS = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))


def test_every_file_named_in_the_guides_exists() -> None:
    missing = [
        f"{guide.name}: {name}"
        for guide in GUIDES
        for name in re.findall(r"`([\w/.-]+(?:/|\.(?:py|md|toml|txt|svelte|css)))`", guide.read_text("utf-8"))
        if not re.search("NAME|SUBJECT", name) and not any((place / name).exists() for place in PLACES)
    ]
    assert not missing, "\n".join(missing)


def test_every_python_file_and_link_in_the_documents_exists() -> None:
    missing = []
    for document in DOCUMENTS:
        text = document.read_text("utf-8")
        files = re.findall(r"`([\w/.-]+/[\w.-]+\.py)`", text)
        missing += [name for name in files if not any((place / name).exists() for place in PLACES)]
        links = re.findall(r"\]\(((?!https?:|mailto:)[^)#\s]+)", text)
        missing += [link for link in links if not (document.parent / link).exists()]
    assert not missing, "\n".join(missing)


def test_every_decision_has_a_number_of_its_own_and_a_status() -> None:
    numbers = Counter(path.name[:4] for path in DECISIONS)
    assert [number for number, times in numbers.items() if times > 1] == []
    wrong = [
        path.name
        for path in DECISIONS
        if not re.match(
            rf"# {int(path.name[:4])}\. .+\n\n\*\*Status:\*\* (proposed|accepted|superseded by ADR \d+)",
            path.read_text("utf-8"),
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_the_index_lists_every_decision_and_explains_missing_numbers() -> None:
    index = (ROOT / "docs/adr/README.md").read_text("utf-8")
    listed = re.findall(r"^\| \[(\d+)\]\(([\w-]+\.md)\) \| .+\. \|$", index, re.MULTILINE)
    assert listed == [(str(int(path.name[:4])), path.name) for path in DECISIONS]
    missing = set(range(1, int(DECISIONS[-1].name[:4]))) - {int(number) for number, _ in listed}
    explained = re.search(r"There is no page ([\d, or]+):", index)
    assert explained
    assert missing == set(map(int, re.findall(r"\d+", explained[1])))


def test_the_changelog_has_the_version_of_the_package_in_at_most_60_lines() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    unreleased, newest, *_ = re.split(r"^## ", changes, flags=re.MULTILINE)[1:]
    assert unreleased.startswith("Unreleased\n")
    assert re.match(rf"{re.escape(dpxplain.__version__)} \(\d{{4}}-\d\d-\d\d\)\n", newest)
    assert len(newest.splitlines()) <= 60
