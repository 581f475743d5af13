"""Verdicts for a terminal, as cards or as one wide table, and as files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from kymograph._claims.verdict import Verdict, Verdicts, decisive_p, effect_text, settings_text, why_text
from kymograph._io.writing import make_directory, write_atomically
from kymograph._wording import counted, folded, line_width, visible

if TYPE_CHECKING:
    from rich.table import Table


MARGIN = 14
"""Width of the outcome column; the longest outcome has 12 letters."""


def verdict_cards(verdicts: Sequence[Verdict], width: int) -> Iterator[tuple[Verdict | None, str]]:
    """Yields the lines to print: a heading per study (with None), then a card per verdict.

        SUPPORTED     warmup ends lower
                      -0.21 [-0.25, -0.17], p 0.0020, n 10
                      beyond the margin of 0.1
                      set-up: own, data digits

    Lines are at most ``width`` long and are broken at spaces, never inside a number. A claim's origin is shown only in
    the table and the report.
    """
    for study, group in groupby(verdicts, key=lambda verdict: verdict.claim.study):
        yield None, study
        for verdict in group:
            yield verdict, _card(verdict, width)


def _card(verdict: Verdict, width: int) -> str:
    indent = " " * MARGIN
    lines = [folded(verdict.claim.name, width, str(verdict.outcome).ljust(MARGIN), indent)]
    p = decisive_p(verdict)
    numbers = [unbroken(effect_text(verdict)), unbroken(f"p {p}") if p else "", unbroken(f"n {verdict.n}")]
    lines.append(folded(", ".join(text for text in numbers if text), width, indent))
    lines.append(folded(why_text(verdict), width, indent))
    lines.append(folded(f"set-up: {settings_text(verdict)}", width, indent))
    return "\n".join(line for line in lines if line.strip())


def unbroken(text: str) -> str:
    """Returns the text with no-break spaces."""
    return text.replace(" ", "\u00a0")


STYLES = {
    "SUPPORTED": "bold green",
    "REFUTED": "bold red",
    "EQUIVALENT": "bold blue",
    "INCONCLUSIVE": "yellow",
    "INVALID": "magenta",
}
TABLE_WIDTH = 190
"""The width of the table; in a narrower terminal it must be scrolled, e.g. with ``less -S``."""


def print_verdicts(verdicts: Verdicts, wide: bool = False) -> None:
    """Prints a card per verdict, or one table if ``wide``, and the count of each outcome."""
    from rich.console import Console
    from rich.text import Text

    width = max(line_width(), TABLE_WIDTH) if wide else line_width()
    console = Console(width=width, soft_wrap=not wide)
    if wide:
        console.print(_table(verdicts))
    else:
        for verdict, lines in verdict_cards(verdicts, width):
            lines = visible(lines)
            if verdict is None:
                console.print(Text(f"{lines}\n", "bold underline"))
                continue
            text = Text(f"{lines}\n")
            text.stylize(STYLES[verdict.outcome], 0, len(verdict.outcome))
            text.stylize("bold", MARGIN, len(lines.split("\n")[0]))
            console.print(text)
    for line in summary_lines(verdicts):
        console.print(Text(folded(visible(line), width)))


def summary_lines(verdicts: Verdicts) -> Iterator[str]:
    """Yields the count of each outcome, and the claims that were not judged."""
    count, line = len(verdicts.never_run), count_text(verdicts)
    if count and not len(verdicts):
        line += f": arms of {'the only claim' if count == 1 else f'all {count:,} claims'} were never run"
    elif count == 1:
        line += "; 1 more was not judged, because its arms were never run, but counts in Holm's correction"
    elif count:
        line += f"; {count:,} more were not judged, because their arms were never run, but count in Holm's correction"
    yield line
    for name in verdicts.without_runs:
        yield f"not judged: {name}; no run has its study, arms and settings"


def _table(verdicts: Verdicts) -> Table:
    """Returns the verdicts as one table that breaks no number across lines."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True, expand=False)
    for name, options in {
        "claim": {"ratio": 5, "min_width": 18},
        "origin": {"ratio": 4, "min_width": 14},
        "verdict": {"no_wrap": True},
        "effect [95 % interval]": {"no_wrap": True},
        "p": {"min_width": 8},
        "n": {"no_wrap": True},
        "why": {"ratio": 5, "min_width": 16},
    }.items():
        table.add_column(name, **options)  # type: ignore[arg-type]
    for verdict, cells in zip(verdicts, verdicts.table()[1], strict=True):
        name, _, origin, outcome, effect, p, n, why = map(visible, cells)
        setup = visible(", ".join([verdict.claim.study, settings_text(verdict)]))
        style = STYLES[verdict.outcome]
        table.add_row(Text(f"{name} ({setup})"), Text(origin), Text(outcome, style), Text(effect), p, n, Text(why))
    return table


def count_text(verdicts: Verdicts) -> str:
    """Returns the count of findings by outcome; manipulation checks are counted separately."""
    findings = [verdict for verdict in verdicts if verdict.claim.kind is None]
    counts = {name: sum(str(verdict.outcome) == name for verdict in findings) for name in STYLES}
    parts = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    line = f"{counted(len(findings), 'claim')}: {parts}" if findings else "no claim was judged"
    checks = [verdict for verdict in verdicts if verdict.claim.kind is not None]
    if not checks:
        return line
    supported = sum(check.outcome == "SUPPORTED" for check in checks)
    return f"{line}; {supported} of {len(checks)} manipulation checks SUPPORTED"


def judged_text(verdicts: Verdicts) -> str:
    """Returns how many claims, and how many manipulation checks, were judged."""
    checks = sum(verdict.claim.kind is not None for verdict in verdicts)
    claims = counted(len(verdicts) - checks, "claim")
    return f"{claims} and {counted(checks, 'manipulation check')}" if checks else claims


def write_verdicts(verdicts: Verdicts, to_json: str | None, to_markdown: str | None) -> Iterator[Path]:
    """Writes the verdicts to the named files, or to standard output for ``-``; yields the paths written."""
    for name, content in (
        (to_json, json.dumps(verdicts.rows(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"),
        (to_markdown, verdicts.markdown()),
    ):
        if name == "-":
            sys.stdout.write(content)
        elif name is not None:
            path = Path(name)
            make_directory(path.parent)
            write_atomically(path, content.encode())
            yield path
