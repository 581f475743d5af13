"""Is a measured credit/gradient cosine real, or what random feedback gives?

Networks are trained by DFA with and without a penalty on the blocks' outputs; the cosine between their credit and the
gradient is then set against what feedback matrices that had no part in training give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kymograph.runs.record import RunResult
from kymograph.runs.spec import RunSpec
from kymograph.studies.base import Arm, above_zero, at_least
from kymograph.studies.drawing import Drawing
from kymograph.studies.snapshot import ImageStudy
from kymograph.sweep.compute import Workplace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph.claims.claim import Claim
    from kymograph.runs.store import Store

EPOCHS = {"digits": 60, "cifar10": 30, "synthetic": 5}
SWEEP = (1e-4, 1e-3, 1e-1)  # 0.01 is the arm `penalised`, 0 is `vanilla`


@dataclass(frozen=True)
class CalibrationConfig:
    """Every setting of a `calibration` run; an arm sets the penalty."""

    data: Literal["digits", "cifar10", "synthetic"] = "digits"
    """scikit-learn's digits (embedded), CIFAR-10 (see --data-dir), or made-up images of CIFAR-10's shape."""
    epochs: int = 0
    """Passes over the data. (0: 60 on digits, 30 on cifar10, 5 on synthetic)"""
    lr: float = 1e-3
    """Learning rate of AdamW at the start; a half cosine takes it to 0."""
    wd: float = 0.01
    """Weight decay."""
    batch_size: int = 128
    """Images per step."""
    log_every: int = 1
    """Epochs between measurements of stream and gradient; the last epoch is always measured."""
    depth: int = 4
    """Blocks of the residual MLP."""
    width: int = 256
    """Features of its stream."""
    penalty: float = 0.0
    """Lambda of the penalty on ||f||^2 of each block. [set by the arm]"""
    images: int = 2048
    """Test images on which cosines are taken; all of them if there are fewer."""
    draws: int = 999
    """Draws of every null."""
    checkpoint_every: int = 10
    """Epochs between checkpoints from which a killed run goes on; 0: none."""

    def __post_init__(self) -> None:
        if self.epochs == 0:
            object.__setattr__(self, "epochs", EPOCHS[self.data])
        for name in ("epochs", "batch_size", "log_every", "depth", "width", "images"):
            at_least(name, getattr(self, name), 1)
        at_least("draws", self.draws, 19)
        for name in ("wd", "penalty", "checkpoint_every"):
            at_least(name, getattr(self, name), 0)
        above_zero("lr", self.lr)


class Calibration(ImageStudy):
    """Credit cosines against their nulls, for vanilla and penalised DFA."""

    name = "calibration"
    question = "Is a measured credit/gradient cosine real, or what random feedback gives?"
    version = 2
    config_type = CalibrationConfig
    headlines = {  # noqa: RUF012
        "test_accuracy": "test accuracy",
        "final_h_L": "||h_L||",
        "deep_cosine": "deep cosine",
        "deep_null_mean": "fresh B",
        "deep_p": "p",
        "layer0_cosine": "layer 0",
        "layer0_p": "p of layer 0",
    }

    def arms(self) -> Sequence[Arm]:
        """Returns DFA without penalty, with the published one, and with others."""
        return [
            Arm("vanilla", "DFA as the script does it", {"penalty": 0.0}, default=True),
            Arm("penalised", "plus 0.01 ||f||^2 per block", {"penalty": 0.01}, default=True),
            *(Arm(f"penalised/{value:g}", f"plus {value:g} ||f||^2 per block", {"penalty": value}) for value in SWEEP),
        ]

    def train(self, specs: Sequence[RunSpec], work: Workplace) -> list[RunResult]:
        """Trains and calibrates the runs one after the other."""
        from kymograph.studies.calibration.train import train

        return [train(spec, work) for spec in specs]

    def claims(self) -> Sequence[Claim]:
        """Returns the script's findings, in its own set-up and in the repaired one."""
        from kymograph.studies.calibration.claims import claims

        return claims()

    def figures(self) -> Mapping[str, Callable[[Store], Figure]]:
        """Returns the null histograms with the observed cosines marked."""
        home = "kymograph.studies.calibration.figures"
        return {
            "calibration": Drawing(
                f"{home}:histograms", "nulls of the deep mean cosine, by arm, and the cosine of every seed"
            ),
        }
