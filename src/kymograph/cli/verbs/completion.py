"""``kymograph completion``: a script with which a shell completes verbs, studies and options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import choice, parse, positional
from kymograph.cli.choices import SHELLS

PART = {
    "about": "print a completion script for bash, zsh or fish",
    "usage": "completion SHELL",
    "order": 155,
}


@dataclass(frozen=True)
class Options:
    """Print a script that completes verbs, studies, options and settings; `eval` it when the shell starts."""

    shell: Annotated[str, positional(), choice(SHELLS)]
    """The shell."""


def main(words: list[str]) -> int:
    """Prints the script."""
    shell = parse(Options, words, "kymograph completion").shell
    from kymograph.cli.completion import SCRIPTS, vocabulary
    from kymograph.studies.loading import list_studies

    print(SCRIPTS[shell](vocabulary(), [study.name for study in list_studies()]), end="")
    return 0
