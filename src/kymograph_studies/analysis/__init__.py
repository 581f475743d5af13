"""Analyses of networks, during and after training; the registry of nulls.

A null is what a credit cosine is when there is nothing to find. It is a function ``draw(pairs, matrices, serving,
draws, seed)`` that returns the mean cosine at every point of the stream and draw, shape (points, draws). Point i pairs
errors with gradients (``pairs[i]``) and is served by ``matrices[serving[i]]``; all points have the errors of the same
images. Calibration averages a draw over points, so the points of a draw share whatever they share in the network: a
matrix, or the images.
"""

from __future__ import annotations

from kymograph.parts import Registry

NULLS = Registry("kymograph.nulls", "kymograph_studies.analysis", "draw")
REFERENCE = "fresh"
"""The null of the corrected p-values and of the tables: matrices from the distribution of the training matrices."""


def null_label(name: str) -> str:
    """Returns the label of a null for figures, or its name if it declares none."""
    return str(NULLS.part(name).properties.get("label", name))
