"""Verbs about claims: register, judge, power, verify, bundle, abandon."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from kymograph._cli.arguments import (
    at_least,
    directory_of_runs,
    given,
    named_study,
    parse,
    positional,
    seeds_from,
    settings_from,
    shown,
)
from kymograph._cli.output import note
from kymograph._errors import KymographError, UsageError
from kymograph._runs.directory import Directory
from kymograph._runs.locating import check_directory
from kymograph._wording import counted, folded, line_width

if TYPE_CHECKING:
    from kymograph._claims.power import PowerTable
    from kymograph._runs.listing import NamedRun


PARTS = {
    "register": {
        "attribute": "register_verb",
        "options": "RegisterOptions",
        "about": "register claims in a directory before its runs exist",
        "usage": "register CLAIMS",
        "group": "judge",
        "order": 210,
    },
    "judge": {
        "attribute": "judge_verb",
        "options": "JudgeOptions",
        "about": "verdicts on the registered claims, over seeds; --claims FILE for your own",
        "usage": "judge [DIR]",
        "group": "judge",
        "order": 220,
    },
    "power": {
        "attribute": "power_verb",
        "options": "PowerOptions",
        "about": "the power of claims by the number of seeds, before anything is run",
        "usage": "power CLAIMS",
        "group": "judge",
        "order": 230,
    },
    "verify": {
        "attribute": "verify_verb",
        "options": "VerifyOptions",
        "about": "check a directory's log, records, planned runs and registrations, and compute some runs again",
        "usage": "verify [DIR|FILE]",
        "group": "judge",
        "order": 240,
    },
    "bundle": {
        "attribute": "bundle_verb",
        "options": "BundleOptions",
        "about": "pack runs, claims, log, study code and report into one file that `verify` accepts",
        "usage": "bundle [DIR] -o FILE",
        "group": "judge",
        "order": 250,
    },
    "abandon": {
        "attribute": "abandon_verb",
        "options": "AbandonOptions",
        "about": "give up planned runs, with a reason that verdicts show",
        "usage": "abandon [DIR]",
        "group": "judge",
        "order": 260,
    },
}


@dataclass(frozen=True)
class RegisterOptions:
    """Register claims, with their seeds, looks and settings, in a directory before it has runs."""

    claims: Annotated[str, positional(), shown("CLAIMS")]
    """A TOML or Python file of claims, or a study: its name, file.py or module:Name."""
    dir: Annotated[str, shown("DIR")] = "runs"
    """Directory for the runs."""
    seeds: Annotated[tuple[str, ...], shown("SEED ...", default="the first ten of the fixed list")] = ()
    """Seeds over which the claims will be decided; fewer than ten are topped up from the fixed list."""
    looks: Annotated[tuple[int, ...], shown("N ...", default="one, at all seeds")] = ()
    """A sequential design: numbers of seeds at which to decide, e.g. 10 15 20; it may end at the first that decides."""
    where: Annotated[tuple[str, ...], shown("FIELD=VALUE ...", default="the study's defaults")] = ()
    """Settings of the runs, e.g. --where lr=0.03; runs with other settings are post hoc."""


def register_verb(words: list[str]) -> int:
    """Registers the claims; prints the digest of each registration, for publication."""
    if (
        len(words) > 1
        and not any(word.startswith("-") for word in words[:2])
        and "dir" not in given(RegisterOptions, words)
    ):
        note("`kymograph register DIR CLAIMS` is now `kymograph register CLAIMS --dir DIR`")
        words = [words[1], "--dir", words[0], *words[2:]]
    options = parse(RegisterOptions, words, "kymograph register")
    from kymograph._claims.claim_files import named_claims
    from kymograph._claims.power import price_of_looks
    from kymograph._claims.registration import register, runs_before

    claims, studies = named_claims(options.claims)
    settings, seeds = settings_from(options.where), seeds_from(options.seeds)
    directory = Directory(options.dir)
    for registration in register(
        directory, claims, seeds, looks=options.looks, settings=settings or None, studies=studies
    ):
        terms = registration.terms
        for name in registration.claims:
            _say(f"registered: {name.split('/', 2)[2]}")
        chosen = [f"{name} {value}" for name, value in terms.fields.items()]
        _say(f"{', '.join([registration.study, str(terms.design), *chosen])}: registration {registration.short_digest}")
        _say(f"seeds: {' '.join(map(str, terms.seeds))}; runs at others decide nothing")
        added = len(terms.seeds) - len(seeds)
        if seeds and added > 0:
            _say(f"{counted(len(seeds), 'seed')} given; {added} more were added from the fixed list")
        if terms.design.sequential:
            _say(price_of_looks(terms.design, claims))
        if earlier := runs_before(directory.history, registration):
            _say(f"these claims are post hoc for the {counted(earlier, 'run')} already there")
    _say(
        "Put the digest into a paper, a commit or a public registry; "
        f"`kymograph verify {options.dir} --anchor DIGEST` checks it."
    )
    return 0


def _say(text: str) -> None:
    print(folded(text, line_width(), further="  "))


@dataclass(frozen=True)
class JudgeOptions:
    """Judge the claims about stored runs; torch is not needed."""

    directories: Annotated[tuple[str, ...], positional(), shown("[DIR [DIR]]", default="runs")] = ()
    """Directory of the runs; with --csv two directories of CSV files."""
    claims: Annotated[str | None, shown("FILE", default="those of the studies")] = None
    """Your own claims, a TOML or Python file."""
    study: Annotated[str | None, shown("STUDY", default="all")] = None
    """Only runs of this study: its name, or module:Name or file.py to judge the claims in its code."""
    where: Annotated[tuple[str, ...], shown("FIELD=VALUE ...", default="all")] = ()
    """Only runs with these settings, e.g. --where epochs=60."""
    csv: bool = False
    """The directories contain CSV files (columns seed, step, value); each directory is one arm."""
    direction: Annotated[tuple[str, ...], shown("less|greater|SERIES=... ...", default="required with --csv")] = ()
    """With --csv: whether the last value is claimed to be less or greater in the first directory, for all series or for
    each, e.g. --direction loss=less accuracy=greater."""
    wide: bool = False
    """One table of about 190 columns instead of a card per claim; scroll it with `less -S`."""
    json: Annotated[str | None, shown("FILE", default="none")] = None
    """Also write the verdicts to this JSON file; - prints nothing but JSON."""
    markdown: Annotated[str | None, shown("FILE", default="none")] = None
    """Also write the table to this Markdown file; - prints nothing but Markdown."""


def judge_verb(words: list[str]) -> int:
    """Prints the verdicts and writes the files asked for; returns 0 whatever the verdicts are."""
    options = parse(JudgeOptions, words, "kymograph judge")
    piped = "-" in (options.json, options.markdown)
    if options.json == options.markdown == "-":
        raise UsageError("--json - and --markdown - both print to standard output; choose one")
    from kymograph._claims.judge import judge
    from kymograph._claims.judge_csv import judge_csv
    from kymograph._claims.registration import log_problems
    from kymograph._pictures.verdict_table import print_verdicts, write_verdicts
    from kymograph._runs.directory import read_directory

    if options.csv:
        if len(options.directories) != 2:
            raise UsageError("--csv compares two directories; name both")
        if options.study or options.where:
            raise UsageError("--study and --where choose among stored runs, not CSV files; drop them")
        first, second = options.directories
        verdicts = judge_csv(first, second, options.claims, options.direction)
    else:
        if options.direction:
            raise UsageError("--direction is for CSV files (--csv); claims about stored runs have their own")
        if len(options.directories) > 1:
            raise UsageError("judge one directory of runs, or two of CSV files with --csv")
        root = options.directories[0] if options.directories else "runs"
        study = named_study(options.study)
        directory = read_directory(directory_of_runs(root), study.name)
        verdicts = judge(directory, options.claims, settings_from(options.where), studies=study.code)
        if not len(verdicts) and (problems := log_problems(directory.log)):
            raise KymographError(
                f"{problems[0]}, and no claim is left to judge; restore {directory.root}/log from a copy"
            )
    if not len(verdicts) and not verdicts.never_run:
        print("no claims are registered for these runs; state some with --claims FILE", file=sys.stderr)
        if not piped:
            return 0
    if not piped:
        print_verdicts(verdicts, options.wide)
    for path in write_verdicts(verdicts, options.json, options.markdown):
        print(path, file=sys.stderr if piped else sys.stdout)
    return 0


@dataclass(frozen=True)
class PowerOptions:
    """Compute the power of claims for several numbers of seeds, with both tests, corrected for the family."""

    claims: Annotated[str, positional(), shown("CLAIMS")]
    """A TOML or Python file of claims, or a study: its name or module:Name."""
    effect: Annotated[tuple[float, ...], shown("SIZE ...", default="0.5 0.8 1 1.5 2 sd; with --sd, by the margin")] = ()
    """True effects, in standard deviations beyond the margin; with --sd, in the measure's units or as a ratio."""
    sd: Annotated[float | None, shown("SD", default="effects are in standard deviations")] = None
    """Standard deviation of the paired differences, or of the log ratios."""
    family: Annotated[int | None, shown("N", default="the claims named, and the others of their study")] = None
    """Number of claims that share the level."""
    n: Annotated[tuple[int, ...], shown("N ...")] = (6, 8, 10, 15, 20, 30)
    """Numbers of seeds."""
    looks: Annotated[tuple[int, ...], shown("N ...", default="none")] = ()
    """The power of a sequential design with these looks, e.g. 10 15 20, next to one look at the last."""


