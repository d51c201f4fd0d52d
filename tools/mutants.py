"""Changes one expression or statement at a time and looks whether a test notices, within a time limit.

    make mutants                                          20 minutes over privacy, phases and ledger
    make mutants MUTANTS="--minutes 5 --room privacy"     one room only
    make mutants MUTANTS_SEED=7                           other mutants

Works in copies of the checkout, in a temporary folder. A mutant first meets the test files most likely to
notice it. If it survives, it meets the other tests of its room. Tests that are slow or need a process, a
database or Spark are left out. A survivor is a missing test or a change without effect. Exits with 1 if the
tests fail without a change, or with --strict if a mutant survived.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import math
import os
import py_compile
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

# Each room with the folders of its tests.
ROOMS = {
    "privacy": ["tests/privacy"],
    "phases": ["tests/explanation", "tests/results", "tests/derived", "tests/sessions"],
    "ledger": ["tests/ledger"],
}
GOLDEN = "tests/golden"  # compares stored formats and keys, which most changes of a request alter
FIRST_FILES = 5  # how many test files a mutant meets before its room's
WORKERS = 2
MARKS = "not slow and not database and not spark and not process"
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "static", "build")
NOTHING_SELECTED = 5  # an exit code of pytest


@dataclass(frozen=True)
class Mutant:
    """One change of a source file: the bytes from `start` to `end` become `text`."""

    path: Path  # within the checkout
    operator: str
    line: int
    start: int
    end: int
    text: str
    change: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.change}"


# The operators. Each yields changed copies of a node or of its parts.

Replacement = tuple[Any, Any]  # a node and the node that replaces it
_COMPARISONS = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.In: ast.NotIn, ast.Is: ast.IsNot}
_ARITHMETIC = {ast.Add: ast.Sub, ast.Mult: ast.Div}
_LOGIC = {ast.And: ast.Or}
_SYMMETRIC = {"min", "max", "minimum", "maximum", "isclose", "gcd"}  # functions of arguments in any order


def _other(pairs: dict[Any, Any], operator: ast.AST) -> ast.AST | None:
    both = pairs | {second: first for first, second in pairs.items()}
    return both[type(operator)]() if type(operator) in both else None


def _changed(node: ast.AST, **fields: Any) -> ast.AST:
    copy = deepcopy(node)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def _without(items: list[Any], index: int) -> list[Any]:
    return items[:index] + items[index + 1 :]


def _function_name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def flip_comparison(node: ast.AST) -> Iterator[Replacement]:
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            if flipped := _other(_COMPARISONS, operator):
                yield node, _changed(node, ops=[*node.ops[:i], flipped, *node.ops[i + 1 :]])


def swap_arithmetic(node: ast.AST) -> Iterator[Replacement]:
    if isinstance(node, ast.BinOp) and (swapped := _other(_ARITHMETIC, node.op)):
        yield node, _changed(node, op=swapped)


def swap_and_or(node: ast.AST) -> Iterator[Replacement]:
    if isinstance(node, ast.BoolOp) and (swapped := _other(_LOGIC, node.op)):
        yield node, _changed(node, op=swapped)


def negate_condition(node: ast.AST) -> Iterator[Replacement]:
    """Except `==`, `in` and `is` by themselves, which flip_comparison negates."""
    conditions = [node.test] if isinstance(node, ast.If | ast.IfExp) else getattr(node, "ifs", [])
    for test in conditions:
        match test:
            case ast.UnaryOp(op=ast.Not()):
                yield test, test.operand
            case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn() | ast.Is() | ast.IsNot()]):
                pass
            case _:
                yield test, ast.UnaryOp(ast.Not(), test)


def increase_number(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            yield node, ast.Constant(number + 1)


def return_nothing(node: ast.AST) -> Iterator[Replacement]:
    if isinstance(node, ast.Return) and node.value and ast.unparse(node.value) != "None":
        yield node, ast.Return(ast.Constant(None))


def drop_keyword(node: ast.AST) -> Iterator[Replacement]:
    if isinstance(node, ast.Call):
        for i, keyword in enumerate(node.keywords):
            if keyword.arg:
                yield node, _changed(node, keywords=_without(node.keywords, i))


def swap_arguments(node: ast.AST) -> Iterator[Replacement]:
    if isinstance(node, ast.Call) and _function_name(node) not in _SYMMETRIC:
        match node.args:
            case [first, second, *rest] if not {type(first), type(second)} & {ast.Starred}:
                yield node, _changed(node, args=[second, first, *rest])


def delete_statement(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.Expr(value=ast.Call()):
            yield node, ast.Pass()
        case ast.Assign(targets=[ast.Attribute()]) | ast.AugAssign(target=ast.Attribute()):
            yield node, ast.Pass()
        case ast.AnnAssign(target=ast.Attribute(), value=ast.expr()):
            yield node, ast.Pass()


def drop_part_of_key(node: ast.AST) -> Iterator[Replacement]:
    """Leaves a part out of a key that tells requests apart: an argument, or an element of a tuple in one."""
    if isinstance(node, ast.Call) and _function_name(node).endswith("key"):
        for i in range(len(node.args) if len(node.args) > 1 else 0):
            yield node, _changed(node, args=_without(node.args, i))
        for part in chain.from_iterable(map(ast.walk, node.args)):
            if isinstance(part, ast.Tuple):
                for i in range(len(part.elts)):
                    yield part, _changed(part, elts=_without(part.elts, i))


OPERATORS: list[Callable[[ast.AST], Iterator[Replacement]]] = [
    *(flip_comparison, swap_arithmetic, swap_and_or, negate_condition, increase_number),
    *(return_nothing, drop_keyword, swap_arguments, delete_statement, drop_part_of_key),
]


def mutable_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A tree's nodes, without messages, annotations and code that only a type checker or a debugger runs."""
    if isinstance(node, ast.Raise | ast.JoinedStr) or getattr(node, "name", "") == "__repr__":
        return
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    yield node
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from mutable_nodes(child)


