"""``kymograph register``: a user's own claims, registered with a directory before it has runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import parse, positional, seeds_from, shown

PART = {
    "about": "register your own claims with a directory before its runs exist",
    "usage": "register DIR FILE",
    "order": 80,
}


@dataclass(frozen=True)
class Options:
    """Your own claims, registered with a directory before it has runs."""

    directory: Annotated[str, positional(), shown("DIR")]
    """Directory that the runs will be in."""
    claims: Annotated[str, positional(), shown("FILE")]
    """A TOML or Python file of claims."""
    seeds: Annotated[tuple[str, ...], shown("SEED ...", default="the first ten of the fixed list")] = ()
    """Seeds over which the claims will be decided; fewer than ten are filled up from the fixed list."""


def main(words: list[str]) -> int:
    """Registers the claims of a file; prints the digest of each registration, to be put where others can see it."""
    options = parse(Options, words, "kymograph register")
    from kymograph.lab.register import register_file

    for one in register_file(options.directory, options.claims, seeds_from(options.seeds)):
        for name in one.claims:
            print(f"registered: {name.split('/', 2)[2]}")
        print(f"{one.study}, {len(one.seeds)} seeds: registration {one.short_digest} (put it into a paper or a commit)")
    return 0
