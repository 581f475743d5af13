"""Verdicts as cards, for a terminal of any width: the outcome, and next to it claim, effect, reason and settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from kymograph.claims.verdict import Verdict, decisive_p, effect_text, settings_text, why_text
from kymograph.wording import folded

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
