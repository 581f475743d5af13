"""Do residual connections rescue deep plain networks?

Networks of identical layers learn to reproduce their input, or its image under a fixed orthogonal map. Arms of one
seed share initial weights, data, batches and the batch they are measured on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kymograph import Arm, RunResult, RunSpec, SeriesDisplay, Study, Workplace
from kymograph.studies import NOT_NEGATIVE, OVER_DEPTH, SEEDED, above_zero, at_least
from kymograph_studies.labels import SETUP_MEANINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph import Claim


PART: dict[str, Any] = {"about": "Do residual connections rescue deep plain networks?", "order": 2}


@dataclass(frozen=True)
class DepthConfig:
    """Every setting of a `depth` run; an arm sets how the layers are connected."""

    layers: int = 20
    """Layers in the stack."""
    width: int = 64
    """Features per layer."""
    task: Literal["identity", "orthogonal"] = "identity"
    """What to learn: the input itself, or its image under a fixed random orthogonal map."""
    n_samples: int = 1024
    """Training samples, uniform in [-1, 1]."""
    steps: int = 500
    """Training steps."""
    batch_size: int = 64
    """Samples per step, drawn with replacement."""
    lr: float = 1e-3
    """Learning rate of Adam."""
    skip: bool = False
    """Whether a layer's input is added to its output. [set by the arm]"""
    branch: Literal["one", "scaled", "zero"] = "one"
    """Factor on the residual branches: 1, 1/sqrt(layers), or a learned scalar that starts at 0. [set by the arm]"""
    prenorm: bool = False
    """Whether a branch normalises its input. [set by the arm]"""
    probe_every: int = 50
    """Steps between measurements along depth."""
    probe_size: int = 64
    """Samples of the fixed batch on which every arm is measured."""

    def __post_init__(self) -> None:
        for name in ("layers", "width", "n_samples", "steps", "batch_size", "probe_every", "probe_size"):
            at_least(name, getattr(self, name), 1)
        above_zero("lr", self.lr)


WIRINGS = (
    Arm("plain", "h ← relu(W h)", {"skip": False, "branch": "one", "prenorm": False},
        label="plain", colour="black", baseline=True, default=True),
    Arm("residual", "h ← h + relu(W h)", {"skip": True, "branch": "one", "prenorm": False},
        label="residual", colour="orange", default=True),
    Arm("residual/scaled", "h ← h + relu(W h) / √layers", {"skip": True, "branch": "scaled", "prenorm": False},
        label="residual, scaled", colour="sky", default=True),
    Arm("residual/zero", "h ← h + a relu(W h), a learned from 0", {"skip": True, "branch": "zero", "prenorm": False},
        label="residual, zero-initialised", colour="green", dash="short", default=True),
    Arm("residual/prenorm", "h ← h + relu(W LN(h))", {"skip": True, "branch": "one", "prenorm": True},
        label="residual, pre-norm", colour="purple", dash="short", default=True),
)  # fmt: skip
SWEEPS = {
    "layers": (5, 10, 50, 100),  # 20 is the default
    "width": (16, 32, 128, 256),  # 64 is the default
}
SWEPT = ("plain", "residual", "residual/scaled")


def _swept(wiring: Arm, setting: str, value: int) -> Arm:
    """Returns a wiring at another depth or width than the default."""
    text = f"{value} layers" if setting == "layers" else f"width {value}"
    return Arm(
        f"{setting}/{value}/{wiring.name}",
        f"{wiring.about}, {text}",
        {**wiring.treatment, setting: value},
        label=f"{wiring.label}, {text}",
        panel=text[:1].upper() + text[1:],
    )


class Depth(Study[DepthConfig]):
    """Plain versus residual stacks, and repaired variants of the residual one."""

    name = "depth"
    question = PART["about"]
    order = PART["order"]
    methods = SEEDED
    version = 2
    reference_settings: ClassVar[Mapping[str, Any]] = {}  # the defaults are the script's
    setup_meanings = SETUP_MEANINGS
    config_type = DepthConfig
    headlines = {
        "initial_loss": "initial loss",
        "final_loss": "final loss",
        "fresh_loss_over_null": "fresh loss / null",
        "initial_forward_gain": "forward gain, start",
        "final_forward_gain": "forward gain, end",
        "final_backward_gain": "backward gain, end",
    }
    bounds = dict.fromkeys(headlines, NOT_NEGATIVE)
    series = (
        SeriesDisplay("loss", "Training loss", "mean squared error", log=True),
        SeriesDisplay("forward_gain", "Forward gain", "gain of ‖h‖ per layer", site="estimate"),
        SeriesDisplay("backward_gain", "Backward gain", "gain of ‖∂L/∂h‖ per layer", site="estimate"),
        SeriesDisplay(
            "pre_backward_gain", "Backward gain before the ReLU", "gain of ‖∂L/∂z‖ per layer", site="estimate"
        ),
        SeriesDisplay("stream_norm", "Stream norm", "‖h_ℓ‖, median over samples", log=True, forms=OVER_DEPTH),
        SeriesDisplay("stream_grad", "Gradient on the stream", "‖∂L/∂h_ℓ‖", log=True, forms=OVER_DEPTH),
        SeriesDisplay("pre_mean", "Mean before the ReLU", "mean", log=False, forms=("profile",)),
        SeriesDisplay("pre_std", "Spread before the ReLU", "standard deviation", log=True, forms=("profile",)),
        SeriesDisplay("grad_norm", "Gradient before the ReLU", "‖∂L/∂z_ℓ‖", log=True, forms=("profile",)),
    )
    threads = 1  # so that every engine gives the same bits
    largest_stack = 16  # fits a core's caches, and leaves work for several workers

    def arms(self) -> Sequence[Arm]:
        """Returns the five wirings, then the sweeps of depth and width."""
        swept = [wiring for wiring in WIRINGS if wiring.name in SWEPT]
        sweeps = [(setting, value) for setting, values in SWEEPS.items() for value in values]
        return [*WIRINGS, *(_swept(wiring, *point) for wiring in swept for point in sweeps)]

    def stack_key(self, config: DepthConfig) -> tuple[Any, ...]:
        """Returns the shape, and whether a run has learned factors or pre-norm, which train in separate stacks."""
        shape = ("layers", "width", "n_samples", "steps", "batch_size", "lr", "probe_every", "probe_size")
        return (config.prenorm, config.branch == "zero", *(getattr(config, name) for name in shape))

    def steps(self, config: DepthConfig) -> int:
        """Returns the number of training steps."""
        return config.steps

    def train(self, specs: Sequence[RunSpec[DepthConfig]], work: Workplace) -> list[RunResult]:
        """Trains the runs: `kymograph_studies.depth.training`."""
        from kymograph_studies.depth.training import train

        return train(specs, work)

    def claims(self) -> Sequence[Claim]:
        """Returns the claims of `kymograph_studies.depth.claims`; a subclass of another name has none of them."""
        from kymograph_studies.depth.claims import claims

        return [claim for claim in claims() if claim.study == self.name]

    def figures(self) -> Mapping[str, Callable[..., Figure]]:
        """Returns the figures of `kymograph_studies.depth.figures`."""
        from kymograph_studies.depth.figures import FIGURES

        return FIGURES