def mutants_of(path: Path, source: bytes) -> list[Mutant]:
    """Every change that the operators make to a module; `path` is where it lies in the checkout."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    mutants = []
    for node in mutable_nodes(ast.parse(source)):
        for operator in OPERATORS:
            for old, new in operator(node):
                before, after = ast.unparse(old), ast.unparse(new)
                if before != after:
                    start = starts[old.lineno - 1] + old.col_offset
                    end = starts[old.end_lineno - 1] + old.end_col_offset
                    change = _excerpt(before, after)
                    mutants.append(Mutant(path, operator.__name__, old.lineno, start, end, after, change))
    return mutants


def _excerpt(before: str, after: str, context: int = 30) -> str:
    """The change as `before -> after`, each cut to the surroundings of the first difference."""
    pairs = zip_longest(before, after)
    differs_at = next(i for i, (old, new) in enumerate(pairs) if old != new)
    left = differs_at - context if differs_at > 2 * context else 0
    cuts = []
    for text in (before, after):
        right = differs_at + 2 * context
        cuts.append("…" * (left > 0) + " ".join(text[left:right].split()) + "…" * (right < len(text)))
    return " -> ".join(cuts)


def choose(mutants: list[Mutant], seed: int) -> list[Mutant]:
    """All mutants in the order to try them: modules take turns, and so do a module's operators."""
    modules: dict[Path, dict[str, list[Mutant]]] = defaultdict(lambda: defaultdict(list))
    for mutant in mutants:
        modules[mutant.path][mutant.operator].append(mutant)
    chance = random.Random(seed)

    def shuffled(items: Iterable[Any]) -> list[Any]:
        return chance.sample(items := [*items], len(items))

    return _in_turn(shuffled(_in_turn(shuffled(map(shuffled, m.values()))) for m in modules.values()))


def _in_turn(groups: list[list[Mutant]]) -> list[Mutant]:
    """The first of each group, then the second of each, and so on."""
    return [mutant for turn in zip_longest(*groups) for mutant in turn if mutant]


# Which tests to run.


