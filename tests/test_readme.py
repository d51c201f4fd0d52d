"""Every block of the README runs as printed, from top to bottom in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from printed_blocks import PORT, ROOT, Reader, blocks_of, free_port, make_home

EVERY = blocks_of(ROOT / "README.md")
BLOCKS = [block for block in EVERY if block.language != "console"]  # those are for a clone: its Makefile


@pytest.mark.slow
@pytest.mark.process
def test_every_block_of_the_readme_runs_as_printed(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    folder = home / "empty"
    folder.mkdir()
    reader, port = Reader(folder, home), str(free_port())
    # In a clone the package is the folder; here it is a wheel.
    texts = [block.text.replace(str(PORT), port).replace("'.[all]'", "'dpxplain[all]'") for block in BLOCKS]
    [server] = (i for i, block in enumerate(BLOCKS) if block.serves)
    for block, text in zip(BLOCKS[:server], texts[:server], strict=True):
        reader.copy(block, text)
    with reader.serving(BLOCKS[server], texts[server]):
        for block, text in zip(BLOCKS[server + 1 :], texts[server + 1 :], strict=True):
            reader.copy(block, text)
    assert {path.name for path in folder.iterdir()} == {
        *(".dpxplain", "dpxplain.toml", "flights.csv", "server.toml"),
        *("dpxplain-demo.html", "report.html", "why.html"),
    }


def test_the_first_commands_are_those_of_a_clone() -> None:
    first, makefile = EVERY[0], (ROOT / "Makefile").read_text("utf-8")
    commands = [line.split()[:2] for line in first.text.splitlines()]
    assert commands == [["make", "demo"], ["make", "test"]]
    assert all(f"\n{target}:" in makefile for _, target in commands)


def test_the_readme_has_blocks_of_each_kind() -> None:
    assert {block.language for block in BLOCKS} == {"sh", "python", "toml"}
    assert any("pip install" in block.text for block in BLOCKS)
    assert sum(block.serves for block in BLOCKS) == 1
