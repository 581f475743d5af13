"""Whether a name means the same in a notebook's kernel and in the file made of its statements.

A cell that failed, a magic, ``exec``, an alias or a called function can change what a name means without a statement
that shows it. So values are described, and the descriptions compared: numbers, texts and containers by value, arrays
and tensors by their bytes, functions by their instructions, classes and simple objects by their attributes. Of
anything else only the type is described.
"""

from __future__ import annotations

import bisect
import dataclasses
import dis
import hashlib
import inspect
import reprlib
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from kymograph._errors import KymographError
from kymograph._registry import PACKAGES
from kymograph._sweep.code_identity import installed

_SNAPSHOT = "__kymograph_values__"
"""The attribute in which a module keeps the descriptions of its values as they were when it was imported."""
_MOST_PARTS = 100_000
"""How many parts of one value are described."""
_MOST_BYTES = 1 << 28
"""The size of the largest array that is described by its bytes."""
_DEEPEST = 50
_SCALARS = (bool, int, float, complex, str, bytes, type(None), type(...))
_LAYOUT = ("CACHE", "EXTENDED_ARG", "PUSH_NULL", "NOP")
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_NOT_CODE = {
    "__module__", "__qualname__", "__dict__", "__weakref__", "__doc__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__abstractmethods__",
    "_abc_impl",
}  # fmt: skip
"""Attributes of a class that depend on where it was defined, or on its documentation."""

Description = tuple[Any, ...]


def check_kernel_values(module: ModuleType, names: Iterable[str], study: str, kernel: Mapping[str, Any]) -> None:
    """Raises a KymographError if a name means something else in the kernel than in the study's module.

    The module's values are those of its import: running the study in this process may have changed them since.

    Args:
        module: the one built from the statements that the study depends on.
        names: those whose present values the study uses.
        study: the name of the study itself in the notebook.
        kernel: the values that names have in the kernel.
    """
    snapshot: dict[str, tuple[Description, str]] = vars(module).setdefault(_SNAPSHOT, {})
    homes = {"__main__", module.__name__}
    for name in sorted({*names, study}):
        if name not in snapshot and name not in vars(module):
            continue  # the study says so when it uses the name
        if name not in snapshot:
            snapshot[name] = _describe(vars(module)[name], homes, name == study), _shown(vars(module)[name])
        described, shown = snapshot[name]
        if name not in kernel:
            raise KymographError(
                f"{name} is defined in a cell but no longer in the kernel; define it in a cell by itself, or restart "
                "and run all cells"
            )
        if described == _describe(kernel[name], homes, name == study):
            continue
        now = _shown(kernel[name])
        if shown and now and shown != now:
            what = f"{name} is {shown} in the cells that define it and {now} in the kernel"
        else:
            what = f"{name} is not the same in the cells that define it and in the kernel"
        raise KymographError(
            f"{what}; assign or define it in a cell by itself (with its seed, if it is random), or restart and run all "
            "cells"
        )


def _shown(value: Any) -> str:
    """Returns a short text of a value that has one; empty for others."""
    shown = (*_SCALARS, list, tuple, dict, set, frozenset, SimpleNamespace, Namespace)
    return reprlib.repr(value) if type(value) in shown else ""


def _describe(value: Any, homes: set[str], is_study: bool) -> Description:
    # A study that a decorator made is the only object of its class, and gets its source hash when it is loaded.
    return _Describer(homes).describe(type(value) if is_study and not isinstance(value, type | FunctionType) else value)


