"""Do the blocks of a network earn their place? The ladder of last-k trainable blocks, and the audit of one network.

The study trains the same network with only its last k blocks learning, from none (the frozen baseline: embed, norm and
head learn) to all. ``kymograph audit`` sets one trained network against that ladder, beside the questions of scale and
reference (after arXiv:2606.21126).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kymograph.errors import KymographError
from kymograph.runs.record import RunResult
from kymograph.runs.spec import RunSpec
from kymograph.studies.base import Arm
from kymograph.studies.drawing import Drawing
from kymograph.studies.snapshot import ImageStudy, SnapshotConfig
from kymograph.sweep.compute import Workplace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph.runs.store import Store

DEEPEST = 12
_RULES: dict[str, dict[str, Any]] = {
    "bp": {"rule": "bp", "rms": False, "clip": False, "penalty": 0.0},
    "dfa": {"rule": "dfa"},
}


@dataclass(frozen=True)
class AuditConfig:
    """Every setting of an `audit` run; an arm sets the rule and how many of the last blocks learn."""

    data: Literal["digits", "cifar10", "synthetic"] = "digits"
    """scikit-learn's digits (embedded), CIFAR-10 (see --data-dir), or made-up images of CIFAR-10's shape."""
    epochs: int = 0
    """Passes over the data. (0: 60 on digits, 100 on cifar10, 5 on synthetic)"""
    lr: float = 1e-3
    """Learning rate at the start; a half cosine takes it to 0, epoch by epoch."""
    wd: float = 0.01
    """Weight decay."""
    batch_size: int = 128
    """Images per step."""
    model: Literal["resmlp", "vit", "conv"] = "resmlp"
    """The network."""
    depth: int = 4
    """Blocks."""
    width: int = 256
    """Features of the stream."""
    expansion: int = 1
    """How much wider a block is inside (resmlp)."""
    w2_std: float = 0.01
    """Standard deviation of a block's last weights at the start (resmlp)."""
    out_ln: bool = True
    """Whether a LayerNorm stands before the head."""
    skip: bool = True
    """Whether a block's output is added to the stream."""
    rule: Literal["bp", "dfa"] = "bp"
    """How parameters get their direction. [set by the arm]"""
    rms: bool = True
    """Whether each sample's credit is divided by its RMS (dfa). [arms bp: no]"""
    clip: bool = True
    """Whether each block's gradient is clipped to norm 1. [arms bp: no]"""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """The optimizer."""
    penalty: float = 0.0
    """Lambda of the penalty on ||f||^2 of each block (dfa)."""
    last: int = 4
    """How many of the last blocks learn; the others keep their first values. [set by the arm]"""
    checkpoint_every: int = 10
    """Epochs between checkpoints from which a killed run goes on; 0: none."""

    def __post_init__(self) -> None:
        if not 0 <= self.last <= self.depth:
            raise KymographError(f"a network of {self.depth} blocks has no last {self.last}; choose 0 to {self.depth}")
        network = self.network
        object.__setattr__(self, "epochs", network.epochs)
        object.__setattr__(self, "skip", network.skip)

    @property
    def network(self) -> SnapshotConfig:
        """The same settings as a `snapshot` run has them, measured at the end only."""
        shared = {name: value for name, value in vars(self).items() if name != "last"}
        return SnapshotConfig(**shared, log_every=10**6)


class Audit(ImageStudy):
    """Accuracy by the number of last blocks that learn."""

    name = "audit"
    question = "Do a network's blocks add anything to what embed, norm and head learn without them?"
    version = 2
    config_type = AuditConfig
    headlines = {  # noqa: RUF012
        "test_accuracy": "test accuracy",
        "final_h_L": "||h_L||",
    }

    def arms(self) -> Sequence[Arm]:
        """Returns, for each rule, the rungs of the ladder; 0 is the frozen baseline."""
        return [
            Arm(f"{rule}/last{k}", f"{rule}, the last {k} blocks learn" if k else f"{rule}, no block learns",
                {**treatment, "last": k}, default=k <= 4)
            for rule, treatment in _RULES.items() for k in range(DEEPEST + 1)
        ]  # fmt: skip

    def train(self, specs: Sequence[RunSpec], work: Workplace) -> list[RunResult]:
        """Trains the runs one after the other."""
        from kymograph.studies.audit.train import train

        return [train(spec, work) for spec in specs]

    def figures(self) -> Mapping[str, Callable[[Store], Figure]]:
        """Returns the ladder."""
        return {
            "audit-ladder": Drawing(
                "kymograph.studies.audit.figures:ladder",
                "test accuracy over the number of last blocks that learn, by rule",
            )
        }