class LikelyTests:
    """Finds the test files most likely to notice a change: those that import a module or are named like it.

    Files in the room's folders come first, then files that import few modules. A module that no test imports
    is tested through the modules that import it.
    """

    def __init__(self, root: Path) -> None:
        files = test_files(root, [folder for folders in ROOMS.values() for folder in folders])
        self._tests = {file: _imports(root / file) for file in files}
        self._sources = {_module(file.relative_to(root)): _imports(file) for file in root.glob("src/**/*.py")}

    def of(self, path: Path, folders: list[str]) -> list[str]:
        modules: set[str] = set()
        users = {_module(path)}
        while users - modules and not any(modules & imports for imports in self._tests.values()):
            modules |= users
            users = {name for name, imports in self._sources.items() if modules & imports}
        ranked = []
        for test, imports in self._tests.items():
            shared_words = {*path.stem.split("_")} & {*Path(test).stem.split("_")}
            if modules & imports or shared_words:
                ranked.append((str(Path(test).parent) not in folders, -len(shared_words), len(imports), test))
        return [test for *_, test in sorted(ranked)[:FIRST_FILES]]


def _module(path: Path) -> str:
    return ".".join(path.relative_to("src").with_suffix("").parts).removesuffix(".__init__")


def _imports(file: Path) -> set[str]:
    """What a file imports from the package, modules and their members alike."""
    names = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return {name for name in names if name.startswith("dpxplain.")}


def test_files(root: Path, folders: list[str]) -> list[str]:
    """The test files below some folders of the checkout."""
    return sorted(
        str(file.relative_to(root)) for folder in folders for file in root.glob(f"{folder}/**/test_*.py")
    )


# Running them.


@dataclass(frozen=True)
class Run:
    outcome: str  # "passed", "failed", "timeout", or "unfinished" at the end of the whole time
    seconds: dict[str, float]  # by test file
    log: str


class Copies:
    """Copies of the checkout, one per worker, and the pytest processes in them."""

    def __init__(self, root: Path, folder: Path, end: float) -> None:
        self._end = end
        self._running: set[subprocess.Popen[bytes]] = set()
        self._free: queue.Queue[Path] = queue.Queue()
        self.root = folder / "0"  # everything is read here, as the checkout may be edited meanwhile
        shutil.copytree(root, self.root, ignore=NOT_COPIED)
        # Python tells a changed module by its time and size, unless told to compare contents.
        by_contents = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(self.root / "src", quiet=2, invalidation_mode=by_contents)
        for number in range(1, WORKERS):
            shutil.copytree(self.root, folder / str(number))
        for number in range(WORKERS):
            self._free.put(folder / str(number))

    def check_imports(self, paths: Iterable[Path]) -> None:
        """Raises if a test in a copy would import a module from elsewhere, such as the installed package."""
        code = "import importlib, sys\nfor m in sys.argv[1:]: print(importlib.import_module(m).__file__)"
        names = [_module(path) for path in paths]
        for copy in self._free.queue:
            command = [sys.executable, "-c", code, *names]
            printed = subprocess.check_output(command, cwd=copy, env=_environment(copy), text=True)
            if strangers := [file for file in printed.splitlines() if not Path(file).is_relative_to(copy)]:
                raise RuntimeError(f"Imported from outside the copy: {', '.join(strangers)}")

    def run(self, files: list[str], limit: float, mutant: Mutant | None = None) -> Run:
        """Runs test files in the next free copy, changed as the mutant says, for at most `limit` seconds."""
        copy = self._free.get()
        try:
            if mutant is None:
                return self._pytest(copy, files, limit)
            source = (copy / mutant.path).read_bytes()
            try:
                (copy / mutant.path).write_bytes(mutant.apply(source))
                return self._pytest(copy, files, limit)
            finally:
                (copy / mutant.path).write_bytes(source)
        finally:
            self._free.put(copy)

    def _pytest(self, copy: Path, files: list[str], limit: float) -> Run:
        left = self._end - time.monotonic()
        if left <= 0:
            return Run("unfinished", {}, "")
        report, log = copy / "report.xml", copy / "log.txt"
        options = ["-x", "-q", "-m", MARKS, "-p", "no:cacheprovider", "--basetemp", str(copy / "tmp")]
        options += ["-o", "junit_family=xunit1", "--junitxml", str(report)]
        command = [sys.executable, "-m", "pytest", *options, *files]
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=copy, env=_environment(copy), stdout=out, stderr=out, start_new_session=True
            )
        self._running.add(process)
        try:
            code = process.wait(min(limit, left))
        except subprocess.TimeoutExpired:
            return Run("timeout" if limit < left else "unfinished", {}, log.read_text())
        finally:
            _kill(process)
            self._running.discard(process)
        passed = code in (0, NOTHING_SELECTED)
        return Run("passed" if passed else "failed", _seconds(report) if passed else {}, log.read_text())

    def close(self) -> None:
        """Ends the processes under way; no other is started."""
        self._end = 0.0
        for process in [*self._running]:
            _kill(process)


