"""``kymograph run``: the runs of a study, arms x seeds."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Annotated

from kymograph.cli.arguments import given, grid_from, parse_with_settings, seeds_from, shown
from kymograph.cli.help_text import fitting_output
from kymograph.cli.options import EngineOptions, with_engine_options
from kymograph.errors import UsageError
from kymograph.wording import counted

PART = {
    "about": "run a study: arms x seeds; runs that are stored already are not computed again",
    "usage": "run STUDY",
    "order": 20,
    "debug": True,
}


@dataclass(frozen=True)
class Options:
    """What to run and where; the study's own settings follow."""

    seeds: Annotated[tuple[str, ...], shown("SEED ...", default="the fixed list")] = ()
    """Explicit seeds, e.g. --seeds 42 123 456."""
    n_seeds: Annotated[int | None, shown("N", default="10 if no seeds are given")] = None
    """The first N of the fixed list of seeds, which starts 42, 123, 456."""
    arms: Annotated[tuple[str, ...], shown("ARM ...", default="the study's default arms")] = ()
    """Arms by name or pattern, e.g. 'extreme/*'."""
    out: Annotated[str, shown("DIR")] = "runs"
    """Directory of the runs."""
    grid: Annotated[tuple[str, ...], shown("FIELD=VALUE,... ...", default="none")] = ()
    """Settings to vary, e.g. --grid lr=0.1,0.03: every arm and every claim at every point, in one family."""
    config: Annotated[str | None, shown("FILE", default="none")] = None
    """TOML file of settings, optionally with arms, seeds or n_seeds, and a table [grid]; options take precedence."""
    quiet: bool = False
    """Show no progress."""
    compute: EngineOptions = field(default_factory=EngineOptions)


def main(words: list[str]) -> int:
    """Runs a study; returns 0 only if every run finished."""
    from kymograph.studies.loading import STUDIES, load_study

    if not words or words[0] in ("-h", "--help"):
        with fitting_output():
            print("usage: kymograph run STUDY [options]\n")
            names = ", ".join(STUDIES.names())
            print(f"studies: {names}; or a user-defined one as module:Name, file.py or file.py:Name\n")
            print("`kymograph run STUDY --help` lists the options and every setting of the study.")
        return 0 if words else 2
    study = load_study(words[0])
    kind = with_engine_options(Options, words[1:])
    options, fields = parse_with_settings(kind, study.config_type, words[1:], f"kymograph run {words[0]}")
    if "seeds" in given(Options, words[1:]) and not options.seeds:
        raise UsageError("--seeds needs at least one seed, e.g. --seeds 42")
    from kymograph.lab.failures import failure_text
    from kymograph.lab.headline_table import headline_table
    from kymograph.lab.run import sweep_choice
    from kymograph.lab.settings_file import SweepChoice, read_settings
    from kymograph.lab.tuning_text import tuning_lines

    seeds = tuple(seeds_from(options.seeds)) if options.seeds else None
    choice = SweepChoice(fields, grid_from(options.grid), seeds, options.n_seeds, options.arms)
    if options.config is not None:
        choice = choice.over(read_settings(options.config, study))
    done = sweep_choice(words[0], choice, options.compute.sweep_options(options.out, options, options.quiet))
    if done.tuning is not None:
        for line in tuning_lines(done.tuning):
            print(line)
        if done.tuning.submitted:
            print(f"{study.name}: run the command again when the tuning runs have ended")
            return 0
    failed = len(done.failures)
    computed = done.computed - failed
    queued = f", {done.submitted} in the queue" if done.submitted else ""
    ended = f"{counted(computed, 'run')} computed, {done.found} found, {failed} failed{queued}"
    print(f"{study.name}: {ended}; in {options.out}")
    if done.store.finished.runs and not options.quiet:
        print(headline_table(study, done.store.finished))
    if failed:
        print(failure_text(done.failures, done.store, options.out, options.compute.debug), file=sys.stderr)
    return 1 if failed or (done.tuning is not None and done.tuning.without_value) else 0
