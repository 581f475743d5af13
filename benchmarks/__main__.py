"""``kymograph bench``: this package timed against the scripts' way of working."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import parse, positional, shown

PARTS = {
    "bench": {"attribute": "main", "about": "time this package against the scripts' way of working", "order": 150},
}


@dataclass(frozen=True)
class Options:
    """Time this package against the scripts' way of working, interleaved, as ratios with their spread.

    `kymograph bench scale` measures instead what commands cost in a directory of ten thousand runs, and exits with 1 if
    a limit is exceeded.
    """

    names: Annotated[tuple[str, ...], positional(), shown("[NAME ...]", default="all")] = ()
    """Which comparisons; or engines: the cost of each engine per sweep and per stack; or peers: the cost of a step of
    each learning rule, next to BioTorch if it is installed."""
    repeats: int = 3
    """How often each side is timed."""
    markdown: Annotated[str | None, shown("FILE", default="none")] = None
    """Also write the table to this file."""


def main(words: list[str]) -> int:
    """Times the comparisons asked for and prints the table."""
    options = parse(Options, words, "kymograph bench")
    if options.names == ("engines",):
        from benchmarks.engines import bench_engines

        return bench_engines()
    if options.names == ("scale",):
        from benchmarks.scale import bench_scale

        return bench_scale()
    if options.names == ("peers",):
        from benchmarks.rule_steps import bench_rules

        return bench_rules()
    from benchmarks.compare import bench

    return bench(options.names, options.repeats, options.markdown)