def _environment(copy: Path) -> dict[str, str]:
    own = {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    return {name: value for name, value in os.environ.items() if name != "DPXPLAIN_GOLDEN"} | own


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a pytest process with its group, unless it has ended by itself."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _seconds(report: Path) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        seconds[case.attrib["file"]] += float(case.attrib["time"])
    return seconds


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="See the head of this file.")
    parser.add_argument("--minutes", type=float, default=20.0, help="for everything")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MUTANTS_SEED") or 1))
    parser.add_argument("--room", choices=ROOMS, action="append", help="one of the rooms; may be repeated")
    parser.add_argument("--count", type=int, help="how many mutants at most")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a mutant survived")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout")
    options = parser.parse_args(arguments)
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        return report(options, Copies(options.root, Path(folder).resolve(), end))


def report(options: argparse.Namespace, copies: Copies) -> int:
    """Tries mutants until the time is over and prints what became of each; returns the exit code."""
    root, likely = copies.root, LikelyTests(copies.root)
    likely_files: dict[Path, list[str]] = {}
    room_files: dict[Path, list[str]] = {}
    mutants: list[Mutant] = []
    for room in options.room or ROOMS:
        for path in sorted(file.relative_to(root) for file in root.glob(f"src/dpxplain/{room}/**/*.py")):
            likely_files[path] = [*likely.of(path, ROOMS[room]), *test_files(root, [GOLDEN])]
            others = test_files(root, ROOMS[room])
            room_files[path] = [file for file in others if file not in likely_files[path]]
            mutants += mutants_of(path, (root / path).read_bytes())
    print(f"seed {options.seed}: {len(mutants)} possible mutants in {len(likely_files)} modules", flush=True)
    copies.check_imports(likely_files)
    seconds: dict[str, float] = {}  # that each test file takes without a change

    def verdict(mutant: Mutant) -> str:
        for files in (likely_files[mutant.path], room_files[mutant.path]):
            limit = 20 + 3 * sum(seconds.get(file, 0) for file in files)
            if files and (outcome := copies.run(files, limit, mutant).outcome) != "passed":
                return "killed" if outcome == "failed" else outcome
        return "survived"

    def try_out(mutant: Mutant) -> tuple[str, Mutant]:
        outcome = verdict(mutant)
        if outcome != "unfinished":
            print(f"{outcome:8}  {mutant}", flush=True)
        return outcome, mutant

    with ThreadPoolExecutor(WORKERS) as pool, closing(copies):
        needed = sorted({file for files in (*likely_files.values(), *room_files.values()) for file in files})
        shares = [share for share in (needed[start::WORKERS] for start in range(WORKERS)) if share]
        for run in pool.map(lambda share: copies.run(share, math.inf), shares):
            seconds |= run.seconds
            if run.outcome != "passed":
                print(f"The tests without a change: {run.outcome}\n{run.log}")
                return 1
        print(f"{len(needed)} test files pass without a change", flush=True)
        tried = [*pool.map(try_out, choose(mutants, options.seed)[: options.count])]
    counts = Counter(outcome for outcome, _ in tried if outcome != "unfinished")
    survivors = sorted(str(mutant) for outcome, mutant in tried if outcome == "survived")
    print(f"survived: {len(survivors)} of {counts.total()}", *survivors, sep="\n  ")
    return 1 if options.strict and survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
