"""The initial weights of a network, drawn from a given generator."""

from __future__ import annotations

import torch
from torch import nn

NORMS = (nn.LayerNorm, nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d)


def initialise(net: nn.Module, draw: torch.Generator) -> None:
    """Redraws every parameter from ``draw``, in order, as torch's constructors draw from the global generator.

    Linear and convolution weights and biases are uniform on +-1/sqrt(fan_in); norms start at one and zero; any other
    parameter, such as a class token, is normal with standard deviation 0.02. A module's method ``first_stds`` may name
    layers whose weights are then normal with the given standard deviation, and whose biases are zero.
    """
    small = {
        layer: std
        for module in net.modules()
        if callable(stds := getattr(module, "first_stds", None))
        for layer, std in stds().items()
    }
    drawn: set[int] = set()
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=5**0.5, generator=draw)
                if module.bias is not None:
                    bound = module.weight[0].numel() ** -0.5
                    module.bias.uniform_(-bound, bound, generator=draw)
                if module in small:
                    # The draw above is discarded, as in the script: later random numbers depend on it.
                    module.weight.normal_(0.0, small[module], generator=draw)
                    if module.bias is not None:
                        module.bias.zero_()
            elif isinstance(module, NORMS):
                for parameter, value in ((module.weight, 1.0), (module.bias, 0.0)):
                    if parameter is not None:
                        parameter.fill_(value)
            else:
                continue
            drawn |= {id(parameter) for parameter in module.parameters(recurse=False)}
        for parameter in net.parameters():
            if id(parameter) not in drawn:
                parameter.normal_(0.0, 0.02, generator=draw)
