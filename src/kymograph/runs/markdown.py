"""Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""Returns a Markdown table; pipes are escaped, and a line break in a cell becomes a space.

    >>> print(markdown_table(["a", "b"], [["1|2", "3\n4"]]), end="")
    | a | b |
    | --- | --- |
    | 1\|2 | 3 4 |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.splitlines()).replace("|", "\\|")
