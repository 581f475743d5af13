"""Reads untrusted JSON, TOML and CSV, and rejects values that would break later code.

Python's parsers accept nesting until the stack overflows, integers of thousands of digits, lone surrogates, duplicate
keys and dates. All of these are rejected here.
"""

from __future__ import annotations

import csv
import datetime
import functools
import io
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kymograph._errors import KymographError
from kymograph._io.files import MAX_DOCUMENT, MAX_SETTINGS, MAX_TABLE, AnyPath, read_bytes, read_text

MAX_DEPTH = 40
"""The deepest nesting of lists and objects."""
MAX_CONTAINERS = 2_000_000
"""The most brackets and braces of a JSON file: a log of a hundred thousand runs has a quarter of that. Two bytes of
text become a list of a hundred bytes."""
MAX_KEYS = 4_000_000
"""The most colons of a JSON file: a manifest of ten thousand runs has a fiftieth of that."""
MAX_TABLES = 200_000
"""The most brackets, braces and dots in keys of a TOML file, each of which becomes about a kilobyte."""
MAX_DIGITS = 300
"""The most digits of an integer: more would not fit a float."""
_LARGEST = 10**MAX_DIGITS
_TOO_MANY_DIGITS = f"it has an integer of more than {MAX_DIGITS} digits"
# Matched as Python's parser reads them; where a string has no end, the parser stops as well.
_STRINGS_AND_COMMENTS = re.compile(
    r'''"""(?:[^"\\]|\\.|"{1,2}(?!"))*+"{3,5}|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'''
    r"""|'{3}(?:[^']|'{1,2}(?!'))*+'{3,5}|'[^'\n]*+'|#[^\n]*+""",
    re.DOTALL,
)
_DOTTED = re.compile(r"(?<![\w-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++)++([ \t]*+=)?")
_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_INTEGER, _EXPONENTS = b"0" * 19, (b"e000", b"e+000", b"E000", b"E+000")
_EXPONENT = re.compile(rb"[eE]\+?000++(?:[\s,}\]]|\Z)")


def parse_json(content: bytes, *, finite: bool = True) -> Any:
    """Parses JSON; raises ValueError with the reason if it is invalid or unsafe.

    ``finite``: whether to reject NaN and infinities, which Python writes but JSON does not have.

    >>> parse_json(b'{"lr": 0.1}')
    {'lr': 0.1}
    """
    brackets = content.count(b"[") + content.count(b"{")
    if brackets > MAX_CONTAINERS or content.count(b":") > MAX_KEYS:
        raise ValueError("it has too many lists and objects")
    suspicious = _is_suspicious(content)
    try:
        value = _decoder(finite, suspicious).decode(content.decode())
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    # Most files have too few brackets to nest deeply, and no suspicious number or string: they need no check.
    if suspicious or brackets > MAX_DEPTH:
        _check_value(value, finite=finite)
    return value


def _is_suspicious(content: bytes) -> bool:
    """Returns whether JSON may have a very long integer, a number beyond all floats, or a lone surrogate.

    Substrings are found much faster than regular expressions, and a directory has tens of thousands of small files.
    """
    digits = content.translate(_AS_ZERO)
    if _LONG_INTEGER in digits or b"\\u" in content:
        return True
    # The digits of a hash may look like an exponent, but a quote or a letter follows.
    return any(exponent in digits for exponent in _EXPONENTS) and _EXPONENT.search(digits) is not None


def parse_toml(text: str) -> dict[str, Any]:
    """Parses TOML; raises ValueError with the reason if it is invalid or unsafe."""
    _check_toml_keys(text)
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # from int()
        raise ValueError(_TOO_MANY_DIGITS) from None
    _check_value(value, finite=False)
    return value


