"""``kymograph register``: a user's own claims, registered with a directory before it has runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kymograph.cli.arguments import parse, positional, shown

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


def main(words: list[str]) -> int:
    """Registers the claims of a file; prints each with its hash and standing."""
    options = parse(Options, words, "kymograph register")
    from kymograph.claims.registration import read, standing
    from kymograph.lab.register import register_file

    claims = register_file(options.directory, options.claims)
    registered = read(Path(options.directory))
    for claim in claims:
        print(f"{claim.hash[:16]}  {standing(claim, registered)}: {claim.name}")
    return 0
