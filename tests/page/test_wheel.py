"""The built page is not committed, but whoever installs the package has it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
@pytest.mark.process
def test_the_wheel_ships_the_built_page(tmp_path: Path) -> None:
    built = [file for file in (ROOT / "src/dpxplain/server/static").rglob("*") if file.is_file()]
    assert built, "The page is not built: run make page."
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for file in built:
        assert file.relative_to(ROOT / "src").as_posix() in names
    assert not any("node_modules" in name or name.startswith("page/") for name in names)


def test_the_lockfile_and_sources_name_no_registry() -> None:
    lock = (ROOT / "page/package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock
    assert "registry." not in lock
    assert "registry." not in (ROOT / "constraints.txt").read_text(encoding="utf-8")
