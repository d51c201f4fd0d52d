"""Every block of docs/server.md runs as printed, from top to bottom, on the installed package.

What stands for something else is filled in: the server's address, Ann's token, and folders outside of the
reader's own.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from printed_blocks import PORT, ROOT, Block, Reader, blocks_of, free_port, make_home
from server_fixture import write_people

BLOCKS = blocks_of(ROOT / "docs/server.md")


class Page:
    """The reader of this page, with what stands for something else on it."""

    def __init__(self, reader: Reader, elsewhere: Path) -> None:
        self.reader = reader
        port = free_port()
        self.fillings = {
            "https://data.example.org": f"http://127.0.0.1:{port}",
            f":{PORT}": f":{port}",
            "[server]\n": f"[server]\nport = {port}\n",
            "/mnt/elsewhere": str(elsewhere),
            "/var/backups/dpxplain": str(elsewhere),
            "/srv/dpxplain": str(reader.folder),
        }

    def text(self, block: Block) -> str:
        text = block.text
        for printed, filling in self.fillings.items():
            text = text.replace(printed, filling)
        return text

    def copy(self, block: Block) -> None:
        if block.language == "cron":
            schedules = re.findall(r"(?m)^(?:\S+ ){4}\S+ +(.*)$", block.text)
            assert schedules, f"{block.place}: no line of a crontab"
            [command] = schedules
            block = Block("sh", command, block.place, block.heading)
        self.reader.copy(block, self.text(block))


@pytest.mark.slow
@pytest.mark.process
def test_every_block_of_the_server_s_page_runs_as_printed(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    folder, elsewhere = home / "server", home / "elsewhere"
    elsewhere.mkdir()
    write_people(folder)
    reader = Reader(folder, home)
    reader.environment |= {"HOME": str(home), "COLUMNS": "200"}
    page = Page(reader, elsewhere)
    [serving] = (number for number, block in enumerate(BLOCKS) if block.serves)
    start, _, command = page.text(BLOCKS[serving]).rpartition("dpxplain serve")
    reader.copy(BLOCKS[serving], start)
    with reader.serving(BLOCKS[serving], f"dpxplain serve{command}"):
        for block in BLOCKS[serving + 1 :]:
            before = reader.environment
            if block.heading == "When the data change":
                _change_data(folder)
                block = _without_refusal(reader, block)
            page.copy(block)
            if "export DPXPLAIN_TOKEN" in block.text:
                reader.environment = before  # that was Ann's machine
            if "token create ann" in block.text:
                page.fillings["dpx_..."] = _token(reader, "ann")


def _token(reader: Reader, name: str) -> str:
    """Another token of the same person: the first was only printed."""
    made = subprocess.run(
        ["dpxplain", "token", "create", name, "--json"],
        cwd=reader.folder, env=reader.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return str(json.loads(made.stdout)["token"])


def _without_refusal(reader: Reader, block: Block) -> Block:
    """The block without its first line, which is carried out here: it ends with the code that it names."""
    line, _, rest = block.text.partition("\n")
    assert "# exit code 2" in line
    status = subprocess.run(
        ["bash", "-c", line], cwd=reader.folder, env=reader.environment, capture_output=True, text=True
    )
    assert status.returncode == 2, f"{block.place}\n{status.stdout}\n{status.stderr}"
    return replace(block, text=rest)


def _change_data(folder: Path) -> None:
    """Other rows in the place of those that were charged."""
    write_people(folder / "other", rows=2_000)
    for place in (folder, folder / "schemas"):
        shutil.copy(folder / "other/people.parquet", place / "people.parquet")
    shutil.rmtree(folder / "other")


def test_the_page_says_what_language_each_block_is_in() -> None:
    assert {block.language for block in BLOCKS} == {"sh", "python", "cron"}
