"""Verbs that show or hand on stored runs: figure, report, export."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from kymograph._cli.arguments import (
    FORMATS,
    SPREADS,
    STYLES,
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
        "order": 110,
    },
    "report": {
        "attribute": "report_verb",
        "options": "ReportOptions",
        "about": "stored runs and their verdicts as one self-contained HTML page",
        "usage": "report DIR",
        "order": 120,
    },
    "export": {
        "attribute": "export_verb",
        "options": "ExportOptions",
        "about": "stored runs as JSON, CSV or Parquet, for TensorBoard or MLflow, or as files of another program",
        "usage": "export DIR",
        "order": 130,
    },
}


@dataclass(frozen=True)
class FigureOptions:
    """Draw figures from stored runs, each as PNG, PDF and SVG with its data as CSV."""

    names: Annotated[
        tuple[str, ...], positional(), shown("[NAME ...]", default="all that the stored studies have")
    ] = ()
    """Figures by name."""
    from_: Annotated[tuple[str, ...], shown("PATH ...", name="from")] = ("runs",)
    """Directory of the runs; or files of another program that a figure can read, or directories of them."""
    out: Annotated[str | None, shown("DIR", default="figures inside the runs' directory; for files, here")] = None
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


def figure_verb(words: list[str]) -> int:
    """Draws figures and prints the paths of their files; or lists the figures there are."""
    options = None if words == ["--list"] else parse(FigureOptions, words, "kymograph figure")
    if options is None or options.list:  # the bare list is fast: it does not load tyro
        from kymograph._pictures.figures import list_figures

        rows = [(f"{study:<12} {name}", about) for study, name, about in list_figures()]
        print(columns(rows, line_width(), indent=""))
        return 0
    if not options.from_:
        raise UsageError("--from needs a directory of runs, or files of another program that a figure can read")
    from kymograph._pictures.styles import choose_style

    choose_style(options.style, options.venue)  # a mistake in the style is reported before anything is read
    from kymograph._pictures.saving import FORMATS, save_figure

    with progress(len(options.names) * (2 + len(FORMATS)) or None) as begin:
        figures, default = _from_files(options) if _names_files(options) else _from_runs(options, begin)
        directory = Path(options.out) if options.out else default
        for file, figure in figures.items():
            kinds = [path.suffix[1:] for path in save_figure(figure, directory, file, follow=begin)]
            print(f"{directory / file}.{{{','.join(kinds)}}}")
    return 0


def _names_files(options: FigureOptions) -> bool:
    """Returns whether ``--from`` names files of another program rather than a directory of runs."""
    from kymograph._runs.record import STATUS

    paths = [Path(path) for path in options.from_]
    is_store = len(paths) == 1 and ((paths[0].is_dir() and any(paths[0].rglob(STATUS))) or is_bundle(options.from_[0]))
    if len(paths) > 1 and not all(path.exists() for path in paths):
        raise KymographError(f"there is no file {next(path for path in paths if not path.exists())}")
    if len(paths) > 1 and not options.names:
        raise KymographError("name the figure to draw from these files")
    return bool(options.names) and not is_store and paths[0].exists()


def _from_runs(options: FigureOptions, begin: Callable[[str], None]) -> tuple[Mapping[str, Figure], Path]:
    """Returns the figures of stored runs by file, and the directory for them; without names, all that can be drawn."""
    from kymograph._pictures.figures import figure, figure_names, file_names

    root = Path(options.from_[0])
    store, study = options.select.open(options.from_[0])
    if is_bundle(options.from_[0]):
        root = Path()  # figures of a bundle go next to where the command runs
    elif not options.out:
        check_inside(root / "figures", root)
    style = {"style": options.style, "venue": options.venue, "spread": options.spread}
    drawn = {}
    for name in options.names:
        begin(f"{name}: drawing")
        drawn[name] = figure(name, store, **style, studies=study.code)
    reasons: dict[str, list[str]] = {}
    for name in [] if options.names else figure_names(store, studies=study.code):
        begin(f"{name}: drawing")
        try:
            drawn[name] = figure(name, store, **style, studies=study.code)
        except KymographError as error:
            reasons.setdefault(str(error), []).append(name)
    for reason, names in reasons.items():
        print(f"not drawn: {', '.join(names)}: {reason}", file=sys.stderr)
    files = file_names(drawn, study.code)
    return {files[name]: picture for name, picture in drawn.items()}, root / "figures"


def _from_files(options: FigureOptions) -> tuple[Mapping[str, Figure], Path]:
    """Returns the figures of another program's files by file name, and the directory for them."""
    from kymograph._pictures.figures import figure_from_files, file_name

    if options.select != SelectOptions():
        raise KymographError("--study, --arms and --where choose among stored runs, not files; drop them")
    style = options.style, options.venue, options.spread
    return {file_name(name): figure_from_files(name, options.from_, *style) for name in options.names}, Path()


@dataclass(frozen=True)
class ReportOptions:
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


def report_verb(words: list[str]) -> int:
    """Writes the page and prints its path; names the runs that could not be read."""
    options = parse(ReportOptions, words, "kymograph report")
    from kymograph._claims.judge import judge
    from kymograph._pictures.report.page import TITLE, write_report
    from kymograph._runs.directory import read_directory

    study = named_study(options.study)
    directory = read_directory(directory_of_runs(options.directory), study.name)
    verdicts = judge(directory, options.claims, studies=study.code)
    title = options.title or TITLE
    print(write_report(directory, verdicts, Path(options.output), title=title, studies=study.code))
    return 0


@dataclass(frozen=True)
class ExportOptions:
    """Export stored runs to other programs."""

    directory: Annotated[str, positional(), shown("DIR")]
    """Directory of the runs."""
    to: Annotated[str, choice(FORMATS)]
    """Format of the files."""
    output: Annotated[str, shown("PATH")]
    """File to write: for mlflow an SQLite database, for tensorboard a directory."""
    seed: Annotated[int | None, shown("SEED", default="the only one")] = None
    """Which seed, for a format that holds one seed per file."""
    select: SelectOptions = field(default_factory=SelectOptions)


def export_verb(words: list[str]) -> int:
    """Writes stored runs in another format; prints the path."""
    options = parse(ExportOptions, words, "kymograph export")
    if options.output == "-":
        raise UsageError("kymograph export writes files, not standard output; name one, e.g. --output runs.csv")
    from kymograph._runs.formats import export

    store, _ = options.select.open(options.directory)
    print(export(store, options.to, options.output, options.seed))
    return 0
