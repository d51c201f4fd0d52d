"""Measures how long `import dpxplain` takes in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import Figure, Timing, constant

_CODE = (
    "import time; t, c = time.perf_counter(), time.process_time(); import dpxplain; "
    "print(time.perf_counter() - t, time.process_time() - c)"
)
_SECONDS = 0.5


def run(rounds: int) -> list[Figure]:
    timing = Timing()
    for _ in range(rounds):
        printed = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, check=True, text=True)
        wall, cpu = map(float, printed.stdout.split())
        timing.wall.append(wall)
        timing.cpu.append(cpu)
    return [
        Figure("`import dpxplain`", "a fresh interpreter", timing, constant(_SECONDS), "a promised time", 1.0)
    ]
