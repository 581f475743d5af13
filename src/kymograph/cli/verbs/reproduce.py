"""``kymograph reproduce``: every study, its figures, the verdicts on every claim, and the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from kymograph.cli.arguments import choice, parse, shown
from kymograph.cli.choices import DATA_SETS
from kymograph.cli.options import EngineOptions, with_engine_options
from kymograph.errors import KymographError

PART = {
    "about": "run every study, judge every claim, draw the figures, write the report",
    "order": 30,
    "debug": True,
}


@dataclass(frozen=True)
class Options:
    """Run every study, judge every claim, draw the figures and write the report."""

    out: Annotated[str, shown("DIR")] = "runs/reproduce"
    """Directory of the runs."""
    quick: bool = False
    """Shorter training in the image studies."""
    data: Annotated[str, choice(DATA_SETS)] = "digits"
    """Images: scikit-learn's digits (embedded), CIFAR-10 (takes hours), or another data set."""
    epochs: Annotated[
        int | None, shown("N", default="20 on digits, 10 if --quick; 30 on cifar10; else the study's")
    ] = None
    """Epochs of the image studies."""
    study: Annotated[str | None, shown("STUDY", default="those of the scripts")] = None
    """Only this study, with its default arms and settings: its name, file.py or module:Name."""
    n_seeds: Annotated[int | None, shown("N", default="10")] = None
    """Number of seeds, from the fixed list."""
    compute: EngineOptions = field(default_factory=EngineOptions)


def main(words: list[str]) -> int:
    """Runs all studies, judges their claims, draws their figures and writes the report."""
    options = parse(with_engine_options(Options, words), words, "kymograph reproduce")
    if options.study is not None and (options.quick or options.epochs is not None):
        raise KymographError("--quick and --epochs apply to the scripts' studies; drop them, or --study")
    from kymograph.lab.reproduce import reproduce

    return reproduce(
        options.compute.sweep_options(options.out, options),
        options.n_seeds,
        data=options.data,
        quick=options.quick,
        epochs=options.epochs,
        study=options.study,
    )
