"""Words that depend on numbers, lines that fit the terminal, and texts that cannot command it."""

from __future__ import annotations

import re
import shutil
import textwrap

PIPE_WIDTH = 100
"""Of lines that go into a file or a pipe, unless COLUMNS says otherwise."""
LEAST_WIDTH = 40
# Control characters but tab and line feed; what turns the direction of writing; breaks of lines that are not one;
# halves of characters, which no file or terminal takes.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def counted(number: int, thing: str, plural: str | None = None) -> str:
    """Returns a number of things in words that fit it.

    >>> counted(1, "run"), counted(2000, "run"), counted(0, "study", "studies")
    ('1 run', '2,000 runs', '0 studies')
    """
    return f"{number:,} {thing if number == 1 else plural or thing + 's'}"


def line_width() -> int:
    """Returns how long lines on standard output may be: COLUMNS, else the terminal's width, else `PIPE_WIDTH`."""
    return max(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns, LEAST_WIDTH)


def folded(text: str, width: int, first: str = "", further: str | None = None) -> str:
    """Returns text broken at spaces into lines of at most ``width``; nothing is cut, and no word or number broken.

    ``first`` and ``further`` stand before the first line and the others; spaces that do not break are U+00A0.

    >>> print(folded("the effect is +0.01 [-0.02, +0.04]", 24, "why  ", "     "))
    why  the effect is +0.01
         [-0.02, +0.04]
    """
    indent = first if further is None else further
    joined = re.sub(r"(?<=\d) (?=%)|\u00a0", "\x00", text)
    lines = textwrap.wrap(joined, width, initial_indent=first, subsequent_indent=indent,
                          break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return "\n".join(lines).replace("\x00", " ") or first.rstrip()


def visible(text: str) -> str:
    r"""Returns text with every character that would command a terminal, rather than show, written as its code.

    >>> visible("clip\x1b[2J"), visible("two\nlines")
    ('clip\\x1b[2J', 'two\nlines')
    """
    return _COMMANDS.sub(_code, text)


def _code(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
