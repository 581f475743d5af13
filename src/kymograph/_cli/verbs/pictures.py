"""Verbs that show or hand on stored runs: figure, report, export."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kymograph._cli.arguments import (
    FORMATS,
    SPREADS,
    STYLES,
    Formerly,
    SelectOptions,
    choice,
    directory_of_runs,
    is_bundle,
    named_study,
    parse,
    positional,
    shown,
)
from kymograph._cli.output import columns, progress
from kymograph._errors import KymographError, UsageError
from kymograph._io.files import check_inside
from kymograph._wording import line_width

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PARTS = {
    "figure": {
        "attribute": "figure_verb",
        "options": "FigureOptions",
        "about": "draw figures from stored runs, as PNG, PDF, SVG and CSV",
        "usage": "figure [NAME ...]",
        "group": "look",
        "order": 310,
    },
    "report": {
        "attribute": "report_verb",
        "options": "ReportOptions",
        "about": "stored runs and their verdicts as one self-contained HTML page",
        "usage": "report [DIR]",
        "group": "look",
        "order": 320,
    },
    "export": {
        "attribute": "export_verb",
        "options": "ExportOptions",
        "about": "stored runs as JSON, CSV or Parquet, for TensorBoard or MLflow, or as files of another program",
        "usage": "export [DIR] -o PATH",
        "group": "look",
        "order": 330,
    },
}

MOST_NAMED = 5
"""How many figures that share a reason for not being drawn are named."""


@dataclass(frozen=True)
class FigureOptions:
    """Draw figures from stored runs, each as PNG, PDF and SVG with its data as CSV."""

    names: Annotated[
        tuple[str, ...], positional(), shown("[NAME ...]", default="all that the stored studies have")
    ] = ()
    """Figures by name."""
    dir: Annotated[tuple[str, ...], shown("PATH ..."), Formerly("--from")] = ("runs",)
    """Directory of the runs; or files of another program that a figure can read, or directories of them."""
    output: Annotated[
        str | None,
        shown("DIR", short="-o", default="figures inside the runs' directory; for files, here"),
        Formerly("--out"),
    ] = None
    """Directory for the figures."""
    style: Annotated[str | None, choice(STYLES), shown(default="notebook, or paper if a venue is given")] = None
    """What the figures are for."""
    venue: Annotated[str | None, shown("VENUE", default="none")] = None
    """Where the paper will appear, e.g. icml2024: sets the figures' width and font sizes."""
    spread: Annotated[str | None, choice(SPREADS), shown(default="interval")] = None
    """What bands over seeds show, where a figure offers the choice: the mean's 95 % interval, or mean and sd."""
    family: Annotated[str | None, shown("PATTERN", default="all, each in its own map")] = None
    """Of a kymograph or profiles, only the layers or families that match, e.g. 'layers.*.mlp.**'."""
    all_sites: bool = False
    """Draw all layers of a kymograph or profiles in one map, instead of one map per family."""
    list: bool = False
    """List the figures and exit."""
    select: SelectOptions = field(default_factory=SelectOptions)


def figure_verb(words: list[str]) -> int:
    """Draws figures and prints the paths of their files; or lists the figures there are.

    Of figures that are named, those that cannot be drawn do not stop the others; the exit code is then 1.
    """
    options = None if words == ["--list"] else parse(FigureOptions, words, "kymograph figure")
    if options is None or options.list:  # the bare list is fast: it does not load tyro
        from kymograph._pictures.figures import list_figures

        rows = [(f"{study:<12} {name}", about) for study, name, about in list_figures()]
        print(columns(rows, line_width(), indent=""))
        return 0
    if not options.dir:
        raise UsageError("--dir needs a directory of runs, or files of another program that a figure can read")
    from kymograph._pictures.styles import choose_style

    choose_style(options.style, options.venue)  # a mistake in the style is reported before anything is read
    from kymograph._pictures.saving import FORMATS, save_figure

    with progress(len(options.names) * (2 + len(FORMATS)) or None) as begin:
        drawn = _from_files(options, begin) if _names_files(options) else _from_runs(options, begin)
        directory = Path(options.output) if options.output else drawn.directory
        for file, figure in drawn.figures.items():
            kinds = [path.suffix[1:] for path in save_figure(figure, directory, file, follow=begin)]
            print(f"{directory / file}.{{{','.join(kinds)}}}")
    for reason, names in drawn.reasons.items():
        print(f"not drawn: {_some_of(names)}: {reason}", file=sys.stderr)
    return 1 if options.names and drawn.reasons else 0


@dataclass(frozen=True)
class DrawnFigures:
    """The figures that could be drawn, and why the others could not."""

    figures: Mapping[str, Figure]
    """By the name of their files."""
    reasons: Mapping[str, list[str]]
    """The names of the figures that could not be drawn, by the reason."""
    directory: Path
    """Where the files go unless the user says otherwise."""


def _some_of(names: list[str]) -> str:
    """Returns the first names, and how many more there are."""
    more = len(names) - MOST_NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:MOST_NAMED])} and {more} more"


