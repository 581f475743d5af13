"""Analyses of networks, during and after training; the registry of nulls.

[analysis.nulls] Nulls of a credit cosine: what the cosine is when there is nothing to find. Each null is one module.

Each defines ``draw(pairs, matrices, serving, draws, seed)``: the mean cosine at every point of the stream and draw,
shape (points, draws). Point i pairs errors with gradients (``pairs[i]``) and is served by ``matrices[serving[i]]``. All
points have the errors of the same images. A draw is joint: calibration averages it over points, so whatever the points
share in the network, a matrix or the images, they must share in the draw.
"""

from __future__ import annotations

from kymograph.registry import Registry

NULLS = Registry("kymograph.nulls", "kymograph_studies.analysis", "draw")
REFERENCE = "fresh"
"""The null of the corrected p-values and of the tables: matrices from the distribution of the training matrices."""


def null_label(name: str) -> str:
    """Returns the label of a null for figures, or its name if it declares none."""
    return str(NULLS.part(name).properties.get("label", name))
