"""How do residual-stream and gradient norms evolve under BP and DFA?

Each run trains one network on images and measures, epoch by epoch, the stream, the gradient on it, and the cosine of
credit and gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kymograph import Arm, RunResult, RunSpec, SeriesDisplay, Workplace
from kymograph.studies import OVER_DEPTH, SEEDED
from kymograph_studies.labels import SETUP_MEANINGS
from kymograph_studies.published import PublishedValue
from kymograph_studies.training.image_study import NORMS, PAPER, TRAINED_SERIES, ImageSettings, ImageStudy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph import Claim


PART: dict[str, Any] = {
    "about": "How do residual-stream and gradient norms evolve under BP and DFA?",
    "order": 3,
}


@dataclass(frozen=True)
class SnapshotConfig(ImageSettings):
    """Every setting of a `snapshot` run; an arm sets the network and the learning rule."""


_DFA: dict[str, Any] = {"rule": "dfa", "rms": True, "clip": True}
_BP: dict[str, Any] = {"rule": "bp"}
_VIT: dict[str, Any] = {"width": 128}
_CONV: dict[str, Any] = {"width": 64, "out_ln": False}
_PLAIN: dict[str, Any] = {"model": "conv", "skip": False}
_NETWORKS = {
    "resmlp": ("", "Residual MLP"),
    "vit": ("ViT-Mini", "ViT-Mini"),
    "conv": ("convolutional", "Convolutional network"),
}
"""The start of an arm's label, and the panel of the network's own arms."""
_RULES = {
    "bp": ("BP", "blue"),
    "dfa": ("DFA", "vermilion"),
    "shallow": ("shallow", "black"),
    "frozen": ("frozen blocks", "black"),
}
_VARIANTS = {
    "no_out_ln": ("no terminal LayerNorm", "Without terminal LayerNorm"),
    "no_skip": ("no skip", "Without skip connections"),
    "random_targets": ("random labels", "DFA ablations"),
    "no_rms": ("no RMS", "DFA ablations"),
    "no_clip": ("no clipping", "DFA ablations"),
    "bare": ("bare", "DFA ablations"),
    "sgd": ("SGD", "Under SGD"),
    "bare/sgd": ("bare, SGD", "Under SGD"),
    "penalised": ("penalty 0.01", "DFA ablations"),
    "clip": ("clipped", "BP with DFA's additions"),
    "rms": ("RMS credit", "BP with DFA's additions"),
}
"""By the end of an arm's name: what it adds to the label, and its panel."""


def _style(arm: str) -> dict[str, str]:
    """Returns label, panel and colour of an arm; BP and DFA have one colour each in every study."""
    network, rule, *variant = arm.split("/", 2)
    label, colour = _RULES[rule]
    extra, panel = _VARIANTS[variant[0]] if variant else ("", _NETWORKS[network][1])
    style = {
        "label": ", ".join(filter(None, (_NETWORKS[network][0], label, extra))),
        "panel": "Baselines" if colour == "black" else panel,
        "colour": colour,
    }
    # The arm `penalised` of the study `calibration` looks the same.
    return {**style, "colour": "purple", "dash": "long"} if variant == ["penalised"] else style


_PUBLISHED = {"data": "cifar10", "epochs": 30}
_PUBLISHED_LONG = {"data": "cifar10", "epochs": 100}
_PUBLISHED_VIT = {"data": "cifar10"}
_OTHER_COPY = "not explained; the published spread is over three seeds, and our images may be another copy (see below)"
_SHORT = "our runs may be shorter; the published number of epochs is not stated"
_NOT_YET = "in a seed without an alarm it may come after our last epoch"


