"""A hash of an analyst's influence function: its code and every value the code computes with.

It is part of a request's identity, so that a changed function is never answered with the release of the old
one. A function that uses a value which cannot be serialised is refused.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import json
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from dpxplain.errors import ExplanationError

_METHODS = ("refusal", "influence", "bounds")
_INTERNAL = ("_abc_impl", "_is_protocol", "_is_runtime_protocol")  # what typing adds to a class
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def code_identity(influence: object) -> str:
    """A hash, equal for influences with the same code, closures, defaults, globals and attributes."""
    serialiser = _Serialiser()
    methods = [serialiser.json(getattr(type(influence), name, None)) for name in _METHODS]
    content = [methods, serialiser.json(_state(influence))]
    if helpers := _class_attributes(type(influence)):
        content.append(serialiser.json(helpers))
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _class_attributes(kind: type) -> dict[str, Any]:
    """Constants and helper methods of the analyst's own classes, base classes included."""
    return {
        f"{base.__qualname__}.{name}": value
        for base in kind.__mro__
        if not _is_installed(base.__module__, getattr(sys.modules.get(base.__module__), "__file__", None))
        for name, value in vars(base).items()
        if name not in _INTERNAL
        and not (name.startswith("__") and name.endswith("__") and name != "__call__")
        if not isinstance(value, MemberDescriptorType)
    }


def _is_installed(module: str, file: str | None) -> bool:
    """Whether code belongs to Python, an installed package or this library; its name then identifies it."""
    return module == "builtins" or module.startswith("dpxplain.") or (file or "").startswith(_INSTALLED)


def _state(value: Any) -> dict[str, Any]:
    names = [part.name for part in fields(value)] if is_dataclass(value) else []
    return {name: getattr(value, name) for name in names} | dict(getattr(value, "__dict__", {}))


class _Serialiser:
    """Turns values into JSON; a function that refers to itself is written once and then by its number."""

    def __init__(self) -> None:
        self._functions: list[Any] = []

    def json(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, str, bytes, Fraction, Decimal, range):
            return [kind.__name__, repr(value)]
        if kind in (tuple, list):
            return [kind.__name__, self._all(value)]
        if kind in (set, frozenset):
            return [kind.__name__, sorted(self._all(value), key=json.dumps)]
        if kind is dict:
            return ["dict", self._all(value.items())]
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            return ["array", value.dtype.str, list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
        if isinstance(value, CodeType):
            return [
                "code",
                value.co_code.hex(),
                value.co_exceptiontable.hex(),
                self._all(value.co_consts),
            ] + [list(names) for names in (value.co_names, value.co_varnames, value.co_freevars)]
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return ["method", self.json(value.__func__), self.json(value.__self__)]
        if isinstance(value, staticmethod | classmethod):
            return [kind.__name__, self.json(value.__func__)]
        if isinstance(value, property | functools.cached_property):
            return ["property", self.json(value.fget if isinstance(value, property) else value.func)]
        if isinstance(value, functools.partial):
            return ["partial", self.json(value.func), self.json(value.args), self.json(value.keywords)]
        if isinstance(value, ModuleType | type | BuiltinFunctionType | np.ufunc):
            return ["name", getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__)]
        if is_dataclass(value):
            return [kind.__module__, kind.__qualname__, self.json(_state(value))]
        raise ExplanationError(
            f"An influence function must not use a {kind.__name__}: DPXPlain could not detect changes to it.",
            remedy="Use only numbers, strings, lists, arrays and functions.",
        )

    def _all(self, values: Iterable[Any]) -> list[Any]:
        return [self.json(value) for value in values]

    def _function(self, function: FunctionType) -> Any:
        code, closure = function.__code__, function.__closure__ or ()
        if _is_installed(function.__module__, code.co_filename):
            return ["name", function.__module__, function.__qualname__]
        if function in self._functions:
            return ["again", self._functions.index(function)]
        self._functions.append(function)
        used_globals = {
            name: function.__globals__[name] for name in _globals(code) if name in function.__globals__
        }
        return [
            "function",
            self.json(code),
            self._all((function.__defaults__, function.__kwdefaults__)),
            self._all(_content(cell) for cell in closure),
            self.json(used_globals),
        ]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return None


def _globals(code: CodeType) -> list[str]:
    """The global names that the code reads, inner functions included."""
    read = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    inner = (name for part in code.co_consts if isinstance(part, CodeType) for name in _globals(part))
    return sorted({*read, *inner})
