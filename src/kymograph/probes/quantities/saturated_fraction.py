"""Saturated fraction: the share of activations at which a tanh or a sigmoid is flat."""

from __future__ import annotations

from torch import Tensor, nn

PART = {
    "about": "share of activations at which the slope of a tanh or sigmoid is below 5 % of its largest",
    "unit": "1",
    "log": False,
    "level": "standard",
    "order": 22,
    "at": "output",
    "together": "mean",
    "layers": ["Tanh", "Sigmoid"],
}
FLAT = 0.95**0.5  # 1 - tanh^2 < 0.05 beyond it: at tanh = +-0.975, at sigmoid = 0.013 and 0.987


def saturated_fraction(output: Tensor, layer: nn.Module) -> Tensor:
    """Returns the share of entries of ``output`` at which ``layer`` has less than 5 % of its largest slope.

    That is |tanh| > 0.975, and a sigmoid below 0.013 or above 0.987, the same for tanh(z / 2). Only nn.Tanh and
    nn.Sigmoid are measured.

    >>> float(saturated_fraction(torch.tensor([0.0, 0.98, -0.99, 0.5]), nn.Tanh()))
    0.5
    """
    centred = output if isinstance(layer, nn.Tanh) else 2.0 * output - 1.0
    return (centred.abs() > FLAT).float().mean()
