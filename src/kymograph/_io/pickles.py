"""Reads pickles without unpickling: an interpreter for the few operations that arrays and tensors need.

Python's unpickler runs code, and even a restricted one can be made to use any amount of memory or time. Here no name in
a file becomes a function: the caller lists the allowed names and what each makes of its arguments, every string and
number comes from the file itself, and dictionary keys are strings or integers.
"""

from __future__ import annotations

import pickletools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

MAX_OPERATIONS = 1_000_000
_MARK = object()

Make = Callable[..., Any]
"""Makes a value from the arguments with which a file calls a name."""


class PickledName:
    """A name that a file refers to; it is only ever resolved to one of the reader's `Make` functions."""

    def __init__(self, module: str, name: str) -> None:
        self.key = (module, name)


class Buildable(ABC):
    """A value whose state a file may set, through `build`."""

    @abstractmethod
    def build(self, state: Any) -> None:
        """Sets the state; raises ValueError if it is invalid."""


def read_pickle(content: bytes, makers: Mapping[tuple[str, str], Make], persistent: Make | None = None) -> Any:
    """Returns the value that a pickle describes; raises ValueError if it needs more than ``makers`` offer.

    Args:
        content: the bytes of the pickle.
        makers: the function for each name that may be called, by module and name.
        persistent: the function that resolves persistent ids; default: none are allowed.
    """
    machine = _Machine(makers, persistent)
    try:
        for count, (operation, argument, _) in enumerate(pickletools.genops(content)):
            if count > MAX_OPERATIONS:
                raise ValueError("it has too many operations")
            if operation.name == "STOP":
                (value,) = machine.stack
                return value
            machine.step(operation.name, argument)
    except (IndexError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"it is damaged ({type(error).__name__})") from None
    raise ValueError("it is cut off")


class _Machine:
    """The stack and memo of a pickle."""

    def __init__(self, makers: Mapping[tuple[str, str], Make], persistent: Make | None) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.makers, self.persistent = makers, persistent

    def step(self, name: str, argument: Any) -> None:
        """Carries out one operation."""
        stack = self.stack
        if name in _LITERALS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name in ("PROTO", "FRAME"):
            pass
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "POP":
            stack.pop()
        elif name in _TUPLES:
            count = _TUPLES[name]
            stack[len(stack) - count :] = [tuple(stack[len(stack) - count :])]
        elif name in ("TUPLE", "LIST", "DICT"):
            items = self._to_mark()
            stack.append(tuple(items) if name == "TUPLE" else items if name == "LIST" else _pairs(items))
        elif name in ("APPEND", "APPENDS"):
            items = self._to_mark() if name == "APPENDS" else [stack.pop()]
            _of(stack[-1], list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = self._to_mark() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            _of(stack[-1], dict).update(_pairs(items))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name == "GLOBAL":
            module, _, attribute = argument.partition(" ")
            stack.append(PickledName(module, attribute))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(PickledName(_of(module, str), _of(attribute, str)))
        elif name == "REDUCE":
            arguments, called = _of(stack.pop(), tuple), _of(stack.pop(), PickledName)
            if called.key not in self.makers:
                raise ValueError(f"{'.'.join(called.key)[:80]} is not allowed")
            stack.append(self.makers[called.key](*arguments))
        elif name == "BUILD":
            state = stack.pop()
            _of(stack[-1], Buildable).build(state)
        elif name == "BINPERSID" and self.persistent is not None:
            stack.append(self.persistent(*_of(stack.pop(), tuple)))
        else:
            raise ValueError(f"the operation {name} is not allowed")

    def _to_mark(self) -> list[Any]:
        items: list[Any] = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"it has a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def _pairs(items: list[Any]) -> dict[Any, Any]:
    """Returns alternating keys and values as a dictionary; a key of another type could take forever to hash."""
    keys = items[::2]
    if len(items) % 2 or not all(isinstance(key, str | bytes | int) for key in keys):
        raise ValueError("it has keys that are neither strings nor integers")
    return dict(zip(keys, items[1::2], strict=True))


_LITERALS = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8",
}  # fmt: skip
_CONSTANTS: Mapping[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
