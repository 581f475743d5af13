"""Do the blocks of a network earn their place? The ladder of last-k trainable blocks, and the audit of one network.

The study trains the same network with only its last k blocks learning, from none (the frozen baseline: embed, norm and
head learn) to all. ``kymograph audit`` compares one trained network with this ladder, and tests scale and
reference (after arXiv:2606.21126).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kymograph import Arm, KymographError, RunResult, RunSpec, Workplace
from kymograph.studies import SEEDED
from kymograph_studies.training.image_study import ImageStudy, NetworkSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PART: dict[str, Any] = {
    "about": "Do a network's blocks add anything to what embed, norm and head learn without them?",
    "order": 5,
}
DEEPEST = 12
_RULES: dict[str, dict[str, Any]] = {
    "bp": {"rule": "bp", "rms": False, "clip": False, "penalty": 0.0},
    "dfa": {"rule": "dfa"},
}


@dataclass(frozen=True)
class AuditConfig(NetworkSettings):
    """Every setting of an `audit` run; an arm sets the rule and how many of the last blocks learn."""

    fixed: ClassVar[Mapping[str, Any]] = {"log_every": 10**6}  # measured only before and after training

    rule: Literal["bp", "dfa"] = "bp"
    """The learning rule. [set by the arm]"""
    rms: bool = True
    """Whether each sample's credit is divided by its RMS (dfa). [arms bp: no]"""
    clip: bool = True
    """Whether each block's gradient is clipped to norm 1. [arms bp: no]"""
    last: int = 4
    """How many of the last blocks learn; the others keep their initial values. [set by the arm]"""

    def __post_init__(self) -> None:
        if not 0 <= self.last <= self.depth:
            raise KymographError(f"last must be from 0 to {self.depth}, the number of blocks, not {self.last}")
        super().__post_init__()


class Audit(ImageStudy[AuditConfig]):
    """Accuracy by the number of last blocks that learn."""

    name = "audit"
    question = PART["about"]
    order = PART["order"]
    methods = SEEDED
    version = 3
    config_type = AuditConfig
    headlines = {
        "test_accuracy": "test accuracy",
        "final_h_L": "‖h_L‖",
    }

    def arms(self) -> Sequence[Arm]:
        """Returns, for each rule, the rungs of the ladder; 0 is the frozen baseline."""
        arms = []
        for rule, treatment in _RULES.items():
            for k in range(DEEPEST + 1):
                blocks = ("no block", "last block")[k] if k < 2 else f"last {k} blocks"
                learners = f"{blocks} learns" if k == 0 else f"the {blocks} learn{'s' if k == 1 else ''}"
                arms.append(
                    Arm(
                        f"{rule}/last{k}",
                        f"{rule}, {learners}",
                        {**treatment, "last": k},
                        default=k <= 4,
                        panel=rule.upper(),
                        label=f"{rule.upper()}, {blocks}",
                        colour="blue" if rule == "bp" else "vermilion",
                    )
                )
        return arms

    def train(self, specs: Sequence[RunSpec[AuditConfig]], work: Workplace) -> list[RunResult]:
        """Trains the rungs one after the other: embed, read-out and the last k blocks of each learn."""
        from kymograph_studies.training.image_training import fit, result

        results = []
        for spec in specs:
            depth, last = spec.config.depth, spec.config.last
            learners = ["embed", *(f"blocks.{number}" for number in range(depth - last, depth)), "readout"]
            results.append(result(spec, fit(spec, spec.config.network, work, learners)))
        return results

    def figures(self) -> Mapping[str, Callable[..., Figure]]:
        """Returns the figures of `kymograph_studies.audit.figures`."""
        from kymograph_studies.audit.figures import FIGURES

        return FIGURES
