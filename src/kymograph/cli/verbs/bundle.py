"""``kymograph bundle``: a directory of runs as one file that others can verify."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import parse, positional, shown

PART = {
    "about": "pack runs, claims, log, study code and report into one file that `verify` accepts",
    "usage": "bundle DIR -o FILE",
    "order": 86,
}


@dataclass(frozen=True)
class Options:
    """Pack runs, claims, log, the user-defined code behind them and a report into one file.

    The bundle gets its own report, from the runs in it; figures and a report.html in DIR are left out. The code of
    users' rules, models, data sets and nulls that the runs were made with is found automatically.
    """

    directory: Annotated[str, positional(), shown("DIR")]
    """Directory of the runs."""
    output: Annotated[str, shown("FILE", short="-o")]
    """File to write, e.g. runs.kymograph.zip."""
    study: Annotated[tuple[str, ...], shown("STUDY ...", default="none")] = ()
    """module:Name or file.py of user-defined studies whose code goes into the bundle."""


def main(words: list[str]) -> int:
    """Writes the bundle; prints its path and the digest that covers everything in it."""
    options = parse(Options, words, "kymograph bundle")
    from kymograph.lab.bundle import write_bundle
    from kymograph.studies.loading import load_with_reference

    loaded = [load_with_reference(reference) for reference in options.study]
    digest = write_bundle(options.directory, options.output, {study.name: code for study, code in loaded})
    print(f"{options.output}\nbundle {digest[:16]}")
    return 0
