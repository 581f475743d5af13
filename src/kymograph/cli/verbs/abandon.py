"""``kymograph abandon``: give up planned runs, with a reason in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import parse, positional, seeds_from, shown

PART = {
    "about": "give up planned runs, with a reason that verdicts show",
    "usage": "abandon DIR",
    "order": 87,
}


@dataclass(frozen=True)
class Options:
    """Give up planned runs; the log keeps them with the reason, and verdicts about their arms mention it."""

    directory: Annotated[str, positional(), shown("DIR")]
    """Directory of the runs."""
    reason: Annotated[str, shown("TEXT")]
    """Why the runs are given up."""
    study: Annotated[str | None, shown("STUDY", default="all")] = None
    """Only runs of this study."""
    arms: Annotated[tuple[str, ...], shown("ARM ...", default="all")] = ()
    """Only these arms, by name or pattern."""
    seeds: Annotated[tuple[str, ...], shown("SEED ...", default="all")] = ()
    """Only these seeds."""


def main(words: list[str]) -> int:
    """Logs that planned runs are given up; prints how many."""
    options = parse(Options, words, "kymograph abandon")
    from kymograph.lab.abandon import abandon_runs

    count = abandon_runs(options.directory, options.reason, options.study, options.arms, seeds_from(options.seeds))
    print(f"{count} planned {'run' if count == 1 else 'runs'} abandoned; verdicts on their arms will say so")
    return 0
