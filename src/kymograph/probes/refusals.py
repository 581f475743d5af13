"""Requests that a probe cannot serve: refused before training, or noted."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from kymograph.errors import KymographError
from kymograph.probes.fixed_batch import FixedBatch
from kymograph.probes.layers import ProbedLayer
from kymograph.probes.quantities import LoadedQuantity, QuantityInput


def refuse_impossible(quantities: Sequence[LoadedQuantity], fixed: FixedBatch | None, twin: bool) -> None:
    """Raises if quantities, or a compiled model's eager twin, need a batch and have none, or nothing is trainable."""
    network = [one.name for one in quantities if one.input is QuantityInput.NETWORK]
    if network and fixed is None:
        needing = " and ".join(network)
        raise KymographError(f"{needing} need loss= and batch=, where loss(model, batch) returns a scalar tensor")
    if fixed is not None and not fixed.parameters:
        raise KymographError("the model has no trainable parameters to differentiate the loss by")
    if twin and fixed is None:
        raise KymographError(
            "the model is compiled, so no hook runs inside it: give loss= and batch= to measure its eager twin on "
            "that batch, or choose quantities of the weights, e.g. level=['weight_norm', 'update_norm']"
        )


def unmeasurable(quantities: Sequence[LoadedQuantity], layers: Sequence[ProbedLayer]) -> dict[str, str]:
    """Returns a note for each quantity that no layer of the network has."""
    if any(isinstance(layer.module, nn.MultiheadAttention) for layer in layers):
        return {}
    return {
        one.name: f"{one.name} is not measured: no nn.MultiheadAttention is among the layers, and the weights inside "
        "scaled_dot_product_attention cannot be seen"
        for one in quantities
        if one.input is QuantityInput.ATTENTION
    }
