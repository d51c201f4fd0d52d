"""Runs the fenced blocks of a document as printed, one after the other, on the installed package.

The wheel is built from this tree and installed by the document's own line; what it depends on is linked from
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

ROOT = Path(__file__).parent.parent
PORT = 8765
SECONDS = 900  # ends a broken test; nothing here takes that long
_OURS = ("dpxplain", "_editable", "__editable__", "_virtualenv")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, where it begins, and the heading above it."""

    language: str
    text: str
    place: str
    heading: str

    @property
    def serves(self) -> bool:
        return self.language == "sh" and "dpxplain serve" in self.text


def blocks_of(path: Path) -> list[Block]:
    """Every block of a Markdown file."""
    document, heading, blocks = path.read_text("utf-8"), "", []
    for match in re.finditer(r"(?ms)^```([\w ]*)\n(.*?)^```$|^#+ ([^\n]+)$", document):
        if match[3] is not None:
            heading = match[3]
        else:
            line = document[: match.start()].count("\n") + 1
            blocks.append(Block(match[1], match[2], f"{path.name}:{line}", heading))
    return blocks


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
            assert name is not None, f"{block.place}: a TOML block begins with its file's name"
            (self.folder / name[1]).write_text(text, "utf-8")
        elif block.language == "python":
            self._run(["python", "-c", text], block)
        else:
            assert block.language == "sh", f"{block.place}: nobody runs {block.language!r}"
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
            lines = []
            for line in server.stderr:
                lines.append(line)
                if "DPXPlain is at" in line:
                    break
            else:
                raise AssertionError(f"{block.place}: the server did not start\n{''.join(lines)}")
            yield
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.communicate(timeout=SECONDS)

    def _run(self, command: list[str], block: Block) -> None:
        outcome = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=SECONDS
        )
        assert outcome.returncode == 0, f"{block.place}\n{outcome.stdout}\n{outcome.stderr}"


def build_wheel(folder: Path) -> None:
    """A wheel of this tree in `folder`."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*command, str(folder)], cwd=ROOT, check=True, capture_output=True)


def dependencies() -> list[Path]:
    """What is installed beside DPXPlain itself."""
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    entries = [entry for place in places for entry in Path(place).iterdir()]
    return [entry for entry in entries if not entry.name.startswith(_OURS) and entry.suffix != ".pth"]


def make_home(folder: Path) -> Path:
    """A wheel of this tree in `dist`, and in `venv` a Python that has all but DPXPlain itself."""
    build_wheel(folder / "dist")
    venv.create(folder / "venv")
    [packages] = (folder / "venv").glob("lib/python*/site-packages")
    for entry in dependencies():
        (packages / entry.name).symlink_to(entry)
    pip = folder / "venv/bin/pip"
    pip.write_text('#!/bin/sh\nexec python -m pip "$@"\n', "utf-8")
    pip.chmod(0o755)
    return folder


def free_port() -> int:
    """A port that nobody has: the documents' own may be taken by another document's test beside this one."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
