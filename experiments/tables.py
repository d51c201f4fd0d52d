"""The experiments' four tables, generated once and kept on disk, and sessions on them."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stderr
from functools import cache, lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import dpxplain as dpx
from dpxplain.datasets import path
from experiments import census, credit, extracts

ROOT = Path(__file__).parents[1]
# Environment variables with real files in place of generated rows, set by `python -m experiments`.
CPS, TRIPS, ZONES = "DPXPLAIN_CPS_EXTRACT", "DPXPLAIN_TLC_TRIPS", "DPXPLAIN_TLC_ZONES"

_RECIPES = {
    "census": ("experiments/census*",),
    "credit": ("experiments/credit*",),
    "trips": ("examples/taxi_imbalance.py",),
}
ROWS = {"adult": 48_842, "census": 1_146_552, "credit": credit.ROWS, "trips": 2_700_000}


def cache_folder() -> Path:
    folder = Path(os.environ.get("DPXPLAIN_EXPERIMENT_CACHE", ROOT / "build" / "experiments" / "cache"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def real_files() -> dict[str, str]:
    """The tables read from the user's own files, with those files' paths."""
    files = {"census": os.environ.get(CPS, ""), "trips": os.environ.get(TRIPS, "")}
    return {name: given for name, given in files.items() if given}


def schema(name: str) -> dict[str, Any]:
    """The declared schema, with a budget that experiments do not exhaust."""
    if name == "adult":
        import tomllib

        declared = tomllib.loads(path("adult.toml").read_text(encoding="utf-8"))
    elif name == "trips":
        from examples.taxi_imbalance import schema as trip_schema

        declared = extracts.trip_schema(os.environ[ZONES]) if name in real_files() else trip_schema()
    else:
        declared = {"census": census, "credit": credit}[name].schema()
    declared["table"].pop("source", None)
    return declared | {"privacy": {"rho": 1e6}}


@lru_cache(maxsize=2)
def table(name: str, rows: int) -> pa.Table:
    """The table, read from disk if it was generated before."""
    if name == "adult":
        return pq.read_table(path("adult.parquet"))
    if name in real_files():
        return _read(name)
    kept = cache_folder() / f"{name}-{rows}-{_recipe(name)}.parquet"
    if not kept.exists():
        fresh = kept.with_suffix(f".{os.getpid()}")
        pq.write_table(_generate(name, rows), fresh)
        fresh.rename(kept)  # atomic: never a partial file
    return pq.read_table(kept)


def _recipe(name: str) -> str:
    """A hash of the files that generate the table."""
    digest = hashlib.sha256()
    for pattern in _RECIPES[name]:
        for file in sorted(ROOT.glob(pattern)):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _generate(name: str, rows: int) -> pa.Table:
    if name == "trips":
        from examples.taxi_imbalance import trips

        return trips(rows)
    return {"census": census, "credit": credit}[name].generate(rows)


def _read(name: str) -> pa.Table:
    files = real_files()[name]
    if name == "census":
        return extracts.read_cps(files)
    return extracts.read_trips(files.split(os.pathsep), os.environ[ZONES])


def open_session(
    name: str, rows: int, *, seed: int | None = 0, columns: tuple[str, ...] | None = None
) -> dpx.Session:
    """Open a new session. `seed=None` draws private noise; `columns` keeps only these columns."""
    declared, data = schema(name), table(name, rows)
    if columns is not None:
        declared["columns"] = {column: declared["columns"][column] for column in columns}
        data = data.select(list(columns))
    return _connect(data, declared, seed)


def _connect(data: pa.Table, declared: Mapping[str, Any], seed: int | None) -> dpx.Session:
    with redirect_stderr(StringIO()):  # warnings that the ledger is new and a seed is not private
        return dpx.connect(
            data, schema=dict(declared), workspace=new_workspace(), curator=True, insecure_seed=seed
        )


def new_workspace() -> str:
    """An empty folder for a ledger."""
    return tempfile.mkdtemp(dir=_workspaces())


@cache
def _workspaces() -> str:
    """A folder that is deleted when the process ends."""
    folder = tempfile.mkdtemp(prefix="dpxplain-experiment-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
