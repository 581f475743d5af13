"""The arms: which rules train which networks, with the size of each network and the rates tried for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kymograph import Arm, Tuned

TOKENS = "marked-sums"
"""The generated data set of the Transformer on tokens."""
HEAD_ONLY, EXACT = "shallow", "bp"
"""The rules with which every table compares the others."""
TUNING_SEEDS = 3
RATES = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
LARGE_RATES = (1.0, 0.3, *RATES[:5])
"""The rates of the convolutions, which tolerate large steps and learn nothing in so few small ones."""
SMALL_RATES = RATES[1:6]
"""The rates of the Transformers, none of which learns at 0.1."""
EVERY_RATE = (10.0, 3.0, 1.0, 0.3, *RATES, 0.00003, 0.00001, 0.000003)
GRIDS: Mapping[str, tuple[float, ...]] = {
    HEAD_ONLY: EVERY_RATE[:8],  # a read-out alone tolerates large steps
    # A signal that never vanishes keeps driving the weights. The best step may then be so small that the blocks hardly
    # change, or so large that they become useless and only the read-out counts.
    "sdfa": EVERY_RATE,
    "drtp": EVERY_RATE,
    "random-credit": EVERY_RATE,
}
"""The rates tried for a rule on every network; for other rules they depend on the network."""
DECAYS = {"mlp/kp/decay": (0.1, 175), "mlp/kp/strong-decay": (1.0, 18)}
"""The arms that test the theory of Kolen-Pollack: weight decay, and the number of epochs that it requires."""


@dataclass(frozen=True)
class Network:
    """A network of the study: its label, its settings, and whether it is trained with every rule or only some."""

    label: str
    settings: Mapping[str, Any]
    rates: tuple[float, ...] = RATES
    treatment: Mapping[str, Any] = field(default_factory=dict)
    every_rule: bool = False


_FEW = {"measurements": 6}
NETWORKS: Mapping[str, Network] = {
    "mlp": Network("MLP", {"depth": 2, "width": 128}, every_rule=True),
    "resmlp": Network("Residual MLP", {"depth": 2, "width": 64, **_FEW}),
    "conv": Network("Convolution", {"depth": 2, "width": 16, **_FEW}, LARGE_RATES),
    "conv-bn": Network("Convolution, batch norm", {"depth": 2, "width": 16, **_FEW}, LARGE_RATES),
    "vit": Network("ViT-Mini", {"depth": 2, "width": 32, **_FEW}, SMALL_RATES),
    "transformer": Network("Transformer on tokens", {"depth": 2, "width": 32, **_FEW}, SMALL_RATES, {"data": TOKENS}),
}


@dataclass(frozen=True)
class FamilyRule:
    """A rule of the study: its label and style in figures, and whether every network is trained with it."""

    label: str
    colour: str
    dash: str = "solid"
    every_network: bool = False


RULES: Mapping[str, FamilyRule] = {
    "bp": FamilyRule("BP", "blue", every_network=True),
    "fa": FamilyRule("FA", "green", every_network=True),
    "usf": FamilyRule("uSF", "purple", every_network=True),
    "brsf": FamilyRule("brSF", "purple", "dashed"),
    "frsf": FamilyRule("frSF", "purple", "dotted"),
    "kp": FamilyRule("Kolen-Pollack", "orange", every_network=True),
    "wm": FamilyRule("weight mirror", "orange", "dashed"),
    "dfa": FamilyRule("DFA", "vermilion", every_network=True),
    "sdfa": FamilyRule("sDFA", "vermilion", "dashed"),
    "drtp": FamilyRule("DRTP", "sky", every_network=True),
    "dkp": FamilyRule("DKP", "vermilion", "dotted"),
    "penalised-dfa": FamilyRule("penalised DFA", "vermilion", "dash-dot"),
    "shallow": FamilyRule("head only", "black", every_network=True),
    "frozen": FamilyRule("frozen blocks", "black", "dashed"),
    "random-credit": FamilyRule("random credit", "black", "dotted"),
    "normalised-bp": FamilyRule("normalised BP", "blue", "dashed"),
}
_LAYERWISE = ("bp", "normalised-bp", "fa", "usf", "brsf", "frsf", "kp", "wm")
"""The rules in the first of two panels, for a network with too many rules for one panel."""


def family_arms() -> list[Arm]:
    """Returns an arm for every combination of network and rule, and those for the theory of Kolen-Pollack."""
    return [*_pairs(), *_theory_arms()]


def family_grids() -> dict[str, Tuned]:
    """Returns the rule by which each arm's rate is tuned; the rate of the theory's arms is part of their claims."""
    grids = {}
    for arm in _pairs():
        network, rule = arm.treatment["network"], arm.treatment["rule"]
        rates = GRIDS.get(rule, NETWORKS[network].rates)
        grids[arm.name] = Tuned("lr", rates, by="validation_accuracy", best="highest", seeds=TUNING_SEEDS)
    return grids


def _pairs() -> Iterator[Arm]:
    for network_name, network in NETWORKS.items():
        for rule_name, rule in RULES.items():
            if not (network.every_rule or rule.every_network):
                continue
            group = ""
            if network.every_rule:
                group = ", layer by layer" if rule_name in _LAYERWISE else ", direct or none"
            yield Arm(
                f"{network_name}/{rule_name}",
                f"{network.label}, {rule.label}",
                {"network": network_name, "rule": rule_name, **network.treatment},
                network.settings,
                default=True,
                panel=network.label + group,
                label=f"{network.label}, {rule.label}",
                colour=rule.colour,
                dash=rule.dash,
            )


def _theory_arms() -> Iterator[Arm]:
    """Yields Kolen-Pollack with decays for which B should converge to W within the run."""
    for name, (decay, epochs) in DECAYS.items():
        yield Arm(
            name,
            f"Kolen-Pollack at a decay of {decay:g}, until B should have converged to W",
            {"network": "mlp", "rule": "kp", "lr": 0.01, "wd": decay},
            {**NETWORKS["mlp"].settings, "epochs": epochs},
            default=True,
            panel="Kolen-Pollack's theory",
            label=f"MLP, Kolen-Pollack, decay {decay:g}",
            colour="orange",
        )
