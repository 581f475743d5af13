"""Networks: image models cut into blocks, and networks of many replicas.

An image model is a class or function that returns a `BlockNetwork` for images (channels, size, size). A module declares
its models in ``PARTS`` (or one, called ``build``, in ``PART``) with what a study must know before torch is loaded: the
``settings`` besides depth and width, and ``width_multiple_of``, if the width must be a multiple of some number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kymograph.parts import Registry

if TYPE_CHECKING:
    import torch

    from kymograph_studies.models.blocks import BlockNetwork


MODELS = Registry("kymograph.models", "kymograph_studies.models", "build")


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
    """Returns the model called ``name`` for images (channels, size, size), with initial weights from ``draw``.

        net = draw_model("resmlp", 3, 32, 10, script_generator(42), depth=4, width=256, skip=False)

    ``settings`` may contain settings of any model; those that this model does not have are ignored.
    """
    import torch

    from kymograph_studies.models.blocks import initialise

    known = MODELS.part(name).properties.get("settings", ())
    accepted = {key: value for key, value in settings.items() if key in known}
    with torch.random.fork_rng(devices=[]):  # torch initialises from the global generator; all is redrawn below
        net: BlockNetwork = MODELS.load(name)(channels, size, classes, depth=depth, width=width, **accepted)
    initialise(net, draw)
    return net
