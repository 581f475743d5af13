"""Cuts any ``nn.Module`` into embed, blocks and read-out, guessing inputs that it accepts where none are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from kymograph import KymographError
from kymograph.quantities import evaluation_mode
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.models.flat import ReplicaNetwork

SIZES = (8, 16, 28, 32, 64, 96, 128, 224)
"""Image sides and sequence lengths, tried in this order."""
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def guess_example(net: nn.Module, samples: int = 2, draw: torch.Generator | None = None) -> Tensor:
    """Returns inputs (samples, ...) that ``net`` runs on; raises if none of those tried is accepted.

        guess_example(nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 3))).shape  # (2, 8)

    They are standard normal, or indices for an embedding, drawn from ``draw``; without it, zeros.
    """
    for shape, categories in _shapes(net, samples):
        like = next((parameter for parameter in net.parameters() if parameter.is_floating_point()), torch.empty(0))
        if categories:
            x = torch.randint(categories, shape, generator=draw) if draw else torch.zeros(shape, dtype=torch.int64)
        else:
            x = torch.randn(shape, generator=draw).to(like.dtype) if draw else torch.zeros(shape, dtype=like.dtype)
        x = x.to(like.device)
        try:
            with evaluation_mode(net), torch.no_grad():
                net(x)
        except (RuntimeError, ValueError, IndexError, TypeError):
            continue
        return x
    raise KymographError(f"the inputs of {type(net).__name__} cannot be guessed; give an example, such as two samples")


def _shapes(net: nn.Module, samples: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yields shapes to try, each with the number of categories, or 0 for real-valued inputs."""
    for layer in net.modules():
        if isinstance(layer, nn.Embedding):
            yield from (((samples, size), layer.num_embeddings) for size in SIZES)
            yield (samples,), layer.num_embeddings
            return
        if isinstance(layer, CONVOLUTIONS):
            axes = layer.weight.dim() - 2
            yield from (((samples, layer.in_channels, *[size] * axes), 0) for size in SIZES)
            return
        if isinstance(layer, nn.Linear):
            yield (samples, layer.in_features), 0
            yield from (((samples, size, layer.in_features), 0) for size in SIZES)
            for channels in (1, 3):  # an image that the network flattens
                side = round((layer.in_features / channels) ** 0.5)
                yield (samples, channels, side, side), 0
            return


_NAMES = {"embed": ("embed",), "norm": ("norm", "out_ln"), "head": ("head", "out_head")}


def cut(module: nn.Module, blocks: Sequence[str] | None = None, skip: bool = False) -> BlockNetwork:
    """Returns ``module`` cut into embed, blocks, norm and head; raises if a parameter would belong to no part or two.

    Args:
        module: a `BlockNetwork`; an ``nn.Sequential``, whose first and last layers with parameters are embed and head
            (layers without parameters go with the layer before them); or a module with the attributes ``embed``,
            ``blocks``, ``norm`` or ``out_ln``, ``head`` or ``out_head`` (all but ``blocks`` optional).
        blocks: names of the submodules that are blocks, in order; in an ``nn.Sequential`` everything before them is the
            embed and everything after them the head.
        skip: whether each block's output is added to its input. Anything else that ``module.forward`` does, such as an
            activation between parts, is not detected here: compare the outputs.
    """
    if isinstance(module, BlockNetwork):
        return module
    if isinstance(module, nn.Sequential):
        net = _cut_sequential(module) if blocks is None else _cut_at(module, list(blocks))
    else:
        net = _cut_by_name(module, blocks)
    net.skip = skip
    barren = next((number for number, block in enumerate(net.blocks) if not _learns(block)), None)
    if barren is not None:
        raise KymographError(f"block {barren} has no parameters and cannot learn; name blocks that have some")
    owned = [id(parameter) for part in (net.embed, *net.blocks, net.norm, net.head) for parameter in part.parameters()]
    distinct = set(owned)
    if len(owned) > len(distinct):
        raise KymographError(
            "two parts of the cut network share parameters, which cannot learn from two credits; untie them"
        )
    lost = next((name for name, parameter in module.named_parameters() if id(parameter) not in distinct), None)
    if lost is not None:
        raise KymographError(
            f"{lost} belongs to no part of the cut network; name the module's parts embed, blocks, norm (or out_ln) "
            "and head (or out_head), or make it an nn.Sequential"
        )
    return net


