"""``kymograph register``: claims, registered in a directory before it has runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import parse, positional, seeds_from, settings_from, shown
from kymograph.wording import counted, folded, line_width

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
    from kymograph.lab.register import register_claims, runs_before

    claims, studies = named_claims(options.claims)
    settings, seeds = settings_from(options.where), seeds_from(options.seeds)
    found = register_claims(
        options.directory,
        claims,
        seeds,
        looks=options.looks,
        settings=settings or None,
        studies=studies,
    )
    for one in found:
        for name in one.claims:
            _say(f"registered: {name.split('/', 2)[2]}")
        chosen = [f"{name} {value}" for name, value in one.plan.fields.items()]
        _say(f"{', '.join([one.study, str(one.plan.design), *chosen])}: registration {one.short_digest}")
        _say(f"seeds: {' '.join(map(str, one.plan.seeds))}; runs at others decide nothing")
        added = len(one.plan.seeds) - len(seeds)
        if seeds and added > 0:
            _say(f"{counted(len(seeds), 'seed')} given; {added} more were added from the fixed list")
        if one.plan.design.sequential:
            _say(price_of_looks(one.plan.design, claims))
        if earlier := runs_before(options.directory, one):
            _say(f"these claims are post hoc for the {counted(earlier, 'run')} already there")
    _say(
        "Put the digest into a paper, a commit or a public registry; `kymograph verify DIR --anchor DIGEST` checks it."
    )
    return 0


def _say(text: str) -> None:
    print(folded(text, line_width(), further="  "))