def power_verb(words: list[str]) -> int:
    """Prints tables of power in percent."""
    options = parse(PowerOptions, words, "kymograph power")
    if options.family is not None:
        at_least("family", options.family, 1)
    from kymograph._claims.claim_files import named_claims
    from kymograph._claims.design import Design
    from kymograph._claims.power import STANDARD_EFFECTS, monte_carlo_error, power_tables, price_of_looks

    claims, _ = named_claims(options.claims)
    width = line_width()
    if options.looks:
        if options.sd is not None:
            raise UsageError("--looks compares designs at effects in standard deviations; drop --sd")
        prices = price_of_looks(Design(options.looks), claims, options.effect or STANDARD_EFFECTS, options.family)
        for line in prices.splitlines():
            _say(line)
        return 0
    family: str = ""
    listed: tuple[str, ...] = ()
    for table in power_tables(claims, options.effect, options.sd, options.family, options.n):
        if (table.family, table.claims) != (family, listed):  # several tables may be about the same claims
            if table.family != family:
                print(folded(table.family, width))
            for claim in table.claims:
                print(folded(claim, width, "  - ", "    "))
            print()
            family, listed = table.family, table.claims
        print(folded(table.question, width, "  "))
        _print_rows(table)
        print()
    print(
        folded(
            f"To ±{100 * monte_carlo_error():.1f} (Monte Carlo, fixed seed): both tests on normal differences, at the "
            "level over the size of the family. Claims that are decided along with others have more.",
            width,
        )
    )
    return 0


