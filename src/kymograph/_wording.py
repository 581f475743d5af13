"""Text for people: plurals, durations, lines that fit the terminal, and tables in Markdown and HTML."""

from __future__ import annotations

import html
import re
import shutil
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence

PIPE_WIDTH = 100
"""The width of lines written to a file or a pipe, unless COLUMNS says otherwise."""
LEAST_WIDTH = 40
# Control characters, invisible ones such as marks of writing direction, lone surrogates, which cannot be encoded,
# characters of private use, and Unicode's line and paragraph separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_SEEN = frozenset("\t\n\u200c\u200d\u00ad")  # layout, and what is part of words and emoji


def counted(number: int, thing: str, plural: str | None = None) -> str:
    """Returns a count with its noun, singular or plural.

    >>> counted(1, "run"), counted(2000, "run"), counted(0, "study", "studies")
    ('1 run', '2,000 runs', '0 studies')
    """
    return f"{number:,} {thing if number == 1 else plural or thing + 's'}"


def line_width() -> int:
    """Returns the maximum length of lines on standard output: COLUMNS, else the terminal's width, else `PIPE_WIDTH`."""
    return max(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns, LEAST_WIDTH)


def folded(text: str, width: int, first: str = "", further: str | None = None) -> str:
    """Returns text wrapped at spaces to lines of at most ``width``; nothing is cut, and no word or number is broken.

    ``first`` and ``further`` are the prefixes of the first line and of the others; U+00A0 does not break.

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
    r"""Returns text with every character that would control the terminal written as its code.

    >>> visible("clip\x1b[2J"), visible("two\nlines")
    ('clip\\x1b[2J', 'two\nlines')
    """
    if text.isprintable():
        return text
    unseen = {letter for letter in set(text) - _SEEN if unicodedata.category(letter) in _UNSEEN}
    return "".join(_code(ord(letter)) if letter in unseen else letter for letter in text)


def _code(number: int) -> str:
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def format_duration(seconds: float) -> str:
    """Returns a duration as text, coarser the longer it is.

    >>> format_duration(3700)
    '1 h 2 min'
    """
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{seconds / 86400:.0f} days"


_HTML = re.compile(r"<(?=[A-Za-z/!?])|&(?=#|[A-Za-z]\w*;)")  # what starts a tag, a comment or an entity; not "1 < 2"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""Returns a Markdown table; pipes and HTML are escaped, and a line break in a cell becomes a space.

    Control characters are written as their codes.

    >>> print(markdown_table(["a", "b"], [["1|2", "3\n4"]]), end="")
    | a | b |
    | --- | --- |
    | 1\|2 | 3 4 |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def _cell(text: str) -> str:
    line = visible(" ".join(text.splitlines())).replace("|", "\\|")
    return _HTML.sub(lambda match: "&lt;" if match[0] == "<" else "&amp;", line)


def html_table(header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """Returns an HTML table with escaped cells."""
    head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
