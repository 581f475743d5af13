"""Sources of variance as a table to print."""

from __future__ import annotations

from collections.abc import Sequence

from kymograph.report.variance_sources import ALL, ArmSpread, SourceSpread, about_all, conclusion
from kymograph.rounding import number_text

HEADER = ("", "n", "sd", "95 % interval", f"share of {ALL}", "95 % interval")
NOTES = (
    "Intervals (chi-square; F for shares) and tests assume normal values. An sd of ln x of 0.1 is about 10 % of x.",
    "What varies a number most is stated if the largest sd exceeds every other one in an F test at 5 %, corrected for "
    "choosing the largest and, in each arm, for several numbers (Holm).",
)


def table(arms: Sequence[ArmSpread]) -> str:
    """Returns a block per arm and number: a row per source, and which varies the number most."""
    rows = [HEADER, *(_row(source) for arm in arms for number in arm.numbers for source in number.sources)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = []
    for arm in arms:
        lines += [arm.name, _line(HEADER, widths)]
        for number in arm.numbers:
            lines += [f"{number.title}: {conclusion(number)}", *(_line(_row(one), widths) for one in number.sources)]
        lines.append("")
    if not arms:
        return "No two sources have runs to compare."
    first = f"sd over runs in which one source follows the seed and the others are fixed. {about_all(arms)}".rstrip()
    return "\n".join([*lines, first, *NOTES])


def _row(spread: SourceSpread) -> tuple[str, ...]:
    n = f"{spread.n} of {spread.n + spread.missing}" if spread.missing else str(spread.n)
    if spread.idle:
        return f"  {spread.source}", n, "0", "does nothing: all runs agree", "", ""
    interval = f"[{number_text(spread.low)}, {number_text(spread.high)}]"
    share, *ends = ("", "", "") if spread.share is None else map(_percent, spread.share)
    return f"  {spread.source}", n, number_text(spread.sd), interval, share, f"[{', '.join(ends)}]" if share else ""


def _percent(part: float) -> str:
    return f"{100 * part:.2g} %" if part < 0.1 else f"{100 * part:.0f} %"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
