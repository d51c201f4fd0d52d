"""A throwaway machine with systemd as its first process, made of this one by Linux namespaces.

It sees this machine's files through a copy-on-write layer in memory, has a loopback network and processes of
its own, and is gone with everything in it when it is closed. It needs root and cgroups of version 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from printed_blocks import ROOT, SECONDS, build_wheel, dependencies

_CGROUPS = Path("/sys/fs/cgroup/systemd")
_NAMESPACES = ("--mount", "--pid", "--ipc", "--uts", "--net", "--cgroup")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROGRAMS = ("nginx", "curl", "runuser", "systemctl", "pg_createcluster")


def obstacle() -> str | None:
    """Why there can be no such machine here, or None."""
    if os.geteuid() != 0 or not os.access(_CGROUPS, os.W_OK):
        return "a machine with systemd needs root and a writable /sys/fs/cgroup/systemd"
    tried = subprocess.run(["unshare", *_NAMESPACES, "--fork", "true"], capture_output=True)
    return None if tried.returncode == 0 else "this kernel does not let root make namespaces"


class Machine:
    """A running one; commands run in it as root."""

    def __init__(self, init: int) -> None:
        self._init = init
        self.environment = {
            "PATH": _PATH,
            "LANG": "C.UTF-8",
            "HOME": "/root",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": "/opt/wheels",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Runs a script with bash in the tree's folder; what it exports stays for later ones."""
        outcome = self._enter(["bash", "-e", "-o", "pipefail", "-c", f"{script}\nenv -0 > /run/environment"])
        if outcome.returncode == 0:
            pairs = self._enter(["cat", "/run/environment"]).stdout.split("\0")
            self.environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        return outcome

    def output(self, script: str) -> str:
        """What a script prints; it must not fail."""
        outcome = self.run(script)
        assert outcome.returncode == 0, f"{script}\n{outcome.stdout}\n{outcome.stderr}"
        return outcome.stdout.strip()

    def write(self, path: str, text: str, *, executable: bool = False) -> None:
        """Writes a file of the machine."""
        self._enter(["tee", path], text)
        self._enter(["chmod", "755" if executable else "644", path])

    def _enter(self, command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", f"--target={self._init}", "--all", "--root", "--wd", "env", "-i"]
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return subprocess.run(
            [*enter, "--chdir=/usr/src/dpxplain", *variables, *command],
            input=text, capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip


@contextmanager
def throwaway_machine() -> Iterator[Machine]:
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    assert not missing, f"Please run tools/machine: {', '.join(missing)} is not installed."
    with tempfile.TemporaryDirectory(prefix="dpxplain-machine-") as folder:
        scratch, wheels, log = Path(folder) / "scratch", Path(folder) / "wheels", Path(folder) / "log"
        scratch.mkdir()
        build_wheel(wheels)
        cgroup = _CGROUPS / Path(folder).name
        cgroup.mkdir()
        boot = Path(__file__).with_name("boot.sh")
        packages = dependencies()[0].parent
        # The shell enters the group before it makes the namespaces, so that they begin there.
        script = f'echo $$ > "{cgroup}/cgroup.procs"; exec "$@"'
        unshare = ["unshare", *_NAMESPACES, "--fork", "--kill-child"]
        arguments = [str(scratch), str(ROOT), sys.base_prefix, str(packages), str(wheels)]
        with log.open("w") as sink:
            process = subprocess.Popen(
                ["sh", "-c", script, "sh", *unshare, "sh", str(boot), *arguments],
                stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True,
            )  # fmt: skip
        try:
            machine = Machine(_first_process(process, log))
            _wait_for_systemd(machine, process, log)
            _install_stand_ins(machine, packages)
            yield machine
        finally:
            process.kill()  # and with it, by --kill-child, everything in the machine
            process.wait()
            _remove(cgroup)


def _first_process(process: subprocess.Popen[bytes], log: Path) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        for child in children.read_text().split():
            if Path(f"/proc/{child}/exe").resolve().name == "systemd":
                return int(child)
        time.sleep(0.02)
    raise AssertionError(f"the machine did not boot:\n{log.read_text()}")


def _wait_for_systemd(machine: Machine, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        state = machine.run("systemctl is-system-running || true").stdout.strip()
        if state in ("running", "degraded"):
            return
        time.sleep(0.05)
    raise AssertionError(f"systemd is not up:\n{log.read_text()}")


def _install_stand_ins(machine: Machine, packages: Path) -> None:
    """What would need the network: Debian's packages must be there already, Python's are linked."""
    machine.write("/usr/local/bin/apt-get", _APT_GET, executable=True)
    names = [entry.name for entry in dependencies() if entry.parent == packages]
    machine.write("/opt/dependencies", "\n".join(names))
    machine.write("/usr/local/bin/python3", _PYTHON, executable=True)
    machine.write("/etc/ld.so.conf.d/000-python.conf", "/opt/python/lib\n")  # where libpython lies here
    machine.output("ldconfig")


def _remove(cgroup: Path) -> None:
    """Removes the machine's groups, once the kernel has taken the last process out of them."""
    until = time.monotonic() + 60
    while cgroup.exists() and time.monotonic() < until:
        for path in sorted(cgroup.rglob("*"), key=lambda path: len(path.parts), reverse=True):
            if path.is_dir():
                _try_to_remove(path)
        _try_to_remove(cgroup)
        time.sleep(0.02)


def _try_to_remove(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:
        return  # still busy


_APT_GET = """#!/bin/bash
# Stands in for apt-get: there is no network. Each package must be installed; PostgreSQL's makes its cluster.
set -e
for word; do
    case $word in
        -*|install|update) ;;
        *) dpkg --status "$word" >/dev/null ;;
    esac
    case $word in
        postgresql)
            version=$(ls /usr/lib/postgresql | sort -n | tail -1)
            pg_lsclusters --no-header | grep -q . || pg_createcluster "$version" main >/dev/null
            systemctl start "postgresql@$version-main"
            ln -sf "/lib/systemd/system/postgresql@.service" \\
                "/etc/systemd/system/multi-user.target.wants/postgresql@$version-main.service" ;;
    esac
done
"""
_PYTHON = """#!/bin/bash
# The Python that runs the tests; an environment that it makes has what DPXPlain depends on.
set -e
/opt/python/bin/python3 "$@"
if [ "$1 $2" = "-m venv" ]; then
    for place in "$3"/lib/python*/site-packages; do
        while read -r name || [ -n "$name" ]; do
            [ -e "$place/$name" ] || ln -s "/opt/packages/$name" "$place/$name"
        done </opt/dependencies
    done
    printf '#!/bin/sh\\nexec "%s/bin/python3" -m pip "$@"\\n' "$3" >"$3/bin/pip"
    chmod 755 "$3/bin/pip"
fi
"""
