"""``kymograph report``: stored runs and their verdicts as one self-contained HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kymograph.cli.arguments import parse, positional, shown
from kymograph.cli.options import named_study

PART = {
    "about": "stored runs and their verdicts as one self-contained HTML page",
    "usage": "report DIR",
    "order": 120,
}


@dataclass(frozen=True)
class Options:
    """Write stored runs and their verdicts as one self-contained HTML page."""

    directory: Annotated[str, positional(), shown("DIR")]
    """Directory of the runs."""
    claims: Annotated[str | None, shown("FILE", default="those of the studies")] = None
    """Your own claims, a TOML or Python file, as for `kymograph judge`."""
    study: Annotated[str | None, shown("STUDY", default="all")] = None
    """Only runs of this study: its name, or module:Name or file.py to judge the claims in its code."""
    output: Annotated[str, shown("FILE", short="-o")] = "report.html"
    """File to write."""
    title: Annotated[str | None, shown("TITLE", default="a general one")] = None
    """Title of the page."""


def main(words: list[str]) -> int:
    """Writes the page and prints its path; names the runs that could not be read."""
    options = parse(Options, words, "kymograph report")
    from kymograph.lab.judge import judge
    from kymograph.lab.report import TITLE, write_report
    from kymograph.lab.select_runs import read_archive

    study = named_study(options.study)
    archive = read_archive(options.directory, study.name)
    verdicts = judge(archive, options.claims, studies=study.code)
    print(write_report(archive, verdicts, Path(options.output), title=options.title or TITLE))
    return 0