def cut_faithfully(module: nn.Module, blocks: Sequence[str] | None = None, example: Any = None) -> BlockNetwork:
    """Returns ``module`` cut into parts; raises if the cut network does not compute what the module does.

    A ``forward`` may do more than call its parts in order. Outputs are compared on ``example``, or on inputs guessed
    from the first layer.
    """
    if isinstance(module, BlockNetwork | ReplicaNetwork):
        return module  # type: ignore[return-value]  # a rule without support for replicas raises itself
    net = cut(module, blocks)
    x = guess_example(module) if example is None else example
    with evaluation_mode(module), torch.no_grad():
        expected, outputs = module(x), net(x)
    if expected.shape != outputs.shape or not torch.allclose(expected, outputs, rtol=1e-4, atol=1e-6):
        raise KymographError(
            f"calling the parts of {type(module).__name__} in order does not give its outputs; move what its forward "
            "does between parts into the blocks, or use a rule that acts on layers, such as fa"
        )
    return net


def _cut_sequential(module: nn.Sequential) -> BlockNetwork:
    layers = _with_followers(list(module))  # `children()` would skip a repeated layer
    if len(layers) < 3:
        raise KymographError(
            f"this nn.Sequential has {len(layers)} layers with parameters; embed, block and head need 3"
        )
    embed, *blocks, head = layers
    return BlockNetwork(embed, blocks, nn.Identity(), head)


def _with_followers(children: Sequence[nn.Module]) -> list[nn.Module]:
    """Returns groups of layers: one with parameters, then those without; leading ones join the first group."""
    groups: list[list[nn.Module]] = [[]]
    for child in children:
        if _learns(child) and any(map(_learns, groups[-1])):
            groups.append([])
        groups[-1].append(child)
    return [group[0] if len(group) == 1 else nn.Sequential(*group) for group in groups]


def _learns(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _cut_at(module: nn.Sequential, chosen: list[str]) -> BlockNetwork:
    names, children = list(module._modules), list(module)  # a repeated layer has one name per occurrence
    unknown = [name for name in chosen if name not in names]
    if unknown or not chosen:
        what = f"there is no block {unknown[0]!r}" if unknown else "no block is named"
        raise KymographError(f"{what}; this nn.Sequential has {names}")
    first, last = names.index(chosen[0]), names.index(chosen[-1])
    if names[first : last + 1] != chosen:
        raise KymographError(f"the blocks {chosen} must follow one another in the nn.Sequential {names}")
    before, after = nn.Sequential(*children[:first]), nn.Sequential(*children[last + 1 :])
    return BlockNetwork(before, _with_followers(children[first : last + 1]), nn.Identity(), after)


def _cut_by_name(module: nn.Module, blocks: Sequence[str] | None) -> BlockNetwork:
    inner = getattr(module, "blocks", None)
    if blocks is not None:
        known = dict(module.named_modules())
        unknown = next((name for name in blocks if name not in known), None)
        if unknown is not None or not blocks:
            raise KymographError(
                f"this network has no submodule {unknown!r} to use as a block" if blocks else "name at least one block"
            )
        chosen = [known[name] for name in blocks]
    elif isinstance(inner, nn.Sequential):
        chosen = _with_followers(list(inner))
    elif isinstance(inner, nn.ModuleList):
        chosen = list(inner)
    else:
        raise KymographError(
            "a network needs `.blocks` (an nn.ModuleList or nn.Sequential) to be cut; otherwise make it an "
            "nn.Sequential, or name its blocks"
        )
    parts = [
        next((part for name in names if isinstance(part := getattr(module, name, None), nn.Module)), nn.Identity())
        for names in _NAMES.values()
    ]
    embed, norm, head = parts
    return BlockNetwork(embed, chosen, norm, head)
