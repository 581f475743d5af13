"""Quantities: what a probe reads while a network trains, one module per family.

``PARTS`` at the top of each module lists its quantities, each with the function that computes it; no other
registration is needed. A user's package adds its own through entry points of the group ``kymograph.quantities``, e.g.
as a module with a ``PART`` and a function of the module's name. The entry of a quantity says

- ``about``, ``unit``: what it is;
- ``log``: False if it is always drawn on a linear scale, as a fraction is;
- ``level``: the lowest level at which it is read (``light``, ``standard``, ``deep``); without one, only by name;
- ``at``: what the function is given, see `QuantityInput`; or ``from``: the quantities that it is computed from, as
  arrays of shape (steps, layers), after training;
- ``point``: of a gradient, the point at which it is read: ``unscaled`` (in the backward pass or at its end, divided by
  the scale of a ``GradScaler``) or ``clipped`` (as the optimizer applies it);
- ``together``: how several readings of a layer in one step (several calls, several weight tensors) are combined:
  ``norm`` (root of the sum of squares), ``sum``, ``mean`` (the default) or ``max``;
- ``across``: how readings of a layer in several micro-batches (between which gradients are accumulated) become that of
  the batch, if not like those of several calls: ``max``; ``union`` (the function returns a value of at least 0 per
  unit, and units that are above 0 in some micro-batch are counted); or ``undefined`` (they do not: NaN, with a note);
- ``layers``: class names, if it is defined for these layers only;
- ``view``: ``units`` if the function takes an output as a matrix (samples, units); ``flat`` if it takes all weights of
  a layer as one vector.

A function returns a zero-dimensional tensor on the device of its input, or a number, and must not change its input. A
function of an output may have a second parameter, which is the layer.

    >>> chosen("light")
    ('output_norm', 'output_gradient_norm', 'weight_norm', 'update_norm')
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kymograph._errors import KymographError, did_you_mean
from kymograph._registry import Registry

QUANTITIES = Registry("kymograph.quantities", "kymograph._probes.quantities", noun="quantity")
LEVELS = ("light", "standard", "deep")
TOGETHER = ("norm", "sum", "mean", "max")
ACROSS = ("", "max", "union", "undefined")


class QuantityInput(enum.Enum):
    """What a quantity's function is given."""

    OUTPUT = "output"  # a layer's output, as each call ends
    OUTPUT_GRADIENT = "output-gradient"  # the gradient with respect to that output, in the backward pass
    ATTENTION = "attention"  # the weights of an nn.MultiheadAttention, (batch, heads, queries, keys)
    WEIGHT = "weight"  # a list of weight tensors before the step; the function returns a list of as many numbers
    UPDATE = "update"  # what the step subtracted from them, likewise
    WEIGHT_GRADIENT = "weight-gradient"  # as applied; two lists: each layer's, flat; the previously measured ones
    RAW_WEIGHT_GRADIENT = "raw-weight-gradient"  # a list of weight tensors' gradients as the backward pass ends
    NETWORK = "network"  # a `FixedBatch`: the network, a loss and a batch that never changes


@dataclass(frozen=True)
class LoadedQuantity:
    """A quantity that is ready to be read."""

    name: str
    function: Callable[..., Any]
    input: QuantityInput | None
    """None: it is computed from ``sources``."""
    sources: tuple[str, ...] = ()
    together: str = "mean"
    across: str = ""
    layers: tuple[str, ...] = ()
    units: bool = False
    flat: bool = False
    wants_layer: bool = False
    """The function has a second parameter: the layer whose output it is given."""


def chosen(level: str | Iterable[str]) -> tuple[str, ...]:
    """Returns the names of a level's quantities, or the given names, in the order in which they are listed."""
    if not isinstance(level, str):
        return tuple(dict.fromkeys(_spelled(name) for name in level))
    if level not in LEVELS:
        raise KymographError(
            f"there is no level {level!r}; use light, standard or deep, or a list of quantities: "
            + ", ".join(offered())
        )
    included = LEVELS[: LEVELS.index(level) + 1]
    return tuple(
        _spelled(part.name) for part in QUANTITIES.parts().values() if part.properties.get("level") in included
    )


def offered() -> list[str]:
    """Returns the names of the quantities to offer to a user.

    Those without a level that others are computed from, such as counts of units, are left out but can be read by name.
    """
    parts = QUANTITIES.parts().values()
    sources = {_spelled(source) for part in parts for source in part.properties.get("from", ())}
    names = {_spelled(part.name): part for part in parts}
    return [name for name, part in names.items() if "level" in part.properties or name not in sources]


def load(names: Iterable[str]) -> dict[str, LoadedQuantity]:
    """Returns the quantities called ``names``, each after those that it is computed from."""
    loaded: dict[str, LoadedQuantity] = {}
    for name in names:
        quantity = _load(name)
        loaded |= load(quantity.sources)
        loaded.setdefault(quantity.name, quantity)
    return loaded


def _load(name: str) -> LoadedQuantity:
    registered = name.replace("_", "-")
    if registered not in QUANTITIES.parts():
        raise KymographError(f"there is no quantity {name!r}{did_you_mean(name, offered())}")
    part = QUANTITIES.part(registered)
    properties, function = part.properties, QUANTITIES.load(registered)
    sources = tuple(map(_spelled, properties.get("from", ())))
    together = str(properties.get("together", "mean"))
    across = str(properties.get("across", ""))
    inputs = {kind.value: kind for kind in QuantityInput}
    at = properties.get("at")
    unknown = (at is not None and at not in inputs) or together not in TOGETHER or across not in ACROSS
    if bool(sources) == (at is not None) or unknown:
        raise KymographError(
            f"the PART of quantity {name!r} needs either 'from', the quantities that it is computed from, or 'at', one "
            f"of {', '.join(inputs)}; and 'together', if given, must be one of {', '.join(TOGETHER)}, 'across' one of "
            + ", ".join(filter(None, ACROSS))
        )
    given = None if at is None else inputs[at]
    return LoadedQuantity(
        name=_spelled(part.name),
        function=function,
        input=given,
        sources=sources,
        together=together,
        across=across,
        layers=tuple(properties.get("layers", ())),
        units=properties.get("view") == "units",
        flat=(properties.get("view") == "flat" and given is not QuantityInput.RAW_WEIGHT_GRADIENT)
        or given is QuantityInput.WEIGHT_GRADIENT,
        wants_layer=given is QuantityInput.OUTPUT and len(inspect.signature(function).parameters) > 1,
    )


def _spelled(name: str) -> str:
    """Returns a quantity's name as series spell it, with underscores."""
    return name.replace("-", "_")
