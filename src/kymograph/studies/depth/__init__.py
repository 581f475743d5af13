"""Do residual connections rescue deep plain networks?

Networks of equal layers learn to reproduce their input, or its image under a fixed rotation. Arms of one seed
share initial weights, data, batches and the batch they are measured on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kymograph.runs.record import RunResult
from kymograph.runs.spec import RunSpec
from kymograph.studies.base import Arm, Study, above_zero, at_least
from kymograph.studies.drawing import Drawing
from kymograph.sweep.compute import Workplace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph.claims.claim import Claim
    from kymograph.runs.store import Store


@dataclass(frozen=True)
class DepthConfig:
    """Every setting of a `depth` run; an arm sets how the layers are joined."""

    layers: int = 20
    """Layers in the stack."""
    width: int = 64
    """Features of every layer."""
    task: Literal["identity", "orthogonal"] = "identity"
    """What to learn: the input itself, or its image under a fixed random rotation."""
    n_samples: int = 1024
    """Training samples, uniform in [-1, 1]."""
    steps: int = 500
    """Training steps."""
    batch_size: int = 64
    """Samples per step, drawn with replacement."""
    lr: float = 1e-3
    """Learning rate of Adam."""
    skip: bool = False
    """Whether the input of a layer is added to its output. [set by the arm]"""
    branch: Literal["one", "scaled", "zero"] = "one"
    """Factor on a residual branch: 1, 1/sqrt(layers), or a learned scalar from 0. [set by the arm]"""
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


WIRINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("h <- relu(W h)", {"skip": False, "branch": "one", "prenorm": False}),
    "residual": ("h <- h + relu(W h)", {"skip": True, "branch": "one", "prenorm": False}),
    "residual/scaled": ("h <- h + relu(W h) / sqrt(layers)", {"skip": True, "branch": "scaled", "prenorm": False}),
    "residual/zero": ("h <- h + a relu(W h), a learned from 0", {"skip": True, "branch": "zero", "prenorm": False}),
    "residual/prenorm": ("h <- h + relu(W LN(h))", {"skip": True, "branch": "one", "prenorm": True}),
}
SWEEP_LAYERS = (5, 10, 50, 100)  # 20 is the default
SWEEP_WIDTH = (16, 32, 128, 256)  # 64 is the default
SWEPT = ("plain", "residual", "residual/scaled")


class Depth(Study):
    """Plain against residual stacks, and repairs of the residual one."""

    name = "depth"
    question = "Do residual connections rescue deep plain networks?"
    version = 1
    config_type = DepthConfig
    headlines = {  # noqa: RUF012
        "null_loss": "loss of answering 0",
        "initial_loss": "initial loss",
        "final_loss": "final loss",
        "initial_forward_gain": "forward gain, start",
        "final_forward_gain": "forward gain, end",
        "final_backward_gain": "backward gain, end",
    }
    threads = 1  # so that every engine gives the same bits
    largest_stack = 16  # what keeps a core's caches warm, and gives several workers something to do

    def arms(self) -> Sequence[Arm]:
        """Returns the five wirings, then the sweeps of depth and width."""
        arms = [Arm(name, about, treatment, default=True) for name, (about, treatment) in WIRINGS.items()]
        for name in SWEPT:
            about, treatment = WIRINGS[name]
            arms += [
                Arm(f"layers/{layers}/{name}", f"{about}, {layers} layers", {**treatment, "layers": layers})
                for layers in SWEEP_LAYERS
            ]
            arms += [
                Arm(f"width/{width}/{name}", f"{about}, width {width}", {**treatment, "width": width})
                for width in SWEEP_WIDTH
            ]
        return arms

    def stack_key(self, config: Mapping[str, Any]) -> tuple:
        """Plain and residual runs of one shape train together; so do learned factors, and so do pre-norm ones."""
        shape = ("layers", "width", "n_samples", "steps", "batch_size", "lr", "probe_every", "probe_size")
        return (config["prenorm"], config["branch"] == "zero", *(config[name] for name in shape))

    def steps(self, config: Mapping[str, Any]) -> int:
        """Returns the number of training steps."""
        return config["steps"]

    def train(self, specs: Sequence[RunSpec], work: Workplace) -> list[RunResult]:
        """Trains a stack of runs of one graph."""
        from kymograph.studies.depth.train import train

        return train(specs, work)

    def claims(self) -> Sequence[Claim]:
        """Returns the script's findings, in its own set-up and in the repaired one."""
        from kymograph.studies.depth.claims import claims

        return claims()

    def figures(self) -> Mapping[str, Callable[[Store], Figure]]:
        """Returns the script's four figures, the kymographs and the gains."""
        home = "kymograph.studies.depth.figures"
        return {
            "depth-loss": Drawing(f"{home}:loss", "training loss of every arm"),
            "depth-gradient": Drawing(f"{home}:gradient", "gradient norm before each ReLU, after training"),
            "depth-mean": Drawing(f"{home}:mean", "mean before each ReLU, after training"),
            "depth-std": Drawing(f"{home}:std", "standard deviation before each ReLU, after training"),
            "depth-gain": Drawing(f"{home}:gain", "gain per layer, forward and backward, through training"),
            "depth-sweep": Drawing(f"{home}:sweep", "final loss and gradient gain by depth, final loss by width"),
            "depth-kymograph": Drawing(
                f"{home}:stream_kymograph", "norm of the stream over depth and time, a panel per arm"
            ),
            "depth-kymograph-gradient": Drawing(
                f"{home}:gradient_kymograph", "gradient on the stream over depth and time, a panel per arm"
            ),
        }

    def to_script(self, store: Store) -> Mapping[str, Any]:
        """Returns one seed's plain and residual runs as the script's ``results.json``."""
        from kymograph.studies.depth.script import results

        return results(store)
