"""The options of every verb; tyro reads names, types and help texts from here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from tyro.conf import Positional, arg


@dataclass(frozen=True)
class ListOptions:
    """The studies, their questions and their arms."""

    study: Positional[str] = ""
    """Show all arms and settings of this study."""


@dataclass(frozen=True)
class RunOptions:
    """What to run and where; the study's own settings follow."""

    seeds: tuple[str, ...] = ()
    """Explicit seeds, e.g. --seeds 42 123 456."""
    n_seeds: int | None = None
    """The first so many of the fixed list of seeds, which starts 42, 123, 456. (10 if no seeds are given)"""
    arms: tuple[str, ...] = ()
    """Arms by name or pattern, e.g. 'extreme/*'; default: the study's default arms."""
    out: str = "runs"
    """Directory of the runs."""
    engine: Literal["auto", "serial", "processes"] = "auto"
    """Who computes: this process, several, or what suits the work."""
    workers: int | None = None
    """How many processes; default: one per core."""
    device: str = "auto"
    """auto, cpu, cuda or mps."""
    data_dir: str | None = None
    """Directory of CIFAR-10 in either official layout; default: the variable KYMOGRAPH_DATA."""
    quiet: bool = False
    """Show no progress."""


@dataclass(frozen=True)
class RulesOptions:
    """The credit plan of every learning rule, each line put to the test beside autograd's gradients."""

    model: Literal["resmlp", "vit", "conv"] = "resmlp"
    """The network."""
    seed: int = 42
    """Seed of the weights and the feedback matrices."""


@dataclass(frozen=True)
class SelectOptions:
    """Which of the stored runs."""

    study: str | None = None
    """Only runs of this study."""
    arms: tuple[str, ...] = ()
    """Only these arms, by name or pattern."""
    where: tuple[str, ...] = ()
    """Only runs with these settings, e.g. --where lr=0.1 task=identity."""


@dataclass(frozen=True)
class ExportOptions:
    """Stored runs for other programs."""

    directory: Positional[str]
    """Directory of the runs."""
    to: Literal["json", "csv", "parquet", "tensorboard", "mlflow", "script"]
    """Format; `script` is the layout that the study's research script wrote, one seed a file."""
    output: str
    """File to write: for mlflow an SQLite database, for tensorboard a directory."""
    seed: int | None = None
    """With `--to script`: which seed; default: the only one."""
    select: SelectOptions = field(default_factory=SelectOptions)


@dataclass(frozen=True)
class FigureOptions:
    """Figures from stored runs, each as PNG, PDF and SVG with its data as CSV."""

    names: Positional[tuple[str, ...]] = ()
    """Figures by name; default: all that the stored studies have."""
    from_: Annotated[tuple[str, ...], arg(name="from")] = ("runs",)
    """Directory of the runs; or, for the snapshot figures, JSON logs of the snapshot scripts or directories of them."""
    out: str | None = None
    """Directory for the figures; default: `figures` inside the runs' directory, or here for logs."""
    style: Literal["notebook", "paper", "slides"] | None = None
    """What the figures are for; default: notebook, or paper if a venue is given."""
    venue: str | None = None
    """Where the paper will appear, e.g. icml2024: sets the figures' width and font sizes."""
    list: bool = False
    """Only list the figures."""
    select: SelectOptions = field(default_factory=SelectOptions)


@dataclass(frozen=True)
class ReportOptions:
    """Stored runs and their verdicts as one self-contained HTML page."""

    directory: Positional[str]
    """Directory of the runs."""
    output: Annotated[str, arg(aliases=("-o",))] = "report.html"
    """File to write."""
    title: str = "Training dynamics: runs and verdicts"
    """Title of the page."""


@dataclass(frozen=True)
class ReproduceOptions:
    """Every study, its figures, the verdicts on every claim, and the report."""

    out: str = "runs/reproduce"
    """Directory of the runs."""
    quick: bool = False
    """8 seeds and shorter training of the image studies."""
    data: Literal["digits", "cifar10"] = "digits"
    """Images: scikit-learn's digits (embedded), or CIFAR-10, the real thing (hours)."""
    data_dir: str | None = None
    """Directory of CIFAR-10 in either official layout; default: the variable KYMOGRAPH_DATA."""
    epochs: int | None = None
    """Epochs of the image studies; default: 20 on digits (10 with --quick), the scripts' own on cifar10."""
    n_seeds: int | None = None
    """Seeds of the fixed list. (10, or 8 with --quick)"""
    engine: Literal["auto", "serial", "processes"] = "auto"
    """Who computes."""
    device: str = "auto"
    """auto, cpu, cuda or mps."""
    workers: int | None = None
    """How many processes; default: one per core."""


