"""``kymograph runs``: stored runs by name, as a table, one in full, or as paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import parse, positional, seeds_from, settings_from, shown
from kymograph.errors import KymographError

PART = {
    "about": "stored runs by name: a table, one run in full, or the paths of those chosen",
    "usage": "runs DIR [NAME]",
    "order": 45,
}


@dataclass(frozen=True)
class Options:
    """Show stored runs by name; torch is not needed."""

    directory: Annotated[str, positional(), shown("DIR")]
    """Directory of the runs."""
    name: Annotated[str, positional(), shown("[NAME]", default="all runs, as a table")] = ""
    """Show one run in full: ARM/sSEED as the table has it, e.g. residual/s42 or residual/s42,lr=0.03; STUDY/ARM/sSEED;
    an id. A pattern such as 'residual/*' chooses several."""
    study: Annotated[str | None, shown("STUDY", default="all")] = None
    """Only runs of this study."""
    arm: Annotated[tuple[str, ...], shown("ARM ...", default="all", short="--arms")] = ()
    """Only these arms, by name or pattern."""
    seed: Annotated[tuple[str, ...], shown("SEED ...", default="all", short="--seeds")] = ()
    """Only these seeds."""
    status: Annotated[str | None, shown("STATUS", default="all")] = None
    """Only runs that are finished, failed, missing, superseded, abandoned or damaged."""
    where: Annotated[tuple[str, ...], shown("FIELD=VALUE ...", default="all")] = ()
    """Only runs with these settings, e.g. --where lr=0.1."""
    json: bool = False
    """Print JSON: a list of runs, or with NAME one run in full."""
    path: bool = False
    """Print the runs' directories, one per line."""


def main(words: list[str]) -> int:
    """Prints the runs asked for."""
    options = parse(Options, words, "kymograph runs")
    import json
    import sys

    from kymograph.lab.run_list import choose_runs, run_facts, run_table, run_text
    from kymograph.runs.archive import Archive
    from kymograph.runs.names import match, named_runs

    if options.json and options.path:
        raise KymographError("--json and --path print different things; choose one")
    archive = Archive.open(options.directory).checked(series=False)
    for reason in archive.unreadable:
        print(f"left out: {reason}", file=sys.stderr)
    every = named_runs(archive)
    if not every:
        raise KymographError(
            f"{options.directory} contains no runs; make some with `kymograph run STUDY --out {options.directory}`"
        )
    chosen = choose_runs(
        match(every, options.name) if options.name else every,
        study=options.study,
        arms=options.arm,
        seeds=seeds_from(options.seed),
        status=options.status,
        where=settings_from(options.where),
    )
    one = bool(options.name) and len(chosen) == 1
    if options.path:
        print("\n".join(str(run.directory) for run in chosen if run.directory is not None))
    elif options.json:
        found = run_facts(chosen[0], whole=True) if one else [run_facts(run) for run in chosen]
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        print(run_text(chosen[0]) if one else run_table(chosen, archive.declarations))
    return 0
