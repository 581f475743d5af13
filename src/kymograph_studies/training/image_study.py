"""Studies that train one network per run on images: their settings, and what all of them declare."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from kymograph import KymographError, RunSpec, SeriesDisplay, Study
from kymograph._runs.spec import ADDED_LATER
from kymograph.parts import Registry
from kymograph.studies import NOT_NEGATIVE, OVER_DEPTH, above_zero, at_least
from kymograph_studies.analysis.alarms import MEANINGS, summary_key
from kymograph_studies.data import DATA_SETS, check_files
from kymograph_studies.models import MODELS
from kymograph_studies.rules import RULES
from kymograph_studies.rules.fast import ACCELERATORS

TRAINED_SERIES = (
    SeriesDisplay("test_accuracy", "Test accuracy", "fraction correct", log=False),
    SeriesDisplay("train_loss", "Training loss", "cross-entropy, nats", log=True),
    SeriesDisplay(
        "stream_norm",
        "Residual stream norm",
        "‖h_ℓ‖, median over images",
        log=True,
        forms=OVER_DEPTH,
        options={"sites": "point of the stream", "numbers": ["final_h_L"]},
    ),
    SeriesDisplay(
        "stream_grad",
        "Gradient on the stream",
        "‖∂L/∂h_ℓ‖, median over images",
        log=True,
        forms=OVER_DEPTH,
        options={
            "sites": "point of the stream",
            "numbers": ["final_g_2", "final_g_2_script", "final_g_2_per_error"],
        },
    ),
)
"""How the series of every image study are shown."""
NORMS = dict.fromkeys(("final_h_L", "final_g_2", "final_g_2_script", "final_g_2_per_error", "final_g_L"), NOT_NEGATIVE)
"""The ranges of the norms that every image study summarises."""
PAPER = "Hao, Wan and Zhai, arXiv:2606.21126, seeds 42, 123 and 456"
"""Where the published values of the scripts' image studies are from."""
FIXED_SEED = 42
"""The seed of all other sources when one source of variance is varied."""


@dataclass(frozen=True)
class SourceSeeds:
    """The seed of every source of randomness of a run."""

    initialisation: int
    order: int
    """Of the order of the images, their crops and flips, and random labels."""
    feedback: int
    split: int | None = None
    """Of a new split into training and test images; None: the data set's own split."""


def seeds_by_source(seed: int, vary: str) -> SourceSeeds:
    """Returns each source's seed: the run's, or a fixed one if not varied (Bouthillier et al., arXiv:2103.03098)."""
    if vary == "all":
        return SourceSeeds(seed, seed, seed)
    fixed = SourceSeeds(FIXED_SEED, FIXED_SEED, FIXED_SEED)
    return dataclasses.replace(fixed, **{vary: seed})


@dataclass(frozen=True)
class TrainingSettings:
    """The settings that every study of images has."""

    default_epochs: ClassVar[Mapping[str, int]] = {}
    """Epochs by data set, where a study's own differ from the data set's."""
    fixed: ClassVar[Mapping[str, Any]] = {}
    """Settings of the network that the study fixes."""

    data: str = "digits"
    """scikit-learn's digits (embedded), cifar10 (see --data-dir), synthetic, or another registered data set."""
    epochs: int = 0
    """Passes over the data. (0: the default of the data set, 60 on digits, 100 on cifar10, 5 on synthetic)"""
    lr: float = 1e-3
    """Initial learning rate, annealed to 0 by a half cosine, epoch by epoch. [arms with SGD: 0.1]"""
    wd: float = 0.01
    """Weight decay."""
    batch_size: int = 128
    """Images per step."""
    depth: int = 4
    """Number of blocks."""
    width: int = 256
    """Width of the residual stream (`d_hidden`). [arms: vit 128, conv 64]"""
    penalty: float = 0.0
    """Coefficient of the penalty on ||f||^2 of each block (dfa). [arm penalised: 0.01]"""
    checkpoint_every: int = 10
    """Epochs between the checkpoints from which a killed run resumes; 0: none."""
    vary: Literal["all", "initialisation", "order", "feedback", "split"] = dataclasses.field(
        default="all", metadata=ADDED_LATER
    )
    """What the seed determines: weights, order and feedback together, or one source with the others at seed 42."""

    def __post_init__(self) -> None:
        data_set = DATA_SETS.part(self.data)
        if self.epochs == 0:
            usual = data_set.properties.get("epochs", 1)
            object.__setattr__(self, "epochs", self.default_epochs.get(self.data, usual))
        for name in ("epochs", "batch_size", "depth", "width"):
            at_least(name, getattr(self, name), 1)
        for name in ("wd", "penalty", "checkpoint_every"):
            at_least(name, getattr(self, name), 0)
        above_zero("lr", self.lr)

    @property
    def network(self) -> ImageSettings:
        """All settings of the run's network and its training: the run's own, and those that the study fixes."""
        names = {field.name for field in dataclasses.fields(ImageSettings)}
        return ImageSettings(**{name: value for name, value in vars(self).items() if name in names}, **self.fixed)


