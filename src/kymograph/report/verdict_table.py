"""The table of verdicts for a terminal, and as files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from kymograph.claims.verdict import Verdicts
from kymograph.runs.files import make_directory, write_atomically

STYLES = {
    "SUPPORTED": "bold green",
    "REFUTED": "bold red",
    "EQUIVALENT": "bold blue",
    "INCONCLUSIVE": "yellow",
    "INVALID": "magenta",
}
PLAIN_WIDTH = 190


def print_verdicts(verdicts: Verdicts) -> None:
    """Prints the verdicts as one table, as wide as the terminal, and how many there are of each kind."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    table = Table(show_lines=True, expand=False)
    for name, options in {
        "claim": {"ratio": 5, "min_width": 18},
        "origin": {"ratio": 4, "min_width": 14},
        "verdict": {"no_wrap": True},
        "effect [95 % interval]": {"min_width": 12},
        "p": {"min_width": 8},
        "n": {"no_wrap": True},
        "why": {"ratio": 5, "min_width": 16},
    }.items():
        table.add_column(name, **options)  # type: ignore[arg-type]
    for verdict, cells in zip(verdicts, verdicts.table()[1], strict=True):
        name, setup, origin, outcome, effect, p, n, why = cells
        style = STYLES[verdict.outcome]
        table.add_row(Text(f"{name} ({setup})"), Text(origin), Text(outcome, style), Text(effect), p, n, Text(why))
    console.print(table)
    line = count_text(verdicts)
    if verdicts.facts.get("not_asked"):
        count = len(verdicts.facts["not_asked"])
        line += f"; {count} more were not judged, because their arms were never run, and share their studies' level"
    console.print(Text(line))
    for name in verdicts.facts.get("own_not_asked", ()):
        console.print(Text(f"not judged: {name}; no run has its study, arms and settings"))


def count_text(verdicts: Verdicts) -> str:
    """Returns how many findings there are of each outcome; manipulation checks are counted apart."""
    findings = [verdict for verdict in verdicts if verdict.claim.kind is None]
    counts = {name: sum(str(verdict.outcome) == name for verdict in findings) for name in STYLES}
    line = f"{len(findings)} claims: " + ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    checks = [verdict for verdict in verdicts if verdict.claim.kind is not None]
    if not checks:
        return line
    return f"{line}; {sum(one.outcome == 'SUPPORTED' for one in checks)} of {len(checks)} manipulation checks SUPPORTED"


def write_verdicts(verdicts: Verdicts, to_json: str | None, to_markdown: str | None) -> Iterator[Path]:
    """Writes the verdicts to the files named; yields their paths."""
    for name, content in (
        (to_json, json.dumps(verdicts.rows(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"),
        (to_markdown, verdicts.markdown()),
    ):
        if name is not None:
            path = Path(name)
            make_directory(path.parent)
            write_atomically(path, content.encode())
            yield path
