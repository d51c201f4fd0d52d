"""Repeats the tests until chance would show: `make test-stress MINUTES=55`.

The whole suite (without `slow`) runs four times, and the tests that draw unseeded noise or start a process
fifty times; then, as often as the time allows, those of them that are `slow`, and the other slow tests. Half
of each is on a machine kept busy by four processes. The order of the tests is random. Each failure is printed
with its message, the seed of its order and the command that runs it again. Exits with 1 if any test failed,
with 2 if the time was too short for the first two parts.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
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
SLOWER_WHEN_BUSY = 1.8  # a first guess at how much longer a run takes, until one was measured
WORKERS = {False: 2, True: 6}  # by whether the machine is busy; they share it with the four
CHANCE = "(draws or process)"
REPETITION = r"-?\d+-\d+\]$"  # what pytest-repeat adds to a name
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@dataclass
class Part:
    """Some of the tests, to be run `times` times in all, up to `at_once` times in each pytest process."""

    name: str
    select: str
    times: int
    at_once: int = 1
    required: bool = True
    done: int = 0
    runs: int = 0
    seconds: dict[bool, float] = field(default_factory=dict)  # per repetition, of the latest run, by busy

    @property
    def busy(self) -> bool:
        """Whether the next run is on a busy machine: every second one."""
        return self.runs % 2 == 1

    def next_count(self, seconds_left: float) -> int:
        """How many repetitions the next run has; 0 when the time is too short for any."""
        quiet = self.seconds.get(False, 0.0)
        each = self.seconds.get(self.busy, quiet * SLOWER_WHEN_BUSY)
        affordable = self.at_once if each == 0 else int(seconds_left / each)
        return max(0, min(self.at_once, self.times - self.done, affordable))


@dataclass(frozen=True)
class Failure:
    """A test that failed in a run, with how to run it again."""

    test: str
    message: str
    busy: bool
    seed: int
    command: str


# Every run of the suite is also one of the rounds.
PARTS = [
    Part("the suite", "not slow", SUITES),
    Part("noise or processes", f"{CHANCE} and not slow", ROUNDS - SUITES, at_once=12),
    Part("noise or processes, slow", f"{CHANCE} and slow", ROUNDS, required=False),
    Part("other slow tests", f"slow and not {CHANCE}", 2, required=False),
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


def run_pytest(
    part: Part, count: int, seed: int, deadline: float, files: list[str]
) -> tuple[list[Failure], bool]:
    """One run of a part in some files: what failed, and whether it ended before the deadline."""
    options = [
        *("-m", part.select, f"--count={count}", "-n", str(WORKERS[part.busy])),
        *("--random-order-bucket=module", f"--random-order-seed={seed}"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        # xunit1 has the file of each test.
        command = [*PYTEST, *files, f"--junitxml={report}", "-o", "junit_family=xunit1", *options]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            code: int | None = process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = None
            stop(process)
        failed = failures(report, part.busy, seed, options)
        if code not in (0, 1, None) or (code == 1 and not failed):
            again = shlex.join(["pytest", *files, *options])
            failed.append(Failure(f"pytest ended with {code}", "", part.busy, seed, again))
        return failed, code is not None


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a pytest process and its workers, in an orderly way if they let it."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the session that run_pytest started
        process.wait()


def failures(report: Path, busy: bool, seed: int, options: list[str]) -> list[Failure]:
    """What a JUnit report says has failed; names are without the number of the repetition."""
    if not report.exists():
        return []
    failed = []
    for case in ET.parse(report).iter("testcase"):
        outcome = next((part for part in case if part.tag in ("failure", "error")), None)
        if outcome is not None:
            place = str(case.get("classname"))
            name = re.sub(r"\[\]$", "", re.sub(REPETITION, "]", str(case.get("name"))))
            command = shlex.join(["pytest", str(case.get("file")), "-k", name.partition("[")[0], *options])
            message = (outcome.text or str(outcome.get("message"))).strip()
            failed.append(Failure(f"{place}::{name}", message, busy, seed, command))
    return failed


def run_part(part: Part, first_seed: int, deadline: float) -> list[Failure]:
    """Repeats a part as often as it asks for and the time allows."""
    failed: list[Failure] = []
    groups = places(part)
    while part.done < part.times and (count := part.next_count(deadline - time.monotonic())):
        began, busy, seed, whole = time.monotonic(), part.busy, first_seed + part.runs, True
        with busy_machine(busy):
            for files in groups:
                newly_failed, ended = run_pytest(part, count, seed, deadline, files)
                failed += newly_failed
                whole = whole and ended
        seconds = time.monotonic() - began
        part.seconds[busy] = seconds / count
        part.runs += 1
        part.done += count if whole else 0
        state = f"{seconds:.0f} s, seed {seed}, {'busy' if busy else 'quiet'}, {len(failed)} failed so far"
        print(f"{part.name}: {part.done} of {part.times} times ({state})", flush=True)
        if not whole:
            break
    return failed


def stress(minutes: float, first_seed: int) -> int:
    started = time.monotonic()
    deadline = started + 60 * minutes
    failed = []
    for part in PARTS:
        failed += run_part(part, first_seed, deadline)
    print(f"\n{(time.monotonic() - started) / 60:.0f} minutes, seeds from {first_seed}")
    short = [part for part in PARTS if part.done < part.times]
    for part in short:
        print(f"Cut for want of time: {part.name}: {part.done} of {part.times} times")
    first_of = {(failure.test, failure.seed, failure.busy): failure for failure in reversed(failed)}
    times = Counter((failure.test, failure.seed, failure.busy) for failure in failed)
    for key, failure in sorted(first_of.items()):
        machine = "busy" if failure.busy else "quiet"
        print(f"\nFAILED {times[key]}x on a {machine} machine, seed {failure.seed}: {failure.test}")
        print(f"{failure.message}\nAgain: {failure.command}")
    print("Nothing failed." if not failed else f"\n{len(failed)} failed.")
    return 1 if failed else 2 if any(part.required for part in short) else 0


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=55.0, help="stop after so long")
    options.add_argument("--seed", type=int, default=int(time.time()) % 100_000, help="of the first run")
    chosen = options.parse_args()
    sys.exit(stress(chosen.minutes, chosen.seed))
