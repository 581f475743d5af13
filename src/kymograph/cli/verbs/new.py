"""``kymograph new``: a user-defined study to start from."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import parse, positional, shown
from kymograph.errors import UsageError

PART = {
    "about": "write a user-defined study to start from, and its test",
    "usage": "new study NAME",
    "order": 22,
}


@dataclass(frozen=True)
class Options:
    """Write a study to start from: NAME.py, which runs as it is, and test_NAME.py."""

    kind: Annotated[str, positional(), shown("study")]
    """What to write: a study."""
    name: Annotated[str, positional(), shown("NAME")]
    """Its name: letters, digits and underscores."""
    directory: Annotated[str, shown("DIR")] = "."
    """Directory for the two files."""


def main(words: list[str]) -> int:
    """Writes the files and prints what to do with them."""
    if len(words) == 1 and words[0] != "study" and not words[0].startswith("-"):
        raise UsageError(f"kymograph new writes a study; did you mean `kymograph new study {words[0]}`?")
    options = parse(Options, words, "kymograph new")
    from kymograph.lab.new_study import new_study

    if options.kind != "study":
        raise UsageError(f"kymograph new writes a study, not {options.kind!r}: kymograph new study NAME")
    made = new_study(options.name, options.directory)
    study, test = shlex.quote(str(made.study)), shlex.quote(str(made.test))
    print(f"wrote {study} and {test}; next:")
    print(f"  kymograph run {study} --n-seeds 10")
    print(f"  kymograph judge runs --study {made.name}")
    print("  kymograph report runs -o report.html")
    print(f"  python -m pytest {test}   # pip install pytest, if it is missing")
    return 0
