"""``kymograph selftest``: how often the judge supports what is not there, and finds what is."""

from __future__ import annotations

from dataclasses import dataclass

from kymograph.cli.arguments import at_least, parse

PART = {"about": "how often the judge supports what is not there, and finds what is", "order": 100}
LEAST_WORLDS = 100


@dataclass(frozen=True)
class Options:
    """The judge on simulated worlds: some without an effect, some with a known one."""

    worlds: int = 2000
    """Worlds of each kind."""
    seed: int = 0
    """Seed of the worlds."""


def main(words: list[str]) -> int:
    """Prints the judge's rates of support in every kind of world; returns 0 only if all are as they should be."""
    options = parse(Options, words, "kymograph selftest")
    at_least("worlds", options.worlds, LEAST_WORLDS)
    from kymograph.claims.selftest import worlds

    print(f"{'world':<22} {'n':>3} {'worlds':>7} {'supported':>10} {'refuted':>8}  wanted")
    failed = 0
    for rates in worlds(options.worlds, options.seed):
        failed += not rates.passed
        line = f"{rates.kind:<22} {rates.n:>3} {rates.worlds:>7,} {rates.supported:>10.1%} {rates.refuted:>8.1%}"
        print(f"{line}  {rates.wanted}: {'yes' if rates.passed else 'NO'}", flush=True)
    return 1 if failed else 0
