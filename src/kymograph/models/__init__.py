"""Networks: those cut into blocks, a module each, and those that hold many replicas at once.

A model of images is one module with a ``PART`` and a function ``build``. What a study must know of a model before torch
is loaded is in its ``PART``: the ``settings`` that it has besides depth and width, and what its width must be a
``width_multiple_of``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kymograph.registry import Registry

if TYPE_CHECKING:
    import torch

    from kymograph.models.blocks import BlockNetwork

MODELS = Registry("kymograph.models", "build")


def draw_model(
    name: str,
    channels: int,
    size: int,
    classes: int,
    draw: torch.Generator,
    *,
    depth: int,
    width: int,
    **settings: float | bool,
) -> BlockNetwork:
    """Returns the model called ``name`` for images (channels, size, size), with first weights from ``draw``.

        net = draw_model("resmlp", 3, 32, 10, streams.script_generator(42), depth=4, width=256, skip=False)

    ``settings`` may name any setting of any model; those that this one does not have make no difference to it.
    """
    import torch

    from kymograph.models.initialise import initialise

    known = MODELS.part(name).facts.get("settings", ())
    mine = {key: value for key, value in settings.items() if key in known}
    with torch.random.fork_rng(
        devices=[]
    ):  # torch's own first weights come from the global generator; they are redrawn
        net: BlockNetwork = MODELS.load(name)(channels, size, classes, depth=depth, width=width, **mine)
    initialise(net, draw)
    return net
