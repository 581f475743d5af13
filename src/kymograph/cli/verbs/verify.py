"""``kymograph verify``: is a directory of runs what it says it is?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kymograph.cli.arguments import parse, positional, shown
from kymograph.cli.options import named_study

PART = {
    "about": "check a directory's log, records, plan and registrations, and compute some runs again",
    "usage": "verify DIR|FILE",
    "order": 85,
}


@dataclass(frozen=True)
class Options:
    """Check the log, records, plan and registrations of a directory of runs; exit with 1 if anything is wrong."""

    directory: Annotated[str, positional(), shown("DIR")]
    """Directory of the runs, or a bundle of one."""
    anchor: Annotated[str | None, shown("DIGEST", default="none")] = None
    """Digest of a published registration, which must be in the log."""
    rerun: Annotated[int, shown("N")] = 0
    """Compute N randomly chosen runs again and compare them."""
    study: Annotated[str | None, shown("STUDY", default="registered studies only")] = None
    """module:Name or file.py of a user-defined study whose code may be executed for --rerun."""
    seed: Annotated[int | None, shown("SEED", default="at random")] = None
    """Seed for choosing the runs of --rerun."""


def main(words: list[str]) -> int:
    """Prints what was checked; returns 1 if anything is wrong."""
    options = parse(Options, words, "kymograph verify")
    from kymograph.lab.verify import all_hold, verify, verify_bundle

    study = named_study(options.study)
    check = verify if Path(options.directory).is_dir() else verify_bundle
    findings = check(options.directory, options.anchor, options.rerun, study.code, options.seed)
    for finding in findings:
        print(finding)
    return 0 if all_hold(findings) else 1
