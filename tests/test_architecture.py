"""The shape of the package: who imports what, who opens a confidential value, how large a module may be.

Every import counts, those inside functions, under TYPE_CHECKING and by name (`import_module("dpxplain...")`)
included. A failing rule lists all its offenders.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "dpxplain"
PATHS = sorted(SOURCE.rglob("*.py"))

# Each room (a folder, or a module at the root) may import itself and the rooms listed.
_FLOOR = {"errors", "model"}
_ROOMS_OF_PHASES = _FLOOR | {"engines", "ledger", "sql", "explanation", "privacy"}
_ROOMS_OF_WORDS = _ROOMS_OF_PHASES | {"phases"}
_ROOMS_OF_RESULTS = _ROOMS_OF_WORDS | {"words"}
_ROOMS_OF_RENDER = _ROOMS_OF_RESULTS | {"results", "curator"}
_ROOMS_OF_SESSION = _ROOMS_OF_RENDER | {"render", "wire", "remote", "datasets"}
ROOMS = {
    "errors": set(),
    "model": {"errors"},
    "sql": _FLOOR,
    "privacy": _FLOOR,
    "ledger": _FLOOR,
    "engines": _FLOOR | {"sql"},
    "explanation": _FLOOR | {"privacy"},
    "datasets": {"errors"},
    "phases": _ROOMS_OF_PHASES,
    "words": _ROOMS_OF_WORDS,
    "results": _ROOMS_OF_RESULTS,
    "curator": _ROOMS_OF_RESULTS | {"results"},
    "render": _ROOMS_OF_RENDER,
    "wire": _ROOMS_OF_RENDER | {"render"},
    "remote": _ROOMS_OF_RENDER | {"wire"},
    "session": _ROOMS_OF_SESSION,
    "__init__": _ROOMS_OF_SESSION | {"session"},
    "server": _ROOMS_OF_SESSION | {"session", "__init__"},
    "audit": {"__init__"},  # from outside: the public face only
    "cli": _ROOMS_OF_SESSION | {"session", "__init__", "server", "audit"},
}

# A driver or library lives in these places only.
HOMES = {
    "opendp": ("privacy/mechanisms", "privacy/accounting.py"),
    "sqlglot": ("sql",),
    "duckdb": ("engines",),
    "pyspark": ("engines",),
    "sqlalchemy": ("ledger",),
    "sqlite3": ("ledger",),
    "psycopg": ("ledger", "engines"),
    "httpx": ("remote", "server/authenticate.py"),
    "fastapi": ("server",),
    "starlette": ("server",),
    "uvicorn": ("server",),
    "anyio": ("server",),
    "prometheus_client": ("server",),
    "jwt": ("server",),
    "typer": ("cli",),
    "tomlkit": ("cli",),
    "altair": ("render/charts.py",),
    "vl_convert": ("render/charts.py",),
    "scipy": (),  # ADR 17; tests compare with it
}


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_module(path): path for path in PATHS}


def _place(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def _room(module: str) -> str:
    """The folder or root module; `__init__` for the package itself."""
    return [*module.split("."), "__init__"][1]


@cache
def _nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def _imported(path: Path) -> Iterator[str]:
    """The full name of everything the module imports; `a.b.c` for `from a.b import c`."""
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{_place(path)}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Constant)
            and str(node.value).startswith("dpxplain.")
            and node.value in MODULES
        ):
            yield node.value


@cache
def _graph() -> dict[str, set[str]]:
    """For each module, the modules of the package that it imports."""

    def target(name: str) -> str | None:
        return name if name in MODULES else target(name.rpartition(".")[0]) if "." in name else None

    return {
        module: {found for name in _imported(path) if (found := target(name))} - {module}
        for module, path in MODULES.items()
    }


def _cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module: those that reach each other."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        stack = [start]
        while stack:
            for module in graph[stack.pop()] - seen:
                seen.add(module)
                stack.append(module)
        return seen

    reached = {module: reachable(module) for module in graph}
    components = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in graph
        if module in reached[module]
    }
    return [list(component) for component in sorted(components)]


def test_every_room_has_its_place_in_the_order() -> None:
    assert {_room(module) for module in MODULES} <= ROOMS.keys()


def test_a_room_imports_only_from_the_rooms_below_it() -> None:
    offenders = [
        f"{module} imports {target}"
        for module, targets in _graph().items()
        for target in sorted(targets)
        if _room(target) not in ROOMS[_room(module)] | {_room(module)}
    ]
    assert not offenders, "\n".join(offenders)


def test_the_order_of_the_rooms_has_no_circle() -> None:
    assert _cycles(ROOMS) == []


def test_no_modules_import_each_other() -> None:
    cycles = _cycles(_graph())
    assert not cycles, "\n".join(" <-> ".join(cycle) for cycle in cycles)


def test_no_two_modules_have_the_same_name() -> None:
    names = Counter(path.stem for path in PATHS if path.stem != "__init__" and path.parent.name != "routes")
    repeated = {name for name, count in names.items() if count > 1}
    twice = [_place(path) for path in PATHS if path.stem in repeated and path.parent.name != "routes"]
    assert not twice, "\n".join(twice)


def test_no_two_classes_have_the_same_name() -> None:
    places: dict[str, list[str]] = {}
    for path in PATHS:
        for node in _nodes(path):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{_place(path)}:{node.lineno}")
    twice = [f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1]
    assert not twice, "\n".join(twice)


def test_phases_use_the_protocols_of_engines_and_ledgers() -> None:
    protocols = {"dpxplain.engines.engine", "dpxplain.ledger.protocol"}
    offenders = [
        f"{module} imports {target}"
        for module, targets in _graph().items()
        if _room(module) == "phases"
        for target in targets - protocols
        if _room(target) in ("engines", "ledger")
    ]
    assert not offenders, "\n".join(offenders)


def test_a_library_lives_only_in_its_own_room() -> None:
    offenders = {
        f"{_place(path)} imports {library}"
        for path in PATHS
        for library in {name.split(".")[0] for name in _imported(path)} & HOMES.keys()
        if not _place(path).startswith(HOMES[library])
    }
    assert not offenders, "\n".join(sorted(offenders))


def test_only_mechanisms_and_the_curator_open_a_confidential_value() -> None:
    allowed = ("privacy/mechanisms/", "curator.py", "model/confidential.py")
    offenders = [
        f"{_place(path)}:{node.lineno}"
        for path in PATHS
        if not _place(path).startswith(allowed)
        for node in _nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in ("reveal", "_Confidential__value")
    ]
    assert not offenders, "\n".join(offenders)


def test_nothing_is_evaluated_from_text() -> None:
    offenders = [
        f"{_place(path)}:{node.lineno}"
        for path in PATHS
        for node in _nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec")
    ]
    assert not offenders, "\n".join(offenders)


def test_random_numbers_come_from_opendp_or_say_that_they_are_seeded() -> None:
    offenders = [
        f"{_place(path)}: {line.strip()}"
        for path in PATHS
        for line in path.read_text(encoding="utf-8").splitlines()
        if ("np.random" in line or "import random" in line) and "seeded" not in line
    ]
    assert not offenders, "\n".join(offenders)


def test_no_cached_property_locks_the_objects_of_other_callers() -> None:
    """Python 3.11's own holds one lock for all objects of a class while it computes."""
    offenders = [
        f"{_place(path)}: {line.strip()}"
        for path in PATHS
        for line in path.read_text(encoding="utf-8").splitlines()
        if path.name != "process.py" and re.match(r"from functools import .*\bcached_property\b", line)
    ]
    assert not offenders, "\n".join(offenders)


def test_modules_stay_small_and_say_what_they_are_for() -> None:
    texts = {_place(path): path.read_text(encoding="utf-8") for path in PATHS}
    long = [
        f"{place} has {lines} lines" for place, text in texts.items() if (lines := text.count("\n")) > 800
    ]
    silent = [
        f"{place} has no docstring"
        for place, text in texts.items()
        if text.strip() and not ast.get_docstring(ast.parse(text))
    ]
    assert not long + silent, "\n".join(long + silent)


@pytest.mark.process
def test_importing_dpxplain_brings_in_nothing_heavy() -> None:
    heavy = "duckdb opendp numpy scipy pyarrow altair sqlglot sqlalchemy pandas polars typer rich pydantic"
    code = f"import sys, dpxplain; print(sorted(set('{heavy}'.split()) & sys.modules.keys()))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