class Snapshot(ImageStudy[SnapshotConfig]):
    """Norms of stream and gradient over training, by learning rule."""

    name = "snapshot"
    question = PART["about"]
    order = PART["order"]
    methods = SEEDED
    reference_settings: ClassVar[Mapping[str, Any]] = {"data": "cifar10"}
    setup_meanings = SETUP_MEANINGS
    version = 3
    config_type = SnapshotConfig
    headlines = {
        "test_accuracy": "test accuracy",
        "final_h_L": "‖h_L‖",
        "final_g_2_script": "‖g_2‖ (script's scale)",
        "final_gamma": "γ",
    }
    bounds = NORMS
    series = (
        *TRAINED_SERIES,
        SeriesDisplay("cos_out", "Credit and gradient", "cosine", log=False, forms=OVER_DEPTH),
    )
    published = {
        PAPER: (
            PublishedValue("resmlp/bp", "test_accuracy", "test accuracy", ".585 ± .001", 0.584, 0.586, _PUBLISHED,
                           _OTHER_COPY),
            PublishedValue("resmlp/dfa", "test_accuracy", "test accuracy", ".301 ± .005", 0.296, 0.306, _PUBLISHED),
            PublishedValue("resmlp/dfa", "alarm_growth_epoch", "first epoch of the growth alarm", "8 to 11", 8, 11,
                           _PUBLISHED),
            PublishedValue("resmlp/dfa", "alarm_gradient_epoch", "first epoch of the gradient alarm", "3 to 4", 3, 4,
                           _PUBLISHED),
            PublishedValue("resmlp/dfa", "final_gamma", "γ", ".087 to .107, to epoch 100", 0.087, 0.107, _PUBLISHED),
            PublishedValue("resmlp/bp", "test_accuracy", "test accuracy", ".615 to .617", 0.615, 0.617,
                           _PUBLISHED_LONG),
            PublishedValue("resmlp/bp", "final_h_L", "‖h_L‖", "2e2", 1.5e2, 2.5e2, _PUBLISHED_LONG),
            PublishedValue("resmlp/dfa", "test_accuracy", "test accuracy", ".306 ± .008", 0.298, 0.314,
                           _PUBLISHED_LONG),
            PublishedValue("resmlp/dfa", "final_h_L", "‖h_L‖", "4e8 to 5e8", 4e8, 5e8, _PUBLISHED_LONG),
            PublishedValue("resmlp/dfa/no_skip", "final_h_L", "‖h_L‖", "8.2e7", 8.15e7, 8.25e7, _PUBLISHED_LONG),
            PublishedValue("resmlp/dfa/random_targets", "final_h_L", "‖h_L‖", "1.67e8", 1.665e8, 1.675e8,
                           _PUBLISHED_LONG),
            PublishedValue("resmlp/dfa/no_out_ln", "final_h_L", "‖h_L‖", "1.2e7", 1.15e7, 1.25e7, _PUBLISHED_LONG),
            PublishedValue("vit/dfa", "test_accuracy", "test accuracy", ".20 to .26", 0.20, 0.26, _PUBLISHED_VIT,
                           _SHORT),
            PublishedValue("vit/dfa", "alarm_growth_epoch", "first epoch of the growth alarm", "1", 1, 1,
                           _PUBLISHED_VIT),
            PublishedValue("vit/dfa", "alarm_gradient_epoch", "first epoch of the gradient alarm", "2 to 3", 2, 3,
                           _PUBLISHED_VIT, _NOT_YET),
        )
    }  # fmt: skip

    def arms(self) -> Sequence[Arm]:
        """Returns the script's arms, other networks, and ablations of the rule."""
        no_skip = {"w2_std": 0.05}
        rows: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
            ("resmlp/bp", "backpropagation", _BP, {}),
            ("resmlp/dfa", "DFA as in the script: RMS-normalised credit, clipped blocks", _DFA, {}),
            ("resmlp/bp/no_out_ln", "without the LayerNorm before the head", {**_BP, "out_ln": False}, {}),
            ("resmlp/dfa/no_out_ln", "without the LayerNorm before the head", {**_DFA, "out_ln": False}, {}),
            ("vit/bp", "ViT-Mini", {**_BP, "model": "vit"}, _VIT),
            ("vit/dfa", "ViT-Mini, credit spread over the tokens", {**_DFA, "model": "vit"}, _VIT),
            ("conv/bp", "a plain convolutional network", {**_BP, **_PLAIN}, _CONV),
            ("conv/dfa", "the same, credit spread over the positions", {**_DFA, **_PLAIN}, _CONV),
            ("resmlp/bp/no_skip", "h = f instead of h + f", {**_BP, "skip": False}, no_skip),
            ("resmlp/dfa/no_skip", "h = f instead of h + f", {**_DFA, "skip": False}, no_skip),
            ("resmlp/dfa/random_targets", "fresh random labels", {**_DFA, "random_targets": True}, {}),
            ("resmlp/dfa/no_rms", "credit keeps the magnitude of the error", {**_DFA, "rms": False}, {}),
            ("resmlp/dfa/no_clip", "blocks are not clipped", {**_DFA, "clip": False}, {}),
            ("resmlp/dfa/bare", "the rule alone: no RMS, no clipping", {**_DFA, "rms": False, "clip": False}, {}),
            ("resmlp/dfa/sgd", "SGD instead of AdamW", {**_DFA, "optimizer": "sgd"}, {"lr": 0.1}),
            ("resmlp/dfa/bare/sgd", "the rule alone, under SGD",
             {**_DFA, "rms": False, "clip": False, "optimizer": "sgd"}, {"lr": 0.1}),
            ("resmlp/dfa/penalised", "plus 0.01 ‖f‖² per block", {**_DFA, "penalty": 0.01}, {}),
            ("resmlp/bp/sgd", "SGD instead of AdamW", {**_BP, "optimizer": "sgd"}, {"lr": 0.1}),
            ("resmlp/bp/clip", "blocks clipped as under DFA", {**_BP, "clip": True}, {}),
            ("resmlp/bp/rms", "credit normalised as under DFA", {**_BP, "rms": True}, {}),
            ("resmlp/shallow", "only norm and head learn", {"rule": "shallow"}, {}),
            ("resmlp/frozen", "embed, norm and head learn, blocks do not", {"rule": "frozen"}, {}),
        ]  # fmt: skip
        default = {"resmlp/bp", "resmlp/dfa", "resmlp/bp/no_out_ln", "resmlp/dfa/no_out_ln"}
        return [
            Arm(name, about, treatment, preset, name in default, **_style(name), baseline=name == "resmlp/bp")
            for name, about, treatment, preset in rows
        ]

    def train(self, specs: Sequence[RunSpec[SnapshotConfig]], work: Workplace) -> list[RunResult]:
        """Trains the runs one after the other; returns each one's series, summary and network."""
        from kymograph_studies.training.image_training import fit, result

        return [result(spec, fit(spec, spec.config, work)) for spec in specs]

    def claims(self) -> Sequence[Claim]:
        """Returns the claims of `kymograph_studies.snapshot.claims`; a subclass of another name has none of them."""
        from kymograph_studies.snapshot.claims import claims

        return [claim for claim in claims() if claim.study == self.name]

    def figures(self) -> Mapping[str, Callable[..., Figure]]:
        """Returns the figures of `kymograph_studies.snapshot.figures`."""
        from kymograph_studies.snapshot.figures import FIGURES

        return FIGURES
