"""`make messages` shows the messages of every place where a person reads one."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "messages.py"


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(TOOL))


@pytest.fixture(scope="module")
def found(tool: dict[str, Any]) -> Any:
    return tool["messages"]()


@pytest.mark.parametrize(
    ("group", "known"),
    [
        ("errors", "--dataset and --rho go together."),
        ("command line", "Make a token. It is shown only once: pass it on in private."),
        ("command line", "There are no tokens."),
        ("words and results", "Noise on purpose."),
        ("server problems and page sentences", "Only the curator can do this."),
        ("audit log", "signed in with a browser"),
    ],
)
def test_each_group_has_its_messages(found: Any, group: str, known: str) -> None:
    assert known in [message.text for message in found[group]]


def test_no_group_is_empty_and_no_message_is_printed_twice(tool: dict[str, Any], found: Any) -> None:
    assert list(found) == list(tool["GROUPS"])
    for listed in found.values():
        assert listed
        assert len({(message.text, message.remedy) for message in listed}) == len(listed)


def test_an_error_is_printed_with_its_place_and_its_remedy(tool: dict[str, Any], found: Any) -> None:
    [error] = [m for m in found["errors"] if m.text == "--dataset and --rho go together."]
    assert error.place.startswith("src/dpxplain/cli/admin_commands.py:")
    assert str(error).splitlines()[1:] == [
        "    --dataset and --rho go together.",
        "    -> Give both, or neither.",
    ]
    assert str(error) in tool["report"](found)
