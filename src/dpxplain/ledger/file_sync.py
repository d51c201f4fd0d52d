"""Makes written files and new names survive a power failure."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def sync_file(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Makes new names in the folder durable, if the system can."""
    with suppress(OSError):
        sync_file(folder)
