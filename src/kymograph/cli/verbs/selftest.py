"""``kymograph selftest``: how often the judge is wrong in worlds whose truth is known, each rate against its bound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kymograph.cli.arguments import at_least, parse

if TYPE_CHECKING:
    from kymograph.claims.selftest.rows import Row

PART = {"about": "measure how often the judge is wrong, and compare the rates with bounds", "order": 100}
LEAST_WORLDS = 100
_KINDS = {"limit": " (known limit)", "cost": " (cost of not registering)"}


@dataclass(frozen=True)
class Options:
    """Measure the judge's error rates in simulated worlds whose truth is known, and compare each with its bound.

    SUPPORTED, REFUTED and EQUIVALENT are shares of all verdicts. The rate is the share of worlds in which the event
    named before it happened. For a sequential design, n is the mean number of seeds. A row fails, and the exit code is
    1, if its rate is beyond its bound by more than chance allows: a judge within all bounds fails at most one selftest
    in a thousand.
    """

    worlds: int = 10_000
    """Worlds of each kind; one in forty where every world is a directory of runs."""
    seed: int = 0
    """Seed of the worlds."""


def main(words: list[str]) -> int:
    """Prints a row for every kind of world as soon as it is measured; returns 0 only if all are within their bounds."""
    options = parse(Options, words, "kymograph selftest")
    at_least("worlds", options.worlds, LEAST_WORLDS)
    from kymograph.lab.selftest import selftest, worst_limit

    print(_line("world", "n", "worlds", ("SUPPORTED", "REFUTED", "EQUIVALENT"), "what is counted", "rate", "bound", ""))
    rows = []
    for row in selftest(options.worlds, options.seed, _with_bar):
        rows.append(row)
        print(_text(row), flush=True)
    failed = [row for row in rows if not row.passed]
    print(f"{len(rows) - len(failed)} of {len(rows)} rows are ok: not beyond their bounds by more than chance allows")
    worst = worst_limit(rows)
    most = f"bound {100 * worst.bound.most:.3g} %"
    print(f"worst: {worst.world}, n = {worst.seeds}: {_percent(worst.rate)} false {worst.what} ({most})")
    return 1 if failed else 0


def _text(row: Row) -> str:
    shares = tuple(_percent(share) for share in (row.supported, row.refuted, row.equivalent))
    bound, verdict = f"{row.bound}{_KINDS.get(row.kind, '')}", "ok" if row.passed else "FAILED"
    return _line(row.world, row.seeds, f"{row.worlds:,}", shares, row.what, _percent(row.rate), bound, verdict)


def _line(
    world: str, seeds: str, worlds: str, shares: tuple[str, ...], what: str, rate: str, bound: str, verdict: str
) -> str:
    columns = " ".join(f"{share:>10}" for share in shares)
    line = f"{world:<60} {seeds:>10} {worlds:>7} {columns}  {what:<25} {rate:>7}  {bound:<37} {verdict}"
    return line.rstrip()


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %"


def _with_bar(numbers: Iterable[int], title: str) -> Iterable[int]:
    """Passes the numbers through, with a bar below the rows on a terminal and nothing elsewhere."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(numbers, title, console=console, transient=True, disable=not console.is_terminal)
