"""Repeats the tests to find failures that depend on chance: `make test-stress MINUTES=55`.

The whole suite (without `slow`) runs four times. The tests that draw unseeded noise or start a process run
fifty times. Then, as often as the time allows, those of them that are `slow` run, and the other slow tests.
Half of the runs are on a machine kept busy by four processes. The order of the tests is random. Each failure
is printed with its message when it happens, and again at the end with the seed of its order and the command
that repeats it. Exits with 1 if any test failed, with 2 if the time was too short for the first two parts.

pytest loads this file as a plugin too (`-p stress`), which reports the failures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BUSY_PROCESSES = 4
SUITES, ROUNDS = 4, 50
SLOWER_WHEN_BUSY = 1.8  # a first guess at how much longer a run takes, until a run was measured
WORKERS = {False: 3, True: 8}  # by whether the machine is busy with the four other processes
CHANCE = "(draws or process)"
REPETITION = r"-?\d+-\d+\]$"  # what pytest-repeat adds to a name
LITTLE_KEPT = ("-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=failed")  # folders may be in memory
PYTEST = (sys.executable, "-m", "pytest", "-q", *LITTLE_KEPT)
REPORT = "DPXPLAIN_STRESS_REPORT"  # names the file that the plugin writes


@dataclass
class Part:
    """Some of the tests, to be run `times` times in all, up to `at_once` times in each pytest process."""

    name: str
    select: str
    times: int
    at_once: int = 1
    dist: str = "loadgroup"  # how pytest-xdist divides the tests, as in the Makefile
    required: bool = True
    done: int = 0
    runs: int = 0
    seconds: dict[bool, float] = field(default_factory=dict)  # per repetition in the latest run, by busy

    @property
    def busy(self) -> bool:
        """Whether the next run is on a busy machine: every second one."""
        return self.runs % 2 == 1

    def next_count(self, seconds_left: float) -> int:
        """How many repetitions the next run has; 0 when the time is too short for any."""
        quiet = self.seconds.get(False, 0.0)
        each = self.seconds.get(self.busy, quiet * SLOWER_WHEN_BUSY)
        unmeasured = self.at_once if seconds_left > 0 else 0
        affordable = unmeasured if each == 0 else int(0.9 * seconds_left / each)  # a run cut short is lost
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
    Part("the suite", "not slow", SUITES, dist="loadfile"),
    Part("noise or processes", f"{CHANCE} and not slow", ROUNDS - SUITES, at_once=23),
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
    """The test files of a part; the page's apart, because Playwright keeps an event loop in its process."""
    command = [*PYTEST, "tests", "--collect-only", "-q", "-m", part.select]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    files = sorted({line.partition(":")[0] for line in lines if line.startswith("tests/")})
    page = [file for file in files if file.startswith("tests/page/")]
    return [group for group in ([file for file in files if file not in page], page) if group]


def pytest_runtest_logreport(report: Any) -> None:
    """Prints a failure and notes it in the report; called in the process that the workers report to."""
    if report.failed and hasattr(report, "node"):
        failure = {"test": report.nodeid, "message": report.longreprtext}
        with open(os.environ[REPORT], "a", encoding="utf-8") as notes:
            notes.write(json.dumps(failure) + "\n")
        print(f"\nFAILED {report.nodeid}\n{report.longreprtext}", file=sys.stderr, flush=True)


def run_pytest(
    part: Part, count: int, seed: int, deadline: float, groups: list[list[str]]
) -> tuple[list[Failure], bool]:
    """Runs a part once, its groups of files in parallel: what failed, and whether it ended in time."""
    failed, ended = [], True
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for number, files in enumerate(groups):
            workers = min(WORKERS[part.busy], 2 * len(files))
            options = [
                *("-m", part.select, f"--count={count}", "-n", str(workers), "--dist", part.dist),
                *("--random-order-bucket=module", f"--random-order-seed={seed}"),
            ]
            report = Path(folder) / str(number)
            search_path = os.pathsep.join(filter(None, (str(ROOT / "tools"), os.environ.get("PYTHONPATH"))))
            process = subprocess.Popen(
                [*PYTEST, "-p", "stress", *files, *options],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": search_path, REPORT: str(report)},
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            started.append((process, files, options, report))
        for process, files, options, report in started:
            code = wait(process, deadline)
            newly_failed = failures(report, part.busy, seed, options)
            if code not in (0, 1, None) or (code == 1 and not newly_failed):
                again = shlex.join(["pytest", *files, *options])
                newly_failed.append(Failure(f"pytest ended with {code}", "", part.busy, seed, again))
            failed += newly_failed
            ended = ended and code is not None
    return failed, ended


def wait(process: subprocess.Popen[bytes], deadline: float) -> int | None:
    """The exit code of a pytest process, or None if it was stopped at the deadline."""
    try:
        return process.wait(max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        stop(process)
        return None


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a pytest process and its workers, by force if they do not end in time."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the session that run_pytest started
        process.wait()


def failures(report: Path, busy: bool, seed: int, options: list[str]) -> list[Failure]:
    """The failures that the plugin noted; test names are without the number of the repetition."""
    failed = []
    for line in report.read_text(encoding="utf-8").splitlines() if report.exists() else []:
        noted = json.loads(line)
        test = re.sub(r"\[\]$", "", re.sub(REPETITION, "]", noted["test"].removesuffix("@spark")))
        file, _, name = test.partition("::")
        command = shlex.join(["pytest", file, "-k", name.rpartition("::")[2].partition("[")[0], *options])
        failed.append(Failure(test, noted["message"], busy, seed, command))
    return failed


def run_part(part: Part, first_seed: int, deadline: float) -> list[Failure]:
    """Repeats a part as often as it asks for and the time allows."""
    failed: list[Failure] = []
    groups = places(part)
    while part.done < part.times and (count := part.next_count(deadline - time.monotonic())):
        began, busy, seed = time.monotonic(), part.busy, first_seed + part.runs
        with busy_machine(busy):
            newly_failed, whole = run_pytest(part, count, seed, deadline, groups)
        failed += newly_failed
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
