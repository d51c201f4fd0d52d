"""Repeats the tests until chance would show: `make test-stress MINUTES=55`.

In this order, as far as the time allows: the whole suite (without `slow`) four times; the tests that draw
unseeded noise or start a process fifty times; those of them that are `slow` as often as there is time for, up
to fifty; the other slow tests twice. Every second run has a machine kept busy by four processes. The order of
the tests is random; the table at the end has the seed of each run that failed. Exits with 1 if any has.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUSY_PROCESSES = 4
SUITES, ROUNDS = 4, 50
SLOWER_WHEN_BUSY = 2.5  # a first guess at how much longer a run takes, until one was measured
CHANCE = "(draws or process)"
REPETITION = r"-?\d+-\d+\]$"  # what pytest-repeat adds to a name
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@dataclass
class Part:
    """Some of the tests, to be run `times` times in all, `at_once` times in each pytest process."""

    name: str
    select: str
    times: int
    at_once: int = 1
    done: int = 0
    runs: int = 0
    seconds: dict[bool, float] = field(default_factory=dict)  # of the latest run, by whether it was busy

    @property
    def busy(self) -> bool:
        """Whether the next run is on a busy machine: every second one."""
        return self.runs % 2 == 1

    @property
    def expected_seconds(self) -> float:
        """How long the next run should take; 0 when nothing is known yet."""
        quiet = self.seconds.get(False, 0.0)
        return self.seconds.get(self.busy, quiet * SLOWER_WHEN_BUSY)


PARTS = [
    Part("the suite", "not slow", SUITES),
    Part("noise or processes", f"{CHANCE} and not slow", ROUNDS, at_once=5),
    Part("noise or processes, slow", f"{CHANCE} and slow", ROUNDS),
    Part("other slow tests", f"slow and not {CHANCE}", 2),
]


@contextmanager
def busy_machine(busy: bool) -> Iterator[None]:
    """Processes that compute for as long as the block lasts."""
    idle_work = [sys.executable, "-c", "while True: pass"]
    workers = [subprocess.Popen(idle_work) for _ in range(BUSY_PROCESSES if busy else 0)]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def places(part: Part) -> list[list[str]]:
    """The test files of a part; those of the page apart, as Playwright keeps an event loop in its process."""
    command = [*PYTEST, "tests", "--collect-only", "-q", "-m", part.select]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    files = sorted({line.partition(":")[0] for line in lines if line.startswith("tests/")})
    page = [file for file in files if file.startswith("tests/page/")]
    return [group for group in ([file for file in files if file not in page], page) if group]


def run_pytest(part: Part, seed: int, deadline: float, files: list[str]) -> tuple[list[str], bool]:
    """One run of a part in some files: what failed, and whether it ended before the deadline."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            *(*PYTEST, *files, f"--junitxml={report}", "-m", part.select),
            *(f"--count={part.at_once}", "-n", "5" if part.busy else "2"),
            *("--random-order-bucket=module", f"--random-order-seed={seed}"),
        ]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            code = process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # the session that was started above
                process.wait()
            return failures(report), False
        found = failures(report)
        if code not in (0, 1) or (code == 1 and not found):
            found.append(f"pytest ended with {code}")
        return found, True


def failures(report: Path) -> list[str]:
    """The names of the tests that a JUnit report says have failed, without the number of the repetition."""
    if not report.exists():
        return []
    cases = ET.parse(report).iter("testcase")
    return [
        f"{case.get('classname')}::{re.sub(REPETITION, ']', str(case.get('name')))}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]


def stress(minutes: float, first_seed: int) -> int:
    started = time.monotonic()
    deadline = started + 60 * minutes
    failed: Counter[tuple[str, str, int]] = Counter()
    cut: list[str] = []
    seed = first_seed
    for part in PARTS:
        groups = places(part)
        while part.done < part.times:
            if time.monotonic() + part.expected_seconds > deadline:
                cut.append(f"{part.name}: {part.done} of {part.times} times")
                break
            began, busy = time.monotonic(), part.busy
            whole = True
            with busy_machine(busy):
                for files in groups:
                    names, ended = run_pytest(part, seed, deadline, files)
                    failed.update((name, "busy" if busy else "quiet", seed) for name in names)
                    whole = whole and ended
            part.seconds[busy] = time.monotonic() - began
            part.runs += 1
            part.done += part.at_once if whole else 0
            state = f"{part.seconds[busy]:.0f} s, seed {seed}, {'busy' if busy else 'quiet'}"
            print(f"{part.name}: {part.done} of {part.times} times ({state})", flush=True)
            seed += 1
    print(f"\n{(time.monotonic() - started) / 60:.0f} minutes, seeds {first_seed} to {seed - 1}")
    for line in cut:
        print(f"Cut for want of time: {line}")
    print("Nothing failed." if not failed else "\nFailed:")
    for (name, machine, at), times in sorted(failed.items()):
        print(f"{times:4d}x  {machine:5}  seed {at}  {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=55.0, help="stop after so long")
    options.add_argument("--seed", type=int, default=int(time.time()) % 100_000, help="of the first run")
    chosen = options.parse_args()
    sys.exit(stress(chosen.minutes, chosen.seed))