def _print_rows(table: PowerTable) -> None:
    """Prints a row per number of seeds."""
    full = [cells for _, cells in table.rows if len(cells) == len(table.columns)]
    width = 2 + max(6, *(len(cell) for cells in (table.columns, *full) for cell in cells))
    print(f"{'n':>6}" + "".join(f"{column:>{width}}" for column in table.columns))
    for n, cells in table.rows:
        row = "".join(f"{cell:>{width}}" for cell in cells) if cells in full else f"  {cells[0]}"
        print(f"{n:>6}{row}")


@dataclass(frozen=True)
class VerifyOptions:
    """Check the log, records, planned runs and registrations of a directory; exit with 1 if anything is wrong."""

    directory: Annotated[str, positional(), shown("[DIR|FILE]")] = "runs"
    """Directory of the runs, or a bundle of one."""
    anchor: Annotated[str | None, shown("DIGEST", default="none")] = None
    """Digest of a published registration, which must be in the log."""
    rerun: Annotated[int, shown("N")] = 0
    """Compute N randomly chosen runs again and compare them."""
    study: Annotated[str | None, shown("STUDY", default="registered studies only")] = None
    """module:Name or file.py of a user-defined study whose code may be executed for --rerun."""
    seed: Annotated[int | None, shown("SEED", default="at random")] = None
    """Seed for choosing the runs of --rerun."""


def verify_verb(words: list[str]) -> int:
    """Prints what was checked; returns 1 if anything is wrong."""
    options = parse(VerifyOptions, words, "kymograph verify")
    from kymograph._sharing.verify import all_hold, verify, verify_bundle

    study = named_study(options.study)
    check = verify if Path(options.directory).is_dir() else verify_bundle
    results = check(options.directory, options.anchor, options.rerun, study.code, options.seed)
    for result in results:
        print(result)
    return 0 if all_hold(results) else 1


@dataclass(frozen=True)
class BundleOptions:
    """Pack runs, claims, log, the user-defined code behind them and a report into one file.

    The bundle gets its own report, from the runs in it; figures and a report.html in DIR are left out. The code of
    users' parts that the runs were made with is found automatically.
    """

    output: Annotated[str, shown("FILE", short="-o")]
    """File to write, e.g. runs.kymograph.zip."""
    directory: Annotated[str, positional(), shown("[DIR]")] = "runs"
    """Directory of the runs."""
    study: Annotated[tuple[str, ...], shown("STUDY ...", default="none")] = ()
    """module:Name or file.py of user-defined studies whose code goes into the bundle."""
    thin: bool = False
    """Leave out trained networks, series measured at every step (but for the numbers that claims read from them) and
    the report: small enough to keep beside a published table, and enough to judge again."""


def bundle_verb(words: list[str]) -> int:
    """Writes the bundle; prints its path and the digest that covers everything in it."""
    options = parse(BundleOptions, words, "kymograph bundle")
    from kymograph._sharing.bundle import write_bundle
    from kymograph._studies.loading import load_with_reference

    loaded = [load_with_reference(reference) for reference in options.study]
    digest = write_bundle(options.directory, options.output, {study.name: code for study, code in loaded}, options.thin)
    print(f"{options.output}\nbundle {digest[:16]}")
    return 0


