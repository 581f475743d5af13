"""Which learning rules train which networks, at the learning rate that suits each, and do their updates align?

Every rule on every network has its own rate, chosen from a declared grid on separate seeds and on images that those
runs neither train nor test on (every seed splits the same images anew): the size of a feedback matrix acts like a rate,
so comparing rules at one rate would compare rates. Head only, the network in which only the read-out learns, is part of
every comparison.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kymograph import Arm, KymographError, RunResult, RunSpec, SeriesDisplay, Study, Workplace
from kymograph.parts import Registry
from kymograph.studies import NOT_NEGATIVE, OVER_DEPTH, SEEDED, above_zero, at_least
from kymograph_studies.data import DATA_SETS, check_files
from kymograph_studies.models import MODELS
from kymograph_studies.rule_family.arms import EXACT, HEAD_ONLY, TOKENS, family_arms, family_grids
from kymograph_studies.rules import RULES
from kymograph_studies.training.image_study import all_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph import Claim


PART: dict[str, Any] = {
    "about": "Which learning rules train which networks, each at its own rate, and do their updates align?",
    "order": 6,
}
EPOCHS = {"digits": 20, TOKENS: 20, "cifar10": 5}
TRAINING = {"digits": 720, TOKENS: 1024, "cifar10": 45_000}
VALIDATION = {"digits": 360, TOKENS: 1024, "cifar10": 5_000}
"""Numbers of training and validation samples; all other images, or as many more sequences, are the test set."""


@dataclass(frozen=True)
class RuleFamilyConfig:
    """Every setting of a `rule-family` run; an arm sets the network and the learning rule."""

    network: Literal["mlp", "resmlp", "conv", "conv-bn", "vit", "transformer"] = "mlp"
    """The network. [set by the arm]"""
    rule: str = "bp"
    """The learning rule, by its registered name. [set by the arm]"""
    data: str = "digits"
    """scikit-learn's digits (embedded), cifar10 (see --data-dir), or another. [arms transformer: marked-sums]"""
    epochs: int = 0
    """Passes over the training data. (0: 20, or 5 on cifar10) [arms mlp/kp/decay: 175, mlp/kp/strong-decay: 18]"""
    lr: float = 1e-3
    """Constant learning rate of AdamW. [tuned for each arm]"""
    wd: float = 1e-3
    """Weight decay. [arms mlp/kp/decay: 0.1, mlp/kp/strong-decay: 1]"""
    batch_size: int = 64
    """Samples per step."""
    depth: int = 2
    """Number of blocks."""
    width: int = 128
    """Width of the stream. [arms: resmlp 64, conv and conv-bn 16, vit and transformer 32]"""
    training_samples: int = 0
    """Samples to train on. (0: 720 digits, 1,024 sequences, 45,000 images of cifar10)"""
    validation_samples: int = 0
    """Samples for choosing the rate. (0: 360 digits, 1,024 sequences, 5,000 images of cifar10)"""
    measurements: int = 16
    """Measurements per run, at log-spaced steps. [arms other than mlp: 6]"""
    draws: int = 19
    """Draws of fresh feedback with which the final alignment is compared."""

    def __post_init__(self) -> None:
        if self.data != TOKENS:
            DATA_SETS.part(self.data)
        if (self.network == "transformer") != (self.data == TOKENS):
            raise KymographError(f"the transformer reads {TOKENS}, all other networks images; choose arms with --arms")
        RULES.part(self.rule)
        for name, usual in (("epochs", EPOCHS), ("training_samples", TRAINING), ("validation_samples", VALIDATION)):
            if getattr(self, name) == 0:
                object.__setattr__(self, name, usual.get(self.data, usual["digits"]))
        for name in ("epochs", "batch_size", "depth", "width", "training_samples", "validation_samples", "draws"):
            at_least(name, getattr(self, name), 1)
        at_least("measurements", self.measurements, 2)
        at_least("wd", self.wd, 0)
        above_zero("lr", self.lr)

    @property
    def steps(self) -> int:
        """How many steps a run takes."""
        return self.epochs * -(-self.training_samples // self.batch_size)


class RuleFamily(Study[RuleFamilyConfig]):
    """Accuracy, alignment and feedback of every rule on every network."""

    name = "rule-family"
    question = PART["about"]
    order = PART["order"]
    methods = SEEDED
    config_type = RuleFamilyConfig
    qualifying = ("data", "epochs")
    threads = 1
    tune = family_grids()
    contrasts = {"minus head only": HEAD_ONLY, "minus BP": EXACT}
    headlines = {
        "test_accuracy": "test accuracy",
        "alignment": "alignment",
        "alignment_null": "alignment of fresh feedback",
        "largest_angle": "largest angle of W and B",
    }
    tables = {
        "Scale and reference": {
            "growth_per_block": "largest growth per block",
            "gradient_per_error": "‖g_L‖ / ‖e‖",
            "training_loss": "training loss",
        }
    }
    bounds = {
        "alignment": (-1.0, 1.0),
        "alignment_null": (-1.0, 1.0),
        "largest_angle": (0.0, 180.0),
        **dict.fromkeys(("growth_per_block", "gradient_per_error", "training_loss"), NOT_NEGATIVE),
    }
    series = (
        SeriesDisplay("test_accuracy", "Test accuracy", "fraction correct", log=False),
        SeriesDisplay("training_loss", "Training loss", "cross-entropy, nats", log=True),
        SeriesDisplay("mean_alignment", "Alignment of updates with the gradient", "cosine, mean over parts", log=False),
        SeriesDisplay(
            "alignment", "Alignment by part", "cosine", log=False, forms=OVER_DEPTH, options={"sites": "part"}
        ),
        SeriesDisplay(
            "feedback_angle", "Angle of W and B", "degrees", log=False, forms=OVER_DEPTH, options={"sites": "weight"}
        ),
        SeriesDisplay(
            "update_size", "Size of updates", "‖update‖ / ‖gradient‖", log=True, forms=OVER_DEPTH,
            options={"sites": "part"},
        ),
        SeriesDisplay(
            "stream_norm", "Stream norm", "‖h_ℓ‖, median over samples", log=True, forms=OVER_DEPTH,
            options={"sites": "point of the stream"},
        ),
    )  # fmt: skip

    def arms(self) -> Sequence[Arm]:
        """Returns an arm for each network and rule."""
        return family_arms()

    def stack_key(self, config: RuleFamilyConfig) -> tuple[Any, ...]:
        """Returns all settings; every run trains on its own."""
        return all_settings(config)

    def steps(self, config: RuleFamilyConfig) -> int:
        """Returns epochs times batches per epoch."""
        return config.steps

    def parts(self, config: RuleFamilyConfig) -> Sequence[tuple[Registry, str]]:
        """Returns the rule, and the data set and the model if they are registered."""
        images = [] if config.data == TOKENS else [(DATA_SETS, config.data)]
        models = [(MODELS, model)] if (model := config.network.removesuffix("-bn")) in MODELS.names() else []
        return [(RULES, config.rule), *images, *models]

    def prepare(self, specs: Sequence[RunSpec[RuleFamilyConfig]], data_dir: Path | None) -> None:
        """Raises if a data set's files are missing; prints notes about the data."""
        for name in dict.fromkeys(spec.config.data for spec in specs if spec.config.data != TOKENS):
            if note := check_files(name, data_dir):
                print(f"note: {note}", file=sys.stderr)

    def train(self, specs: Sequence[RunSpec[RuleFamilyConfig]], work: Workplace) -> list[RunResult]:
        """Trains the runs: `kymograph_studies.rule_family.training`."""
        from kymograph_studies.rule_family.training import train

        return train(specs, work)

    def claims(self) -> Sequence[Claim]:
        """Returns the claims of `kymograph_studies.rule_family.claims`; a subclass of another name has none of them."""
        from kymograph_studies.rule_family.claims import claims

        return [claim for claim in claims() if claim.study == self.name]

    def figures(self) -> Mapping[str, Callable[..., Figure]]:
        """Returns the figures of `kymograph_studies.rule_family.figures`."""
        from kymograph_studies.rule_family.figures import FIGURES

        return FIGURES