def _check_toml_keys(text: str) -> None:
    """Raises ValueError if keys have so many parts that Python's parser, which copies every prefix, takes gigabytes."""
    if sum(map(text.count, ".[{")) <= MAX_DEPTH:
        return
    plain = _STRINGS_AND_COMMENTS.sub("q", text)  # what is left of a quoted part of a key
    tables = plain.count("[") + plain.count("{")
    for dotted in _DOTTED.finditer(plain):
        dots = dotted[0].count(".")
        if dots >= MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        if dots > 1 or dotted[1]:  # not a number
            tables += dots
    if tables > MAX_TABLES:
        raise ValueError("it has too many tables")


def read_json(path: AnyPath, limit: int = MAX_DOCUMENT, *, follow: bool = True, finite: bool = True) -> Any:
    """Reads a JSON file; raises a KymographError naming the file if it is invalid or unsafe."""
    try:
        return parse_json(read_bytes(path, limit, follow=follow), finite=finite)
    except json.JSONDecodeError:
        raise KymographError(f"{path} is cut off or not JSON") from None
    except ValueError as error:
        raise KymographError(f"cannot read {path}: {error}") from None


def read_toml(path: AnyPath, limit: int = MAX_SETTINGS) -> dict[str, Any]:
    """Reads a TOML file; raises a KymographError naming the file if it is invalid or unsafe."""
    try:
        return parse_toml(read_text(path, limit))
    except tomllib.TOMLDecodeError as error:
        raise KymographError(f"{path} is not TOML: {str(error).splitlines()[0]}") from None
    except ValueError as error:
        raise KymographError(f"cannot read {path}: {error}") from None


def read_csv(path: AnyPath, columns: Sequence[str], limit: int = MAX_TABLE) -> Iterator[dict[str, str | None]]:
    """Yields the named columns of every row of a CSV file; raises a KymographError naming the file if it is invalid."""
    try:
        reader = csv.DictReader(io.StringIO(read_text(path, limit), newline=""))
        for name in columns:
            if (present := list(reader.fieldnames or ()).count(name)) != 1:
                problem = f"has {present} columns {name!r}" if present else f"has no column {name!r}"
                raise KymographError(f"{path} {problem}; it needs {', '.join(columns)}, each once")
        for row in reader:
            yield {name: row[name] for name in columns}
    except csv.Error:
        raise KymographError(f"{path} is not a CSV file") from None


def _check_value(value: Any, *, finite: bool) -> None:
    """Raises ValueError if a parsed JSON or TOML value is nested too deeply or contains an unsafe value.

    ``finite``: whether to reject infinities, which JSON has no name for but ``1e999`` parses to.
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                for name in item:
                    _check_text(name)
                deeper += item.values()
            elif isinstance(item, list):
                deeper += item
            elif isinstance(item, str):
                _check_text(item)
            elif isinstance(item, int):
                if not -_LARGEST < item < _LARGEST:
                    raise ValueError(_TOO_MANY_DIGITS)
            elif isinstance(item, float):
                if finite and not math.isfinite(item):
                    raise ValueError("it has a number that is too large")
            elif isinstance(item, datetime.date | datetime.time):
                raise ValueError(f"{item} is a date or a time; write it as a string, in quotes")
        if not deeper:
            return
        level = deeper
    raise ValueError("it is nested too deeply")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it has a string with a lone surrogate") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"it has the key {twice[:40]!r} twice")
    return value


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _integer(text: str) -> int:
    if len(text.removeprefix("-")) > MAX_DIGITS:
        raise ValueError(_TOO_MANY_DIGITS)
    return int(text)


@functools.cache
def _decoder(finite: bool, large: bool) -> json.JSONDecoder:
    """Returns a decoder that refuses repeated keys, NaN and infinities if ``finite``, and integers that are too long.

    Calling `_integer` for every number is slow, so it is left out where no integer is ``large``.
    """
    return json.JSONDecoder(
        object_pairs_hook=_object,
        parse_constant=_constant if finite else None,
        parse_int=_integer if large else None,
    )
