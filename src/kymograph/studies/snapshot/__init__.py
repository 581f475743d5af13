"""How do the norms of the residual stream and of its gradients evolve under backpropagation and under DFA?

One network per run, measured on a fixed buffer of test images before training and as it goes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kymograph.errors import KymographError
from kymograph.runs.record import RunResult
from kymograph.runs.spec import RunSpec
from kymograph.studies.base import Arm, Study, above_zero, at_least
from kymograph.studies.drawing import Drawing
from kymograph.sweep.compute import Workplace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph.claims.claim import Claim
    from kymograph.runs.store import Store

EPOCHS = {"digits": 60, "cifar10": 100, "synthetic": 5}
TRAINING_IMAGES = {"digits": 1437, "cifar10": 50_000, "synthetic": 5000}


@dataclass(frozen=True)
class SnapshotConfig:
    """Every setting of a `snapshot` run; an arm sets the network and the learning rule."""

    data: Literal["digits", "cifar10", "synthetic"] = "digits"
    """scikit-learn's digits (embedded), CIFAR-10 (see --data-dir), or made-up images of CIFAR-10's shape."""
    epochs: int = 0
    """Passes over the data. (0: 60 on digits, 100 on cifar10, 5 on synthetic)"""
    lr: float = 1e-3
    """Learning rate at the start; a half cosine takes it to 0, epoch by epoch. [arms with SGD: 0.1]"""
    wd: float = 0.01
    """Weight decay."""
    batch_size: int = 128
    """Images per step."""
    log_every: int = 1
    """Epochs between measurements; the last epoch is always measured."""
    model: Literal["resmlp", "vit", "conv"] = "resmlp"
    """The network. [set by the arm]"""
    depth: int = 4
    """Blocks."""
    width: int = 256
    """Features of the stream (`d_hidden`). [arms: vit 128, conv 64]"""
    expansion: int = 1
    """How much wider a block is inside (resmlp)."""
    w2_std: float = 0.01
    """Standard deviation of a block's last weights at the start (resmlp). [arms without skip: 0.05]"""
    out_ln: bool = True
    """Whether a LayerNorm stands before the head. [arms no_out_ln: no]"""
    skip: bool = True
    """Whether a block's output is added to the stream. [arms no_skip: no]"""
    rule: Literal["bp", "dfa", "shallow", "frozen"] = "bp"
    """How parameters get their direction. [set by the arm]"""
    rms: bool = False
    """Whether each sample's credit is divided by its RMS. [arms dfa: yes]"""
    clip: bool = False
    """Whether each block's gradient is clipped to norm 1. [arms dfa: yes]"""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """The optimizer."""
    penalty: float = 0.0
    """Lambda of the penalty on ||f||^2 of each block (dfa). [arm penalised: 0.01]"""
    random_targets: bool = False
    """Whether every batch gets fresh random labels. [arms random_targets: yes]"""
    checkpoint_every: int = 10
    """Epochs between checkpoints from which a killed run goes on; 0: none."""

    def __post_init__(self) -> None:
        if self.epochs == 0:
            object.__setattr__(self, "epochs", EPOCHS[self.data])
        for name in ("epochs", "batch_size", "log_every", "depth", "width", "expansion"):
            at_least(name, getattr(self, name), 1)
        for name in ("wd", "penalty", "checkpoint_every", "w2_std"):
            at_least(name, getattr(self, name), 0)
        above_zero("lr", self.lr)
        if self.model == "vit" and self.width % 4:
            raise KymographError(f"the width of vit must be a multiple of its 4 heads, not {self.width}")
        if self.penalty and self.rule != "dfa":
            raise KymographError(f"penalty is a part of the rule dfa, not of {self.rule}")
        if self.rms and self.rule not in ("bp", "dfa"):
            raise KymographError(f"rms needs credit at the blocks, which {self.rule} does not give")
        if self.model == "conv" and self.skip:
            object.__setattr__(self, "skip", False)


_DFA: dict[str, Any] = {"rule": "dfa", "rms": True, "clip": True}
_BP: dict[str, Any] = {"rule": "bp"}
_VIT: dict[str, Any] = {"width": 128}
_CONV: dict[str, Any] = {"width": 64, "out_ln": False}
_PLAIN: dict[str, Any] = {"model": "conv", "skip": False}


