"""Which series a report draws, and how: title, unit, scale, and how long series are thinned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from kymograph.figures.seed_curves import Bin
from kymograph.runs.store import Store
from kymograph.studies.base import BUILT_IN

Form = Literal["curves", "kymograph", "profile", "nulls"]
ARMS_A_PANEL = 6  # as many as have colours that everybody tells apart on white and on black
MOST_GENERIC = 12


@dataclass(frozen=True)
class Look:
    """How one series is shown."""

    series: str
    title: str
    unit: str
    log: bool | None = None
    """None: a log scale if all values are positive and span more than a factor of 50."""
    bin_by: Bin = "mean"
    """What a bin of a long series keeps: its mean, or its largest value where peaks matter."""
    site: str | None = None
    """The one site to draw as curves, of a series that has several."""
    forms: tuple[Form, ...] = ("curves",)


_DEPTH: tuple[Form, ...] = ("kymograph", "profile")
_TRAINED = (
    Look("test_accuracy", "Test accuracy", "fraction correct", log=False),
    Look("train_loss", "Training loss", "cross-entropy, nats", log=True),
    Look("stream_norm", "The residual stream", "‖h‖, median over images", log=True, forms=_DEPTH),
    Look("stream_grad", "The gradient on the stream", "‖∂L/∂h‖, median over images", log=True, forms=_DEPTH),
)
LOOKS: dict[str, tuple[Look, ...]] = {
    "clipping": (
        Look("loss", "Training loss", "cross-entropy, nats", log=True),
        Look("weight_norm", "Weight norm", "‖w‖", log=False),
        Look("weight_norm_change", "Change of the weight norm per step", "|Δ‖w‖|", log=True, bin_by="max"),
        Look("grad_norm", "Gradient norm before clipping", "‖g‖", log=True, bin_by="max"),
        Look("effective_dim", "Effective dimension of the embedding", "dimensions", log=False),
        Look("accuracy", "Accuracy on the rare class", "fraction correct", log=False, site="class_1"),
    ),
    "depth": (
        Look("loss", "Training loss", "mean squared error", log=True),
        Look("forward_gain", "Forward gain", "gain of ‖h‖ per layer", site="estimate"),
        Look("backward_gain", "Backward gain", "gain of ‖∂L/∂h‖ per layer", site="estimate"),
        Look("stream_norm", "The stream", "‖h‖, median over samples", log=True, forms=_DEPTH),
        Look("stream_grad", "The gradient on the stream", "‖∂L/∂h‖", log=True, forms=_DEPTH),
        Look("pre_std", "Spread before the ReLU", "standard deviation", log=True, forms=("profile",)),
        Look("grad_norm", "Gradient before the ReLU", "‖∂L/∂z‖", log=True, forms=("profile",)),
    ),
    "snapshot": (
        *_TRAINED,
        Look("cos_out", "Credit against gradient", "cosine", log=False, forms=_DEPTH),
    ),
    "audit": _TRAINED,
    "calibration": (
        Look("null_fresh", "Observed credit cosines against their nulls", "density", log=False, forms=("nulls",)),
        Look("cosine", "Credit against gradient, after training", "cosine", log=False, forms=("profile",)),
        *_TRAINED,
    ),
}
EPOCHS = ("snapshot", "calibration", "audit")  # studies whose series are taken at epochs and not at steps
_SECONDARY = ("null_", "p_")


def looks_of(study: str, names: Iterable[str], with_sites: Iterable[str]) -> list[Look]:
    """Returns how the series ``names`` of a study are drawn: the declared ones, or all of a study of one's own."""
    there, sited = list(names), set(with_sites)
    if study in LOOKS:
        return [look for look in LOOKS[study] if look.series in there]
    found = [
        Look(name, name, name, forms=_DEPTH if name in sited else ("curves",))
        for name in sorted(there)
        if not name.startswith(_SECONDARY)
    ]
    return found[:MOST_GENERIC]


def in_order(studies: Sequence[str]) -> list[str]:
    """Returns the built-in studies in their own order, then the others."""
    known = list(BUILT_IN)
    return sorted(studies, key=lambda name: (known.index(name) if name in known else len(known), name))


def time_axis(study: str) -> str:
    """Returns what a study's series run over."""
    return "epoch" if study in EPOCHS else "training step"


def panels_of(study: str, arms: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Returns the arms of each panel with the panel's title: pairs of `clipping`, otherwise a few arms a panel."""
    if study == "clipping":
        groups: dict[str, list[str]] = {}
        for arm in arms:
            groups.setdefault(arm.rpartition("/")[0], []).append(arm)
        return [
            (title, group[first : first + ARMS_A_PANEL])
            for title, group in groups.items()
            for first in range(0, len(group), ARMS_A_PANEL)
        ]
    count = -(-len(arms) // ARMS_A_PANEL)
    size = -(-len(arms) // count) if count else 1
    return [
        (f"arms {first + 1} to {min(first + size, len(arms))} of {len(arms)}" if count > 1 else "",
         list(arms[first : first + size]))
        for first in range(0, len(arms), size)
    ]  # fmt: skip


def settings_of(store: Store) -> list[tuple[dict[str, object], Store]]:
    """Returns the runs apart by the settings with which one arm was run at several values, e.g. two tasks."""
    varied: set[str] = set()
    for arm in store.arms:
        runs = store.select(arms=[arm]).runs
        fields = {name for run in runs for name in run.config}
        varied |= {name for name in fields if len({repr(run.config.get(name)) for run in runs}) > 1}
        if len({run.spec.version for run in runs}) > 1:
            varied.add("version")
    parts: dict[tuple[str, ...], list] = {}
    values: dict[tuple[str, ...], dict[str, object]] = {}
    for run in store.runs:
        own = {name: run.spec.version if name == "version" else run.config.get(name) for name in sorted(varied)}
        key = tuple(repr(value) for value in own.values())
        parts.setdefault(key, []).append(run)
        values[key] = own
    return [(values[key], Store(parts[key], store.root)) for key in sorted(parts)]
