"""``kymograph judge``: verdicts on the claims about stored runs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import parse, positional, settings_from, shown
from kymograph.cli.options import named_study
from kymograph.errors import KymographError, UsageError

PART = {
    "about": "verdicts on the registered claims, over seeds; --claims FILE for your own",
    "usage": "judge DIR",
    "order": 70,
}


@dataclass(frozen=True)
class Options:
    """Judge the claims about stored runs; torch is not needed."""

    directories: Annotated[tuple[str, ...], positional(), shown("DIR [DIR]", default="required")]
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


def main(words: list[str]) -> int:
    """Prints the verdicts and writes the files asked for; returns 0 whatever the verdicts are."""
    options = parse(Options, words, "kymograph judge")
    piped = "-" in (options.json, options.markdown)
    if options.json == options.markdown == "-":
        raise UsageError("--json - and --markdown - both print to standard output; choose one")
    from kymograph.claims.log_problems import log_problems
    from kymograph.lab.judge import judge
    from kymograph.lab.judge_csv import judge_csv
    from kymograph.lab.select_runs import read_archive
    from kymograph.report.verdict_table import print_verdicts, write_verdicts

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
        if len(options.directories) != 1:
            raise UsageError("judge one directory of runs, or two of CSV files with --csv")
        study = named_study(options.study)
        archive = read_archive(options.directories[0], study.name)
        verdicts = judge(archive, options.claims, settings_from(options.where), studies=study.code)
        if not len(verdicts) and (problems := log_problems(archive.log)):
            raise KymographError(
                f"{problems[0]}, and no claim is left to judge; restore {archive.root}/log from a copy"
            )
    if not len(verdicts) and not verdicts.facts.get("not_asked"):
        print("no claims are registered for these runs; state some with --claims FILE", file=sys.stderr)
        if not piped:
            return 0
    if not piped:
        print_verdicts(verdicts, options.wide)
    for path in write_verdicts(verdicts, options.json, options.markdown):
        print(path, file=sys.stderr if piped else sys.stdout)
    return 0
