"""The page's types are those of the server's OpenAPI document, as it is now."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "page"


@pytest.mark.slow
@pytest.mark.process
def test_the_generated_types_are_up_to_date(tmp_path: Path) -> None:
    program = PAGE / "node_modules/.bin/openapi-typescript"
    assert program.exists(), "The page's packages are not installed: run make page."
    spec = tmp_path / "openapi.json"
    printed = subprocess.run(
        [sys.executable, PAGE.parent / "tools/openapi.py"], check=True, capture_output=True
    )
    spec.write_bytes(printed.stdout)
    # The machine's Node, or the one that was installed from PyPI to build the page.
    node = shutil.which("node") or str(Path(sys.executable).parent / "node")
    made = tmp_path / "schema.d.ts"
    options = ["--default-non-nullable=false", "--output", str(made)]
    subprocess.run([node, str(program.resolve()), *options, str(spec)], check=True, capture_output=True)
    known = (PAGE / "src/lib/api/schema.d.ts").read_text(encoding="utf-8")
    assert made.read_text(encoding="utf-8") == known, "Run make types."