class ImageStudy(Study):
    """A study that trains one network per run on images."""

    largest_stack = 1
    telling = ("data", "epochs")

    def stack_key(self, config: Mapping[str, Any]) -> tuple:
        """Every run trains on its own."""
        return tuple(sorted((name, str(value)) for name, value in config.items()))

    def steps(self, config: Mapping[str, Any]) -> int:
        """Returns epochs times batches per epoch."""
        return config["epochs"] * -(-TRAINING_IMAGES[config["data"]] // config["batch_size"])

    def prepare(self, specs: Sequence[RunSpec]) -> None:
        """Raises if CIFAR-10 is asked for and is not there; says so if it is not whole, or a setting does nothing."""
        for name in ("expansion", "w2_std"):
            usual = SnapshotConfig.__dataclass_fields__[name].default
            idle = {str(spec.config["model"]) for spec in specs if spec.config.get(name, usual) != usual} - {"resmlp"}
            if idle:
                print(f"note: {name} is a setting of resmlp; {' and '.join(sorted(idle))} has none", file=sys.stderr)
        if any(spec.config["data"] == "cifar10" for spec in specs):
            from kymograph.data.cifar10_files import find, smaller

            cut = smaller(*find())
            if cut is not None:
                print(
                    f"note: {cut} holds fewer than CIFAR-10's 10,000 images; keep runs that learn from it in a "
                    "directory of their own",
                    file=sys.stderr,
                )


class Snapshot(ImageStudy):
    """Norms of stream and gradient over training, by learning rule."""

    name = "snapshot"
    question = "How do residual-stream and gradient norms evolve under BP and DFA?"
    version = 2
    config_type = SnapshotConfig
    headlines = {  # noqa: RUF012
        "test_accuracy": "test accuracy",
        "final_h_L": "||h_L||",
        "final_g_2_script": "||g_2|| (script's scale)",
        "final_gamma": "gamma",
    }

    def arms(self) -> Sequence[Arm]:
        """Returns the script's arms, the other networks, and the rule with its parts switched off one by one."""
        no_skip = {"w2_std": 0.05}
        rows: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
            ("resmlp/bp", "backpropagation", _BP, {}),
            ("resmlp/dfa", "DFA as the script does it: RMS-normalised credit, blocks clipped", _DFA, {}),
            ("resmlp/bp/no_out_ln", "without the LayerNorm before the head", {**_BP, "out_ln": False}, {}),
            ("resmlp/dfa/no_out_ln", "without the LayerNorm before the head", {**_DFA, "out_ln": False}, {}),
            ("vit/bp", "ViT-Mini", {**_BP, "model": "vit"}, _VIT),
            ("vit/dfa", "ViT-Mini, credit spread over the tokens", {**_DFA, "model": "vit"}, _VIT),
            ("conv/bp", "a plain convolutional network", {**_BP, **_PLAIN}, _CONV),
            ("conv/dfa", "the same, credit spread over the places", {**_DFA, **_PLAIN}, _CONV),
            ("resmlp/bp/no_skip", "h = f instead of h + f", {**_BP, "skip": False}, no_skip),
            ("resmlp/dfa/no_skip", "h = f instead of h + f", {**_DFA, "skip": False}, no_skip),
            ("resmlp/dfa/random_targets", "fresh random labels", {**_DFA, "random_targets": True}, {}),
            ("resmlp/dfa/no_rms", "credit keeps the size of the error", {**_DFA, "rms": False}, {}),
            ("resmlp/dfa/no_clip", "blocks are not clipped", {**_DFA, "clip": False}, {}),
            ("resmlp/dfa/bare", "the rule alone: no RMS, no clipping", {**_DFA, "rms": False, "clip": False}, {}),
            ("resmlp/dfa/sgd", "SGD instead of AdamW", {**_DFA, "optimizer": "sgd"}, {"lr": 0.1}),
            ("resmlp/dfa/bare/sgd", "the rule alone, under SGD",
             {**_DFA, "rms": False, "clip": False, "optimizer": "sgd"}, {"lr": 0.1}),
            ("resmlp/dfa/penalised", "plus 0.01 ||f||^2 per block", {**_DFA, "penalty": 0.01}, {}),
            ("resmlp/bp/sgd", "SGD instead of AdamW", {**_BP, "optimizer": "sgd"}, {"lr": 0.1}),
            ("resmlp/bp/clip", "blocks clipped as DFA's are", {**_BP, "clip": True}, {}),
            ("resmlp/bp/rms", "credit normalised as DFA's is", {**_BP, "rms": True}, {}),
            ("resmlp/shallow", "only norm and head learn", {"rule": "shallow"}, {}),
            ("resmlp/frozen", "embed, norm and head learn, blocks do not", {"rule": "frozen"}, {}),
        ]  # fmt: skip
        default = {"resmlp/bp", "resmlp/dfa", "resmlp/bp/no_out_ln", "resmlp/dfa/no_out_ln"}
        return [Arm(name, about, treatment, preset, name in default) for name, about, treatment, preset in rows]

    def train(self, specs: Sequence[RunSpec], work: Workplace) -> list[RunResult]:
        """Trains the runs one after the other."""
        from kymograph.studies.image_training import train

        return [train(spec, work) for spec in specs]

    def claims(self) -> Sequence[Claim]:
        """Returns the script's findings, in its own set-up and in the repaired one."""
        from kymograph.studies.snapshot.claims import claims

        return claims()

    def figures(self) -> Mapping[str, Callable[[Store], Figure]]:
        """Returns the two paper figures and the kymographs of stream and gradient."""
        home = "kymograph.studies.snapshot.figures"
        return {
            "snapshot-resmlp": Drawing(
                f"{home}:resmlp",
                "||h_L|| and ||g_2|| of the residual MLP over epochs, with and without terminal LayerNorm",
            ),
            "snapshot-vit": Drawing(f"{home}:vit", "||h_L|| and ||g_2|| of ViT-Mini over epochs"),
            "snapshot-kymograph": Drawing(f"{home}:stream_kymograph", "||h_l|| over depth and epochs, a panel per arm"),
            "snapshot-kymograph-gradient": Drawing(
                f"{home}:gradient_kymograph", "||g_l|| over depth and epochs, a panel per arm"
            ),
        }

    def to_script(self, store: Store) -> Mapping[str, Any]:
        """Returns one seed's BP and DFA run of one network in the layout of the script's JSON."""
        from kymograph.runs.formats.script_logs import to_script

        return to_script(store)
