"""docs/server.md documents every setting of the configuration with its default, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from dpxplain.server.config import AnalystSettings, Config, Limits, Oidc, Serving

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "server.md"
SECTIONS: dict[str, type[BaseModel]] = {
    "server": Serving,
    "analysts": AnalystSettings,
    "limits": Limits,
    "oidc": Oidc,
}


def documented(section: str) -> dict[str, str]:
    """The default of each key, as written in the section's table."""
    table = DOCUMENT.read_text("utf-8").split(f"| `[{section}]` | default | meaning |", 1)[1].split("\n\n")[0]
    return dict(re.findall(r"(?m)^\| `(\w+)` \| (.+?) \| ", table))


def written(default: Any) -> str:
    """A default as TOML, the way the table has it."""
    if default is PydanticUndefined:
        return "required"
    return "none" if default is None else f"`{json.dumps(default)}`"


def test_the_sections_are_those_of_the_configuration() -> None:
    assert {name for name, field in Config.model_fields.items() if not field.exclude} == SECTIONS.keys()


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_is_documented_with_its_default(section: str) -> None:
    settings = SECTIONS[section].model_fields
    assert documented(section) == {name: written(field.default) for name, field in settings.items()}
