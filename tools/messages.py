"""Prints every message that a person can see, grouped by where it appears, to be read aloud.

Messages are read from the source, not by running it: an f-string shows its parts in braces, and a choice
between texts as (one | other). The help of commands comes from the commands themselves. Run it with
`make messages`.
"""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "dpxplain"

ERRORS = "errors"
COMMAND_LINE = "command line"
RESULTS = "words and results"
SERVER = "server problems and page sentences"
AUDIT = "audit log"
OTHER = "sentences in other rooms"
GROUPS = (ERRORS, COMMAND_LINE, RESULTS, SERVER, AUDIT, OTHER)

_ROOMS = {"cli": COMMAND_LINE, "words": RESULTS, "render": RESULTS, "results": RESULTS, "server": SERVER}
_WORDS = re.compile(r"[^\W\d_]{2,}[,;:.]? +[^\W\d_]")  # two words in a row
_SENTENCE = re.compile(r"[A-Z“{(].*[.?!]$", re.DOTALL)
_MARKUP = re.compile(r"<[a-z/!]|[{};]\s*\n|^[\w-]+:.*;|^(SELECT|CREATE|INSERT|UPDATE|DELETE|ALTER|WITH)\b")
_NEVER_SHOWN = ("metavar", "pattern", "rich_markup_mode")
_LISTED_CALLS = ("Option", "Argument", "Problem")  # listed elsewhere, with the commands or as a problem


@dataclass(frozen=True)
class Message:
    """A message with its remedy, if it has one, and the place that shows it."""

    place: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        lines = [self.place, f"    {self.text}", *([f"    -> {self.remedy}"] if self.remedy else [])]
        return "\n".join(lines)


def messages() -> dict[str, list[Message]]:
    """Every message by group, in the order of GROUPS, each text once."""
    found: dict[str, list[Message]] = {group: [] for group in GROUPS}
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    makers = _error_makers(list(trees.values()))
    found[COMMAND_LINE] += _help_texts()
    for path, tree in trees.items():
        reader = _Reader(path, tree, makers)
        found[ERRORS] += reader.errors()
        found[SERVER] += reader.problems()
        found[_group(path)] += reader.texts(_group(path))
    return {group: _each_once(listed) for group, listed in found.items()}


def report(found: dict[str, list[Message]]) -> str:
    """The messages as plain text, one block each under its group."""
    parts = []
    for group, listed in found.items():
        title = f"{group} ({len(listed)})"
        parts.append("\n\n".join([f"{title}\n{'=' * len(title)}", *map(str, listed)]))
    return "\n\n\n".join(parts) + "\n"


def _group(path: Path) -> str:
    if path.name == "audit_sentences.py":
        return AUDIT
    return _ROOMS.get(path.relative_to(PACKAGE).parts[0], OTHER)


def _each_once(listed: list[Message]) -> list[Message]:
    return list({(message.text, message.remedy): message for message in reversed(listed)}.values())[::-1]


def _help_texts() -> Iterator[Message]:
    """The help of every command and option."""
    commands = runpy.run_path(str(ROOT / "tools" / "cli-reference"))["commands"]
    for name, command in commands():
        yield Message(name, command.help.split("\n\n")[0].replace("\n", " "))
        for option in command.params:
            if option.name != "help" and option.help:
                yield Message(f"{name} {option.opts[0]}", option.help)


def _error_makers(trees: list[ast.Module]) -> frozenset[str]:
    """The names of all error classes, and of all functions declared to return an error."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    classes = {"DPXPlainError"}
    while True:
        derived = {
            node.name
            for node in nodes
            if isinstance(node, ast.ClassDef) and any(_last_name(base) in classes for base in node.bases)
        }
        if derived <= classes:
            break
        classes |= derived
    functions = {
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef) and node.returns and _last_name(node.returns) in classes
    }
    return frozenset((classes | functions) - {"of", "from_dict"})


def _last_name(node: ast.expr) -> str:
    """The last name of a dotted expression, or an empty string."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


class _Reader:
    """Reads the messages of one file."""

    def __init__(self, path: Path, tree: ast.Module, makers: frozenset[str]) -> None:
        self._place = str(path.relative_to(ROOT))
        self._tree = tree
        self._makers = makers
        self._constants = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name) and isinstance(node.value.value, str)
        }

    def errors(self) -> Iterator[Message]:
        """Every error made in this file, with its remedy."""
        for call in self._error_calls():
            named = {keyword.arg: keyword.value for keyword in call.keywords}
            others = [value for name, value in named.items() if name != "remedy"]
            texts = [self._text(arg) for arg in (*call.args, *others) if self._has_text(arg)]
            remedy = self._text(named["remedy"]) if "remedy" in named else ""
            if texts or remedy:
                yield Message(f"{self._place}:{call.lineno} {_last_name(call.func)}", " ".join(texts), remedy)

    def problems(self) -> Iterator[Message]:
        """Every HTTP error made in this file: Problem(status, code, message, remedy)."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and _last_name(node.func) == "Problem" and len(node.args) > 2:
                code, message, *remedy = map(self._text, node.args[1:4])
                yield Message(f"{self._place}:{node.lineno} {code}", message, "".join(remedy))

    def texts(self, group: str) -> Iterator[Message]:
        """Every other text of this file that reads like words."""
        for node in self._outermost_texts(self._tree):
            text = self._text(node).strip()
            wanted = _SENTENCE.match(text) if group == OTHER else True
            if wanted and _WORDS.search(text) and not _MARKUP.search(text):
                yield Message(f"{self._place}:{node.lineno}", text)

    def _error_calls(self) -> Iterator[ast.Call]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and _last_name(node.func) in self._makers:
                yield node

    def _outermost_texts(self, node: ast.AST) -> Iterator[ast.expr]:
        """Texts outside of docstrings, errors and help, each as one whole expression."""
        if isinstance(node, ast.Call) and _last_name(node.func) in (*self._makers, *_LISTED_CALLS):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node, ast.keyword) and node.arg in _NEVER_SHOWN:
            return
        if isinstance(node, ast.expr) and self._has_text(node):
            yield node
            return
        for child in ast.iter_child_nodes(node):
            yield from self._outermost_texts(child)

    def _has_text(self, node: ast.expr) -> bool:
        """Whether an expression is a text: a literal, an f-string, a sum of these or a choice."""
        match node:
            case ast.Constant(value=str(text)):
                return bool(text)
            case ast.JoinedStr():
                return True
            case ast.BinOp(op=ast.Add()):
                return self._has_text(node.left) or self._has_text(node.right)
            case ast.IfExp():
                return self._has_text(node.body) or self._has_text(node.orelse)
            case ast.Name():
                return node.id in self._constants
        return False

    def _text(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr():
                return "".join(map(self._text, node.values))
            case ast.FormattedValue():
                return (
                    self._text(node.value) if self._has_text(node.value) else f"{{{ast.unparse(node.value)}}}"
                )
            case ast.BinOp(op=ast.Add()) if self._has_text(node):
                return self._text(node.left) + self._text(node.right)
            case ast.IfExp() if self._has_text(node):
                return f"({self._text(node.body)} | {self._text(node.orelse)})"
            case ast.Name() if node.id in self._constants:
                return self._constants[node.id]
        return f"{{{ast.unparse(node)}}}"


if __name__ == "__main__":
    print(report(messages()), end="")