@dataclass(frozen=True)
class BenchOptions:
    """This package beside the scripts' way of working, interleaved, as ratios with their spread."""

    names: Positional[tuple[str, ...]] = ()
    """Which comparisons; default: all."""
    repeats: int = 3
    """How often each side is timed."""
    markdown: str | None = None
    """Also write the table to this file."""
    readme: str | None = None
    """Also put the table between the marks <!-- bench --> and <!-- /bench --> of this file."""


@dataclass(frozen=True)
class FetchOptions:
    """Data that a user asks for by name, from its official place, checked."""

    name: Positional[Literal["cifar10"]]
    """What to fetch."""
    directory: Positional[str]
    """Where to put it; give this directory to `--data-dir` or KYMOGRAPH_DATA."""


@dataclass(frozen=True)
class CalibrateOptions:
    """A trained network's credit cosines against their nulls."""

    checkpoint: Positional[str]
    """A run's directory, its checkpoint.safetensors, or a .pt of the calibration script."""
    data: Literal["digits", "cifar10", "synthetic"] | None = None
    """Test images; default: those the network was trained on, cifar10 for a .pt."""
    data_dir: str | None = None
    """Directory of CIFAR-10 in either official layout; default: the variable KYMOGRAPH_DATA."""
    images: int = 2048
    """How many test images; all of them if there are fewer."""
    draws: int = 999
    """Draws of every null."""
    nulls: tuple[Literal["fresh", "rows", "columns", "samples", "directions"], ...] = (
        "fresh",
        "rows",
        "columns",
        "samples",
        "directions",
    )
    """Which nulls; `fresh`, matrices of the same law, is always among them."""
    seed: int = 0
    """Seed of the nulls."""
    out: str = "calibration"
    """Directory for calibration.json and the histograms."""


@dataclass(frozen=True)
class AuditOptions:
    """Scale, reference and depth of a trained network: PASS or FAIL, with the numbers and the thresholds."""

    network: Positional[str]
    """A run's directory, its checkpoint.safetensors, or a .pt of the calibration script."""
    data: Literal["digits", "cifar10", "synthetic"] | None = None
    """Test images; default: those the network was trained on, cifar10 for a .pt."""
    data_dir: str | None = None
    """Directory of CIFAR-10 in either official layout; default: the variable KYMOGRAPH_DATA."""
    images: int = 1024
    """How many test images; all of them if there are fewer."""
    ladder: bool = True
    """Whether the frozen baseline and the ladder of last-k blocks are trained where they are missing."""
    ladder_out: str | None = None
    """Where these runs are kept; default: beside the audited run."""
    seed: int = 0
    """Seed of the random moves and steps."""
    output: Annotated[str | None, arg(aliases=["-o"])] = None
    """Also write everything as JSON to this file."""
    strict: bool = False
    """Exit with 1 unless all three questions are answered with PASS."""
    quiet: bool = False
    """Show no progress."""


@dataclass(frozen=True)
class WatchOptions:
    """A running sweep, live: what is done, failed, at work and still to come, and its numbers so far."""

    directory: Positional[str] = "runs"
    """Directory of the runs."""
    once: bool = False
    """Print how things stand and exit."""
    follow: bool = False
    """Go on when all planned runs have ended, for a sweep that is still to be started."""
    web: bool = False
    """Serve a page to the browsers of this machine instead, until Ctrl-C."""
    port: int = 8765
    """Port of the page; 0 takes any that is free."""


@dataclass(frozen=True)
class JudgeOptions:
    """Verdicts on the claims about stored runs; needs no torch."""

    directories: Positional[tuple[str, ...]]
    """Directory of the runs; with --csv two directories of CSV files."""
    claims: str | None = None
    """Claims of your own, a TOML or Python file; default: those of the studies."""
    where: tuple[str, ...] = ()
    """Only runs with these settings, e.g. --where epochs=60."""
    csv: bool = False
    """The directories hold CSV files (columns seed, step, value), each directory one arm."""
    json: str | None = None
    """Also write the verdicts to this JSON file."""
    markdown: str | None = None
    """Also write the table to this Markdown file."""


@dataclass(frozen=True)
class RegisterOptions:
    """Claims of your own, registered with a directory before it has runs."""

    directory: Positional[str]
    """Directory that the runs will be in."""
    claims: Positional[str]
    """A TOML or Python file of claims."""


@dataclass(frozen=True)
class SelftestOptions:
    """The judge put to worlds without an effect, and with a known one."""

    worlds: int = 2000
    """Worlds of each kind."""
    seed: int = 0
    """Seed of the worlds."""