@dataclass(frozen=True)
class AbandonOptions:
    """Give up planned runs that have no results; the log keeps them with the reason, and verdicts mention it."""

    reason: Annotated[str, shown("TEXT")]
    """Why the runs are given up, or taken back."""
    directory: Annotated[str, positional(), shown("[DIR]")] = "runs"
    """Directory of the runs."""
    study: Annotated[str | None, shown("STUDY", default="all")] = None
    """Only runs of this study."""
    arms: Annotated[tuple[str, ...], shown("ARM ...", default="all")] = ()
    """Only these arms, by name or pattern."""
    seeds: Annotated[tuple[str, ...], shown("SEED ...", default="all")] = ()
    """Only these seeds."""
    where: Annotated[tuple[str, ...], shown("FIELD=VALUE ...", default="all")] = ()
    """Only runs with these settings, e.g. --where lr=0.1."""
    finished: bool = False
    """Also give up runs that finished or diverged; without it they are kept, whatever was selected."""
    undo: bool = False
    """Take abandoned runs back; verdicts say so, and are post hoc if results may have been seen meanwhile."""


def abandon_verb(words: list[str]) -> int:
    """Logs that planned runs are given up, or taken back; prints how many."""
    options = parse(AbandonOptions, words, "kymograph abandon")
    check_directory(options.directory)
    chosen = (options.study, options.arms, seeds_from(options.seeds), settings_from(options.where))
    if options.undo:
        if options.finished:
            raise UsageError("--undo takes back every abandoned run that is selected; drop --finished")
        count = reinstate_runs(options.directory, options.reason, *chosen)
        print(f"{counted(count, 'abandoned run')} taken back; verdicts on their arms will say so")
        return 0
    count, kept = abandon_runs(options.directory, options.reason, *chosen, finished=options.finished)
    print(f"{counted(count, 'planned run')} abandoned; verdicts on their arms will say so")
    if kept:
        _say(f"{counted(kept, 'run')} with results kept; to give them up as well, add --finished")
    return 0


def abandon_runs(
    root: str | Path,
    reason: str,
    study: str | None = None,
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (),
    where: Mapping[str, Any] | None = None,
    *,
    finished: bool = False,
) -> tuple[int, int]:
    """Logs that planned runs are given up, and why; returns how many, and how many were kept for their results.

    Runs that are missing, failed or damaged are given up. Giving up results as well must be asked for, however the runs
    were selected: a seed is often finished in one arm and missing in another.

    Args:
        root: the directory of the runs.
        reason: why, in a sentence; verdicts show it.
        study: only runs of this study.
        arms: only these arms, by name or pattern.
        seeds: only these seeds.
        where: only runs with these settings.
        finished: whether to give up runs that have results, too.
    """
    directory = Directory(root).checked()
    planned = _planned(directory, study, arms, seeds, where)
    if not planned:
        raise KymographError(f"no planned run in {root} matches this study, these arms, seeds and settings")
    here = [run for run in planned if run.status != "abandoned"]
    ended = [run.id for run in here if run.stored is not None and run.stored.has_results]
    ids = [run.id for run in here if finished or run.id not in ended]
    if here and not ids:
        raise KymographError(
            f"nothing to abandon: {counted(len(ended), 'run')} selected, all with results; to give them up, add "
            "--finished"
        )
    directory.abandon(ids, ended if finished else [], reason)
    return len(ids), 0 if finished else len(ended)


def reinstate_runs(
    root: str | Path,
    reason: str,
    study: str | None = None,
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (),
    where: Mapping[str, Any] | None = None,
) -> int:
    """Logs that abandoned runs are taken back, and why; returns how many. The arguments are those of `abandon_runs`."""
    directory = Directory(root).checked()
    ids = [run.id for run in _planned(directory, study, arms, seeds, where) if run.status == "abandoned"]
    if not ids:
        raise KymographError(f"no abandoned run in {root} matches this study, these arms, seeds and settings")
    directory.reinstate(ids, reason)
    return len(ids)


def _planned(
    directory: Directory,
    study: str | None,
    arms: Sequence[str],
    seeds: Sequence[int],
    where: Mapping[str, Any] | None,
) -> list[NamedRun]:
    """Returns the planned runs of the current code, and the abandoned ones, that match a selection."""
    from kymograph._runs.listing import choose_runs, named_runs

    every = [run for run in named_runs(directory) if run.id in directory.history.planned]
    return choose_runs(every, study=study, arms=arms, seeds=seeds, where=where) if every else []
