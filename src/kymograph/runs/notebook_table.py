"""HTML tables for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable


def html_table(header: tuple[str, ...], rows: Iterable[tuple]) -> str:
    """Returns an HTML table with escaped cells."""
    head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
