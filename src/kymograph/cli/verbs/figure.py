"""``kymograph figure``: figures from stored runs, or from the research scripts' logs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kymograph.cli.arguments import choice, parse, positional, shown
from kymograph.cli.choices import SPREADS, STYLES
from kymograph.cli.delayed_progress import progress
from kymograph.cli.help_text import columns
from kymograph.cli.options import SelectOptions
from kymograph.errors import KymographError, UsageError
from kymograph.foreign.writes import check_inside
from kymograph.wording import line_width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PART = {
    "about": "draw figures from stored runs, as PNG, PDF, SVG and CSV",
    "usage": "figure [NAME ...]",
    "order": 110,
}


@dataclass(frozen=True)
class Options:
    """Draw figures from stored runs, each as PNG, PDF and SVG with its data as CSV."""

    names: Annotated[
        tuple[str, ...], positional(), shown("[NAME ...]", default="all that the stored studies have")
    ] = ()
    """Figures by name."""
    from_: Annotated[tuple[str, ...], shown("PATH ...", name="from")] = ("runs",)
    """Directory of the runs; or, for the snapshot figures, JSON logs of the snapshot scripts or directories of them."""
    out: Annotated[str | None, shown("DIR", default="figures inside the runs' directory; for logs, here")] = None
    """Directory for the figures."""
    style: Annotated[str | None, choice(STYLES), shown(default="notebook, or paper if a venue is given")] = None
    """What the figures are for."""
    venue: Annotated[str | None, shown("VENUE", default="none")] = None
    """Where the paper will appear, e.g. icml2024: sets the figures' width and font sizes."""
    spread: Annotated[str | None, choice(SPREADS), shown(default="interval")] = None
    """What bands over seeds show, where a figure offers the choice: the mean's 95 % interval, or mean and sd."""
    list: bool = False
    """List the figures and exit."""
    select: SelectOptions = field(default_factory=SelectOptions)


def main(words: list[str]) -> int:
    """Draws figures and prints the paths of their files; or lists the figures there are."""
    options = None if words == ["--list"] else parse(Options, words, "kymograph figure")
    if options is None or options.list:  # the bare list is fast: it does not load tyro
        _print_list()
        return 0
    if not options.from_:
        raise UsageError("--from needs a directory of runs, or logs of the snapshot scripts")
    from kymograph.figures.looks import choose_look

    choose_look(options.style, options.venue)  # a mistake in the look is reported before anything is read
    from kymograph.figures.save import FORMATS, save_figure

    with progress(len(options.names) * (2 + len(FORMATS)) or None) as begin:
        figures, default = _from_logs(options) if _names_logs(options) else _from_runs(options, begin)
        directory = Path(options.out) if options.out else default
        for file, figure in figures.items():
            kinds = [path.suffix[1:] for path in save_figure(figure, directory, file, follow=begin)]
            print(f"{directory / file}.{{{','.join(kinds)}}}")
    return 0


def _print_list() -> None:
    from kymograph.lab.figures import list_figures

    print(columns([(f"{study:<12} {name}", about) for study, name, about in list_figures()], line_width(), indent=""))


def _names_logs(options: Options) -> bool:
    """Returns whether ``--from`` names the scripts' logs rather than a directory of runs."""
    from kymograph.runs.record import STATUS

    paths = [Path(path) for path in options.from_]
    is_store = len(paths) == 1 and paths[0].is_dir() and any(paths[0].rglob(STATUS))
    if len(paths) > 1 and not all(path.exists() for path in paths):
        raise KymographError(f"there is no log {next(path for path in paths if not path.exists())}")
    if len(paths) > 1 and not options.names:
        raise KymographError("name the figure to draw from these logs")
    return bool(options.names) and not is_store and paths[0].exists()


def _from_runs(options: Options, begin: Callable[[str], None]) -> tuple[Mapping[str, Figure], Path]:
    """Returns the figures of stored runs by file, and the directory for them; without names, all that can be drawn."""
    from kymograph.lab.figures import figure, figure_names, file_names

    root = Path(options.from_[0])
    store, study = options.select.open(options.from_[0])
    if not options.out:
        check_inside(root / "figures", root)
    look = {"style": options.style, "venue": options.venue, "spread": options.spread}
    drawn = {}
    for name in options.names:
        begin(f"{name}: drawing")
        drawn[name] = figure(name, store, **look, studies=study.code)
    reasons: dict[str, list[str]] = {}
    for name in [] if options.names else figure_names(store, studies=study.code):
        begin(f"{name}: drawing")
        try:
            drawn[name] = figure(name, store, **look, studies=study.code)
        except KymographError as error:
            reasons.setdefault(str(error), []).append(name)
    for reason, names in reasons.items():
        print(f"not drawn: {', '.join(names)}: {reason}", file=sys.stderr)
    files = file_names(drawn, study.code)
    return {files[name]: one for name, one in drawn.items()}, root / "figures"


def _from_logs(options: Options) -> tuple[Mapping[str, Figure], Path]:
    """Returns the figures of the scripts' logs by file, and the directory for them."""
    from kymograph.lab.figures import figure_from_logs, file_name

    if options.select != SelectOptions():
        raise KymographError("--study, --arms and --where choose among stored runs, not logs; drop them")
    look = options.style, options.venue, options.spread
    return {file_name(name): figure_from_logs(name, options.from_, *look) for name in options.names}, Path()
