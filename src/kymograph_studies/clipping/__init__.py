"""What does gradient clipping do under class imbalance?

A next-token model is trained one sample at a time on data with a rare class, with and without clipping. The
script behind this study (see docs/concepts.md) drew its conclusions from one seed and from data whose rare class
cannot be learned; the arms ``learnable/*`` repair that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kymograph import Arm, KymographError, RunResult, RunSpec, SeriesDisplay, Study, Workplace
from kymograph.studies import NOT_NEGATIVE, SEEDED, above_zero, at_least
from kymograph_studies.labels import SETUP_MEANINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph import Claim


PART: dict[str, Any] = {"about": "What does gradient clipping do under class imbalance?", "order": 1}


@dataclass(frozen=True)
class ClippingConfig:
    """Every setting of a `clipping` run; an arm sets the imbalance and the clipping."""

    n_samples: int = 1000
    """Samples in the data set; one epoch goes through them in order."""
    n_rare: int = 10
    """Samples of the rare class. [arms: extreme 10, moderate 200]"""
    epochs: int = 5
    """Passes over the data. [arms: extreme 5, moderate 10]"""
    lr: float = 0.1
    """Learning rate of SGD."""
    batch_size: int = 1
    """Samples per step."""
    vocab: int = 4
    """Number of tokens, which are also the classes."""
    dim: int = 16
    """Width of the embedding."""
    clip: Literal["none", "norm", "value", "percentile"] = "none"
    """How gradients are clipped. [set by the arm]"""
    max_norm: float = 1.0
    """Threshold of clipping by norm."""
    max_value: float = 0.3
    """Threshold of clipping by value."""
    percentile: float = 90.0
    """Percentile of past gradient norms that adaptive clipping uses as its threshold."""
    window: int = 200
    """Number of past gradient norms that adaptive clipping considers."""
    data: Literal["script", "learnable"] = "script"
    """Whether targets are independent of the token, as in the script, or announced by it. [set by the arm]"""
    label_noise: float = 0.1
    """Fraction of the rare samples whose token does not announce them; only for learnable data."""
    probe_every: int = 100
    """Steps between measurements of effective dimension and accuracy."""

    def __post_init__(self) -> None:
        for name in ("n_samples", "epochs", "batch_size", "dim", "probe_every"):
            at_least(name, getattr(self, name), 1)
        at_least("vocab", self.vocab, 3 if self.data == "learnable" else 2)
        at_least("window", self.window, 2)
        for name in ("lr", "max_norm", "max_value"):
            above_zero(name, getattr(self, name))
        if not 0 <= self.n_rare < self.n_samples:
            raise KymographError(f"n_rare must be between 0 and {self.n_samples - 1}, not {self.n_rare}")
        if self.batch_size > self.n_samples:
            raise KymographError(f"batch_size must be at most n_samples = {self.n_samples}, not {self.batch_size}")
        if not 0 <= self.label_noise < 0.5:
            raise KymographError(f"label_noise must be at least 0 and below 0.5, not {self.label_noise}")
        if not 0 <= self.percentile <= 100:
            raise KymographError(f"percentile must be between 0 and 100, not {self.percentile}")


IMBALANCES: dict[str, dict[str, int]] = {
    "extreme": {"n_rare": 10, "epochs": 5},
    "moderate": {"n_rare": 200, "epochs": 10},
}
RATIOS = {"extreme": "99:1", "moderate": "80:20"}
PAIR = {"no_clip": "none", "clip": "norm"}
"""The two arms of a comparison, and how each is clipped."""
SCRIPT_ARMS = tuple(f"{imbalance}/{name}" for imbalance in IMBALANCES for name in PAIR)
SWEEP_PERCENT = (1, 5, 20, 50)
SWEEP_MAX_NORM = (0.1, 0.3, 3.0)  # 1.0 is the arm `clip`, no threshold is `no_clip`
SWEEP_BATCH = (4, 16, 64)
_CLIPPING = {"none": "no clipping", "norm": "clipped", "value": "clipped by value", "percentile": "clipped adaptively"}


def _with_style(arm: Arm) -> Arm:
    """Returns an arm with its label, panel and colour.

    The arms of the two imbalances have one colour per kind of clipping; those of the sweeps take what is free.
    """
    settings, words = arm.treatment, arm.name.removeprefix("learnable/").split("/")
    data = f"{words[1]} % rare" if words[0] == "imbalance" else RATIOS[words[0]]
    data = f"learnable {data}" if settings["data"] == "learnable" else data
    label = [data, _CLIPPING[settings["clip"]]]
    panel, colour = data, {"none": "green", "norm": "purple"}.get(settings["clip"], "")
    if "max_norm" in settings:
        label.append(f"threshold {settings['max_norm']:g}")
    if "batch_size" in settings:
        label.append(f"batch {settings['batch_size']}")
        panel, colour = f"{data}, by batch size", ""
    elif "max_norm" in settings or settings["clip"] in ("value", "percentile"):
        panel, colour = f"{data}, by threshold", ""
    elif words[0] == "imbalance":
        panel, colour = "by imbalance", ""
    return replace(arm, label=", ".join(label), panel=panel[:1].upper() + panel[1:], colour=colour)


class Clipping(Study[ClippingConfig]):
    """Clipping under class imbalance."""

    name = "clipping"
    question = PART["about"]
    order = PART["order"]
    methods = SEEDED
    version = 3
    reference_settings: ClassVar[Mapping[str, Any]] = {}  # the defaults are the script's
    setup_meanings = SETUP_MEANINGS
    config_type = ClippingConfig
    largest_stack = 256
    headlines = {
        "weight_norm_roughness": "jitter of ‖w‖",
        "effective_dim_std": "sd of effective dim.",
        "spike_ratio": "‖g‖ at rare / common samples",
        "final_rare_acc": "final rare accuracy",
        "bayes_rare_acc": "Bayes rare accuracy",
    }
    bounds = dict.fromkeys(("weight_norm_roughness", "effective_dim_std", "spike_ratio"), NOT_NEGATIVE)
    series = (
        SeriesDisplay("loss", "Training loss", "cross-entropy, nats", log=True),
        SeriesDisplay("weight_norm", "Weight norm", "‖w‖", log=False),
        SeriesDisplay(
            "weight_norm_change", "Change of the weight norm per step", "|Δ‖w‖|", log=True, bin_by="max",
            options={"numbers": ["weight_change_max"]},
        ),
        SeriesDisplay("grad_norm", "Gradient norm before clipping", "‖g‖", log=True, bin_by="max"),
        SeriesDisplay("effective_dim", "Effective dimension of the embedding", "dimensions", log=False),
        SeriesDisplay(
            "accuracy", "Accuracy on the rare class", "fraction correct", log=False, site="class_1",
            options={"numbers": ["final_rare_acc"]},
        ),
        SeriesDisplay(
            "heldout_rare_prob", "Held-out rare samples", "probability of the rare class", log=False,
            options={"numbers": ["early_rare_prob", "rare_steps_to_learn"]},
        ),
    )  # fmt: skip
    tables = {
        "What the script prints": {
            "weight_norm_std": "sd of ‖w‖",
            "weight_change_max": "largest change of ‖w‖",
            "grad_norm_max": "largest ‖g‖",
            "clipping_ratio": "largest ‖g‖ / threshold",
            "effective_dim_std": "sd of effective dim.",
            "final_rare_acc": "final rare accuracy",
        },
        "Learning the rare class": {
            "early_rare_prob": "held-out probability, early",
            "rare_steps_to_learn": "steps to learn it",
            "final_heldout_rare_acc": "final held-out accuracy",
            "heldout_bayes_rare_acc": "Bayes, held-out",
            "rare_excess_loss": "loss above that of its frequency",
            "heldout_rare_excess_loss": "held-out loss above that of its frequency",
        },
    }
    threads = 1  # its tensors are too small to parallelise

    def arms(self) -> Sequence[Arm]:
        """Returns the script's four arms, their learnable counterparts, and the sweeps."""
        arms: list[Arm] = []

        def add(
            name: str, about: str, clip: str, preset: Mapping[str, int], data: str = "script", **swept: Any
        ) -> None:
            default = name in SCRIPT_ARMS
            arms.append(_with_style(Arm(name, about, {"clip": clip, "data": data, **swept}, preset, default)))

        for imbalance, preset in IMBALANCES.items():
            add(f"{imbalance}/no_clip", "the script's data, no clipping", "none", preset)
            add(f"{imbalance}/clip", "the script's data, clip by norm", "norm", preset)
        for imbalance, preset in IMBALANCES.items():
            for name, clip in PAIR.items():
                add(f"learnable/{imbalance}/{name}", "the token announces the class", clip, preset, "learnable")
        for imbalance, preset in IMBALANCES.items():
            for limit in SWEEP_MAX_NORM:
                add(f"{imbalance}/clip/{limit:g}", f"clip by norm at {limit:g}", "norm", preset, max_norm=limit)
            add(f"{imbalance}/clip_value", "clip every entry", "value", preset)
            add(f"{imbalance}/clip_adaptive", "clip at a percentile of past norms", "percentile", preset)
            for size in SWEEP_BATCH:
                for name, clip in PAIR.items():
                    add(f"{imbalance}/{name}/batch{size}", f"{size} samples per step", clip, preset, batch_size=size)
        for percent in SWEEP_PERCENT:
            for name, clip in PAIR.items():
                about = f"{percent} % of 1,000 samples are rare"
                add(f"imbalance/{percent}/{name}", about, clip, {"epochs": 10}, n_rare=10 * percent)
        return arms

    def stack_key(self, config: ClippingConfig) -> tuple[Any, ...]:
        """Returns shape and length; clipping, rate, imbalance and data may differ between the replicas of a stack."""
        shape = ("n_samples", "epochs", "batch_size", "vocab", "dim", "probe_every", "window")
        return tuple(getattr(config, name) for name in shape)

    def steps(self, config: ClippingConfig) -> int:
        """Returns epochs times steps per epoch; the last batch of an epoch may be short."""
        return config.epochs * -(-config.n_samples // config.batch_size)

    def train(self, specs: Sequence[RunSpec[ClippingConfig]], work: Workplace) -> list[RunResult]:
        """Trains the runs: `kymograph_studies.clipping.training`."""
        from kymograph_studies.clipping.training import train

        return train(specs, work)

    def claims(self) -> Sequence[Claim]:
        """Returns the claims of `kymograph_studies.clipping.claims`; a subclass of another name has none of them."""
        from kymograph_studies.clipping.claims import claims

        return [claim for claim in claims() if claim.study == self.name]

    def figures(self) -> Mapping[str, Callable[..., Figure]]:
        """Returns the figures of `kymograph_studies.clipping.figures`."""
        from kymograph_studies.clipping.figures import FIGURES

        return FIGURES
