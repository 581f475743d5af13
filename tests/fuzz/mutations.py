"""Damage to files: bytes that flip, go, come or repeat; hostile words; values of JSON replaced; what is no file."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEEP = "\u0001deep\u0001"
HUGE = "\u0001huge\u0001"
NAN = "\u0001nan\u0001"
_LITERALS = {DEEP: "[" * 100_000 + "]" * 100_000, HUGE: "9" * 5_000, NAN: "NaN"}
"""What `json.dumps` does not write, by a text that stands for it."""
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**64), 1e308, -0.0, 0.1, HUGE, NAN, DEEP, "", "x", "x" * 10_000,
    "\ud800", "\x00", "\x1b[31mred\x1b[0m", "two\nlines", "../../../escape", "/etc/passwd", "=1+1", "@x", "NaN",
    "Infinity", "-Infinity", "<script>alert(1)</script>", "a" * 300, ".", "..", "2026-01-01", "\u202edetartsni",
    [], [[]], [1, 2, 3], [None] * 3, ["a", 1], {}, {"": {}}, {"a": {"b": [1]}}, {"__proto__": 1}, 1e-320, 123456789,
)  # fmt: skip
WORDS = (
    b"NaN", b"null", b"-1", b"1e999", b"9" * 5_000, b"[" * 100_000, b"\xff\xfe", b"\x00" * 64, b"\x1b[2J", b"\n", b'"',
    b"../../escape", b"{}", b"[]", b"=cmd()", b"\xed\xa0\x80", b"1979-05-27T07:32:00Z", b"0x7fffffffffffffff", b"true",
)  # fmt: skip


def flip(content: bytes, draw: random.Random) -> bytes:
    """Flips one bit."""
    if not content:
        return b"\x01"
    offset = draw.randrange(len(content))
    return content[:offset] + bytes([content[offset] ^ 1 << draw.randrange(8)]) + content[offset + 1 :]


def overwrite(content: bytes, draw: random.Random) -> bytes:
    """Puts random bytes over some."""
    offset, count = _range(content, draw, 16)
    return content[:offset] + draw.randbytes(count) + content[offset + count :]


def cut(content: bytes, draw: random.Random) -> bytes:
    """Takes the end away."""
    return content[: draw.randrange(len(content) + 1)]


def drop(content: bytes, draw: random.Random) -> bytes:
    """Takes some bytes out of the middle."""
    offset, count = _range(content, draw, 64)
    return content[:offset] + content[offset + count :]


def repeat(content: bytes, draw: random.Random) -> bytes:
    """Says some bytes twice."""
    offset, count = _range(content, draw, 256)
    return content[: offset + count] + content[offset : offset + count] + content[offset + count :]


def insert_word(content: bytes, draw: random.Random) -> bytes:
    """Puts a hostile word somewhere."""
    offset = draw.randrange(len(content) + 1)
    return content[:offset] + draw.choice(WORDS) + content[offset:]


def replace_number(content: bytes, draw: random.Random) -> bytes:
    """Puts a hostile word in place of a number, or of a text in quotation marks."""
    import re

    found = list(re.finditer(rb'-?\d+(?:\.\d+)?|"[^"\n]*"', content[:200_000]))
    if not found:
        return insert_word(content, draw)
    one = draw.choice(found)
    return content[: one.start()] + draw.choice(WORDS) + content[one.end() :]


def _range(content: bytes, draw: random.Random, most: int) -> tuple[int, int]:
    if not content:
        return 0, 0
    offset = draw.randrange(len(content))
    return offset, min(draw.randint(1, most), len(content) - offset)


BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip, flip, overwrite, cut, drop, repeat, insert_word, replace_number,
)  # fmt: skip


def replace_value(value: Any, draw: random.Random) -> Any:
    """Returns a JSON value in which one part, found at random, is replaced, removed, or given another name."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(sorted(value))
        fate = draw.random()
        if fate < 0.1:
            return {name: item for name, item in value.items() if name != key}
        if fate < 0.15:
            return {(str(draw.choice(VALUES)) if name == key else name): item for name, item in value.items()}
        return {**value, key: replace_value(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        index = draw.randrange(len(value))
        return [*value[:index], replace_value(value[index], draw), *value[index + 1 :]]
    return draw.choice(VALUES)


def dump(value: Any) -> bytes:
    """Returns JSON, with what `json.dumps` does not write."""
    text = json.dumps(value)
    for stands, literal in _LITERALS.items():
        text = text.replace(json.dumps(stands), literal)
    return text.encode("utf-8", "surrogatepass")


def no_file(path: Path, draw: random.Random, outside: Path) -> str:
    """Puts something in the place of a file that is none, or not the file it was; returns what."""
    kind = draw.choice(("pipe", "directory", "endless", "outside", "sparse", "gone", "empty", "dangling", "loop"))
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "outside":
        path.symlink_to(outside)
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(8 * 2**30)
    elif kind == "empty":
        path.touch()
    elif kind == "dangling":
        path.symlink_to(path.parent / "nowhere")
    elif kind == "loop":
        path.symlink_to(path)
    return kind
