"""The page's types are those of the server's OpenAPI document, as it is now."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from page_servers import adult_config

from dpxplain.ledger.ledger import open_ledger
from dpxplain.server.app import create_app

PAGE = Path(__file__).parents[2] / "page"


@pytest.mark.slow
@pytest.mark.process
def test_the_generated_types_are_up_to_date(tmp_path: Path) -> None:
    program = PAGE / "node_modules/.bin/openapi-typescript"
    assert program.exists(), "The page's packages are not installed: run make page."
    ledger = open_ledger(None)
    app = create_app(adult_config(), ledger)
    spec = tmp_path / "openapi.json"
    spec.write_text(json.dumps(app.openapi()), encoding="utf-8")
    app.state.server.close()
    ledger.close()
    # The machine's Node, or the one that was installed from PyPI to build the page.
    node = shutil.which("node") or str(Path(sys.executable).parent / "node")
    made = tmp_path / "schema.d.ts"
    options = ["--default-non-nullable=false", "--output", str(made)]
    subprocess.run([node, str(program.resolve()), *options, str(spec)], check=True, capture_output=True)
    known = (PAGE / "src/lib/api/schema.d.ts").read_text(encoding="utf-8")
    assert made.read_text(encoding="utf-8") == known, "Run in page/: npm run types -- openapi.json"
