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
class ReproduceOptions:
    """Every study on embedded data, and its figures."""

    out: str = "runs/reproduce"
    """Directory of the runs."""
    n_seeds: int = 10
    """Seeds of the fixed list."""
    engine: Literal["auto", "serial", "processes"] = "auto"
    """Who computes."""
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
