"""``kymograph variance``: how much a study's numbers vary with each source of randomness."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Annotated

from kymograph.cli.arguments import given, parse_with_settings, seeds_from, shown
from kymograph.cli.help_text import fitting_output
from kymograph.cli.options import EngineOptions
from kymograph.errors import UsageError

PART = {
    "about": "run a study with one source of variance at a time: initialisation, order, feedback, split",
    "usage": "variance STUDY",
    "order": 25,
    "debug": True,
}


@dataclass(frozen=True)
class Options:
    """What to run and where; the study's own settings follow."""

    seeds: Annotated[tuple[str, ...], shown("SEED ...", default="the fixed list")] = ()
    """Explicit seeds, e.g. --seeds 42 123 456."""
    n_seeds: Annotated[int | None, shown("N", default="10 if no seeds are given")] = None
    """The first N of the fixed list of seeds, for every source."""
    sources: Annotated[tuple[str, ...], shown("SOURCE ...", default="every source that the study has")] = ()
    """Sources to vary one at a time; all of them together come first in any case."""
    arms: Annotated[tuple[str, ...], shown("ARM ...", default="the study's default arms")] = ()
    """Arms by name or pattern, e.g. 'resmlp/*'."""
    out: Annotated[str, shown("DIR")] = "runs"
    """Directory of the runs."""
    quiet: bool = False
    """Show no progress."""
    compute: EngineOptions = field(default_factory=EngineOptions)


def main(words: list[str]) -> int:
    """Runs the sweeps and prints the table; returns 0 only if every run finished."""
    if not words or words[0] in ("-h", "--help"):
        with fitting_output():
            print("usage: kymograph variance STUDY [options]\n")
            print(
                "Runs a study with all sources of variance together, then with one at a time, and prints what each "
                "contributes. `kymograph variance STUDY --help` lists the options and every setting of the study."
            )
        return 0 if words else 2
    from kymograph.studies.loading import load_study

    study = load_study(words[0])
    options, fields = parse_with_settings(Options, study.config_type, words[1:], f"kymograph variance {words[0]}")
    for name in ("seeds", "sources"):
        if name in given(Options, words[1:]) and not getattr(options, name):
            raise UsageError(f"--{name} needs at least one {name.removesuffix('s')}")
    from kymograph.lab.failures import failure_text
    from kymograph.lab.run import choose_seeds
    from kymograph.lab.variance import vary_sources
    from kymograph.lab.variance_text import table
    from kymograph.runs.store import Store

    done = vary_sources(
        words[0],
        choose_seeds(seeds_from(options.seeds) if options.seeds else None, options.n_seeds),
        options.compute.sweep_options(options.out, options, options.quiet),
        arms=options.arms or None,
        sources=options.sources,
        fields=fields,
    )
    computed = sum(one.computed for one in done.sweeps.values()) - done.failures
    found = sum(one.found for one in done.sweeps.values())
    print(f"{study.name}: {computed} runs computed, {found} found, {done.failures} failed; in {options.out}\n")
    print(table(done.arms))
    if done.failures:
        failed = [outcome for one in done.sweeps.values() for outcome in one.failures]
        runs = Store(run for one in done.sweeps.values() for run in one.store)
        print(failure_text(failed, runs, options.out, options.compute.debug), file=sys.stderr)
    return 1 if done.failures else 0