@dataclass(frozen=True)
class NetworkSettings(TrainingSettings):
    """Settings of the network, the learning rule and the optimizer."""

    model: str = "resmlp"
    """The network: resmlp, vit, conv, or another registered model. [set by the arm]"""
    expansion: int = 1
    """Width of a block's hidden layer, as a multiple of the stream's (resmlp)."""
    w2_std: float = 0.01
    """Initial standard deviation of a block's last weights (resmlp). [arms without skip: 0.05]"""
    out_ln: bool = True
    """Whether a LayerNorm precedes the head. [arms no_out_ln: no]"""
    skip: bool = True
    """Whether a block's output is added to the stream. [arms no_skip: no]"""
    rule: str = "bp"
    """The learning rule, by its registered name. [set by the arm]"""
    rms: bool = False
    """Whether each sample's credit is divided by its RMS. [arms dfa: yes]"""
    clip: bool = False
    """Whether each block's gradient is clipped to norm 1. [arms dfa: yes]"""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """The optimizer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("expansion", self.expansion, 1)
        at_least("w2_std", self.w2_std, 0)
        properties = MODELS.part(self.model).properties
        multiple = properties.get("width_multiple_of", 1)
        if self.width % multiple:
            raise KymographError(
                f"the width of {self.model} must be a multiple of its {multiple} heads, not {self.width}"
            )
        rule = RULES.part(self.rule).properties
        if self.penalty and "penalty" not in rule.get("options", ()):
            raise KymographError(f"penalty is an option of the rule dfa, not of {self.rule}")
        if self.rms and "normalise" not in rule.get("options", ()) and "normalised" not in rule:
            raise KymographError(f"rms needs credit at the blocks, which {self.rule} does not provide")
        if self.skip and "skip" not in properties.get("settings", ("skip",)):
            object.__setattr__(self, "skip", False)


@dataclass(frozen=True)
class ImageSettings(NetworkSettings):
    """Every setting of a network that is trained on images and measured during training."""

    log_every: int = 1
    """Epochs between measurements; the last epoch is always measured."""
    random_targets: bool = False
    """Whether every batch gets fresh random labels. [arms random_targets: yes]"""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("log_every", self.log_every, 1)

    @property
    def network(self) -> ImageSettings:
        """These settings themselves."""
        return self


def all_settings(config: object) -> tuple[tuple[str, str], ...]:
    """Returns every setting as text, by name: the key of a stack that no other settings share."""
    return tuple(sorted((name, str(value)) for name, value in vars(config).items()))


Settings = TypeVar("Settings", bound=TrainingSettings)


class ImageStudy(Study[Settings]):
    """A study that trains one network per run on images."""

    qualifying = ("data", "epochs")
    bookkeeping = ("log_every", "checkpoint_every")
    time = "epoch"
    series: ClassVar[Sequence[SeriesDisplay]] = TRAINED_SERIES
    tables = {"Alarms": {summary_key(name): f"{name}, first epoch" for name in ("gradient", "growth", "reference")}}
    column_notes = {summary_key(alarm): text for alarm, text in MEANINGS.items()}

    def stack_key(self, config: Settings) -> tuple[Any, ...]:
        """Returns all settings; every run trains on its own."""
        return all_settings(config)

    def steps(self, config: Settings) -> int:
        """Returns epochs times batches per epoch."""
        images: int = DATA_SETS.part(config.data).properties.get("training_images", config.batch_size)
        return config.epochs * -(-images // config.batch_size)

    def parts(self, config: Settings) -> Sequence[tuple[Registry, str]]:
        """Returns the data set, the model and the rule, with the rule's normalised form and accelerators."""
        network = config.network
        rules = [network.rule]
        if "normalised" in (properties := RULES.part(network.rule).properties):
            rules.append(properties["normalised"])
        fast = [name for name, part in ACCELERATORS.parts().items() if {*rules} & {*part.properties.get("rules", ())}]
        return [
            (DATA_SETS, network.data),
            (MODELS, network.model),
            *((RULES, name) for name in rules),
            *((ACCELERATORS, name) for name in fast),
        ]

    def prepare(self, specs: Sequence[RunSpec[Settings]], data_dir: Path | None) -> None:
        """Raises if a data set's files are missing; prints notes about the data and about settings without effect."""
        data_sets = dict.fromkeys(spec.config.data for spec in specs)
        for note in (*_idle_settings([spec.config for spec in specs]), *(check_files(d, data_dir) for d in data_sets)):
            if note is not None:
                print(f"note: {note}", file=sys.stderr)


def _idle_settings(configs: Sequence[TrainingSettings]) -> list[str]:
    """Returns a note for every setting that was changed for a network that does not have it."""
    notes = []
    networks = [config for config in configs if isinstance(config, NetworkSettings)]
    for field in dataclasses.fields(NetworkSettings):
        owners = [name for name, part in MODELS.parts().items() if field.name in part.properties.get("settings", ())]
        if not owners or field.name == "skip":  # a model without skips sets that itself
            continue
        idle = {config.model for config in networks if getattr(config, field.name) != field.default} - set(owners)
        if idle:
            notes.append(f"{field.name} is a setting of {' and '.join(owners)}, not of {' and '.join(sorted(idle))}")
    return notes
