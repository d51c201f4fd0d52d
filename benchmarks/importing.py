"""How long `import dpxplain` takes in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from statistics import median

from benchmarks.report import Line, at_most

_CODE = "import time; t = time.perf_counter(); import dpxplain; print(time.perf_counter() - t)"


def run() -> list[Line]:
    seconds = [
        float(subprocess.run([sys.executable, "-c", _CODE], capture_output=True, check=True).stdout)
        for _ in range(5)
    ]
    return [at_most("import dpxplain, against half a second", median(seconds), 0.5, 1.0)]
