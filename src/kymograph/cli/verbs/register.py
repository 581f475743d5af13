"""``kymograph register``: claims, registered in a directory before it has runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import parse, positional, seeds_from, settings_from, shown

PART = {
    "about": "register claims in a directory before its runs exist",
    "usage": "register DIR CLAIMS",
    "order": 80,
}


@dataclass(frozen=True)
class Options:
    """Register claims, with their seeds, looks and settings, in a directory before it has runs."""

    directory: Annotated[str, positional(), shown("DIR")]
    """Directory for the runs."""
    claims: Annotated[str, positional(), shown("CLAIMS")]
    """A TOML or Python file of claims, or a study: its name, file.py or module:Name."""
    seeds: Annotated[tuple[str, ...], shown("SEED ...", default="the first ten of the fixed list")] = ()
    """Seeds over which the claims will be decided; fewer than ten are topped up from the fixed list."""
    looks: Annotated[tuple[int, ...], shown("N ...", default="one, at all seeds")] = ()
    """A sequential design: numbers of seeds at which to decide, e.g. 10 15 20; it may end at the first that decides."""
    where: Annotated[tuple[str, ...], shown("FIELD=VALUE ...", default="the study's defaults")] = ()
    """Settings of the runs, e.g. --where lr=0.03; runs with other settings are post hoc."""


def main(words: list[str]) -> int:
    """Registers the claims; prints the digest of each registration, for publication."""
    options = parse(Options, words, "kymograph register")
    from kymograph.lab.named_claims import named_claims
    from kymograph.lab.power import price_of_looks
    from kymograph.lab.register import register_claims

    claims, studies = named_claims(options.claims)
    settings = settings_from(options.where)
    found = register_claims(
        options.directory,
        claims,
        seeds_from(options.seeds),
        looks=options.looks,
        settings=settings or None,
        studies=studies,
    )
    for one in found:
        for name in one.claims:
            print(f"registered: {name.split('/', 2)[2]}")
        chosen = [f"{name} {value}" for name, value in one.plan.fields.items()]
        print(f"{', '.join([one.study, str(one.plan.design), *chosen])}: registration {one.short_digest}")
        print(f"seeds: {' '.join(map(str, one.plan.seeds))}; runs at others decide nothing")
        if one.plan.design.sequential:
            print(price_of_looks(one.plan.design, claims))
    print(
        "Put the digest into a paper, a commit or a public registry; `kymograph verify DIR --anchor DIGEST` checks it."
    )
    return 0
