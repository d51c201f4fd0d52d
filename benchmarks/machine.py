"""Describes the machine on which figures were measured, in one line."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path


def description(*packages: str) -> str:
    """The machine's processor, cores, memory, versions and load averages, and the date."""
    versions = "".join(f", {name} {version(name)}" for name in packages)
    busy = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, "
        f"Python {platform.python_version()}{versions}; load averages at the end {busy}; "
        f"{datetime.now(UTC):%Y-%m-%d}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    except (OSError, StopIteration):
        return platform.machine()
