"""The house keeps its shape: who may import what, and who may open a confidential value."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "dpxplain"
MODULES = sorted(SOURCE.rglob("*.py"))

# Each room may import from itself and from the rooms listed; errors and model are open to all.
ROOMS = {
    "errors": set(),
    "model": {"errors"},
    "sql": {"errors", "model"},
    "privacy": {"errors", "model"},
    "explanation": {"errors", "model", "privacy"},
    "ledger": {"errors", "model"},
    "engines": {"errors", "model", "sql"},
    "datasets": {"errors"},
    "phases": {"errors", "model", "sql", "privacy", "explanation", "engines", "ledger"},
}

# A driver or library lives in these places only.
HOMES = {
    "opendp": ("privacy/mechanisms", "privacy/accounting.py"),
    "sqlglot": ("sql",),
    "duckdb": ("engines",),
    "sqlalchemy": ("ledger",),
    "sqlite3": ("ledger",),
    "psycopg": ("ledger",),
    "httpx": ("remote",),
    "fastapi": ("server",),
    "starlette": ("server",),
    "uvicorn": ("server",),
    "anyio": ("server",),
    "prometheus_client": ("server",),
    "jwt": ("server",),
    "typer": ("cli",),
    "altair": ("render",),
    "vl_convert": ("render",),
}


def _imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def _place(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def _room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", MODULES, ids=_place)
def test_a_room_imports_only_from_the_rooms_below_it(path: Path) -> None:
    room = _place(path).removesuffix(".py").split("/")[0]
    if room not in ROOMS:
        return
    allowed = ROOMS[room] | {room}
    reached = {_room(name) for name in _imports(path) if name.startswith("dpxplain.")}
    assert reached <= allowed, f"{_place(path)} reaches up to {reached - allowed}"


@pytest.mark.parametrize("path", MODULES, ids=_place)
def test_phases_use_the_protocols_of_engines_and_ledgers(path: Path) -> None:
    if not _place(path).startswith("phases/"):
        return
    reached = {name for name in _imports(path) if name.startswith(("dpxplain.engines", "dpxplain.ledger"))}
    assert reached <= {"dpxplain.engines.engine", "dpxplain.ledger.protocol"}


@pytest.mark.parametrize("path", MODULES, ids=_place)
def test_a_library_lives_only_in_its_own_room(path: Path) -> None:
    for name in {imported.split(".")[0] for imported in _imports(path)} & HOMES.keys():
        assert _place(path).startswith(HOMES[name]), f"{_place(path)} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=_place)
def test_only_mechanisms_and_the_curator_open_a_confidential_value(path: Path) -> None:
    opens = any(
        isinstance(node, ast.Attribute) and node.attr in ("reveal", "_Confidential__value")
        for node in ast.walk(ast.parse(path.read_text()))
    )
    allowed = ("privacy/mechanisms/", "curator.py", "model/confidential.py")
    assert not opens or _place(path).startswith(allowed)


@pytest.mark.parametrize("path", MODULES, ids=_place)
def test_nothing_is_evaluated_from_text(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("eval", "exec"), _place(path)


@pytest.mark.parametrize("path", MODULES, ids=_place)
def test_random_numbers_come_from_opendp_or_say_that_they_are_seeded(path: Path) -> None:
    for line in path.read_text().splitlines():
        if "np.random" in line or "import random" in line:
            assert "seeded" in line, f"{_place(path)}: {line.strip()}"


@pytest.mark.parametrize("path", MODULES, ids=_place)
def test_modules_stay_small_and_say_what_they_are_for(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text)) or not text.strip()


def test_importing_dpxplain_brings_in_nothing_heavy() -> None:
    heavy = "duckdb opendp numpy scipy pyarrow altair sqlglot sqlalchemy pandas polars typer rich pydantic"
    code = f"import sys, dpxplain; print(sorted(set('{heavy}'.split()) & sys.modules.keys()))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