class _Describer:
    """Describes one value by nested tuples of scalars, which are equal for values that do the same."""

    def __init__(self, homes: set[str]) -> None:
        self.homes = homes
        """The modules of the notebook's own functions and classes: the kernel's, and the one built from its cells."""
        self.left = _MOST_PARTS
        self.open: list[int] = []
        """The ids of the objects that are being described, one inside the other."""

    def describe(self, value: Any) -> Description:
        """Returns the description of a value; of one that is too deep or too large, only its type."""
        if type(value) in _SCALARS:
            self.left -= 1
            return type(value).__name__, repr(value)
        kind = self._name(type(value))
        if id(value) in self.open:
            return "again", len(self.open) - self.open.index(id(value))
        if self.left <= 0 or len(self.open) >= _DEEPEST:
            return (kind,)
        self.left -= 1
        self.open.append(id(value))
        try:
            return (kind, *self._parts(value))
        except Exception:  # an object's own code can fail in any way
            return (kind,)
        finally:
            self.open.pop()

    def _parts(self, value: Any) -> Description:
        match value:
            case ModuleType():
                return (value.__name__,)
            case CodeType():
                return self._code(value)
            case FunctionType():
                return self._function(value)
            case BuiltinFunctionType():
                return value.__module__, value.__qualname__
            case MethodType():
                return self.describe(value.__func__), self.describe(value.__self__)
            case partial():
                return tuple(map(self.describe, (value.func, value.args, value.keywords)))
            case staticmethod() | classmethod():
                return (self.describe(value.__func__),)
            case property():
                return tuple(map(self.describe, (value.fget, value.fset, value.fdel)))
            case type():
                return self._class(value)
        if type(value).__module__.split(".")[0] in ("numpy", "torch"):
            return self._array(value)
        return (*self._items(value), *self._attributes(value))

    def _name(self, kind: type) -> str:
        return f"{'' if kind.__module__ in self.homes else kind.__module__}.{kind.__qualname__}"

    def _code(self, code: CodeType) -> Description:
        """Returns the instructions of compiled code, and its parameters.

        Python compiles ``torch.ones()`` to other instructions where the same source also imports ``torch``, which a
        cell may not do. They differ in an empty place on the stack, and so in all addresses that follow.
        """
        kept = [one for one in dis.get_instructions(code) if one.opname not in _LAYOUT]
        offsets = [one.offset for one in kept]
        instructions: list[Description] = []
        for one in kept:
            name = "LOAD_ATTR" if one.opname == "LOAD_METHOD" else one.opname
            if one.opcode in _JUMPS:
                instructions.append((name, bisect.bisect_left(offsets, one.argval)))
            else:
                instructions.append((name, self.describe(one.argval)))
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        kinds = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR)
        return counts, kinds, code.co_varnames, tuple(instructions)

    def _function(self, function: FunctionType) -> Description:
        cells = function.__closure__ or ()
        closure = [self._cell(cell) for cell in cells]
        if function.__module__ not in self.homes:
            return function.__module__, function.__qualname__, *closure  # its file is read again when it was edited
        rest = (function.__defaults__, function.__kwdefaults__, vars(function))
        return (self._code(function.__code__), *closure, *map(self.describe, rest))

    def _cell(self, cell: Any) -> Description:
        try:
            return self.describe(cell.cell_contents)
        except ValueError:
            return ("empty",)

    def _class(self, kind: type) -> Description:
        if kind.__module__ not in self.homes:
            return (self._name(kind),)
        attributes = {name: value for name, value in vars(kind).items() if name not in _NOT_CODE}
        return self._name(kind), *map(self.describe, kind.__bases__), self._mapping(attributes)

    def _mapping(self, values: Mapping[Any, Any]) -> Description:
        pairs = [(self.describe(key), self.describe(value)) for key, value in values.items()]
        return tuple(sorted(pairs, key=repr))

    def _items(self, value: Any) -> Description:
        """Returns the descriptions of what a container holds; empty for other objects."""
        match value:
            case dict():
                return self._mapping(value)
            case list() | tuple():
                return tuple(map(self.describe, value))
            case set() | frozenset():
                return tuple(sorted(map(self.describe, value), key=repr))
            case Enum():
                return (value.name,)
            case int() | float() | complex() | str() | bytes():  # of a subclass
                return (repr(value),)
            case range() | slice():
                return (repr(value),)
            case bytearray():
                return (bytes(value),)
            case Path():
                return (str(value),)
        return ()

    def _attributes(self, value: Any) -> Description:
        """Returns the descriptions of a simple object's attributes; empty for objects of libraries."""
        kind = type(value)
        if "__wrapped__" in getattr(value, "__dict__", {}):  # e.g. of functools.cache
            return (self.describe(value.__wrapped__),)
        if dataclasses.is_dataclass(value):
            return self._mapping({one.name: getattr(value, one.name, None) for one in dataclasses.fields(value)})
        if not hasattr(value, "__dict__") or not (kind in (SimpleNamespace, Namespace) or self._is_users(kind)):
            return ()
        return self.describe(kind), self._mapping(vars(value))

    def _is_users(self, kind: type) -> bool:
        """Returns whether a class is the notebook's, or that of a user's file."""
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if kind.__module__ in self.homes:
            return True
        return file is not None and kind.__module__.split(".")[0] not in PACKAGES and not installed(Path(file))

    def _array(self, value: Any) -> Description:
        """Returns the type, shape and hashed bytes of an array or a tensor; of others, the name."""
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            if type(value).__name__ in ("dtype", "device") or isinstance(value, np.dtype | tuple):
                return (repr(value),)
            named = getattr(value, "__name__", None)  # e.g. of numpy.sin
            return (named,) if isinstance(named, str) else ()
        shape = (str(value.dtype), tuple(value.shape))
        if value.nbytes > _MOST_BYTES or shape[0] == "object":
            return shape
        try:
            if hasattr(value, "detach"):
                flat = value.detach().cpu().contiguous().reshape(-1)
                content = flat.view(sys.modules["torch"].uint8).numpy().tobytes()
            else:
                content = value.tobytes()
        except Exception:  # e.g. of a sparse tensor, or one without data
            return shape
        return (*shape, hashlib.sha256(content).hexdigest())