def _drawn(
    names: Iterable[str], draw: Callable[[str], Figure], begin: Callable[[str], None]
) -> tuple[dict[str, Figure], dict[str, list[str]]]:
    """Returns the figures that can be drawn, by name, and the names of the others by reason.

    Raises the reason if there is one name only, so that a mistake in it is an error like any other.
    """
    drawn: dict[str, Figure] = {}
    reasons: dict[str, list[str]] = {}
    for name in (names := list(dict.fromkeys(names))):
        begin(f"{name}: drawing")
        try:
            drawn[name] = draw(name)
        except KymographError as error:
            if len(names) == 1:
                raise
            reasons.setdefault(str(error), []).append(name)
    return drawn, reasons


def _names_files(options: FigureOptions) -> bool:
    """Returns whether ``--dir`` names files of another program rather than a directory of runs."""
    from kymograph._runs.record import STATUS

    paths = [Path(path) for path in options.dir]
    is_store = len(paths) == 1 and ((paths[0].is_dir() and any(paths[0].rglob(STATUS))) or is_bundle(options.dir[0]))
    if len(paths) > 1 and not all(path.exists() for path in paths):
        raise KymographError(f"there is no file {next(path for path in paths if not path.exists())}")
    if len(paths) > 1 and not options.names:
        raise KymographError("name the figure to draw from these files")
    return bool(options.names) and not is_store and paths[0].exists()


def _from_runs(options: FigureOptions, begin: Callable[[str], None]) -> DrawnFigures:
    """Returns the figures of stored runs; without names, all that can be drawn."""
    from kymograph._pictures.figures import figure, figure_names, file_names

    root = Path(options.dir[0])
    store, study = options.select.open(options.dir[0])
    if is_bundle(options.dir[0]):
        root = Path()  # figures of a bundle go next to where the command runs
    elif not options.output:
        check_inside(root / "figures", root)
    names = options.names or figure_names(store, studies=study.code)

    def draw(name: str) -> Figure:
        return figure(name, store, options.style, options.venue, study.code, options.spread, options.family,
                      options.all_sites)  # fmt: skip

    drawn, reasons = _drawn(names, draw, begin)
    files = file_names(drawn, study.code)
    return DrawnFigures({files[name]: picture for name, picture in drawn.items()}, reasons, root / "figures")


def _from_files(options: FigureOptions, begin: Callable[[str], None]) -> DrawnFigures:
    """Returns the figures of another program's files."""
    from kymograph._pictures.figures import figure_from_files, file_name

    if options.select != SelectOptions():
        raise KymographError("--study, --arms and --where choose among stored runs, not files; drop them")
    if options.family is not None or options.all_sites:
        raise KymographError("--family and --all-sites choose among the layers of stored runs, not files; drop them")
    style = options.style, options.venue, options.spread
    drawn, reasons = _drawn(options.names, lambda name: figure_from_files(name, options.dir, *style), begin)
    return DrawnFigures({file_name(name): picture for name, picture in drawn.items()}, reasons, Path())


@dataclass(frozen=True)
class ReportOptions:
    """Write stored runs and their verdicts as one self-contained HTML page."""

    directory: Annotated[str, positional(), shown("[DIR]")] = "runs"
    """Directory of the runs."""
    claims: Annotated[str | None, shown("FILE", default="those of the studies")] = None
    """Your own claims, a TOML or Python file, as for `kymograph judge`."""
    study: Annotated[str | None, shown("STUDY", default="all")] = None
    """Only runs of this study: its name, or module:Name or file.py to judge the claims in its code."""
    output: Annotated[str, shown("FILE", short="-o")] = "report.html"
    """File to write."""
    title: Annotated[str | None, shown("TITLE", default="a general one")] = None
    """Title of the page."""


def report_verb(words: list[str]) -> int:
    """Writes the page and prints its path; names the runs that could not be read."""
    options = parse(ReportOptions, words, "kymograph report")
    from kymograph._pictures.report_page.page import TITLE, report
    from kymograph._runs.directory import read_directory

    study = named_study(options.study)
    directory = read_directory(directory_of_runs(options.directory), study.name)
    print(report(directory, options.output, claims=options.claims, studies=study.code, title=options.title or TITLE))
    return 0


@dataclass(frozen=True)
class ExportOptions:
    """Export stored runs to other programs."""

    to: Annotated[str, choice(FORMATS)]
    """Format of the files."""
    output: Annotated[str, shown("PATH", short="-o")]
    """File to write: for mlflow an SQLite database, for tensorboard a directory."""
    directory: Annotated[str, positional(), shown("[DIR]")] = "runs"
    """Directory of the runs."""
    seed: Annotated[int | None, shown("SEED", default="the only one")] = None
    """Which seed, for a format that holds one seed per file."""
    select: SelectOptions = field(default_factory=SelectOptions)


def export_verb(words: list[str]) -> int:
    """Writes stored runs in another format; prints the path."""
    options = parse(ExportOptions, words, "kymograph export")
    if options.output == "-":
        raise UsageError("kymograph export writes files, not standard output; name one, e.g. -o runs.csv")
    from kymograph._runs.formats import export

    store, _ = options.select.open(options.directory)
    print(export(store, options.to, options.output, options.seed))
    return 0
