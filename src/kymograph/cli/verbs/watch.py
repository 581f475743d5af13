"""``kymograph watch``: a running sweep, live."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kymograph.cli.arguments import parse, positional, shown
from kymograph.cli.options import named_study
from kymograph.errors import KymographError

PART = {
    "about": "follow a running sweep in the terminal, or in a browser with --web",
    "usage": "watch DIR",
    "order": 40,
}


@dataclass(frozen=True)
class Options:
    """Follow a running sweep: what is done, failed, running and still to come, and its numbers so far."""

    directory: Annotated[str, positional(), shown("[DIR]")] = "runs"
    """Directory of the runs."""
    study: Annotated[str | None, shown("STUDY", default="all")] = None
    """Only this study, by name, module:Name or file.py."""
    once: bool = False
    """Print the current state and exit."""
    follow: bool = False
    """Keep watching after all planned runs have ended, for a sweep that is still to start."""
    web: bool = False
    """Serve a page to the browsers of this machine instead, until Ctrl-C."""
    port: Annotated[int, shown("PORT")] = 8765
    """Port of the page; 0 chooses a free one."""


def main(words: list[str]) -> int:
    """Shows a running sweep until it ends, or until Ctrl-C."""
    options = parse(Options, words, "kymograph watch")
    directory = _directory(options.directory, named_study(options.study).name)
    if options.web:
        from kymograph.live.web import serve

        return serve(directory, options.port)
    from kymograph.live.terminal import watch

    return watch(directory, options.once, options.follow)


def _directory(root: str, study: str | None) -> str:
    """Returns the directory to watch: the whole directory of runs, or that of one study in it."""
    if study is None:
        return root
    from kymograph.runs.spec import slug

    directory = Path(root) / slug(study)
    if Path(root).is_dir() and not directory.is_dir():
        raise KymographError(f"{root} has no runs of {study!r}")
    return str(directory)
