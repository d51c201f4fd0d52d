"""Every block of the README runs as printed, from top to bottom in an empty folder, on the installed package.

The wheel is built from this tree and installed by the README's own line; what it depends on is linked from
the environment that runs the tests, so that no registry is asked.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PORT = 8765
OURS = ("dpxplain", "_editable", "__editable__", "_virtualenv")
SECONDS = 900  # ends a broken test; nothing here takes that long


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text and the line where it begins."""

    language: str
    text: str
    line: int

    @property
    def serves(self) -> bool:
        return self.language == "sh" and "dpxplain serve" in self.text


def blocks(document: str) -> list[Block]:
    return [
        Block(match[1], match[2], document[: match.start()].count("\n") + 1)
        for match in re.finditer(r"(?ms)^```(\w*)\n(.*?)^```$", document)
    ]


BLOCKS = blocks((ROOT / "README.md").read_text("utf-8"))


class Reader:
    """A person in an empty folder who copies blocks into a terminal, one after the other."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("DPXPLAIN", "PYTHON"))
        }
        self.environment = kept | {
            "PATH": f"{home / 'venv/bin'}{os.pathsep}{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(home / "dist"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUTF8": "1",
        }

    def copy(self, block: Block, text: str) -> None:
        """Runs the block in its language; a TOML block is saved under the name in its first line."""
        if block.language == "toml":
            name = re.match(r"# (\S+\.toml)\n", text)
            assert name is not None, f"README.md:{block.line}: a TOML block begins with its file's name"
            (self.folder / name[1]).write_text(text, "utf-8")
        elif block.language == "python":
            self._run(["python", "-c", text], block)
        else:
            assert block.language == "sh", f"README.md:{block.line}: nobody runs {block.language!r}"
            variables = self.folder.parent / "environment"
            self._run(["bash", "-e", "-c", f"{text}\nenv -0 > '{variables}'"], block)
            pairs = (line.partition("=") for line in variables.read_text("utf-8").split("\0") if line)
            self.environment = {name: value for name, _, value in pairs}  # what was exported stays

    @contextmanager
    def serving(self, block: Block, text: str) -> Iterator[None]:
        """The block's server while it runs, in a session of its own so that it can be ended as a whole."""
        log = self.folder.parent / "server.log"
        with log.open("w") as sink:
            server = subprocess.Popen(
                ["bash", "-e", "-c", text],
                cwd=self.folder, env=self.environment, stderr=subprocess.PIPE, stdout=sink, text=True,
                start_new_session=True,
            )  # fmt: skip
        assert server.stderr is not None
        try:
            said = []
            for line in server.stderr:
                said.append(line)
                if "DPXPlain is at" in line:
                    break
            else:
                raise AssertionError(f"README.md:{block.line}: the server did not start\n{''.join(said)}")
            yield
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.communicate(timeout=SECONDS)

    def _run(self, command: list[str], block: Block) -> None:
        outcome = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=SECONDS
        )
        assert outcome.returncode == 0, f"README.md:{block.line}\n{outcome.stdout}\n{outcome.stderr}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A wheel of this tree in `dist`, and in `venv` a Python that has all but DPXPlain itself."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*command, str(tmp_path / "dist")], cwd=ROOT, check=True, capture_output=True)
    venv.create(tmp_path / "venv")
    [packages] = (tmp_path / "venv").glob("lib/python*/site-packages")
    for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(place).iterdir():
            if not entry.name.startswith(OURS) and entry.suffix != ".pth":
                (packages / entry.name).symlink_to(entry)
    pip = tmp_path / "venv/bin/pip"
    pip.write_text('#!/bin/sh\nexec python -m pip "$@"\n', "utf-8")
    pip.chmod(0o755)
    return tmp_path


def free_port() -> int:
    """The port that the README names, or any other if that one is taken."""
    for port in (PORT, 0):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(listener.getsockname()[1])
    raise AssertionError("no port is free")


@pytest.mark.slow
@pytest.mark.process
def test_every_block_of_the_readme_runs_as_printed(home: Path) -> None:
    folder = home / "empty"
    folder.mkdir()
    reader, port = Reader(folder, home), str(free_port())
    texts = [block.text.replace(str(PORT), port) for block in BLOCKS]
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


def test_the_readme_has_blocks_of_each_kind() -> None:
    assert {block.language for block in BLOCKS} == {"sh", "python", "toml"}
    assert any("pip install" in block.text for block in BLOCKS)
    assert sum(block.serves for block in BLOCKS) == 1
