"""Markdown tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kymograph.wording import visible

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
    return _HTML.sub(lambda found: "&lt;" if found[0] == "<" else "&amp;", line)
