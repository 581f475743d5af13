"""``kymograph calibrate``: a trained network's credit cosines against their nulls."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from kymograph.cli.arguments import at_least, choice, parse, positional, shown
from kymograph.cli.choices import NULLS
from kymograph.cli.options import TestDataOptions

PART = {
    "about": "a trained network's credit cosines against their nulls",
    "usage": "calibrate CHECKPOINT",
    "order": 50,
}
LEAST_DRAWS = 19
"""With fewer, no Monte-Carlo p-value can reach 0.05."""


@dataclass(frozen=True)
class Options:
    """Compare a trained network's credit cosines with their nulls."""

    checkpoint: Annotated[str, positional(), shown("CHECKPOINT")]
    """A run's directory, its checkpoint.safetensors, or a .pt file of the calibration script."""
    images: int = 2048
    """Number of test images; all of them if there are fewer."""
    draws: int = 999
    """Draws from each null."""
    nulls: Annotated[tuple[str, ...], choice(NULLS, several=True), shown(default="all")] = ()
    """Which nulls; `fresh`, new matrices from the same distribution, is always included."""
    seed: int = 0
    """Seed of the nulls."""
    out: Annotated[str, shown("DIR")] = "calibration"
    """Directory for calibration.json and the histograms."""
    test_data: TestDataOptions = field(default_factory=TestDataOptions)


def main(words: list[str]) -> int:
    """Prints the table of a network's cosines and nulls; writes it as JSON and draws the histograms."""
    options = parse(Options, words, "kymograph calibrate")
    at_least("draws", options.draws, LEAST_DRAWS)
    at_least("images", options.images, 2)
    from kymograph.lab.calibrate import calibrate_checkpoint, write_calibration
    from kymograph.lab.calibration_text import table

    found = calibrate_checkpoint(
        options.checkpoint,
        data=options.test_data.data,
        data_dir=options.test_data.data_dir,
        device=options.test_data.device,
        images=options.images,
        draws=options.draws,
        nulls=options.nulls or None,
        seed=options.seed,
    )
    print(table(found))
    for path in write_calibration(found, Path(options.out)):
        print(path)
    return 0
